package verify_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// inBlocks is the fixture in FP8 with one scale per block of rows × columns.
func inBlocks(rows, cols int64) func(t *testing.T) *folder {
	return func(t *testing.T) *folder {
		f := linear(t)
		f.set("quantization_config.config_groups.group_0.weights", json.RawMessage(fmt.Sprintf(
			`{"num_bits":8,"type":"float","strategy":"block","block_structure":[%d,%d],"symmetric":true,"dynamic":false}`, rows, cols)))
		for name, x := range f.tensors {
			if module, ok := strings.CutSuffix(name, ".weight_scale"); ok {
				w := f.get(module + ".weight")
				n, m := (w.shape[0]+rows-1)/rows, (w.shape[1]+cols-1)/cols
				x.dtype, x.shape, x.data = safetensors.F32, []int64{n, m}, bytes.Repeat(f32(0.01), int(n*m))
			}
		}
		return f
	}
}

// ranked are splits, and every rule that tells of them. The fixture has 4 heads of 32 with gates, 2 key/value heads, a hidden
// size of 128 and MLPs of 384.
var ranked = []struct {
	name, rules, text, engine string
	tp                        int64
	make                      func(t *testing.T) *folder
}{
	{name: "two ranks of NVFP4", tp: 2},
	{name: "a width of 24 on each rank", tp: 16, rules: "tp-split width-group", text: "24 mod 16 = 8"},
	{name: "a width that 32 does not divide", tp: 2, make: func(t *testing.T) *folder { return withWidth(t, 352) }, rules: "width-kernel?", text: "width of 176"},
	{name: "rows that an old kernel refuses", tp: 2, engine: "vllm@0.23", make: func(t *testing.T) *folder { return withWidth(t, 352) }, rules: "width-kernel?", text: "height of 352"},
	{name: "rows that 64 divides", tp: 2, engine: "vllm@0.23"},
	{name: "FP8 per channel", tp: 2, engine: "vllm@0.21", make: fp8Linear},
	{name: "FP8 rows that an old kernel refuses", tp: 2, engine: "vllm@0.21", make: fp8Narrow, rules: "width-kernel?", text: "16 does not divide"},
	{name: "FP8 rows that later ones pad", tp: 2, engine: "vllm@0.22", make: fp8Narrow},
	{name: "whole blocks", tp: 1, make: inBlocks(32, 64)},
	{name: "k is half a block", tp: 1, make: inBlocks(128, 128), rules: "width-block", text: "64 mod 128 = 64"},
	{name: "a rank's width is half a block", tp: 2, make: inBlocks(32, 128), rules: "width-block", text: "64 mod 128 = 64"},
	{name: "whole blocks on each rank", tp: 2, make: inBlocks(32, 32)},
}

// fp8Narrow is the fixture in FP8 with MLPs of 368: half of that is 184, which 16 does not divide.
func fp8Narrow(t *testing.T) *folder {
	f := synth(t, donor, func(f *folder) { f.set("text_config.intermediate_size", 368) })
	out, _ := f.forge("fp8-dynamic")
	return out
}

func TestWhatIsLeftOnEachRankIsJudged(t *testing.T) {
	for _, c := range ranked {
		t.Run(c.name, func(t *testing.T) {
			if c.make == nil {
				c.make = quant0
			}
			r := lint(t, c.make(t), verify.Options{Host: verify.Host{TP: c.tp}, Engine: c.engine})
			only(t, r, strings.Fields(c.rules)...)
			said := ""
			for _, f := range r.Findings {
				said += f.String() + "\n"
			}
			if !strings.Contains(said, c.text) {
				t.Errorf("%q is not said: %s", c.text, said)
			}
		})
	}
}

// The tower is split like the rest, unless it is not built or given to each rank whole.
func TestTheTowerIsSplitUnlessItIsNotBuilt(t *testing.T) {
	f := whole(t)
	f.set("vision_config.num_heads", 1)
	for line, rules := range map[string]string{
		"/m -tp 2":                              "tp-split",
		"/m -tp 2 --language-model-only":        "",
		"/m -tp 2 --mm-encoder-tp-mode data":    "",
		"/m -tp 2 --mm-encoder-tp-mode weights": "tp-split",
	} {
		r := lint(t, f, command(t, line))
		only(t, r, strings.Fields(rules)...)
	}
}
