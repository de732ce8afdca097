package template

// keyword is an argument passed by name.
type keyword struct {
	name string
	v    value
}

// function is a callable that is not a macro.
type function struct {
	name string
	do   func(r *render, args []value, named []keyword) (value, error)
}

// macro is a {% macro %} with the scope that it was defined in.
type macro struct {
	def *macroDef
	s   *scope
}

func (a *arguments) values(r *render, s *scope) ([]value, []keyword, error) {
	args := make([]value, 0, len(a.args))
	for _, e := range a.args {
		v, err := e.eval(r, s)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, v)
	}
	var named []keyword
	for i, e := range a.named {
		v, err := e.eval(r, s)
		if err != nil {
			return nil, nil, err
		}
		named = append(named, keyword{a.names[i], v})
	}
	if a.star != nil {
		v, err := a.star.eval(r, s)
		if err != nil {
			return nil, nil, err
		}
		more, err := iterate(v)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, more...)
	}
	if a.stars != nil {
		v, err := a.stars.eval(r, s)
		if err != nil {
			return nil, nil, err
		}
		d, ok := v.(*dict)
		if !ok {
			return nil, nil, typeError("argument after ** must be a mapping, not %s", typeName(v))
		}
		for i, k := range d.keys {
			name, ok := k.(string)
			if !ok {
				return nil, nil, typeError("keywords must be strings")
			}
			named = append(named, keyword{name, d.values[i]})
		}
	}
	for i := range named {
		for j := range i {
			if named[i].name == named[j].name {
				return nil, nil, typeError("got multiple values for keyword argument '%s'", named[i].name)
			}
		}
	}
	return args, named, nil
}

func (n *callExpr) eval(r *render, s *scope) (value, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	f, err := n.f.eval(r, s)
	if err != nil {
		return nil, err
	}
	args, named, err := n.values(r, s)
	if err != nil {
		return nil, err
	}
	return r.call(f, args, named)
}

func (r *render) call(f value, args []value, named []keyword) (value, error) {
	switch f := f.(type) {
	case *function:
		return f.do(r, args, named)
	case *macro:
		var text string
		err := r.nested(func() (err error) {
			text, err = r.callMacro(f, args, named)
			return err
		})
		return text, err
	case *undefined:
		return nil, f.err()
	case *loopVar:
		if f.again == nil {
			return nil, typeError("The loop must have the 'recursive' marker to be called recursively.")
		}
		if len(args) != 1 || len(named) > 0 {
			return nil, typeError("loop() takes one argument")
		}
		return f.again(args[0])
	case *cycler, *namespace:
	}
	return nil, typeError("'%s' object is not callable", typeName(f))
}

func (r *render) callMacro(m *macro, args []value, named []keyword) (string, error) {
	d := m.def
	s := m.s.inner()
	take := func(name string) (value, bool) {
		for i := range named {
			if named[i].name == name {
				v := named[i].v
				named = append(append([]keyword{}, named[:i]...), named[i+1:]...)
				return v, true
			}
		}
		return nil, false
	}
	for i, name := range d.params {
		v, byName := take(name)
		fallback := i - (len(d.params) - len(d.defaults))
		switch {
		case i < len(args) && byName:
			return "", typeError("macro '%s' got multiple values for argument '%s'", d.name, name)
		case i < len(args):
			v = args[i]
		case byName:
		case fallback >= 0:
			var err error
			if v, err = d.defaults[fallback].eval(r, s); err != nil {
				return "", at(err, d.line)
			}
		default:
			v = &undefined{"parameter '" + name + "' was not provided", "UndefinedError"}
		}
		s.set(name, v)
	}
	if d.caller {
		if v, ok := take("caller"); ok {
			s.set("caller", v)
		} else {
			s.set("caller", &undefined{"No caller defined", "UndefinedError"})
		}
	}
	if d.kwargs {
		rest := &dict{}
		for _, k := range named {
			rest.set(k.name, k.v)
		}
		s.set("kwargs", rest)
	} else if len(named) > 0 {
		if named[0].name == "caller" {
			return "", typeError("macro '%s' was invoked with two values for the special caller argument, or takes no caller", d.name)
		}
		return "", typeError("macro '%s' takes no keyword argument '%s'", d.name, named[0].name)
	}
	rest := args[min(len(d.params), len(args)):]
	if d.varargs {
		s.set("varargs", &seq{kind: kindTuple, items: rest})
	} else if len(rest) > 0 {
		return "", typeError("macro '%s' takes not more than %d argument(s)", d.name, len(d.params))
	}
	return r.capture(d.body, s)
}
