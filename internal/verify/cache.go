package verify

import (
	"fmt"
	"strings"

	"seatsmith/internal/engine"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
)

// cache judges a key/value cache scale, which the server takes under any quantization block and has no place for without
// one.
func (j *judge) cache(t *model.Tensor, slot engine.Slot) {
	if j.quant == nil {
		j.stray(t)
		return
	}
	j.fill(j.caches, slot.Runtime, t)
	if !j.dialectKnown {
		return
	}
	if need, ok := j.bound.CacheNeed(slot.Attr); ok {
		j.exact(t, need)
	}
}

// tolerated judges a tensor that the loader passes over because of its name.
func (j *judge) tolerated(t *model.Tensor) {
	if j.expected[t.Base] != nil {
		j.dropped(t)
		return
	}
	scale := strings.HasSuffix(t.Name, "_scale") || strings.HasSuffix(t.Name, "_zero_point")
	if j.quant == nil && scale {
		j.stray(t) // only a quantization config brings the list of endings that are passed over
	}
}

// dropped: the model that config.json describes has the tensor, and the server throws it away without a word. Package
// model tells of biases by what it knows of the family; this is the server's own list of parameters.
func (j *judge) dropped(t *model.Tensor) {
	j.blame(t)
	if j.notes.any("bias-unread") {
		return
	}
	j.notes.join(generic(t.Name), playbook.New("bias-unread", t.Name,
		fmt.Sprintf("config.json gives the model this tensor, but class %s has no parameter for it and its loader passes over it without a word: the served model computes without it", j.srv.Arch.Class),
		"serve the model with a class that has the parameter (vLLM's class reads qkv_bias for q, k and v, and has none for o_proj)"))
}
