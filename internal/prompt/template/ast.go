package template

// expr is an expression; its value is asked with eval.
type expr interface {
	eval(r *render, s *scope) (value, error)
}

// stmt is a statement; exec writes to the render's output.
type stmt interface {
	exec(r *render, s *scope) error
}

type (
	constExpr struct{ v value }
	nameExpr  struct{ name string }
	tupleExpr struct{ items []expr }
	listExpr  struct{ items []expr }
	dictExpr  struct{ keys, values []expr }
	condExpr  struct{ test, yes, no expr } // no may be nil
	andExpr   struct{ a, b expr }
	orExpr    struct{ a, b expr }
	notExpr   struct{ a expr }
	unaryExpr struct {
		op byte
		a  expr
	}
	binExpr struct {
		op   string
		a, b expr
	}
	concatExpr  struct{ items []expr }
	compareExpr struct {
		first expr
		ops   []string
		rest  []expr
	}
	attrExpr struct {
		a    expr
		name string
	}
	itemExpr  struct{ a, key expr }
	sliceExpr struct{ a, from, to, step expr }
	callExpr  struct {
		f expr
		arguments
	}
	filterExpr struct {
		a    expr // nil inside a filter block: the block's text
		name string
		do   filterFunc // nil when unknown in a place where Jinja2 finds out late
		arguments
	}
	testExpr struct {
		a    expr
		name string
		do   testFunc
		arguments
	}
)

// arguments of a call: positional, by name, *args and **kwargs.
type arguments struct {
	args        []expr
	names       []string
	named       []expr
	star, stars expr
}

type (
	dataStmt  struct{ text string }
	printStmt struct {
		e    expr
		line int
	}
	ifStmt struct {
		tests  []expr
		bodies [][]stmt
		orElse []stmt
		line   int
	}
	forStmt struct {
		target    target
		iter      expr
		test      expr
		body      []stmt
		orElse    []stmt
		recursive bool
		line      int
	}
	setStmt struct {
		target target
		e      expr
		line   int
	}
	setBlockStmt struct {
		target target
		filter expr
		body   []stmt
		line   int
	}
	macroStmt struct {
		m *macroDef
	}
	callStmt struct {
		call *callExpr
		m    *macroDef
		line int
	}
	filterStmt struct {
		filter expr
		body   []stmt
		line   int
	}
	withStmt struct {
		targets []target
		values  []expr
		body    []stmt
		line    int
	}
	generationStmt struct{ body []stmt }
	blockStmt      struct{ body []stmt }
	loaderStmt     struct {
		what string
		line int
	}
	breakStmt    struct{}
	continueStmt struct{}
)

// macroDef is what {% macro %} and {% call %} define.
type macroDef struct {
	name     string
	params   []string
	defaults []expr // of the last parameters
	body     []stmt
	varargs  bool // the body mentions varargs …
	kwargs   bool
	caller   bool
	line     int
}

// target of an assignment: a name, ns.attr, or several of them.
type target struct {
	name, attr string
	parts      []target
	tuple      bool
}
