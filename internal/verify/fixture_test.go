package verify_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/verify"
	"seatsmith/internal/write"
)

const (
	body  = "../../testdata/tiny-finetune"
	donor = "../../testdata/tiny"
)

// open opens the headless fixture with the donor's head laid over it.
func open(t testing.TB) *model.Model {
	t.Helper()
	return overlay(t, body, donor)
}

func overlay(t testing.TB, body, donor string) *model.Model {
	t.Helper()
	b, err := model.Open(body)
	if err != nil {
		t.Fatal(err)
	}
	d, err := model.OpenDonor(donor)
	if err != nil {
		t.Fatal(err)
	}
	v, err := model.Overlay(b, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v
}

// quantize writes the fixture and returns the folder and the view it was made from.
func quantize(t testing.TB, o plan.Options) (string, *model.Model) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "quantized")
	return dir, quantizeInto(t, dir, o)
}

func quantizeInto(t testing.TB, dir string, o plan.Options) *model.Model {
	t.Helper()
	v := open(t)
	p, err := plan.Make(v, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write.Run(context.Background(), p, v, dir, write.Options{Workers: 2}); err != nil {
		t.Fatal(err)
	}
	return v
}

// f32 is one little-endian float32.
func f32(v float32) []byte {
	return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))
}

func f32At(p []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(p)) }

func judge(t testing.TB, dir string, o verify.Options) *verify.Report {
	t.Helper()
	r, err := verify.Checkpoint(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Fatalf("the report is no JSON: %v", err)
	}
	return r
}

// rules lists the ids of a report's findings, each once, with "?" behind warnings and "i" behind information.
func rules(r *verify.Report) []string {
	var out []string
	for _, f := range r.Findings {
		id := f.Rule
		switch f.Severity {
		case playbook.Warning:
			id += "?"
		case playbook.Info:
			id += " (info)"
		}
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func expect(t *testing.T, r *verify.Report, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := rules(r); !slices.Equal(got, want) {
		t.Errorf("findings %v, want %v", got, want)
		for _, f := range r.Findings {
			t.Logf("  %s", f)
		}
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func contains(list []string, part string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, part) })
}
