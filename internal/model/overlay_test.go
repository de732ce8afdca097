package model_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/model"
)

func TestTheDonorsWholeHeadLiesOverTheBody(t *testing.T) {
	body, donor := open(t, fixtures+"tiny-finetune"), openDonor(t, fixtures+"tiny")
	v := overlay(t, body, donor)
	only(t, v.Findings)
	if v.Head.Present != 15 || v.Head.Promised != 1 || len(v.Head.Missing) != 0 || len(v.Tensors) != 104 {
		t.Errorf("%d tensors, head %+v", len(v.Tensors), v.Head)
	}
	for i := range v.Tensors {
		tn := &v.Tensors[i]
		if want := map[bool]model.Origin{true: model.Donor, false: model.Body}[tn.Role == model.RoleHead]; tn.Origin != want {
			t.Errorf("%s comes from %s", tn.Name, tn.Origin)
		}
	}
	if v.Dir != body.Dir || v.DonorDir != donor.Dir || v.Set != body.Set || v.DonorSet != donor.Set {
		t.Error("the view does not know its folders")
	}
	if body.Head.Present != 0 || len(body.Tensors) != 89 {
		t.Error("the body was changed")
	}
	got, _ := v.Lookup("mtp.fc.weight")
	want, _ := donor.Lookup("mtp.fc.weight")
	a, b := make([]byte, got.Bytes()), make([]byte, want.Bytes())
	if err := got.ReadAt(a, 0); err != nil {
		t.Fatal(err)
	}
	if err := want.ReadAt(b, 0); err != nil || !slices.Equal(a, b) {
		t.Errorf("the head's bytes are not the donor's (%v)", err)
	}
}

func TestAHeadOfExpertsLiesOverItsBody(t *testing.T) {
	v := overlay(t, like(t, "moe").dropPrefix("mtp.").open(), openDonor(t, like(t, "moe").write()))
	only(t, v.Findings)
	if v.Head.Present != 19 {
		t.Errorf("%+v", v.Head)
	}
}

func TestTheBodysOwnHeadNeverFillsHoles(t *testing.T) {
	body := like(t, "tiny").drop(func(n string) bool { return n == "mtp.fc.weight" }).open()
	v := overlay(t, body, openDonor(t, fixtures+"tiny"))
	only(t, v.Findings, "info head-replaced")
	says(t, v.Findings, "head-replaced", "the body has 14 tensors of a head", "15 tensors")
	for i := range v.Tensors {
		if tn := &v.Tensors[i]; tn.Role == model.RoleHead && tn.Origin != model.Donor {
			t.Errorf("%s is the body's", tn.Name)
		}
	}
}

func TestAMisplacedOrQuantizedHeadOfTheBodyIsReplacedToo(t *testing.T) {
	for what, f := range map[string]*folder{
		"misplaced": like(t, "tiny").rename("mtp.", "model.mtp."),
		"scale":     like(t, "tiny").dropPrefix("mtp.").add("mtp.fc.weight_packed", "U8", 128, 128).add("mtp.fc.weight_scale", "F8_E4M3", 128, 16),
	} {
		v := overlay(t, f.open(), openDonor(t, fixtures+"tiny"))
		only(t, v.Findings, "info head-replaced")
		if len(v.Tensors) != 104 || v.Head.Present != 15 {
			t.Errorf("%s: %d tensors, head %+v", what, len(v.Tensors), v.Head)
		}
	}
}

func TestADonorIsRefusedByName(t *testing.T) {
	for _, c := range []struct {
		what, rule string
		donor      func(f *folder)
		says       []string
	}{
		{"no head", "donor-headless", func(f *folder) { f.dropPrefix("mtp.") }, []string{`no tensor of the donor begins with "mtp."`}},
		{"head under another prefix", "donor-headless", func(f *folder) { f.rename("mtp.", "model.mtp.") }, []string{"stands under another prefix"}},
		{"a hole", "donor-headless", func(f *folder) { f.dropPrefix("mtp.norm.") }, []string{"14 of 15 tensors present, missing: mtp.norm.weight"}},
		{"half of two layers", "donor-headless", func(f *folder) { f.set("text_config.mtp_num_hidden_layers", 2) }, []string{"15 of 26"}},
		{"another depth", "donor-stranger", func(f *folder) { f.set("text_config.num_hidden_layers", 8) }, []string{"its num_hidden_layers is 8 (the body's 4)"}},
		{"another vocabulary", "donor-stranger", func(f *folder) { f.set("text_config.vocab_size", 4096) }, []string{"its vocab_size is 4096 (the body's 2048)"}},
		{"another width", "donor-stranger", func(f *folder) { f.set("text_config.hidden_size", 256) }, []string{"its hidden_size is 256 (the body's 128)"}},
		{"another architecture", "donor-stranger", func(f *folder) { f.set("architectures.0", "Qwen2MoeForCausalLM") }, []string{"its architecture is Qwen2MoeForCausalLM"}},
		{"other shapes than it says", "donor-stranger", func(f *folder) { f.add("mtp.layers.0.mlp.gate_proj.weight", "BF16", 512, 128) },
			[]string{"intermediate_size is 512 (the body's 384)", "mtp.layers.0.mlp.gate_proj.weight is [512 128] instead of [384 128]"}},
		{"a quantized head", "donor-quantized", func(f *folder) { f.add("mtp.fc.weight", "F8_E4M3", 128, 256) }, []string{"mtp.fc.weight is F8_E4M3"}},
		{"a converted copy (mlx-lm#1226)", "donor-norms-shifted", func(f *folder) { f.fill(1, func(n string) bool { return strings.Contains(n, "norm") }) },
			[]string{"donor norms look shifted by +1 (mean 1.00 vs 0.00 in the body)"}},
	} {
		f := like(t, "tiny")
		c.donor(f)
		t.Run(c.what, func(t *testing.T) {
			f.t = t
			body := like(t, "tiny").dropPrefix("mtp.").open()
			v := overlay(t, body, openDonor(t, f.write()))
			only(t, v.Findings, "error "+c.rule)
			says(t, v.Findings, c.rule, c.says...)
			if len(v.Tensors) != len(body.Tensors) || v.Fingerprint() != body.Fingerprint() || string(v.ConfigJSON()) != string(body.ConfigJSON()) {
				t.Error("a refused donor leaves something in the view")
			}
		})
	}
}

func TestADonorOfAnotherFamilyIsAStranger(t *testing.T) {
	v := overlay(t, open(t, fixtures+"tiny-finetune"), openDonor(t, fixtures+"moe"))
	only(t, v.Findings, "error donor-stranger")
	says(t, v.Findings, "donor-stranger", "Qwen3_5MoeForConditionalGeneration (the body's Qwen3_5ForConditionalGeneration)")
}

func TestABodyThatWasConvertedIsToldFromItsDonor(t *testing.T) {
	body := like(t, "tiny").dropPrefix("mtp.").fill(1, func(n string) bool { return strings.Contains(n, "norm") })
	v := overlay(t, body.open(), openDonor(t, like(t, "tiny").write()))
	only(t, v.Findings, "error donor-norms-shifted")
	says(t, v.Findings, "donor-norms-shifted", "the body's norms look shifted by +1")
}

func TestADonorMayBePartial(t *testing.T) {
	dir := like(t, "tiny").write()
	os.Remove(filepath.Join(dir, "model-00001-of-00002.safetensors")) // holds nothing of the head
	donor := openDonor(t, dir)
	only(t, donor.Findings)
	only(t, overlay(t, like(t, "tiny").dropPrefix("mtp.").open(), donor).Findings)
}

func TestAMissingShardThatHoldsTheHeadIsAFinding(t *testing.T) {
	dir := like(t, "tiny").write()
	os.Remove(filepath.Join(dir, "model-00002-of-00002.safetensors"))
	donor := openDonor(t, dir)
	only(t, donor.Findings, "error shard-missing")
	v := overlay(t, like(t, "tiny").dropPrefix("mtp.").open(), donor)
	only(t, v.Findings, "error shard-missing") // what a shard holds that is not there, nobody knows
	says(t, v.Findings, "shard-missing", "donor model-00002-of-00002.safetensors")
}

func TestADonorMayBeOneFile(t *testing.T) {
	f := like(t, "tiny").drop(func(n string) bool { return !strings.HasPrefix(n, "mtp.") })
	f.shards, f.index = 1, false
	dir := f.write()
	file := filepath.Join(dir, "model-00001-of-00001.safetensors")
	body := like(t, "tiny").dropPrefix("mtp.").open()
	only(t, overlay(t, body, openDonor(t, file)).Findings)

	os.Remove(filepath.Join(dir, "config.json"))
	v := overlay(t, body, openDonor(t, file))
	only(t, v.Findings, "info donor-stranger")
	says(t, v.Findings, "donor-stranger", "only the shapes of the head were compared")
	if v.Head.Present != 15 {
		t.Errorf("%+v", v.Head)
	}
}

func TestASingleFileOfAnotherSizeIsAStranger(t *testing.T) {
	f := like(t, "tiny").drop(func(n string) bool { return !strings.HasPrefix(n, "mtp.") })
	f.shards, f.config = 1, nil
	f.add("mtp.fc.weight", "BF16", 96, 192)
	v := overlay(t, open(t, fixtures+"tiny-finetune"), openDonor(t, f.write()))
	only(t, v.Findings, "error donor-stranger")
	says(t, v.Findings, "donor-stranger", "hidden_size is 96 (the body's 128)")
}

func TestAFlatBodyTakesTheHeadOfAWrappedDonor(t *testing.T) {
	v := overlay(t, flat(t).dropPrefix("mtp.").open(), openDonor(t, like(t, "tiny").write()))
	only(t, v.Findings)
	if v.Head.Present != 15 {
		t.Errorf("%+v", v.Head)
	}
}

func TestOverAnUnknownBodyNothingIsLaid(t *testing.T) {
	v := overlay(t, like(t, "tiny").set("architectures.0", "X").open(), openDonor(t, fixtures+"tiny"))
	only(t, v.Findings, "error arch-unknown")
}

func TestOpenDonorNamesWhatCannotBeOpened(t *testing.T) {
	if _, err := model.OpenDonor(filepath.Join(t.TempDir(), "nowhere")); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("%v", err)
	}
	f := like(t, "tiny").set("text_config.hidden_size", "x")
	if _, err := model.OpenDonor(f.write()); err == nil || !strings.Contains(err.Error(), "text_config.hidden_size") {
		t.Errorf("%v", err)
	}
}

func TestClosingTwiceIsHarmless(t *testing.T) {
	body, donor := open(t, fixtures+"tiny-finetune"), openDonor(t, fixtures+"tiny")
	v := overlay(t, body, donor)
	for _, m := range []*model.Model{v, body, donor, v} {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
