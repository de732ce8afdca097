package model

import (
	"strconv"
	"strings"
)

// quantizedParts are the last components of the tensors that stand for, or beside, one quantized weight. Sources: vLLM
// 017e9f4448, compressed_tensors/schemes and modelopt.py; weight_scale_inv is the block FP8 of the official releases,
// k_scale and its like belong to the KV cache.
var quantizedParts = map[string]bool{
	"weight_packed": true, "weight_scale": true, "weight_global_scale": true, "input_global_scale": true,
	"weight_scale_2": true, "input_scale": true, "weight_scale_inv": true, "weight_zero_point": true,
	"input_zero_point": true, "weight_shape": true, "weight_g_idx": true, "output_scale": true, "pre_quant_scale": true,
	"k_scale": true, "v_scale": true, "q_scale": true, "k_zero_point": true, "v_zero_point": true, "q_zero_point": true,
}

// cacheParts belong to the KV cache; the server takes them at the projection, at the attention, and under .attn.
var cacheParts = map[string]string{
	"k_scale": ".k_proj", "v_scale": ".v_proj", "q_scale": ".q_proj",
	"k_zero_point": ".k_proj", "v_zero_point": ".v_proj", "q_zero_point": ".q_proj",
}

// split takes a name on disk apart: base is the parameter of the unquantized checkpoint that it stands for or beside,
// suffix its last component.
func split(name string) (base, suffix string) {
	dot := strings.LastIndexByte(name, '.')
	suffix = name[dot+1:]
	if dot < 0 {
		return name, suffix
	}
	module := name[:dot]
	if !quantizedParts[suffix] {
		return name, suffix
	}
	if proj := cacheParts[suffix]; proj != "" && !strings.HasSuffix(module, proj) {
		module = strings.TrimSuffix(module, ".attn") + proj
	}
	if isFusedExperts(module) {
		return module, suffix
	}
	return module + ".weight", suffix
}

// isFusedExperts recognises the 3-D parameters that hold one projection of all experts and carry no ".weight".
func isFusedExperts(name string) bool {
	return strings.HasSuffix(name, ".experts.gate_up_proj") || strings.HasSuffix(name, ".experts.down_proj")
}

// moduleOf is the module that a parameter belongs to.
func moduleOf(base string) string {
	if isFusedExperts(base) {
		return base
	}
	if dot := strings.LastIndexByte(base, '.'); dot >= 0 {
		return base[:dot]
	}
	return base
}

// pattern replaces every component that is a number by N, so that tensors of different layers (and experts) of one kind
// fall together.
func pattern(name string) string {
	var b strings.Builder
	for i, part := range strings.Split(name, ".") {
		if i > 0 {
			b.WriteByte('.')
		}
		if isNumber(part) {
			part = "N"
		}
		b.WriteString(part)
	}
	return b.String()
}

func isNumber(s string) bool {
	if s == "" {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// leadingIndex reads "12.rest" as 12 and "rest". An index as no writer spells it ("012", 20 digits) is not one.
func leadingIndex(s string) (index int, rest string, ok bool) {
	digits, rest, found := strings.Cut(s, ".")
	if !found || !isNumber(digits) || len(digits) > 6 || len(digits) > 1 && digits[0] == '0' {
		return 0, "", false
	}
	index, err := strconv.Atoi(digits)
	return index, rest, err == nil
}
