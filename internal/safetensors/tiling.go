package safetensors

import (
	"cmp"
	"fmt"
	"slices"
)

// tile puts the tensors in offset order and checks that they cover the data exactly: no byte twice, none left out, none
// outside the file. Every range is known to be non-negative and as long as its shape says.
func (h *Header) tile(path string) *Problem {
	byOffset := func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End))
	}
	if !slices.IsSortedFunc(h.Tensors, byOffset) {
		slices.SortStableFunc(h.Tensors, byOffset)
		for i := range h.Tensors {
			h.index[h.Tensors[i].Name] = int32(i)
		}
	}
	if p := h.overlaps(path); p != nil {
		return p
	}
	if p := h.holes(path); p != nil {
		return p
	}
	have := h.Size - h.DataStart
	need := int64(0)
	if n := len(h.Tensors); n > 0 {
		need = h.Tensors[n-1].End
	}
	switch {
	case need > have:
		return h.truncated(path, need, have)
	case need < have:
		return &Problem{
			Rule: "tensor-hole", Severity: SeverityError, File: path,
			Message: fmt.Sprintf("trailing bytes: the tensors end at byte %d of the data, the file goes on to byte %d (%d bytes belong to no tensor)", need, have, have-need),
			Fix:     writeAgain,
		}
	}
	return nil
}

// overlaps finds tensors that share bytes, and empty ones inside another.
func (h *Header) overlaps(path string) *Problem {
	var a, b Tensor // the first pair
	var names []string
	far := 0 // the tensor that reaches furthest so far
	for i, t := range h.Tensors {
		if i == 0 {
			continue
		}
		if t.Begin < h.Tensors[far].End {
			if len(names) == 0 {
				a, b = h.Tensors[far], t
			}
			names = append(names, t.Name)
		}
		if t.End > h.Tensors[far].End {
			far = i
		}
	}
	if len(names) == 0 {
		return nil
	}
	message := fmt.Sprintf("overlap: tensors %s [%d, %d] and %s [%d, %d] share bytes", quote(a.Name), a.Begin, a.End, quote(b.Name), b.Begin, b.End)
	if a.Begin == b.Begin && a.End == b.End {
		message = fmt.Sprintf("overlap: tensors %s and %s are aliases of the same bytes [%d, %d]", quote(a.Name), quote(b.Name), a.Begin, a.End)
	}
	if len(names) > 1 {
		message += fmt.Sprintf("; %d tensors begin inside another: %s", len(names), namelist(names, len(names)))
	}
	return &Problem{Rule: "tensor-overlap", Severity: SeverityError, File: path, Tensor: b.Name, Message: message, Fix: writeAgain}
}

// holes finds bytes before the last tensor's end that belong to no tensor.
func (h *Header) holes(path string) *Problem {
	var first, at int64 // the first hole, and the end of what is covered
	var after string
	n := 0
	var missing int64
	for _, t := range h.Tensors {
		if t.Begin > at {
			if n == 0 {
				first, after = at, t.Name
			}
			n++
			missing += t.Begin - at
		}
		at = t.End
	}
	if n == 0 {
		return nil
	}
	t, _ := h.Lookup(after)
	message := fmt.Sprintf("hole: bytes %d–%d of the data, before tensor %s, belong to no tensor", first, t.Begin, quote(after))
	if n > 1 {
		message += fmt.Sprintf("; %d holes of %d bytes in all", n, missing)
	}
	return &Problem{Rule: "tensor-hole", Severity: SeverityError, File: path, Tensor: after, Message: message, Fix: writeAgain}
}

// truncated counts the tensors that the file does not hold in full and names the first ones.
func (h *Header) truncated(path string, need, have int64) *Problem {
	out := 0
	var names []string // the first of them
	for _, t := range h.Tensors {
		if t.End > have {
			if out++; out <= maxNamed {
				names = append(names, t.Name)
			}
		}
	}
	return &Problem{
		Rule: "file-truncated", Severity: SeverityError, File: path, Tensor: names[0],
		Message: fmt.Sprintf("truncated: needs %d bytes, has %d (%d missing); %d of %s out of range: %s",
			uint64(h.DataStart)+uint64(need), h.Size, need-have, out, count(len(h.Tensors), "tensor"), namelist(names, out)),
		Fix: copyAgain,
	}
}

// Unaligned counts the tensors whose first byte in the file is no multiple of their element's size. The format allows
// it (ggml-org/llama.cpp#18291), so such data must be copied before it is looked at as wider numbers; old writers that
// did not pad the header made such files.
func (h *Header) Unaligned() int {
	n := 0
	for _, t := range h.Tensors {
		width, _ := t.Dtype.Bits()
		if align := max(width/8, 1); (h.DataStart+t.Begin)%align != 0 {
			n++
		}
	}
	return n
}
