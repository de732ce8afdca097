package line_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/line"
	"seatsmith/internal/model"
	"seatsmith/internal/safetensors"
)

// The bytes that compressed-tensors 0.18.0 / llm-compressor 0.13.0+37 and nvidia-modelopt 0.47.0dev+81 wrote for the
// weights of testdata/tiny on an H200, against what our whole line leaves on the disk for the same checkpoint.
func TestTheFilesHoldThePeersBytes(t *testing.T) {
	peers, err := safetensors.Open(filepath.Join("..", "numeric", "testdata", "peer_goldens_tiny.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer peers.Close()
	for _, c := range []struct {
		name, recipe, math, groups string
		schemes                    []string // where a module's golden is looked for, in this order
		modules                    int      // how many modules must be found
	}{
		{"llm-compressor NVFP4", "nvfp4-all-linear", "ct", "llm-compressor", []string{"ct.nvfp4.cuda"}, 25},
		{"modelopt NVFP4", "nvfp4-all-linear", "modelopt", "server", []string{"mo.nvfp4_hf.cuda", "mo.nvfp4.cuda"}, 25},
		{"compressed-tensors FP8 per channel", "fp8-dynamic", "ct", "server", []string{"ct.fp8_channel.cuda"}, 9},
		{"modelopt FP8 per channel", "fp8-dynamic", "modelopt", "server", []string{"mo.fp8_channel.cuda"}, 9},
		{"modelopt FP8 per channel on a CPU", "fp8-dynamic", "modelopt-cpu", "server", []string{"mo.fp8_channel.cpu", "mo.fp8_channel.cuda"}, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := line.Job{Body: fixture(t, "tiny"), Output: filepath.Join(t.TempDir(), "out"), Recipe: c.recipe, Math: c.math, Groups: c.groups}
			out, err := line.Quantize(t.Context(), j, "test", line.Reporter{})
			if err != nil || out.Verdict == "fail" {
				t.Fatalf("%+v, %v", out, err)
			}
			m, err := model.Open(j.Output)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			found := 0
			for i := range m.Tensors {
				codes := &m.Tensors[i]
				if codes.Suffix != "weight_packed" && codes.Dtype() != safetensors.F8E4M3 || strings.HasSuffix(codes.Name, "_scale") {
					continue
				}
				if compareModule(t, peers, c.schemes, m, codes) {
					found++
				}
			}
			if found < c.modules {
				t.Errorf("only %d modules have a golden, want %d", found, c.modules)
			}
			t.Logf("%d modules equal the peer's bytes", found)
		})
	}
}

// compareModule compares every part of one module; false when the peers have no entry for it.
func compareModule(t *testing.T, peers *safetensors.File, schemes []string, m *model.Model, codes *model.Tensor) bool {
	t.Helper()
	golden := func(field string) []byte {
		for _, s := range schemes {
			if g, ok := peers.Lookup(s + "/" + codes.Module + "." + field); ok {
				return read(t, safetensors.Ref{File: peers, Tensor: g})
			}
		}
		return nil
	}
	stored := func(suffix string) []byte {
		s, ok := m.Lookup(codes.Module + "." + suffix)
		if !ok {
			t.Fatalf("%s has no %s", codes.Module, suffix)
		}
		return read(t, s.Ref)
	}
	want := golden(codes.Suffix)
	if want == nil {
		want = golden("weight")
	}
	if want == nil {
		return false
	}
	if !bytes.Equal(stored(codes.Suffix), want) {
		t.Errorf("%s: the codes differ", codes.Module)
	}
	if !bytes.Equal(stored("weight_scale"), golden("weight_scale")) {
		t.Errorf("%s: the scales differ", codes.Module)
	}
	if codes.Suffix != "weight_packed" {
		return true
	}
	got := binary.LittleEndian.Uint32(stored("weight_global_scale"))
	if g := golden("weight_global_scale"); g != nil {
		if binary.LittleEndian.Uint32(g) != got {
			t.Errorf("%s: global scale %08x, the peer has %x", codes.Module, got, g)
		}
		return true
	}
	// modelopt stores the reciprocal; which of its two entries holds it depends on what it shared.
	ws2 := math.Float32frombits(binary.LittleEndian.Uint32(golden("weight_scale_2")))
	if want := math.Float32bits(1 / ws2); want != got {
		t.Errorf("%s: global scale %08x, the reciprocal of the peer's is %08x", codes.Module, got, want)
	}
	return true
}

func read(t *testing.T, r safetensors.Ref) []byte {
	t.Helper()
	p := make([]byte, r.Tensor.Bytes())
	if err := r.ReadAt(p, 0); err != nil {
		t.Fatal(err)
	}
	return p
}
