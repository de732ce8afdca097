package write

import (
	"errors"
	"fmt"
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

// work is one item of the plan with everything that coding it needs. A tensor of any rank is taken as [rows, cols]
// with cols its last dimension; a kept one as its bytes.
type work struct {
	item       *plan.Item
	ref        safetensors.Ref
	origin     model.Origin
	module     string
	rows, cols int64
	bytes      int64 // of the source
	out        map[dialect.Part]dialect.Output
}

// width is the size of an element of the source in bytes, 1 for formats of less than a byte.
func (w *work) width() int64 {
	bits, _ := w.item.Dtype.Bits()
	return max(bits/8, 1)
}

// name of the stored tensor that holds part.
func (w *work) name(part dialect.Part) string { return w.out[part].Name }

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
	items := make(map[string]bool, len(p.Items))
	for i := range p.Items {
		if items[p.Items[i].Source] {
			return fmt.Errorf("the plan has two items for tensor %s: make the plan again", p.Items[i].Source)
		}
		items[p.Items[i].Source] = true
	}
	for i := range c.view.Tensors {
		if t := &c.view.Tensors[i]; !items[t.Name] {
			return fmt.Errorf("tensor %s of the source is in no item of the plan: make the plan again", t.Name)
		}
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
			w, err := c.resolve(&p.Items[i])
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

// resolve finds an item's tensor and checks that its outputs are those of its scheme, each of the right size.
func (c *check) resolve(it *plan.Item) (*work, error) {
	t, ok := c.view.Lookup(it.Source)
	switch {
	case !ok:
		return nil, errors.New("the source has no such tensor: make the plan again")
	case t.Dtype() != it.Dtype || !slices.Equal(t.Shape(), it.Shape) || t.Origin != it.Origin:
		return nil, fmt.Errorf("planned as %s %v of the %s, the source has %s %v of the %s: make the plan again",
			it.Dtype, it.Shape, it.Origin, t.Dtype(), t.Shape(), t.Origin)
	}
	w := &work{
		item: it, ref: t.Ref, origin: t.Origin, module: t.Module, bytes: t.Bytes(), rows: 1, cols: 1,
		out: make(map[dialect.Part]dialect.Output, len(it.Outputs)),
	}
	for i, n := range it.Shape {
		if i < len(it.Shape)-1 {
			w.rows *= n
		} else {
			w.cols = n
		}
	}
	for _, o := range it.Outputs {
		if _, twice := w.out[o.Part]; twice {
			return nil, fmt.Errorf("two outputs hold the %s part", o.Part)
		}
		w.out[o.Part] = o
	}
	if len(it.Outputs) == 0 {
		return w, nil
	}
	want, err := w.parts()
	if err != nil {
		return nil, err
	}
	for part, size := range want {
		o, ok := w.out[part]
		if !ok {
			return nil, fmt.Errorf("scheme %s needs an output for the %s part", it.Scheme, part)
		}
		if got, err := outputBytes(o); err != nil || got != size {
			return nil, fmt.Errorf("output %s, %s %v, cannot hold the %s part of %d bytes", o.Name, o.Dtype, o.Shape, part, size)
		}
	}
	if len(w.out) != len(want) {
		for _, o := range it.Outputs {
			if _, ok := want[o.Part]; !ok {
				return nil, fmt.Errorf("output %s holds the %s part, which this version cannot write under scheme %s", o.Name, o.Part, it.Scheme)
			}
		}
	}
	return w, nil
}

// parts lists what a work's scheme stores, with the size of each in bytes.
func (w *work) parts() (map[dialect.Part]int64, error) {
	s := w.item.Scheme
	if _, err := dialect.ParseScheme(string(s)); err != nil {
		return nil, err
	}
	if !s.Quantized() {
		if k := w.out[dialect.PartKept]; k.Dtype != w.item.Dtype || !slices.Equal(k.Shape, w.item.Shape) {
			return nil, errors.New("a kept tensor needs one output of its own dtype and shape")
		}
		return map[dialect.Part]int64{dialect.PartKept: w.bytes}, nil
	}
	if w.item.Dtype != safetensors.BF16 {
		return nil, fmt.Errorf("this version quantizes BF16 sources only, this one is %s: keep it with a name rule of the recipe", w.item.Dtype)
	}
	n := w.rows * w.cols
	scale := w.out[dialect.PartScale].Dtype
	width, _ := scale.Bits()
	switch {
	case s.NVFP4():
		if w.cols%16 != 0 {
			return nil, fmt.Errorf("a row of %d values cannot be cut into blocks of 16", w.cols)
		}
		if g := w.out[dialect.PartGlobalScale].Dtype; g != safetensors.F32 {
			return nil, fmt.Errorf("a global scale is F32, not %q", g)
		}
		return map[dialect.Part]int64{dialect.PartCodes: n / 2, dialect.PartBlockScale: n / 16, dialect.PartGlobalScale: 4}, nil
	case !s.FP8():
		return nil, fmt.Errorf("this version does not know scheme %q", s)
	case scale != safetensors.BF16 && scale != safetensors.F32:
		return nil, fmt.Errorf("an FP8 scale is BF16 or F32, not %q", scale)
	case s == dialect.FP8Channel:
		return map[dialect.Part]int64{dialect.PartCodes: n, dialect.PartScale: w.rows * width / 8}, nil
	}
	return map[dialect.Part]int64{dialect.PartCodes: n, dialect.PartScale: width / 8}, nil
}

// outputBytes is the size of an output on disk.
func outputBytes(o dialect.Output) (int64, error) {
	bits, ok := o.Dtype.Bits()
	if !ok {
		return 0, fmt.Errorf("dtype %q is unknown", o.Dtype)
	}
	n := bits
	for _, d := range o.Shape {
		n *= d
	}
	return n / 8, nil
}

// addCompanions finds the files to copy in the view.
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
	return nil
}
