package line_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"seatsmith/internal/line"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// beheaded is a checkpoint as an exporter leaves it that drops the head: no tensors of it, no word of it in the lists, and
// no promise.
func beheaded(t *testing.T, dir string) *shelf {
	t.Helper()
	s := take(t, dir).foreign().without("mtp.")
	s.config("text_config.mtp_num_hidden_layers", 0)
	prune := func(file, key string) {
		list := gjson.GetBytes(s.files[file], key)
		if !list.IsArray() {
			return
		}
		left := []string{}
		for _, e := range list.Array() {
			if !strings.Contains(e.Str, "mtp") {
				left = append(left, e.Str)
			}
		}
		s.json(file, key, left)
	}
	prune("config.json", "quantization_config.ignore")
	prune("config.json", "quantization_config.exclude_modules")
	if s.files["hf_quant_config.json"] != nil {
		prune("hf_quant_config.json", "quantization.exclude_modules")
	}
	return s
}

func spliced(t *testing.T, dir, donor string) (*line.Outcome, *shelf) {
	t.Helper()
	out := changed(t, line.Change{Kind: plan.KindSplice, Source: dir, Donor: donor})
	if out.Output == "" {
		t.Fatalf("nothing was spliced: %v %+v", playbook.Errors(out.Findings), out.Verify)
	}
	if out.HeadFrom != "donor" || len(out.Head.Missing) > 0 || out.Verify == nil || out.Verify.Verdict == "fail" {
		t.Errorf("%+v", out)
	}
	has(t, out.Findings, "head-laid", "donor")
	return out, take(t, out.Output)
}

// bodyOf is every tensor but the head's.
func bodyOf(all map[string]stored) map[string]stored {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(name string, _ stored) bool { return strings.HasPrefix(name, "mtp.") })
	return out
}

func headOf(all map[string]stored) map[string]stored {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(name string, _ stored) bool { return !strings.HasPrefix(name, "mtp.") })
	return out
}

func TestASplicedHeadGivesWhatForgeWouldHaveMade(t *testing.T) {
	for name, j := range map[string]line.Job{
		"compressed-tensors": {Body: fixture(t, "tiny-finetune"), Donor: fixture(t, "tiny")},
		"modelopt":           {Body: fixture(t, "tiny-finetune"), Donor: fixture(t, "tiny"), Dialect: "modelopt"},
		"mixed":              {Body: fixture(t, "tiny"), Dialect: "modelopt", Stats: statistics(t, fixture(t, "tiny"))},
		"experts":            {Body: fixture(t, "moe")},
		"experts, modelopt":  {Body: fixture(t, "moe"), Dialect: "modelopt"},
	} {
		t.Run(name, func(t *testing.T) {
			donor := j.Donor
			if donor == "" {
				donor = j.Body
			}
			whole := made(t, j)
			out, got := spliced(t, beheaded(t, whole).put(), donor)
			want := take(t, whole)
			same(t, got.all(), want.all())
			if !bytes.Equal(index(t, got), index(t, want)) {
				t.Error("the index lists other tensors")
			}
			if n := gjson.GetBytes(got.files["config.json"], "text_config.mtp_num_hidden_layers").Int(); n != 1 {
				t.Errorf("config.json promises %d layers", n)
			}
			for _, key := range []string{"quantization_config.config_groups", "quantization_config.quant_algo", "quantization_config.quantized_layers", "quantization_config.format"} {
				if a, b := gjson.GetBytes(got.files["config.json"], key), gjson.GetBytes(want.files["config.json"], key); a.Raw != b.Raw {
					t.Errorf("%s changed: %s, was %s", key, a.Raw, b.Raw)
				}
			}
			for file, key := range map[string]string{"config.json": "quantization_config.ignore", "hf_quant_config.json": "quantization.exclude_modules"} {
				if a, b := headEntries(got.files[file], key), headEntries(want.files[file], key); !slices.Equal(a, b) {
					t.Errorf("%s names %v of the head, forge names %v", file, a, b)
				}
			}
			has(t, out.Findings, "head-covered", "mtp")
			var p model.Provenance
			if err := json.Unmarshal(got.files["seatsmith.json"], &p); err != nil || p.Kind != "splice" || !p.Foreign || p.Head != "donor" {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// headEntries are those of a list that name the head, in order of the alphabet.
func headEntries(doc []byte, key string) []string {
	var out []string
	for _, e := range gjson.GetBytes(doc, key).Array() {
		if strings.Contains(e.Str, "mtp") {
			out = append(out, e.Str)
		}
	}
	slices.Sort(out)
	return out
}

// index is what is stored, without the files' names.
func index(t *testing.T, s *shelf) []byte {
	t.Helper()
	return []byte(strings.Join(slices.Sorted(maps.Keys(s.all())), "\n"))
}

func TestQ01ASplicedCheckpointKeepsItsPromise(t *testing.T) {
	s := beheaded(t, made(t, line.Job{Body: fixture(t, "tiny")})).config("text_config.mtp_num_hidden_layers", 1)
	out, got := spliced(t, s.put(), fixture(t, "tiny"))
	if out.Head.Promised != 1 || out.Head.Present != 15 || len(headOf(got.all())) != 15 {
		t.Errorf("%+v", out.Head)
	}
	same(t, headOf(got.all()), headOf(take(t, fixture(t, "tiny")).all()))
}

func TestQ03BothSpellingsOfTheHeadAreIgnored(t *testing.T) {
	s := beheaded(t, made(t, line.Job{Body: fixture(t, "tiny")}))
	_, got := spliced(t, s.put(), fixture(t, "tiny"))
	list := gjson.GetBytes(got.files["config.json"], "quantization_config.ignore").String()
	for _, name := range []string{"mtp.layers.0.self_attn.q_proj", "mtp.layers.0.self_attn.qkv_proj", "mtp.layers.0.mlp.up_proj", "mtp.layers.0.mlp.gate_up_proj", "mtp.layers.0.mlp.down_proj", "mtp.fc", `re:^mtp.*`} {
		if !strings.Contains(list, `"`+name+`"`) {
			t.Errorf("the list lacks %s: %s", name, list)
		}
	}
}

func TestQ05TheHeadsFcIsIgnoredToo(t *testing.T) {
	s := beheaded(t, made(t, line.Job{Body: fixture(t, "tiny"), Recipe: "nvfp4-all-linear"}))
	// An exporter that ignored lm_head and what it left unquantized, and said nothing of the head.
	out, got := spliced(t, s.put(), fixture(t, "tiny"))
	has(t, out.Findings, "head-covered", "config.json: quantization_config.ignore", "mtp.fc")
	if list := gjson.GetBytes(got.files["config.json"], "quantization_config.ignore").String(); !strings.Contains(list, `"mtp.fc"`) {
		t.Errorf("%s", list)
	}
	for _, f := range out.Verify.Findings {
		if f.Rule == "head-not-ignored" {
			t.Errorf("%+v", f)
		}
	}
}

func TestQ06TheHeadIsExcludedInBothFilesOfModelopt(t *testing.T) {
	for name, j := range map[string]line.Job{
		"uniform": {Body: fixture(t, "tiny"), Dialect: "modelopt"},
		"mixed":   {Body: fixture(t, "tiny"), Dialect: "modelopt", Stats: statistics(t, fixture(t, "tiny"))},
	} {
		t.Run(name, func(t *testing.T) {
			s := beheaded(t, made(t, j))
			out, got := spliced(t, s.put(), fixture(t, "tiny"))
			has(t, out.Findings, "head-covered", "config.json: quantization_config.ignore", "mtp*")
			has(t, out.Findings, "head-covered", "hf_quant_config.json: quantization.exclude_modules", "mtp*")
			a, b := gjson.GetBytes(got.files["config.json"], "quantization_config.ignore"), gjson.GetBytes(got.files["hf_quant_config.json"], "quantization.exclude_modules")
			if !strings.Contains(a.String(), `"mtp*"`) || !strings.Contains(b.String(), `"mtp*"`) {
				t.Errorf("config.json %s\nhf_quant_config.json %s", a, b)
			}
			for _, f := range out.Verify.Findings {
				if f.Severity == playbook.Error || f.Rule == "quant-files-differ" {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

func TestS11StaleCopiesOfTheHeadArePhysicallyGone(t *testing.T) {
	clean := beheaded(t, made(t, line.Job{Body: fixture(t, "tiny"), Recipe: "nvfp4-all-linear"}))
	donor := take(t, fixture(t, "tiny"))
	fc := headOf(donor.all())["mtp.fc.weight"]
	garbage := bytes.Repeat([]byte{0x3f}, len(fc.data))
	const file = "model-00001-of-00001.safetensors"
	half := func(s *shelf) *shelf { // the checkpoint in two files
		for name, x := range s.shards[file] {
			part := "model-00001-of-00002.safetensors"
			if name > "model.language_model.layers.2" {
				part = "model-00002-of-00002.safetensors"
			}
			s.add(part, name, x.Dtype, x.Shape, x.data)
		}
		delete(s.shards, file)
		return s
	}
	for _, c := range []struct {
		name  string
		spoil func(s *shelf) *shelf
		gone  string // a name of what must not be there any more
	}{
		{"whole and old", func(s *shelf) *shelf {
			for name, x := range headOf(donor.all()) {
				s.add(file, name, x.Dtype, x.Shape, bytes.Repeat([]byte{0x3f}, len(x.data)))
			}
			return s
		}, ""},
		{"one tensor, twice, in two files", func(s *shelf) *shelf {
			half(s).add("model-00001-of-00002.safetensors", "mtp.fc.weight", fc.Dtype, fc.Shape, garbage)
			return s.add("model-00002-of-00002.safetensors", "mtp.fc.weight", fc.Dtype, fc.Shape, garbage)
		}, ""},
		{"in a file of its own", func(s *shelf) *shelf {
			return s.add("model-mtp.safetensors", "mtp.fc.weight", fc.Dtype, fc.Shape, garbage)
		}, ""},
		{"under another prefix", func(s *shelf) *shelf {
			return s.add(file, "model.mtp.fc.weight", fc.Dtype, fc.Shape, garbage)
		}, "model.mtp.fc.weight"},
		{"under the language model", func(s *shelf) *shelf {
			return s.add(file, "model.language_model.mtp.fc.weight", fc.Dtype, fc.Shape, garbage)
		}, "model.language_model.mtp.fc.weight"},
		{"quantized leftovers", func(s *shelf) *shelf {
			out, in := fc.Shape[0], fc.Shape[1]
			s.add(file, "mtp.fc.weight_packed", safetensors.U8, []int64{out, in / 2}, make([]byte, out*in/2))
			s.add(file, "mtp.fc.weight_scale", safetensors.F8E4M3, []int64{out, in / 16}, bytes.Repeat([]byte{numeric.E4M3FromFloat32(1)}, int(out*in/16)))
			return s.add(file, "mtp.fc.weight_global_scale", safetensors.F32, []int64{1}, binary.LittleEndian.AppendUint32(nil, math.Float32bits(1)))
		}, "mtp.fc.weight_packed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.spoil(&shelf{t: t, files: maps.Clone(clean.files), shards: copied(clean.shards)})
			out, got := spliced(t, s.put(), fixture(t, "tiny"))
			all := got.all() // fails where a tensor is stored twice
			same(t, headOf(all), headOf(donor.all()))
			same(t, bodyOf(all), bodyOf(clean.all()))
			if _, there := all[c.gone]; there {
				t.Errorf("%s is still stored", c.gone)
			}
			has(t, out.Findings, "head-replaced")
			for _, f := range slices.Concat(out.Findings, out.Verify.Findings) {
				if f.Rule == "stale-copy" || f.Severity == playbook.Error {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

func copied(shards map[string]map[string]stored) map[string]map[string]stored {
	out := map[string]map[string]stored{}
	for file, tensors := range shards {
		out[file] = maps.Clone(tensors)
	}
	return out
}

func TestAQuantizedHeadOfTheConfigurationIsTakenOutOfTheLayers(t *testing.T) {
	s := beheaded(t, made(t, line.Job{Body: fixture(t, "tiny"), Dialect: "modelopt", Stats: statistics(t, fixture(t, "tiny"))}))
	s.config(`quantization_config.quantized_layers.mtp\.fc`, map[string]any{"quant_algo": "FP8"})
	s.json("hf_quant_config.json", `quantization.quantized_layers.mtp\.fc`, map[string]any{"quant_algo": "FP8"})
	out, got := spliced(t, s.put(), fixture(t, "tiny"))
	has(t, out.Findings, "head-covered", "config.json: quantization_config.quantized_layers", "mtp.fc")
	has(t, out.Findings, "head-covered", "hf_quant_config.json: quantization.quantized_layers", "mtp.fc")
	for file, key := range map[string]string{"config.json": "quantization_config", "hf_quant_config.json": "quantization"} {
		layers := gjson.GetBytes(got.files[file], key+".quantized_layers")
		if !layers.IsObject() || strings.Contains(layers.Raw, "mtp") {
			t.Errorf("%s lists the old head: %s", file, layers.Raw)
		}
	}
}

func TestQ18WhatIsQuantizedAndExcludedIsNotPublished(t *testing.T) {
	s := beheaded(t, made(t, line.Job{Body: fixture(t, "tiny"), Dialect: "modelopt"}))
	head := s.shards["model-00001-of-00001.safetensors"]["lm_head.weight"]
	out, in := head.Shape[0], head.Shape[1]
	const file = "model-00001-of-00001.safetensors"
	s.add(file, "lm_head.weight", safetensors.U8, []int64{out, in / 2}, make([]byte, out*in/2))
	s.add(file, "lm_head.weight_scale", safetensors.F8E4M3, []int64{out, in / 16}, bytes.Repeat([]byte{numeric.E4M3FromFloat32(1)}, int(out*in/16)))
	one := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1e-3))
	s.add(file, "lm_head.weight_scale_2", safetensors.F32, nil, one)
	s.add(file, "lm_head.input_scale", safetensors.F32, nil, one)
	for kind, c := range map[string]line.Change{
		"splice":  {Kind: plan.KindSplice, Donor: fixture(t, "tiny")},
		"convert": {Kind: plan.KindConvert, Dialect: "compressed-tensors"},
	} {
		c.Source = s.put()
		res := changed(t, c)
		if kind == "splice" && (res.Output != "" || res.Verdict != "fail") {
			t.Errorf("splice published it: %v", rules(res.Findings))
		}
		if kind == "convert" && res.Output != "" { // the new list is made from what is stored, so it says the truth
			ignore := gjson.GetBytes(take(t, res.Output).files["config.json"], "quantization_config.ignore").String()
			if strings.Contains(ignore, `"lm_head"`) {
				t.Errorf("lm_head is quantized and ignored: %s", ignore)
			}
		}
		if res.Verdict == "fail" {
			all := res.Findings
			if res.Verify != nil {
				all = slices.Concat(all, res.Verify.Findings)
			}
			if !slices.ContainsFunc(all, func(f playbook.Finding) bool {
				return f.Severity == playbook.Error && strings.Contains(f.Subject, "lm_head")
			}) {
				t.Errorf("%s: lm_head is not named: %v", kind, rules(all))
			}
		}
	}
}

func TestSpliceRefusesWhatIsNotItsMatter(t *testing.T) {
	quant := beheaded(t, made(t, line.Job{Body: fixture(t, "tiny")})).put()
	for _, c := range []struct{ name, dir, donor, rule string }{
		{"an unquantized body", fixture(t, "tiny-finetune"), fixture(t, "tiny"), "not-quantized"},
		{"a stranger's head", quant, fixture(t, "moe"), "donor-stranger"},
		{"a donor without a head", quant, fixture(t, "tiny-finetune"), "donor-headless"},
		{"a head of a quantized donor", quant, made(t, line.Job{Body: fixture(t, "tiny"), Recipe: "head-fp8"}), "donor-quantized"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := changed(t, line.Change{Kind: plan.KindSplice, Source: c.dir, Donor: c.donor})
			if out.Output != "" || out.Verdict != "fail" {
				t.Errorf("%+v", out)
			}
			has(t, out.Findings, c.rule)
		})
	}
}
