package diff

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"seatsmith/internal/model"
	"seatsmith/internal/safetensors"
)

// adapted takes the Linears that a LoRA on attention and MLP aims at.
var adapted = has("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj")

func outside(match func(string) bool, not func(string) bool) func(string) bool {
	return func(n string) bool { return match(n) && !not(n) && !strings.HasPrefix(n, "mtp.") }
}

func TestAnAdapterOnEveryLinearIsHealthy(t *testing.T) {
	expect(t, run(t, load(t, "tiny").touch(outside(adapted, has("mtp."))).write(t), base("tiny"), Options{}))
}

func TestAnAdapterOnAttentionAloneIsAWarning(t *testing.T) {
	f := load(t, "tiny").touch(outside(has("self_attn.q_proj", "self_attn.v_proj", "linear_attn.in_proj_qkv"), has("mtp.")))
	r := run(t, f.write(t), base("tiny"), Options{})
	expect(t, r, "warning diff-role-untouched")
	if m := message(r, "diff-role-untouched"); !strings.Contains(m, "attention, linear_attention changed") {
		t.Errorf("message %q", m)
	}
	expect(t, run(t, f.write(t), base("tiny"), Options{Trained: []model.Role{model.RoleAttention, model.RoleLinearAttention}}))
	expect(t, run(t, f.write(t), base("tiny"), Options{Trained: []model.Role{model.RoleMLP, model.RoleAttention}}), "error diff-role-untouched")
	expect(t, run(t, f.write(t), base("tiny"), Options{Trained: []model.Role{model.RoleExpert}}), "error diff-role-untouched")
}

func TestATrainingOfEverythingThatLeftTheMLPIsAnError(t *testing.T) {
	f := load(t, "tiny").touch(outside(everything, has("mlp.", "visual.")))
	expect(t, run(t, f.write(t), base("tiny"), Options{}), "error diff-role-untouched")
}

func TestAnMLPThatIsHalfMergedIsSeen(t *testing.T) {
	f := load(t, "tiny").touch(outside(adapted, has("mlp.down_proj")))
	r := run(t, f.write(t), base("tiny"), Options{})
	expect(t, r, "warning diff-role-untouched")
	if m := message(r, "diff-role-untouched"); !strings.Contains(m, "layers.N.mlp.down_proj untouched") {
		t.Errorf("message %q", m)
	}
	expect(t, run(t, load(t, "tiny").touch(outside(everything, has("mlp.down_proj", "visual."))).write(t), base("tiny"), Options{}), "error diff-role-untouched")
}

func TestHybridLayersSkippedAreSeen(t *testing.T) {
	f := load(t, "tiny").touch(outside(has("self_attn.o_proj", "mlp.down_proj"), has("mtp.")))
	r := run(t, f.write(t), base("tiny"), Options{})
	expect(t, r, "warning diff-role-untouched")
	if r.Findings[0].Subject != "linear_attention" {
		t.Errorf("subject %q", r.Findings[0].Subject)
	}
}

func TestExpertsLeftUnmergedAreAnError(t *testing.T) {
	f := load(t, "moe").touch(outside(has("self_attn.", "linear_attn.in_proj_qkv", "shared_expert."), has("norm")))
	r := run(t, f.write(t), base("moe"), Options{})
	expect(t, r, "error diff-role-untouched")
	if r.Findings[0].Subject != "expert" || r.Roles["expert"].Identical != 8 {
		t.Errorf("%+v, %+v", r.Findings[0], r.Roles["expert"])
	}
	attention := load(t, "moe").touch(outside(has("self_attn.q_proj"), has("norm")))
	expect(t, run(t, attention.write(t), base("moe"), Options{}), "error diff-role-untouched", "warning diff-role-untouched", "warning diff-role-untouched")
}

// stir changes values in each of the given experts of every fused tensor, of gate and up alike.
func stir(f *folder, experts ...int64) *folder {
	for name, h := range f.tensors {
		if strings.Contains(name, "mlp.experts.") && !strings.HasPrefix(name, "mtp.") {
			h.data = bytes.Clone(h.data)
			for _, e := range experts {
				size := int64(len(h.data)) / h.shape[0]
				h.data[e*size] ^= 1
				h.data[e*size+size/2] ^= 1 // up, in gate_up_proj
			}
			f.tensors[name] = h
		}
	}
	return f
}

func TestAMajorityOfUntouchedExpertsIsAnErrorAMinorityAWarning(t *testing.T) {
	trained := outside(has("self_attn.", "linear_attn.in_proj_qkv", "shared_expert."), has("norm"))
	r := run(t, stir(load(t, "moe").touch(trained), 0, 5).write(t), base("moe"), Options{})
	expect(t, r, "error diff-experts-partial")
	if len(r.Experts) != 4 || r.Experts[0].Identical != 6 || r.Experts[0].Experts != 8 || r.Experts[0].Layer != "layers.0" {
		t.Errorf("experts %+v", r.Experts)
	}
	if m := message(r, "diff-experts-partial"); !strings.Contains(m, "6 of 8 experts identical in layers.0") {
		t.Errorf("message %q", m)
	}
	expect(t, run(t, stir(load(t, "moe").touch(trained), 0, 1, 2, 3, 4, 6, 7).write(t), base("moe"), Options{}), "warning diff-experts-partial")
	expect(t, run(t, stir(load(t, "moe").touch(trained), 0, 1, 2, 3, 4, 5, 6, 7).write(t), base("moe"), Options{}))
}

// unfuse stores every expert by itself, as older classes do.
func unfuse(f *folder) *folder {
	for name, h := range f.tensors {
		prefix, projection, fused := fusedOf(name)
		if !fused {
			continue
		}
		names := []string{"down_proj"}
		if projection == "gate_up_proj" {
			names = []string{"gate_proj", "up_proj"}
		}
		delete(f.tensors, name)
		size := int64(len(h.data)) / h.shape[0] / int64(len(names))
		for e := range h.shape[0] {
			for i, n := range names {
				at := (e*int64(len(names)) + int64(i)) * size
				f.tensors[strings.Join([]string{prefix + string(rune('0'+e)), n, "weight"}, ".")] = held{h.dtype, []int64{h.shape[1] / int64(len(names)), h.shape[2]}, h.data[at : at+size]}
			}
		}
	}
	return f
}

func TestFusedAndSingleExpertsAreTheSameExperts(t *testing.T) {
	r := run(t, unfuse(load(t, "moe")).write(t), base("moe"), Options{})
	expect(t, r, "error diff-nothing-changed")
	r = run(t, base("moe"), unfuse(load(t, "moe")).write(t), Options{})
	expect(t, r, "error diff-nothing-changed")
	trained := outside(has("self_attn.", "linear_attn.in_proj_qkv", "shared_expert."), has("norm"))
	r = run(t, unfuse(stir(load(t, "moe").touch(trained), 3)).write(t), base("moe"), Options{})
	expect(t, r, "error diff-experts-partial")
	if len(r.Experts) != 4 || r.Experts[0].Identical != 7 {
		t.Errorf("experts %+v", r.Experts)
	}
}

func load0() *folder {
	return &folder{tensors: map[string]held{}, files: map[string][]byte{"config.json": []byte(`{"architectures":["NewForCausalLM"],"model_type":"new"}`)}}
}

func TestAHoleInTheMiddleOfTheLayersIsAnErrorAFrozenBeginningAWarning(t *testing.T) {
	for _, c := range []struct {
		changed []int
		want    string
	}{
		{[]int{0, 1, 2, 4, 5, 6, 7, 8}, "error diff-layers-untouched"},
		{[]int{3, 4, 5, 6, 7, 8}, "warning diff-layers-untouched"},
		{[]int{2, 3, 4, 5, 6}, "warning diff-layers-untouched"},
		{[]int{1, 4, 7}, "warning diff-layers-untouched"},
	} {
		var mlp []*param
		for i := range 9 {
			s := identical
			for _, x := range c.changed {
				if x == i {
					s = changed
				}
			}
			mlp = append(mlp, &param{key: "layers." + string(rune('0'+i)) + ".mlp.up_proj.weight", role: model.RoleMLP, state: s})
		}
		r := &Report{Kinds: []Kind{{Name: "layers.N.mlp.up_proj", Role: model.RoleMLP, Changed: len(c.changed), Identical: 9 - len(c.changed), params: mlp}}}
		(&comparison{r: r}).layers()
		expect(t, r, c.want)
	}
}

func TestOneLayerLeftOutIsSeenInACheckpoint(t *testing.T) {
	f := load(t, "tiny").touch(outside(adapted, has("layers.1.mlp.")))
	expect(t, run(t, f.write(t), base("tiny"), Options{}), "error diff-layers-untouched")
}

func TestUnmergedAdaptersAreAnError(t *testing.T) {
	f := load(t, "tiny").touch(outside(adapted, has("mtp.")))
	f.tensors["base_model.model.model.language_model.layers.0.mlp.up_proj.lora_A.default.weight"] = held{safetensors.BF16, []int64{1, 1}, []byte{0, 0}}
	expect(t, run(t, f.write(t), base("tiny"), Options{}), "error diff-adapter-unmerged")
}

func TestNamesThatDriftedAreComparedAllTheSame(t *testing.T) {
	for _, to := range []string{"model.layers.", "model.language_model.model.layers.", "model.model.language_model.layers."} {
		f := load(t, "tiny").touch(outside(adapted, has("mtp."))).rename("model.language_model.layers.", to)
		r := run(t, f.write(t), base("tiny"), Options{})
		expect(t, r, "warning diff-names")
		if r.Roles["mlp"].Changed != 12 {
			t.Errorf("%s: mlp %+v", to, r.Roles["mlp"])
		}
	}
	f := load(t, "tiny").touch(outside(adapted, has("mtp.")))
	f.tensors["model.layers.0.mlp.up_proj.weight"] = f.tensors["model.language_model.layers.0.mlp.up_proj.weight"]
	if got := fired(run(t, f.write(t), base("tiny"), Options{})); !contains(got, "error diff-names") {
		t.Errorf("a name in duplicate: %q", got)
	}
}

func TestDroppedPartsAreNamed(t *testing.T) {
	tuned := func() *folder { return load(t, "tiny").touch(outside(adapted, has("mtp."))) }
	expect(t, run(t, tuned().drop(has("visual.")).write(t), base("tiny"), Options{}), "error diff-tower-dropped")
	expect(t, run(t, tuned().drop(has("mtp.")).write(t), base("tiny"), Options{}), "warning diff-head-dropped")
	expect(t, run(t, tuned().drop(has("layers.2.mlp.up_proj")).write(t), base("tiny"), Options{}), "error diff-tensors-missing")
	f := tuned()
	f.tensors["model.extra.weight"] = held{safetensors.BF16, []int64{1}, []byte{0, 0}}
	expect(t, run(t, f.write(t), base("tiny"), Options{}), "warning diff-tensors-added")
}

func TestElementTypesAreComparedByValue(t *testing.T) {
	f := load(t, "tiny").touch(outside(has("in_proj", "out_proj"), has("mtp.")))
	for name, h := range f.tensors {
		if strings.Contains(name, "mlp.") && h.dtype == safetensors.BF16 {
			f.tensors[name] = h.recast(safetensors.F32)
		}
	}
	r := run(t, f.write(t), base("tiny"), Options{})
	if r.Roles["mlp"].Identical != 12 || r.Roles["mlp"].Recast != 12 || r.Roles["mlp"].Dtypes["F32 for BF16"] != 12 {
		t.Errorf("mlp %+v", r.Roles["mlp"])
	}
	if m := message(r, "diff-dtype"); !strings.Contains(m, "F32 for BF16") {
		t.Errorf("diff-dtype: %q", m)
	}
	f = load(t, "tiny")
	for name, h := range f.tensors {
		if h.dtype == safetensors.BF16 {
			f.tensors[name] = h.recast(safetensors.F16)
		}
	}
	if r := run(t, f.write(t), base("tiny"), Options{}); r.Roles["mlp"].Recast != 12 || r.Roles["mlp"].Changed == 0 || r.Roles["mlp"].RelativeChange.Max > 1e-3 {
		t.Errorf("F16: mlp %+v %+v", r.Roles["mlp"], r.Roles["mlp"].RelativeChange)
	}
}

func TestNaNIsFoundAndKeptOutOfTheNumbers(t *testing.T) {
	f := load(t, "tiny").touch(outside(adapted, has("mtp.")))
	const name = "model.language_model.layers.0.mlp.up_proj.weight"
	binary.LittleEndian.PutUint16(f.tensors[name].data[2:], 0x7FC0)
	r := run(t, f.write(t), base("tiny"), Options{})
	expect(t, r, "error diff-nonfinite")
	if s := r.Roles["mlp"].RelativeChange; s == nil || s.Max != s.Max || s.Max > 1 {
		t.Errorf("relative change %+v", s)
	}
}

func TestAVocabularyThatGrewIsComparedWhereBothHaveRows(t *testing.T) {
	f := load(t, "tiny").touch(outside(adapted, has("mtp.")))
	for _, name := range []string{"model.language_model.embed_tokens.weight", "lm_head.weight"} {
		h := f.tensors[name]
		f.tensors[name] = held{h.dtype, []int64{h.shape[0] + 16, h.shape[1]}, append(bytes.Clone(h.data), make([]byte, 16*2*h.shape[1])...)}
	}
	f.replace(t, "config.json", `"vocab_size": 2048`, `"vocab_size": 2064`)
	r := run(t, f.write(t), base("tiny"), Options{})
	expect(t, r, "warning diff-shape", "warning diff-config")
	if r.Roles["embedding"].Identical != 1 {
		t.Errorf("embedding %+v", r.Roles["embedding"])
	}
	f = load(t, "tiny").touch(outside(adapted, has("mtp.")))
	h := f.tensors["model.language_model.layers.0.mlp.up_proj.weight"]
	f.tensors["model.language_model.layers.0.mlp.up_proj.weight"] = held{h.dtype, []int64{h.shape[1], h.shape[0]}, h.data}
	expect(t, run(t, f.write(t), base("tiny"), Options{}), "error diff-shape")
}

func TestWhatIsQuantizedOnOneSideIsNotJudged(t *testing.T) {
	f := load(t, "tiny")
	for name, h := range f.tensors {
		if module, ok := strings.CutSuffix(name, "weight"); ok && len(h.shape) == 2 {
			delete(f.tensors, name)
			f.tensors[module+"weight_packed"] = held{safetensors.U8, []int64{h.shape[0], h.shape[1] / 2}, make([]byte, h.shape[0]*h.shape[1]/2)}
		}
	}
	r := run(t, f.write(t), base("tiny"), Options{})
	if r.Roles["mlp"].Incomparable != 12 || !contains(fired(r), "warning diff-incomparable") || len(r.NotChecked) == 0 {
		t.Errorf("mlp %+v, %q, %v", r.Roles["mlp"], fired(r), r.NotChecked)
	}
	f = load0()
	f.tensors["w.weight_packed"] = held{safetensors.U8, []int64{1, 1}, []byte{1}}
	g := load0()
	g.tensors["w.weight"] = held{safetensors.BF16, []int64{1, 2}, []byte{1, 1, 1, 1}}
	if r := run(t, f.write(t), g.write(t), Options{}); !r.Unjudged || r.Verdict == "ok" {
		t.Errorf("nothing was compared, and the verdict is %s, unjudged %v", r.Verdict, r.Unjudged)
	}
}

// mixtral is a model of an architecture that this program does not know, with four experts in two layers.
func mixtral(trained func(name string) bool) *folder {
	f := load0()
	add := func(name string) {
		f.tensors[name] = held{safetensors.BF16, []int64{1, 2}, []byte{0x80, 0x3F, 0x80, 0x3F}}
	}
	for _, l := range []string{"0", "1"} {
		p := "model.layers." + l + "."
		for _, n := range []string{"self_attn.q_proj", "self_attn.o_proj", "block_sparse_moe.gate", "input_layernorm"} {
			add(p + n + ".weight")
		}
		for _, e := range []string{"0", "1", "2", "3"} {
			for _, n := range []string{"w1", "w2", "w3"} {
				add(p + "block_sparse_moe.experts." + e + "." + n + ".weight")
			}
		}
	}
	add("lm_head.weight")
	return f.touch(trained)
}

func TestRolesOfAnUnknownArchitectureAreGuessedAndSaidToBe(t *testing.T) {
	from := mixtral(has("nothing")).write(t)
	r := run(t, mixtral(has("self_attn.")).write(t), from, Options{})
	expect(t, r, "error diff-role-untouched")
	if r.Findings[0].Subject != "expert" || r.Roles["expert"].Identical != 24 || r.Roles["router"].Identical != 2 || r.Roles["norm"].Identical != 2 {
		t.Errorf("%+v, roles %+v", r.Findings[0], r.Roles)
	}
	if !strings.Contains(strings.Join(r.NotChecked, " "), "guessed") {
		t.Errorf("not checked: %v", r.NotChecked)
	}
	expect(t, run(t, mixtral(has("self_attn.", ".w1.", ".w3.")).write(t), from, Options{}), "warning diff-role-untouched")
	expect(t, run(t, mixtral(has("self_attn.", "experts.2.")).write(t), from, Options{}), "error diff-experts-partial")
	expect(t, run(t, mixtral(has("self_attn.", "experts.")).write(t), from, Options{}))
}
