package diff

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
)

// count turns units into parameters, and parameters into the tables of the report.
func (c *comparison) count() {
	relative := map[model.Role][]float64{}
	kinds := map[string]*Kind{}
	for _, p := range c.params {
		c.settle(p)
		role := c.r.Roles[p.role]
		if role == nil {
			role = &Role{Dtypes: map[string]int{}}
			c.r.Roles[p.role] = role
		}
		switch p.state {
		case missing:
			role.Missing++
		case added:
			role.Added++
		case incomparable:
			role.Incomparable++
		case changed:
			role.Changed++
			if !math.IsNaN(p.relative) {
				relative[p.role] = append(relative[p.role], p.relative)
			}
		case identical:
			role.Identical++
		}
		if p.state > changed {
			continue
		}
		c.r.TensorsCompared++
		if p.recast {
			role.Recast++
			role.Dtypes[fmt.Sprintf("%s for %s", p.body.dtype, p.base.dtype)]++
		}
		name := kindOf(p.key)
		k := kinds[name]
		if k == nil {
			k = &Kind{Name: name, Role: p.role}
			kinds[name] = k
		}
		k.params = append(k.params, p)
		if p.state == changed {
			k.Changed++
		} else {
			k.Identical++
		}
	}
	for role, list := range relative {
		slices.Sort(list)
		mid := list[len(list)/2]
		if len(list)%2 == 0 {
			mid = (list[len(list)/2-1] + mid) / 2
		}
		c.r.Roles[role].RelativeChange = &Spread{Min: list[0], Median: mid, Max: list[len(list)-1]}
	}
	for _, k := range kinds {
		c.r.Kinds = append(c.r.Kinds, *k)
	}
	slices.SortFunc(c.r.Kinds, func(a, b Kind) int { return cmp.Compare(a.Name, b.Name) })
}

// settle decides a parameter that both sides have.
func (c *comparison) settle(p *param) {
	if p.state != identical || len(p.units) == 0 {
		return
	}
	var s sum
	for _, i := range p.units {
		u := &c.units[i]
		s.merge(u.sum)
		if u.differs {
			p.state = changed
		}
	}
	if p.state == changed {
		p.relative = s.relative()
		if !isFloat(p.base.dtype) {
			p.relative = math.NaN() // codes: bytes differ, and how much their values do is not known
		}
		p.nonfinite = s.bad > s.badBase
	}
}

// some lists the first few.
func some(list []string) string {
	const most = 4
	if len(list) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
	}
	return strings.Join(list, ", ")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// keysOf lists the keys of parameters in a state.
func (c *comparison) keysOf(s state, of func(*param) bool) []string {
	var out []string
	for _, p := range c.params {
		if p.state == s && of(p) {
			out = append(out, p.key)
		}
	}
	return out
}

const (
	mergeAgain  = "merge the adapter again with a version of the tool that knows this architecture, and look at this command again before quantizing"
	otherFolder = "give the base that this fine-tune was made from"
)

// structure judges what is there and what is not, before any value.
func (c *comparison) structure() {
	if len(c.unmerged) > 0 {
		c.add(playbook.New("diff-adapter-unmerged", c.unmerged[0],
			fmt.Sprintf("%s belong to an adapter that was never merged: a server passes them over or stops (%s)", count(len(c.unmerged), "tensor"), some(c.unmerged)), mergeAgain))
	}
	if len(c.doubled) > 0 {
		c.add(playbook.New("diff-names", c.doubled[0],
			fmt.Sprintf("%s under two names or more; only the first of each was compared: %s", count(len(c.doubled), "repetition"), some(c.doubled)),
			"write the checkpoint again with one name for each tensor").As(playbook.Error))
	}
	for _, d := range c.drifts() {
		names := c.drift[d]
		c.add(playbook.New("diff-names", names[0],
			fmt.Sprintf("%s begin with %q where the base has %q; they were compared all the same", count(len(names), "name"), d.body, d.base),
			"`seatsmith inspect` says whether the body's class reads these names; graft re-homes a flat text-only body"))
	}
	if c.mapped > 0 {
		c.add(playbook.New("diff-names", "experts", fmt.Sprintf("%s with all experts in one tensor on one side were compared with single experts on the other", count(c.mapped, "projection")), "").As(playbook.Info))
	}
	if len(c.misfit) > 0 {
		c.add(playbook.New("diff-shape", c.misfit[0], fmt.Sprintf("%s with another shape than the base's: %s", count(len(c.misfit), "parameter"), some(c.misfit)), otherFolder))
	}
	if len(c.resized) > 0 {
		c.add(playbook.New("diff-shape", c.resized[0], "the vocabulary has another size; the rows that both have were compared: "+some(c.resized),
			"make sure that tokenizer and vocab_size are the fine-tune's own").As(playbook.Warning))
	}
	c.absent()
	for role, r := range c.sorted() {
		if len(r.Dtypes) > 0 {
			var list []string
			for what, n := range r.Dtypes {
				list = append(list, fmt.Sprintf("%s in %s", what, count(n, "parameter")))
			}
			slices.Sort(list)
			c.add(playbook.New("diff-dtype", string(role), "stored in another element type than the base's: "+some(list)+"; values were compared", "nothing, if it is meant: the writer rounds to BF16 and counts what changes"))
		}
	}
	if bad := c.keysOf(changed, func(p *param) bool { return p.nonfinite }); len(bad) > 0 {
		c.add(playbook.New("diff-nonfinite", bad[0], fmt.Sprintf("NaN or infinite values in %s where the base has numbers: %s", count(len(bad), "parameter"), some(bad)), "repair the training or the merge: every answer that passes through them is NaN"))
	}
}

func (c *comparison) drifts() []prefixes {
	var out []prefixes
	for d := range c.drift {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b prefixes) int { return cmp.Or(cmp.Compare(a.body, b.body), cmp.Compare(a.base, b.base)) })
	return out
}

// sorted walks the roles in order of name.
func (c *comparison) sorted() func(func(model.Role, *Role) bool) {
	var names []model.Role
	for name := range c.r.Roles {
		names = append(names, name)
	}
	slices.Sort(names)
	return func(yield func(model.Role, *Role) bool) {
		for _, name := range names {
			if !yield(name, c.r.Roles[name]) {
				return
			}
		}
	}
}

// absent judges tensors that only one side has.
func (c *comparison) absent() {
	if c.blind {
		c.r.NotChecked = append(c.r.NotChecked, "which tensors are missing: a file that cannot be read hides some")
		return
	}
	var rest []string
	for role, r := range c.sorted() {
		if r.Missing == 0 {
			continue
		}
		all := r.Changed+r.Identical+r.Incomparable == 0
		names := c.keysOf(missing, func(p *param) bool { return p.role == role })
		switch {
		case role == model.RoleHead && all:
			c.add(playbook.New("diff-head-dropped", string(role), fmt.Sprintf("the body has none of the base's %s of the MTP head: tools that load and save drop it", count(len(names), "tensor")),
				"graft or forge with this base as the donor"))
		case role == model.RoleVision && all:
			f := playbook.New("diff-tower-dropped", string(role), fmt.Sprintf("the body has none of the base's %s of the vision tower", count(len(names), "tensor")),
				"graft with this base as the donor re-homes the body into the class with the tower; or serve it as the text-only class")
			if !c.body.Config.Vision {
				f = f.As(playbook.Warning)
			}
			c.add(f)
		case role == model.RoleLMHead && c.body.Config.TieEmbeddings:
			c.add(playbook.New("diff-tensors-missing", names[0], "the body ties lm_head to the embedding and does not store it", "").As(playbook.Info))
		default:
			rest = append(rest, names...)
		}
	}
	if len(rest) > 0 {
		c.add(playbook.New("diff-tensors-missing", rest[0], fmt.Sprintf("the body lacks %s of the base: %s", count(len(rest), "tensor"), some(rest)),
			"look for a shard that was not saved; save or merge again"))
	}
	if extra := c.keysOf(added, func(*param) bool { return true }); len(extra) > 0 {
		c.add(playbook.New("diff-tensors-added", extra[0], fmt.Sprintf("the body has %s that the base has not: %s", count(len(extra), "tensor"), some(extra)), "make sure that they belong to the model: a server stops at tensors it does not know"))
	}
}
