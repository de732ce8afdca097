package verify_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/model"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// headless is the fixture's body without a donor.
func headless(t *testing.T) *model.Model {
	t.Helper()
	m, err := model.Open(body)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// bodyWithoutShard is the view of a body whose second shard is lost.
func bodyWithoutShard(t *testing.T) *model.Model {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "half")
	if err := os.CopyFS(dir, os.DirFS(body)); err != nil {
		t.Fatal(err)
	}
	remove(t, filepath.Join(dir, "model-00002-of-00002.safetensors"))
	return overlay(t, dir, donor)
}

// noise fills the tensors that are chosen with random bytes.
func noise(f *folder, choose func(name string, x *tensor) bool) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, name := range slices.Sorted(keys(f)) {
		if x := f.tensors[name]; choose(name, x) {
			for i := range x.data {
				x.data[i] = byte(rnd.UintN(128)) // the exponent stays below that of NaN and Inf
			}
			for i := 1; x.dtype == safetensors.BF16 && i < len(x.data); i += 2 {
				x.data[i] = 0x3C
			}
		}
	}
}

func keys(f *folder) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range f.tensors {
			if !yield(name) {
				return
			}
		}
	}
}

func inHead(name string, _ *tensor) bool { return strings.HasPrefix(name, "mtp.") }

// dropPrefix takes all tensors away whose names begin so.
func (f *folder) dropPrefix(prefix string) {
	for name := range f.tensors {
		if strings.HasPrefix(name, prefix) {
			delete(f.tensors, name)
		}
	}
}

// unrecord takes the record away, as another tool's checkpoint has none.
func unrecord(t *testing.T, dir string) { remove(t, filepath.Join(dir, model.ProvenanceFile)) }

// replace puts another file in the place of a companion.
func replace(name, content string) func(*folder) {
	return func(f *folder) { writeFile(f.t, filepath.Join(f.dir, name), []byte(content)) }
}

// dropFile takes a file away.
func dropFile(name string) func(*folder) {
	return func(f *folder) {
		if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// bf16 sets one value of a BF16 tensor to a bit pattern.
func bf16(name string, i int, bits uint16) func(*folder) {
	return func(f *folder) { binary.LittleEndian.PutUint16(f.get(name).data[2*i:], bits) }
}

// poisoned is the fixture's view with a NaN in a norm.
func poisoned(t *testing.T) *model.Model {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "poisoned")
	if err := os.CopyFS(dir, os.DirFS(body)); err != nil {
		t.Fatal(err)
	}
	poke(t, dir, layer0+"input_layernorm.weight", 10, []byte{0xC0, 0x7F})
	return overlay(t, dir, donor)
}

// withCompanion is the fixture's view with one more file.
func withCompanion(t *testing.T) *model.Model {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "more")
	if err := os.CopyFS(dir, os.DirFS(body)); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "added_tokens.json"), []byte(`{"<x>": 7}`))
	return overlay(t, dir, donor)
}

// stray stores a tensor that nothing implies in layer 3.
func stray(name string) func(*folder) {
	return func(f *folder) {
		f.add(attn3+"o_proj.weight", "model.language_model.layers.3."+name, safetensors.BF16, []int64{128}, make([]byte, 256))
	}
}

// edit sets one key of a companion; nil writes the file anew with nothing changed.
func (f *folder) edit(name, key string, value any) {
	f.t.Helper()
	var all map[string]any
	if err := json.Unmarshal(readFile(f.t, filepath.Join(f.dir, name)), &all); err != nil {
		f.t.Fatal(err)
	}
	if value != nil {
		all[key] = value
	}
	data, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		f.t.Fatal(err)
	}
	writeFile(f.t, filepath.Join(f.dir, name), data)
}

// sourceAccidents are told only with a source, or by what a source is.
var sourceAccidents = []accident{
	{name: "random head, and no donor named", rule: "source-unfit source-extra provenance-missing (info)", text: "--donor", source: headless, after: unrecord, do: func(f *folder) { noise(f, inHead) }},
	{name: "donor of another model named", rule: "source-unfit provenance-missing (info)", text: "donor-stranger", after: unrecord,
		source: func(t *testing.T) *model.Model { return overlay(t, body, "../../testdata/moe") }, do: func(f *folder) { noise(f, inHead) }},
	{name: "shard of the source lost", rule: "source-unfit provenance-missing (info)", text: "model-00002-of-00002", notChecked: "39 of the 104 tensors", source: bodyWithoutShard, after: unrecord},
	{name: "second vision tower of nowhere", rule: "tensor-unexpected", withSource: true, do: func(f *folder) {
		x := f.get("model.visual.merger.norm.weight").clone()
		f.tensors["model.visual.merger.twin.weight"] = x
	}},
	{name: "random bytes compared with themselves", rule: "source-same", itself: true, do: func(f *folder) {
		noise(f, func(_ string, x *tensor) bool { return x.dtype == safetensors.BF16 })
	}},
	{name: "rotary base changed, record brought up to date", rule: "config-changed", withSource: true, text: "text_config.rope_parameters.rope_theta is 5000000 (was 10000.0)", do: func(f *folder) { f.set("text_config.rope_parameters.rope_theta", 5000000) }},
	{name: "number spelled otherwise, with a record", rule: "config-changed", withSource: true, text: "0.000001 (was 1e-06)", do: func(f *folder) { f.set("text_config.rms_norm_eps", json.RawMessage("0.000001")) }},
	{name: "number spelled otherwise, without a record", rule: "config-changed? provenance-missing (info)", withSource: true, do: func(f *folder) { f.set("text_config.rms_norm_eps", json.RawMessage("0.000001")) }, after: unrecord},
	{name: "value changed, without a record", rule: "config-changed provenance-missing (info)", withSource: true, text: "rms_norm_eps is 0.1", do: func(f *folder) { f.set("text_config.rms_norm_eps", 0.1) }, after: unrecord},
	{name: "key removed, without a record", rule: "config-changed config-values? provenance-missing (info)", withSource: true, text: "mrope_section is gone", do: func(f *folder) { f.del("text_config.rope_parameters.mrope_section") }, after: unrecord},
	{name: "keys that transformers adds, without a record", rule: "config-changed? provenance-missing (info)", withSource: true, text: "use_cache is added", do: func(f *folder) {
		f.set("text_config.use_cache", true)
		f.set("transformers_version", "6.0.0")
		f.del("dtype")
		f.set("torch_dtype", "bfloat16")
	}, after: unrecord},
	{name: "key added, with a record", rule: "config-changed", withSource: true, text: "sliding_window is added (8)", do: func(f *folder) { f.set("text_config.sliding_window", 8) }},
	{name: "rotary settings null", rule: "config-changed config-values", withSource: true, do: func(f *folder) { f.set("text_config.rope_parameters", nil) }},
	{name: "code to be run added", rule: "config-changed", withSource: true, text: "auto_map", do: func(f *folder) { f.set("auto_map.AutoConfig", "evil.Evil") }},
	{name: "second quantization block", rule: "config-changed", withSource: true, text: "compression_config is added", do: func(f *folder) {
		f.set("compression_config", json.RawMessage(`{"quant_method":"compressed-tensors","format":"x","config_groups":{}}`))
	}},
	{name: "template changed, record brought up to date", rule: "companion-changed", withSource: true, text: "chat_template.jinja", do: replace("chat_template.jinja", "{{ messages[0].content }}")},
	{name: "end token changed, without a record", rule: "companion-changed provenance-missing (info)", withSource: true, text: "generation_config.json",
		do: replace("generation_config.json", `{"eos_token_id": 5}`), after: unrecord},
	{name: "processor changed, without a record", rule: "companion-changed provenance-missing (info)", withSource: true, do: func(f *folder) { f.edit("preprocessor_config.json", "patch_size", 99) }, after: unrecord},
	{name: "companion in another layout, without a record", rule: "companion-changed (info) provenance-missing (info)", withSource: true, do: func(f *folder) { f.edit("generation_config.json", "temperature", nil) }, after: unrecord},
	{name: "file that the source does not have", rule: "companion-changed?", withSource: true, text: "params.json", do: replace("params.json", "{}")},
	{name: "another tool's configuration, record brought up to date", rule: "quant-files-differ", withSource: true, text: "hf_quant_config.json", do: replace("hf_quant_config.json", "{}")},
	{name: "weights of another format, record brought up to date", rule: "companion-changed?", withSource: true, text: "pytorch_model.bin", do: replace("pytorch_model.bin", "x")},
	{name: "scale of a cache that nothing declares", rule: "source-extra", withSource: true, text: "k_scale", do: func(f *folder) {
		f.add(attn3+"o_proj.weight", attn3+"k_scale", safetensors.F32, []int64{1}, f32(0.5))
	}},
	{name: "stray bias", rule: "tensor-unexpected?", do: stray("self_attn.q_proj.bias")},
	{name: "stray bias that the source does not have", rule: "tensor-unexpected? source-extra?", withSource: true, do: stray("mlp.down_proj.bias")},
	{name: "stray weight beside a stray bias", rule: "tensor-unexpected? tensor-unexpected", do: func(f *folder) { stray("mlp.down_proj.bias")(f); stray("mlp.extra.weight")(f) }},
	{name: "companion lost and taken out of the record", rule: "companion-missing?", withSource: true, do: dropFile("generation_config.json")},
	{name: "companion of the source lost", rule: "companion-missing", source: withCompanion, text: "added_tokens.json"},
	{name: "companion of the source lost, without a record", rule: "companion-missing? provenance-missing (info)", source: withCompanion, text: "added_tokens.json", after: unrecord},
	{name: "record of another source", rule: "source-other", withSource: true, after: func(t *testing.T, dir string) {
		editRecord(t, dir, func(p *model.Provenance) { p.Source = strings.Repeat("0", 64) })
	}},
	{name: "record of one file", rule: "provenance-bad file-unrecorded?", text: "config.json", after: func(t *testing.T, dir string) {
		editRecord(t, dir, func(p *model.Provenance) {
			p.Files = map[string]model.FileHash{"chat_template.jinja": p.Files["chat_template.jinja"]}
		})
	}},
	{name: "record without the tokenizer", rule: "provenance-bad", text: "tokenizer.json", after: func(t *testing.T, dir string) {
		editRecord(t, dir, func(p *model.Provenance) { delete(p.Files, "tokenizer.json") })
	}},
	{name: "record of another tool", rule: "provenance-bad", after: func(t *testing.T, dir string) { editRecord(t, dir, func(p *model.Provenance) { p.Tool = "x" }) }},
	{name: "record of a folder without a head", rule: "provenance-bad", after: recordHead("none")},
	{name: "record of a head from nowhere", rule: "provenance-bad", after: recordHead("moon")},
	{name: "record of an unknown arithmetic", rule: "provenance-bad", text: "zzz", after: func(t *testing.T, dir string) {
		editRecord(t, dir, func(p *model.Provenance) { p.Math, p.Native = "zzz", nil })
	}},
	{name: "record of an unknown sharing", rule: "provenance-bad", after: func(t *testing.T, dir string) { editRecord(t, dir, func(p *model.Provenance) { p.Groups = "x" }) }},
	{name: "record of another arithmetic", rule: "native-scale", after: func(t *testing.T, dir string) { editRecord(t, dir, func(p *model.Provenance) { p.Math = "ct" }) }},
	{name: "record of another dialect", rule: "provenance-bad", after: func(t *testing.T, dir string) { editRecord(t, dir, func(p *model.Provenance) { p.Dialect = "gguf" }) }},
	{name: "native scale of a module that is not there", rule: "provenance-bad", text: "ghost.module", after: func(t *testing.T, dir string) {
		editRecord(t, dir, func(p *model.Provenance) { p.Native["ghost.module"] = 5 })
	}},
	{name: "kept tensor under another dtype's name", rule: "kept-bytes", withSource: true, text: "values differ", do: func(f *folder) { f.get(layer0 + "input_layernorm.weight").dtype = safetensors.F16 }},
	{name: "NaN in a norm", rule: "kept-nonfinite", text: layer0 + "input_layernorm.weight value 0 is NaN", do: bf16(layer0+"input_layernorm.weight", 0, 0x7FC0)},
	{name: "NaN in a norm, with the source", rule: "kept-nonfinite kept-bytes", withSource: true, text: "the source has a number there", do: bf16(layer0+"input_layernorm.weight", 0, 0x7FC0)},
	{name: "negative infinity at the end of the embedding", rule: "kept-nonfinite", text: "-Inf", do: func(f *folder) {
		x := f.get("model.language_model.embed_tokens.weight")
		copy(x.data[len(x.data)-2:], []byte{0x80, 0xFF})
	}},
	{name: "NaN in a tensor of half precision", rule: "kept-nonfinite", text: "value 3 is NaN", do: func(f *folder) {
		x := f.get(layer0 + "input_layernorm.weight")
		x.dtype = safetensors.F16
		copy(x.data[6:], []byte{0x01, 0x7C})
	}},
	{name: "infinity in a tensor of single precision", rule: "kept-nonfinite", text: "value 1 is +Inf", do: func(f *folder) {
		x := f.get(layer0 + "linear_attn.A_log")
		wide := make([]byte, x.shape[0]*4)
		copy(wide[4:], f32(float32(math.Inf(1))))
		x.dtype, x.data = safetensors.F32, wide
	}},
	{name: "NaN that the source has too", rule: "kept-nonfinite provenance-missing (info)", text: "the source has it too", source: poisoned, do: bf16(layer0+"input_layernorm.weight", 5, 0x7FC0), after: unrecord},
	{name: "lm_head of zeros", rule: "kept-zero?", text: "all 262144 values are zero", do: func(f *folder) { clear(f.get("lm_head.weight").data) }},
	{name: "head of zeros", rule: "kept-zero?", text: "15 in all", do: func(f *folder) {
		for name, x := range f.tensors {
			if inHead(name, x) {
				clear(x.data)
			}
		}
	}},
	{name: "source that is FP8", rule: "source-fp8? provenance-missing (info)", source: fp8Body, after: unrecord, text: "compared as code times scale"},
	{name: "source that is quantized", rule: "source-quantized", notChecked: "what was given is none", source: func(t *testing.T) *model.Model {
		m, err := model.Open(copyOf(t, "default").dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}},
}

func TestAFolderIsNotItsOwnSource(t *testing.T) {
	f := copyOf(t, "default")
	noise(f, func(name string, x *tensor) bool { return x.dtype == safetensors.BF16 })
	f.save()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(f.dir, link); err != nil {
		t.Skip("no symbolic links here")
	}
	linked := filepath.Join(t.TempDir(), "linked")
	if err := os.MkdirAll(linked, 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(f.dir, e.Name()), filepath.Join(linked, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{f.dir, link, linked} {
		m, err := model.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		r := judge(t, f.dir, verify.Options{Source: m})
		expect(t, r, "source-same")
		if r.BytesIdentical != 0 || !contains(r.NotChecked, "what was given is none") {
			t.Errorf("%s: %d bytes are called identical, not checked %q", dir, r.BytesIdentical, r.NotChecked)
		}
	}
}

// What the source has and the folder lacks is told although config.json was made to agree.
func TestADroppedPartIsToldAlthoughConfigAgrees(t *testing.T) {
	source := open(t)
	for _, c := range []struct {
		name string
		do   func(f *folder)
	}{
		{"head", func(f *folder) { f.dropPrefix("mtp."); f.set("text_config.mtp_num_hidden_layers", 0) }},
		{"layer", func(f *folder) {
			f.dropPrefix("model.language_model.layers.3.")
			f.set("text_config.num_hidden_layers", 3)
		}},
		{"vision block", func(f *folder) { f.dropPrefix("model.visual.blocks.1."); f.set("vision_config.depth", 1) }},
		{"lm_head", func(f *folder) {
			f.dropPrefix("lm_head.")
			f.set("text_config.tie_word_embeddings", true)
			f.set("tie_word_embeddings", true)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := copyOf(t, "default")
			c.do(f)
			f.save()
			r := judge(t, f.dir, verify.Options{Source: source})
			if got := rules(r); r.Verdict != "fail" || !slices.Contains(got, "source-missing") {
				t.Errorf("%s: %v", r.Verdict, got)
			}
		})
	}
}

// A tied model that stores lm_head twice gave information, and that hid a head that was dropped.
func TestInformationHidesNoDroppedHead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tied")
	if err := os.CopyFS(dir, os.DirFS(donor)); err != nil {
		t.Fatal(err)
	}
	s := load(t, dir)
	s.get("lm_head.weight").data = slices.Clone(s.get("model.language_model.embed_tokens.weight").data)
	s.set("text_config.tie_word_embeddings", true)
	s.set("tie_word_embeddings", true)
	out, source := s.forge("default")
	if r := judge(t, out.dir, verify.Options{Source: source}); r.Verdict != "ok" || !slices.Equal(rules(r), []string{"lm-head-tied (info)"}) {
		t.Fatalf("before: %s, %v", r.Verdict, r.Findings)
	}
	out.dropPrefix("mtp.")
	out.set("text_config.mtp_num_hidden_layers", 0)
	out.save()
	r := judge(t, out.dir, verify.Options{Source: source})
	if got := rules(r); r.Verdict != "fail" || !slices.Contains(got, "source-missing") {
		t.Errorf("%s: %v", r.Verdict, got)
	}
}

// What could not be judged is not good: the report says so, and a script can tell it from a warning.
func TestWhatCouldNotBeJudgedIsSaid(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T) *folder
		do   func(f *folder)
		want bool
	}{
		{"other dialect", otherMethod, func(*folder) {}, true},
		{"integer group", nil, func(f *folder) {
			f.set(group0+"format", "pack-quantized")
			f.set(group0+"weights", json.RawMessage(`{"num_bits":4,"type":"int","strategy":"group","group_size":128,"symmetric":true}`))
		}, true},
		{"a warning about something that was judged", nil, func(f *folder) { f.ignore(adding(layer0 + "mlp.qate_proj")) }, false},
		{"an error", nil, func(f *folder) { f.set(quant+"quant_method", "") }, false},
		{"nothing wrong", nil, func(*folder) {}, false},
	} {
		f := copyOf(t, "default")
		if c.make != nil {
			f = c.make(t)
		}
		c.do(f)
		f.save()
		if r := judge(t, f.dir, verify.Options{}); r.Unjudged != c.want {
			t.Errorf("%s: unjudged %t, verdict %s, not checked %q", c.name, r.Unjudged, r.Verdict, r.NotChecked)
		}
	}
	if r := judge(t, donor, verify.Options{}); !r.Unjudged {
		t.Error("neither source nor record, and the report does not say that it knows nothing of the bytes")
	}
}

func TestATensorThatNoServerReadsIsAWarning(t *testing.T) {
	f := copyOf(t, "default")
	f.add(attn3+"o_proj.weight", attn3+"rotary_emb.inv_freq", safetensors.F32, []int64{4}, make([]byte, 16))
	f.save()
	expect(t, judge(t, f.dir, verify.Options{Source: open(t)}), "tensor-unexpected?", "source-extra?")
}
