package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"seatsmith/internal/playbook"
)

// reportHead counts the head as the server would find it: under its own prefix only.
func (m *Model) reportHead(x *match) {
	h := Head{Layout: m.head.String(), Promised: m.Config.HeadLayers, Missing: []string{}}
	for i := range m.Expected {
		e := &m.Expected[i]
		if e.Role != RoleHead {
			continue
		}
		h.Expected++
		at := x.stored[i]
		if _, misplaced := m.respelled[at]; at < 0 || misplaced {
			h.Missing = append(h.Missing, e.Name)
			continue
		}
		h.Present++
	}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if t.Role == RoleHead && (quantizedParts[t.Suffix] || !isFloat(t.Dtype())) {
			h.Quantized = true
		}
	}
	h.Ignored = ignores(m.Config.Quantization, headModules(m.Expected))
	m.Head = h
}

// judgeHead: is the head that the configuration promises there, under the name that the server reads?
func (m *Model) judgeHead(x *match) []playbook.Finding {
	var out []playbook.Finding
	stored, misplaced, from, first := 0, 0, "", ""
	for i := range m.Tensors {
		if m.Tensors[i].Role != RoleHead {
			continue
		}
		stored++
		if r, ok := m.respelled[i]; ok && !r.twice {
			if misplaced == 0 {
				from, first = r.from+m.head.stem, m.Tensors[i].Name
			}
			misplaced++
		}
	}
	if !m.head.grafts() {
		return nil
	}
	field := m.head.field(m.Config)
	switch {
	case m.head.promise == "" && stored > 0: // the family has no such key
	case !m.Config.HeadLayersSet && stored > 0:
		out = append(out, playbook.New("head-promise", field,
			fmt.Sprintf("the key is absent, but %s of a head are stored; servers differ in what they take for its absence", tensors(stored)),
			fmt.Sprintf("write %q: 1", m.head.promise)).As(playbook.Warning))
	case m.Config.HeadLayers == 0 && stored > 0:
		out = append(out, playbook.New("head-promise", field,
			fmt.Sprintf("the key says 0, but %s of a head are stored: the drafter is built without layers and fails on them", tensors(stored)),
			fmt.Sprintf("write %q: 1, or remove the tensors", m.head.promise)).As(playbook.Error))
	case m.Config.HeadLayers == 0:
		out = append(out, playbook.New("head-promise", field,
			"no head is promised and none is stored: the model serves without speculation", "give a base model with --donor BASE to add its head").As(playbook.Info))
	}
	if misplaced > 0 {
		out = append(out, playbook.New("head-misplaced", first,
			fmt.Sprintf("%s of the head stand under %q; the drafter reads only %q and runs on uninitialised memory", tensors(misplaced), from, m.head.place()),
			fmt.Sprintf("rename the prefix %q to %q, or replace the head with --donor BASE", from, m.head.place())))
	}
	if at, ok := m.shifted(); ok {
		return append(out, playbook.New("head-misplaced", fmt.Sprintf("%s%d.", m.head.layers, at),
			fmt.Sprintf("the head stands at layer %d, and with num_hidden_layers %d the drafter reads layer %d: it was made for a model of another depth, or the body lost layers", at, m.Config.Layers, m.head.first),
			"give num_hidden_layers the value of the base model if the body is whole, or replace the head with --donor BASE"))
	}
	var missing []string
	for i := range m.Expected {
		if m.Expected[i].Role == RoleHead && x.stored[i] < 0 && !x.hidden[i] {
			missing = append(missing, m.Expected[i].Name)
		}
	}
	if len(missing) > 0 {
		layers := m.Config.HeadLayers
		if !m.Config.HeadLayersSet {
			layers = 1
		}
		plural := "layers"
		if layers == 1 {
			plural = "layer"
		}
		out = append(out, playbook.New("head-missing", m.head.place(),
			fmt.Sprintf("config promises %d MTP %s; %d of %s present, missing: %s",
				layers, plural, m.Head.Expected-len(missing), tensors(m.Head.Expected), strings.Join(missing, ", ")),
			"lay the head of the base model over it: --donor BASE"))
	}
	return out
}

// shifted finds a head in the inline layout that stands at another layer than the configuration makes it stand at.
func (m *Model) shifted() (at int64, ok bool) {
	if m.head.kind != headInline {
		return 0, false
	}
	at = -1
	for i := range m.Tensors {
		layer, mark := m.headMark(m.Tensors[i].Base)
		switch {
		case !mark:
		case layer == m.head.first:
			return 0, false
		case at < 0 || layer < at:
			at = layer
		}
	}
	return at, at >= 0
}

// headMark is the layer of a tensor that only a layer of the head has.
func (m *Model) headMark(base string) (layer int64, ok bool) {
	rest, ok := strings.CutPrefix(base, m.head.layers)
	if !ok {
		return 0, false
	}
	i, path, ok := leadingIndex(rest)
	return int64(i), ok && (path == "enorm.weight" || path == "hnorm.weight" || path == "eh_proj.weight" || strings.HasPrefix(path, "shared_head."))
}

// headPart reports whether a tensor is what makes layer at one of the head.
func (m *Model) headPart(base string, at int64) bool {
	layer, ok := m.headMark(base)
	return ok && layer == at
}

// describeQuantization names method and format of a quantization_config.
func describeQuantization(q json.RawMessage) string {
	var parts []string
	for _, key := range []string{"quant_method", "format", "quant_algo"} {
		if v := gjson.GetBytes(q, key); v.Type == gjson.String && v.Str != "" {
			parts = append(parts, key+" "+v.Str)
		}
	}
	if len(parts) == 0 {
		return "its quantization_config names no quant_method"
	}
	return strings.Join(parts, ", ")
}

// compact removes white space from a JSON value.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if raw == nil || json.Compact(&b, raw) != nil {
		return nil
	}
	return b.Bytes()
}
