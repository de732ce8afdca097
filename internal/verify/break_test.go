package verify_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

const (
	layer0 = "model.language_model.layers.0."
	down0  = layer0 + "mlp.down_proj"
	gate0  = layer0 + "mlp.gate_proj"
	up0    = layer0 + "mlp.up_proj"
	out0   = layer0 + "linear_attn.out_proj"
	attn3  = "model.language_model.layers.3.self_attn."
	group0 = "quantization_config.config_groups.group_0."
	group1 = "quantization_config.config_groups.group_1."
)

// accident is one thing that goes wrong, and the only rule that may tell of it; where it breaks several promises at once,
// the rules with a space between. A "?" marks a warning, "(info)" information.
type accident struct {
	name string
	rule string
	make func(t *testing.T) *folder // the checkpoint before; nil: the default recipe
	do   func(f *folder)            // breaks it in memory
	// after breaks the written files; the record is not brought up to date then
	after      func(t *testing.T, dir string)
	withSource bool
	source     func(t *testing.T) *model.Model // another source than the fixture's view
	itself     bool                            // the folder as its own source
	engine     string
	notChecked string // must be told as not checked
	text       string // must be in the message or the fix
}

// rules lists the rules of an accident.
func (a accident) rules() []string {
	var out []string
	for _, r := range strings.Fields(a.rule) {
		if r == "(info)" {
			out[len(out)-1] += " (info)"
			continue
		}
		out = append(out, r)
	}
	return out
}

// allAccidents are the tables of all files.
func allAccidents() []accident {
	return slices.Concat(accidents, sourceAccidents, codeAccidents, modeloptAccidents)
}

// verdict is what the gravest of the rules comes to.
func (a accident) verdict() string {
	out := "ok"
	for _, r := range a.rules() {
		switch {
		case strings.HasSuffix(r, "?"):
			out = "warn"
		case !strings.HasSuffix(r, "(info)"):
			return "fail"
		}
	}
	return out
}

func fp8Linear(t *testing.T) *folder { return linear(t) }

var accidents = []accident{
	{name: "version outside the range that was read", rule: "engine-unread?", engine: "vllm@0.33"},
	{name: "class that the version does not know", rule: "engine-too-old", make: textOnly, engine: "vllm@0.26"},
	{name: "head of a text-only class before 0.28", rule: "engine-too-old", make: textOnly, engine: "vllm@0.27"},
	{name: "architecture of another family", rule: "arch-unknown", notChecked: "server's modules",
		do: func(f *folder) { f.set("architectures", []string{"NoSuchForCausalLM"}) }},
	{name: "class whose loader was not read", rule: "loader-unread?", notChecked: "server's modules",
		do: func(f *folder) { f.set("architectures", []string{"GPT2LMHeadModel"}) }},
	{name: "sums of other files", rule: "sums-differ", after: func(t *testing.T, dir string) {
		writeFile(t, filepath.Join(dir, "SHA256SUMS"), []byte(strings.Repeat("0", 64)+"  config.json\n"))
		rehash(t, dir)
	}},

	{name: "orphan weight_shape", rule: "tensor-unexpected", text: "weight_shape", do: func(f *folder) {
		f.add(down0+".weight_packed", down0+".weight_shape", "I64", []int64{2}, make([]byte, 16))
	}},
	{name: "stale plain weight beside the packed one", rule: "tensor-unexpected", do: func(f *folder) {
		f.add(down0+".weight_packed", down0+".weight", safetensors.BF16, []int64{128, 384}, make([]byte, 2*128*384))
	}},
	{name: "input scale in a weight-only group", rule: "tensor-unexpected", text: "input_global_scale", do: func(f *folder) {
		f.add(down0+".weight_packed", down0+".input_global_scale", safetensors.F32, []int64{1}, f32(448))
	}},
	{name: "tensor that nothing implies", rule: "tensor-unexpected", do: func(f *folder) {
		f.add(down0+".weight_packed", "model.language_model.layers.0.extra.weight", safetensors.BF16, []int64{2}, make([]byte, 4))
	}},
	{name: "scale of a plain module left over", rule: "tensor-unexpected", do: func(f *folder) {
		f.add("mtp.fc.weight", "mtp.fc.weight_scale", safetensors.F32, []int64{128, 1}, bytes.Repeat(f32(1), 128))
	}},
	{name: "block scale lost", rule: "tensor-missing", text: "weight_scale", do: func(f *folder) { delete(f.tensors, down0+".weight_scale") }},
	{name: "global scale lost", rule: "tensor-missing", text: "NVFP4", do: func(f *folder) { delete(f.tensors, up0+".weight_global_scale") }},
	{name: "codes lost", rule: "tensor-missing", do: func(f *folder) { delete(f.tensors, down0+".weight_packed") }},
	{name: "channel scale lost", rule: "tensor-missing", text: "FP8", do: func(f *folder) { delete(f.tensors, out0+".weight_scale") }},
	{name: "module lost as a whole", rule: "tensor-missing", withSource: true, do: func(f *folder) {
		for _, s := range []string{"weight_packed", "weight_scale", "weight_global_scale"} {
			delete(f.tensors, down0+"."+s)
		}
	}},
	{name: "norm lost", rule: "tensor-missing", withSource: true, do: func(f *folder) { delete(f.tensors, layer0+"input_layernorm.weight") }},
	{name: "block scales in BF16", rule: "tensor-dtype", withSource: true, text: "F8_E4M3", do: func(f *folder) {
		x := f.get(down0 + ".weight_scale")
		var wide []byte
		for _, c := range x.data {
			wide = binary.LittleEndian.AppendUint16(wide, numeric.BF16FromFloat32(numeric.E4M3ToFloat32(c)))
		}
		x.dtype, x.data = safetensors.BF16, wide
	}},
	{name: "block scales as bytes", rule: "tensor-dtype", do: func(f *folder) { f.get(down0 + ".weight_scale").dtype = safetensors.U8 }},
	{name: "global scale in BF16", rule: "tensor-dtype", do: func(f *folder) {
		x := f.get(down0 + ".weight_global_scale")
		x.dtype, x.data = safetensors.BF16, binary.LittleEndian.AppendUint16(nil, numeric.BF16FromFloat32(f32At(x.data)))
	}},
	{name: "norm in I16", rule: "tensor-dtype", do: func(f *folder) { f.get(layer0 + "input_layernorm.weight").dtype = "I16" }},
	{name: "channel scale without its second dimension", rule: "tensor-shape", text: "[128 1]", do: func(f *folder) { f.get(out0 + ".weight_scale").shape = []int64{128} }},
	{name: "two global scales", rule: "tensor-shape", do: func(f *folder) {
		x := f.get(down0 + ".weight_global_scale")
		x.shape, x.data = []int64{2}, append(x.data, x.data...)
	}},
	{name: "codes of another width", rule: "tensor-shape", do: func(f *folder) {
		x := f.get(down0 + ".weight_packed")
		x.shape = []int64{192, 128}
	}},
	{name: "kept tensor of another shape", rule: "tensor-shape", withSource: true, do: func(f *folder) { f.get("mtp.fc.weight").shape = []int64{256, 128} }},

	{name: "vision tower not ignored", rule: "protected-quantized", make: fp8Linear, text: "re:.*visual.*", do: func(f *folder) { f.ignore(dropping("visual")) }},
	{name: "gates not ignored", rule: "protected-quantized", make: fp8Linear, text: "in_proj_b", do: func(f *folder) {
		f.ignore(dropping("in_proj_a"))
		f.ignore(dropping("in_proj_b"))
	}},
	{name: "embedding stored quantized", rule: "protected-quantized", do: func(f *folder) { f.toFP8("model.language_model.embed_tokens") }},
	{name: "vision tower quantized", rule: "protected-quantized", make: fp8Linear, do: func(f *folder) {
		f.toFP8("model.visual.blocks.0.mlp.linear_fc1")
		f.ignore(dropping("visual"))
		var names []string
		for name := range f.tensors {
			if module, ok := strings.CutSuffix(name, ".weight"); ok && strings.HasPrefix(name, "model.visual.") && module != "model.visual.blocks.0.mlp.linear_fc1" {
				names = append(names, module)
			}
		}
		slices.Sort(names)
		f.ignore(adding(names...))
	}},
	{name: "gates quantized, and config.json says so", rule: "protected-quantized?", make: fp8Linear, do: func(f *folder) {
		f.toFP8(layer0 + "linear_attn.in_proj_a")
		f.toFP8(layer0 + "linear_attn.in_proj_b")
		f.ignore(dropping(layer0 + "linear_attn.in_proj_a"))
		f.ignore(dropping(layer0 + "linear_attn.in_proj_b"))
	}},

	{name: "pattern with look-ahead", rule: "pattern-unjudged?", notChecked: "(?!", do: func(f *folder) { f.ignore(adding(`re:(?!.*mlp).*out_proj`)) }},
	{name: "integer group", rule: "scheme-unread?", notChecked: "WNA16", do: func(f *folder) {
		f.set(group0+"format", "pack-quantized")
		f.set(group0+"weights", json.RawMessage(`{"num_bits":4,"type":"int","strategy":"group","group_size":128,"symmetric":true}`))
	}},
	{name: "another method than the tensors look like", rule: "quant-method", text: "down_proj.weight_global_scale", do: func(f *folder) { f.set("quantization_config.quant_method", "modelopt") }},
	{name: "fp8 method over scales per channel", rule: "quant-method", text: "weight_scale", make: fp8Linear, do: func(f *folder) { f.set("quantization_config.quant_method", "fp8") }},
	{name: "awq method over packed tensors", rule: "quant-method", do: func(f *folder) { f.set("quantization_config.quant_method", "awq") }},
	{name: "other dialect", rule: "dialect-unread?", notChecked: "dialect awq", make: otherMethod},
	{name: "groups that overlap", rule: "groups-overlap?", text: "group_0", do: func(f *folder) {
		f.set("quantization_config.config_groups.group_2", json.RawMessage(`{"format":"float-quantized","targets":["re:.*layers\\.1\\.mlp\\.down.*"],
			"weights":{"num_bits":8,"type":"float","strategy":"channel","symmetric":true,"dynamic":false}}`))
	}},
	{name: "only q is ignored", rule: "fused-partial", text: "k_proj", make: fp8Linear, do: func(f *folder) { f.ignore(adding(attn3 + "q_proj")) }},
	{name: "only v is stored plain", rule: "fused-partial", text: "v_proj", withSource: true, do: func(f *folder) { f.restore(attn3 + "v_proj") }},
	{name: "FP8 group without a format of its own", rule: "config-args", text: "float-quantized", do: func(f *folder) { f.del(group1 + "format") }},
	{name: "NVFP4 group of another size", rule: "config-args", text: "group_size", do: func(f *folder) { f.set(group0+"weights.group_size", 32) }},
	{name: "arguments that do not validate", rule: "config-args", text: "num_bits", do: func(f *folder) { f.set(group0+"weights.num_bits", 5) }},
	{name: "key that compressed-tensors does not know", rule: "config-args?", do: func(f *folder) { f.set(group0+"weights.flavour", 1) }},

	{name: "head not ignored", rule: "head-not-ignored", make: fp8Linear, text: "re:.*mtp.*", do: func(f *folder) { f.ignore(dropping("mtp")) }},
	{name: "only the head's layers are ignored, fc is not", rule: "head-not-ignored", make: fp8Linear, text: "mtp.fc", do: func(f *folder) {
		f.ignore(dropping("mtp.fc"))
		f.ignore(dropping("re:.*mtp"))
		f.ignore(dropping("re:^mtp"))
	}},
	{name: "head quantized, ignored in config.json", rule: "head-quantized", do: func(f *folder) { f.toFP8("mtp.fc") }},
	{name: "head quantized, and config.json says so", rule: "head-quantized?", make: fp8Linear, do: func(f *folder) {
		f.toFP8("mtp.fc")
		f.ignore(dropping("mtp.fc"))
		f.ignore(dropping("re:.*mtp"))
		f.ignore(dropping("re:^mtp"))
	}},
	{name: "head ignored part by part", rule: "head-portability?", make: fp8Linear, text: "mtp.layers.0.self_attn.qkv_proj", do: func(f *folder) {
		f.ignore(dropping("re:.*mtp"))
		f.ignore(dropping("re:^mtp"))
		f.ignore(dropping("qkv_proj"))
		f.ignore(dropping("gate_up_proj"))
	}},
	{name: "quantized module in the ignore list", rule: "config-contradiction", text: down0, do: func(f *folder) { f.ignore(adding(down0)) }},
	{name: "plain module that a target selects", rule: "config-contradiction", text: out0, withSource: true, do: func(f *folder) { f.restore(out0) }},
	{name: "module in another scheme than its group's", rule: "config-contradiction", withSource: true, do: func(f *folder) { f.restore(down0); f.toFP8(down0) }},
	{name: "lm_head selected by a target, stored plain", rule: "lm-head-state", do: func(f *folder) {
		f.ignore(dropping("lm_head"))
		f.set(group0+"targets.-1", "re:.*lm_head$")
	}},
	{name: "lm_head selected for the drafter only", rule: "lm-head-state", text: "language_model.lm_head", do: func(f *folder) {
		f.ignore(dropping("lm_head"))
		f.set(group0+"targets.-1", "lm_head")
	}},
	{name: "lm_head quantized on disk, ignored in config.json", rule: "lm-head-state", do: func(f *folder) { f.toFP8("lm_head") }},
	{name: "empty quant_method", rule: "quant-method", text: "compressed-tensors", do: func(f *folder) { f.set("quantization_config.quant_method", "") }},
	{name: "no quantization_config", rule: "quant-config-missing", do: func(f *folder) { f.del("quantization_config") }},
	{name: "quantization_config inside text_config", rule: "quant-method?", do: func(f *folder) {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(f.config, &all); err != nil {
			f.t.Fatal(err)
		}
		f.del("quantization_config")
		f.set("text_config.quantization_config", all["quantization_config"])
	}},
	{name: "mistyped ignore entry", rule: "ignore-dead?", text: "qate_proj", do: func(f *folder) { f.ignore(adding(layer0 + "mlp.qate_proj")) }},
	{name: "glob in the ignore list", rule: "ignore-dead?", text: "*", do: func(f *folder) { f.ignore(adding("*.layers.0.mlp.down*")) }},
	{name: "path that names another method", rule: "path-trap", make: func(t *testing.T) *folder {
		f := copyOf(t, "default")
		f.dir = rename(t, f.dir, "tiny-Eagle3-nvfp4")
		return f
	}},
	{name: "folder above that names another method", rule: "path-trap?", make: func(t *testing.T) *folder {
		f := copyOf(t, "default")
		f.dir = rename(t, f.dir, filepath.Join("eagle-one", "tiny"))
		return f
	}},
	{name: "q_proj with its gate in FP4", rule: "gated-q-fp4?", make: func(t *testing.T) *folder { return copyOf(t, "nvfp4-all-linear") }, withSource: true},
	{name: "key/value cache scheme without scales", rule: "kv-scale-missing?", do: func(f *folder) { f.cacheScheme() }},
	{name: "key/value cache scales all 1", rule: "kv-scale-missing?", text: "exactly 1", do: func(f *folder) {
		f.cacheScheme()
		f.add(attn3+"o_proj.weight", attn3+"k_scale", safetensors.BF16, []int64{1}, []byte{0x80, 0x3F})
		f.add(attn3+"o_proj.weight", attn3+"v_scale", safetensors.BF16, []int64{1}, []byte{0x80, 0x3F})
	}},
	{name: "width that 16 does not divide", rule: "width-group", text: "392 mod 16 = 8", make: func(t *testing.T) *folder { return withWidth(t, 392) }},
	{name: "width that 32 does not divide", rule: "width-kernel?", make: func(t *testing.T) *folder { return withWidth(t, 400) }},
	{name: "height that an old kernel refuses", rule: "width-kernel?", text: "height is 96", engine: "vllm@0.23", make: narrow},

	{name: "input scale of a W4A4 module lost", rule: "scale-missing", make: func(t *testing.T) *folder { return w4a4(t) }, do: func(f *folder) { delete(f.tensors, down0+".input_global_scale") }},
	{name: "input scale +Inf", rule: "scale-bad", text: "1 of 12 tensors input_global_scale", make: func(t *testing.T) *folder { return w4a4(t) }, do: badScale(math.Inf(1))},
	{name: "input scale NaN", rule: "scale-bad", text: "NaN", make: func(t *testing.T) *folder { return w4a4(t) }, do: badScale(math.NaN())},
	{name: "input scale 0", rule: "scale-bad", make: func(t *testing.T) *folder { return w4a4(t) }, do: badScale(0)},
	{name: "input scale -0", rule: "scale-bad", text: "-0", make: func(t *testing.T) *folder { return w4a4(t) }, do: badScale(math.Copysign(0, -1))},
	{name: "input scale negative", rule: "scale-bad", text: "-448", make: func(t *testing.T) *folder { return w4a4(t) }, do: badScale(-448)},
	{name: "block scale NaN", rule: "scale-bad", text: "value 7 is NaN (code 0x7F)", withSource: true, do: func(f *folder) { f.get(down0 + ".weight_scale").data[7] = 0x7F }},
	{name: "block scale NaN with sign", rule: "scale-bad", text: "0xFF", do: func(f *folder) { f.get(down0 + ".weight_scale").data[7] = 0xFF }},
	{name: "block scale negative", rule: "scale-bad", text: "negative", withSource: true, do: func(f *folder) { f.get(down0 + ".weight_scale").data[3] |= 0x80 }},
	{name: "block scale zero over codes that are not", rule: "scale-bad", text: "silences", withSource: true, do: func(f *folder) { f.get(down0 + ".weight_scale").data[3] = 0 }},
	{name: "global scale Inf", rule: "scale-bad", text: "+Inf", withSource: true, do: func(f *folder) { f.get(up0 + ".weight_global_scale").data = f32(float32(math.Inf(1))) }},
	{name: "channel scale zero", rule: "scale-bad", withSource: true, do: func(f *folder) { copy(f.get(out0 + ".weight_scale").data[4:], f32(0)) }},
	{name: "FP8 code NaN", rule: "codes-nan", withSource: true, do: func(f *folder) { f.get(out0 + ".weight").data[9] = 0x7F }},
	{name: "global scales unequal in a fused group", rule: "fused-scale", text: "factor of 2", do: double(up0)},
	{name: "global scales unequal in a fused group, with the source", rule: "fused-scale", withSource: true, do: double(up0)},
	{name: "input scales unequal in a fused group", rule: "fused-scale?", make: func(t *testing.T) *folder { return w4a4(t) }, do: func(f *folder) { f.get(up0 + ".input_global_scale").data = f32(896) }},
	{name: "global scale inverted", rule: "scale-inverted? native-scale", do: invert(down0)},
	{name: "one global scale of a fused group inverted", rule: "scale-inverted? fused-scale", do: invert(gate0)},
	{name: "global scale inverted after it was written", rule: "scale-inverted? native-scale hash-mismatch", after: func(t *testing.T, dir string) {
		f := load(t, dir)
		v := f32At(f.get(down0 + ".weight_global_scale").data)
		poke(t, dir, down0+".weight_global_scale", 0, f32(1/v))
	}},
	{name: "global scale inverted, with the source", rule: "scale-inverted native-scale", withSource: true, do: invert(down0)},
	{name: "global scales of a fused group inverted, with the source", rule: "scale-inverted native-scale", withSource: true, do: invert(gate0, up0)},

	{name: "nibbles swapped", rule: "error-bound", withSource: true, do: func(f *folder) {
		for i, b := range f.get(down0 + ".weight_packed").data {
			f.get(down0 + ".weight_packed").data[i] = b<<4 | b>>4
		}
	}},
	{name: "block scales of other rows", rule: "error-bound", withSource: true, do: func(f *folder) {
		x := f.get(down0 + ".weight_scale")
		x.data = append(x.data[24:], x.data[:24]...)
	}},
	{name: "two layers exchanged", rule: "error-bound", withSource: true, do: func(f *folder) {
		other := strings.Replace(down0, "layers.0", "layers.1", 1)
		for _, s := range []string{".weight_packed", ".weight_scale", ".weight_global_scale"} {
			f.tensors[down0+s].data, f.tensors[other+s].data = f.tensors[other+s].data, f.tensors[down0+s].data
		}
		f.native(down0, other)
	}},
	{name: "FP8 scales of other rows", rule: "error-bound", withSource: true, do: func(f *folder) {
		x := f.get(out0 + ".weight_scale")
		x.data = append(x.data[4:], x.data[:4]...)
	}},
	{name: "one row's codes from another row", rule: "error-bound", withSource: true, text: "1 of 128 rows", do: func(f *folder) {
		x := f.get(down0 + ".weight_packed")
		copy(x.data[5*192:6*192], x.data[6*192:7*192])
	}},
	{name: "one channel's scale a tenth too small", rule: "error-bound", withSource: true, text: "1 of 128 rows", do: func(f *folder) {
		x := f.get(out0 + ".weight_scale")
		copy(x.data[4*5:], f32(f32At(x.data[4*5:])*0.9))
	}},
	{name: "global scale of a group too large for its largest weight", rule: "scale-clips", withSource: true, do: func(f *folder) { f.clip(1.1, gate0, up0) }},
	{name: "row zeroed, NVFP4", rule: "zero-row", withSource: true, text: "row 5", do: func(f *folder) { clear(f.get(down0 + ".weight_packed").data[5*192 : 6*192]) }},
	{name: "row zeroed, FP8", rule: "zero-row", withSource: true, do: func(f *folder) { clear(f.get(out0 + ".weight").data[5*128 : 6*128]) }},
	{name: "block zeroed", rule: "block-collapsed", withSource: true, text: "1 of 3072 blocks", do: func(f *folder) { clear(f.get(down0 + ".weight_packed").data[8:16]) }},
	{name: "block scale outside the window", rule: "block-collapsed?", text: "28,672", do: func(f *folder) { f.get(down0 + ".weight_scale").data[1] = 0x03 }},
	{name: "byte flipped in the head", rule: "head-bytes", withSource: true, text: "1 of its 65536 bytes differ from the source, the first at byte 100", do: func(f *folder) { f.get("mtp.fc.weight").data[100] ^= 1 }},
	{name: "byte flipped in a norm", rule: "kept-bytes", withSource: true, do: func(f *folder) { f.get(layer0 + "input_layernorm.weight").data[3] ^= 1 }},
	{name: "source with a tensor that the folder lacks", rule: "source-missing source-other", source: longerSource},
	{name: "kept tensor in a wider dtype", rule: "kept-widened?", withSource: true, text: "all its values are equal", do: func(f *folder) {
		x := f.get(layer0 + "input_layernorm.weight")
		var wide []byte
		for i := 0; i < len(x.data); i += 2 {
			wide = append(wide, f32(numeric.BF16ToFloat32(binary.LittleEndian.Uint16(x.data[i:])))...)
		}
		x.dtype, x.data = safetensors.F32, wide
	}},
	{name: "F32 tensor rounded to BF16", rule: "kept-rounded (info)", withSource: true, text: "of its 4 values were rounded", do: func(f *folder) { f.round(layer0 + "linear_attn.A_log") }},
	{name: "F32 tensor cut off to BF16", rule: "kept-bytes", withSource: true, text: "1 of its 4 values differ", do: func(f *folder) {
		f.round(layer0 + "linear_attn.A_log")
		f.get(layer0 + "linear_attn.A_log").data[0] ^= 1
	}},

	{name: "file changed after it was written", rule: "hash-mismatch", text: "hash differs", after: func(t *testing.T, dir string) {
		path := filepath.Join(dir, "chat_template.jinja")
		data := readFile(t, path)
		data[0] ^= 1
		writeFile(t, path, data)
	}},
	{name: "file cut after it was written", rule: "hash-mismatch", text: "bytes", after: func(t *testing.T, dir string) {
		path := filepath.Join(dir, "chat_template.jinja")
		writeFile(t, path, readFile(t, path)[1:])
	}},
	{name: "file lost", rule: "hash-mismatch", text: "not there", after: func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "generation_config.json")) }},
	{name: "weights changed after they were written, without a source", rule: "hash-mismatch", after: func(t *testing.T, dir string) { flip(t, dir, "model.language_model.norm.weight") }},
	{name: "weights changed after they were written, with the source", rule: "kept-bytes", withSource: true, after: func(t *testing.T, dir string) { flip(t, dir, "model.language_model.norm.weight") }},
	{name: "head changed after it was written, with the source", rule: "head-bytes", withSource: true, after: func(t *testing.T, dir string) { flip(t, dir, "mtp.norm.weight") }},
	{name: "config.json edited after it was written", rule: "config-contradiction", after: func(t *testing.T, dir string) {
		path := filepath.Join(dir, "config.json")
		writeFile(t, path, bytes.Replace(readFile(t, path), []byte(`"lm_head"`), []byte(`"lm_head","`+down0+`"`), 1))
	}},
	{name: "weights of another format beside the folder's", rule: "file-unrecorded?", after: func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, "pytorch_model.bin"), []byte("x")) }},
	{name: "configuration of another tool beside the folder's", rule: "file-unrecorded?", after: func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, "params.json"), []byte("{}")) }},
	{name: "card, licence and picture beside the record", rule: "file-unrecorded (info)", after: func(t *testing.T, dir string) {
		for _, name := range []string{"README.md", "LICENSE", "logo.png", ".gitattributes"} {
			writeFile(t, filepath.Join(dir, name), []byte("x"))
		}
	}},
	{name: "no record", rule: "provenance-missing?", notChecked: "source comparison and recorded hashes", after: func(t *testing.T, dir string) { remove(t, filepath.Join(dir, model.ProvenanceFile)) }},
	{name: "no record, but the source", rule: "provenance-missing (info)", withSource: true, notChecked: "recorded hashes", after: func(t *testing.T, dir string) { remove(t, filepath.Join(dir, model.ProvenanceFile)) }},
	{name: "record cut", rule: "provenance-bad", notChecked: "recorded hashes", after: func(t *testing.T, dir string) {
		path := filepath.Join(dir, model.ProvenanceFile)
		writeFile(t, path, readFile(t, path)[:40])
	}},
	{name: "record that names a path outside", rule: "hash-mismatch", after: func(t *testing.T, dir string) {
		editRecord(t, dir, func(p *model.Provenance) { p.Files["../../etc/passwd"] = model.FileHash{} })
	}},
	{name: "native scale that makes another divisor", rule: "native-scale", after: func(t *testing.T, dir string) {
		editRecord(t, dir, func(p *model.Provenance) { p.Native[down0] *= 2 })
	}},
	{name: "native scale not recorded", rule: "provenance-bad", after: func(t *testing.T, dir string) {
		editRecord(t, dir, func(p *model.Provenance) { delete(p.Native, down0) })
	}},

	// what package model and safetensors tell, and nothing beside it
	{name: "no head promised and none stored", rule: "head-promise (info)", after: recordHead("none"), do: func(f *folder) {
		for name := range f.tensors {
			if strings.HasPrefix(name, "mtp.") {
				delete(f.tensors, name)
			}
		}
		f.set("text_config.mtp_num_hidden_layers", 0)
	}},
	{name: "tensor in two shards", rule: "stale-copy", after: func(t *testing.T, dir string) { duplicate(t, dir, "model.language_model.norm.weight") }},
	{name: "head lost", rule: "head-missing", withSource: true, do: func(f *folder) {
		for name := range f.tensors {
			if strings.HasPrefix(name, "mtp.") {
				delete(f.tensors, name)
			}
		}
	}},
	{name: "head under a prefix that nobody reads", rule: "head-misplaced", do: func(f *folder) {
		for name, x := range f.tensors {
			if strings.HasPrefix(name, "mtp.") {
				delete(f.tensors, name)
				f.tensors["language_model."+name] = x
			}
		}
	}},
	{name: "flat names under the wrapper class", rule: "layout-prefix", do: func(f *folder) {
		for name, x := range f.tensors {
			if rest, ok := strings.CutPrefix(name, "model.language_model."); ok {
				delete(f.tensors, name)
				f.tensors["model."+rest] = x
			}
		}
	}},
	{name: "shard lost", rule: "shard-missing", withSource: true, notChecked: "could not be read", after: func(t *testing.T, dir string) { remove(t, shard(t, dir, 1)) }},
	{name: "shard cut", rule: "file-truncated", withSource: true, notChecked: "could not be read", after: func(t *testing.T, dir string) {
		path := shard(t, dir, 1)
		data := readFile(t, path)
		writeFile(t, path, data[:len(data)-1])
	}},
}

func TestEachAccidentIsToldByItsRuleAlone(t *testing.T) {
	source := open(t)
	for _, a := range allAccidents() {
		t.Run(strings.ReplaceAll(a.name, "/", " "), func(t *testing.T) {
			var f *folder
			if a.make != nil {
				f = a.make(t)
			} else {
				f = copyOf(t, "default")
			}
			if a.do != nil {
				a.do(f)
			}
			if a.do != nil || a.make != nil {
				f.save()
			}
			if a.after != nil {
				a.after(t, f.dir)
			}
			o := verify.Options{Engine: a.engine}
			if a.withSource {
				o.Source = source
			}
			if a.source != nil {
				o.Source = a.source(t)
			}
			if a.itself {
				m, err := model.Open(f.dir)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				o.Source = m
			}
			r := judge(t, f.dir, o)
			expect(t, r, a.rules()...)
			if want := a.verdict(); r.Verdict != want {
				t.Errorf("verdict %s, want %s", r.Verdict, want)
			}
			if r.Unjudged && r.Verdict != "warn" {
				t.Errorf("unjudged, and the verdict is %s", r.Verdict)
			}
			if a.notChecked != "" && !contains(r.NotChecked, a.notChecked) {
				t.Errorf("not checked: %q, want %q among them", r.NotChecked, a.notChecked)
			}
			said := ""
			for _, x := range r.Findings {
				said += x.Subject + " " + x.Message + " " + x.Fix + "\n"
				if x.Fix == "" {
					t.Errorf("no next step: %s", x)
				}
			}
			if !strings.Contains(said, a.text) {
				t.Errorf("%q is not said in: %s", a.text, said)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, dir, name string) string {
	t.Helper()
	to := filepath.Join(filepath.Dir(dir), name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, to); err != nil {
		t.Fatal(err)
	}
	return to
}

// shard is the n-th shard file in the order of names.
func shard(t *testing.T, dir string, n int) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil || len(list) <= n {
		t.Fatalf("%v: %d shards", err, len(list))
	}
	return list[n]
}

// flip changes one byte of a tensor in its file.
func flip(t *testing.T, dir, name string) {
	t.Helper()
	set, err := safetensors.OpenSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	ref, ok := set.Lookup(name)
	if !ok {
		t.Fatalf("no tensor %s", name)
	}
	data := readFile(t, ref.File.Path)
	data[ref.File.DataStart+ref.Tensor.Begin] ^= 1
	writeFile(t, ref.File.Path, data)
}

// poke writes bytes of a tensor in its file.
func poke(t *testing.T, dir, name string, off int64, p []byte) {
	t.Helper()
	set, err := safetensors.OpenSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	ref, ok := set.Lookup(name)
	if !ok {
		t.Fatalf("no tensor %s", name)
	}
	data := readFile(t, ref.File.Path)
	copy(data[ref.File.DataStart+ref.Tensor.Begin+off:], p)
	writeFile(t, ref.File.Path, data)
}

// recordHead makes the record say where the head is from.
func recordHead(from string) func(*testing.T, string) {
	return func(t *testing.T, dir string) { editRecord(t, dir, func(p *model.Provenance) { p.Head = from }) }
}

func editRecord(t testing.TB, dir string, edit func(*model.Provenance)) {
	t.Helper()
	path := filepath.Join(dir, model.ProvenanceFile)
	var p model.Provenance
	if err := json.Unmarshal(readFile(t, path), &p); err != nil {
		t.Fatal(err)
	}
	edit(&p)
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, data)
}

// round stores an F32 tensor as BF16.
func (f *folder) round(name string) {
	x := f.get(name)
	var narrow []byte
	for i := 0; i < len(x.data); i += 4 {
		narrow = binary.LittleEndian.AppendUint16(narrow, numeric.BF16FromFloat32(math.Float32frombits(binary.LittleEndian.Uint32(x.data[i:]))))
	}
	x.dtype, x.data = safetensors.BF16, narrow
}
