package verify

import (
	"seatsmith/internal/engine"
	"seatsmith/internal/model"
	"seatsmith/internal/safetensors"
)

// kind is how a checkpoint module is spelled on disk.
type kind uint8

const (
	absent   kind = iota
	plain         // weight in a float dtype
	nvfp4         // compressed-tensors: weight_packed, weight_scale, weight_global_scale
	fp8           // weight in E4M3
	modelopt      // modelopt's NVFP4: weight in U8, weight_scale, weight_scale_2
	odd           // something else
)

func (k kind) String() string {
	return [...]string{"not stored", "unquantized", "NVFP4", "FP8", "NVFP4 in modelopt's spelling", "in a form that is not known"}[k]
}

func (k kind) quantized() bool { return k != absent && k != plain }

// plainDtypes are what an unquantized parameter may be stored as; the server converts to the served dtype.
var plainDtypes = []safetensors.Dtype{safetensors.BF16, safetensors.F16, safetensors.F32}

// kindOf reads the spelling off the tensors that are there. A part that was lost does not change what the rest is.
func kindOf(p parts) kind {
	if t := p["weight_packed"]; t != nil {
		if t.Dtype() == safetensors.U8 {
			return nvfp4
		}
		return odd
	}
	if p["weight_scale_2"] != nil {
		return modelopt
	}
	if t := p["weight"]; t != nil {
		switch {
		case t.Dtype() == safetensors.F8E4M3:
			return fp8
		case float(t):
			return plain
		case t.Dtype() == safetensors.U8:
			return modelopt
		}
		return odd
	}
	switch t := p["weight_scale"]; {
	case p["weight_global_scale"] != nil, t != nil && t.Dtype() == safetensors.F8E4M3:
		return nvfp4
	case t != nil:
		return fp8
	}
	return absent
}

func float(t *model.Tensor) bool {
	d := t.Dtype()
	return d == safetensors.BF16 || d == safetensors.F16 || d == safetensors.F32
}

// quantizedPart says whether an attribute belongs to a quantized weight.
func quantizedPart(attr string) bool {
	switch attr {
	case "weight_packed", "weight_scale", "weight_global_scale", "input_global_scale", "weight_scale_2", "input_scale",
		"weight_scale_inv", "weight_zero_point", "weight_shape", "weight_g_idx", "qweight", "qzeros", "scales":
		return true
	}
	return false
}

// stored kinds of a scheme.
func kindFor(s engine.Scheme) kind {
	switch s.Kind {
	case engine.Plain:
		return plain
	case engine.W4A4, engine.W4A16:
		if s.ModelOpt {
			return modelopt
		}
		return nvfp4
	case engine.FP8:
		return fp8
	}
	return odd
}
