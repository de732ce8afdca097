package write

import (
	"errors"
	"fmt"
	"slices"

	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
)

// layOut lays a shard out: anew, or, where the plan says that it is a file of the source as it is, by that file's own
// header, so that the copy is equal byte by byte.
func layOut(s plan.Shard, works []*work, specs []safetensors.Spec) (*safetensors.Layout, error) {
	if !s.Whole {
		return safetensors.NewLayout(specs, map[string]string{"format": "pt"})
	}
	if len(works) == 0 {
		return nil, errors.New("a whole file without tensors: make the plan again")
	}
	f := works[0].ref.File
	for _, w := range works {
		t := w.ref.Tensor
		if w.ref.File != f || len(w.item.Outputs) != 1 || w.item.Outputs[0].Name != t.Name || w.item.Outputs[0].Dtype != t.Dtype || !slices.Equal(w.item.Outputs[0].Shape, t.Shape) {
			return nil, fmt.Errorf("the plan takes %s as it is, and tensor %s is not taken as it is: make the plan again", f.Name, w.item.Source)
		}
	}
	if len(works) != len(f.Tensors) {
		return nil, fmt.Errorf("the plan takes %s as it is, with %d of its %d tensors: make the plan again", f.Name, len(works), len(f.Tensors))
	}
	at := int64(0)
	for _, t := range f.Tensors { // in offset order
		if t.Begin != at {
			return safetensors.NewLayout(specs, map[string]string{"format": "pt"}) // bytes between tensors belong to none, and are not copied
		}
		at = t.End
	}
	if f.DataStart+at != f.Size {
		return safetensors.NewLayout(specs, map[string]string{"format": "pt"})
	}
	head, err := f.RawHeader()
	if err != nil {
		return nil, err
	}
	return &safetensors.Layout{Header: head, Tensors: slices.Clone(f.Tensors), Size: f.Size}, nil
}
