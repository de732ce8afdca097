package plan

import (
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

// dtypes decides what the dtype of a source tensor means for what becomes of it.
//
// BF16, F16, F32 and FP8 weights are quantized straight from the values that they stand for. A kept F16 or F32 tensor is
// rounded to BF16, the dtype that the model is served in, unless the server holds that parameter in F32; a kept FP8 tensor
// is multiplied out to BF16. FP8 is read where the checkpoint says how: block, per row or per tensor, in the forms of the
// official releases, of compressed-tensors and of modelopt. Everything else that is quantized is no source.
type dtypes struct {
	scales map[string]*SourceScale // by the name of the FP8 tensor
	stays  map[string]bool         // kept in its own dtype, by name
}

// withoutFP8 is the source as if nobody had quantized it, when what is quantized is FP8 that this version reads: the scales
// and the configuration of it are out, and the dtypes know how to read the weights.
func (src source) withoutFP8(p *Plan, notes *notes) (source, dtypes) {
	d := dtypes{scales: map[string]*SourceScale{}, stays: map[string]bool{}}
	for i := range src.expected {
		if e := &src.expected[i]; e.Dtypes != nil {
			d.stays[e.Name] = e.Allows(safetensors.F32)
		}
	}
	block, ok := src.fp8()
	if ok {
		src = src.readFP8(&d, block, p, notes)
	}
	for i := range src.tensors {
		t := &src.tensors[i]
		if t.Dtype() == safetensors.F8E4M3 && t.Base == t.Name && d.scales[t.Name] == nil {
			notes.at(t.Module, playbook.New("source-dtype", "", fmt.Sprintf("%s is %s and no scale of it can be read", t.Suffix, t.Dtype()), "start from the unquantized checkpoint"))
		}
	}
	src.configJSON = bf16Config(src.configJSON, src.tensors)
	return src, d
}

// fp8Parts are the tensors that may stand beside an FP8 weight: its scales, those of activations and of the key/value cache.
var fp8Parts = []string{"weight_scale", "weight_scale_inv", "input_scale", "output_scale", "k_scale", "v_scale", "q_scale"}

// fp8 says whether the checkpoint is quantized to FP8 and to nothing else, in a form that is known; block is the size of
// blocks that its configuration declares, 0 when it declares none.
//
// Sources: vLLM 017e9f4448, quantization/fp8.py (quant_method fp8, weight_block_size, weight_scale_inv),
// compressed_tensors_w8a8_fp8.py (weight_scale [1], [out, 1] or by blocks), modelopt.py (quant_algo FP8,
// FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO; weight_scale [], [out] or by blocks).
func (src source) fp8() (block [2]int64, ok bool) {
	weights := false
	for i := range src.tensors {
		t := &src.tensors[i]
		switch {
		case t.Base == t.Name && t.Dtype() == safetensors.F8E4M3:
			weights = true
		case t.Base == t.Name && t.Dtype() == safetensors.U8, t.Base != t.Name && !slices.Contains(fp8Parts, t.Suffix):
			return block, false
		}
	}
	if !weights || src.config == nil {
		return block, false
	}
	q := gjson.ParseBytes(src.config.Quantization)
	if !q.IsObject() { // modelopt's own file counts only then, as for the server
		q = gjson.ParseBytes(src.quantFile)
		return block, fp8Algorithm(q)
	}
	sizes := q.Get("weight_block_size")
	switch method := q.Get("quant_method").Str; {
	case method == "fp8":
		ok = true
	case method == compressedTensors:
		ok = q.Get("config_groups").IsObject()
		q.Get("config_groups").ForEach(func(_, g gjson.Result) bool {
			w := g.Get("weights")
			ok = ok && w.Get("num_bits").Int() == 8 && w.Get("type").Str == "float"
			if b := w.Get("block_structure"); b.IsArray() {
				sizes = b
			}
			return true
		})
	case strings.HasPrefix(method, modelopt):
		ok = fp8Algorithm(q)
	}
	if list := sizes.Array(); len(list) == 2 {
		block = [2]int64{max(list[0].Int(), 0), max(list[1].Int(), 0)}
	}
	return block, ok
}

// fp8Algorithm says whether a description of modelopt, flat or nested, is of FP8 weights and nothing else.
func fp8Algorithm(q gjson.Result) bool {
	algo := strings.ToUpper(q.Get("quant_algo").Str + q.Get("quantization.quant_algo").Str)
	return slices.Contains([]string{"FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO"}, algo)
}

// readFP8 finds the scale of every FP8 tensor, and takes out of the source what said that it is quantized.
func (src source) readFP8(d *dtypes, block [2]int64, p *Plan, notes *notes) source {
	byBase := map[string]*model.Tensor{}
	for i := range src.tensors {
		if t := &src.tensors[i]; t.Suffix == "weight_scale" || t.Suffix == "weight_scale_inv" {
			byBase[t.Base] = t
		}
	}
	used := map[string]bool{}
	var kinds []string
	count := map[string]int{}
	for i := range src.tensors {
		t := &src.tensors[i]
		s := byBase[t.Name]
		if t.Dtype() != safetensors.F8E4M3 || t.Base != t.Name || s == nil {
			continue
		}
		scale, kind, why := scaleOf(t, s, block)
		if why != "" {
			notes.at(t.Module, playbook.New("source-dtype", "", why, "start from the unquantized checkpoint"))
			continue
		}
		d.scales[t.Name] = scale
		used[s.Name] = true
		p.BytesIn += s.Bytes()
		if count[kind] == 0 {
			kinds = append(kinds, kind)
		}
		count[kind]++
	}
	rest := make([]model.Tensor, 0, len(src.tensors))
	for i := range src.tensors {
		switch t := &src.tensors[i]; {
		case t.Base == t.Name:
			rest = append(rest, *t)
		case !used[t.Name]:
			p.drop(t, "it belongs to the FP8 of the source, which is read and left behind")
		}
	}
	src.tensors = rest
	config := *src.config
	config.Quantization = nil
	src.config = &config
	if raw, err := sjson.DeleteBytes(slices.Clone(src.configJSON), "quantization_config"); err == nil {
		src.configJSON = raw
	}
	src.files = slices.DeleteFunc(slices.Clone(src.files), func(f model.CompanionFile) bool { return f.Name == model.QuantFile })
	src.findings = slices.DeleteFunc(slices.Clone(src.findings), func(f playbook.Finding) bool { return slices.Contains(resolvedByReading, f.Rule) })
	slices.Sort(kinds)
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d with %s", count[kind], kind)
	}
	if len(kinds) > 0 {
		notes.add(playbook.New("source-fp8", "config.json: quantization_config",
			fmt.Sprintf("the source is FP8 (%s): what is quantized is rounded a second time and carries the errors of both roundings, what is kept is multiplied out to BF16", strings.Join(kinds, ", ")),
			"start from the unquantized checkpoint, if there is one"))
	}
	return src
}

// resolvedByReading are the findings about a quantized checkpoint that are no longer true of one whose FP8 was read: it is
// said to be quantized, its head is, the patterns that keep the head do not, its scales are no parameters.
var resolvedByReading = []string{"already-quantized", "head-quantized", "head-not-ignored", "quant-config-missing"}

// scaleOf tells how an FP8 tensor is scaled; why is what stands against it. A declared block comes first: small weights
// have as many blocks as rows.
func scaleOf(t, s *model.Tensor, declared [2]int64) (scale *SourceScale, kind, why string) {
	shape, have := t.Shape(), s.Shape()
	if d := s.Dtype(); d != safetensors.F32 && d != safetensors.BF16 {
		return nil, "", fmt.Sprintf("its scale is %s; F32 and BF16 are read", d)
	}
	if len(shape) < 2 || elements(shape) <= 0 {
		return nil, "", fmt.Sprintf("it has shape %v; FP8 is read of matrices, alone or stacked", shape)
	}
	out, in := shape[len(shape)-2], shape[len(shape)-1]
	stack, n := elements(shape)/(out*in), elements(have)
	scale = &SourceScale{Name: s.Name, Dtype: s.Dtype(), Origin: s.Origin}
	fits := func(b [2]int64) bool {
		if b[0] < 1 || b[1] < 1 || len(have) < 2 {
			return false
		}
		down, across := (out+b[0]-1)/b[0], (in+b[1]-1)/b[1]
		return n == stack*down*across && have[len(have)-1] == across
	}
	usual := [2]int64{128, 128}
	switch {
	case fits(declared):
		scale.Block = declared
		return scale, fmt.Sprintf("a scale per block of %d by %d", declared[0], declared[1]), ""
	case n == stack:
		scale.Block = [2]int64{out, in}
		return scale, "a scale per tensor", ""
	case n == stack*out && (len(have) == 1 || have[len(have)-1] == 1 || len(have) == len(shape)-1):
		scale.Block = [2]int64{1, in}
		return scale, "a scale per row", ""
	case fits(usual):
		scale.Block = usual
		return scale, "a scale per block of 128 by 128", ""
	}
	return nil, "", fmt.Sprintf("its scale %s has shape %v, which is none per tensor, row or block of %v", s.Suffix, have, shape)
}

// settle gives an item the action that its dtype asks for.
func (d dtypes) settle(item *Item, t *model.Tensor) {
	item.SourceScale = d.scales[item.Source]
	if item.Scheme.Quantized() || len(item.Outputs) != 1 || item.Outputs[0].Part != dialect.PartKept {
		return
	}
	switch {
	case item.SourceScale != nil:
		item.Action = Widen
		item.Reason += "; multiplied out of FP8"
	case (item.Dtype == safetensors.F32 || item.Dtype == safetensors.F16) && !d.keeps(t):
		item.Action = Cast
		item.Reason += "; rounded to BF16"
	default:
		return
	}
	item.Outputs[0].Dtype = safetensors.BF16
}

// keeps says whether a kept F32 or F16 tensor stays as it is: the state of gated delta nets and their norm, which releases
// store in F32 and servers compute with in F32 (C07), the routers' correction bias (vLLM 017e9f4448, models/deepseek_v2.py,
// a float32 parameter), what the family says, and names that nobody knows.
func (d dtypes) keeps(t *model.Tensor) bool {
	return t.Role == model.RoleState || t.Role == model.RoleOther || d.stays[t.Name] ||
		t.Suffix == "A_log" || t.Suffix == "dt_bias" || t.Suffix == "e_score_correction_bias" ||
		t.Dtype() == safetensors.F32 && strings.HasSuffix(t.Name, ".linear_attn.norm.weight")
}

// bf16Config names BF16 where the configuration names the dtype of an F32 or F16 source: a server takes the field at its
// word. Fields of a source that is BF16 already stay as they are, true or not.
func bf16Config(config []byte, tensors []model.Tensor) []byte {
	var wide, bf16 int64
	for i := range tensors {
		switch t := &tensors[i]; t.Dtype() {
		case safetensors.BF16:
			bf16 += t.Bytes()
		case safetensors.F16, safetensors.F32:
			wide += t.Bytes()
		}
	}
	if wide <= bf16 || !json.Valid(config) {
		return config
	}
	for _, place := range []string{"", "text_config.", "vision_config."} {
		for _, key := range []string{"dtype", "torch_dtype"} {
			if v := gjson.GetBytes(config, place+key); v.Type == gjson.String && slices.Contains([]string{"float16", "float32", "half", "float"}, strings.TrimPrefix(v.Str, "torch.")) {
				if changed, err := sjson.SetBytes(slices.Clone(config), place+key, "bfloat16"); err == nil {
					config = changed
				}
			}
		}
	}
	return config
}
