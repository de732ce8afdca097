package template

import "strings"

func (n *constExpr) eval(*render, *scope) (value, error) { return n.v, nil }

func (n *nameExpr) eval(r *render, s *scope) (value, error) {
	if v, ok := s.get(n.name); ok {
		return v, nil
	}
	if f, ok := globals[n.name]; ok {
		return f, nil
	}
	switch n.name {
	case "lipsum", "self", "super":
		return nil, unknown("the name %s", n.name)
	}
	return undefinedName(n.name), nil
}

func evalAll(r *render, s *scope, list []expr) ([]value, error) {
	out := make([]value, len(list))
	for i, e := range list {
		var err error
		if out[i], err = e.eval(r, s); err != nil {
			return nil, err
		}
	}
	return out, r.made(16 * len(list))
}

func (n *tupleExpr) eval(r *render, s *scope) (value, error) {
	items, err := evalAll(r, s, n.items)
	return &seq{kind: kindTuple, items: items}, err
}

func (n *listExpr) eval(r *render, s *scope) (value, error) {
	items, err := evalAll(r, s, n.items)
	return list(items), err
}

func (n *dictExpr) eval(r *render, s *scope) (value, error) {
	keys, err := evalAll(r, s, n.keys)
	if err != nil {
		return nil, err
	}
	values, err := evalAll(r, s, n.values)
	if err != nil {
		return nil, err
	}
	d := &dict{}
	for i, k := range keys {
		if !d.set(k, values[i]) {
			return nil, typeError("unhashable type: '%s'", typeName(k))
		}
	}
	return d, nil
}

func (n *condExpr) eval(r *render, s *scope) (value, error) {
	v, err := n.test.eval(r, s)
	if err != nil {
		return nil, err
	}
	if truth(v) {
		return n.yes.eval(r, s)
	}
	if n.no == nil {
		return &undefined{"the inline if-expression evaluated to false and no else section was defined.", "UndefinedError"}, nil
	}
	return n.no.eval(r, s)
}

func (n *andExpr) eval(r *render, s *scope) (value, error) {
	v, err := n.a.eval(r, s)
	if err != nil || !truth(v) {
		return v, err
	}
	return n.b.eval(r, s)
}

func (n *orExpr) eval(r *render, s *scope) (value, error) {
	v, err := n.a.eval(r, s)
	if err != nil || truth(v) {
		return v, err
	}
	return n.b.eval(r, s)
}

func (n *notExpr) eval(r *render, s *scope) (value, error) {
	v, err := n.a.eval(r, s)
	return !truth(v), err
}

func (n *unaryExpr) eval(r *render, s *scope) (value, error) {
	v, err := n.a.eval(r, s)
	if err != nil {
		return nil, err
	}
	switch w := v.(type) {
	case *undefined:
		return nil, w.err()
	case float64:
		if n.op == '-' {
			return -w, nil
		}
		return w, nil
	}
	if !isInt(v) {
		return nil, typeError("bad operand type for unary %c: '%s'", n.op, typeName(v))
	}
	if n.op == '-' {
		return binary(r, "-", int64(0), v)
	}
	return binary(r, "+", int64(0), v)
}

func (n *binExpr) eval(r *render, s *scope) (value, error) {
	a, err := n.a.eval(r, s)
	if err != nil {
		return nil, err
	}
	b, err := n.b.eval(r, s)
	if err != nil {
		return nil, err
	}
	if err := r.step(); err != nil {
		return nil, err
	}
	return binary(r, n.op, a, b)
}

func (n *concatExpr) eval(r *render, s *scope) (value, error) {
	var b strings.Builder
	for _, e := range n.items {
		v, err := e.eval(r, s)
		if err != nil {
			return nil, err
		}
		text, err := str(v)
		if err != nil {
			return nil, err
		}
		b.WriteString(text)
	}
	return b.String(), r.made(b.Len())
}

func (n *compareExpr) eval(r *render, s *scope) (value, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	a, err := n.first.eval(r, s)
	if err != nil {
		return nil, err
	}
	for i, op := range n.ops {
		b, err := n.rest[i].eval(r, s)
		if err != nil {
			return nil, err
		}
		r.cost(a, b)
		yes, err := compare(op, a, b)
		if err != nil || !yes {
			return false, err
		}
		a = b
	}
	return true, nil
}

func (n *attrExpr) eval(r *render, s *scope) (value, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	v, err := n.a.eval(r, s)
	if err != nil {
		return nil, err
	}
	return getAttr(v, n.name)
}

func (n *itemExpr) eval(r *render, s *scope) (value, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	v, err := n.a.eval(r, s)
	if err != nil {
		return nil, err
	}
	key, err := n.key.eval(r, s)
	if err != nil {
		return nil, err
	}
	if _, text := asText(v); text {
		r.cost(v)
	}
	return getItem(v, key)
}

func (n *sliceExpr) eval(r *render, s *scope) (value, error) {
	if n.a == nil {
		return nil, unknown("a slice inside a tuple of subscripts")
	}
	v, err := n.a.eval(r, s)
	if err != nil {
		return nil, err
	}
	bounds := [3]value{}
	for i, e := range []expr{n.from, n.to, n.step} {
		if e == nil {
			continue
		}
		if bounds[i], err = e.eval(r, s); err != nil {
			return nil, err
		}
	}
	r.cost(v)
	return sliceOf(r, v, bounds)
}

func (n *filterExpr) eval(r *render, s *scope) (value, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	var v value
	var err error
	if n.a == nil {
		v, _ = s.get(blockText)
	} else if v, err = n.a.eval(r, s); err != nil {
		return nil, err
	}
	args, named, err := n.values(r, s)
	if err != nil {
		return nil, err
	}
	r.cost(v)
	if n.do == nil {
		return nil, raise("TemplateRuntimeError", "No filter named '%s' found.", n.name)
	}
	return n.do(r, v, args, named)
}

func (n *testExpr) eval(r *render, s *scope) (value, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	v, err := n.a.eval(r, s)
	if err != nil {
		return nil, err
	}
	args, named, err := n.values(r, s)
	if err != nil {
		return nil, err
	}
	r.cost(v)
	if n.do == nil {
		return nil, raise("TemplateRuntimeError", "No test named '%s' found.", n.name)
	}
	if len(named) > 0 {
		return nil, unknown("a test with named arguments")
	}
	return n.do(r, v, args)
}
