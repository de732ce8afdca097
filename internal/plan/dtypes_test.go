package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// retyped gives every tensor that pick accepts another dtype.
func (src source) retyped(d safetensors.Dtype, pick func(*model.Tensor) bool) source {
	src.tensors = slices.Clone(src.tensors)
	for i := range src.tensors {
		if t := &src.tensors[i]; pick(t) {
			bits, _ := d.Bits()
			t.Ref.Tensor.Dtype, t.Ref.Tensor.End = d, elements(t.Shape())*bits/8
		}
	}
	return src
}

// beside adds a tensor beside each FP8 weight; shape of the weight gives that of the tensor.
func (src source) beside(suffix string, d safetensors.Dtype, shape func(out, in int64) []int64) source {
	for _, t := range src.tensors {
		if t.Dtype() != safetensors.F8E4M3 {
			continue
		}
		s := t
		s.Name, s.Suffix, s.Ref.Tensor.Name = t.Module+"."+suffix, suffix, t.Module+"."+suffix
		s.Ref.Tensor.Dtype, s.Ref.Tensor.Shape = d, shape(t.Shape()[0], t.Shape()[1])
		bits, _ := d.Bits()
		s.Ref.Tensor.End = elements(s.Ref.Tensor.Shape) * bits / 8
		src.tensors = append(src.tensors, s)
	}
	return src
}

func isLinear(t *model.Tensor) bool {
	return t.Linear && t.Role != model.RoleVision && len(t.Shape()) == 2
}

func blocks(out, in int64) []int64 { return []int64{(out + 127) / 128, (in + 127) / 128} }

// fp8Sources are the spellings of FP8 checkpoints.
var fp8Sources = []struct {
	name, config string
	scale        string
	dtype        safetensors.Dtype
	shape        func(out, in int64) []int64
	block        func(out, in int64) [2]int64
	says         string
	file         bool // hf_quant_config.json stands beside
}{
	{"release, blocks", `{"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]}`, "weight_scale_inv", safetensors.F32,
		blocks, func(out, in int64) [2]int64 { return [2]int64{128, 128} }, "per block of 128 by 128", false},
	{"compressed-tensors, rows", `{"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}}`,
		"weight_scale", safetensors.BF16, func(out, in int64) []int64 { return []int64{out, 1} }, func(out, in int64) [2]int64 { return [2]int64{1, in} }, "per row", false},
	{"compressed-tensors, tensor", `{"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}}}}`,
		"weight_scale", safetensors.BF16, func(out, in int64) []int64 { return []int64{1} }, func(out, in int64) [2]int64 { return [2]int64{out, in} }, "per tensor", false},
	{"modelopt, tensor", `{"quant_method": "modelopt", "quant_algo": "FP8"}`, "weight_scale", safetensors.F32,
		func(out, in int64) []int64 { return []int64{} }, func(out, in int64) [2]int64 { return [2]int64{out, in} }, "per tensor", true},
	{"modelopt, rows, its own file only", `null`, "weight_scale", safetensors.F32,
		func(out, in int64) []int64 { return []int64{out} }, func(out, in int64) [2]int64 { return [2]int64{1, in} }, "per row", true},
}

func TestAnFP8SourceIsReadInEverySpelling(t *testing.T) {
	for _, c := range fp8Sources {
		t.Run(c.name, func(t *testing.T) {
			src := qwen(4).retyped(safetensors.F8E4M3, isLinear).beside(c.scale, c.dtype, c.shape).
				beside("input_scale", safetensors.F32, func(_, _ int64) []int64 { return []int64{} })
			src.config.Quantization = json.RawMessage(c.config)
			src.configJSON = []byte(`{"a": 1, "quantization_config": ` + c.config + `}`)
			if c.file {
				src.quantFile = []byte(`{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}}`)
			}
			src.findings = []playbook.Finding{playbook.New("head-quantized", "mtp", "it is", ""), playbook.New("already-quantized", "config.json", "it is", "").As(playbook.Info)}
			p := mustDecide(t, src, Options{})
			p.one(t, "source-fp8", playbook.Warning, "quantization_config", c.says)
			for _, rule := range []string{"head-quantized", "already-quantized"} {
				if f := p.found(rule); f != nil {
					t.Errorf("findings %v", f)
				}
			}
			for _, name := range []string{layer0 + "mlp.up_proj", "mtp.fc"} {
				i := p.item(t, name+".weight")
				s := i.SourceScale
				if s == nil || s.Name != name+"."+c.scale || s.Dtype != c.dtype || s.Block != c.block(i.Shape[0], i.Shape[1]) {
					t.Errorf("%s has scale %+v", name, s)
				}
				want := Quantize
				if name == "mtp.fc" {
					want = Widen
					if i.Outputs[0].Dtype != safetensors.BF16 {
						t.Errorf("%s is kept as %v", name, i.Outputs)
					}
				}
				if i.Action != want {
					t.Errorf("%s: action %s, want %s", name, i.Action, want)
				}
			}
			for _, i := range p.Items {
				if strings.Contains(i.Source, "_scale") {
					t.Errorf("a scale is an item: %s", i.Source)
				}
			}
			if !slices.ContainsFunc(p.Dropped, func(d Dropped) bool { return d.Name == "mtp.fc.input_scale" }) {
				t.Error("nothing is said of input scales")
			}
			if slices.ContainsFunc(p.Files, func(f File) bool { return f.Name == model.QuantFile }) {
				t.Error("the old quantization file is copied")
			}
			if strings.Contains(string(p.Config), "quant_algo") || strings.Contains(string(p.Config), "weight_block_size") || !strings.Contains(string(p.Config), "nvfp4-pack-quantized") {
				t.Errorf("config.json is %s", p.Config)
			}
		})
	}
}

func TestOtherQuantizedSourcesStayRefused(t *testing.T) {
	fp8 := func(config string) source {
		src := qwen(4).retyped(safetensors.F8E4M3, isLinear)
		src.config.Quantization = json.RawMessage(config)
		return src
	}
	row := func(out, in int64) []int64 { return []int64{out, 1} }
	const release = `{"quant_method": "fp8"}`
	four := `{"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 8, "type": "float"}}, "b": {"weights": {"num_bits": 4, "type": "float"}}}}`
	for _, c := range []struct {
		name, rule string
		src        source
	}{
		{"a group of four bits", "already-quantized", fp8(four).beside("weight_scale", safetensors.F32, row)},
		{"another method", "already-quantized", fp8(`{"quant_method": "fbgemm_fp8"}`).beside("weight_scale", safetensors.F32, row)},
		{"an algorithm of modelopt", "already-quantized", fp8(`{"quant_method": "modelopt", "quant_algo": "NVFP4"}`).beside("weight_scale", safetensors.F32, row)},
		{"a second scale", "already-quantized", fp8(release).beside("weight_scale", safetensors.F32, row).beside("weight_scale_2", safetensors.F32, row)},
		{"no configuration", "already-quantized", fp8("null").beside("weight_scale", safetensors.F32, row)},
		{"no scale", "source-dtype", fp8(release)},
		{"a scale of no shape that fits", "source-dtype", fp8(release).beside("weight_scale", safetensors.F32, func(out, in int64) []int64 { return []int64{out, 2} })},
		{"a scale of exponents", "source-dtype", fp8(release).beside("weight_scale", "F8_E8M0", row)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustDecide(t, c.src, Options{})
			if len(p.found(c.rule)) == 0 || p.found(c.rule)[0].Severity != playbook.Error || len(p.Config) > 0 {
				t.Errorf("findings %v", p.Findings)
			}
		})
	}
}

func TestKeptTensorsAreRoundedToBF16ButForWhatServersHoldInF32(t *testing.T) {
	for _, d := range []safetensors.Dtype{safetensors.F32, safetensors.F16} {
		src := qwen(4).retyped(d, func(*model.Tensor) bool { return true })
		src.configJSON = []byte(`{"dtype": "float32", "text_config": {"torch_dtype": "torch.float16", "mamba_ssm_dtype": "float32"}, "vision_config": {"dtype": "bfloat16"}}`)
		p := mustDecide(t, src, Options{})
		for name, want := range map[string]Action{
			layer0 + "input_layernorm.weight": Cast, "lm_head.weight": Cast, "mtp.fc.weight": Cast, layer0 + "mlp.up_proj.weight": Quantize,
			layer0 + "linear_attn.A_log": Keep,
		} {
			i := p.item(t, name)
			if i.Action != want {
				t.Errorf("%s %s: action %s, want %s", d, name, i.Action, want)
			}
			if out := i.Outputs[0].Dtype; want == Cast && out != safetensors.BF16 || want == Keep && out != d {
				t.Errorf("%s %s is stored as %s", d, name, out)
			}
		}
		if i := p.item(t, layer0+"linear_attn.norm.weight"); (i.Action == Keep) != (d == safetensors.F32) {
			t.Errorf("%s norm of the delta net: %s", d, i.Action)
		}
		for _, want := range []string{`"dtype": "bfloat16",`, `"torch_dtype": "bfloat16"`, `"mamba_ssm_dtype": "float32"`} {
			if !strings.Contains(string(p.Config), want) {
				t.Errorf("config.json does not say %s: %s", want, p.Config)
			}
		}
		var bytes int64
		for _, i := range p.Items {
			for _, o := range i.Outputs {
				bytes += outputBytes(o)
			}
		}
		if p.BytesOut != bytes || p.Shards[0].Bytes != bytes {
			t.Errorf("the plan says %d bytes, its outputs have %d", p.BytesOut, bytes)
		}
	}
}

// One tensor that somebody saved in F32 does not make the checkpoint an F32 one.
func TestMixedDtypesAreDecidedTensorByTensor(t *testing.T) {
	src := qwen(4).retyped(safetensors.F32, func(t *model.Tensor) bool { return t.Name == layer3+"self_attn.k_proj.weight" }).
		retyped(safetensors.F16, func(t *model.Tensor) bool { return t.Name == "mtp.norm.weight" })
	src.configJSON = []byte(`{"dtype": "float32"}`)
	p := mustDecide(t, src, Options{Recipe: "nvfp4-all-linear"})
	k, q := p.item(t, layer3+"self_attn.k_proj.weight"), p.item(t, layer3+"self_attn.q_proj.weight")
	if k.Action != Quantize || k.Group == "" || k.Group != q.Group || k.Scheme != dialect.NVFP4W4A16 {
		t.Errorf("k is %+v, q %+v", k, q)
	}
	if n := p.item(t, "mtp.norm.weight"); n.Action != Cast {
		t.Errorf("the norm's action is %s", n.Action)
	}
	if !strings.Contains(string(p.Config), `"dtype": "float32"`) {
		t.Error("a field of a BF16 checkpoint was changed")
	}
}
