package model

import (
	"fmt"
	"slices"
	"strings"

	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// maxKinds is how many findings one rule makes of one checkpoint; further kinds are counted in a last one.
const maxKinds = 8

// judgeMissing: tensors that the configuration implies and nobody holds. One finding per kind of loss: the vision tower
// as a whole, layers that are gone as a whole, and the rest by role. The head and lm_head have rules of their own.
func (m *Model) judgeMissing(x *match, textOnly bool) []playbook.Finding {
	type count struct{ missing, all int }
	layers, vision := map[int]*count{}, count{}
	var missing []int
	for i := range m.Expected {
		e := &m.Expected[i]
		if e.Role == RoleHead || e.Role == RoleLMHead || e.Role == RoleVision && textOnly {
			continue
		}
		c := &vision
		if e.Role != RoleVision {
			if c = layers[e.Layer]; c == nil {
				c = &count{}
				layers[e.Layer] = c
			}
		}
		c.all++
		if x.stored[i] < 0 && !x.hidden[i] {
			c.missing++
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	const fix = "take the tensors from the checkpoint this one was made from, or save it again; a server leaves missing weights of a quantized checkpoint as uninitialised memory"
	var out []playbook.Finding
	add := func(subject, message string) {
		out = append(out, playbook.New("tensor-missing", subject, message, fix))
	}
	towerGone := vision.all > 0 && vision.missing == vision.all
	if towerGone {
		add("model.visual.", fmt.Sprintf("the whole vision tower is missing (%s), although vision_config promises it", tensors(vision.all)))
	}
	gone, lost := []int{}, 0
	for layer, c := range layers {
		if layer >= 0 && c.missing == c.all {
			gone = append(gone, layer)
			lost += c.all
		}
	}
	slices.Sort(gone)
	if len(gone) > 0 {
		add(fmt.Sprintf("%slayers.%d.", m.layout.textPrefix, gone[0]),
			fmt.Sprintf("%d of %d layers are missing as a whole (%s): %s", len(gone), m.Config.Layers, tensors(lost), ranges(gone)))
	}
	byRole, ofRole := map[Role][]string{}, map[Role]int{}
	var roles []Role
	for _, i := range missing {
		e := &m.Expected[i]
		if e.Role == RoleVision && towerGone || e.Role != RoleVision && slices.Contains(gone, e.Layer) {
			continue
		}
		if byRole[e.Role] == nil {
			roles = append(roles, e.Role)
		}
		byRole[e.Role] = append(byRole[e.Role], e.Name)
	}
	for i := range m.Expected {
		ofRole[m.Expected[i].Role]++
	}
	for _, r := range roles {
		list := byRole[r]
		add(list[0], fmt.Sprintf("%d of %s of role %s are missing: %s", len(list), tensors(ofRole[r]), r, names(list)))
	}
	return out
}

// ranges spells a sorted list of layers: "3, 5-7".
func ranges(list []int) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, list[i])
		if j > i {
			fmt.Fprintf(&b, "-%d", list[j])
		}
		i = j + 1
	}
	return b.String()
}

// judgeUnexpected: tensors that nothing implies. vLLM raises "There is no module or parameter named …" for them since
// 2026-06-30 (vllm-project/vllm#47058), older versions skipped them with one warning.
func (m *Model) judgeUnexpected(x *match) []playbook.Finding {
	var stray, tolerated kinds
	at, shifted := m.shifted()
	for _, i := range x.unexpected {
		t := &m.Tensors[i]
		switch {
		case m.layout.spares && m.layout.place(m.proper(i)).spare:
		case shifted && (m.head.depthOf(t.Name) > 0 || m.headPart(t.Base, at)), // head-misplaced says it
			t.Role == RoleHead && m.Head.Expected == 0, // head-promise says it
			t.Base == m.layout.nameOf(RoleLMHead):      // lm-head-tied says it
		case strings.HasSuffix(t.Name, ".rotary_emb.inv_freq"):
			tolerated.add(t.Name, "")
		default:
			stray.add(t.Name, "")
		}
	}
	out := stray.findings(func(name, _ string, n int) playbook.Finding {
		return playbook.New("tensor-unexpected", name,
			fmt.Sprintf("%s of the kind %s that the configuration does not imply: %s", tensors(n), pattern(name), m.fateOf(name)),
			"take the tensors out of their shards (an index cannot hide them), or correct config.json if they belong to the model")
	})
	return append(out, tolerated.findings(func(name, _ string, n int) playbook.Finding {
		return playbook.New("tensor-unexpected", name,
			fmt.Sprintf("%s of the kind %s that nothing reads", tensors(n), pattern(name)), "").As(playbook.Warning)
	})...)
}

// fateOf is what the server does with a tensor that nothing implies. Biases are the one kind that it passes over without
// a word, for the sake of GPTQ files (vLLM 017e9f4448, models/utils.py AutoWeightsLoader).
func (m *Model) fateOf(name string) string {
	if strings.HasSuffix(name, ".bias") {
		return m.Config.Architecture + " skips it without a word and computes without it"
	}
	return m.Config.Architecture + " refuses to load such a checkpoint"
}

// judgeBiases: attention_bias is a key of transformers (009e78d6, models/qwen3_5/modeling_qwen3_5.py). vLLM 017e9f4448
// does not read it: models/qwen3_next.py builds q, k and v with a bias when qkv_bias says so and o without one, and a
// stored bias without a place is skipped.
func (m *Model) judgeBiases() []playbook.Finding {
	if !m.Config.AttentionBias || m.Config.biasesRead {
		return nil
	}
	first, n := "", 0
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if t.Suffix != "bias" || !strings.Contains(t.Base, ".self_attn.") || m.Config.QKVBias && t.Fused != "" {
			continue
		}
		if n++; first == "" {
			first = t.Name
		}
	}
	if n == 0 {
		return nil
	}
	return []playbook.Finding{playbook.New("bias-unread", configFile+": "+m.Config.TextPlace()+"attention_bias",
		fmt.Sprintf("%s of the kind %s: the server builds these modules without a bias, skips the stored ones without a word, and so serves another model", tensors(n), pattern(first)),
		"serve the model with transformers, or train it without attention_bias; if every bias is zero, take them out and set the key to false")}
}

// judgeShapes compares shape and dtype of what is stored unquantized.
func (m *Model) judgeShapes(x *match) []playbook.Finding {
	var shapes, dtypes kinds
	for i := range m.Expected {
		if x.stored[i] < 0 {
			continue
		}
		e, t := &m.Expected[i], &m.Tensors[x.stored[i]]
		if t.Suffix == "weight_packed" || x.quantized && e.Linear && !isFloat(t.Dtype()) {
			continue // the dialect knows what it should be
		}
		if !e.Allows(t.Dtype()) {
			dtypes.add(t.Name, fmt.Sprintf("stored as %s", t.Dtype()))
		}
		if e.Shape != nil && !slices.Equal(e.Shape, t.Shape()) {
			shapes.add(t.Name, fmt.Sprintf("stored as %v, config.json makes it %v%s", t.Shape(), e.Shape, turned(t.Shape(), e.Shape)))
		}
	}
	out := shapes.findings(func(name, detail string, n int) playbook.Finding {
		return playbook.New("tensor-shape", name,
			fmt.Sprintf("%s: %s of the kind %s", detail, tensors(n), pattern(name)),
			"correct the sizes in config.json, or take the tensors from the checkpoint that the configuration belongs to")
	})
	return append(out, dtypes.findings(func(name, detail string, n int) playbook.Finding {
		return playbook.New("tensor-dtype", name,
			fmt.Sprintf("%s, a server copies it into the model's own type without a word: %s of the kind %s; want BF16, F16 or F32", detail, tensors(n), pattern(name)),
			"convert the tensors to BF16, or add the quantization_config and scales that belong to them")
	})...)
}

// turned tells that two different shapes have the same sizes in another order: a matrix or a stack of experts was saved
// along the wrong axis (public report thinking-machines-lab/tinker-cookbook#554).
func turned(got, want []int64) string {
	a, b := slices.Clone(got), slices.Clone(want)
	slices.Sort(a)
	slices.Sort(b)
	if len(a) < 2 || !slices.Equal(a, b) {
		return ""
	}
	return " (the same sizes along other axes: the tensor is transposed)"
}

// kinds collects tensors by pattern, in order of first appearance.
type kinds struct {
	order []*kind
	by    map[string]*kind
}

type kind struct {
	first, detail string
	n             int
}

func (k *kinds) add(name, detail string) {
	if k.by == nil {
		k.by = map[string]*kind{}
	}
	p := pattern(name)
	if k.by[p] == nil {
		k.by[p] = &kind{first: name, detail: detail}
		k.order = append(k.order, k.by[p])
	}
	k.by[p].n++
}

// findings makes one finding per kind, and one for all kinds beyond maxKinds.
func (k *kinds) findings(make func(name, detail string, n int) playbook.Finding) []playbook.Finding {
	var out []playbook.Finding
	for i, kind := range k.order {
		f := make(kind.first, kind.detail, kind.n)
		if i == maxKinds-1 && len(k.order) > maxKinds {
			rest := 0
			for _, other := range k.order[maxKinds:] {
				rest += other.n
			}
			f.Message += fmt.Sprintf("; and %d more kinds with %s", len(k.order)-maxKinds, tensors(rest))
			return append(out, f)
		}
		out = append(out, f)
	}
	return out
}

// judgeDtypes compares the dtype fields of config.json with the bytes that are there. Tensors that are quantized, and the
// state of the delta nets, which releases keep in F32, do not count.
func (m *Model) judgeDtypes(x *match) []playbook.Finding {
	bytes := map[string]map[safetensors.Dtype]int64{"": {}, "text_config": {}, "vision_config": {}}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if !isFloat(t.Dtype()) || quantizedParts[t.Suffix] || t.Role == RoleState || t.Role == RoleOther {
			continue
		}
		part := "text_config"
		if t.Role == RoleVision {
			part = "vision_config"
		}
		bytes[part][t.Dtype()] += t.Bytes()
		bytes[""][t.Dtype()] += t.Bytes()
	}
	var fields []string
	for field := range m.Config.dtypes {
		fields = append(fields, field)
	}
	slices.Sort(fields)
	most, _, any := majority(bytes[""])
	if !any {
		return nil
	}
	if len(fields) == 0 {
		return []playbook.Finding{playbook.New("dtype-lies", configFile+": dtype",
			fmt.Sprintf("no dtype field, so every server guesses; most bytes are %s", most),
			fmt.Sprintf("write \"dtype\": %q at the top level of %s", dtypeNames[most], configFile))}
	}
	var out []playbook.Finding
	for _, field := range fields {
		part, _, nested := strings.Cut(field, ".")
		if !nested {
			part = ""
		}
		most, share, any := majority(bytes[part])
		says := m.Config.dtypes[field]
		if !any || says == "auto" || says == dtypeNames[most] || dtypeAliases[says] == most {
			continue
		}
		out = append(out, playbook.New("dtype-lies", configFile+": "+field,
			fmt.Sprintf("the field says %s, %d%% of its bytes are %s", says, share, most),
			fmt.Sprintf("set it to %q", dtypeNames[most])))
	}
	return out
}

var dtypeNames = map[safetensors.Dtype]string{
	safetensors.BF16: "bfloat16", safetensors.F16: "float16", safetensors.F32: "float32",
}

var dtypeAliases = map[string]safetensors.Dtype{
	"half": safetensors.F16, "float": safetensors.F32, "fp16": safetensors.F16, "fp32": safetensors.F32, "bf16": safetensors.BF16,
}

// majority is the dtype with most bytes and its share in percent.
func majority(bytes map[safetensors.Dtype]int64) (most safetensors.Dtype, percent int64, any bool) {
	var total int64
	for _, d := range []safetensors.Dtype{safetensors.BF16, safetensors.F16, safetensors.F32} {
		total += bytes[d]
		if most == "" || bytes[d] > bytes[most] {
			most = d
		}
	}
	if total == 0 {
		return "", 0, false
	}
	return most, int64(float64(bytes[most]) / float64(total) * 100), true
}
