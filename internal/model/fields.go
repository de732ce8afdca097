package model

import (
	"fmt"
	"strconv"

	"github.com/tidwall/gjson"
)

// fields reads typed values of one JSON object and collects what is wrong with them. A null counts as absent, as it does
// for the Python classes that write these files.
type fields struct {
	root  gjson.Result
	at    string    // path of the object with a final dot, "" at the top
	wrong *[]string // shared with the parent
	keys  map[string]gjson.Result
}

func newFields(root gjson.Result, at string) *fields {
	return &fields{root: root, at: at, wrong: new([]string), keys: root.Map()}
}

// child reads an object inside; complaints go to the same list.
func (f *fields) child(key string, value gjson.Result) *fields {
	return &fields{root: value, at: f.at + key + ".", wrong: f.wrong, keys: value.Map()}
}

func (f *fields) problems() []string { return *f.wrong }

func (f *fields) get(key string) (gjson.Result, bool) {
	v, ok := f.keys[key]
	return v, ok && v.Type != gjson.Null
}

func (f *fields) has(key string) bool {
	_, ok := f.get(key)
	return ok
}

// complain notes that a field is not what it should be.
func (f *fields) complain(key, want string, got gjson.Result) {
	f.note(key, "want "+want+", got "+shown(got))
}

// shown is a value as a message quotes it.
func shown(v gjson.Result) string {
	const most = 40
	switch {
	case v.IsObject():
		return "an object"
	case v.IsArray():
		return "a list"
	case len(v.Raw) > most:
		return v.Raw[:most] + "…"
	}
	return v.Raw
}

func (f *fields) note(key, message string) {
	*f.wrong = append(*f.wrong, f.at+key+": "+message)
}

// positive reads a size that must be there, in 1 … limit.
func (f *fields) positive(key string, limit int64) int64 {
	if !f.has(key) {
		f.note(key, "want a positive integer, the field is missing")
		return 0
	}
	return f.optional(key, limit, 0)
}

// optional reads a size in 1 … limit; absent it is fallback, the default of the family's configuration class.
func (f *fields) optional(key string, limit, fallback int64) int64 {
	v, ok := f.get(key)
	if !ok {
		return fallback
	}
	n, err := strconv.ParseInt(v.Raw, 10, 64) // 0 for what is no integer, an end of the range for what does not fit
	switch {
	case v.Type != gjson.Number || n <= 0:
		f.complain(key, "a positive integer", v)
		return 0
	case err != nil || n > limit:
		f.complain(key, fmt.Sprintf("a positive integer of at most %d", limit), v)
		return 0
	}
	return n
}

// count reads a number in 0 … limit and whether it is there.
func (f *fields) count(key string, limit int64) (int64, bool) {
	v, ok := f.get(key)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(v.Raw, 10, 64)
	if v.Type != gjson.Number || err != nil || n < 0 || n > limit {
		f.complain(key, fmt.Sprintf("an integer from 0 to %d", limit), v)
		return 0, true
	}
	return n, true
}

func (f *fields) boolean(key string, fallback bool) bool {
	v, ok := f.get(key)
	if !ok {
		return fallback
	}
	if !v.IsBool() {
		f.complain(key, "true or false", v)
		return fallback
	}
	return v.Bool()
}

func (f *fields) text(key string) string {
	v, ok := f.get(key)
	if !ok {
		return ""
	}
	if v.Type != gjson.String {
		f.complain(key, "a string", v)
		return ""
	}
	return v.Str
}

// texts reads a list of strings, nil when it is absent.
func (f *fields) texts(key string) []string {
	v, ok := f.get(key)
	if !ok {
		return nil
	}
	if !v.IsArray() {
		f.complain(key, "a list of strings", v)
		return nil
	}
	list := v.Array()
	out := make([]string, 0, len(list))
	for _, e := range list {
		if e.Type != gjson.String {
			f.complain(key, "a list of strings", e)
			return nil
		}
		out = append(out, e.Str)
	}
	return out
}

// first reads the first entry of a list of strings, "" when there is none.
func (f *fields) first(key string) string {
	if list := f.texts(key); len(list) > 0 {
		return list[0]
	}
	return ""
}

// length reads how long a list is, 0 when it is absent.
func (f *fields) length(key string, limit int64) int64 {
	v, ok := f.get(key)
	if !ok {
		return 0
	}
	if !v.IsArray() {
		f.complain(key, "a list", v)
		return 0
	}
	n := int64(len(v.Array()))
	if n > limit {
		f.note(key, fmt.Sprintf("want a list of at most %d entries, got %d", limit, n))
		return 0
	}
	return n
}

// object reads an object; the result does not exist when the field is absent or of another type.
func (f *fields) object(key string) gjson.Result {
	v, ok := f.get(key)
	if !ok {
		return gjson.Result{}
	}
	if !v.IsObject() {
		f.complain(key, "an object", v)
		return gjson.Result{}
	}
	return v
}

// indexes reads a list of layer indexes below limit, nil when it is absent.
func (f *fields) indexes(key string, limit int64) []int64 {
	v, ok := f.get(key)
	if !ok {
		return nil
	}
	if !v.IsArray() {
		f.complain(key, "a list of layers", v)
		return nil
	}
	var out []int64
	for _, e := range v.Array() {
		n, err := strconv.ParseInt(e.Raw, 10, 64)
		if err != nil || n < 0 || n >= limit {
			f.complain(key, fmt.Sprintf("layers from 0 to %d", limit-1), e)
			return nil
		}
		out = append(out, n)
	}
	return out
}
