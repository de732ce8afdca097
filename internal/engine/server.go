package engine

import (
	"fmt"
	"slices"
	"strings"
)

// Server is one version of the server, built for one config.json: the modules it would create, target and drafter.
type Server struct {
	Engine  Engine
	Arch    *Arch
	Drafter bool // the MTP head is built as a second model
	Linears []Linear
	Params  []Param

	class   class
	mapper  Mapper
	modules map[string]position // runtime module | shard key
	params  map[string]int      // runtime name
	owners  map[string]bool     // runtime modules of params: never quantized
	cached  map[string]bool     // runtime names of attention modules that take key/value cache scales
}

// position is a shard of a linear. Shard is -1 for a mixture's fused tensor.
type position struct{ linear, shard int }

// Build creates the modules of config.json's class. withDrafter also builds the MTP head, as speculative decoding does,
// where the class has one (Server.Drafter then says so). The error is what stops the server before it reads a tensor, or a
// *ClassError for a class whose loader is not simulated.
func Build(e Engine, config []byte, withDrafter bool) (*Server, error) {
	a, err := ReadArch(config)
	if err != nil {
		return nil, err
	}
	if e.Server != vllm {
		return nil, &ClassError{Class: a.Class, Registered: true, Server: e.Server}
	}
	if a.TextOnly && !e.Has(TextOnlyClass) {
		return nil, &OldError{Class: a.Class}
	}
	c := classes[a.Class]
	s := &Server{Engine: e, Arch: a, Drafter: withDrafter && c.drafter != "", class: c, mapper: newMapper(e, a)}
	b := &builder{a: a}
	c.build(b)
	if s.Drafter {
		b.head()
		if a.Family == Qwen35 { // Qwen3-Next builds its lm_head without the quantization config
			b.lmHead("lm_head", LMHeadMTP)
		}
	}
	s.Linears, s.Params = b.linears, b.params
	s.index()
	return s, nil
}

// OldError is the refusal of a class that this version does not know yet.
type OldError struct{ Class string }

func (e *OldError) Error() string {
	since, source := Since(TextOnlyClass)
	return fmt.Sprintf("class %s is registered since vllm %s only (%s)", e.Class, since, source)
}

func (s *Server) index() {
	s.modules, s.params = map[string]position{}, map[string]int{}
	s.owners, s.cached = map[string]bool{}, map[string]bool{}
	for i := range s.Linears {
		l := &s.Linears[i]
		if l.Place == LMHeadMTP {
			continue // the same stored tensors as the target's
		}
		if strings.HasSuffix(l.Runtime, ".self_attn.qkv_proj") {
			s.cached[strings.TrimSuffix(l.Runtime, "qkv_proj")+"attn"] = true
		}
		for k := range l.Shards {
			name := l.Runtime
			if l.Routed() {
				name, _ = s.weight(l.Shards[k].Name)
			}
			s.modules[name+"|"+l.Shards[k].Key] = position{i, k}
		}
		if l.Routed() {
			s.params[l.Runtime+".gate_up_proj"] = -1 - i
			s.params[l.Runtime+".down_proj"] = -1 - i
		}
	}
	for i, p := range s.Params {
		name, _ := s.weight(p.Name)
		s.params[name] = i
		module, _ := cutLast(name)
		s.owners[module] = true
	}
}

// weight is the path of a stored name through the loaders: names of the head go to the drafter, which keeps "mtp." here
// where the server says "model.".
func (s *Server) weight(name string) (runtime, shard string) {
	if s.Drafter && strings.HasPrefix(name, "mtp.") {
		return fuse(s.mapper.stacked, cacheScale(name))
	}
	return s.mapper.Weight(name)
}

// Fate is what becomes of a stored tensor.
type Fate uint8

const (
	NoPlace    Fate = iota // no parameter takes it: the server stops (fact StrictNames), or skips it with one warning
	InLinear               // a parameter of a linear, by its attribute
	InExperts              // a mixture's tensor with all experts in it
	InParam                // a tensor that is never quantized
	CacheScale             // a key/value cache scale or zero point; without a quantization config it has no place
	Tolerated              // a name that the loader passes over by its ending, whether the model needs it or not
	Skipped                // read by nobody, without a word
)

// Slot is the place of a stored tensor.
type Slot struct {
	Fate    Fate
	Runtime string // the name it was looked for
	Linear  int    // InLinear, InExperts: index in Server.Linears
	Shard   int    // InLinear
	Attr    string // InLinear: "weight_packed"; InExperts: "gate_up_proj", "down_proj"; CacheScale: "k_scale"
	Param   int    // InParam: index in Server.Params
	Never   string // NoPlace: the module exists and is never quantized
}

// Place says what the server does with a stored tensor of this name. An attribute that the scheme of a linear does not
// register still has its place here; Scheme.Tensors decides about attributes.
func (s *Server) Place(name string) Slot {
	if s.class.drafter != "" && !s.Drafter && strings.HasPrefix(name, "mtp.") {
		return Slot{Fate: Skipped, Runtime: name}
	}
	if s.class.skipTied && s.Arch.TieEmbeddings && strings.HasPrefix(name, "lm_head.") {
		return Slot{Fate: Skipped, Runtime: name}
	}
	if s.Arch.Vision != nil && strings.HasPrefix(name, "language_model.mtp.") {
		return Slot{Fate: Skipped, Runtime: name} // the inner model skips "mtp.", the drafter asks for a name that starts so
	}
	runtime, shard := s.weight(name)
	slot := Slot{Runtime: runtime}
	if i, ok := s.params[runtime]; ok {
		if i < 0 {
			slot.Fate, slot.Linear = InExperts, -1-i
			_, slot.Attr = cutLast(runtime)
			return slot
		}
		slot.Fate, slot.Param = InParam, i
		return slot
	}
	module, attr := cutLast(runtime)
	if p, ok := s.modules[module+"|"+shard]; ok {
		slot.Fate, slot.Linear, slot.Shard, slot.Attr = InLinear, p.linear, p.shard, attr
		return slot
	}
	switch {
	case s.cached[module] && slices.Contains(cacheAttrs, attr):
		slot.Fate, slot.Attr = CacheScale, attr
	case tolerated(runtime):
		slot.Fate = Tolerated
	case s.owners[module]:
		slot.Never = module
	}
	return slot
}

// tolerated are the endings and parts that AutoWeightsLoader passes over (models/utils.py, base_config.py).
func tolerated(runtime string) bool {
	for _, end := range []string{".bias", ".q_scale", ".k_scale", ".v_scale", ".q_zero_point", ".k_zero_point", ".v_zero_point"} {
		if strings.HasSuffix(runtime, end) {
			return true
		}
	}
	for _, part := range []string{"rotary_pos_emb.inv_freq", "rotary_emb.inv_freq", "rotary_emb.cos_cached", "rotary_emb.sin_cached"} {
		if strings.Contains(runtime, part) {
			return true
		}
	}
	return false
}

func cutLast(name string) (module, attr string) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", name
	}
	return name[:i], name[i+1:]
}

// fcFact is since when the drafter of the class builds mtp.fc unquantized under modelopt_fp4.
func (s *Server) fcFact() Fact {
	if s.Arch.Family == Qwen3Next {
		return PlainFCNext
	}
	return PlainFC
}
