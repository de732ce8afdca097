package verify_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/sjson"

	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// The tests named after a case state what docs/references.md says under its id: a public report, cut down to a small folder,
// and what the judge makes of it.

// lint writes a folder and judges it as anyone's checkpoint; a record of ours would explain more than a stranger has.
func lint(t *testing.T, f *folder, o verify.Options) *verify.Report {
	t.Helper()
	f.save()
	return doctor(t, f.dir, o)
}

// clean: nothing but information.
func clean(t *testing.T, r *verify.Report) {
	t.Helper()
	only(t, r)
}

// only: these rules and, besides, nothing but information; a "?" marks a warning.
func only(t *testing.T, r *verify.Report, want ...string) {
	t.Helper()
	got := slices.DeleteFunc(rules(r), func(id string) bool { return strings.HasSuffix(id, "(info)") })
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("findings %v, want %v", got, want)
		for _, f := range r.Findings {
			t.Logf("  %s", f)
		}
	}
}

// says: the finding of a rule has every text in its subject, message or fix.
func says(t *testing.T, r *verify.Report, rule string, texts ...string) {
	t.Helper()
	said := ""
	for _, f := range r.Findings {
		if f.Rule == rule {
			said += f.String() + "\n"
		}
	}
	for _, text := range texts {
		if !strings.Contains(said, text) {
			t.Errorf("%s does not say %q: %s", rule, text, said)
		}
	}
}

// single is the only finding of a rule.
func single(t *testing.T, r *verify.Report, rule string) playbook.Finding {
	t.Helper()
	var out []playbook.Finding
	for _, f := range r.Findings {
		if f.Rule == rule {
			out = append(out, f)
		}
	}
	if len(out) != 1 {
		t.Fatalf("%d findings of %s: %v", len(out), rule, r.Findings)
	}
	return out[0]
}

// command is a serve command for the default engine.
func command(t *testing.T, line string) verify.Options {
	t.Helper()
	s, err := verify.ParseServe("", line)
	if err != nil {
		t.Fatal(err)
	}
	return verify.Options{Serve: []verify.Serve{s}}
}

const drafting = `/m --no-enable-prefix-caching --speculative-config '{"method":"mtp","num_speculative_tokens":1}'`

// edit changes one key of a JSON file beside the tensors.
func edit(t testing.TB, path, key string, value any) {
	t.Helper()
	data, err := sjson.SetBytes(readFile(t, path), key, value)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, data)
}

// fp4 stores a plain module as modelopt does, with one scale of its own.
func (f *folder) fp4(module string) {
	f.t.Helper()
	x := f.get(module + ".weight")
	amax, _ := numeric.AmaxBF16(x.data)
	q := numeric.NewNVFP4(numeric.Modelopt, amax)
	out, in := x.shape[0], x.shape[1]
	codes, scales := make([]byte, out*in/2), make([]byte, out*in/16)
	q.EncodeBF16(codes, scales, x.data)
	f.add(module+".weight", module+".weight_scale", safetensors.F8E4M3, []int64{out, in / 16}, scales)
	f.add(module+".weight", module+".weight_scale_2", safetensors.F32, []int64{}, f32(q.Global))
	x.dtype, x.shape, x.data = safetensors.U8, []int64{out, in / 2}, codes
}

// uniform is the fixture as modelopt's NVFP4, activations with stored scales, in both of modelopt's files.
func uniform(t *testing.T) *folder {
	t.Helper()
	f := withFile(t)
	f.set("quantization_config.quant_algo", "NVFP4")
	edit(t, f.dir+"/hf_quant_config.json", "quantization.quant_algo", "NVFP4")
	for _, name := range slices.Sorted(maps.Keys(f.tensors)) {
		if module, ok := strings.CutSuffix(name, ".weight_scale_2"); ok {
			f.add(name, module+".input_scale", safetensors.F32, []int64{}, f32(0.002))
		}
	}
	return f
}
