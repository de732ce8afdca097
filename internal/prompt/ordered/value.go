package ordered

import (
	"slices"
	"strconv"
)

// Kind says what a Value is. The zero Value is null.
type Kind uint8

const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}[min(k, Object)]
}

// Value is one JSON value.
type Value struct {
	kind    Kind
	yes     bool
	text    string // a string's content, or a number's spelling
	items   []Value
	members []Member
}

// Member is one key of an object with its value.
type Member struct {
	Key   string
	Value Value
}

func NewBool(b bool) Value         { return Value{kind: Bool, yes: b} }
func NewString(s string) Value     { return Value{kind: String, text: s} }
func NewInt(n int64) Value         { return Value{kind: Number, text: strconv.FormatInt(n, 10)} }
func NewArray(items []Value) Value { return Value{kind: Array, items: items} }

// NewObject makes an object of members in their order. Of a key that comes twice the last value stands at the first place.
func NewObject(members ...Member) Value {
	return Value{kind: Object, members: unique(members)}
}

func (v Value) Kind() Kind        { return v.kind }
func (v Value) IsNull() bool      { return v.kind == Null }
func (v Value) IsString() bool    { return v.kind == String }
func (v Value) IsObject() bool    { return v.kind == Object }
func (v Value) IsArray() bool     { return v.kind == Array }
func (v Value) Bool() bool        { return v.yes }
func (v Value) Items() []Value    { return v.items }
func (v Value) Members() []Member { return v.members }
func (v Value) Len() int          { return len(v.items) + len(v.members) }

// Text is a string's content or a number's spelling, and empty for every other kind.
func (v Value) Text() string { return v.text }

// Get finds a key of an object; of anything else there is none.
func (v Value) Get(key string) (Value, bool) {
	for i := range v.members {
		if v.members[i].Key == key {
			return v.members[i].Value, true
		}
	}
	return Value{}, false
}

// Text of a key that holds a string, or "".
func (v Value) TextOf(key string) string {
	m, _ := v.Get(key)
	if m.kind != String {
		return ""
	}
	return m.text
}

// With is a copy of an object in which key has this value: in its place when it was there, at the end when not.
func (v Value) With(key string, value Value) Value {
	out := Value{kind: Object, members: slices.Clone(v.members)}
	for i := range out.members {
		if out.members[i].Key == key {
			out.members[i].Value = value
			return out
		}
	}
	out.members = append(out.members, Member{key, value})
	return out
}

// Without is a copy of an object without a key.
func (v Value) Without(key string) Value {
	out := Value{kind: Object}
	for _, m := range v.members {
		if m.Key != key {
			out.members = append(out.members, m)
		}
	}
	return out
}

// Equal compares two values: keys in their order, numbers by spelling.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind || v.yes != w.yes || v.text != w.text || len(v.items) != len(w.items) || len(v.members) != len(w.members) {
		return false
	}
	for i := range v.items {
		if !v.items[i].Equal(w.items[i]) {
			return false
		}
	}
	for i := range v.members {
		if v.members[i].Key != w.members[i].Key || !v.members[i].Value.Equal(w.members[i].Value) {
			return false
		}
	}
	return true
}

// unique keeps the last value of a repeated key at its first place, in time linear in the number of members.
func unique(members []Member) []Member {
	if len(members) < 2 {
		return members
	}
	if len(members) <= 16 {
		for i := 1; i < len(members); i++ {
			for j := range i {
				if members[j].Key == members[i].Key {
					return uniqueMany(members)
				}
			}
		}
		return members
	}
	return uniqueMany(members)
}

func uniqueMany(members []Member) []Member {
	at := make(map[string]int, len(members))
	out := make([]Member, 0, len(members))
	for _, m := range members {
		if i, twice := at[m.Key]; twice {
			out[i].Value = m.Value
			continue
		}
		at[m.Key] = len(out)
		out = append(out, m)
	}
	return out
}
