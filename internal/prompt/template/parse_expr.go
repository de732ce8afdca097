package template

import "slices"

// maxNesting is how deep a template's tags and expressions may nest. Python's own parser gives up near 90 parentheses.
const maxNesting = 200

type parser struct {
	tokens []token
	at     int
	depth  int
	soft   bool        // inside a branch: Jinja2 finds an unknown filter only when it gets there
	macros []*macroDef // that the parser is inside of
	loops  int
}

func (p *parser) cur() token { return p.tokens[p.at] }

func (p *parser) look() token { return p.tokens[min(p.at+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if p.at < len(p.tokens)-1 {
		p.at++
	}
	return t
}

func (p *parser) isOp(op string) bool { return p.cur().kind == tokOperator && p.cur().text == op }

func (p *parser) isName(name string) bool { return p.cur().kind == tokName && p.cur().text == name }

func (p *parser) skipOp(op string) bool {
	if p.isOp(op) {
		p.next()
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.next()
		return true
	}
	return false
}

func (p *parser) fail(format string, args ...any) error {
	return at(raise("TemplateSyntaxError", format, args...), p.cur().line)
}

func (t token) describe() string {
	switch t.kind {
	case tokEOF:
		return "end of template"
	case tokData:
		return "template data / text"
	case tokPrintEnd:
		return "end of print statement"
	case tokBlockEnd:
		return "end of statement block"
	case tokPrintBegin, tokBlockBegin:
		return "begin of a tag"
	}
	return t.text
}

func (p *parser) expectOp(op string) error {
	if !p.skipOp(op) {
		return p.fail("expected token '%s', got '%s'", op, p.cur().describe())
	}
	return nil
}

func (p *parser) expectName() (string, error) {
	if p.cur().kind != tokName {
		return "", p.fail("expected a name, got '%s'", p.cur().describe())
	}
	return p.next().text, nil
}

func (p *parser) enter() error {
	if p.depth++; p.depth > maxNesting {
		return at(&Limit{What: "its expressions or tags nest too deep"}, p.cur().line)
	}
	return nil
}

func (p *parser) expression() (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	soft := p.soft
	defer func() { p.soft = soft }()
	start := p.at
	e, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.isName("if") && !p.soft {
		// The branches of an inline if are looked at late, so read them again knowing that.
		p.at, p.soft = start, true
		if e, err = p.or(); err != nil {
			return nil, err
		}
	}
	for p.skipName("if") {
		test, err := p.or()
		if err != nil {
			return nil, err
		}
		c := &condExpr{test: test, yes: e}
		if p.skipName("else") {
			if c.no, err = p.expression(); err != nil {
				return nil, err
			}
		}
		e = c
	}
	return e, nil
}

func (p *parser) or() (expr, error) {
	a, err := p.and()
	for err == nil && p.skipName("or") {
		var b expr
		b, err = p.and()
		a = &orExpr{a, b}
	}
	return a, err
}

func (p *parser) and() (expr, error) {
	a, err := p.not()
	for err == nil && p.skipName("and") {
		var b expr
		b, err = p.not()
		a = &andExpr{a, b}
	}
	return a, err
}

func (p *parser) not() (expr, error) {
	if p.skipName("not") {
		if err := p.enter(); err != nil {
			return nil, err
		}
		a, err := p.not()
		p.depth--
		return &notExpr{a}, err
	}
	return p.compare()
}

func (p *parser) compare() (expr, error) {
	first, err := p.math1()
	if err != nil {
		return nil, err
	}
	c := &compareExpr{first: first}
	for {
		op := ""
		switch t := p.cur(); {
		case t.kind == tokOperator && slices.Contains([]string{"==", "!=", "<", ">", "<=", ">="}, t.text):
			op = t.text
			p.next()
		case p.isName("in"):
			op = "in"
			p.next()
		case p.isName("not") && p.look().kind == tokName && p.look().text == "in":
			op = "not in"
			p.next()
			p.next()
		}
		if op == "" {
			break
		}
		e, err := p.math1()
		if err != nil {
			return nil, err
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, e)
	}
	if len(c.ops) == 0 {
		return first, nil
	}
	return c, nil
}

// math1 binds looser than ~, and ~ looser than * / // %: Jinja2's own order.
func (p *parser) math1() (expr, error) {
	return p.chain(p.concat, "+", "-")
}

func (p *parser) concat() (expr, error) {
	a, err := p.math2()
	if err != nil || !p.isOp("~") {
		return a, err
	}
	c := &concatExpr{items: []expr{a}}
	for p.skipOp("~") {
		b, err := p.math2()
		if err != nil {
			return nil, err
		}
		c.items = append(c.items, b)
	}
	return c, nil
}

func (p *parser) math2() (expr, error) { return p.chain(p.pow, "*", "/", "//", "%") }

// pow binds to the left, unlike Python's.
func (p *parser) pow() (expr, error) {
	return p.chain(func() (expr, error) { return p.unary(true) }, "**")
}

func (p *parser) chain(next func() (expr, error), ops ...string) (expr, error) {
	a, err := next()
	for err == nil && p.cur().kind == tokOperator && slices.Contains(ops, p.cur().text) {
		op := p.next().text
		var b expr
		b, err = next()
		a = &binExpr{op, a, b}
	}
	return a, err
}

func (p *parser) unary(filters bool) (expr, error) {
	var e expr
	var err error
	switch {
	case p.isOp("-") || p.isOp("+"):
		if err := p.enter(); err != nil {
			return nil, err
		}
		op := p.next().text[0]
		e, err = p.unary(false)
		p.depth--
		e = &unaryExpr{op, e}
	default:
		e, err = p.primary()
	}
	if err != nil {
		return nil, err
	}
	if e, err = p.postfix(e); err != nil || !filters {
		return e, err
	}
	return p.filters(e)
}

func (p *parser) primary() (expr, error) {
	t := p.cur()
	switch t.kind {
	case tokName:
		p.next()
		switch t.text {
		case "true", "True":
			return &constExpr{true}, nil
		case "false", "False":
			return &constExpr{false}, nil
		case "none", "None":
			return &constExpr{nil}, nil
		}
		for _, m := range p.macros {
			m.varargs = m.varargs || t.text == "varargs"
			m.kwargs = m.kwargs || t.text == "kwargs"
			m.caller = m.caller || t.text == "caller"
		}
		return &nameExpr{t.text}, nil
	case tokString:
		s := p.next().text
		for p.cur().kind == tokString {
			s += p.next().text
		}
		return &constExpr{s}, nil
	case tokInteger, tokFloat:
		p.next()
		return &constExpr{t.num}, nil
	case tokOperator:
		switch t.text {
		case "(":
			p.next()
			e, err := p.tuple(true)
			if err != nil {
				return nil, err
			}
			return e, p.expectOp(")")
		case "[":
			p.next()
			items, err := p.list("]")
			return &listExpr{items}, err
		case "{":
			p.next()
			return p.dict()
		}
	}
	return nil, p.fail("unexpected '%s'", t.describe())
}

// list reads expressions up to a closing bracket; a comma may come last.
func (p *parser) list(end string) ([]expr, error) {
	var items []expr
	for !p.isOp(end) {
		if len(items) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.isOp(end) {
				break
			}
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return items, p.expectOp(end)
}

func (p *parser) dict() (expr, error) {
	d := &dictExpr{}
	for !p.isOp("}") {
		if len(d.keys) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.isOp("}") {
				break
			}
		}
		k, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.expectOp(":"); err != nil {
			return nil, err
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, k), append(d.values, v)
	}
	return d, p.expectOp("}")
}

// tuple reads "a" or "a, b": one expression stays itself. Empty is allowed between parentheses only.
func (p *parser) tuple(parentheses bool) (expr, error) { return p.tupleOf(parentheses, p.expression) }

// tupleOf is tuple of what item reads: conditions of if and elif, and what a loop goes over, hold no inline if.
func (p *parser) tupleOf(parentheses bool, item func() (expr, error)) (expr, error) {
	var items []expr
	comma := false
	for {
		if len(items) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		if t := p.cur(); t.kind == tokPrintEnd || t.kind == tokBlockEnd || p.isOp(")") {
			break
		}
		e, err := item()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
		if !p.isOp(",") {
			break
		}
		comma = true
	}
	if !comma {
		if len(items) == 1 {
			return items[0], nil
		}
		if !parentheses {
			return nil, p.fail("Expected an expression, got '%s'", p.cur().describe())
		}
	}
	return &tupleExpr{items}, nil
}
