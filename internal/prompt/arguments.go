package prompt

import (
	"fmt"
	"strings"

	"seatsmith/internal/prompt/ordered"
)

// Arguments makes a tool call's arguments an ordered object: the one place where that happens. An object stays as it is. A
// string, the wire form, is decoded: keys keep their order and numbers their spelling. Everything else is a [Problem] of its
// own kind; changed says that a string became an object.
func Arguments(v ordered.Value) (out ordered.Value, changed bool, kind Kind, message string) {
	switch {
	case v.IsObject():
		return v, false, "", ""
	case v.IsNull():
		return v, false, ArgumentsNull, "arguments are null; a call without arguments has {}"
	case !v.IsString():
		return v, false, ArgumentsKind, fmt.Sprintf("arguments are %s; want an object, or an object as a JSON text", v.Kind())
	}
	text := v.Text()
	if strings.TrimSpace(text) == "" {
		return v, false, ArgumentsEmpty, "arguments are an empty text; a call without arguments has {}"
	}
	inner, err := ordered.DecodeString(text)
	if err != nil {
		return v, false, ArgumentsBroken, fmt.Sprintf("arguments are not JSON: %v: %.80q", err, text)
	}
	switch {
	case inner.IsObject():
		return inner, true, "", ""
	case inner.IsNull():
		return v, false, ArgumentsNull, "arguments are the text null; a call without arguments has {}"
	case inner.IsString():
		if twice, err := ordered.DecodeString(inner.Text()); err == nil && twice.IsObject() {
			return v, false, ArgumentsTwice, fmt.Sprintf("arguments were encoded twice: the text holds a text that holds an object: %.80q", text)
		}
		return v, false, ArgumentsKind, fmt.Sprintf("arguments are a JSON text of a string, not of an object: %.80q", text)
	}
	return v, false, ArgumentsKind, fmt.Sprintf("arguments are a JSON text of %s, not of an object: %.80q", inner.Kind(), text)
}
