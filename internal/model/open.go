package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// maxExpected bounds the list of tensors that a configuration may imply. The largest known checkpoints, one tensor per
// expert, have some 300,000.
const maxExpected = 1 << 20

// Open reads config.json and the headers of every shard of a folder, gives each tensor its role, and judges structure.
// What is wrong with the content becomes a finding; an error is for a folder that cannot be read at all or a config.json
// that says nothing usable (a *ConfigError).
func Open(dir string) (*Model, error) {
	cfg, err := loadConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w; name the folder that holds %s and the shards", dir, err, configFile)
	}
	set, err := safetensors.OpenSet(dir)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	m := &Model{Dir: dir, Config: cfg, Set: set, problems: convert(set.Problems, "")}
	refs := set.Refs()
	sources := make([]source, len(refs))
	for i, r := range refs {
		sources[i] = source{Ref: r, origin: Body}
	}
	m.Files, m.absent, err = companions(dir, cfg)
	m.broken = judgeContents(m.Files, cfg)
	if err == nil {
		err = m.understand(sources, cfg.HeadLayers)
	}
	if err != nil {
		set.Close()
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	m.judge()
	return m, nil
}

// Close closes the shards of the body and of the donor. A view shares its files with the models it was laid over, so one
// Close of any of them ends the others; closing twice is harmless.
func (m *Model) Close() error {
	err := m.Set.Close()
	if m.DonorSet != nil {
		if donorErr := m.DonorSet.Close(); err == nil {
			err = donorErr
		}
	}
	return err
}

// convert turns what is wrong with files into findings, one to one. The rule ids are those of the playbook. who stands
// before the file's name: "" or "donor ".
func convert(problems []safetensors.Problem, who string) []playbook.Finding {
	var out []playbook.Finding
	for _, p := range problems {
		subject := who + baseName(p.File)
		if p.Tensor != "" {
			subject += ": " + p.Tensor
		}
		message := p.Message
		if p.Err != nil && !strings.Contains(message, p.Err.Error()) {
			message += ": " + p.Err.Error()
		}
		out = append(out, playbook.Finding{
			Rule: p.Rule, Severity: playbook.Severity(p.Severity), Subject: subject, Message: message, Fix: p.Fix,
		})
	}
	return out
}

// source is a tensor that goes into a model.
type source struct {
	safetensors.Ref
	origin Origin
	as     string // the name that a view calls it by, where that is not the one in its file
}

// name is what the model calls the tensor.
func (s *source) name() string {
	if s.as != "" {
		return s.as
	}
	return s.Ref.Tensor.Name
}

// stored is its name in its file, where the model calls it by another.
func (s *source) stored() string {
	if s.as == "" {
		return ""
	}
	return s.Ref.Tensor.Name
}

// respelling is a tensor whose name has a prefix that the class does not read.
type respelling struct {
	base     string // the parameter it should be
	from, to string // prefixes
	head     bool
	twice    bool // the prefix is right, and a part at the end stands twice
}

// understand gives every tensor its role. sources are in natural order of names. headLayers is what the configuration
// promises (of the donor, in a view).
func (m *Model) understand(sources []source, headLayers int64) error {
	m.Tensors = make([]Tensor, len(sources))
	m.byName = make(map[string]int, len(sources))
	for i, s := range sources {
		name := s.name()
		base, suffix := split(name)
		m.Tensors[i] = Tensor{
			Name: name, Base: base, Module: moduleOf(base), Suffix: suffix,
			Role: RoleOther, Layer: -1, Origin: s.origin, Stored: s.stored(), Ref: s.Ref,
		}
		m.byName[name] = i
	}
	class, known := classOf(m.Config.Architecture)
	if !known {
		return nil
	}
	m.family, m.Family = class.family, class.family.name()
	textPrefix := m.textPrefix(class)
	m.head = m.family.head(m.Config, textPrefix)
	if !m.Config.HeadLayersSet && m.storesHead() {
		headLayers = m.impliedLayers() // what the server builds without the key (vLLM 017e9f4448, models/qwen3_5_mtp.py)
	}
	m.layout = m.family.layout(m.Config, textPrefix, headLayers)
	m.classify()
	stored := m.storedExperts()
	if n := m.layout.size(stored); n > maxExpected {
		return &ConfigError{File: configFile, Lines: []string{
			fmt.Sprintf("%snum_hidden_layers: the sizes imply %d tensors, more than the %d that are believed", m.Config.TextPlace(), n, maxExpected),
		}}
	}
	m.Expected = m.layout.expected(stored)
	return nil
}

func (m *Model) storesHead() bool {
	return slices.ContainsFunc(m.Tensors, func(t Tensor) bool { return m.head.holds(t.Name) })
}

// impliedLayers is how many layers a head has that no key promises: what the server builds, or, where the family has no
// such key at all, what is stored.
func (m *Model) impliedLayers() int64 {
	if m.head.promise != "" {
		return m.head.implied
	}
	depth := m.head.implied
	for i := range m.Tensors {
		depth = max(depth, m.head.depthOf(m.Tensors[i].Name))
	}
	return depth
}

func (m *Model) anyName(prefix string) bool {
	at, _ := slices.BinarySearchFunc(m.Tensors, prefix, func(t Tensor, prefix string) int {
		if safetensors.NaturalLess(t.Name, prefix) {
			return -1
		}
		return 1
	})
	return at < len(m.Tensors) && strings.HasPrefix(m.Tensors[at].Name, prefix)
}

const (
	wrappedPrefix = "model.language_model."
	flatPrefix    = "model."
)

// textPrefix is what the class wants names of the language model to begin with. The text-only class takes both spellings
// (vLLM, since 2026-08-06, vllm-project/vllm#50355), so there it is the one that is stored.
func (m *Model) textPrefix(c class) string {
	switch f := c.family.(type) {
	case qwen35, qwen35moe:
	case sketch:
		return cmp.Or(f.textPrefix, flatPrefix)
	default:
		return flatPrefix
	}
	if c.vision || !m.anyName(flatPrefix+"layers.") && m.anyName(wrappedPrefix+"layers.") {
		return wrappedPrefix
	}
	return flatPrefix
}

// classify fills role, layer, Linear and fused spelling in from the family's tables; names that the tables do not know
// are tried again under the prefix that they should have.
func (m *Model) classify() {
	var strangers []int
	for i := range m.Tensors {
		t := &m.Tensors[i]
		p := m.layout.place(t.Base)
		if !p.known {
			strangers = append(strangers, i)
		}
		t.apply(p)
	}
	m.respelled = map[int]respelling{}
	taken := map[string]bool{}
	for _, i := range strangers {
		t := &m.Tensors[i]
		base, from, to := m.layout.respell(t.Base, &m.head)
		if base == "" {
			m.takeTwice(i)
			continue
		}
		proper := to + t.Name[len(from):]
		if _, stored := m.byName[proper]; stored || taken[proper] {
			continue
		}
		taken[proper] = true
		p := m.layout.place(base)
		if p.fused != "" {
			p.fused = from + p.fused[len(to):]
		}
		t.apply(p)
		m.respelled[i] = respelling{base: base, from: from, to: to, head: p.role == RoleHead}
	}
}

// apply notes what a tensor is. The scale of a KV cache stands beside a Linear, not for its weight.
func (t *Tensor) apply(p place) {
	t.Role, t.Layer, t.Fused = p.role, p.layer, p.fused
	t.Linear = p.linear && cacheParts[t.Suffix] == ""
}

// wrappers are components that savers put before names or leave out.
var wrappers = []string{"model.", "language_model.", "base_model.", "text_model.", "module.", "_orig_mod.", "transformer."}

// respell finds the parameter that a name under a wrong prefix stands for: the wrappers are taken off, and what is left
// must be in the tables under its proper prefix. "" when it is not.
func (l *layout) respell(base string, head *headLayout) (proper, from, to string) {
	for rest := base; ; {
		to, ok := "", true
		switch {
		case strings.HasPrefix(rest, "layers."), strings.HasPrefix(rest, "embed_tokens."), strings.HasPrefix(rest, "norm."):
			to = l.textPrefix
		case strings.HasPrefix(rest, "visual."):
			to = flatPrefix
		case head.kind != headInline && head.stem != "" && strings.HasPrefix(rest, head.stem):
			to = head.root
		case strings.HasPrefix(rest, "lm_head."):
		default:
			ok = false
		}
		from := base[:len(base)-len(rest)]
		if ok && from != to && l.place(to+rest).known {
			return to + rest, from, to
		}
		wrapper := slices.IndexFunc(wrappers, func(w string) bool { return strings.HasPrefix(rest, w) })
		if wrapper < 0 {
			return "", "", ""
		}
		rest = rest[len(wrappers[wrapper]):]
	}
}

// proper is the parameter that tensor i stands for, under the prefix that it should have.
func (m *Model) proper(i int) string {
	if r, ok := m.respelled[i]; ok {
		return r.base
	}
	return m.Tensors[i].Base
}

// storedExperts tells layer by layer how routed experts are stored; a layer that has none is taken to be like the others.
func (m *Model) storedExperts() expertVariant {
	const mark = "mlp.experts."
	layers := map[string]variant{}
	fallback := perExpert
	for i := range m.Tensors {
		if m.Tensors[i].Role != RoleExpert && m.Tensors[i].Role != RoleHead {
			continue
		}
		base := m.proper(i)
		at := strings.Index(base, mark)
		if at < 0 {
			continue
		}
		if _, _, each := leadingIndex(base[at+len(mark):]); each {
			layers[base[:at]] = perExpert
		} else {
			if layers[base[:at]] == always {
				layers[base[:at]] = allExperts
			}
			fallback = allExperts
		}
	}
	if len(layers) == 0 {
		fallback = allExperts
	}
	return func(prefix string) variant {
		if v, ok := layers[prefix]; ok {
			return v
		}
		return fallback
	}
}
