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
func target(r engine.Resolution) string {
	switch {
	case r.Group != "":
		return fmt.Sprintf("target %q of %s", r.By, r.Group)
	case r.By != "":
		return fmt.Sprintf("entry %q of quantized_layers", r.By)
	}
	return "quant_algo, which no exclusion takes back,"
}

// why says why the server builds a module unquantized.
func why(r engine.Resolution) string {
	if r.Ignored {
		return fmt.Sprintf("ignore entry %q", r.By)
	}
	if r.PassedOver != "" {
		return fmt.Sprintf("quantized_layers gives it %s, which the server passes over without a word", r.PassedOver)
	}
	return "no target matches it"
}

// ignoreHint is the entry that would cover a module that is always kept.
func (j *judge) ignoreHint(l *engine.Linear) string {
	if l.Place == engine.Tower {
		if j.quant.IsModelOpt() {
			return `"*visual*"`
		}
		return `"re:.*visual.*"`
	}
	var names []string
	for _, s := range l.Shards {
		names = append(names, fmt.Sprintf("%q", s.Name))
	}
	return strings.Join(names, " and ")
}

// ignoreKey is where exclusions stand in the block, in words that a reader of it finds.
func (j *judge) ignoreKey() string {
	switch {
	case j.quant == nil:
		return "quantization_config.ignore"
	case j.quant.ModelOpt != nil && j.quant.ModelOpt.Nested:
		return j.quant.Key + ".quantization.exclude_modules"
	}
	return j.quant.Key + ".ignore"
}

// groupKey is where the arguments of a group stand; a modelopt block has one set of them.
func (j *judge) groupKey(group string) string {
	if group == "" {
		return j.quant.Key
	}
	return j.quant.Key + ".config_groups." + group
}

// headEntry is the entry that keeps the whole head out, in the block's dialect.
func (j *judge) headEntry() string {
	if j.quant.IsModelOpt() {
		return "mtp*"
	}
	return "re:.*mtp.*"
}

func sortedKeys(p parts) []string { return slices.Sorted(maps.Keys(p)) }
