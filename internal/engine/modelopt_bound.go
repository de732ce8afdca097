package engine

import (
	"fmt"
	"slices"
	"strings"
)

// modeloptBound is a modelopt block with its entries mapped to runtime names.
type modeloptBound struct {
	list  []entry         // exclusions after apply_vllm_mapper; written is the entry of the file
	exact map[string]bool // their mapped names
	algos map[string]ModelOptLayer
	below map[string]ModelOptLayer // for each parent of a key: the first key below it
}

// bindModelOpt is apply_vllm_mapper of modelopt.py: an entry "X*" stands for "X" and "X.*" (vllm-project/vllm#30164),
// then each is mapped by the prefix rules.
func (s *Server) bindModelOpt(m *ModelOpt) *modeloptBound {
	b := &modeloptBound{exact: map[string]bool{}, algos: map[string]ModelOptLayer{}, below: map[string]ModelOptLayer{}}
	add := func(written, name string) {
		e := entry{written: written, mapped: s.mapper.prefixes(name)}
		b.list = append(b.list, e)
		b.exact[e.mapped] = true
	}
	for _, w := range m.Exclude {
		if n := len(w); n >= 2 && w[n-1] == '*' && w[n-2] != '.' {
			add(w, w[:n-1])
			add(w, w[:n-1]+".*")
			continue
		}
		add(w, w)
	}
	var keys []string
	for _, l := range m.Layers { // a dictionary: the first of equal names keeps its place, the last its value
		name := s.mapper.prefixes(l.Name)
		if _, seen := b.algos[name]; !seen {
			keys = append(keys, name)
		}
		b.algos[name] = l
	}
	for _, k := range keys {
		for i := strings.LastIndexByte(k, '.'); i >= 0; i = strings.LastIndexByte(k[:i], '.') {
			if _, seen := b.below[k[:i]]; !seen {
				b.below[k[:i]] = b.algos[k]
			}
		}
	}
	return b
}

// excluded is is_layer_excluded: is_layer_skipped of quant_utils.py first (a fused module is asked by its own name or by
// those of all its shards, experts by an entry that holds their name), then every entry as a plain part of the name, then
// as a shell pattern. by is the entry as written. The error is the ValueError of shards that disagree.
func (b *modeloptBound) excluded(name string, packed []Packed) (yes bool, by string, err error) {
	if len(b.list) == 0 {
		return false, "", nil
	}
	if yes, by, err = b.skipped(name, packed); yes || err != nil {
		return yes, by, err
	}
	for i := range b.list {
		if e := &b.list[i]; e.mapped != name && strings.Contains(name, e.mapped) {
			return true, e.written, nil
		}
	}
	for i := range b.list {
		if fnmatch(b.list[i].mapped, name) {
			return true, b.list[i].written, nil
		}
	}
	return false, "", nil
}

func (b *modeloptBound) skipped(name string, packed []Packed) (bool, string, error) {
	last := name[strings.LastIndexByte(name, '.')+1:]
	shards := lookupPacked(packed, last)
	switch {
	case b.exact[name] && (shards != nil || !strings.Contains(name, "experts")):
		return true, b.written(name), nil
	case shards != nil:
		var yes, no []string
		for _, s := range shards {
			if shard := strings.ReplaceAll(name, last, s); b.exact[shard] {
				yes = append(yes, shard)
			} else {
				no = append(no, shard)
			}
		}
		if len(yes) > 0 && len(no) > 0 {
			return false, "", &PartialError{Runtime: name, Ignored: yes, Uncovered: no}
		}
		if len(yes) > 0 {
			return true, b.written(yes[0]), nil
		}
		return false, "", nil
	case strings.Contains(name, "experts"):
		for i := range b.list {
			if e := &b.list[i]; strings.Contains(e.mapped, name) {
				return true, e.written, nil
			}
		}
	}
	return false, "", nil
}

func (b *modeloptBound) written(mapped string) string {
	i := slices.IndexFunc(b.list, func(e entry) bool { return e.mapped == mapped })
	return b.list[i].written
}

// algo is _resolve_quant_algo of a mixed block: by name, by the shards of a fused module, by a key below, by a key beside
// the experts; last by the shards of qkv_proj and gate_up_proj where the model's own mapping does not name them.
func (b *modeloptBound) algo(name string, packed []Packed) (l ModelOptLayer, found bool, err error) {
	for _, c := range spellings(name) {
		if l, found = b.algos[c]; found {
			return l, true, nil
		}
	}
	base, last := cutLast(name)
	if base == "" {
		base = name // rsplit of a name without a dot
	}
	if shards := lookupPacked(packed, last); shards != nil {
		if l, found, err = b.shards(name, base, shards); found || err != nil {
			return l, found, err
		}
	}
	for _, c := range spellings(name) {
		if l, found = b.below[c]; found {
			return l, true, nil
		}
	}
	if parent, ok := strings.CutSuffix(name, ".experts"); ok {
		if l, found = b.below[parent]; found {
			return l, true, nil
		}
	}
	if shards, ok := map[string][]string{"qkv_proj": {"q_proj", "k_proj", "v_proj"}, "gate_up_proj": {"gate_proj", "up_proj"}}[last]; ok {
		return b.shards(name, base, shards)
	}
	return ModelOptLayer{}, false, nil
}

func (b *modeloptBound) shards(name, base string, shards []string) (l ModelOptLayer, found bool, err error) {
	for _, c := range spellings(base) {
		for _, s := range shards {
			got, ok := b.algos[c+"."+s]
			switch {
			case !ok:
			case !found:
				l, found = got, true
			case got.Algo != l.Algo:
				return l, false, &MixedError{Runtime: name, Algos: [2]string{l.Algo, got.Algo}}
			}
		}
	}
	return l, found, nil
}

// spellings is _quantized_layer_prefix_candidates.
func spellings(name string) []string {
	out := []string{name}
	if strings.HasSuffix(name, ".lm_head") {
		out = append(out, "lm_head")
	}
	if rest, ok := strings.CutPrefix(name, "language_model.model."); ok {
		out = append(out, "model.language_model."+rest)
	} else if rest, ok := strings.CutPrefix(name, "model.language_model."); ok {
		out = append(out, "language_model.model."+rest)
	}
	return out
}

// MixedError is the refusal of a fused module whose shards are given different algorithms.
type MixedError struct {
	Runtime string
	Algos   [2]string
}

func (e *MixedError) Error() string {
	return fmt.Sprintf("%s is fused: its shards are given %s and %s (\"Mixed quant_algo within fused layer\")", e.Runtime, e.Algos[0], e.Algos[1])
}

// modelopt is get_quant_method of the class that the block's method names.
func (b *Bound) modelopt(l *Linear, packed []Packed) Resolution {
	m := b.Quantization.ModelOpt
	if b.Quantization.Broken {
		return Resolution{State: Refused, Err: &SchemeError{"", "the block is refused"}}
	}
	if l.Class == lmHeadClass && !b.server.Engine.Has(ModelOptLMHead) {
		return Resolution{}
	}
	yes, by, err := b.opt.excluded(l.Runtime, packed)
	switch {
	case err != nil:
		return Resolution{State: Refused, Err: err}
	case yes:
		return Resolution{Ignored: true, By: by}
	}
	algo := m.Algo
	r := Resolution{}
	if b.Quantization.Method == ModelOptMixed {
		layer, found, err := b.opt.algo(l.Runtime, packed)
		switch {
		case err != nil:
			return Resolution{State: Refused, Err: err}
		case !found:
			return Resolution{}
		}
		algo, r.By = layer.Algo, layer.Name
	} else if strings.Contains(l.Runtime, "vision_tower") || strings.Contains(l.Runtime, "vision_model") || strings.Contains(l.Runtime, "vit_large_projector") {
		return Resolution{Ignored: true, By: "vision_tower"}
	}
	if err := b.tooOld(algo, l); err != nil {
		r.State, r.Err = Refused, err
		return r
	}
	s, ok := m.scheme(algo, l.Routed())
	if !ok {
		r.PassedOver = algo
		return r
	}
	r.Scheme, r.State = s, Quantized
	if s.Kind == FP8 && s.Strategy == "block" {
		out, in := l.size()
		if out%128 != 0 || in%128 != 0 {
			r.State, r.Err = Refused, &SchemeError{"", fmt.Sprintf("FP8_PB_WO needs both sides to be multiples of 128, %s is %d × %d", l.Runtime, out, in)}
		}
	}
	return r
}

// tooOld says what this version does not know yet of a block that later ones read.
func (b *Bound) tooOld(algo string, l *Linear) error {
	e, fact := b.server.Engine, Fact("")
	mixed := b.Quantization.Method == ModelOptMixed
	switch {
	case algo == "W4A16_NVFP4" && !mixed && !e.Has(ModelOptW4A16):
		fact = ModelOptW4A16
	case mixed && (algo == "W4A16_NVFP4" || l.Routed()) && !e.Has(ModelOptMixedMoE):
		fact = ModelOptMixedMoE
	case mixed && b.server.Arch.Vision != nil && !e.Has(ModelOptMixedVL):
		fact = ModelOptMixedVL
	default:
		return nil
	}
	since, source := Since(fact)
	return &VersionError{Engine: e, Fact: fact, Message: fmt.Sprintf("%s of %s is read right since vllm %s only (%s)", algo, l.Runtime, since, source)}
}

// VersionError is the refusal of something that only later versions read right.
type VersionError struct {
	Engine  Engine
	Fact    Fact
	Message string
}

func (e *VersionError) Error() string { return e.Message }

// size is the whole module's: rows of all shards, columns of one.
func (l *Linear) size() (out, in int64) {
	for _, s := range l.Shards {
		out, in = out+s.Out, s.In
	}
	return out, in
}
