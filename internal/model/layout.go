package model

import (
	"strconv"
	"strings"

	"seatsmith/internal/safetensors"
)

// slot is one parameter of a part of the model, as a family's table lists it. The same table says what must be there
// (Expected) and what a stored name is (place), so the two cannot drift apart.
type slot struct {
	path     string // below the section; "N" stands for an expert
	role     Role
	linear   bool
	fused    string // module path of the server's fused spelling, below the section
	shape    []int64
	variant  variant
	optional bool // known, but not expected: a bias that this configuration does without
	foreign  bool // optional in name only: where it is stored, it is out of place in this configuration
	dtypes   []safetensors.Dtype
}

// variant says that a slot exists only in one of two ways to store routed experts.
type variant uint8

const (
	always     variant = iota
	allExperts         // one 3-D tensor per projection
	perExpert          // one tensor per expert and projection
	oneByOne           // the same in a family that knows no other way
)

// each: the slot stands for one tensor per expert.
func (v variant) each() bool { return v == perExpert || v == oneByOne }

// chosen: whether the slot is there depends on how the checkpoint stores its experts.
func (v variant) chosen() bool { return v == allExperts || v == perExpert }

// section is a part of the model with a name prefix: the layers of the body, the head, the vision blocks …
type section struct {
	prefix  string
	layered bool                 // the prefix is followed by an index
	count   int64                // layers that must be there; 1 when not layered
	first   int64                // index of the first layer
	limit   int64                // indexes from here on are another section's; 0: none are
	role    Role                 // the role of everything here, "" when each slot has its own
	slots   func(i int64) []slot // what layer i must hold
	all     []slot               // every slot that some layer holds
	table   map[string]int       // path -> index into all
}

// layout is a family's tables filled in from one configuration.
type layout struct {
	sections   []section
	experts    int64
	textPrefix string // what the names of the language model begin with: "model.language_model." or "model."
	partial    bool   // the tables list only a part of what checkpoints hold
	spares     bool   // what is known and not expected may be stored all the same
}

func newLayout(c *Config, textPrefix string, sections []section) *layout {
	for i := range sections {
		s := &sections[i]
		s.table = make(map[string]int, len(s.all))
		for j := range s.all {
			s.table[s.all[j].path] = j
		}
		if !s.layered {
			s.count = 1
			s.slots = func(int64) []slot { return s.all }
		}
	}
	return &layout{sections: sections, experts: c.Experts, textPrefix: textPrefix}
}

// place is what a parameter of the unquantized checkpoint is.
type place struct {
	known  bool // a slot of a table; otherwise only the section is known, or nothing
	spare  bool // the slot may be stored or not
	role   Role
	layer  int
	linear bool
	fused  string
}

// place finds a parameter by name. The sections are tried in order, longer prefixes first.
func (l *layout) place(base string) place {
	for i := range l.sections {
		s := &l.sections[i]
		rest, ok := strings.CutPrefix(base, s.prefix)
		if !ok {
			continue
		}
		layer := -1
		if s.layered {
			if layer, rest, ok = leadingIndex(rest); !ok || int64(layer) < s.first || s.limit > 0 && int64(layer) >= s.limit {
				continue
			}
		}
		return s.place(layer, rest, base[:len(base)-len(rest)])
	}
	return place{role: RoleOther, layer: -1}
}

func (s *section) place(layer int, path, prefix string) place {
	p := place{role: s.role, layer: layer}
	expert, generic := expertPath(path)
	j, ok := s.table[generic]
	if !ok {
		if p.role == "" {
			p.role = RoleOther
		}
		return p
	}
	slot := &s.all[j]
	p.known, p.linear = true, slot.linear
	p.spare = slot.optional && !slot.foreign && (!s.layered || int64(layer) < s.first+s.count)
	if p.role == "" {
		p.role = slot.role
	}
	if slot.fused != "" {
		p.fused = prefix + strings.Replace(slot.fused, ".N.", "."+expert+".", 1)
	}
	return p
}

// expertPath turns "mlp.experts.12.up_proj.weight" into "12" and "mlp.experts.N.up_proj.weight".
func expertPath(path string) (expert, generic string) {
	const mark = ".experts."
	at := strings.Index(path, mark)
	if at < 0 {
		return "", path
	}
	at += len(mark)
	index, _, ok := leadingIndex(path[at:])
	if !ok {
		return "", path
	}
	expert = strconv.Itoa(index)
	return expert, path[:at] + "N" + path[at+len(expert):]
}

// expertVariant tells for the prefix of a layer ("mtp.layers.0.") how its experts are stored.
type expertVariant func(layerPrefix string) variant

// size is how many tensors expected would list.
func (l *layout) size(experts expertVariant) int64 {
	var n int64
	l.walk(experts, func(s *section, layer int64, prefix string, slot *slot) {
		if slot.variant.each() {
			n += l.experts
		} else {
			n++
		}
	})
	return n
}

// expected lists every tensor that the configuration implies, in natural order of names.
func (l *layout) expected(experts expertVariant) []Expected {
	out := make([]Expected, 0, l.size(experts))
	l.walk(experts, func(s *section, layer int64, prefix string, slot *slot) {
		if !slot.variant.each() {
			out = append(out, s.expect(layer, prefix, slot, ""))
			return
		}
		for e := int64(0); e < l.experts; e++ {
			out = append(out, s.expect(layer, prefix, slot, strconv.FormatInt(e, 10)))
		}
	})
	sortExpected(out)
	return out
}

func (l *layout) walk(experts expertVariant, visit func(s *section, layer int64, prefix string, slot *slot)) {
	for i := range l.sections {
		s := &l.sections[i]
		for layer := s.first; layer < s.first+s.count; layer++ {
			prefix := s.prefix
			if s.layered {
				prefix += strconv.FormatInt(layer, 10) + "."
			}
			slots, stored := s.slots(layer), variant(always)
			for j := range slots {
				slot := &slots[j]
				if slot.variant.chosen() && stored == always {
					stored = experts(prefix)
				}
				if slot.optional || slot.variant.chosen() && slot.variant != stored {
					continue
				}
				visit(s, layer, prefix, slot)
			}
		}
	}
}

func (s *section) expect(layer int64, prefix string, slot *slot, expert string) Expected {
	fill := func(path string) string { return strings.Replace(path, ".N.", "."+expert+".", 1) }
	e := Expected{
		Name: prefix + fill(slot.path), Role: slot.role, Layer: -1,
		Linear: slot.linear, Shape: slot.shape, Dtypes: slot.dtypes,
	}
	if s.role != "" {
		e.Role = s.role
	}
	if s.layered {
		e.Layer = int(layer)
	}
	e.Module = moduleOf(e.Name)
	if slot.fused != "" {
		e.Fused = prefix + fill(slot.fused)
	}
	return e
}

// nameOf is the parameter outside the layers that has this role, "" when there is none.
func (l *layout) nameOf(r Role) string {
	for i := range l.sections {
		if s := &l.sections[i]; !s.layered {
			for j := range s.all {
				if s.all[j].role == r {
					return s.prefix + s.all[j].path
				}
			}
		}
	}
	return ""
}
