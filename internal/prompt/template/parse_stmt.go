package template

import "slices"

func parse(src string) ([]stmt, error) {
	tokens, err := lex(src)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	body, _, err := p.body()
	return body, err
}

// body reads statements up to one of the closing tags, whose name is read too.
func (p *parser) body(ends ...string) ([]stmt, string, error) {
	if err := p.enter(); err != nil {
		return nil, "", err
	}
	defer func() { p.depth-- }()
	var out []stmt
	for {
		switch t := p.cur(); t.kind {
		case tokEOF:
			if len(ends) > 0 {
				return nil, "", p.fail("Unexpected end of template. Jinja was looking for the following tags: '%s'.", ends[len(ends)-1])
			}
			return out, "", nil
		case tokData:
			p.next()
			out = append(out, &dataStmt{t.text})
		case tokPrintBegin:
			p.next()
			e, err := p.tuple(false)
			if err != nil {
				return nil, "", err
			}
			if p.cur().kind != tokPrintEnd {
				return nil, "", p.fail("expected token 'end of print statement', got '%s'", p.cur().describe())
			}
			p.next()
			out = append(out, &printStmt{e, t.line})
		default:
			p.next()
			if c := p.cur(); c.kind == tokName && slices.Contains(ends, c.text) {
				p.next()
				return out, c.text, nil
			}
			s, err := p.statement()
			if err != nil {
				return nil, "", err
			}
			if err := p.blockEnd(); err != nil {
				return nil, "", err
			}
			out = append(out, s)
		}
	}
}

func (p *parser) blockEnd() error {
	if p.cur().kind != tokBlockEnd {
		return p.fail("expected token 'end of statement block', got '%s'", p.cur().describe())
	}
	p.next()
	return nil
}

// inner reads a body in which an unknown filter is found at once, up to its end tag; the tag itself is left to body's caller.
func (p *parser) inner(ends ...string) ([]stmt, string, error) {
	if err := p.blockEnd(); err != nil {
		return nil, "", err
	}
	soft := p.soft
	p.soft = false
	defer func() { p.soft = soft }()
	return p.body(ends...)
}

func (p *parser) statement() (stmt, error) {
	line := p.cur().line
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	switch name {
	case "if":
		return p.ifStmt(line)
	case "for":
		return p.forStmt(line)
	case "set":
		return p.setStmt(line)
	case "macro":
		return p.macroStmt(line)
	case "call":
		return p.callStmt(line)
	case "filter":
		f, err := p.firstFilter()
		if err != nil {
			return nil, err
		}
		body, _, err := p.inner("endfilter")
		return &filterStmt{f, body, line}, err
	case "with":
		return p.withStmt(line)
	case "print":
		e, err := p.list2()
		return &printStmt{e, line}, err
	case "generation":
		body, _, err := p.inner("endgeneration")
		return &generationStmt{body}, err
	case "block":
		name, err := p.expectName()
		if err != nil {
			return nil, err
		}
		p.skipName("scoped")
		p.skipName("required")
		body, _, err := p.inner("endblock")
		if err == nil && p.isName(name) {
			p.next()
		}
		return &blockStmt{body}, err
	case "break", "continue":
		if p.loops == 0 {
			return nil, at(raise("SyntaxError", "'%s' outside loop", name), line)
		}
		if name == "break" {
			return breakStmt{}, nil
		}
		return continueStmt{}, nil
	case "extends", "include", "import", "from":
		for k := p.cur().kind; k != tokBlockEnd && k != tokEOF; k = p.cur().kind {
			p.next()
		}
		return &loaderStmt{name, line}, nil
	case "autoescape":
		return nil, at(unknown("{%% autoescape %%}"), line)
	}
	return nil, at(raise("TemplateSyntaxError", "Encountered unknown tag '%s'.", name), line)
}

func (p *parser) firstFilter() (expr, error) {
	f, err := p.filter(nil)
	for err == nil && p.skipOp("|") {
		f, err = p.filter(f)
	}
	return f, err
}

// list2 reads what {% print a, b %} prints.
func (p *parser) list2() (expr, error) {
	c := &concatExpr{}
	for p.cur().kind != tokBlockEnd {
		if len(c.items) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		c.items = append(c.items, e)
	}
	return c, nil
}

func (p *parser) ifStmt(line int) (stmt, error) {
	n := &ifStmt{line: line}
	soft := p.soft
	p.soft = true
	defer func() { p.soft = soft }()
	for {
		test, err := p.tupleOf(false, p.or)
		if err != nil {
			return nil, err
		}
		if err := p.blockEnd(); err != nil {
			return nil, err
		}
		body, end, err := p.body("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		n.tests, n.bodies = append(n.tests, test), append(n.bodies, body)
		switch end {
		case "elif":
			continue
		case "else":
			if err := p.blockEnd(); err != nil {
				return nil, err
			}
			n.orElse, _, err = p.body("endif")
		}
		return n, err
	}
}

func (p *parser) forStmt(line int) (stmt, error) {
	n := &forStmt{line: line}
	var err error
	if n.target, err = p.target(false); err != nil {
		return nil, err
	}
	if !p.skipName("in") {
		return nil, p.fail("expected token 'in', got '%s'", p.cur().describe())
	}
	// "x if y" here is a filtered loop, not an inline if.
	if n.iter, err = p.loopOver(); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if n.test, err = p.expression(); err != nil {
			return nil, err
		}
	}
	n.recursive = p.skipName("recursive")
	p.loops++
	body, end, err := p.inner("endfor", "else")
	p.loops--
	if err != nil {
		return nil, err
	}
	n.body = body
	if end == "else" {
		n.orElse, _, err = p.inner("endfor")
	}
	return n, err
}

func (p *parser) loopOver() (expr, error) {
	e, err := p.or()
	if err != nil || !p.isOp(",") {
		return e, err
	}
	items := []expr{e}
	for p.skipOp(",") {
		if p.cur().kind == tokBlockEnd || p.isName("recursive") {
			break
		}
		if e, err = p.or(); err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return &tupleExpr{items}, nil
}

// target reads "a", "a, b", "(a, b)" or, where attrs may be set, "ns.a".
func (p *parser) target(attrs bool) (target, error) {
	var parts []target
	for {
		t, err := p.oneTarget(attrs)
		if err != nil {
			return t, err
		}
		parts = append(parts, t)
		if !p.skipOp(",") {
			if len(parts) == 1 {
				return t, nil
			}
			return target{parts: parts, tuple: true}, nil
		}
		if p.isName("in") || p.isOp("=") || p.isOp(")") || p.cur().kind == tokBlockEnd {
			return target{parts: parts, tuple: true}, nil
		}
	}
}

func (p *parser) oneTarget(attrs bool) (target, error) {
	if p.isOp("(") {
		if err := p.enter(); err != nil {
			return target{}, err
		}
		defer func() { p.depth-- }()
		p.next()
		t, err := p.target(attrs)
		if err != nil {
			return t, err
		}
		return t, p.expectOp(")")
	}
	name, err := p.expectName()
	if err != nil {
		return target{}, err
	}
	switch name {
	case "true", "false", "none", "True", "False", "None":
		return target{}, p.fail("can't assign to '%s'", name)
	case "loop":
		if !attrs {
			return target{}, p.fail("Can't assign to special loop variable in for-loop target")
		}
	}
	t := target{name: name}
	if attrs && p.skipOp(".") {
		t.attr, err = p.expectName()
	}
	return t, err
}

func (p *parser) setStmt(line int) (stmt, error) {
	t, err := p.target(true)
	if err != nil {
		return nil, err
	}
	if p.skipOp("=") {
		e, err := p.tuple(false)
		return &setStmt{t, e, line}, err
	}
	n := &setBlockStmt{target: t, line: line}
	if p.skipOp("|") {
		if n.filter, err = p.firstFilter(); err != nil {
			return nil, err
		}
	}
	n.body, _, err = p.inner("endset")
	return n, err
}

// signature reads "(a, b=1)".
func (p *parser) signature(m *macroDef) error {
	if err := p.expectOp("("); err != nil {
		return err
	}
	for !p.isOp(")") {
		if len(m.params) > 0 {
			if err := p.expectOp(","); err != nil {
				return err
			}
		}
		name, err := p.expectName()
		if err != nil {
			return err
		}
		m.params = append(m.params, name)
		if p.skipOp("=") {
			e, err := p.expression()
			if err != nil {
				return err
			}
			m.defaults = append(m.defaults, e)
		} else if len(m.defaults) > 0 {
			return p.fail("non-default argument follows default argument")
		}
	}
	return p.expectOp(")")
}

func (p *parser) macroBody(m *macroDef, end string) error {
	p.macros = append(p.macros, m)
	loops := p.loops
	p.loops = 0
	var err error
	m.body, _, err = p.inner(end)
	p.loops = loops
	p.macros = p.macros[:len(p.macros)-1]
	for _, name := range m.params { // a parameter of that name is not the special one
		m.varargs = m.varargs && name != "varargs"
		m.kwargs = m.kwargs && name != "kwargs"
		m.caller = m.caller && name != "caller"
	}
	return err
}

func (p *parser) macroStmt(line int) (stmt, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	m := &macroDef{name: name, line: line}
	if err := p.signature(m); err != nil {
		return nil, err
	}
	return &macroStmt{m}, p.macroBody(m, "endmacro")
}

func (p *parser) callStmt(line int) (stmt, error) {
	m := &macroDef{name: "caller", line: line}
	if p.isOp("(") {
		if err := p.signature(m); err != nil {
			return nil, err
		}
	}
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	c, ok := e.(*callExpr)
	if !ok {
		return nil, p.fail("expected call")
	}
	return &callStmt{c, m, line}, p.macroBody(m, "endcall")
}

func (p *parser) withStmt(line int) (stmt, error) {
	n := &withStmt{line: line}
	for p.cur().kind != tokBlockEnd {
		if len(n.targets) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		t, err := p.oneTarget(false)
		if err != nil {
			return nil, err
		}
		if err := p.expectOp("="); err != nil {
			return nil, err
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		n.targets, n.values = append(n.targets, t), append(n.values, e)
	}
	var err error
	n.body, _, err = p.inner("endwith")
	return n, err
}
