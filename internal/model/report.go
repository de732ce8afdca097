package model

import (
	"encoding/json"

	"seatsmith/internal/playbook"
)

// Report is what inspect prints as JSON. Scripts read these fields; they may grow, never change their names.
type Report struct {
	Family       string             `json:"family"`
	Architecture string             `json:"architecture"`
	Parameters   int64              `json:"parameters"` // logical: a packed weight counts as what it was, scales do not count
	Tensors      int                `json:"tensors"`
	Bytes        int64              `json:"bytes"` // of tensor data
	Roles        map[Role]Tally     `json:"roles"`
	MTP          Head               `json:"mtp"`
	Vision       VisionReport       `json:"vision"`
	Quantization json.RawMessage    `json:"quantization"` // quantization_config as it stands, null without one
	Findings     []playbook.Finding `json:"findings"`
}

// Tally counts the tensors of a role.
type Tally struct {
	Tensors int   `json:"tensors"`
	Bytes   int64 `json:"bytes"`
}

// VisionReport tells whether the tensors of a vision tower are stored.
type VisionReport struct {
	Present bool `json:"present"`
}

// Report sums the checkpoint up.
func (m *Model) Report() Report {
	r := Report{
		Family: m.Family, Architecture: m.Config.Architecture, Tensors: len(m.Tensors),
		Roles: map[Role]Tally{}, MTP: m.Head, Vision: VisionReport{m.hasRole(RoleVision)},
		Quantization: compact(m.Config.Quantization), Findings: append([]playbook.Finding{}, m.Findings...),
	}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		r.Bytes += t.Bytes()
		r.Parameters += t.parameters()
		tally := r.Roles[t.Role]
		tally.Tensors++
		tally.Bytes += t.Bytes()
		r.Roles[t.Role] = tally
	}
	return r
}

// parameters is how many weights of the model a tensor holds. Codes of 4 bits are stored two per byte (U8) or eight per
// 32-bit word.
func (t *Tensor) parameters() int64 {
	if !t.Holds() {
		return 0
	}
	n := t.Ref.Tensor.Elements()
	if !t.Linear && t.Suffix != "weight_packed" {
		return n
	}
	switch t.Dtype() {
	case "U8", "I8":
		if t.Suffix == "weight_packed" || t.Dtype() == "U8" {
			return 2 * n
		}
	case "I32", "U32":
		return 8 * n
	}
	return n
}
