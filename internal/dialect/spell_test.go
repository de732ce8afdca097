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
	if d, err := dialect.Parse("modelopt"); err != nil || d.Name() != "modelopt" {
		t.Errorf("modelopt: %v", err)
	}
	for _, name := range []string{"", "gguf"} {
		if _, err := dialect.Parse(name); err == nil || !strings.Contains(err.Error(), "use compressed-tensors or modelopt") {
			t.Errorf("Parse(%q): %v", name, err)
		}
	}
}

func TestSpellOfEachDialectAndScheme(t *testing.T) {
	type output struct {
		name  string
		part  dialect.Part
		dtype safetensors.Dtype
		shape []int64
	}
	codes4 := func(name string) output { return output{name, dialect.PartCodes, safetensors.U8, []int64{48, 16}} }
	codes8 := output{"a.weight", dialect.PartCodes, safetensors.F8E4M3, []int64{48, 32}}
	blocks := output{"a.weight_scale", dialect.PartBlockScale, safetensors.F8E4M3, []int64{48, 2}}
	scalar := func(name string, part dialect.Part, shape ...int64) output {
		return output{name, part, safetensors.F32, append([]int64{}, shape...)}
	}
	for _, c := range []struct {
		d      dialect.Dialect
		scheme dialect.Scheme
		want   []output
	}{
		{dialect.CompressedTensors(), dialect.NVFP4W4A4, []output{codes4("a.weight_packed"), blocks,
			scalar("a.weight_global_scale", dialect.PartGlobalScale, 1), scalar("a.input_global_scale", dialect.PartInputScale, 1)}},
		{dialect.CompressedTensors(), dialect.FP8Tensor, []output{codes8, scalar("a.weight_scale", dialect.PartScale, 1), scalar("a.input_scale", dialect.PartInputScale, 1)}},
		{dialect.ModelOpt(), dialect.NVFP4W4A16, []output{codes4("a.weight"), blocks, scalar("a.weight_scale_2", dialect.PartGlobalScale)}},
		{dialect.ModelOpt(), dialect.NVFP4W4A4, []output{codes4("a.weight"), blocks, scalar("a.weight_scale_2", dialect.PartGlobalScale), scalar("a.input_scale", dialect.PartInputScale)}},
		{dialect.ModelOpt(), dialect.FP8Tensor, []output{codes8, scalar("a.weight_scale", dialect.PartScale), scalar("a.input_scale", dialect.PartInputScale)}},
	} {
		spelled, err := c.d.Spell("a.weight", c.scheme, numeric.Modelopt, []int64{48, 32})
		if err != nil {
			t.Errorf("%s %s: %v", c.d.Name(), c.scheme, err)
		}
		var got []output
		for _, o := range spelled {
			got = append(got, output{o.Name, o.Part, o.Dtype, o.Shape})
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(output{})); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.d.Name(), c.scheme, diff)
		}
	}
}

func TestModelOptRefusesFP8PerChannelByName(t *testing.T) {
	err := dialect.ModelOpt().Servable(dialect.FP8Channel)
	if err == nil || !strings.Contains(err.Error(), "MIXED_PRECISION") || !strings.Contains(err.Error(), "fp8-tensor") {
		t.Errorf("got %v", err)
	}
	if _, err := dialect.ModelOpt().Spell("a.weight", dialect.FP8Channel, numeric.Modelopt, []int64{16, 16}); err == nil || !strings.Contains(err.Error(), "a.weight") {
		t.Errorf("Spell: %v", err)
	}
	if _, err := dialect.ModelOpt().Config([]dialect.Module{{Name: "a.b", Scheme: dialect.FP8Channel}}); err == nil || !strings.Contains(err.Error(), "a.b") {
		t.Errorf("Config: %v", err)
	}
}
