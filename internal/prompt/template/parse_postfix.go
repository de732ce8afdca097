package template

func (p *parser) postfix(e expr) (expr, error) {
	for p.cur().kind == tokOperator {
		var err error
		switch p.cur().text {
		case ".":
			e, err = p.dot(e)
		case "[":
			e, err = p.subscript(e)
		case "(":
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (p *parser) dot(e expr) (expr, error) {
	p.next()
	switch t := p.next(); t.kind {
	case tokName:
		return &attrExpr{e, t.text}, nil
	case tokInteger:
		return &itemExpr{e, &constExpr{t.num}}, nil
	}
	return nil, p.fail("expected name or number")
}

func (p *parser) subscript(e expr) (expr, error) {
	p.next()
	var parts []expr
	for !p.isOp("]") {
		if len(parts) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		part, err := p.subscribed()
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	if err := p.expectOp("]"); err != nil {
		return nil, err
	}
	if len(parts) != 1 {
		return &itemExpr{e, &tupleExpr{parts}}, nil
	}
	if s, ok := parts[0].(*sliceExpr); ok {
		s.a = e
		return s, nil
	}
	return &itemExpr{e, parts[0]}, nil
}

// subscribed reads what is between brackets: an expression, or from:to:step.
func (p *parser) subscribed() (expr, error) {
	s := &sliceExpr{}
	part := func() (expr, error) {
		if p.isOp(":") || p.isOp("]") || p.isOp(",") {
			return nil, nil
		}
		return p.expression()
	}
	var err error
	if s.from, err = part(); err != nil {
		return nil, err
	}
	if !p.skipOp(":") {
		if s.from == nil {
			return nil, p.fail("unexpected '%s'", p.cur().describe())
		}
		return s.from, nil
	}
	if s.to, err = part(); err != nil {
		return nil, err
	}
	if p.skipOp(":") {
		if s.step, err = part(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (p *parser) call(e expr) (expr, error) {
	a, err := p.arguments()
	return &callExpr{e, a}, err
}

func (p *parser) arguments() (arguments, error) {
	var a arguments
	if err := p.expectOp("("); err != nil {
		return a, err
	}
	for first := true; !p.isOp(")"); first = false {
		if !first {
			if err := p.expectOp(","); err != nil {
				return a, err
			}
			if p.isOp(")") {
				break
			}
		}
		var err error
		switch named := p.cur().kind == tokName && p.look().kind == tokOperator && p.look().text == "="; {
		case p.isOp("*") && a.star == nil && a.stars == nil:
			p.next()
			a.star, err = p.expression()
		case p.isOp("**") && a.stars == nil:
			p.next()
			a.stars, err = p.expression()
		case named && a.stars == nil:
			a.names = append(a.names, p.next().text)
			p.next()
			var e expr
			e, err = p.expression()
			a.named = append(a.named, e)
		case !named && a.star == nil && a.stars == nil && len(a.names) == 0:
			var e expr
			e, err = p.expression()
			a.args = append(a.args, e)
		default:
			err = p.fail("invalid syntax for function call expression")
		}
		if err != nil {
			return a, err
		}
	}
	return a, p.expectOp(")")
}

// filters reads |filter, "is test" and calls of what they gave.
func (p *parser) filters(e expr) (expr, error) {
	for {
		var err error
		switch {
		case p.isOp("|"):
			p.next()
			e, err = p.filter(e)
		case p.isName("is"):
			e, err = p.test(e)
		case p.isOp("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) dotted() (string, error) {
	name, err := p.expectName()
	for err == nil && p.skipOp(".") {
		var more string
		more, err = p.expectName()
		name += "." + more
	}
	return name, err
}

func (p *parser) filter(e expr) (expr, error) {
	line := p.cur().line
	name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	f := &filterExpr{a: e, name: name, do: filters[name]}
	if f.do == nil {
		if unbuiltFilters[name] {
			return nil, at(unknown("the filter %s is not built here", name), line)
		}
		if !p.soft {
			return nil, at(raise("TemplateAssertionError", "No filter named '%s'.", name), line)
		}
	}
	if p.isOp("(") {
		f.arguments, err = p.arguments()
	}
	return f, err
}

func (p *parser) test(e expr) (expr, error) {
	line := p.next().line
	negated := p.skipName("not")
	name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	t := &testExpr{a: e, name: name, do: tests[name]}
	if t.do == nil && !p.soft {
		return nil, at(raise("TemplateAssertionError", "No test named '%s'.", name), line)
	}
	switch c := p.cur(); {
	case p.isOp("("):
		t.arguments, err = p.arguments()
	case c.kind == tokString || c.kind == tokInteger || c.kind == tokFloat || p.isOp("[") || p.isOp("{") ||
		c.kind == tokName && c.text != "else" && c.text != "or" && c.text != "and":
		if p.isName("is") {
			return nil, p.fail("You cannot chain multiple tests with is")
		}
		var arg expr
		if arg, err = p.primary(); err == nil {
			arg, err = p.postfix(arg)
		}
		t.args = []expr{arg}
	}
	if err != nil {
		return nil, err
	}
	if negated {
		return &notExpr{t}, nil
	}
	return t, nil
}
