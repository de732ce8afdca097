package plan_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
)

const tiny = "../../testdata/tiny"

// withBiases is the fixture with qkv_bias set and biases beside q, k and v of the body and of the head.
func withBiases(t *testing.T) *model.Model {
	t.Helper()
	dir := t.TempDir()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	set, err := safetensors.OpenSet(tiny)
	check(err)
	defer set.Close()
	var specs []safetensors.Spec
	for _, r := range set.Refs() {
		specs = append(specs, safetensors.Spec{Name: r.Tensor.Name, Dtype: r.Tensor.Dtype, Shape: r.Tensor.Shape})
	}
	for _, layer := range []string{"model.language_model.layers.3.", "mtp.layers.0."} {
		for leaf, rows := range map[string]int64{"q_proj": 256, "k_proj": 64, "v_proj": 64} {
			specs = append(specs, safetensors.Spec{Name: layer + "self_attn." + leaf + ".bias", Dtype: safetensors.BF16, Shape: []int64{rows}})
		}
	}
	layout, err := safetensors.NewLayout(specs, map[string]string{"format": "pt"})
	check(err)
	w, err := safetensors.Create(filepath.Join(dir, "model.safetensors"), layout)
	check(err)
	for _, t := range layout.Tensors {
		check(w.WriteAt(t.Name, make([]byte, t.Bytes()), 0))
	}
	check(w.Close())
	for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "preprocessor_config.json", "chat_template.jinja"} {
		data, err := os.ReadFile(filepath.Join(tiny, name))
		check(err)
		if name == "config.json" {
			data, err = sjson.SetBytes(data, "text_config.qkv_bias", true)
			check(err)
		}
		check(os.WriteFile(filepath.Join(dir, name), data, 0o666))
	}
	m, err := model.Open(dir)
	check(err)
	t.Cleanup(func() { m.Close() })
	return m
}

func TestABiasIsKeptBesideItsQuantizedWeightAndSharesNoScale(t *testing.T) {
	m := withBiases(t)
	for _, recipe := range []string{"default", "nvfp4-all-linear", "fp8-dynamic"} {
		p, err := plan.Make(m, plan.Options{Recipe: recipe})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range p.Findings {
			if f.Severity == "error" {
				t.Errorf("%s: %s", recipe, f)
			}
		}
		biases, quantized := 0, 0
		for _, it := range p.Items {
			if strings.HasPrefix(it.Source, "model.visual.") {
				continue
			}
			weight := strings.TrimSuffix(it.Source, ".bias") + ".weight"
			if weight == it.Source+".weight" {
				continue // no bias
			}
			biases++
			if it.Scheme.Quantized() || it.Group != "" || len(it.Outputs) != 1 || it.Outputs[0].Name != it.Source {
				t.Errorf("%s: %+v is not simply kept", recipe, it)
			}
			partner := p.Items[slices.IndexFunc(p.Items, func(o plan.Item) bool { return o.Source == weight })]
			if partner.Scheme.Quantized() {
				quantized++
			}
		}
		if biases != 6 || quantized != 3 {
			t.Errorf("%s: %d biases, %d of them beside quantized weights; want 6 and 3", recipe, biases, quantized)
		}
		for _, list := range []string{"quantization_config.ignore", "quantization_config.config_groups.group_0.targets"} {
			for _, e := range gjson.GetBytes(p.Config, list).Array() {
				if strings.Contains(e.Str, "bias") {
					t.Errorf("%s: %s names %s", recipe, list, e.Str)
				}
			}
		}
	}
}
