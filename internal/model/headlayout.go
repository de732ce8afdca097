package model

import (
	"fmt"
	"strings"
)

// headKind is where the checkpoints of a family keep the multi-token-prediction head.
type headKind string

const (
	headNone   headKind = "none"           // the family has no head
	headTail   headKind = "tail"           // under a top-level prefix of its own: mtp.
	headInline headKind = "inline"         // decoder layers N, N+1 … behind the N layers of the body
	headNested headKind = "nested"         // inside the model's prefix: model.mtp_layers., model.mtp.layers.
	headOwn    headKind = "own repository" // a checkpoint of its own, with its own config.json: never grafted
)

// headLayout is a family's answer to every question about the place of a head: which stored names are its, which key of
// config.json promises it, and how to call it. The zero value is a family that nobody knows; nothing is then a head.
type headLayout struct {
	kind headKind
	// root is what the names begin with because the model is wrapped ("model.language_model."), stem what tells the head
	// apart below it. Together they begin every name of the head: "" and "mtp.", "model." and "mtp_layers.".
	root, stem string
	layers     string // what stands before the index of a layer: "mtp.layers.", "model.layers."; "" when there are none
	first      int64  // the index of the head's first layer: N in the inline layout, 0 in all others
	promise    string // the key that says how many layers there are, below TextPlace; "" when no key does
	implied    int64  // layers that the server builds when the key is absent and the tensors are there
	side       string // a file beside the shards that publishers keep the head in, "" in most families
	where      string // own repository: what it is called
}

// holds reports whether a stored name belongs to the head.
func (h *headLayout) holds(name string) bool {
	if !h.grafts() || !strings.HasPrefix(name, h.prefix()) {
		return false
	}
	return h.kind != headInline || h.depthOf(name) > 0
}

// depthOf is how many layers a head has at least that holds this name: 1 for its first layer, 0 for a name outside its
// layers.
func (h *headLayout) depthOf(name string) int64 {
	rest, ok := strings.CutPrefix(name, h.layers)
	if !ok || h.layers == "" {
		return 0
	}
	i, _, ok := leadingIndex(rest)
	if !ok || int64(i) < h.first || int64(i)-h.first >= maxHeadLayers {
		return 0
	}
	return int64(i) - h.first + 1
}

// prefix begins every name of the head; in the inline layout names of the body begin with it too.
func (h *headLayout) prefix() string { return h.root + h.stem }

// grafts reports whether a head can stand in the same checkpoint at all.
func (h *headLayout) grafts() bool {
	return h.kind == headTail || h.kind == headInline || h.kind == headNested
}

// place is the prefix of the head for messages: "mtp.", "model.layers.61.".
func (h *headLayout) place() string {
	if h.kind == headInline {
		return fmt.Sprintf("%s%d.", h.layers, h.first)
	}
	return h.prefix()
}

// String is the kind and the place: "tail mtp.", "inline model.layers.61.", "none".
func (h *headLayout) String() string {
	switch h.kind {
	case "":
		return ""
	case headNone:
		return string(headNone)
	case headOwn:
		if h.where == "" {
			return string(headOwn)
		}
		return string(headOwn) + " " + h.where
	}
	return string(h.kind) + " " + h.place()
}

// field is the key of the promise as a message names it.
func (h *headLayout) field(c *Config) string { return configFile + ": " + c.TextPlace() + h.promise }

// tailHead is the layout of the Qwen families and their kin.
func tailHead(promise string) headLayout {
	return headLayout{kind: headTail, stem: "mtp.", layers: "mtp.layers.", promise: promise, implied: 1}
}

// inlineHead is the layout of DeepSeek, GLM and their kin: the head is the layers behind the last one of the body, so its
// names move with the number of layers.
func inlineHead(c *Config, textPrefix, promise string) headLayout {
	return headLayout{kind: headInline, root: textPrefix, stem: "layers.", layers: textPrefix + "layers.", first: c.Layers, promise: promise, implied: 1}
}

// nestedHead is a head at stem below root, whose layers follow at once: model.mtp_layers.0.
func nestedHead(root, stem, layers, promise string) headLayout {
	return headLayout{kind: headNested, root: root, stem: stem, layers: root + layers, promise: promise, implied: 1}
}

// readPromise reads the key that promises a head. A key inside an object is spelled "mtp_config.num_nextn_predict_layers".
func readPromise(text *fields, key string) (layers int64, set bool) {
	if key == "" {
		return 0, false
	}
	if object, inner, nested := strings.Cut(key, "."); nested {
		o := text.object(object)
		if !o.Exists() {
			return 0, false
		}
		return text.child(object, o).count(inner, maxHeadLayers)
	}
	return text.count(key, maxHeadLayers)
}

// headMarks are components that only a head has, in any layout that is known: where config.json does not say what family
// a donor is of, a name with one of them may belong to a head.
var headMarks = []string{"mtp.", "mtp_", "enorm.", "hnorm.", "eh_proj.", "shared_head.", "nextn"}

// mayBeHead serves a donor without a config.json: it does not tell what is a head, only what may be one.
func mayBeHead(name string) bool {
	for _, mark := range headMarks {
		if strings.HasPrefix(name, mark) || strings.Contains(name, "."+mark) {
			return true
		}
	}
	return false
}
