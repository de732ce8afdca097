package dialect

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// runtimeName is the module that a server builds for m: the fused one, or the one for all routed experts of a layer.
func runtimeName(m Module) string {
	name := m.Name
	if m.Fused != "" {
		name = m.Fused
	}
	if at := strings.Index(name, expertsPart); at >= 0 {
		return name[:at+len(expertsPart)-1]
	}
	return name
}

// expertsPart stands between the layer and the number of a routed expert.
const expertsPart = ".experts."

// modelOptMatcher matches exclusions as vLLM 017e9f4448 does (layers/quantization/modelopt.py is_layer_excluded and
// apply_vllm_mapper, utils/quant_utils.py is_layer_skipped): an entry "X*" stands for "X" and "X.*"; an entry is equal, or a
// plain part of the name, or a shell pattern. Each entry counts under every spelling that a class may map it to.
type modelOptMatcher struct {
	exact   map[string]bool
	plain   []string        // entries without "experts", which is all that can be a part of a name without it
	experts []string        // the others
	above   map[string]bool // names of which an entry is an expert: "….mlp.experts"
	globs   []string
}

func newModelOptMatcher(list []string) *modelOptMatcher {
	m := &modelOptMatcher{exact: map[string]bool{}, above: map[string]bool{}}
	add := func(entry string) {
		for _, s := range spellings(entry) {
			if m.exact[s] {
				continue
			}
			m.exact[s] = true
			if strings.Contains(s, "experts") {
				m.experts = append(m.experts, s)
			} else {
				m.plain = append(m.plain, s)
			}
			if at := strings.Index(s, expertsPart); at >= 0 {
				m.above[s[:at+len(expertsPart)-1]] = true
			}
			if strings.ContainsAny(s, "*?[") {
				m.globs = append(m.globs, s)
			}
		}
	}
	for _, entry := range list {
		if stem, ok := strings.CutSuffix(entry, "*"); ok && stem != "" && !strings.HasSuffix(stem, ".") {
			add(stem)
			add(stem + ".*")
			continue
		}
		add(entry)
	}
	return m
}

// part says whether an entry is the name, a part of it, or a pattern of it.
func (m *modelOptMatcher) part(name string) bool {
	held := func(e string) bool { return strings.Contains(name, e) }
	if slices.ContainsFunc(m.plain, held) || strings.Contains(name, "experts") && slices.ContainsFunc(m.experts, held) {
		return true
	}
	return slices.ContainsFunc(m.globs, func(pattern string) bool { return glob(pattern, name) })
}

// excluded decides about one runtime name. shards are the names of the modules that it is fused of, under the same
// spelling; the error is the server's refusal of a group that is named in part.
func (m *modelOptMatcher) excluded(name string, shards []string) (bool, error) {
	switch {
	case len(shards) > 0 && !m.exact[name]:
		n := 0
		for _, s := range shards {
			if m.exact[s] {
				n++
			}
		}
		if n > 0 && n < len(shards) {
			return false, fmt.Errorf("the ignore list names some but not all modules of %s", name)
		}
		if n > 0 {
			return true, nil
		}
	case strings.Contains(name, "experts"):
		if m.above[name] || slices.ContainsFunc(m.experts, func(e string) bool { return strings.Contains(e, name) }) {
			return true, nil
		}
	}
	return m.part(name), nil
}

// glob is Python's fnmatch for the patterns that are written here: names of modules, which hold no slash, and stars.
func glob(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// modelOptLayers resolves quantized_layers as ModelOptMixedPrecisionConfig._resolve_quant_algo does: by name, by the shards of a
// fused module, by what is below a name, and for routed experts by what is beside them.
type modelOptLayers struct {
	algo  map[string]string
	below map[string]string // some algorithm below this name; the check refuses a module for which it matters which
}

func newModelOptLayers(list map[string]modelOptLayer) modelOptLayers {
	l := modelOptLayers{algo: map[string]string{}, below: map[string]string{}}
	names := make([]string, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names) // the order of the file
	for _, name := range names {
		for _, s := range spellings(name) {
			l.algo[s] = list[name].QuantAlgo
			for i := strings.LastIndexByte(s, '.'); i >= 0; i = strings.LastIndexByte(s[:i], '.') {
				if _, ok := l.below[s[:i]]; !ok {
					l.below[s[:i]] = list[name].QuantAlgo
				}
			}
		}
	}
	return l
}

func (l modelOptLayers) resolve(name string, shards []string) (string, error) {
	if a, ok := l.algo[name]; ok {
		return a, nil
	}
	found := ""
	for _, s := range shards {
		switch a, ok := l.algo[s]; {
		case !ok:
		case found != "" && found != a:
			return "", fmt.Errorf("%s is fused of modules with %s and with %s", name, found, a)
		default:
			found = a
		}
	}
	if found != "" {
		return found, nil
	}
	if a, ok := l.below[name]; ok {
		return a, nil
	}
	if parent, ok := strings.CutSuffix(name, ".experts"); ok {
		return l.below[parent], nil
	}
	return "", nil
}

// checkModelOpt makes sure that a configuration selects exactly what was meant, under every name that a server asks for.
func checkModelOpt(modules []Module, config *modelOptConfig) error {
	ignored := newModelOptMatcher(config.Ignore)
	layers := newModelOptLayers(config.QuantizedLayers)
	type runtime struct {
		shards []Module
		first  Module
	}
	built := map[string]*runtime{}
	var order []string
	for _, m := range modules {
		if m.Plain {
			continue
		}
		name := runtimeName(m)
		r := built[name]
		if r == nil {
			r = &runtime{first: m}
			built[name] = r
			order = append(order, name)
		}
		if r.first.Scheme != m.Scheme {
			return fmt.Errorf("%s is %s and %s is %s, but the server builds both as %s, which has one scheme; give them the same", r.first.Name, r.first.Scheme, m.Name, m.Scheme, name)
		}
		if m.Fused == name {
			r.shards = append(r.shards, m)
		}
	}
	for _, name := range order {
		r := built[name]
		want := ""
		if r.first.Scheme.Quantized() {
			want = algoOf(r.first.Scheme).QuantAlgo
		}
		for i, spelled := range spellings(name) {
			var shards []string
			for _, m := range r.shards {
				shards = append(shards, spellings(m.Name)[i])
			}
			got, err := config.algoFor(ignored, layers, spelled, shards)
			if err != nil {
				return err
			}
			if got != want {
				return fmt.Errorf("%s is %s, but a server that asks for %s would find %s", r.first.Name, r.first.Scheme, spelled, orKept(got))
			}
		}
	}
	return nil
}

// algoFor is the algorithm that a server gives one runtime module, "" for none.
func (config *modelOptConfig) algoFor(ignored *modelOptMatcher, layers modelOptLayers, name string, shards []string) (string, error) {
	if out, err := ignored.excluded(name, shards); out || err != nil {
		return "", err
	}
	if config.QuantAlgo != mixedPrecision {
		return config.QuantAlgo, nil
	}
	return layers.resolve(name, shards)
}

func orKept(algo string) string {
	if algo == "" {
		return "that it is kept"
	}
	return algo
}
