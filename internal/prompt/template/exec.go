package template

import "strings"

func (n *dataStmt) exec(r *render, _ *scope) error { return r.write(n.text) }

func (n *printStmt) exec(r *render, s *scope) error {
	v, err := n.e.eval(r, s)
	if err != nil {
		return at(err, n.line)
	}
	text, err := str(v)
	if err != nil {
		return at(err, n.line)
	}
	return at(r.write(text), n.line)
}

func (n *ifStmt) exec(r *render, s *scope) error {
	for i, test := range n.tests {
		v, err := test.eval(r, s)
		if err != nil {
			return at(err, n.line)
		}
		if truth(v) {
			return run(r, n.bodies[i], s)
		}
	}
	return run(r, n.orElse, s)
}

func (n *forStmt) exec(r *render, s *scope) error {
	v, err := n.iter.eval(r, s)
	if err != nil {
		return at(err, n.line)
	}
	return n.rounds(r, s, v, 0)
}

func (n *forStmt) rounds(r *render, s *scope, over value, depth int) error {
	items, err := iterate(over)
	if err != nil {
		return at(err, n.line)
	}
	if n.test != nil {
		var kept []value
		for _, item := range items {
			inner := s.inner()
			if err := n.target.assign(inner, item); err != nil {
				return at(err, n.line)
			}
			v, err := n.test.eval(r, inner)
			if err != nil {
				return at(err, n.line)
			}
			if truth(v) {
				kept = append(kept, item)
			}
		}
		items = kept
	}
	if len(items) == 0 {
		return run(r, n.orElse, s.inner())
	}
	loop := &loopVar{items: items, depth: depth}
	if n.recursive {
		loop.again = func(over value) (value, error) {
			outer := r.out
			r.out = &strings.Builder{}
			err := r.nested(func() error { return n.rounds(r, s, over, depth+1) })
			text := r.out.String()
			r.out = outer
			return text, err
		}
	}
	// As in Jinja2's compiled code, else runs unless some round reached its end: break and continue leave it early.
	finished := false
	for i, item := range items {
		if err := r.step(); err != nil {
			return at(err, n.line)
		}
		inner := s.inner()
		loop.index = i
		inner.set("loop", loop)
		if err := n.target.assign(inner, item); err != nil {
			return at(err, n.line)
		}
		err := run(r, n.body, inner)
		if err == errBreak {
			break
		}
		if err != nil && err != errContinue {
			return err
		}
		finished = finished || err == nil
	}
	if finished {
		return nil
	}
	return run(r, n.orElse, s.inner())
}

// nested counts a macro inside a macro: unbounded recursion ends as Python's does.
func (r *render) nested(do func() error) error {
	if r.calls++; r.calls > r.limits.Calls {
		return raise("RecursionError", "maximum recursion depth exceeded (more than %d calls inside each other)", r.limits.Calls)
	}
	defer func() { r.calls-- }()
	return do()
}

func (t target) assign(s *scope, v value) error {
	switch {
	case t.tuple:
		if _, bad := v.(*undefined); bad {
			v = &seq{}
		}
		items, err := iterate(v)
		if err != nil {
			return typeError("cannot unpack non-iterable %s object", typeName(v))
		}
		if len(items) != len(t.parts) {
			few := "not enough values to unpack (expected %d, got %d)"
			if len(items) > len(t.parts) {
				few = "too many values to unpack (expected %d, got %d)"
			}
			return raise("ValueError", few, len(t.parts), len(items))
		}
		for i, part := range t.parts {
			if err := part.assign(s, items[i]); err != nil {
				return err
			}
		}
	case t.attr != "":
		v0, _ := s.get(t.name)
		ns, ok := v0.(*namespace)
		if !ok {
			return raise("TemplateRuntimeError", "cannot assign attribute on non-namespace object")
		}
		ns.attrs.set(t.attr, v)
	default:
		s.set(t.name, v)
	}
	return nil
}

func (n *setStmt) exec(r *render, s *scope) error {
	v, err := n.e.eval(r, s)
	if err != nil {
		return at(err, n.line)
	}
	return at(n.target.assign(s, v), n.line)
}

func (n *setBlockStmt) exec(r *render, s *scope) error {
	text, err := r.capture(n.body, s.inner())
	if err != nil {
		return err
	}
	v := value(text)
	if n.filter != nil {
		inner := s.inner()
		inner.set(blockText, text)
		if v, err = n.filter.eval(r, inner); err != nil {
			return at(err, n.line)
		}
	}
	return at(n.target.assign(s, v), n.line)
}

// blockText is the name, impossible in a template, under which a filter block's text waits for its filter.
const blockText = " text"

func (n *filterStmt) exec(r *render, s *scope) error {
	inner := s.inner()
	text, err := r.capture(n.body, inner)
	if err != nil {
		return err
	}
	inner.set(blockText, text)
	v, err := n.filter.eval(r, inner)
	if err != nil {
		return at(err, n.line)
	}
	out, err := str(v)
	if err != nil {
		return at(err, n.line)
	}
	return r.write(out)
}

func (n *withStmt) exec(r *render, s *scope) error {
	inner := s.inner()
	for i, e := range n.values {
		v, err := e.eval(r, s)
		if err != nil {
			return at(err, n.line)
		}
		if err := n.targets[i].assign(inner, v); err != nil {
			return at(err, n.line)
		}
	}
	return run(r, n.body, inner)
}

func (n *generationStmt) exec(r *render, s *scope) error {
	from := r.out.Len()
	if err := run(r, n.body, s.inner()); err != nil {
		return err
	}
	if r.out == r.top {
		r.spans = append(r.spans, Span{from, r.out.Len()})
	}
	return nil
}

func (n *blockStmt) exec(r *render, s *scope) error {
	for s.parent != nil && s.parent.parent != nil { // a block sees the page's names only
		s = s.parent
	}
	return run(r, n.body, s.inner())
}

func (n *loaderStmt) exec(*render, *scope) error {
	return at(typeError("no loader for this environment specified ({%% %s %%})", n.what), n.line)
}

func (breakStmt) exec(*render, *scope) error    { return errBreak }
func (continueStmt) exec(*render, *scope) error { return errContinue }

func (n *macroStmt) exec(r *render, s *scope) error {
	s.set(n.m.name, &macro{n.m, s})
	return nil
}

func (n *callStmt) exec(r *render, s *scope) error {
	f, err := n.call.f.eval(r, s)
	if err != nil {
		return at(err, n.line)
	}
	args, named, err := n.call.values(r, s)
	if err != nil {
		return at(err, n.line)
	}
	v, err := r.call(f, args, append(named, keyword{"caller", &macro{n.m, s}}))
	if err != nil {
		return at(err, n.line)
	}
	text, err := str(v)
	if err != nil {
		return at(err, n.line)
	}
	return at(r.write(text), n.line)
}
