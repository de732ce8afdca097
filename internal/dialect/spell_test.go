package dialect_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seatsmith/internal/dialect"
	"seatsmith/internal/numeric"
	"seatsmith/internal/safetensors"
)

func TestSpellNVFP4(t *testing.T) {
	got, err := dialect.CompressedTensors().Spell("model.language_model.layers.0.mlp.down_proj.weight", dialect.NVFP4W4A16, numeric.Modelopt, []int64{5120, 17408})
	if err != nil {
		t.Fatal(err)
	}
	const module = "model.language_model.layers.0.mlp.down_proj"
	want := []dialect.Output{
		{Name: module + ".weight_packed", Part: dialect.PartCodes, Dtype: safetensors.U8, Shape: []int64{5120, 8704}},
		{Name: module + ".weight_scale", Part: dialect.PartBlockScale, Dtype: safetensors.F8E4M3, Shape: []int64{5120, 1088}},
		{Name: module + ".weight_global_scale", Part: dialect.PartGlobalScale, Dtype: safetensors.F32, Shape: []int64{1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSpellFP8ScaleFollowsTheArithmetic(t *testing.T) {
	for m, dtype := range map[numeric.Math]safetensors.Dtype{numeric.Modelopt: safetensors.F32, numeric.ModeloptCPU: safetensors.F32, numeric.CT: safetensors.BF16} {
		got, err := dialect.CompressedTensors().Spell("a.weight", dialect.FP8Channel, m, []int64{48, 24})
		want := []dialect.Output{
			{Name: "a.weight", Part: dialect.PartCodes, Dtype: safetensors.F8E4M3, Shape: []int64{48, 24}},
			{Name: "a.weight_scale", Part: dialect.PartScale, Dtype: dtype, Shape: []int64{48, 1}},
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("math %d: %v (-want +got):\n%s", m, err, diff)
		}
	}
}

func TestSpellRefuses(t *testing.T) {
	for _, c := range []struct {
		source string
		scheme dialect.Scheme
		shape  []int64
		want   string
	}{
		{"a.weight", dialect.NVFP4W4A16, []int64{64, 24}, "24 mod 16 = 8"}, // Q23
		{"a.weight", dialect.NVFP4W4A16, []int64{8, 256, 128}, "not a matrix"},
		{"a.weight", dialect.FP8Channel, []int64{0, 16}, "not a matrix"},
		{"a.weight", dialect.FP8Channel, nil, "not a matrix"},
		{"a.bias", dialect.FP8Channel, []int64{16, 16}, "MODULE.weight"},
		{".weight", dialect.FP8Channel, []int64{16, 16}, "MODULE.weight"},
		{"a.weight", dialect.BF16, []int64{16, 16}, "changes nothing"},
		{"a.weight", dialect.NVFP4W4A4, []int64{16, 16}, "input_global_scale"},
		{"a.weight", dialect.FP8Tensor, []int64{16, 16}, "input_scale"},
		{"a.weight", "int4", []int64{16, 16}, "not known"},
	} {
		got, err := dialect.CompressedTensors().Spell(c.source, c.scheme, numeric.Modelopt, c.shape)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.source) {
			t.Errorf("%s %s %v: got %v, %v; want the tensor and %q", c.source, c.scheme, c.shape, got, err, c.want)
		}
	}
}

func TestSchemesAreParsedByName(t *testing.T) {
	for _, s := range []dialect.Scheme{dialect.BF16, dialect.NVFP4W4A4, dialect.NVFP4W4A16, dialect.FP8Tensor, dialect.FP8Channel} {
		if got, err := dialect.ParseScheme(string(s)); got != s || err != nil {
			t.Errorf("ParseScheme(%q) = %q, %v", s, got, err)
		}
		if s.Quantized() != (s != dialect.BF16) || s.NVFP4() != strings.HasPrefix(string(s), "nvfp4") || s.FP8() != strings.HasPrefix(string(s), "fp8") {
			t.Errorf("%s is taken for something else", s)
		}
	}
	for _, s := range []string{"", "BF16", "nvfp4"} {
		if _, err := dialect.ParseScheme(s); err == nil || !strings.Contains(err.Error(), "nvfp4-w4a16") {
			t.Errorf("ParseScheme(%q): %v", s, err)
		}
	}
}

func TestDialectsAreParsedByName(t *testing.T) {
	if d, err := dialect.Parse("compressed-tensors"); err != nil || d.Name() != "compressed-tensors" {
		t.Errorf("compressed-tensors: %v", err)
	}
	for _, name := range []string{"", "modelopt", "gguf"} {
		if _, err := dialect.Parse(name); err == nil || !strings.Contains(err.Error(), "use compressed-tensors") {
			t.Errorf("Parse(%q): %v", name, err)
		}
	}
}
