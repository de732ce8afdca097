package model_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"seatsmith/internal/model"
)

func TestConfigIsTheFilesOwnBytesWhenThePromiseIsRight(t *testing.T) {
	want := string(readConfig(t, "tiny-finetune"))
	body := open(t, fixtures+"tiny-finetune")
	for what, m := range map[string]*model.Model{"the body": body, "a view": overlay(t, body, openDonor(t, fixtures+"tiny"))} {
		if d := cmp.Diff(want, string(m.ConfigJSON())); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
}

func TestConfigTakesTheHeadsPromiseAndKeepsEverySpelling(t *testing.T) {
	text := string(readConfig(t, "tiny"))
	for _, c := range []struct{ what, body, want string }{
		{"the count was 0", strings.Replace(text, `"mtp_num_hidden_layers": 1`, `"mtp_num_hidden_layers": 0`, 1), text},
		{"the key was absent", strings.Replace(text, "    \"mtp_num_hidden_layers\": 1,\n", "", 1),
			strings.Replace(strings.Replace(text, "    \"mtp_num_hidden_layers\": 1,\n", "", 1),
				"\"mrope_interleaved\": true\n    }", "\"mrope_interleaved\": true\n    },\n    \"mtp_num_hidden_layers\": 1", 1)},
	} {
		f := like(t, "tiny").dropPrefix("mtp.")
		f.config = []byte(c.body)
		v := overlay(t, f.open(), openDonor(t, like(t, "tiny").write()))
		if d := cmp.Diff(c.want, string(v.ConfigJSON())); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if !strings.Contains(string(v.ConfigJSON()), "1e-06") || v.Head.Promised != 1 {
			t.Errorf("%s: spelling or promise lost: %+v", c.what, v.Head)
		}
	}
}

func TestAFlatConfigIsPromisedAtTheTop(t *testing.T) {
	f := flat(t).unset("mtp_num_hidden_layers").dropPrefix("mtp.")
	v := overlay(t, f.open(), openDonor(t, like(t, "tiny").write()))
	if c, err := model.ParseConfig(v.ConfigJSON()); err != nil || c.HeadLayers != 1 || c.Nested {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestFingerprintChangesWithContentAndNotWithPlace(t *testing.T) {
	base := like(t, "tiny").open().Fingerprint()
	if len(base) != 64 || base != like(t, "tiny").open().Fingerprint() {
		t.Fatalf("two equal folders: %s", base)
	}
	for what, f := range map[string]*folder{
		"a shape":   like(t, "tiny").add("mtp.norm.weight", "BF16", 129),
		"a dtype":   like(t, "tiny").add("mtp.norm.weight", "F16", 128),
		"a name":    like(t, "tiny").rename("mtp.norm.", "mtp.nora."),
		"a tensor":  like(t, "tiny").dropPrefix("mtp.norm."),
		"a setting": like(t, "tiny").set("text_config.rope_parameters.rope_theta", 1),
	} {
		if f.open().Fingerprint() == base {
			t.Errorf("%s changed and the fingerprint did not", what)
		}
	}
}

func TestFingerprintOfAViewTellsItsDonor(t *testing.T) {
	body := open(t, fixtures+"tiny-finetune")
	v := overlay(t, body, openDonor(t, fixtures+"tiny"))
	partial := filepath.Join(t.TempDir(), "donor") // the same shard of the head, without the other one
	copyFiles(t, fixtures+"tiny", partial, "config.json", "model.safetensors.index.json", "model-00002-of-00002.safetensors")
	w := overlay(t, body, openDonor(t, partial))
	if v.Fingerprint() == body.Fingerprint() || v.Fingerprint() != w.Fingerprint() {
		t.Errorf("body %s, view %s, view of a partial donor %s", body.Fingerprint(), v.Fingerprint(), w.Fingerprint())
	}
	if other := overlay(t, body, openDonor(t, like(t, "tiny").write())); other.Fingerprint() == v.Fingerprint() {
		t.Error("a donor in other shards has the same fingerprint")
	}
}

func copyFiles(t *testing.T, from, to string, names ...string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// Which file a shard is called, and in which order they stand, is nobody's business.
func TestReorderingShardsChangesNothing(t *testing.T) {
	source := like(t, "tiny")
	source.drop(func(name string) bool { return source.tensors[name].bytes() > 8192 })
	all := source.names()
	rapid.Check(t, func(rt *rapid.T) {
		shards := rapid.IntRange(1, 5).Draw(rt, "shards")
		parts := make([][]string, shards)
		for _, name := range all {
			at := rapid.IntRange(0, shards-1).Draw(rt, name)
			parts[at] = append(parts[at], name)
		}
		order := rapid.Permutation([]int{0, 1, 2, 3, 4}[:shards]).Draw(rt, "order")
		one, two := t.TempDir(), t.TempDir()
		for i, part := range parts {
			data := source.shard(part)
			put(t, one, string(rune('a'+i))+".safetensors", data)
			put(t, two, string(rune('a'+order[i]))+".safetensors", data)
		}
		for _, dir := range []string{one, two} {
			put(t, dir, "config.json", source.config)
			for name, text := range source.files {
				put(t, dir, name, []byte(text))
			}
		}
		a, b := open(t, one), open(t, two)
		defer a.Close()
		defer b.Close()
		if a.Fingerprint() != b.Fingerprint() {
			rt.Errorf("fingerprints differ")
		}
		if d := cmp.Diff(summary(a), summary(b)); d != "" {
			rt.Errorf("reports differ: %s", d)
		}
	})
}

func put(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
		t.Fatal(err)
	}
}

func summary(m *model.Model) []string {
	text, _ := json.Marshal(m.Report().Roles)
	head, _ := json.Marshal(m.Head)
	return slices.Concat([]string{string(text), string(head)}, judged(m.Findings), storedShapes(m))
}

func TestReportHasTheFieldsThatScriptsRead(t *testing.T) {
	m := like(t, "tiny").dropPrefix("mtp.").open()
	text, err := json.Marshal(m.Report())
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for k := range got {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	if want := []string{"architecture", "bytes", "family", "findings", "mtp", "parameters", "quantization", "roles", "tensors", "vision"}; !slices.Equal(keys, want) {
		t.Errorf("fields %v", keys)
	}
	for field, want := range map[string]string{
		"family": `"qwen3_5"`, "architecture": `"Qwen3_5ForConditionalGeneration"`, "tensors": "89", "quantization": "null", "vision": `{"present":true}`,
		"parameters": "1578232", "bytes": "3156488",
	} {
		if string(got[field]) != want {
			t.Errorf("%s: %s, want %s", field, got[field], want)
		}
	}
	if !strings.Contains(string(got["roles"]), `"mlp":{"tensors":12,"bytes":1179648}`) {
		t.Errorf("roles %s", got["roles"])
	}
	if !strings.Contains(string(got["mtp"]), `"layout":"tail mtp.","promised":1,"expected":15,"present":0,"missing":["mtp.fc.weight",`) {
		t.Errorf("mtp %s", got["mtp"])
	}
}

func TestAWholeCheckpointReportsEmptyListsNotNull(t *testing.T) {
	text, err := json.Marshal(open(t, fixtures+"tiny").Report())
	if err != nil || !strings.Contains(string(text), `"missing":[]`) || !strings.Contains(string(text), `"findings":[]`) {
		t.Errorf("%s, %v", text, err)
	}
	text, err = json.Marshal(like(t, "tiny").set("architectures.0", "X").open().Report())
	if err != nil || !strings.Contains(string(text), `"missing":[]`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestQuantizationIsReportedAsItStands(t *testing.T) {
	r := like(t, "tiny").set("quantization_config.quant_method", "modelopt").open().Report()
	if string(r.Quantization) != `{"quant_method":"modelopt"}` {
		t.Errorf("%s", r.Quantization)
	}
}

func TestParametersAreLogical(t *testing.T) {
	want := open(t, fixtures+"tiny").Report().Parameters
	const up = "model.language_model.layers.0.mlp.up_proj."
	for what, f := range map[string]*folder{
		"compressed-tensors": like(t, "tiny").dropPrefix(up).add(up+"weight_packed", "U8", 384, 64).add(up+"weight_scale", "F8_E4M3", 384, 8).add(up+"weight_global_scale", "F32", 1),
		"modelopt":           like(t, "tiny").add(up+"weight", "U8", 384, 64).add(up+"weight_scale", "F8_E4M3", 384, 8).add(up+"weight_scale_2", "F32"),
		"fp8":                like(t, "tiny").add(up+"weight", "F8_E4M3", 384, 128).add(up+"weight_scale", "F32", 384, 1),
	} {
		m := f.set("quantization_config.quant_method", what).open()
		if got := m.Report().Parameters; got != want {
			t.Errorf("%s: %d parameters, want %d", what, got, want)
		}
		only(t, m.Findings, "info already-quantized")
	}
}
