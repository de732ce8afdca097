package plan

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"lukechampine.com/blake3"

	"seatsmith/internal/safetensors"
)

// Statistics say where activation statistics come from; they are part of the plan. Hashes are BLAKE3 in hex.
type Statistics struct {
	Hash     string `json:"hash"`     // of the file
	Data     string `json:"data"`     // of the prompts
	Template string `json:"template"` // of the chat template that rendered them
	Model    string `json:"model"`    // fingerprint of the model that they were measured on
}

// stats is a file of activation statistics: a safetensors file with the metadata {"format": "seatsmith-stats", "schema":
// "1", "data", "template", "model"}, and per module with an input site a tensor "<module>.input_amax", F32 [1]: the largest
// magnitude of the module's input over all tokens.
type stats struct {
	Statistics
	amax map[string]float32
}

const (
	statsFormat = "seatsmith-stats"
	statsSchema = "1"
	amaxSuffix  = ".input_amax"
)

// readStats reads a statistics file. What is wrong with its form is an error that names the file and the tensor; what the
// numbers are worth is judged where they are used.
func readStats(path string) (*stats, error) {
	fail := func(err error) (*stats, error) { return nil, fmt.Errorf("reading the statistics: %w", err) }
	f, err := safetensors.Open(path)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	if got := f.Metadata["format"]; got != statsFormat {
		return fail(fmt.Errorf("%s: its metadata says format %q, want %q: make the file with seatsmith calibrate", path, got, statsFormat))
	}
	if got := f.Metadata["schema"]; got != statsSchema {
		return fail(fmt.Errorf("%s: its metadata says schema %q, this version reads %s", path, got, statsSchema))
	}
	out := &stats{
		Statistics: Statistics{Data: f.Metadata["data"], Template: f.Metadata["template"], Model: f.Metadata["model"]},
		amax:       make(map[string]float32, len(f.Tensors)),
	}
	var four [4]byte
	for _, t := range f.Tensors {
		module, ok := strings.CutSuffix(t.Name, amaxSuffix)
		if !ok {
			continue // other statistics are other commands' business
		}
		if t.Dtype != safetensors.F32 || len(t.Shape) != 1 || t.Shape[0] != 1 {
			return fail(fmt.Errorf("%s: tensor %s is %s %v, want F32 [1]", path, t.Name, t.Dtype, t.Shape))
		}
		if err := f.ReadAt(t, four[:], 0); err != nil {
			return fail(fmt.Errorf("%s: tensor %s: %w", path, t.Name, err))
		}
		out.amax[module] = math.Float32frombits(binary.LittleEndian.Uint32(four[:]))
	}
	if len(out.amax) == 0 {
		return fail(fmt.Errorf("%s: it holds no tensor MODULE%s", path, amaxSuffix))
	}
	if out.Hash, err = hashFile(path); err != nil {
		return fail(err)
	}
	return out, nil
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := blake3.New(32, nil)
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
