package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// Options is what the user asks for.
type Options struct {
	Version   string // of this program; it is part of the plan, since another version may write other bytes
	Recipe    string // a name of Recipes() or the path of a YAML file; "" is "default"
	Stats     string // path of a file of activation statistics; "" is none
	Dialect   string // "" is "compressed-tensors"
	Math      numeric.Math
	Search    string // "" is "max"
	Groups    string // "server" (default) or "llm-compressor"
	ShardSize int64  // bytes; 0 is 5e9
}

// Plan is everything that will be done, tensor by tensor. It is a pure function of headers and options.
// A plan that was refused before its tensors were judged has no items; it never has a Config.
type Plan struct {
	Schema       int                      `json:"schema"` // 1
	Kind         Kind                     `json:"kind"`
	Version      string                   `json:"version"`
	Source       string                   `json:"source"` // fingerprint of the view, not a path
	Family       string                   `json:"family"`
	Architecture string                   `json:"architecture"`
	Recipe       Recipe                   `json:"recipe"`
	Dialect      string                   `json:"dialect"`
	Math         string                   `json:"math"`
	Search       string                   `json:"search"`
	Groups       string                   `json:"groups"`
	Stats        *Statistics              `json:"stats,omitempty"`
	Items        []Item                   `json:"items"` // natural name order
	Shards       []Shard                  `json:"shards"`
	Config       json.RawMessage          `json:"config"`         // the final config.json, byte for byte
	Files        []File                   `json:"files"`          // companions copied as they are
	Made         map[string]string        `json:"made,omitempty"` // small files that the plan itself writes, by name: hf_quant_config.json, a model card
	Dropped      []Dropped                `json:"dropped,omitempty"`
	Lineage      *Lineage                 `json:"lineage,omitempty"` // what the record takes over from the source's; nil for a plan that codes weights
	BytesIn      int64                    `json:"bytes_in"`
	BytesOut     int64                    `json:"bytes_out"`
	Schemes      map[dialect.Scheme]Tally `json:"schemes"`
	Findings     []playbook.Finding       `json:"findings"`
}

// Tally counts the items of a scheme; BytesIn and BytesOut are tensor bytes before and after.
type Tally struct {
	Tensors  int   `json:"tensors"`
	BytesIn  int64 `json:"bytes_in"`
	BytesOut int64 `json:"bytes_out"`
}

// Item is a source tensor, or a stretch of one, and what it becomes. The items of one source tensor cover it without gap
// or overlap, unless the rest is listed in Plan.Dropped.
type Item struct {
	Source  string            `json:"source"`           // name in the view
	Stored  string            `json:"stored,omitempty"` // name in its file, where the view calls it by another
	Begin   int64             `json:"begin,omitempty"`  // first element of Source that the item takes: one expert of a 3-D tensor
	Origin  model.Origin      `json:"origin"`
	Role    model.Role        `json:"role"`
	Layer   int               `json:"layer"`
	Dtype   safetensors.Dtype `json:"dtype"` // of the source
	Shape   []int64           `json:"shape"` // of what the item takes, slowest dimension first
	Action  Action            `json:"action"`
	Scheme  dialect.Scheme    `json:"scheme"`
	Group   string            `json:"group,omitempty"` // NVFP4 tensors with the same group share one global scale
	Reason  string            `json:"reason"`          // which rule decided, or why it is kept
	Outputs []dialect.Output  `json:"outputs"`

	// SourceScale is the stored scale of an FP8 source; nil for any other.
	SourceScale *SourceScale `json:"source_scale,omitempty"`
	// InputScale is what is stored under the output of part dialect.PartInputScale, in the dialect's own form.
	InputScale *float32 `json:"input_scale,omitempty"`
	// Native is, for Reciprocal, the number that the record of the source says was taken the reciprocal of. The writer stores
	// it when its reciprocal is what the source holds, and refuses otherwise. nil: the reciprocal is computed. For Quantize to
	// nvfp4-w4a4 it is InputScale in the form of the arithmetic, which the record keeps.
	Native *float32 `json:"native,omitempty"`
	// Record names a kept scale in the record (the module, with InputNative for its input scale): the form that it is stored in
	// is the native one, and another tool coded it, so nothing else says its value.
	Record string `json:"record,omitempty"`
}

// SourceScale tells how an FP8 weight is scaled in the source: value = code * scale[row/Block[0]][column/Block[1]].
type SourceScale struct {
	Name   string            `json:"name"`  // the tensor that holds the scales
	Dtype  safetensors.Dtype `json:"dtype"` // F32 or BF16
	Block  [2]int64          `json:"block"` // rows and columns that share one scale; a scale per tensor is a block of its whole shape
	Origin model.Origin      `json:"origin"`
}

// Action is what the writer does with an item.
type Action string

// The actions.
const (
	Keep       Action = "keep"       // the source's bytes, maybe under another name or shape
	Cast       Action = "cast"       // a kept F32 or F16 tensor, rounded to BF16; values that change are counted
	Widen      Action = "widen"      // a kept FP8 tensor, multiplied by its scale and rounded to BF16
	Quantize   Action = "quantize"   // to Scheme, from BF16, F16, F32 or (with SourceScale) FP8
	Reciprocal Action = "reciprocal" // one F32 scale, stored as its reciprocal (the other dialect's form)
)

// Kind is what a plan is for.
type Kind string

// The kinds.
const (
	KindQuantize Kind = "quantize"
	KindGraft    Kind = "graft"   // nothing is quantized: a body and a donor's head become one checkpoint
	KindSplice   Kind = "splice"  // a quantized checkpoint gets a head
	KindConvert  Kind = "convert" // a quantized checkpoint gets the other dialect
)

// Dropped is a source tensor that does not go into the output, and why.
type Dropped struct {
	Name   string       `json:"name"`
	Origin model.Origin `json:"origin"`
	Reason string       `json:"reason"`
}

// Shard is one output file. Items are indexes into Plan.Items; all members of a group are in one shard.
type Shard struct {
	File  string `json:"file"`
	Items []int  `json:"items"`
	Bytes int64  `json:"bytes"` // tensor bytes
	// Whole says that the file is a file of the source, header and all: every tensor of it, and nothing changed.
	Whole bool `json:"whole,omitempty"`
}

// File is a companion file to copy.
type File struct {
	Name   string       `json:"name"`
	Origin model.Origin `json:"origin"`
}

// source is what a plan is made of: a model, reduced to values.
type source struct {
	fingerprint string
	family      string
	config      *model.Config
	configJSON  []byte
	quantFile   []byte // hf_quant_config.json, nil without one
	supported   error
	unread      bool // names and shapes are known, and not what a server's class does with them
	tensors     []model.Tensor
	expected    []model.Expected
	files       []model.CompanionFile
	findings    []playbook.Finding
}

// Make decides everything. A refusal is a finding of severity error in the plan; err is for a bad option or recipe, or a
// model that contradicts itself.
func Make(m *model.Model, o Options) (*Plan, error) {
	return decide(sourceOf(m), o)
}

// sourceOf reduces a model to values.
func sourceOf(m *model.Model) source {
	src := source{
		fingerprint: m.Fingerprint(), family: m.Family, config: m.Config,
		tensors: m.Tensors, expected: m.Expected, files: m.Files, findings: m.Findings, unread: m.StructureOnly(),
	}
	if m.Config != nil {
		src.configJSON, src.supported = m.ConfigJSON(), m.Supported()
		src.quantFile, _ = m.QuantFile() // one that cannot be read describes nothing, and then the weights stay refused
	}
	return src
}

// decide is Make without the model's methods.
func decide(src source, o Options) (*Plan, error) {
	a, err := o.resolve()
	if err != nil {
		return nil, err
	}
	return src.plan(a)
}

// askedFor is options that are complete, with what they name.
type askedFor struct {
	Options
	recipe  Recipe
	dialect dialect.Dialect
	stats   *stats // nil without statistics
}

// plan works with options that are complete.
func (src source) plan(a askedFor) (*Plan, error) {
	o, recipe, d := a.Options, a.recipe, a.dialect
	p := &Plan{
		Schema: 1, Kind: KindQuantize, Version: o.Version, Source: src.fingerprint, Family: src.family, Recipe: recipe,
		Dialect: d.Name(), Math: o.Math.String(), Search: o.Search, Groups: o.Groups,
		Items: []Item{}, Shards: []Shard{}, Files: []File{}, Schemes: map[dialect.Scheme]Tally{}, Findings: []playbook.Finding{},
	}
	if src.config != nil {
		p.Architecture = src.config.Architecture
	}
	if a.stats != nil {
		p.Stats = &a.stats.Statistics
	}
	notes := newNotes()
	src, types := src.withoutFP8(p, notes)
	notes.carry(src.findings)
	notes.carry(refuseSource(src))
	if playbook.Worst(notes.done()) == playbook.Error {
		p.Findings = notes.done()
		return p, nil
	}

	tensors := slices.Clone(src.tensors)
	slices.SortFunc(tensors, func(a, b model.Tensor) int { return safetensors.NaturalCompare(a.Name, b.Name) })
	for i := 1; i < len(tensors); i++ {
		if tensors[i].Name == tensors[i-1].Name {
			return nil, fmt.Errorf("planning: tensor %s is in the view twice", tensors[i].Name)
		}
	}
	choices := choose(tensors, a, src, notes)
	in := &inputs{d: d, math: o.Math, stats: a.stats, scales: map[string]float32{}, native: map[string]float32{}}
	in.dtypes = types
	for _, u := range gather(tensors, src.expected) {
		u.judge(tensors, choices, notes)
		in.scale(u, tensors, choices, notes)
	}
	sizes, err := p.fill(tensors, choices, in, o, notes)
	if err != nil {
		return nil, err
	}
	p.remark(src, a, notes)
	p.Findings = notes.done()
	if playbook.Worst(p.Findings) == playbook.Error {
		return p, nil
	}
	p.Shards = shard(p.Items, sizes, o.ShardSize)
	p.Files = companions(src.files)
	if err := p.spellConfig(src.configJSON, src.modules(tensors, choices), d, notes); err != nil {
		return nil, err
	}
	p.Findings = notes.done()
	return p, nil
}

// Check finds a bad option or recipe before a source is opened; every error names the option.
func (o Options) Check() error {
	_, err := o.resolve()
	return err
}

// resolve fills in defaults and reads recipe and statistics; every error names the option.
func (o Options) resolve() (askedFor, error) {
	if o.Dialect == "" {
		o.Dialect = "compressed-tensors"
	}
	if o.Search == "" {
		o.Search = "max"
	}
	if o.Groups == "" {
		o.Groups = "server"
	}
	if o.ShardSize == 0 {
		o.ShardSize = 5e9
	}
	fail := func(err error) (askedFor, error) { return askedFor{}, err }
	if _, err := numeric.ParseMath(o.Math.String()); err != nil {
		return fail(fmt.Errorf("math: %w", err))
	}
	switch {
	case o.Search != "max":
		return fail(fmt.Errorf("search %q is not in this version; use max", o.Search))
	case o.Groups != "server" && o.Groups != "llm-compressor":
		return fail(fmt.Errorf("groups %q are not known; use server, or llm-compressor for a comparison", o.Groups))
	case o.ShardSize < 0:
		return fail(fmt.Errorf("shard size %d is negative", o.ShardSize))
	}
	d, err := dialect.Parse(o.Dialect)
	if err != nil {
		return fail(err)
	}
	recipe, err := LoadRecipe(o.Recipe)
	if err != nil {
		return fail(err)
	}
	a := askedFor{Options: o, recipe: recipe, dialect: d}
	if o.Stats != "" {
		if a.stats, err = readStats(o.Stats); err != nil {
			return fail(err)
		}
	}
	return a, nil
}
