package diff

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// tuned is a fine-tune whose small files are to be changed.
func tuned(t *testing.T) *folder {
	return load(t, "tiny").touch(outside(adapted, has("mtp.")))
}

func TestTokenizerDrift(t *testing.T) {
	vocab := gjson.GetBytes(load(t, "tiny").files["tokenizer.json"], "model.vocab")
	var names []string
	vocab.ForEach(func(k, _ gjson.Result) bool { names = append(names, k.Raw); return len(names) < 2 })
	for _, c := range []struct{ name, file, old, new, want, message string }{
		{"moved", "tokenizer.json", `"content": "<|im_end|>"`, `"content": "<|im_END|>"`, "warning diff-tokenizer", "gone"},
		{"class", "tokenizer_config.json", `"Qwen2Tokenizer"`, `"TokenizersBackend"`, "warning diff-tokenizer", "TokenizersBackend"},
		{"eos", "tokenizer_config.json", `"eos_token": "<|im_end|>"`, `"eos_token": "<|endoftext|>"`, "warning diff-tokenizer", "eos_token"},
		{"bos", "tokenizer_config.json", `"add_bos_token": false`, `"add_bos_token": true`, "warning diff-tokenizer", "add_bos_token"},
	} {
		f := tuned(t)
		if !strings.Contains(string(f.files[c.file]), c.old) {
			c.old, c.new = strings.ReplaceAll(c.old, `": "`, `":"`), strings.ReplaceAll(c.new, `": "`, `":"`)
		}
		r := run(t, f.replace(t, c.file, c.old, c.new).write(t), base("tiny"), Options{})
		if got := fired(r); !contains(got, c.want) {
			t.Errorf("%s: found %q", c.name, got)
		}
		all := ""
		for _, f := range r.Findings {
			all += f.Message + "\n"
		}
		if !strings.Contains(all, c.message) {
			t.Errorf("%s: %q does not say %q", c.name, all, c.message)
		}
	}
}

func TestAnIDThatMovedIsAnErrorAndANewTokenAWarning(t *testing.T) {
	was := vocabulary{ids: map[string]int64{"a": 0, "b": 1}, added: map[string]string{}, rules: map[string]string{}}
	if v, ok := readVocabulary([]byte(`{"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b"]},"added_tokens":[]}`)); !ok || v.ids["b"] != was.ids["b"] {
		t.Fatalf("vocabulary %+v, %v", v, ok)
	}
	judge := func(body, base string) *Report {
		r := &Report{Files: map[string]File{"tokenizer.json": {State: "changed"}}}
		(&comparison{r: r}).tokenizer([]byte(body), []byte(base))
		return r
	}
	bpe := func(vocab, merges, added string) string {
		return `{"model":{"type":"BPE","vocab":` + vocab + `,"merges":` + merges + `},"added_tokens":` + added + `}`
	}
	expect(t, judge(bpe(`{"a":1,"b":0}`, `[]`, `[]`), bpe(`{"a":0,"b":1}`, `[]`, `[]`)), "error diff-tokenizer")
	expect(t, judge(bpe(`{"a":0,"b":1,"c":2}`, `[]`, `[]`), bpe(`{"a":0,"b":1}`, `[]`, `[]`)), "warning diff-tokenizer")
	expect(t, judge(bpe(`{"a":0}`, `["a b"]`, `[]`), bpe(`{"a":0}`, `[["a","b"]]`, `[]`)))
	expect(t, judge(bpe(`{"a":0}`, `["a b"]`, `[]`), bpe(`{"a":0}`, `["b a"]`, `[]`)), "warning diff-tokenizer")
	expect(t, judge(bpe(`{"a":0}`, `[]`, `[{"id":9,"content":"<x>","special":false}]`), bpe(`{"a":0}`, `[]`, `[{"id":9,"content":"<x>","special":true}]`)), "warning diff-tokenizer")
	expect(t, judge(`{"model":{"type":"Unigram","vocab":[["a",0],["b",-1]]}}`, `{"model":{"type":"Unigram","vocab":[["b",0],["a",-1]]}}`), "error diff-tokenizer")
	expect(t, judge(`{`, bpe(`{"a":0}`, `[]`, `[]`)), "warning diff-tokenizer")
}

func TestTemplateDriftNamesTheLine(t *testing.T) {
	f := tuned(t)
	f.files["chat_template.jinja"] = append([]byte("{# ours #}\n"), f.files["chat_template.jinja"]...)
	r := run(t, f.write(t), base("tiny"), Options{})
	expect(t, r, "warning diff-template")
	if m := message(r, "diff-template"); !strings.Contains(m, "from line 1 on") || r.Files["chat_template.jinja"].State != "changed" {
		t.Errorf("%q, %+v", m, r.Files["chat_template.jinja"])
	}
	f = tuned(t)
	delete(f.files, "chat_template.jinja")
	expect(t, run(t, f.write(t), base("tiny"), Options{}), "warning diff-template")
	f = tuned(t)
	f.files["chat_template.jinja"] = bytes.TrimSuffix(f.files["chat_template.jinja"], []byte("\n"))
	expect(t, run(t, f.write(t), base("tiny"), Options{}))
}

func TestEndTokensAreComparedAsASet(t *testing.T) {
	f := tuned(t)
	f.files["generation_config.json"] = []byte(`{"eos_token_id":[1220,1222],"temperature":0.5}`)
	r := run(t, f.write(t), base("tiny"), Options{})
	expect(t, r)
	if changes := strings.Join(r.Files["generation_config.json"].Changes, "; "); !strings.Contains(changes, "temperature is 0.5 (base 1)") {
		t.Errorf("changes %q", changes)
	}
	f.files["generation_config.json"] = []byte(`{"eos_token_id":1220}`)
	expect(t, run(t, f.write(t), base("tiny"), Options{}), "warning diff-generation")
	delete(f.files, "generation_config.json")
	expect(t, run(t, f.write(t), base("tiny"), Options{}), "warning diff-generation")
}

func TestAConfigurationThatMakesAnotherModelIsSaid(t *testing.T) {
	r := run(t, tuned(t).replace(t, "config.json", `"rms_norm_eps": 1e-06`, `"rms_norm_eps": 1e-05`).write(t), base("tiny"), Options{})
	expect(t, r, "warning diff-config")
	if m := message(r, "diff-config"); !strings.Contains(m, "rms_norm_eps is 0.00001 (base 0.000001)") && !strings.Contains(m, "rms_norm_eps is 1e-05 (base 1e-06)") && !strings.Contains(m, "rms_norm_eps") {
		t.Errorf("message %q", m)
	}
	expect(t, run(t, tuned(t).replace(t, "config.json", `"rope_theta": 10000.0`, `"rope_theta": 5000000`).write(t), base("tiny"), Options{}), "warning diff-config")
	for _, harmless := range [][2]string{
		{`"transformers_version": "5.17.0"`, `"transformers_version": "4.57.0"`},
		{`"dtype": "bfloat16"`, `"torch_dtype": "bfloat16"`},
		{`"rms_norm_eps": 1e-06`, `"rms_norm_eps": 0.000001`},
		{`"hidden_act": "silu"`, `"hidden_act": "silu", "new_key": 1`},
	} {
		expect(t, run(t, tuned(t).replace(t, "config.json", harmless[0], harmless[1]).write(t), base("tiny"), Options{}))
	}
}

func TestTheRopeBaseMayMove(t *testing.T) {
	old := gjson.Parse(`{"rope_theta":10000.0,"rope_scaling":null}`)
	moved := gjson.Parse(`{"rope_parameters":{"rope_type":"default","rope_theta":1e4}}`)
	if a, b := rope(old), rope(moved); len(a) != 1 || a["rope_theta"] != b["rope_theta"] || len(b) != 1 {
		t.Errorf("%v and %v", a, b)
	}
}

func TestNamesWithoutWrappers(t *testing.T) {
	for name, want := range map[string]string{
		"model.language_model.layers.0.mlp.up_proj.weight":              "layers.0.mlp.up_proj.weight",
		"model.layers.0.mlp.up_proj.weight":                             "layers.0.mlp.up_proj.weight",
		"language_model.model.layers.0.mlp.up_proj.weight":              "layers.0.mlp.up_proj.weight",
		"base_model.model.model.layers.0.mlp.up_proj.base_layer.weight": "layers.0.mlp.up_proj.weight",
		"model.visual.blocks.0.norm1.weight":                            "visual.blocks.0.norm1.weight",
		"lm_head.weight":                                                "lm_head.weight",
		"model.layers.0.mlp.experts.gate_up_proj_blocks_blocks":         "layers.0.mlp.experts.gate_up_proj_blocks",
		"model":                   "model",
		"model.layers.1.1.weight": "layers.1.1.weight",
	} {
		if got, _ := canonical(name); got != want {
			t.Errorf("canonical(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestADeepFileDoesNotOverflowTheStack(t *testing.T) {
	f := tuned(t)
	deep := []byte(strings.Repeat("[", 3<<20))
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "generation_config.json"} {
		f.files[name] = deep
	}
	if r := run(t, f.write(t), base("tiny"), Options{}); r.Verdict == "ok" || r.Files["tokenizer.json"].State != "changed" {
		t.Errorf("verdict %s, %+v", r.Verdict, r.Files["tokenizer.json"])
	}
}

func FuzzReadVocabulary(f *testing.F) {
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[["a","b"],"a b"]},"added_tokens":[{"id":1,"content":"x"}]}`))
	f.Add([]byte(`{"model":{"vocab":[["a",0],1,null]},"added_tokens":{"a":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if v, ok := readVocabulary(data); ok && len(v.ids) == 0 {
			t.Error("a vocabulary without tokens")
		}
	})
}
