package verify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/sjson"

	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
	"seatsmith/internal/write"
)

// converted is a source written in a dialect, and the source.
func converted(t *testing.T, source string, o plan.Options) (*folder, *model.Model) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	m := quantizeFrom(t, source, dir, o)
	return load(t, dir), m
}

func TestBothDialectsOfEveryFixtureAreClean(t *testing.T) {
	for _, dialect := range []string{"compressed-tensors", "modelopt"} {
		for _, fixture := range []string{"tiny", "moe"} {
			t.Run(fixture+" "+dialect, func(t *testing.T) {
				f, source := converted(t, "../../testdata/"+fixture, plan.Options{Dialect: dialect})
				for _, o := range []verify.Options{{Source: source}, {}} {
					r := judge(t, f.dir, o)
					expect(t, r)
					if r.Verdict != "ok" || contains(r.NotChecked, "comparison of") {
						t.Errorf("%s, not checked %q", r.Verdict, r.NotChecked)
					}
					if o.Source != nil && len(r.ErrorByRole) == 0 {
						t.Error("no error was measured")
					}
				}
			})
		}
	}
}

const exclude = "quantization_config.ignore"

// inModelOpt is the fixture in the modelopt dialect, without the file that repeats what config.json says.
func inModelOpt(t *testing.T) *folder {
	f, _ := converted(t, donor, plan.Options{Dialect: "modelopt"})
	if err := os.Remove(filepath.Join(f.dir, "hf_quant_config.json")); err != nil {
		t.Fatal(err)
	}
	return f
}

// withFile is the same with the file.
func withFile(t *testing.T) *folder {
	f, _ := converted(t, donor, plan.Options{Dialect: "modelopt"})
	return f
}

// modeloptAccidents are a modelopt folder broken in one place each.
var modeloptAccidents = []accident{
	{make: inModelOpt, name: "global scale lost", rule: "tensor-missing", text: "weight_scale_2", do: func(f *folder) { delete(f.tensors, down0+".weight_scale_2") }},
	{make: inModelOpt, name: "global scale in BF16", rule: "tensor-dtype", text: "weight_scale_2", do: func(f *folder) {
		x := f.get(down0 + ".weight_scale_2")
		x.dtype, x.data = safetensors.BF16, x.data[2:]
	}},
	{make: inModelOpt, name: "gate and up apart", rule: "fused-scale", text: "factor of 2", do: func(f *folder) {
		x := f.get(gate0 + ".weight_scale_2")
		x.data = f32(2 * f32At(x.data))
	}},
	{make: inModelOpt, name: "multiplier stored as divisor", rule: "native-scale scale-inverted?", text: "recorded native", do: func(f *folder) {
		x := f.get(down0 + ".weight_scale_2")
		x.data = f32(1 / f32At(x.data))
	}},
	{make: inModelOpt, name: "divisor of the other dialect beside it", rule: "tensor-unexpected", text: "weight_global_scale", do: func(f *folder) {
		f.add(down0+".weight", down0+".weight_global_scale", safetensors.F32, []int64{1}, f32(100))
	}},
	{make: inModelOpt, name: "head not excluded", rule: "head-not-ignored", text: "mtp*", do: func(f *folder) { f.set(exclude, without(f, "mtp")) }},
	{make: inModelOpt, name: "tower not excluded", rule: "protected-quantized", do: func(f *folder) { f.set(exclude, without(f, "visual")) }},
	{make: inModelOpt, name: "an algorithm that nobody knows", rule: "config-args", text: "NVFP5", do: func(f *folder) { f.set("quantization_config.quant_algo", "NVFP5") }},
	{make: inModelOpt, name: "groups of 32", rule: "config-args", text: "16", do: func(f *folder) { f.set("quantization_config.group_size", 32) }},
	{make: inModelOpt, name: "an entry inside other names", rule: "ignore-overreach?", text: "in_proj_b", do: func(f *folder) {
		f.set(exclude, append(without(f, ""), "model.language_model.layers.0.linear_attn.in_proj_"))
	}},
	{make: withFile, name: "the two files disagree", rule: "quant-files-differ", text: "lm_head", after: func(t *testing.T, dir string) {
		path := filepath.Join(dir, "hf_quant_config.json")
		data, err := sjson.SetBytes(readFile(t, path), "quantization.exclude_modules", []string{"mtp*"})
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, data)
		rehash(t, dir)
	}},
	{make: inModelOpt, name: "block scale NaN", rule: "scale-bad", do: func(f *folder) { f.get(down0 + ".weight_scale").data[3] = 0x7F }},
}

// without is the exclusion list without the entries that have a part in them ("" keeps all).
func without(f *folder, part string) []string {
	var block struct {
		Q struct{ Ignore []string } `json:"quantization_config"`
	}
	if err := json.Unmarshal(f.config, &block); err != nil {
		f.t.Fatal(err)
	}
	if part == "" {
		return block.Q.Ignore
	}
	return slices.DeleteFunc(block.Q.Ignore, func(e string) bool { return strings.Contains(e, part) })
}

func TestAModelOptFolderCodedAgainIsHeldBitForBit(t *testing.T) {
	f, source := converted(t, donor, plan.Options{Dialect: "modelopt"})
	x := f.get(down0 + ".weight")
	x.data[5] ^= 1
	f.save()
	r := judge(t, f.dir, verify.Options{Source: source})
	expect(t, r, "codes-differ")
	if !bytes.Contains([]byte(r.Findings[0].Subject), []byte("down_proj")) || len(slices.Collect(maps.Keys(r.ErrorByRole))) == 0 {
		t.Errorf("%+v", r)
	}
}

// quantizeFrom writes a source in a dialect.
func quantizeFrom(t testing.TB, source, dir string, o plan.Options) *model.Model {
	t.Helper()
	m, err := model.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	p, err := plan.Make(m, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write.Run(context.Background(), p, m, dir, write.Options{Workers: 2}); err != nil {
		t.Fatal(err)
	}
	return m
}
