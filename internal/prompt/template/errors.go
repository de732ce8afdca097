package template

import "fmt"

// Raised says that Jinja2 would raise here: the class and message of the Python exception.
type Raised struct {
	Class   string // TypeError, UndefinedError, TemplateSyntaxError, TemplateError (raise_exception) …
	Message string
	Line    int // of the template, from 1; 0 when unknown
}

func (e *Raised) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("the template raises %s: %s", e.Class, e.Message)
	}
	return fmt.Sprintf("the template raises %s at its line %d: %s", e.Class, e.Line, e.Message)
}

// Unknown says that the template does something whose result in Python is not known here: a filter that is not built, an
// object's address, a random number. It is never a render.
type Unknown struct {
	What string
	Line int
}

func (e *Unknown) Error() string {
	if e.Line == 0 {
		return "could not know what Jinja2 does: " + e.What
	}
	return fmt.Sprintf("could not know what Jinja2 does at the template's line %d: %s", e.Line, e.What)
}

// Limit says that a bound of [Limits] was passed. Python might have gone on, or died.
type Limit struct {
	What string
	Line int
}

func (e *Limit) Error() string {
	if e.Line == 0 {
		return "stopped the template: " + e.What
	}
	return fmt.Sprintf("stopped the template at its line %d: %s", e.Line, e.What)
}

func raise(class, format string, args ...any) error {
	return &Raised{Class: class, Message: fmt.Sprintf(format, args...)}
}

func typeError(format string, args ...any) error { return raise("TypeError", format, args...) }

func unknown(format string, args ...any) error { return &Unknown{What: fmt.Sprintf(format, args...)} }

// at puts a line on an error that has none yet.
func at(err error, line int) error {
	switch e := err.(type) {
	case *Raised:
		if e.Line == 0 {
			e.Line = line
		}
	case *Unknown:
		if e.Line == 0 {
			e.Line = line
		}
	case *Limit:
		if e.Line == 0 {
			e.Line = line
		}
	}
	return err
}
