package write_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/write"
)

// A tester put a NaN into a norm and into the embedding: the run said ok, and the server answered "!!!!".
func TestANonFiniteValueInAKeptTensorIsRefusedByNamePlaceAndValue(t *testing.T) {
	for _, c := range []struct {
		tensor string
		donor  bool // the donor's copy is changed
		at     int64
		value  float32
		says   []string
	}{
		{"model.language_model.layers.0.input_layernorm.weight", false, 5, nan, []string{"NaN", "[5]"}},
		{"model.language_model.embed_tokens.weight", false, 128*300 + 9, inf, []string{"+Inf", "[300, 9]"}},
		{"model.language_model.layers.3.self_attn.q_norm.weight", false, 0, -inf, []string{"-Inf", "[0]"}},
		{"model.language_model.layers.1.linear_attn.conv1d.weight", false, 4*2 + 3, nan, []string{"NaN", "[2, 0, 3]"}},
		{"model.visual.blocks.0.attn.qkv.bias", false, 1, nan, []string{"NaN", "[1]"}},
		{"lm_head.weight", false, 128*2047 + 127, nan, []string{"NaN", "[2047, 127]"}},
		{"mtp.fc.weight", true, 256*7 + 255, inf, []string{"+Inf", "[7, 255]"}},
		{"mtp.layers.0.input_layernorm.weight", true, 127, nan, []string{"NaN", "[127]"}},
	} {
		t.Run(c.tensor, func(t *testing.T) {
			body, donor := copyFolder(t, tinyBody), copyFolder(t, tinyDonor)
			dir := body
			if c.donor {
				dir = donor
			}
			poke(t, dir, c.tensor, map[int64]float32{c.at: c.value})
			m := openView(t, body, donor)
			refusedAsNonFinite(t, runRefused(t, m, makePlan(t, m, plan.Options{})), c.tensor, append(c.says, dir, ".safetensors", "kept")...)
		})
	}
}

func TestKeptTensorsOfEveryFloatAreLookedAt(t *testing.T) {
	f16 := func(b []byte, i int, v float32) {
		binary.LittleEndian.PutUint16(b[2*i:], numeric.FP16FromFloat32(v))
	}
	f32 := func(b []byte, i int, v float32) { binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v)) }
	for _, c := range []struct {
		name  string
		dtype safetensors.Dtype
		put   func(b []byte, i int, v float32)
	}{{"F16", safetensors.F16, f16}, {"F32", safetensors.F32, f32}} {
		t.Run(c.name, func(t *testing.T) {
			m, p := handmade(t, map[string]safetensors.Spec{"k": {Dtype: c.dtype, Shape: []int64{40, 50}}})
			dir := filepath.Dir(m.Set.Files[0].Path)
			set := func(values map[int]float32) {
				edit(t, dir, "k", func(b []byte) {
					clear(b)
					for i, v := range values {
						c.put(b, i, v)
					}
				})
			}
			add(t, m, p, "k", dialect.BF16, kept("k", c.dtype, 40, 50))
			largest := map[int]float32{0: 65504, 1999: -65504}
			set(largest)
			mustRun(t, p, m, filepath.Join(t.TempDir(), "out"), write.Options{})
			for _, tile := range []int64{0, 32, 4096} { // the second bad value lies in another tile, and is looked at first or last
				undo := write.SetTile(tile)
				set(map[int]float32{1234: -inf, 1999: nan})
				refusedAsNonFinite(t, runRefused(t, m, p), "k", "-Inf", "[24, 34]")
				undo()
			}
		})
	}
}

// runRefused runs into a refusal that leaves nothing behind.
func runRefused(t *testing.T, m *model.Model, p *plan.Plan) []playbook.Finding {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	_, err := write.Run(context.Background(), p, m, out, write.Options{Workers: 2})
	var r *write.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("got %v, want a refusal", err)
	}
	absent(t, out)
	return r.Findings
}

func refusedAsNonFinite(t *testing.T, findings []playbook.Finding, tensor string, words ...string) {
	t.Helper()
	if len(findings) != 1 || findings[0].Rule != "source-nonfinite" || findings[0].Severity != playbook.Error || findings[0].Subject != tensor {
		t.Fatalf("findings %+v", findings)
	}
	for _, w := range words {
		if !strings.Contains(findings[0].Message, w) {
			t.Errorf("message %q does not say %q", findings[0].Message, w)
		}
	}
}
