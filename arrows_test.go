package seatsmith_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// room is a package, its layer and the one sentence that says what belongs in it.
type room struct {
	layer    int
	sentence string
	may      []string // when set, the only rooms it may import
	never    map[string]string
}

// rooms is the table of ARCHITECTURE.md. Imports go downward only. Move a wall when the code shows a better place: change
// the table in the same commit and say why.
var rooms = map[string]room{
	"internal/numeric":         {layer: 0, sentence: "number formats, NVFP4 and FP8 coding, error measures: pure functions on slices, fast paths behind them"},
	"internal/numeric/asmgen":  {layer: 0, sentence: "writes numeric's assembly", may: []string{}},
	"internal/safetensors":     {layer: 0, sentence: "headers with limits, bytes by range, streamed writing"},
	"internal/playbook":        {layer: 0, sentence: "rules and lessons as data, the Finding that cites them, and what keeps claims from changing quietly"},
	"internal/atomicfile":      {layer: 0, sentence: "publishes a file or a folder whole or not at all"},
	"internal/prompt/ordered":  {layer: 0, sentence: "a JSON value that keeps key order and number spelling", may: []string{}},
	"internal/prompt/token":    {layer: 0, sentence: "text to token ids and back, as a tokenizer.json of byte-level BPE says", may: []string{}},
	"internal/prompt/peer":     {layer: 1, sentence: "a second engine's opinion of a render, in a process of its own", may: []string{"internal/prompt/ordered"}},
	"internal/prompt/template": {layer: 1, sentence: "chat templates as Hugging Face's Jinja2 renders them, bounded", may: []string{"internal/prompt/ordered"}},
	"internal/prompt": {layer: 2, sentence: "a conversation to text and tokens, with a checkpoint's own template and tokenizer", may: []string{
		"internal/prompt/ordered", "internal/prompt/peer", "internal/prompt/template", "internal/prompt/token"}},
	"internal/dataset": {layer: 3, sentence: "checks and builds calibration sets", may: []string{
		"internal/playbook", "internal/prompt", "internal/prompt/ordered", "internal/prompt/peer", "internal/prompt/template", "internal/prompt/token"}},
	"internal/model":   {layer: 1, sentence: "a checkpoint opened and understood; headers and small files only, never writes"},
	"internal/dialect": {layer: 1, sentence: "how quantized tensors are spelled and decoded, both ways, with their config files"},
	"internal/engine":  {layer: 1, sentence: "a server per version: matching semantics, required tensors"},
	"internal/plan": {layer: 2, sentence: "decides everything, touches no weights", never: map[string]string{
		"internal/engine": "the judge must not share the planner's idea of what the server does: verify simulates the engine, the planner lists names"}},
	"internal/write": {layer: 3, sentence: "carries out a plan, decides nothing, resumes", never: map[string]string{
		"internal/engine": "the writer decides nothing"}},
	"internal/verify": {layer: 3, sentence: "the judge of finished folders", may: []string{
		"internal/model", "internal/dialect", "internal/engine", "internal/numeric", "internal/safetensors", "internal/playbook"}},
	"internal/diff": {layer: 3, sentence: "a fine-tune against its base: what the training changed, and whether it is there at all", may: []string{
		"internal/model", "internal/numeric", "internal/safetensors", "internal/playbook"}},
	"internal/repair": {layer: 4, sentence: "a repaired copy of a checkpoint, where no weight changes", may: []string{
		"internal/atomicfile", "internal/engine", "internal/model", "internal/playbook", "internal/safetensors", "internal/verify"}},
	"internal/tools": {layer: 4, sentence: "live tool schemas, from MCP servers, endpoints and Python source trees", may: []string{
		"internal/playbook", "internal/prompt/ordered"}},
	"internal/line": {layer: 4, sentence: "the forge pipeline and the run folder"},
	"cmd/seatsmith": {layer: 5, sentence: "flags in, one call, print, exit code; no logic"},
}

// flagReaders are the only rooms that may read flags or the environment.
var flagReaders = []string{"cmd/seatsmith", "internal/numeric/asmgen"}

func TestImportsGoDownwardOnly(t *testing.T) {
	used := map[string]bool{}
	arrows := 0
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		here, known := rooms[s.dir()]
		if !known {
			t.Errorf("%s: %s is not a room of the table; add it with its layer and its one sentence", s.path, s.dir())
			continue
		}
		used[s.dir()] = true
		for _, spec := range s.file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if (path == "os" || path == "flag") && !slices.Contains(flagReaders, s.dir()) {
				for _, call := range []string{"os.Getenv(", "os.LookupEnv(", "os.Args", "flag.Parse("} {
					if strings.Contains(string(s.text), call) {
						t.Errorf("%s uses %s: flags and environment are read only in cmd", s.path, call)
					}
				}
			}
			there, inside := strings.CutPrefix(path, "seatsmith/")
			if !inside {
				continue
			}
			arrows++
			target, known := rooms[there]
			switch {
			case !known:
				t.Errorf("%s imports %s, which is not a room of the table", s.path, path)
			case here.never[there] != "":
				t.Errorf("%s imports %s, which it never may: %s", s.path, there, here.never[there])
			case here.may != nil && !slices.Contains(here.may, there):
				t.Errorf("%s imports %s; %s (%s) may import only %v", s.path, there, s.dir(), here.sentence, here.may)
			case target.layer >= here.layer:
				t.Errorf("%s (layer %d: %s) imports %s (layer %d: %s); imports go downward only",
					s.path, here.layer, here.sentence, there, target.layer, target.sentence)
			}
		}
	}
	for dir := range rooms {
		if !used[dir] {
			t.Errorf("the table names %s, which does not exist", dir)
		}
	}
	if arrows < 15 {
		t.Errorf("only %d imports between rooms found: the test is broken", arrows)
	}
}
