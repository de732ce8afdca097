package tools

import (
	"fmt"
	"strconv"
	"strings"

	"seatsmith/internal/playbook"
	"seatsmith/internal/prompt/ordered"
)

// maxPaths bounds the places that are listed for one tool; all of them are counted.
const maxPaths = 50

// Diff is what changed between two lists. Key order counts: a template prints keys in their order.
type Diff struct {
	Old       string       `json:"old"`
	Added     []string     `json:"added"`
	Removed   []string     `json:"removed"`
	Changed   []ToolChange `json:"changed"`
	Reordered bool         `json:"reordered"` // the tools that both have come in another order
	Same      int          `json:"same"`
}

// ToolChange is one tool that both lists have and that differs.
type ToolChange struct {
	Name   string       `json:"name"`
	Places []PathChange `json:"places"`
	Count  int          `json:"count"` // of places, listed or not
}

// PathChange is one place that differs.
type PathChange struct {
	Path string `json:"path"` // JSON pointer inside the tool's function
	What string `json:"what"` // "added", "removed", "changed" or "order"
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// Differs says whether anything changed.
func (d *Diff) Differs() bool {
	return len(d.Added)+len(d.Removed)+len(d.Changed) > 0 || d.Reordered
}

// Compare holds a capture against an older one, by name. Of a name that comes twice the first is compared.
func Compare(older, newer *Capture) *Diff {
	d := &Diff{Old: older.From, Added: []string{}, Removed: []string{}, Changed: []ToolChange{}}
	before, after := byName(older.Tools), byName(newer.Tools)
	var order []string
	for _, t := range older.Tools {
		name := t.Name()
		if _, stays := after[name]; !stays {
			d.Removed = append(d.Removed, name)
		} else {
			order = append(order, name)
		}
	}
	at := 0
	for _, t := range newer.Tools {
		name := t.Name()
		was, known := before[name]
		if !known {
			d.Added = append(d.Added, name)
			continue
		}
		d.Reordered = d.Reordered || at >= len(order) || order[at] != name
		at++
		c := ToolChange{Name: name}
		c.compare("", was.Value.Without("function"), t.Value.Without("function"))
		c.compare("", was.function(), t.function())
		if c.Count > 0 {
			d.Changed = append(d.Changed, c)
		} else {
			d.Same++
		}
	}
	return d
}

func byName(list []Tool) map[string]Tool {
	out := map[string]Tool{}
	for _, t := range list {
		if _, twice := out[t.Name()]; !twice {
			out[t.Name()] = t
		}
	}
	return out
}

func (c *ToolChange) note(path, what, old, new string) {
	c.Count++
	if len(c.Places) < maxPaths {
		c.Places = append(c.Places, PathChange{path, what, old, new})
	}
}

func (c *ToolChange) compare(path string, old, new ordered.Value) {
	switch {
	case old.Equal(new):
	case old.IsObject() && new.IsObject():
		c.members(path, old, new)
	case old.IsArray() && new.IsArray() && old.Len() == new.Len():
		for i := range old.Items() {
			c.compare(path+"/"+strconv.Itoa(i), old.Items()[i], new.Items()[i])
		}
	default:
		c.note(path, "changed", old.String(), new.String())
	}
}

func (c *ToolChange) members(path string, old, new ordered.Value) {
	var before, after []string
	was, is := byKey(old), byKey(new)
	for _, m := range old.Members() {
		if v, stays := is[m.Key]; stays {
			before = append(before, m.Key)
			c.compare(path+"/"+escape(m.Key), m.Value, v)
		} else {
			c.note(path+"/"+escape(m.Key), "removed", m.Value.String(), "")
		}
	}
	for _, m := range new.Members() {
		if _, known := was[m.Key]; known {
			after = append(after, m.Key)
		} else {
			c.note(path+"/"+escape(m.Key), "added", "", m.Value.String())
		}
	}
	if b, a := strings.Join(before, ", "), strings.Join(after, ", "); a != b {
		c.note(path, "order", b, a)
	}
}

func byKey(v ordered.Value) map[string]ordered.Value {
	out := make(map[string]ordered.Value, v.Len())
	for _, m := range v.Members() {
		out[m.Key] = m.Value
	}
	return out
}

// Findings says every difference as a finding; none when the lists are equal.
func (d *Diff) Findings() []playbook.Finding {
	const next = "Build the calibration set again with the live tools, and keep the new list."
	var found []playbook.Finding
	say := func(name, message string) {
		found = append(found, playbook.New("tools-differ", fmt.Sprintf("%s: %s", d.Old, name), message, next))
	}
	for _, name := range d.Removed {
		say(name, "the tool is gone")
	}
	for _, name := range d.Added {
		say(name, "the tool is new")
	}
	for _, c := range d.Changed {
		var parts []string
		for i, p := range c.Places {
			if i == 5 {
				parts = append(parts, fmt.Sprintf("and %d more", c.Count-i))
				break
			}
			parts = append(parts, p.say())
		}
		say(c.Name, "it changed: "+strings.Join(parts, "; "))
	}
	if d.Reordered {
		say("the list", "the tools come in another order, so prompts differ (--sort makes the order that of the names)")
	}
	return found
}

func (p PathChange) say() string {
	place := p.Path
	if place == "" {
		place = "the definition"
	}
	switch p.What {
	case "added":
		return fmt.Sprintf("%s is new: %s", place, short(p.New))
	case "removed":
		return fmt.Sprintf("%s is gone: %s", place, short(p.Old))
	case "order":
		return fmt.Sprintf("%s has its keys in another order: %s, before %s", place, short(p.New), short(p.Old))
	}
	return fmt.Sprintf("%s is %s, before %s", place, short(p.New), short(p.Old))
}

// short cuts a text in the middle of nothing: at 120 characters.
func short(s string) string {
	if r := []rune(s); len(r) > 120 {
		return string(r[:119]) + "…"
	}
	return s
}
