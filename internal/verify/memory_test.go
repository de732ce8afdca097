package verify_test

import (
	"strings"
	"testing"

	"seatsmith/internal/verify"
)

func TestAMemoryIsReadAsPeopleAndToolsWriteIt(t *testing.T) {
	for text, want := range map[string]int64{"32GiB": 32 << 30, "24564MiB": 24564 << 20, "80GB": 80e9, "32 gib": 32 << 30, "16G": 16 << 30, "1.5GiB": 3 << 29, "2097152": 2 << 20} {
		if got, err := verify.ParseMemory(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "32", "GiB", "-1GiB", "0", "NaN", "Inf", "1e40GiB", "32TiB?", "32 GPUs"} {
		if got, err := verify.ParseMemory(text); err == nil {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
}

// C31. The fixture's numbers are its own: what is stored, and two vocabularies of BF16.
func TestC31WeightsAndTheDraftersVocabulariesAgainstTheCard(t *testing.T) {
	f := whole(t)
	f.save()
	var all, head, tower int64
	for name, x := range f.tensors {
		n := int64(len(x.data))
		all += n
		switch {
		case strings.HasPrefix(name, "mtp."):
			head += n
		case strings.HasPrefix(name, "model.visual."):
			tower += n
		}
	}
	e := f.get("lm_head.weight")
	drafter := 2 * 2 * e.shape[0] * e.shape[1]
	const mtp = `/m --gpu-memory-utilization 0.5 --no-enable-prefix-caching --speculative-config '{"method":"mtp","num_speculative_tokens":1}'`
	const plain = "/m --gpu-memory-utilization 0.5"
	for _, c := range []struct {
		name, line string
		memory     int64
		rules      string
	}{
		{"all fits", mtp, 2 * (all + drafter), ""},
		{"the drafter's vocabularies do not", mtp, 2 * (all + drafter - 1), "gpu-memory?"},
		{"the weights alone do", mtp, 2 * all, "gpu-memory?"},
		{"not even they", mtp, 2 * (all - 1), "gpu-memory"},
		{"a server that does not draft loads no head", plain, 2 * (all - head), ""},
		{"and not less", plain, 2 * (all - head - 1), "gpu-memory"},
		{"nor the tower, if told so", plain + " --language-model-only", 2 * (all - head - tower), ""},
		{"two ranks hold half each", plain + " -tp 2", (all - head + 2), ""},
		{"without a command the head is loaded", "", int64(float64(all-1) / 0.92), "gpu-memory"},
		{"and fits with its drafter", "", int64(float64(all+drafter+16) / 0.92), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := verify.Options{Host: verify.Host{Memory: c.memory}}
			if c.line != "" {
				o.Serve = command(t, c.line).Serve
			}
			r := doctor(t, f.dir, o)
			only(t, r, strings.Fields(c.rules)...)
			if contains(r.NotChecked, "--gpu-memory") {
				t.Errorf("not checked %q", r.NotChecked)
			}
		})
	}
	if r := doctor(t, f.dir, command(t, plain)); !contains(r.NotChecked, "--gpu-memory") || r.Verdict != "ok" {
		t.Errorf("an unknown card: %s, not checked %q", r.Verdict, r.NotChecked)
	}
}

// C34. What a server that drafts says of prompts is no measurement; doctor cannot see one, and says so.
func TestC34MeasuringThroughAServerThatDraftsIsNotCalledGood(t *testing.T) {
	f := whole(t)
	f.save()
	if r := doctor(t, f.dir, command(t, drafting)); !contains(r.NotChecked, "prompt_logprobs") || r.Verdict != "ok" {
		t.Errorf("%s, not checked %q", r.Verdict, r.NotChecked)
	}
	if r := doctor(t, f.dir, command(t, "/m")); contains(r.NotChecked, "prompt_logprobs") {
		t.Errorf("a server that does not draft: not checked %q", r.NotChecked)
	}
}
