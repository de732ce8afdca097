package plan

import (
	"fmt"
	"slices"
	"strings"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// quantized is what a plan on a quantized checkpoint is made of.
type quantized struct {
	source
	block  quantBlock
	known  bool // the block is of a dialect that is known
	nested []byte
	record *model.Provenance // nil without one
	stored []storedTensor    // everything in the body's files; for splice and graft
}

// readQuantized reads what a quantized checkpoint says of itself.
func readQuantized(m *model.Model) (quantized, error) {
	q := quantized{source: sourceOf(m)}
	var err error
	if q.nested, err = m.QuantFile(); err != nil {
		return q, err
	}
	if q.record, err = m.Record(); err != nil {
		return q, err
	}
	q.block, q.known = readBlock(q.configJSON, q.nested)
	return q, nil
}

// Lineage is what the record of an output takes over from the record of the checkpoint that it was made from: who coded
// the weights, from what, and how. A convert or a splice codes nothing, so these stay true.
type Lineage struct {
	Source  string `json:"source"`            // fingerprint of what was quantized, "" when nobody recorded it
	Recipe  string `json:"recipe"`            //
	Head    string `json:"head"`              //
	From    string `json:"from"`              // fingerprint of the quantized checkpoint that this one was made from
	Foreign bool   `json:"foreign,omitempty"` // another tool coded the weights: nothing says from what
	// Native is, per module, the recorded scale in the form of the arithmetic that coded it.
	Native map[string]float32 `json:"native"`
}

// Convert plans a quantized checkpoint in another dialect. Nothing is coded: codes and block scales keep their bytes,
// names and shapes change, and the global scale becomes its reciprocal, or the scale that the record keeps of it, so that
// there and back gives the same bytes. Every tensor stays in the file that it is in.
//
// A scheme that the other dialect cannot express is refused with the names of its modules (convert-inexpressible).
func Convert(m *model.Model, version, to string) (*Plan, error) {
	q, err := readQuantized(m)
	if err != nil {
		return nil, fmt.Errorf("planning the conversion: %w", err)
	}
	q.stored = storedTensors(m)
	return q.convert(version, to)
}

// convert is Convert without the model's methods.
func (q quantized) convert(version, to string) (*Plan, error) {
	d, err := dialect.Parse(to)
	if err != nil {
		return nil, err
	}
	p := q.newPlan(KindConvert, version, d.Name())
	notes := newNotes()
	q.refuseUnquantized(notes)
	if q.known && q.block.dialect == d.Name() {
		notes.add(playbook.New("convert-same", "dialect "+to, "the checkpoint is in this dialect already", "name the other dialect"))
	}
	if key := q.block.cache(); key != "" {
		notes.add(playbook.New("convert-inexpressible", "config.json: "+key, "the checkpoint scales its key/value cache, and this version writes no such scales",
			"leave the cache to the server's own flag: take "+key+" and the k_scale and v_scale tensors out"))
	}
	if playbook.Worst(notes.done()) == playbook.Error {
		p.Findings = notes.done()
		return p, nil
	}
	tensors, err := sorted(q.tensors)
	if err != nil {
		return nil, err
	}
	modules := gatherStored(tensors, q.block, notes)
	refused := map[dialect.Scheme]error{}
	var taken []model.Tensor // parallel to the items
	for i := range tensors {
		item, err := q.convertItem(&tensors[i], modules, d, refused, notes)
		if err != nil {
			return nil, err
		}
		if len(item.Outputs) == 0 {
			p.drop(&tensors[i], item.Reason)
			continue
		}
		p.Items, taken = append(p.Items, item), append(taken, tensors[i])
	}
	p.tally(taken, modules)
	p.Findings = notes.done()
	if playbook.Worst(p.Findings) == playbook.Error {
		return p, nil
	}
	if len(modules) == 0 {
		notes.add(playbook.New("convert-nothing", "dialect "+to, "no tensor of the checkpoint is quantized, so there is nothing to convert", "quantize it in this dialect"))
		p.Findings = notes.done()
		return p, nil
	}
	p.Shards = sameShards(taken, p.Items)
	markWhole(p.Shards, p.Items, taken, q.stored)
	p.Files = companions(q.files)
	if err := p.spellConfig(q.configJSON, q.modulesOf(tensors, modules), d, notes); err != nil {
		return nil, err
	}
	p.Lineage = q.lineage()
	notes.add(playbook.New("convert-done", q.block.dialect+" to "+d.Name(), fmt.Sprintf("%d quantized modules change their spelling: codes and block scales byte for byte, scales of another form as reciprocals", len(modules)), ""))
	p.Findings = notes.done()
	return p, nil
}

// newPlan is a plan without items.
func (q quantized) newPlan(kind Kind, version, dialectName string) *Plan {
	p := &Plan{
		Schema: 1, Kind: kind, Version: version, Source: q.fingerprint, Family: q.family, Dialect: dialectName, Math: q.math(), Search: "max", Groups: "server",
		Items: []Item{}, Shards: []Shard{}, Files: []File{}, Schemes: map[dialect.Scheme]Tally{}, Findings: []playbook.Finding{},
	}
	if q.config != nil {
		p.Architecture = q.config.Architecture
	}
	if r := q.record; r != nil {
		p.Recipe.Name, p.Search, p.Groups = r.Recipe, r.Search, r.Groups
	}
	return p
}

// math names the arithmetic whose form the native scales have. A stranger's scales have the form of the dialect that they
// are stored in.
func (q quantized) math() string {
	switch {
	case q.record != nil && q.record.Math != "":
		return q.record.Math
	case q.block.dialect == compressedTensors:
		return numeric.CT.String()
	}
	return numeric.Modelopt.String()
}

// divides says whether the native scales divide, as compressed-tensors', or multiply, as modelopt's.
func (q quantized) divides() bool { return q.math() == numeric.CT.String() }

// lineage is what the record of the source says, or what is known without one.
func (q quantized) lineage() *Lineage {
	r := q.record
	if r == nil {
		head := "none"
		if slices.ContainsFunc(q.tensors, func(t model.Tensor) bool { return t.Role == model.RoleHead }) {
			head = string(model.Body)
		}
		return &Lineage{From: q.fingerprint, Foreign: true, Head: head}
	}
	return &Lineage{Source: r.Source, Recipe: r.Recipe, Head: r.Head, From: q.fingerprint, Foreign: r.Foreign, Native: r.Native}
}

// refuseUnquantized finds what makes a checkpoint unfit for convert and splice.
func (q quantized) refuseUnquantized(notes *notes) {
	for _, f := range q.findings {
		if f.Rule != "already-quantized" {
			notes.add(f)
		}
	}
	switch {
	case q.config == nil:
		notes.add(playbook.New("family-unsupported", "config.json", "the checkpoint has no config.json that could be read", "copy config.json from where the checkpoint comes from"))
	case q.known:
	case q.block.raw.IsObject():
		notes.add(playbook.New("dialect-unread", "config.json: quantization_config", fmt.Sprintf("quant_method %q is neither compressed-tensors nor modelopt", q.block.raw.Get("quant_method").String()),
			"quantize the model again from the unquantized checkpoint"))
	default:
		notes.add(playbook.New("not-quantized", "config.json", "nothing says that the checkpoint is quantized: there is no quantization_config and no "+model.QuantFile, "quantize it first, or lay a head over an unquantized body with graft"))
	}
}

// convertItem says what becomes of one tensor. Without outputs it is dropped.
func (q quantized) convertItem(t *model.Tensor, modules map[string]*stored, d dialect.Dialect, refused map[dialect.Scheme]error, notes *notes) (Item, error) {
	item := kept(t)
	item.Reason = "not quantized"
	at := strings.LastIndexByte(t.Name, '.')
	s := modules[t.Name[:max(at, 0)]]
	if s == nil || t.Suffix == "bias" {
		return item, nil
	}
	if s.scheme == "" {
		return item, nil // it is said why, and the plan is refused
	}
	why, seen := refused[s.scheme]
	if !seen {
		why = d.Servable(s.scheme)
		refused[s.scheme] = why
	}
	if why != nil {
		if t == s.weight {
			notes.at(s.module, playbook.New("convert-inexpressible", "", fmt.Sprintf("it is %s, and %s cannot have that: %v", s.scheme, d.Name(), why),
				"quantize these modules again with a scheme that both dialects have, or stay with "+q.block.dialect))
		}
		return item, nil
	}
	spelled, err := d.Spell(s.module+".weight", s.scheme, q.arithmetic(), s.shape)
	if err != nil {
		return item, fmt.Errorf("planning the conversion: %w", err)
	}
	for _, o := range spelled {
		if s.part(o.Part, q.block.dialect) != t {
			continue
		}
		item.Outputs = []dialect.Output{{Name: o.Name, Part: dialect.PartKept, Dtype: t.Dtype(), Shape: o.Shape}}
		item.Reason = "the same bytes, spelled as " + d.Name() + " spells them"
		if o.Dtype != t.Dtype() && !(s.scheme.FP8() && o.Part != dialect.PartCodes && anyFloat(o.Dtype) && anyFloat(t.Dtype())) || elements(o.Shape) != elements(t.Shape()) && o.Part != dialect.PartCodes {
			notes.at(s.module, playbook.New("convert-inexpressible", "", fmt.Sprintf("%s is %s %v, and %s stores it as %s %v", t.Suffix, t.Dtype(), t.Shape(), d.Name(), o.Dtype, o.Shape),
				"quantize the module again from the unquantized checkpoint"))
		}
		if o.Part == dialect.PartGlobalScale || o.Part == dialect.PartInputScale && s.scheme.NVFP4() {
			item.Action, item.Reason = Reciprocal, "a scale that one dialect divides by and the other multiplies with"
			item.Outputs[0].Part = o.Part
			item.Native = q.native(s.module, o.Part)
		}
		return item, nil
	}
	item.Outputs, item.Reason = nil, "no server reads it for "+string(s.scheme)
	notes.at(t.Name, playbook.New("convert-dropped", "", fmt.Sprintf("the tensor is left out: %s has no such part, and a server that is strict refuses the name", s.scheme), ""))
	return item, nil
}

// anyFloat: a scale of an FP8 weight keeps the dtype that it is stored in. Both loaders copy it into a float32 parameter of
// their own, whatever float it was (vLLM 017e9f4448, model_executor/parameter.py PerTensorScaleParameter, ChannelQuantScaleParameter).
func anyFloat(d safetensors.Dtype) bool { return d == safetensors.F32 || d == safetensors.BF16 }

// arithmetic decides the dtype of an FP8 scale only.
func (q quantized) arithmetic() numeric.Math {
	m, err := numeric.ParseMath(q.math())
	if err != nil {
		return numeric.Modelopt
	}
	return m
}

// native is the recorded scale of a module when what is stored is its reciprocal: then it, and not a reciprocal of a
// reciprocal, is what the other dialect stores. nil when the stored one is the native one, or nothing is recorded.
func (q quantized) native(module string, part dialect.Part) *float32 {
	if q.record == nil || q.divides() == (q.block.dialect == compressedTensors) {
		return nil
	}
	if part == dialect.PartInputScale {
		module += InputNative
	}
	if v, ok := q.record.Native[module]; ok {
		return &v
	}
	return nil
}

// InputNative is what follows a module's name where the record keeps the native form of its input scale.
const InputNative = ".input_scale"

// kept is an item that stays as it is.
func kept(t *model.Tensor) Item {
	return Item{
		Source: t.Name, Stored: t.Stored, Origin: t.Origin, Role: t.Role, Layer: t.Layer, Dtype: t.Dtype(), Shape: append([]int64{}, t.Shape()...),
		Action: Keep, Scheme: dialect.BF16,
		Outputs: []dialect.Output{{Name: t.Name, Part: dialect.PartKept, Dtype: t.Dtype(), Shape: append([]int64{}, t.Shape()...)}},
	}
}

// modulesOf lists every Linear of the checkpoint with the scheme that it is stored in.
func (q quantized) modulesOf(tensors []model.Tensor, quantized map[string]*stored) []dialect.Module {
	var out []dialect.Module
	for i := range tensors {
		t := &tensors[i]
		if !t.Linear || !t.Holds() {
			if q.plain(t) {
				out = append(out, dialect.Module{Name: t.Module, Scheme: dialect.BF16, Plain: true, Unread: q.unread})
			}
			continue
		}
		m := dialect.Module{Unread: q.unread, Name: t.Module, Fused: t.Fused, Scheme: dialect.BF16, Head: t.Role == model.RoleHead, Vision: t.Role == model.RoleVision}
		if s := quantized[t.Module]; s != nil {
			m.Scheme = s.scheme
		}
		for _, m.Name = range asked(t) {
			out = append(out, m)
		}
	}
	return out
}

// tally counts the modules of each scheme, and all bytes.
func (p *Plan) tally(tensors []model.Tensor, modules map[string]*stored) {
	for i := range p.Items {
		item := &p.Items[i]
		n := tensors[i].Bytes()
		scheme := dialect.BF16
		if at := strings.LastIndexByte(item.Source, '.'); at >= 0 {
			if s := modules[item.Source[:at]]; s != nil && s.scheme != "" && tensors[i].Suffix != "bias" {
				scheme = s.scheme
			}
		}
		var after int64
		for _, o := range item.Outputs {
			after += outputBytes(o)
		}
		c := p.Schemes[scheme]
		if tensors[i].Holds() {
			c.Tensors++
		}
		c.BytesIn += n
		c.BytesOut += after
		p.Schemes[scheme] = c
		p.BytesIn += n
		p.BytesOut += after
	}
}

// drop leaves a tensor of the source out.
func (p *Plan) drop(t *model.Tensor, why string) {
	p.Dropped = append(p.Dropped, Dropped{Name: t.Name, Origin: t.Origin, Reason: why})
	p.BytesIn += t.Bytes()
}

// sameShards leaves every tensor in the file that it is in. A file of which nothing is left is no file.
func sameShards(tensors []model.Tensor, items []Item) []Shard {
	out := []Shard{}
	at := map[string]int{}
	for i := range items {
		name := fileOf(&tensors[i])
		k, ok := at[name]
		if !ok {
			k = len(out)
			at[name] = k
			out = append(out, Shard{File: name})
		}
		out[k].Items = append(out[k].Items, i)
		for _, o := range items[i].Outputs {
			out[k].Bytes += outputBytes(o)
		}
	}
	slices.SortFunc(out, func(a, b Shard) int { return safetensors.NaturalCompare(a.File, b.File) })
	return out
}

func fileOf(t *model.Tensor) string {
	if t.File == nil {
		return "model.safetensors"
	}
	return t.File.Name
}

// sorted is the tensors in natural order of names, each once.
func sorted(in []model.Tensor) ([]model.Tensor, error) {
	tensors := slices.Clone(in)
	slices.SortFunc(tensors, func(a, b model.Tensor) int { return safetensors.NaturalCompare(a.Name, b.Name) })
	for i := 1; i < len(tensors); i++ {
		if tensors[i].Name == tensors[i-1].Name {
			return nil, fmt.Errorf("planning: tensor %s is in the view twice", tensors[i].Name)
		}
	}
	return tensors, nil
}
