package diff

import (
	"fmt"
	"slices"
	"strings"

	"seatsmith/internal/model"
	"seatsmith/internal/safetensors"
)

// state is what became of a parameter.
type state uint8

const (
	identical state = iota
	changed
	missing      // the base has it
	added        // the body has it
	incomparable // another shape, or quantized on one side
)

// param is a parameter of the unquantized checkpoint, or a part of a quantized one.
type param struct {
	key        string
	role       model.Role
	body, base *part
	state      state
	recast     bool
	units      []int   // indexes into comparison.units
	relative   float64 // of a changed one; NaN when it has no number
	nonfinite  bool    // NaN or Inf in the body where the base has numbers
}

// part is where the values of a parameter lie: a tensor, or a range of one.
type part struct {
	t     *model.Tensor
	dtype safetensors.Dtype
	shape []int64
	begin int64 // first byte inside the tensor
	bytes int64
}

// unit is a range that both sides have and that is compared by itself.
type unit struct {
	param      int
	expert     int // -1 when it is not of one expert
	body, base part
	sum        sum
	differs    bool
	shared     bool // the same bytes of the same file
}

type prefixes struct{ body, base string }

func wholePart(t *model.Tensor) part {
	return part{t: t, dtype: t.Dtype(), shape: t.Shape(), bytes: t.Bytes()}
}

// keyed lists the parts of a model by canonical name.
type keyed struct {
	parts    map[string]part
	names    map[string]string // key -> name on disk
	odd      map[string]bool   // the name holds something that no class reads
	twice    []string
	unmerged []string
}

func keys(m *model.Model) keyed {
	k := keyed{parts: map[string]part{}, names: map[string]string{}, odd: map[string]bool{}}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if adapter(t.Name) {
			k.unmerged = append(k.unmerged, t.Name)
			continue
		}
		name := t.Name
		if t.Holds() {
			name = t.Base
		}
		key, extra := canonical(name)
		if first, ok := k.names[key]; ok {
			k.twice = append(k.twice, fmt.Sprintf("%s and %s", first, t.Name))
			continue
		}
		k.parts[key], k.names[key] = wholePart(t), name
		if extra {
			k.odd[key] = true
		}
	}
	return k
}

// split maps fused 3-D experts to the names of single ones where the other side stores single ones. gate_up_proj is
// [experts, 2 × width, hidden], the gate's rows first; down_proj is [experts, hidden, width] (transformers 5, Qwen3_5MoeExperts).
func (k keyed) split(other keyed) (mapped int) {
	for key, p := range k.parts {
		prefix, projection, fused := fusedOf(key)
		if !fused || len(p.shape) != 3 || p.shape[0] == 0 {
			continue
		}
		if _, ok := other.parts[key]; ok {
			continue
		}
		names := []string{projection}
		if projection == "gate_up_proj" {
			names = []string{"gate_proj", "up_proj"}
		}
		if _, ok := other.parts[prefix+"0."+names[0]+".weight"]; !ok {
			continue
		}
		n, rows := int64(len(names)), p.shape[1]
		if rows%n != 0 || p.bytes%(p.shape[0]*n) != 0 {
			continue
		}
		size := p.bytes / p.shape[0] / n
		for e := range p.shape[0] {
			for i, name := range names {
				one := p
				one.shape, one.begin, one.bytes = []int64{rows / n, p.shape[2]}, p.begin+(e*n+int64(i))*size, size
				at := fmt.Sprintf("%s%d.%s.weight", prefix, e, name)
				k.parts[at], k.names[at] = one, prefixOf(k.names[key], key)+at
			}
		}
		delete(k.parts, key)
		mapped++
	}
	return mapped
}

// pair finds for every parameter of either side the other's, and cuts what both have into units.
func (c *comparison) pair() {
	body, base := keys(c.body), keys(c.base)
	c.unmerged, c.doubled = body.unmerged, body.twice
	c.mapped = body.split(base) + base.split(body)
	c.drift = map[prefixes][]string{}
	var all []string
	for key := range base.parts {
		all = append(all, key)
	}
	for key := range body.parts {
		if _, ok := base.parts[key]; !ok {
			all = append(all, key)
		}
	}
	slices.SortFunc(all, safetensors.NaturalCompare)
	for _, key := range all {
		x, xok := body.parts[key]
		y, yok := base.parts[key]
		p := &param{key: key}
		at := len(c.params)
		c.params = append(c.params, p)
		switch {
		case !xok:
			p.base, p.state, p.role = &y, missing, c.role(key, y.t)
		case !yok:
			p.body, p.state, p.role = &x, added, c.role(key, x.t)
		default:
			p.body, p.base, p.role = &x, &y, c.role(key, y.t)
			if p.role == model.RoleOther {
				p.role = x.t.Role
			}
			if a, b := prefixOf(body.names[key], key), prefixOf(base.names[key], key); a != b {
				c.drift[prefixes{a, b}] = append(c.drift[prefixes{a, b}], body.names[key])
			}
			c.cut(at, p)
		}
	}
}

// role is the family's, guessed from the name where neither side has one.
func (c *comparison) role(key string, t *model.Tensor) model.Role {
	if c.body.Family == "" && c.base.Family == "" {
		return guess(key)
	}
	return t.Role
}

// cut makes the units of a parameter that both sides have.
func (c *comparison) cut(at int, p *param) {
	x, y := *p.body, *p.base
	p.recast = x.dtype != y.dtype
	if p.recast && (!isFloat(x.dtype) || !isFloat(y.dtype)) {
		p.state = incomparable
		return
	}
	if !slices.Equal(x.shape, y.shape) {
		if !resizable(p, x.shape, y.shape) {
			p.state = incomparable
			c.misfit = append(c.misfit, fmt.Sprintf("%s is %v (base %v)", p.key, x.shape, y.shape))
			return
		}
		c.resized = append(c.resized, fmt.Sprintf("%s has %d rows (base %d)", p.key, x.shape[0], y.shape[0]))
		rows := min(x.shape[0], y.shape[0])
		x.bytes, y.bytes = x.bytes/x.shape[0]*rows, y.bytes/y.shape[0]*rows
	}
	n := int64(1)
	if _, _, fused := fusedOf(p.key); fused && len(y.shape) == 3 {
		n = max(1, y.shape[0])
	}
	_, expert, _, one := expertOf(p.key)
	for e := range n {
		u := unit{param: at, expert: -1, body: x, base: y}
		u.body.bytes, u.base.bytes = x.bytes/n, y.bytes/n
		u.body.begin, u.base.begin = x.begin+e*u.body.bytes, y.begin+e*u.base.bytes
		switch {
		case n > 1:
			u.expert = int(e)
		case one:
			u.expert = expert
		}
		p.units = append(p.units, len(c.units))
		c.units = append(c.units, u)
	}
}

// resizable parameters have one row per token: a vocabulary that grew changes only how many.
func resizable(p *param, x, y []int64) bool {
	return (p.role == model.RoleEmbedding || p.role == model.RoleLMHead || strings.HasSuffix(p.key, "embed_tokens.weight")) &&
		len(x) == 2 && len(y) == 2 && x[1] == y[1] && x[0] > 0 && y[0] > 0
}

func isFloat(d safetensors.Dtype) bool {
	return d == safetensors.BF16 || d == safetensors.F16 || d == safetensors.F32
}
