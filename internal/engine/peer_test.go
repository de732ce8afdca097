package engine_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/engine"
)

// The configurations that compressed-tensors 0.18 and llm-compressor 0.13 wrote for the fixtures are read without a
// complaint, and none of their ignore entries counts as dead.
func TestConfigsWrittenByThePeersAreUnderstood(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "numeric", "testdata", "peer_configs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for name, config := range all {
		q, problems, err := engine.ReadQuantization(config)
		if err != nil || len(problems) > 0 {
			t.Errorf("%s: %v, %v", name, problems, err)
		}
		if q == nil || q.Method != engine.CompressedTensors {
			continue
		}
		e, _ := engine.Parse(engine.Default)
		s, err := engine.Build(e, config, true)
		if err != nil {
			if !strings.Contains(string(config), "architectures") {
				continue // a bag of edge tensors
			}
			t.Errorf("%s: %v", name, err)
			continue
		}
		seen++
		b := s.Bind(q)
		var res []engine.Resolution
		for i := range s.Linears {
			r := b.Resolve(&s.Linears[i])
			if r.State == engine.Refused || r.State == engine.Unjudged {
				t.Errorf("%s: %s: %+v", name, s.Linears[i].Runtime, r)
			}
			res = append(res, r)
		}
		for _, d := range b.Dead(res) {
			t.Errorf("%s: dead entry %+v", name, d)
		}
	}
	if seen == 0 {
		t.Error("no configuration of a model was read")
	}
}
