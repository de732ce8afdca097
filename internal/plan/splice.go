package plan

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// Splice plans a quantized checkpoint with a donor's head in it. The view is the quantized body with the donor laid over
// it. Nothing is coded and nothing but the head is repaired: the head's tensors come whole from the donor, what the body
// stored of a head (stale copies and quantized leftovers, in whatever shard) is left out, the ignore lists name the head in
// the spellings of the checkpoint's own dialect, and the configuration promises the head. Every other tensor keeps its
// bytes, its name and its file.
func Splice(view *model.Model, version string) (*Plan, error) {
	q, err := readQuantized(view)
	if err != nil {
		return nil, fmt.Errorf("planning the splice: %w", err)
	}
	q.stored = storedTensors(view)
	return q.splice(version)
}

// storedTensor is a tensor of the body's files, in the view or not.
type storedTensor struct {
	name, file string
	begin      int64
	bytes      int64
}

// storedTensors lists every tensor of the body's files, copies too.
func storedTensors(view *model.Model) []storedTensor {
	var out []storedTensor
	for _, f := range view.Set.Files {
		for _, t := range f.Tensors {
			out = append(out, storedTensor{t.Name, f.Name, t.Begin, t.Bytes()})
		}
	}
	return out
}

// splice is Splice without the model's methods.
func (q quantized) splice(version string) (*Plan, error) {
	p := q.newPlan(KindSplice, version, q.block.dialect)
	notes := newNotes()
	q.findings = slices.DeleteFunc(slices.Clone(q.findings), func(f playbook.Finding) bool { return f.Rule == "stale-copy" && q.resolved(f) })
	q.refuseUnquantized(notes)
	if playbook.Worst(notes.done()) == playbook.Error {
		p.Findings = notes.done()
		return p, nil
	}
	tensors, err := sorted(q.tensors)
	if err != nil {
		return nil, err
	}
	modules := gatherStored(tensors, q.block, newNotes())
	for i := range tensors {
		item := kept(&tensors[i])
		item.Reason = "the body's, as it is"
		item.Record = q.unrecorded(&tensors[i], modules)
		if tensors[i].Origin == model.Donor {
			item.Reason = "the donor's head"
		}
		p.Items = append(p.Items, item)
	}
	p.tally(tensors, modules)
	p.leftOut(tensors, q.stored, notes)
	p.Shards = withHead(tensors, p.Items, q.stored)
	markWhole(p.Shards, p.Items, tensors, q.stored)
	p.Files = companions(q.files)
	if err := q.cover(p, tensors, notes); err != nil {
		return nil, fmt.Errorf("planning the splice: %w", err)
	}
	p.Lineage = q.lineage()
	p.Lineage.Head = string(model.Donor)
	q.tellHead(tensors, notes)
	p.Findings = notes.done()
	return p, nil
}

// unrecorded is the name under which the record gets a scale that no record has yet, "" for every other tensor.
func (q quantized) unrecorded(t *model.Tensor, modules map[string]*stored) string {
	if q.record != nil || t.Origin == model.Donor || t.Dtype() != safetensors.F32 || elements(t.Shape()) != 1 {
		return ""
	}
	s := modules[strings.TrimSuffix(t.Name, "."+t.Suffix)]
	switch {
	case s == nil || !s.scheme.NVFP4():
		return ""
	case t.Name == nameOf(s.part(dialect.PartGlobalScale, q.block.dialect)):
		return s.module
	case s.scheme == dialect.NVFP4W4A4 && t.Name == nameOf(s.part(dialect.PartInputScale, q.block.dialect)):
		return s.module + InputNative
	}
	return ""
}

func nameOf(t *model.Tensor) string {
	if t == nil {
		return ""
	}
	return t.Name
}

// tellHead says what came in, and what the configuration promises now.
func (q quantized) tellHead(tensors []model.Tensor, notes *notes) {
	n, bytes := 0, int64(0)
	for i := range tensors {
		if t := &tensors[i]; t.Origin == model.Donor && t.Role == model.RoleHead {
			n++
			bytes += t.Bytes()
		}
	}
	layers := int64(0)
	if q.config != nil {
		layers = q.config.HeadLayers
	}
	notes.add(playbook.New("head-laid", "donor", fmt.Sprintf("the donor's whole head, %d tensors of %s, is in; config.json promises %d of its layers", n, size(bytes), layers), ""))
}

// resolved says whether a copy is one that the plan does away with: of two stored tensors of one name only the one of the
// view is written.
func (q quantized) resolved(f playbook.Finding) bool {
	return slices.ContainsFunc(q.tensors, func(t model.Tensor) bool { return t.Origin == model.Donor })
}

// leftOut lists what the body stores and the view does not have, and says so in one finding per file and reason.
func (p *Plan) leftOut(tensors []model.Tensor, stored []storedTensor, notes *notes) {
	taken := make(map[string]*model.Tensor, len(tensors))
	for i := range tensors {
		if tensors[i].Origin == model.Body {
			taken[storedName(&tensors[i])] = &tensors[i]
		}
	}
	gone := map[string][]string{}
	for _, s := range stored {
		t := taken[s.name]
		if t != nil && fileOf(t) == s.file {
			continue
		}
		reason := "a head of the body's own, which the donor's replaces"
		if t != nil {
			reason = "a copy of a tensor that stands in " + fileOf(t) + " too"
		}
		p.Dropped = append(p.Dropped, Dropped{Name: s.name, Origin: model.Body, Reason: reason + " (" + s.file + ")"})
		p.BytesIn += s.bytes
		gone[s.file] = append(gone[s.file], s.name)
	}
	for _, file := range sortedNames(gone) {
		names := gone[file]
		slices.SortFunc(names, safetensors.NaturalCompare)
		notes.add(playbook.New("head-replaced", file, fmt.Sprintf("%d tensors of the file are left out: %s", len(names), listed(names, 20)), ""))
	}
}

// storedName is a tensor's name in its file.
func storedName(t *model.Tensor) string {
	if t.Stored != "" {
		return t.Stored
	}
	return t.Name
}

func sortedNames[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.SortFunc(out, safetensors.NaturalCompare)
	return out
}

// numbered is a file name that says how many there are.
var numbered = regexp.MustCompile(`^(.+)-\d{5}-of-\d{5}\.safetensors$`)

// withHead leaves the body's tensors in their files and puts the donor's into files of their own. A file of which nothing
// is left gives its name to the head, so that numbered names stay whole; when several are left empty, all numbered files
// are numbered anew.
func withHead(tensors []model.Tensor, items []Item, stored []storedTensor) []Shard {
	var body []Item
	var of, donor []int
	var bodyTensors []model.Tensor
	for i := range items {
		if items[i].Origin == model.Donor {
			donor = append(donor, i)
			continue
		}
		body, of, bodyTensors = append(body, items[i]), append(of, i), append(bodyTensors, tensors[i])
	}
	shards := sameShards(bodyTensors, body)
	used := map[string]bool{}
	for k := range shards {
		used[shards[k].File] = true
		for n, i := range shards[k].Items {
			shards[k].Items[n] = of[i]
		}
	}
	var empty []string
	for _, s := range stored {
		if !used[s.file] && !slices.Contains(empty, s.file) {
			empty = append(empty, s.file)
		}
	}
	slices.SortFunc(empty, safetensors.NaturalCompare)
	gone := len(empty)
	for k, s := range donorFiles(items, donor, used) {
		if k < len(empty) {
			s.File = empty[k]
			gone--
		}
		shards = append(shards, s)
	}
	slices.SortFunc(shards, func(a, b Shard) int { return safetensors.NaturalCompare(a.File, b.File) })
	return renumber(shards, gone > 0)
}

// markWhole finds the shards that are files of the source as they are. tensors are parallel to items.
func markWhole(shards []Shard, items []Item, tensors []model.Tensor, stored []storedTensor) {
	count := map[string]int{}
	for _, s := range stored {
		count[s.file]++
	}
	for k := range shards {
		s := &shards[k]
		whole := len(s.Items) > 0
		file := ""
		for n, i := range s.Items {
			item, t := &items[i], &tensors[i]
			if n == 0 {
				file = fileOf(t)
			}
			whole = whole && item.Action == Keep && item.Origin == model.Body && fileOf(t) == file && len(item.Outputs) == 1 &&
				item.Outputs[0].Name == storedName(t) && slices.Equal(item.Outputs[0].Shape, item.Shape)
		}
		s.Whole = whole && count[file] == len(s.Items)
	}
}

// renumber gives numbered files new numbers without holes, when some are gone.
func renumber(shards []Shard, gone bool) []Shard {
	if !gone {
		return shards
	}
	total := 0
	for _, s := range shards {
		if numbered.MatchString(s.File) {
			total++
		}
	}
	n := 0
	for i := range shards {
		if m := numbered.FindStringSubmatch(shards[i].File); m != nil {
			n++
			shards[i].File = fmt.Sprintf("%s-%05d-of-%05d.safetensors", path.Base(m[1]), n, total)
		}
	}
	return shards
}

// cover makes the configuration say of the head what is true of it now: unquantized, under every name that a server asks
// for.
func (q quantized) cover(p *Plan, tensors []model.Tensor, notes *notes) error {
	if !gjson.ValidBytes(q.configJSON) || !gjson.ParseBytes(q.configJSON).IsObject() {
		return fmt.Errorf("config.json is not a JSON object")
	}
	config := slices.Clone(q.configJSON)
	var err error
	entries := headEntries(tensors, q.block.dialect)
	var added []string
	if !q.block.nested {
		if config, added, err = withEntries(config, "quantization_config.ignore", entries); err != nil {
			return err
		}
		q.tellEntries("config.json: quantization_config.ignore", added, notes)
		if config, err = withoutLayers(config, "config.json", "quantization_config.quantized_layers", tensors, notes); err != nil {
			return err
		}
		if gjson.GetBytes(config, "quantization_config.exclude_modules").IsArray() {
			if config, added, err = withEntries(config, "quantization_config.exclude_modules", entries); err != nil {
				return err
			}
			q.tellEntries("config.json: quantization_config.exclude_modules", added, notes)
		}
	}
	if p.Config, err = indented(config); err != nil {
		return err
	}
	if q.nested == nil || q.block.dialect != modelopt {
		return nil
	}
	nested, added, err := withEntries(slices.Clone(q.nested), "quantization.exclude_modules", entries)
	if err != nil {
		return err
	}
	q.tellEntries(model.QuantFile+": quantization.exclude_modules", added, notes)
	if nested, err = withoutLayers(nested, model.QuantFile, "quantization.quantized_layers", tensors, notes); err != nil {
		return err
	}
	if nested, err = indented(nested); err != nil {
		return err
	}
	p.Made = map[string]string{model.QuantFile: string(nested)}
	return nil
}

func (q quantized) tellEntries(where string, added []string, notes *notes) {
	if len(added) > 0 {
		notes.add(playbook.New("head-covered", where, fmt.Sprintf("%d entries were added, so that the head is built unquantized: %s", len(added), listed(added, 30)), ""))
	}
}

// headEntries names the head as a dialect's ignore list does. compressed-tensors: every module by its name, the fused
// spellings, the names that are asked for experts (R28), and patterns, since runtimes differ in which of them they follow
// (Q03). modelopt: one wildcard, which covers mtp.fc too (vLLM 017e9f4448, modelopt.py is_layer_excluded), and the same names
// for readers that know no wildcards.
func headEntries(tensors []model.Tensor, dialectName string) []string {
	var head, quantized []dialect.Module
	for i := range tensors {
		t := &tensors[i]
		switch {
		case !t.Linear || !t.Holds():
		case t.Role == model.RoleHead:
			head = append(head, dialect.Module{Name: t.Module, Fused: t.Fused})
		default:
			quantized = append(quantized, dialect.Module{Name: t.Module, Fused: t.Fused})
		}
	}
	roots := headRoots(head)
	var out []string
	add := func(entry string) {
		if !slices.Contains(out, entry) {
			out = append(out, entry)
		}
	}
	if dialectName == modelopt {
		for _, root := range roots {
			add(root + "*")
		}
	}
	for _, m := range head {
		if parent, ok := strings.CutSuffix(m.Name, ".experts.gate_up_proj"); ok {
			add(parent + ".experts.0.gate_proj")
			add(parent + ".experts.0.up_proj")
			continue // no module has the stacked tensor's own name
		}
		if parent, ok := strings.CutSuffix(m.Name, ".experts.down_proj"); ok {
			add(parent + ".experts.0.down_proj")
			continue
		}
		add(m.Name)
	}
	for _, m := range head {
		if m.Fused != "" {
			add(m.Fused)
		}
	}
	if dialectName == modelopt {
		return out
	}
	for _, root := range roots {
		for _, form := range []string{"re:^" + regexp.QuoteMeta(root) + ".*", "re:.*" + regexp.QuoteMeta(root) + ".*"} {
			catches := regexp.MustCompile("^(?:" + strings.TrimPrefix(form, "re:") + ")")
			if !slices.ContainsFunc(quantized, func(m dialect.Module) bool { return catches.MatchString(m.Name) }) {
				add(form)
			}
		}
	}
	return out
}

// headRoots are the beginnings of the head's names: "mtp" for a tail, "model.layers.61." for an inline layer.
func headRoots(head []dialect.Module) []string {
	var out []string
	for _, m := range head {
		root, _, _ := strings.Cut(m.Name, ".")
		if root != "mtp" {
			parts := strings.Split(m.Name, ".")
			at := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, "mtp") })
			if at < 0 {
				at = min(slices.Index(parts, "layers")+1, len(parts)-1)
			}
			root = strings.Join(parts[:at+1], ".") + "."
		}
		if !slices.Contains(out, root) {
			out = append(out, root)
		}
	}
	return out
}

// withEntries adds what a list lacks, at its end.
func withEntries(doc []byte, where string, entries []string) ([]byte, []string, error) {
	var list []string
	for _, v := range gjson.GetBytes(doc, where).Array() {
		list = append(list, v.Str)
	}
	var added []string
	for _, e := range entries {
		if !slices.Contains(list, e) {
			list, added = append(list, e), append(added, e)
		}
	}
	if len(added) == 0 {
		return doc, nil, nil
	}
	doc, err := sjson.SetBytes(doc, where, list)
	return doc, added, err
}

// withoutLayers takes the head's modules out of a list of quantized layers: what is not listed stays unquantized (R24).
func withoutLayers(doc []byte, file, where string, tensors []model.Tensor, notes *notes) ([]byte, error) {
	layers := gjson.GetBytes(doc, where)
	if !layers.IsObject() {
		return doc, nil
	}
	head := map[string]bool{}
	for i := range tensors {
		if tensors[i].Role == model.RoleHead {
			head[tensors[i].Module] = true
		}
	}
	var gone, rest []string
	layers.ForEach(func(name, v gjson.Result) bool {
		if head[name.Str] || strings.HasPrefix(name.Str, "mtp.") {
			gone = append(gone, name.Str)
		} else {
			rest = append(rest, name.Raw+":"+v.Raw)
		}
		return true
	})
	if len(gone) == 0 {
		return doc, nil
	}
	notes.add(playbook.New("head-covered", file+": "+where, fmt.Sprintf("%d entries of the old head were taken out: %s", len(gone), listed(gone, 30)), ""))
	return sjson.SetRawBytes(doc, where, []byte("{"+strings.Join(rest, ",")+"}"))
}
