package verify_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// The reporter's claim is about FP4; FP8 in the same place, the default recipe, was not reported to harm.
func TestQ09TheGateInQIsToldInFP4Alone(t *testing.T) {
	f := copyOf(t, "nvfp4-all-linear")
	only(t, lint(t, f, verify.Options{}), "gated-q-fp4?")
	r := judge(t, f.dir, verify.Options{Source: open(t)})
	query, gate := r.ErrorByRole["q_proj.query"], r.ErrorByRole["q_proj.gate"]
	if query.RelativeMSE <= 0 || gate.RelativeMSE <= 0 || query == gate {
		t.Errorf("the two halves are not told apart: %+v, %+v", query, gate)
	}

	f.set("text_config.attn_output_gate", false)
	for _, half := range []string{"weight_packed", "weight_scale"} { // without a gate q has half the rows
		x := f.get(attn3 + "q_proj." + half)
		x.shape[0] /= 2
		x.data = x.data[:len(x.data)/2]
	}
	x := f.get("mtp.layers.0.self_attn.q_proj.weight")
	x.shape[0] /= 2
	x.data = x.data[:len(x.data)/2]
	clean(t, lint(t, f, verify.Options{}))

	for _, recipe := range []string{"default", "fp8-dynamic"} {
		clean(t, lint(t, copyOf(t, recipe), verify.Options{}))
	}
}

// The row order of q_proj: head by head, first the query's rows, then the gate's (vLLM 017e9f4448, models/qwen3_next.py:
// view(heads, 2*head_dim), chunk in two).
func TestQ09TheHalvesAreTheRowsThatTheServerTakes(t *testing.T) {
	source := open(t)
	for half, at := range map[string]int{"q_proj.query": 0, "q_proj.gate": 32} {
		f := copyOf(t, "nvfp4-all-linear")
		x := f.get(attn3 + "q_proj.weight_packed") // 4 heads of 32 queries and 32 gates
		before := judge(t, f.dir, verify.Options{Source: source}).ErrorByRole
		row := len(x.data) / int(x.shape[0])
		for i := range row {
			x.data[(64+at)*row+i] ^= 0x88 // the first row of that half of the second head
		}
		f.save()
		after := judge(t, f.dir, verify.Options{Source: source}).ErrorByRole
		for _, h := range []string{"q_proj.query", "q_proj.gate"} {
			if grown := after[h].RelativeMSE > before[h].RelativeMSE; grown != (h == half) {
				t.Errorf("a row of %s was changed, and the error of %s went from %v to %v", half, h, before[h], after[h])
			}
		}
	}
}

func TestQ10EachBadActivationScaleIsNamedWithItsValueAndCount(t *testing.T) {
	for _, c := range []struct {
		value float64
		said  string
	}{{math.Inf(1), "+Inf"}, {math.Copysign(0, -1), "-0"}, {0, "is 0"}, {math.NaN(), "NaN"}, {-448, "-448"}} {
		f := w4a4(t)
		badScale(c.value)(f)
		r := lint(t, f, verify.Options{})
		only(t, r, "scale-bad")
		says(t, r, "scale-bad", down0+".input_global_scale", c.said, "1 of 12 tensors", "expert")
	}
}

func TestQ10AnExpertsScaleIsOneOfMany(t *testing.T) {
	const expert = "model.language_model.layers.1.mlp.experts.5."
	f := mixture(t)
	f.set("quantization_config.config_groups.group_0.input_activations", map[string]any{
		"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": true, "dynamic": "local"})
	n := 0
	for name := range f.tensors {
		if module, ok := strings.CutSuffix(name, ".weight_global_scale"); ok {
			f.add(name, module+".input_global_scale", safetensors.F32, []int64{1}, f32(448))
			n++
		}
	}
	clean(t, lint(t, f, verify.Options{}))
	f.get(expert + "down_proj.input_global_scale").data = f32(float32(math.Inf(1)))
	r := lint(t, f, verify.Options{})
	only(t, r, "scale-bad")
	says(t, r, "scale-bad", expert+"down_proj.input_global_scale", fmt.Sprintf("1 of %d tensors", n))
}

// Sixteen values of 1000 before sixteen of 0.001: the second block's scale would be 4.48e-4 and becomes 0 or the smallest.
func TestQ14AnOutlierThatFlattensItsNeighboursFailsWithItsRatio(t *testing.T) {
	f := synth(t, donor, func(*folder) {})
	x := f.get(down0 + ".weight")
	for i := range 32 {
		v := float32(1000)
		if i >= 16 {
			v = 0.001
		}
		binary.LittleEndian.PutUint16(x.data[2*i:], numeric.BF16FromFloat32(v))
	}
	// modelopt keeps the smallest scale that there is, and the block survives, coarse; compressed-tensors' one is too large for it
	out, source := f.forge("default")
	r := judge(t, out.dir, verify.Options{Source: source})
	only(t, r, "block-collapsed?")
	says(t, r, "block-collapsed", down0+".weight_scale", "of 3072 blocks", "28,672", "229376 times")

	out, source = f.forgeWith(plan.Options{Math: numeric.CT})
	r = judge(t, out.dir, verify.Options{Source: source})
	only(t, r, "block-collapsed")
	says(t, r, "block-collapsed", down0+".weight: 1 of 3072 blocks", "largest value of the group 1000", "a ratio of 1e+06", "28,672")
}

func TestQ15OneScaleForQKAndV(t *testing.T) {
	f := copyOf(t, "nvfp4-all-linear")
	source := load(t, donor)
	want := float32(math.Inf(1))
	for _, name := range []string{"q_proj", "k_proj", "v_proj"} { // the smallest divisor belongs to the largest weight
		amax, _ := numeric.AmaxBF16(source.get(attn3 + name + ".weight").data)
		q := numeric.NewNVFP4(numeric.Modelopt, amax)
		want = min(want, q.Divisor())
	}
	for _, name := range []string{"q_proj", "k_proj", "v_proj"} {
		if got := f32At(f.get(attn3 + name + ".weight_global_scale").data); math.Abs(float64(got/want-1)) > 0.05 { // the body is a fine-tune
			t.Errorf("%s has the divisor %v, want about %v", name, got, want)
		}
	}
	for name, v := range map[string]float32{"q_proj": 12343.1035, "k_proj": 5334.3257, "v_proj": 8001.4883} {
		f.get(attn3 + name + ".weight_global_scale").data = f32(v)
	}
	r := lint(t, f, verify.Options{})
	only(t, r, "fused-scale", "gated-q-fp4?")
	says(t, r, "fused-scale", "factor of 2.314", "q_proj 12343.104", "k_proj 5334.3257", "v_proj 8001.4883", "smallest divisor")

	f = copyOf(t, "default")
	double(up0)(f)
	r = lint(t, f, verify.Options{})
	only(t, r, "fused-scale")
	says(t, r, "fused-scale", gate0, up0, "factor of 2")
}

func TestQ16GateAndUpOfOneExpertApart(t *testing.T) {
	f, _ := converted(t, "../../testdata/moe", plan.Options{Dialect: "modelopt"})
	const expert = "model.language_model.layers.0.mlp.experts.0."
	f.get(expert + "gate_proj.weight_scale_2").data = f32(1e-3)
	f.get(expert + "up_proj.weight_scale_2").data = f32(1e-4)
	r := lint(t, f, verify.Options{})
	only(t, r, "fused-scale")
	says(t, r, "fused-scale", expert+"gate_proj", expert+"up_proj", "factor of 10", "largest multiplier")

	f.get("model.language_model.layers.1.mlp.experts.3.up_proj.weight_scale_2").data = f32(1e-4)
	if got := single(t, lint(t, f, verify.Options{}), "fused-scale"); !strings.Contains(got.Message, "2 in all") {
		t.Errorf("two experts: %s", got)
	}
}

func TestQ17AReciprocalScaleIsSuspected(t *testing.T) {
	f := copyOf(t, "default")
	f.get(down0 + ".weight_global_scale").data = f32(2.790179e-4)
	r := lint(t, f, verify.Options{})
	only(t, r, "scale-inverted?")
	says(t, r, "scale-inverted", down0+".weight_global_scale")

	f = inModelOpt(t)
	f.get(down0 + ".weight_scale_2").data = f32(3584)
	r = lint(t, f, verify.Options{})
	only(t, r, "scale-inverted?")
	says(t, r, "scale-inverted", down0+".weight_scale_2")
}
