package model

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// asked is a module of the head as the drafter's server asks for it: under one name, or shard by shard when several
// Linears of the checkpoint fill it.
type asked struct {
	name   string   // "mtp.fc", "mtp.layers.0.self_attn.qkv_proj", "mtp.layers.0.mlp.experts"
	shards []string // "….q_proj", "….k_proj", "….v_proj"; nil for one by itself
	routed bool     // a mixture's experts: one module for all of them
}

// headModules gathers the head's Linears into what the server builds of them. The head keeps its checkpoint names there
// (vLLM 017e9f4448, models/qwen3_5_mtp.py). Of routed experts the names of expert 0 speak for all.
func headModules(expected []Expected) []asked {
	var out []asked
	at := map[string]int{}
	add := func(name, shard string, routed bool) {
		i, ok := at[name]
		if !ok {
			i = len(out)
			at[name] = i
			out = append(out, asked{name: name, routed: routed})
		}
		if shard != "" && !slices.Contains(out[i].shards, shard) {
			out[i].shards = append(out[i].shards, shard)
		}
	}
	for i := range expected {
		e := &expected[i]
		const experts = ".mlp.experts."
		mark := strings.Index(e.Module, experts)
		switch {
		case e.Role != RoleHead || !e.Linear:
		case mark >= 0:
			name := e.Module[:mark+len(experts)-1]
			for _, leaf := range []string{"gate_proj", "up_proj", "down_proj"} {
				add(name, name+".0."+leaf, true)
			}
		case e.Fused != "":
			add(e.Fused, e.Module, false)
		default:
			add(e.Module, "", false)
		}
	}
	return out
}

// ignores reports whether the quantization config leaves every module of the head unquantized, by the semantics of its
// method as vLLM 017e9f4448 has them. It is a first look for people; what a version of a server makes of the list is the
// engine's matter.
func ignores(quantization json.RawMessage, modules []asked) bool {
	if quantization == nil || len(modules) == 0 {
		return false
	}
	root := gjson.ParseBytes(quantization)
	method := strings.ToLower(root.Get("quant_method").Str)
	var covers func(asked) bool
	switch {
	case method == "compressed-tensors":
		covers = coversCompressed(entriesOf(root, "ignore"))
	case strings.HasPrefix(method, "modelopt"):
		key := "ignore"
		if root.Get("quantization").Exists() { // the form of hf_quant_config.json
			key = "quantization.exclude_modules"
		}
		covers = coversModelopt(entriesOf(root, key))
	default:
		list := entriesOf(root, "ignored_layers")
		if len(list) == 0 {
			list = entriesOf(root, "modules_to_not_convert")
		}
		covers = coversExact(list)
		if strings.Contains(method, "awq") {
			covers = coversSubstring(list)
		}
	}
	return !slices.ContainsFunc(modules, func(m asked) bool { return !covers(m) })
}

func entriesOf(root gjson.Result, key string) []string {
	var out []string
	for _, e := range root.Get(key).Array() {
		if e.Type == gjson.String {
			out = append(out, e.Str)
		}
	}
	return out
}

// every says whether a module's shards, or the module itself when it has none, all satisfy yes.
func (a asked) every(yes func(name string) bool) bool {
	if a.shards == nil {
		return yes(a.name)
	}
	return !slices.ContainsFunc(a.shards, func(s string) bool { return !yes(s) })
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, e := range list {
		set[e] = true
	}
	return set
}

// coversCompressed is should_ignore_layer (compressed_tensors/utils.py): equality, or "re:" and a pattern that matches
// from the start; "mtp*" is the name of nothing. A fused name covers its module word for word only, and the name of a
// mixture's experts is never asked. A pattern that only Python understands counts as no match.
func coversCompressed(list []string) func(asked) bool {
	exact := setOf(list)
	var patterns []*regexp.Regexp
	for _, e := range list {
		if expr, ok := strings.CutPrefix(e, "re:"); ok {
			if re, err := regexp.Compile("^(?:" + expr + ")"); err == nil {
				patterns = append(patterns, re)
			}
		}
	}
	yes := func(name string) bool {
		return exact[name] || slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.MatchString(name) })
	}
	return func(a asked) bool { return !a.routed && exact[a.name] || a.every(yes) }
}

// coversExact is is_layer_skipped (quant_utils.py) in its mode "exact": the fused name, or all shards; for experts any
// entry that begins with, or contains, the name of the module.
func coversExact(list []string) func(asked) bool {
	exact := setOf(list)
	return func(a asked) bool {
		if a.routed {
			return slices.ContainsFunc(list, func(e string) bool { return strings.Contains(e, a.name) })
		}
		return exact[a.name] || a.every(func(name string) bool { return exact[name] })
	}
}

// coversSubstring is the same in its mode "substring", which AWQ uses.
func coversSubstring(list []string) func(asked) bool {
	yes := func(name string) bool {
		return slices.ContainsFunc(list, func(e string) bool { return strings.Contains(name, e) })
	}
	return func(a asked) bool {
		if a.routed {
			return yes(a.name)
		}
		return yes(a.name) || a.every(yes)
	}
}

// coversModelopt is is_layer_excluded (modelopt.py): as coversExact, or an entry that is part of the module's name, or a
// shell pattern that matches all of it. "mtp*" is taken for "mtp" and "mtp.*" first (apply_vllm_mapper).
func coversModelopt(list []string) func(asked) bool {
	var entries []string
	for _, e := range list {
		if n := len(e); n >= 2 && e[n-1] == '*' && e[n-2] != '.' {
			entries = append(entries, e[:n-1], e[:n-1]+".*")
		} else {
			entries = append(entries, e)
		}
	}
	exact := coversExact(entries)
	return func(a asked) bool {
		return exact(a) || slices.ContainsFunc(entries, func(e string) bool {
			if strings.Contains(a.name, e) {
				return true
			}
			ok, err := path.Match(shellPattern.Replace(e), a.name)
			return ok && err == nil
		})
	}
}

// shellPattern spells a pattern of Python's fnmatch for package path; names hold no slash, so that a star matches all.
var shellPattern = strings.NewReplacer(`\`, `\\`, "[!", "[^")
