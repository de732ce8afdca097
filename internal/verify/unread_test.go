package verify_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"seatsmith/internal/model"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// sketch is a whole checkpoint of a family of which only names and the layout of the head are known.
func sketch(t *testing.T) *folder {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "glm")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"tokenizer.json": `{"model":{"vocab":{}}}`, "tokenizer_config.json": `{}`, "generation_config.json": `{}`, "chat_template.jinja": "x",
	} {
		writeFile(t, filepath.Join(dir, name), []byte(text))
	}
	f := &folder{t: t, dir: dir, tensors: map[string]*tensor{}, config: []byte(`{"architectures":["Glm4MoeForCausalLM"],"model_type":"glm4_moe","dtype":"bfloat16",
		"num_nextn_predict_layers":1,"n_routed_experts":2,"first_k_dense_replace":2,"hidden_size":32,"num_hidden_layers":2,"vocab_size":96,"intermediate_size":48,"moe_intermediate_size":16,
		"num_attention_heads":4,"num_key_value_heads":2,"head_dim":8,"tie_word_embeddings":false}`)}
	put := func(name string, shape ...int64) {
		n := int64(2)
		for _, d := range shape {
			n *= d
		}
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(0x3C + i%2) // small and finite
		}
		f.tensors[name] = &tensor{safetensors.BF16, shape, data, "a.safetensors"}
	}
	put("model.embed_tokens.weight", 96, 32)
	put("model.norm.weight", 32)
	put("lm_head.weight", 96, 32)
	for i := range 3 { // the last one is the head's
		p := fmt.Sprintf("model.layers.%d.", i)
		put(p+"input_layernorm.weight", 32)
		put(p+"post_attention_layernorm.weight", 32)
		put(p+"self_attn.q_proj.weight", 32, 32)
		put(p+"self_attn.k_proj.weight", 16, 32)
		put(p+"self_attn.v_proj.weight", 16, 32)
		put(p+"self_attn.o_proj.weight", 32, 32)
		width, parts := int64(48), []string{"mlp."}
		if i == 2 {
			width, parts = 16, []string{"mlp.experts.0.", "mlp.experts.1."}
			put(p+"mlp.gate.weight", 2, 32)
			put(p+"mlp.gate.e_score_correction_bias", 2)
		}
		for _, part := range parts {
			put(p+part+"gate_proj.weight", width, 32)
			put(p+part+"up_proj.weight", width, 32)
			put(p+part+"down_proj.weight", 32, width)
		}
	}
	for _, n := range []string{"enorm", "hnorm", "shared_head.norm"} {
		put("model.layers.2."+n+".weight", 32)
	}
	put("model.layers.2.eh_proj.weight", 32, 64)
	put("model.layers.2.shared_head.head.weight", 96, 32)
	return f
}

// Where only the class's loader was not read, everything else was judged: whoever grafts a head onto such a body may say so
// and publish it. Where anything else is open too, or nobody knows the tensors, it may not.
func TestALoaderThatNobodyReadIsToldApartFromOtherThingsThatAreOpen(t *testing.T) {
	copied := func(t *testing.T, f *folder) *model.Model {
		dir := filepath.Join(t.TempDir(), "source")
		if err := os.CopyFS(dir, os.DirFS(f.dir)); err != nil {
			t.Fatal(err)
		}
		m, err := model.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	for _, c := range []struct {
		name             string
		make             func(t *testing.T) *folder
		do               func(f *folder)
		source           bool
		unjudged, unread bool
	}{
		{"a loader that nobody read", sketch, nil, true, true, true},
		{"and hashes that were recorded", sketch, nil, false, true, true},
		{"and a method that is not judged", sketch, func(f *folder) { f.set("quantization_config", map[string]any{"quant_method": "awq", "bits": 4}) }, false, true, false},
		{"and a tensor that differs from the source", sketch, func(f *folder) { f.get("lm_head.weight").data[5]++ }, true, false, false},
		{"a class of which the tensors are not known either", whole, func(f *folder) { f.set("architectures", []string{"GPT2LMHeadModel"}) }, false, true, false},
		{"a loader that was read", whole, nil, true, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.make(t)
			f.save()
			var o verify.Options
			if c.source {
				o.Source = copied(t, f)
			}
			if c.do != nil {
				c.do(f)
				f.save()
			}
			if c.source {
				remove(t, filepath.Join(f.dir, model.ProvenanceFile)) // it knows of no source
			}
			r := judge(t, f.dir, o)
			if r.Unjudged != c.unjudged || r.Unread != c.unread {
				t.Errorf("unjudged %t, unread %t, verdict %s, not checked %q: %v", r.Unjudged, r.Unread, r.Verdict, r.NotChecked, r.Findings)
			}
		})
	}
}
