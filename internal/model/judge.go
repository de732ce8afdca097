package model

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// match is the stored tensors beside the list that the configuration implies.
type match struct {
	index      map[string]int // Expected.Name -> index
	stored     []int          // per expected tensor: index of the tensor that holds it, -1 when none
	unexpected []int          // stored tensors that nothing implies
	hidden     []bool         // per expected tensor: it may be in a shard that cannot be read, so nobody knows
	quantized  bool           // the folder declares or shows quantized weights
}

func (m *Model) match() *match {
	x := &match{
		index:     make(map[string]int, len(m.Expected)),
		stored:    make([]int, len(m.Expected)),
		hidden:    make([]bool, len(m.Expected)),
		quantized: m.Config.Quantization != nil,
	}
	for i := range m.Expected {
		x.index[m.Expected[i].Name] = i
		x.stored[i] = -1
	}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if quantizedParts[t.Suffix] && cacheParts[t.Suffix] == "" {
			x.quantized = true
		}
		at, ok := x.index[m.proper(i)]
		switch {
		case !ok:
			x.unexpected = append(x.unexpected, i)
		case t.Holds() && x.stored[at] < 0:
			x.stored[at] = i
		}
	}
	for i := range m.Expected {
		x.hidden[i] = x.stored[i] < 0 && m.hides(m.Expected[i].Name)
	}
	return x
}

// hides says whether a tensor that is not stored may stand in a shard that could not be read: then its absence is no news
// beside the fault of that shard. An index says which names a shard should hold; without one, or without a readable
// header, any name may be there.
func (m *Model) hides(name string) bool {
	if m.Set == nil || !slices.ContainsFunc(m.Set.Problems, func(p safetensors.Problem) bool { return p.Blinds() }) {
		return false
	}
	if m.Set.Index == nil {
		return true
	}
	for _, spelled := range []string{name, strings.TrimSuffix(name, ".weight") + ".weight_packed"} {
		if _, claimed := m.Set.Index.WeightMap[spelled]; claimed {
			return true
		}
	}
	return false
}

// judge fills in Head and Findings. It looks at structure only: each stored name is taken for the parameter of the
// unquantized checkpoint that it stands for; how quantized tensors are spelled and shaped is the dialect's matter.
func (m *Model) judge() {
	m.Findings = slices.Clone(m.problems)
	add := func(f ...playbook.Finding) { m.Findings = append(m.Findings, f...) }
	if m.family == nil {
		add(playbook.New("arch-unknown", configFile+": architectures", unknownError(m.Config).Error(),
			"serve it with another tool, or correct the architecture if the folder is a renamed copy of a known one"))
		add(m.judgeQuantization(nil)...)
		m.Head.Missing = []string{}
		return
	}
	x := m.match()
	if f, wrong := m.judgeModelType(); wrong {
		add(f)
	}
	m.reportHead(x)
	textOnly := m.judgeTextOnly()
	add(textOnly...)
	add(m.judgePrefixes()...)
	add(m.judgeMissing(x, len(textOnly) > 0)...)
	add(m.judgeTwice()...)
	if m.layout.partial {
		add(m.judgeUnread(x)...)
	} else {
		add(m.judgeUnexpected(x)...)
	}
	add(m.judgeLayerLists()...)
	add(m.judgeBiases()...)
	add(m.judgeShapes(x)...)
	add(m.judgeHead(x)...)
	add(m.judgeTied()...)
	add(m.judgeDtypes(x)...)
	add(m.judgeRope()...)
	add(m.judgeCompanions()...)
	add(m.broken...)
	add(m.judgeTokenIDs()...)
	add(m.judgeQuantization(x)...)
}

// judgeModelType: the server builds the layers by model_type of the language model's configuration and raises "Invalid
// model_type" for any other (vLLM 017e9f4448, models/qwen3_5.py). An absent one takes the class's own.
func (m *Model) judgeModelType() (playbook.Finding, bool) {
	want, got := m.family.textModelType(), m.Config.TextModelType
	if got == "" || want == "" || got == want || !m.Config.Nested && buildsVision(m.Config) {
		return playbook.Finding{}, false
	}
	return playbook.New("arch-unknown", configFile+": "+m.Config.TextPlace()+"model_type",
		fmt.Sprintf("%s with model_type %q: the server's class builds only %q", m.Config.Architecture, got, want),
		fmt.Sprintf("set it to %q, or set the architecture that belongs to it", want)), true
}

// judgeTextOnly: a wrapper class around a checkpoint that was saved from the language model alone.
func (m *Model) judgeTextOnly() []playbook.Finding {
	if !buildsVision(m.Config) || m.hasRole(RoleVision) {
		return nil
	}
	textType := m.Config.ModelType == m.family.textModelType()
	if m.Config.Vision && !textType {
		return nil // the tower is missing, which judgeMissing says
	}
	vision := "no vision_config"
	if m.Config.Vision {
		vision = "a vision_config"
	}
	return []playbook.Finding{playbook.New("text-only-vision", configFile+": architectures",
		fmt.Sprintf("the class is %s, model_type is %q with %s, and no model.visual.* tensor is stored", m.Config.Architecture, m.Config.ModelType, vision),
		fmt.Sprintf("set the text-only class %s, or take the vision tower, vision_config and processor files from the base model",
			m.textClass()))}
}

// textClass is the text-only class of the same family.
func (m *Model) textClass() string {
	for _, c := range classes {
		if c.family.name() == m.family.name() && !c.vision {
			return c.architecture
		}
	}
	return ""
}

func (m *Model) hasRole(r Role) bool {
	return slices.ContainsFunc(m.Tensors, func(t Tensor) bool { return t.Role == r })
}

// judgePrefixes: one finding for all tensors under a prefix that the class does not read, with the renames; the head has
// a rule of its own.
func (m *Model) judgePrefixes() []playbook.Finding {
	type rename struct{ from, to string }
	counts, first := map[rename]int{}, map[rename]string{}
	var order []rename
	total, of := 0, 0
	for i := range m.Tensors {
		if m.Tensors[i].Role != RoleHead {
			of++
		}
		r, ok := m.respelled[i]
		if !ok || r.head || r.twice {
			continue
		}
		total++
		k := rename{r.from, r.to}
		if counts[k] == 0 {
			order, first[k] = append(order, k), m.Tensors[i].Name
		}
		counts[k]++
	}
	if total > 0 {
		var plan []string
		for _, k := range order {
			plan = append(plan, fmt.Sprintf("%q to %q (%s)", k.from, k.to, tensors(counts[k])))
		}
		return []playbook.Finding{playbook.New("layout-prefix", first[order[0]],
			fmt.Sprintf("%d of %s stand under a prefix that %s does not read: %q where %q is expected", total, tensors(of), m.Config.Architecture, order[0].from, order[0].to),
			"rename the prefix "+strings.Join(plan, ", ")+"; leave mtp.* and model.visual.* as they are")}
	}
	if !buildsVision(m.Config) && m.layout.textPrefix == wrappedPrefix {
		return []playbook.Finding{playbook.New("layout-prefix", wrappedPrefix,
			fmt.Sprintf("the names of the language model begin with %q under the text-only class %s; servers older than 2026-08-06 (vLLM before 0.28) do not read that", wrappedPrefix, m.Config.Architecture),
			fmt.Sprintf("rename the prefix %q to %q, or serve with vLLM 0.28 or later", wrappedPrefix, flatPrefix)).As(playbook.Warning)}
	}
	return nil
}

// judgeRope: transformers 5 nests the rotary settings in rope_parameters, where version 4 does not look; a file that has
// them in both places must say the same (public reports vllm-project/vllm#42624, sgl-project/sglang#14745).
func (m *Model) judgeRope() []playbook.Finding {
	var out []playbook.Finding
	place := m.Config.TextPlace()
	for _, key := range []string{"rope_theta", "partial_rotary_factor"} {
		nested := gjson.GetBytes(m.Config.Raw, place+"rope_parameters."+key)
		for _, outer := range slices.Compact([]string{place + key, key}) {
			flat := gjson.GetBytes(m.Config.Raw, outer)
			if nested.Type == gjson.Number && flat.Type == gjson.Number && nested.Num != flat.Num {
				out = append(out, playbook.New("rope-moved", configFile+": "+outer,
					fmt.Sprintf("%s says %s and %srope_parameters.%s says %s; readers take the one or the other", outer, flat.Raw, place, key, nested.Raw),
					"make both say what the base model's configuration says"))
			}
		}
	}
	return out
}

// judgeQuantization tells of a quantization_config, or of quantized tensors without one.
func (m *Model) judgeQuantization(x *match) []playbook.Finding {
	if q := m.Config.Quantization; q != nil {
		return []playbook.Finding{playbook.New("already-quantized", configFile+": quantization_config",
			"the checkpoint is quantized already: "+describeQuantization(q), "").As(playbook.Info)}
	}
	if x == nil || !x.quantized {
		return nil
	}
	first, parts, looks := "", 0, "compressed-tensors"
	for i := range m.Tensors {
		if s := m.Tensors[i].Suffix; quantizedParts[s] && cacheParts[s] == "" {
			if parts++; first == "" {
				first = m.Tensors[i].Name
			}
			if s == "weight_scale_2" || s == "input_scale" {
				looks = "modelopt"
			}
		}
	}
	f := playbook.New("quant-config-missing", configFile+": quantization_config",
		fmt.Sprintf("%s like %s look like %s, but config.json has no quantization_config: a server takes the weights for unquantized", tensors(parts), first, looks),
		fmt.Sprintf("write the quantization_config (quant_method %q) that the checkpoint was made with", looks))
	if m.Dir != "" && exists(filepath.Join(m.Dir, "hf_quant_config.json")) {
		f = f.As(playbook.Warning)
		f.Message += "; hf_quant_config.json is there, which not every format and server reads"
		f.Fix = "write its content as quantization_config into config.json"
	}
	return []playbook.Finding{f}
}

// tensors spells a number of tensors.
func tensors(n int) string {
	if n == 1 {
		return "1 tensor"
	}
	return fmt.Sprintf("%d tensors", n)
}

// names lists the first few names and counts the rest.
func names(list []string) string {
	const most = 4
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most-1], ", "), len(list)-most+1)
}

func isFloat(d safetensors.Dtype) bool {
	return d == safetensors.BF16 || d == safetensors.F16 || d == safetensors.F32
}
