package verify_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"seatsmith/internal/numeric"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// whole is the unquantized fixture with its head.
func whole(t *testing.T) *folder {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "whole")
	if err := os.CopyFS(dir, os.DirFS(donor)); err != nil {
		t.Fatal(err)
	}
	return load(t, dir)
}

// rename changes names; an empty new name drops the tensor.
func (f *folder) rename(to func(string) string) {
	next := map[string]*tensor{}
	for name, x := range f.tensors {
		if n := to(name); n != "" {
			next[n] = x
		}
	}
	f.tensors = next
}

func replacing(from, to string) func(string) string {
	return func(name string) string { return strings.Replace(name, from, to, 1) }
}

func drop(prefix string) func(string) string {
	return func(name string) string {
		if strings.HasPrefix(name, prefix) {
			return ""
		}
		return name
	}
}

// What happens to checkpoints between a trainer and a server, each told by its name and by nothing else.
func TestEveryCommonAccidentOfMergesAndExportsIsNamed(t *testing.T) {
	list := []struct {
		name, rules string
		make        func(t *testing.T) *folder
		do          func(f *folder)
		after       func(t *testing.T, dir string)
	}{
		{name: "keys renamed by a wrapper", rules: "layout-prefix", do: func(f *folder) { f.rename(replacing("model.language_model.", "model.")) }},
		{name: "prefix doubled", rules: "layout-prefix", do: func(f *folder) {
			f.rename(replacing("model.language_model.", "model.language_model.language_model."))
		}},
		{name: "prefix of a compiled module", rules: "layout-prefix", do: func(f *folder) {
			f.rename(replacing("model.language_model.", "_orig_mod.model.language_model."))
		}},
		{name: "head under the model", rules: "head-misplaced", do: func(f *folder) { f.rename(replacing("mtp.", "model.mtp.")) }},
		{name: "head under the inner model", rules: "head-misplaced", do: func(f *folder) { f.rename(replacing("mtp.", "language_model.mtp.")) }},
		{name: "tower dropped", rules: "tensor-missing", do: func(f *folder) { f.rename(drop("model.visual.")) }},
		{name: "head dropped", rules: "head-missing", do: func(f *folder) { f.rename(drop("mtp.")) }},
		{name: "half of the head", rules: "head-missing", do: func(f *folder) { f.rename(drop("mtp.layers.0.mlp.")) }},
		{name: "head there and not promised", rules: "head-promise", do: func(f *folder) { f.set("text_config.mtp_num_hidden_layers", 0) }},
		{name: "head of another depth", rules: "head-missing", do: func(f *folder) { f.set("text_config.mtp_num_hidden_layers", 2) }},
		{name: "list of sections cut short", rules: "config-values", do: func(f *folder) { f.set("text_config.rope_parameters.mrope_section", []int{2, 1}) }},
		{name: "layer dropped", rules: "tensor-missing", do: func(f *folder) { f.rename(drop("model.language_model.layers.2.")) }},
		{name: "layer too many", rules: "tensor-unexpected", do: func(f *folder) {
			f.set("text_config.num_hidden_layers", 3)
			f.set("text_config.layer_types", []string{"linear_attention", "linear_attention", "linear_attention"})
		}},
		{name: "tied in config, another lm_head stored", rules: "lm-head-tied", do: func(f *folder) { f.set("tie_word_embeddings", true); f.set("text_config.tie_word_embeddings", true) }},
		{name: "untied in config, no lm_head", rules: "lm-head-tied", do: func(f *folder) { f.rename(drop("lm_head.")) }},
		{name: "adapter left beside its base", rules: "tensor-unexpected", do: func(f *folder) {
			f.add("lm_head.weight", layer0+"mlp.down_proj.lora_A.default.weight", safetensors.BF16, []int64{8, 384}, make([]byte, 2*8*384))
		}},
		{name: "tensor in two shards", rules: "index-missing? stale-copy", do: func(f *folder) {
			for _, x := range f.tensors {
				x.file = "model.safetensors"
			}
		}, after: func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, "model-copy.safetensors"), readFile(t, shard(t, dir, 0)))
			remove(t, filepath.Join(dir, "model.safetensors.index.json"))
		}},
		{name: "index names a file that is not there", rules: "shard-missing", do: func(f *folder) { f.rename(drop("lm_head.")) },
			after: func(t *testing.T, dir string) { index(t, dir, "lm_head.weight", "gone.safetensors") }},
		{name: "head that the index does not list", rules: "index-unlisted?", after: func(t *testing.T, dir string) {
			path := filepath.Join(dir, "model.safetensors.index.json")
			data := readFile(t, path)
			gjson.GetBytes(data, "weight_map").ForEach(func(k, _ gjson.Result) bool {
				if strings.HasPrefix(k.Str, "mtp.") {
					data, _ = sjson.DeleteBytes(data, "weight_map."+strings.ReplaceAll(k.Str, ".", `\.`))
				}
				return true
			})
			writeFile(t, path, data)
		}},
		{name: "head in a file beside the index", rules: "head-missing shard-leftover?", do: func(f *folder) { f.rename(drop("mtp.")) }, after: sidecar},
		{name: "scales inverted", rules: "scale-inverted?", make: quant0, do: invert(down0)},
		{name: "ignore entries of the head dropped", rules: "head-not-ignored", make: func(t *testing.T) *folder { return linear(t) }, do: func(f *folder) { f.ignore(dropping("mtp")) }},
		{name: "half a fused group ignored", rules: "fused-partial", make: func(t *testing.T) *folder { return linear(t) }, do: func(f *folder) { f.ignore(adding(attn3 + "q_proj")) }},
		{name: "half a fused group stored unquantized", rules: "fused-partial", make: quant0, do: func(f *folder) { f.restore(gate0) }},
		{name: "block scales as bytes", rules: "tensor-dtype", make: quant0, do: func(f *folder) { f.get(down0 + ".weight_scale").dtype = safetensors.U8 }},
		{name: "global scale in BF16", rules: "tensor-dtype", make: quant0, do: func(f *folder) {
			x := f.get(down0 + ".weight_global_scale")
			v := numeric.BF16FromFloat32(f32At(x.data))
			x.dtype, x.data = safetensors.BF16, []byte{byte(v), byte(v >> 8)}
		}},
		{name: "scale without its weight", rules: "tensor-unexpected", make: quant0, do: func(f *folder) {
			f.add("mtp.fc.weight", "mtp.fc.weight_scale", safetensors.F32, []int64{128, 1}, bytes.Repeat(f32(1), 128))
		}},
		{name: "codes without their scale", rules: "tensor-missing", make: quant0, do: func(f *folder) { delete(f.tensors, down0+".weight_scale") }},
	}
	if len(list) < 25 {
		t.Fatalf("only %d accidents", len(list))
	}
	for _, a := range list {
		t.Run(a.name, func(t *testing.T) {
			if a.make == nil {
				a.make = whole
			}
			f := a.make(t)
			if a.do != nil {
				a.do(f)
			}
			f.save()
			if a.after != nil {
				a.after(t, f.dir)
			}
			r := doctor(t, f.dir, verify.Options{})
			got := slices.DeleteFunc(rules(r), func(id string) bool { return strings.HasSuffix(id, "(info)") })
			if want := strings.Fields(a.rules); !slices.Equal(got, want) {
				t.Errorf("findings %v, want %v", got, want)
				for _, x := range r.Findings {
					t.Logf("  %s", x)
				}
			}
		})
	}
}

func quant0(t *testing.T) *folder { return copyOf(t, "default") }

// sidecar writes the head into a file that the index does not name.
func sidecar(t *testing.T, dir string) {
	t.Helper()
	f := load(t, donor)
	var specs []safetensors.Spec
	for _, name := range slices.Sorted(maps.Keys(f.tensors)) {
		if x := f.tensors[name]; strings.HasPrefix(name, "mtp.") {
			specs = append(specs, safetensors.Spec{Name: name, Dtype: x.dtype, Shape: x.shape})
		}
	}
	layout, err := safetensors.NewLayout(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := safetensors.Create(filepath.Join(dir, "mtp.safetensors"), layout)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range specs {
		if err := w.WriteAt(s.Name, f.tensors[s.Name].data, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// index places a tensor elsewhere in the index.
func index(t *testing.T, dir, name, file string) {
	t.Helper()
	path := filepath.Join(dir, "model.safetensors.index.json")
	data, err := sjson.SetBytes(readFile(t, path), "weight_map."+strings.ReplaceAll(name, ".", `\.`), file)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, data)
}
