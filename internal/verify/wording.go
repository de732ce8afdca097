package verify

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"seatsmith/internal/engine"
)

// shardNames are the checkpoint modules of a linear, for messages.
func shardNames(l *engine.Linear) string {
	var names []string
	for _, s := range l.Shards {
		names = append(names, s.Name)
	}
	return listed(names, 3)
}

// target names the entry that selects a module.
func target(r engine.Resolution) string { return fmt.Sprintf("target %q", r.By) }

// why says why the server builds a module unquantized.
func why(r engine.Resolution) string {
	if r.Ignored {
		return fmt.Sprintf("ignore entry %q", r.By)
	}
	return "no target matches it"
}

// ignoreHint is the entry that would cover a module that is always kept.
func ignoreHint(l *engine.Linear) string {
	if l.Place == engine.Tower {
		return `"re:.*visual.*"`
	}
	var names []string
	for _, s := range l.Shards {
		names = append(names, fmt.Sprintf("%q", s.Name))
	}
	return strings.Join(names, " and ")
}

func (j *judge) quantKey() string {
	if j.quant == nil {
		return "quantization_config"
	}
	return j.quant.Key
}

func sortedKeys(p parts) []string { return slices.Sorted(maps.Keys(p)) }
