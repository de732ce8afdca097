package verify_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/numeric"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// mixture is the mixture-of-experts fixture with the routed experts of its decoder stored one by one in NVFP4, gate and
// up of each expert sharing a scale, and the head's experts as they were.
func mixture(t *testing.T) *folder {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mixture")
	if err := os.CopyFS(dir, os.DirFS("../../testdata/moe")); err != nil {
		t.Fatal(err)
	}
	f := load(t, dir)
	for layer := range 4 {
		p := fmt.Sprintf("model.language_model.layers.%d.mlp.experts.", layer)
		gateUp, down := f.get(p+"gate_up_proj"), f.get(p+"down_proj")
		delete(f.tensors, p+"gate_up_proj")
		delete(f.tensors, p+"down_proj")
		experts, ff, hidden := gateUp.shape[0], gateUp.shape[1]/2, gateUp.shape[2]
		for e := range experts {
			pair := gateUp.data[e*2*ff*hidden*2 : (e+1)*2*ff*hidden*2]
			amax, _ := numeric.AmaxBF16(pair)
			name := fmt.Sprintf("%s%d.", p, e)
			f.packed(name+"gate_proj", gateUp.file, pair[:len(pair)/2], amax, ff, hidden)
			f.packed(name+"up_proj", gateUp.file, pair[len(pair)/2:], amax, ff, hidden)
			one := down.data[e*hidden*ff*2 : (e+1)*hidden*ff*2]
			amax, _ = numeric.AmaxBF16(one)
			f.packed(name+"down_proj", down.file, one, amax, hidden, ff)
		}
	}
	f.set("quantization_config", json.RawMessage(`{"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized","config_groups":{"group_0":{"targets":["Linear"],
		"weights":{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16,"symmetric":true,"dynamic":false},"input_activations":null}},
		"ignore":["lm_head","re:.*mtp.*","re:.*visual.*","re:.*linear_attn.*","re:.*self_attn.*","re:.*shared_expert.*"]}`))
	return f
}

// packed stores a weight as NVFP4.
func (f *folder) packed(module, file string, src []byte, amax float32, out, in int64) {
	q := numeric.NewNVFP4(numeric.Modelopt, amax)
	codes, scales := make([]byte, out*in/2), make([]byte, out*in/16)
	q.EncodeBF16(codes, scales, src)
	f.tensors[module+".weight_packed"] = &tensor{safetensors.U8, []int64{out, in / 2}, codes, file}
	f.tensors[module+".weight_scale"] = &tensor{safetensors.F8E4M3, []int64{out, in / 16}, scales, file}
	f.tensors[module+".weight_global_scale"] = &tensor{safetensors.F32, []int64{1}, f32(q.Divisor()), file}
	if f.natives == nil {
		f.natives = map[string]float32{}
	}
	f.natives[module] = q.Global
}

func TestRoutedExperts(t *testing.T) {
	const expert = "model.language_model.layers.1.mlp.experts.5."
	for _, a := range []accident{
		{name: "nothing is wrong", do: func(*folder) {}},
		{name: "gate and up of an expert with different scales", rule: "fused-scale", text: "gate_proj", do: double(expert + "up_proj")},
		{name: "scale of one expert lost", rule: "tensor-missing", text: "experts.5", do: func(f *folder) { delete(f.tensors, expert+"down_proj.weight_scale") }},
		{name: "scale of one expert infinite", rule: "scale-bad", do: func(f *folder) { f.get(expert + "down_proj.weight_scale").data[0] = 0x7F }},
		{name: "experts of the head not ignored", rule: "head-not-ignored", text: "mtp.layers.0.mlp.experts", do: func(f *folder) {
			f.ignore(dropping("mtp"))
			f.ignore(adding("mtp.fc", "re:mtp.*self_attn.*", "re:mtp.*shared_expert.*"))
		}},
		{name: "only gate of expert 0 of the head ignored", rule: "fused-partial", do: func(f *folder) {
			f.ignore(dropping("mtp"))
			f.ignore(adding("mtp.fc", "re:mtp.*self_attn.*", "re:mtp.*shared_expert.*", "mtp.layers.0.mlp.experts.0.gate_proj"))
		}},
		{name: "router quantized", rule: "protected-quantized", text: "mlp.gate", do: func(f *folder) { f.toFP8("model.language_model.layers.0.mlp.gate") }},
		{name: "experts stored plain where a target selects them", rule: "config-contradiction", do: func(f *folder) {
			p := "model.language_model.layers.1.mlp.experts."
			for name := range f.tensors {
				if strings.HasPrefix(name, p) {
					delete(f.tensors, name)
				}
			}
			source := load(f.t, "../../testdata/moe")
			for _, n := range []string{"gate_up_proj", "down_proj"} {
				x := source.get(p + n).clone()
				x.file = f.get("lm_head.weight").file
				f.tensors[p+n] = x
			}
		}},
	} {
		t.Run(a.name, func(t *testing.T) {
			f := mixture(t)
			a.do(f)
			f.save()
			r := judge(t, f.dir, verify.Options{})
			if a.rule == "" {
				expect(t, r)
				return
			}
			expect(t, r, a.rule)
			if len(r.Findings) == 1 && !strings.Contains(r.Findings[0].Subject+r.Findings[0].Message, a.text) {
				t.Errorf("%q is not said: %s", a.text, r.Findings[0])
			}
		})
	}
}

func TestAnUnquantizedMixtureIsClean(t *testing.T) {
	r := judge(t, "../../testdata/moe", verify.Options{})
	expect(t, r, "provenance-missing?")
}
