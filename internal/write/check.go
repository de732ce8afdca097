package write

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// Names of the files that a run writes beside shards and companions.
const (
	configFile = "config.json"
	indexFile  = "model.safetensors.index.json"
)

// check is a plan found consistent with itself and with its source: what the rest of the package works from.
type check struct {
	view       *model.Model
	math       numeric.Math
	dialect    dialect.Dialect
	shards     []shard
	companions []model.CompanionFile
	bytesIn    int64 // of items that have outputs
	bytesOut   int64
}

// shard is one file to be written.
type shard struct {
	file   string
	works  []*work
	layout *safetensors.Layout
}

// newCheck refuses a plan that does not fit its view, before anything is on disk. A plan that holds error findings is
// a *Refusal; everything else is a plan that this version cannot carry out, or one made from another source.
func newCheck(p *plan.Plan, m *model.Model) (*check, error) {
	var refused []playbook.Finding
	for _, f := range p.Findings {
		if f.Severity == playbook.Error {
			refused = append(refused, f)
		}
	}
	if len(refused) > 0 {
		return nil, &Refusal{Findings: refused}
	}
	if p.Schema != 1 {
		return nil, fmt.Errorf("the plan has schema %d, this version carries out schema 1: make the plan again", p.Schema)
	}
	if f := m.Fingerprint(); p.Source != f {
		return nil, fmt.Errorf("the plan was made for source %s, this source is %s: make the plan again", p.Source, f)
	}
	if p.Search != "max" && p.Search != "" {
		return nil, fmt.Errorf("the plan asks for scale search %q, this version carries out \"max\"", p.Search)
	}
	c := &check{view: m}
	if p.Kind != plan.KindGraft { // which codes nothing and spells nothing
		var err error
		if c.math, err = numeric.ParseMath(p.Math); err != nil {
			return nil, fmt.Errorf("in the plan: %w", err)
		}
		if c.dialect, err = dialect.Parse(p.Dialect); err != nil {
			return nil, fmt.Errorf("in the plan: %w", err)
		}
	}
	if err := c.addShards(p); err != nil {
		return nil, err
	}
	return c, c.addCompanions(p)
}

// addShards resolves every item and lays every shard out.
func (c *check) addShards(p *plan.Plan) error {
	if err := c.covered(p); err != nil {
		return err
	}
	files := map[string]bool{configFile: true, indexFile: true, model.ProvenanceFile: true, journalFile: true}
	names := map[string]string{} // output tensor -> source tensor
	placed := make([]bool, len(p.Items))
	groups := map[string]string{} // group -> file
	for _, s := range p.Shards {
		if filepath.Base(s.File) != s.File || !strings.HasSuffix(s.File, ".safetensors") || files[s.File] {
			return fmt.Errorf("the plan has a shard named %q: it must be a plain, unused name that ends in .safetensors", s.File)
		}
		files[s.File] = true
		out := shard{file: s.File}
		var specs []safetensors.Spec
		var bytes int64
		for _, i := range s.Items {
			if i < 0 || i >= len(p.Items) || placed[i] {
				return fmt.Errorf("shard %s of the plan holds item %d, which is not there or already in a shard: make the plan again", s.File, i)
			}
			placed[i] = true
			w, err := c.resolve(p, &p.Items[i])
			if err != nil {
				return fmt.Errorf("in the plan, tensor %s: %w", p.Items[i].Source, err)
			}
			for _, o := range w.item.Outputs {
				if other, taken := names[o.Name]; taken {
					return fmt.Errorf("in the plan, tensors %s and %s both become %s", other, w.item.Source, o.Name)
				}
				names[o.Name] = w.item.Source
				specs = append(specs, safetensors.Spec{Name: o.Name, Dtype: o.Dtype, Shape: o.Shape})
			}
			if g := w.item.Group; g != "" && w.item.Scheme.NVFP4() {
				if f, ok := groups[g]; ok && f != s.File {
					return fmt.Errorf("in the plan, group %s lies in shards %s and %s: its members share one scale and must lie in one", g, f, s.File)
				}
				groups[g] = s.File
			}
			if len(w.item.Outputs) > 0 {
				out.works = append(out.works, w)
				c.bytesIn += w.bytes
			}
		}
		layout, err := layOut(s, out.works, specs)
		if err != nil {
			return fmt.Errorf("laying out shard %s: %w", s.File, err)
		}
		for _, t := range layout.Tensors {
			bytes += t.Bytes()
		}
		if bytes != s.Bytes {
			return fmt.Errorf("shard %s of the plan says %d tensor bytes, its tensors have %d: make the plan again", s.File, s.Bytes, bytes)
		}
		c.bytesOut += bytes
		out.layout = layout
		c.shards = append(c.shards, out)
	}
	if i := slices.Index(placed, false); i >= 0 && len(p.Items[i].Outputs) > 0 {
		return fmt.Errorf("the plan puts tensor %s into no shard: make the plan again", p.Items[i].Source)
	}
	return nil
}

// addCompanions finds the files to copy in the view, and checks the names of those that the plan made.
func (c *check) addCompanions(p *plan.Plan) error {
	taken := map[string]bool{configFile: true, indexFile: true, model.ProvenanceFile: true, journalFile: true}
	for _, s := range c.shards {
		taken[s.file] = true
	}
	for _, f := range p.Files {
		if !filepath.IsLocal(f.Name) || filepath.Clean(f.Name) != f.Name {
			return fmt.Errorf("the plan copies a file named %q, which would leave the output folder", f.Name)
		}
		if taken[f.Name] || taken[strings.SplitN(filepath.ToSlash(f.Name), "/", 2)[0]] {
			return fmt.Errorf("the plan copies a file named %q, a name that the output needs for something else", f.Name)
		}
		taken[f.Name] = true
		i := slices.IndexFunc(c.view.Files, func(v model.CompanionFile) bool { return v.Name == f.Name && v.Origin == f.Origin })
		if i < 0 {
			return fmt.Errorf("the plan copies %s of the %s, which the source does not have: make the plan again", f.Name, f.Origin)
		}
		c.companions = append(c.companions, c.view.Files[i])
	}
	for _, name := range slices.Sorted(maps.Keys(p.Made)) {
		if filepath.Base(name) != name || !filepath.IsLocal(name) || name == "." {
			return fmt.Errorf("the plan makes a file named %q: it must be a plain name", name)
		}
		if taken[name] {
			return fmt.Errorf("the plan makes a file named %q, a name that the output needs for something else", name)
		}
		taken[name] = true
	}
	return nil
}
