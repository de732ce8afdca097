package template

type testFunc func(r *render, v value, args []value) (value, error)

func plainTest(is func(v value) bool) testFunc {
	return func(_ *render, v value, args []value) (value, error) {
		if len(args) > 0 {
			return nil, typeError("the test takes no arguments")
		}
		return is(v), nil
	}
}

func binaryTest(op string) testFunc {
	return func(_ *render, v value, args []value) (value, error) {
		if len(args) != 1 {
			return nil, typeError("the test takes one argument")
		}
		return compare(op, v, args[0])
	}
}

func isType[T any](v value) bool {
	_, ok := v.(T)
	return ok
}

func parity(want int64) testFunc {
	return func(r *render, v value, _ []value) (value, error) {
		m, err := binary(r, "%", v, int64(2))
		if err != nil {
			return nil, err
		}
		return equal(m, want), nil
	}
}

func caseTest(method string) testFunc {
	return func(_ *render, v value, _ []value) (value, error) {
		s, err := str(v)
		if err != nil {
			return nil, err
		}
		return isOf(s, method)
	}
}

func isText(v value) bool { _, ok := asText(v); return ok }

func isSequence(v value) bool {
	if s, ok := v.(*seq); ok {
		return s.kind != kindGenerator && s.kind != kindView
	}
	return isText(v) || isType[*dict](v) || isType[*undefined](v)
}

func isIterable(v value) bool {
	return isType[*seq](v) || isText(v) || isType[*dict](v) || isType[*undefined](v) || isType[*loopVar](v)
}

func isCallable(v value) bool {
	// An undefined has __call__, so Python calls it callable.
	return isType[*function](v) || isType[*macro](v) || isType[*undefined](v) || isType[*loopVar](v)
}

// tests are Jinja2's own. A boolean is a number and not an integer; an undefined is iterable and a sequence.
var tests map[string]testFunc

func init() {
	tests = map[string]testFunc{
		"defined":   plainTest(func(v value) bool { return !isType[*undefined](v) }),
		"undefined": plainTest(isType[*undefined]),
		"none":      plainTest(func(v value) bool { return v == nil }),
		"boolean":   plainTest(isType[bool]),
		"true":      plainTest(func(v value) bool { return v == true }),
		"false":     plainTest(func(v value) bool { return v == false }),
		"integer":   plainTest(func(v value) bool { return isInt(v) && !isType[bool](v) }),
		"float":     plainTest(isType[float64]),
		"number":    plainTest(isNumber),
		"string":    plainTest(isText),
		"mapping":   plainTest(isType[*dict]),
		"sequence":  plainTest(isSequence),
		"iterable":  plainTest(isIterable),
		"callable":  plainTest(isCallable),
		"escaped":   plainTest(isType[markup]),
		"odd":       parity(1),
		"even":      parity(0),
		"lower":     caseTest("islower"),
		"upper":     caseTest("isupper"),
		"divisibleby": func(r *render, v value, args []value) (value, error) {
			if len(args) != 1 {
				return nil, typeError("the test takes one argument")
			}
			m, err := binary(r, "%", v, args[0])
			if err != nil {
				return nil, err
			}
			return equal(m, int64(0)), nil
		},
		"sameas": func(_ *render, v value, args []value) (value, error) {
			if len(args) != 1 {
				return nil, typeError("the test takes one argument")
			}
			switch v.(type) {
			case nil, bool:
				return v == args[0], nil
			}
			if typeName(v) != typeName(args[0]) {
				return false, nil
			}
			return nil, unknown("whether two objects are the same one")
		},
		"filter": func(_ *render, v value, _ []value) (value, error) {
			s, _ := asText(v)
			return filters[s] != nil || unbuiltFilters[s], nil
		},
		"test": func(_ *render, v value, _ []value) (value, error) {
			s, _ := asText(v)
			return tests[s] != nil, nil
		},
	}
	for op, names := range map[string][]string{
		"==": {"==", "eq", "equalto"}, "!=": {"!=", "ne"}, "<": {"<", "lt", "lessthan"}, "<=": {"<=", "le"},
		">": {">", "gt", "greaterthan"}, ">=": {">=", "ge"}, "in": {"in"},
	} {
		for _, name := range names {
			tests[name] = binaryTest(op)
		}
	}
}
