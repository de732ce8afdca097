package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// refuseSource finds what makes the whole source unfit.
func refuseSource(src source) []playbook.Finding {
	var out []playbook.Finding
	switch {
	case src.supported != nil:
		out = append(out, playbook.New("family-unsupported", src.family, src.supported.Error(), "quantize a model of a family that this version knows, or wait for the version that knows this one"))
	case src.config == nil:
		out = append(out, playbook.New("family-unsupported", src.family, "the checkpoint has no config.json that could be read", "copy config.json from the base"))
	}
	const fix = "start from the unquantized checkpoint; quantizing twice adds the errors of both"
	if src.config != nil && len(src.config.Quantization) > 0 && string(bytes.TrimSpace(src.config.Quantization)) != "null" {
		out = append(out, playbook.New("already-quantized", "config.json", "quantization_config says that the checkpoint is quantized already", fix))
	}
	for _, f := range src.files {
		if f.Name == "hf_quant_config.json" {
			out = append(out, playbook.New("already-quantized", f.Name, "the file says that the checkpoint is quantized already", fix))
		}
	}
	var spelled []string
	for i := range src.tensors {
		if t := &src.tensors[i]; t.Base != t.Name {
			spelled = append(spelled, t.Name)
		}
	}
	if len(spelled) > 0 {
		slices.SortFunc(spelled, safetensors.NaturalCompare)
		out = append(out, playbook.New("already-quantized", spelled[0], fmt.Sprintf("%d tensors are spelled as parts of quantized weights: %s", len(spelled), listed(spelled, 3)), fix))
	}
	return out
}

// fill turns choices into items and counts them; the result is each item's bytes on disk. Each tensor becomes one item,
// and one that holds quantized experts stacked becomes one per expert and projection.
func (p *Plan) fill(tensors []model.Tensor, choices []choice, in *inputs, o Options, notes *notes) ([]int64, error) {
	names := make(map[string]string, len(tensors))
	sizes := make([]int64, 0, len(tensors))
	members := scaleGroups(tensors, choices, o)
	for i := range tensors {
		t := &tensors[i]
		item := Item{
			Source: t.Name, Stored: t.Stored, Origin: t.Origin, Role: t.Role, Layer: t.Layer, Dtype: t.Dtype(), Shape: append([]int64{}, t.Shape()...),
			Action: Keep, Scheme: choices[i].scheme, Reason: choices[i].reason,
		}
		list := []Item{item}
		if item.Scheme.Quantized() {
			list = list[:0]
			for _, piece := range pieces(t) {
				list = append(list, in.item(item, piece, members, notes))
			}
		} else {
			list[0].Outputs = []dialect.Output{{Name: t.Name, Part: dialect.PartKept, Dtype: item.Dtype, Shape: item.Shape}}
		}
		for _, item := range list {
			in.dtypes.settle(&item, t)
			for _, out := range item.Outputs {
				if other, taken := names[out.Name]; taken {
					return nil, fmt.Errorf("planning: %s and %s would both write %s; the source holds a leftover, remove it", other, t.Name, out.Name)
				}
				names[out.Name] = t.Name
			}
			before, after := item.bytes()
			p.Items = append(p.Items, item)
			sizes = append(sizes, after)
			p.BytesIn += before
			p.BytesOut += after
			tally := p.Schemes[item.Scheme]
			tally.Tensors++
			tally.BytesIn += before
			tally.BytesOut += after
			p.Schemes[item.Scheme] = tally
		}
	}
	return sizes, nil
}

// scaleGroups counts the NVFP4 weights of each fused spelling: where there are several, they share a global scale.
func scaleGroups(tensors []model.Tensor, choices []choice, o Options) map[string]int {
	members := map[string]int{}
	for i := range tensors {
		if !choices[i].scheme.NVFP4() {
			continue
		}
		for _, piece := range pieces(&tensors[i]) {
			if piece.fused != "" && (o.Groups != "llm-compressor" || sharedByPeer(piece.fused)) {
				members[piece.fused]++
			}
		}
	}
	return members
}

// item is what becomes of one piece of a tensor.
func (in *inputs) item(item Item, piece piece, members map[string]int, notes *notes) Item {
	item.Action, item.Begin, item.Shape = Quantize, piece.begin, piece.shape
	if item.Scheme.NVFP4() && members[piece.fused] > 1 {
		item.Group = piece.fused
	}
	outputs, err := in.d.Spell(piece.module+".weight", item.Scheme, in.math, item.Shape)
	if err != nil {
		notes.at(piece.module, playbook.New("scheme-unservable", "", err.Error(), "keep it with a rule of scheme bf16"))
	}
	item.Outputs = outputs
	if item.Scheme.StaticInput() {
		if scale, ok := in.scales[piece.module]; ok {
			item.InputScale = &scale
		}
		if native, ok := in.native[piece.module]; ok {
			item.Native = &native
		}
	}
	return item
}

// sharedByPeer says whether llm-compressor shares a global scale in this group (observers/helpers.py FUSED_LAYER_NAMES,
// 0.13.0+37): q/k/v and gate/up, but not in_proj_qkv and in_proj_z, which vLLM fuses too.
func sharedByPeer(fused string) bool {
	l := leaf(fused)
	return l == "qkv_proj" || l == "gate_up_proj"
}

// outputBytes is the size of a quantized output; its dtypes are the dialect's, whose sizes are whole bytes.
func outputBytes(o dialect.Output) int64 {
	bits, _ := o.Dtype.Bits()
	return elements(o.Shape) * bits / 8
}

func elements(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// remark adds what the user should know about a plan that can be carried out.
func (p *Plan) remark(src source, a askedFor, notes *notes) {
	quantized := 0
	for i := range p.Items {
		item := &p.Items[i]
		if item.Scheme.Quantized() {
			quantized++
		}
		if module := item.Module(); src.config.AttnOutputGate && item.Role == model.RoleAttention && item.Scheme.NVFP4() && leaf(module) == "q_proj" {
			notes.at(module, playbook.New("gated-q-fp4", "", "attn_output_gate is set: half of this matrix is a sigmoid gate, which FP4 noise hurts most",
				"use the default recipe, which keeps attention in FP8"))
		}
	}
	if quantized == 0 && playbook.Worst(notes.done()) == playbook.Error {
		return // it is said already why
	}
	if quantized == 0 {
		notes.add(playbook.New("nothing-quantized", "recipe "+p.Recipe.Name, fmt.Sprintf("none of the %d tensors would be quantized", len(p.Items)), "look at the reasons in the plan, then correct the recipe"))
		return
	}
	p.remarkHeads(a, notes)
	if src.unread {
		notes.add(playbook.New("loader-unread", src.family, fmt.Sprintf("names, roles and shapes of %s are known, and not what a server's class does with them: nothing here says that the result loads", p.Architecture),
			"load the result in the server that will serve it, and compare its answers with the source's"))
	}
	own := func(item Item) bool { return item.Role == model.RoleLinearAttention && item.Scheme.NVFP4() }
	if a.Groups == "llm-compressor" && slices.ContainsFunc(p.Items, own) {
		notes.add(playbook.New("groups-foreign", "groups llm-compressor", "in_proj_qkv and in_proj_z get global scales of their own, though the server applies one to both: the result is for byte comparisons only", "use --groups server for a checkpoint that will be served"))
	}
	if n := p.Schemes[dialect.NVFP4W4A16].Tensors; n > 0 {
		notes.add(playbook.New("scheme-gpus", string(dialect.NVFP4W4A16), fmt.Sprintf("%d weights run weight-only, through Marlin, on NVIDIA GPUs from sm_75 (sm_100 and sm_120 included); not on CPUs, ROCm or XPU. "+
			"nvfp4-w4a4 (recipe w4a4-mlp) would use FP4 arithmetic from sm_100 on, and needs activation statistics (--stats) for an input scale per module", n), ""))
	}
	if n := p.Schemes[dialect.NVFP4W4A4].Tensors; n > 0 {
		notes.add(playbook.New("scheme-gpus", string(dialect.NVFP4W4A4), fmt.Sprintf("%d weights use FP4 arithmetic on NVIDIA GPUs from sm_100 on; from sm_75 they run weight-only, through Marlin, as nvfp4-w4a16 would; not on CPUs, ROCm or XPU", n), ""))
	}
	if n := p.Schemes[dialect.FP8Tensor].Tensors; n > 0 {
		notes.add(playbook.New("scheme-gpus", string(dialect.FP8Tensor), fmt.Sprintf("%d weights run on FP8 arithmetic, with one fixed scale per input, from sm_89 on; NVIDIA GPUs from sm_75 widen them to BF16 activations", n), ""))
	}
	if n := p.Schemes[dialect.FP8Channel].Tensors; n > 0 {
		notes.add(playbook.New("scheme-gpus", string(dialect.FP8Channel), fmt.Sprintf("%d weights run on FP8 arithmetic from sm_89 on; NVIDIA GPUs from sm_75 widen them to BF16 activations", n), ""))
	}
}

// remarkHeads tells of quantized modules of the head, of a quantized lm_head, and of statistics from elsewhere.
func (p *Plan) remarkHeads(a askedFor, notes *notes) {
	heads := 0
	for i := range p.Items {
		switch item := &p.Items[i]; {
		case !item.Scheme.Quantized():
		case item.Role == model.RoleHead:
			heads++
		case item.Role == model.RoleLMHead:
			since := "0.19 (vllm-project/vllm#37291)"
			if a.dialect.Name() == modelopt {
				since = "0.23 (vllm-project/vllm#42124)"
			}
			notes.add(playbook.New("lm-head-quantized", item.Module(), fmt.Sprintf("lm_head is %s: in the %s dialect vLLM reads that since %s, and the drafter loads it once more under its own name", item.Scheme, a.dialect.Name(), since),
				"serve with such a version, or keep lm_head"))
		}
	}
	if heads > 0 {
		notes.add(playbook.New("head-fp8", "MTP head", fmt.Sprintf("%d modules of the head become FP8; a coarser head may have fewer drafts accepted", heads),
			"measure acceptance with this recipe and without it before the result is used"))
	}
	if a.stats != nil && a.stats.Model != p.Source {
		notes.add(playbook.New("stats-foreign", "statistics", "they were measured on a model with another fingerprint than this source has", "calibrate on this source, with its donor, or compare the error of the result"))
	}
}

// spellConfig renders the final config.json and what the dialect puts beside it: the body's, with quantization_config as its last key, indented by two.
func (p *Plan) spellConfig(raw []byte, modules []dialect.Module, d dialect.Dialect, notes *notes) error {
	config, err := d.Config(modules)
	if err != nil {
		notes.add(playbook.New("scheme-unservable", "config.json", err.Error(), "correct the recipe"))
		return nil
	}
	if !gjson.ValidBytes(raw) || !gjson.ParseBytes(raw).IsObject() {
		return fmt.Errorf("planning: config.json is not a JSON object")
	}
	raw, err = sjson.DeleteBytes(slices.Clone(raw), "quantization_config") // null in some exports
	if err != nil {
		return fmt.Errorf("planning: config.json: %w", err)
	}
	raw, err = sjson.SetRawBytes(raw, "quantization_config", config)
	if err != nil {
		return fmt.Errorf("planning: config.json: %w", err)
	}
	made, err := d.Made(modules)
	if err != nil {
		return fmt.Errorf("planning: %w", err) // Config accepted the same modules
	}
	p.Made = made
	switch algo := gjson.GetBytes(config, "quant_algo").Str; algo {
	case "MIXED_PRECISION":
		notes.add(playbook.New("modelopt-since", algo, "vLLM reads it under this model's names since 0.23 (vllm-project/vllm#42546, vllm-project/vllm#42566); builds of 2026-06-29 to 2026-07-08 give modules that are not listed the algorithm of their neighbours (vllm-project/vllm#47445)", ""))
	case "W4A16_NVFP4":
		notes.add(playbook.New("modelopt-since", algo, "vLLM reads it since 0.22 (vllm-project/vllm#41769)", ""))
	}
	p.Files = slices.DeleteFunc(p.Files, func(f File) bool { _, ours := made[f.Name]; return ours })
	if p.Config, err = indented(raw); err != nil {
		return fmt.Errorf("planning: config.json: %w", err)
	}
	return nil
}

// indented lays a JSON document out with two spaces and a line break at its end.
func indented(raw []byte) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(raw), "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// written is the files that the writer makes by itself, and that therefore are not copied.
var written = []string{"config.json", "model.safetensors.index.json", model.ProvenanceFile}

func companions(files []model.CompanionFile) []File {
	out := []File{}
	for _, f := range files {
		if !slices.Contains(written, f.Name) {
			out = append(out, File{f.Name, f.Origin})
		}
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b File) bool { return a.Name == b.Name })
}

// shard cuts the items, of these sizes on disk, into files in natural name order. A group is never split; a shard is
// larger than most only when one group or tensor alone is.
func shard(items []Item, sizes []int64, most int64) []Shard {
	members := map[string][]int{}
	for i := range items {
		if g := items[i].Group; g != "" {
			members[g] = append(members[g], i)
		}
	}
	out := []Shard{}
	var current Shard
	for i := range items {
		unit := []int{i}
		if g := items[i].Group; g != "" {
			if unit = members[g]; unit[0] != i {
				continue
			}
		}
		var n int64
		for _, k := range unit {
			n += sizes[k]
		}
		if len(current.Items) > 0 && n > most-current.Bytes {
			out = append(out, current)
			current = Shard{}
		}
		current.Items = append(current.Items, unit...)
		current.Bytes += n
	}
	if len(current.Items) > 0 {
		out = append(out, current)
	}
	for i := range out {
		slices.Sort(out[i].Items)
		out[i].File = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(out))
	}
	return out
}
