package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// normKinds are norms that a layer of the head shares with the layers of the body.
var normKinds = []string{
	"input_layernorm.weight", "post_attention_layernorm.weight", "self_attn.q_norm.weight", "self_attn.k_norm.weight",
}

const (
	normLayers   = 8       // layers of the body that are sampled per kind
	maxNormElems = 1 << 16 // a norm is one hidden size long
	normShift    = 0.5     // half of the +1.0 that converters add
)

// compareNorms finds a head whose norms were converted. Norm weights of this family are stored as a difference from 1;
// some converters add the 1 when they save (public report ml-explore/mlx-lm#1226). A head converted so loads, has the
// right shapes and drafts nonsense. Per kind of norm the mean over the head's weight is compared with the median of the
// means over the body's layers: shifted is a head that differs in every kind in the same direction by more than half of
// 1. A body without norms to compare with is not judged.
func (m *Model) compareNorms() (playbook.Finding, bool, error) {
	var headMeans, bodyMeans []float64
	up, down := true, true
	for _, kind := range normKinds {
		head, body, err := m.normMeans(kind)
		if err != nil {
			return playbook.Finding{}, false, err
		}
		if len(head) == 0 || len(body) == 0 {
			continue
		}
		h, b := median(head), median(body)
		up = up && h-b > normShift
		down = down && b-h > normShift
		headMeans, bodyMeans = append(headMeans, h), append(bodyMeans, b)
	}
	if len(headMeans) == 0 || !up && !down {
		return playbook.Finding{}, false, nil
	}
	message := "donor norms look shifted by +1 (mean %.2f vs %.2f in the body)"
	fix := "give the base model as its publisher released it, not a converted copy (MLX and others add 1 to norm weights)"
	if down {
		message = "the body's norms look shifted by +1 against the donor's (mean of the donor %.2f vs %.2f)"
		fix = "the body comes from a converter that adds 1 to norm weights: convert it back, or take the fine-tune before conversion"
	}
	return playbook.New("donor-norms-shifted", m.head.prefix()+"*norm.weight",
		fmt.Sprintf(message, mean(headMeans), mean(bodyMeans)), fix), true, nil
}

// normMeans is the mean of each norm of one kind, of the head's layers and of sampled layers of the body.
func (m *Model) normMeans(kind string) (head, body []float64, err error) {
	var inBody []*Tensor
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if !strings.HasSuffix(t.Name, "."+kind) || !isFloat(t.Dtype()) || t.Ref.Tensor.Elements() > maxNormElems {
			continue
		}
		switch t.Role {
		case RoleNorm:
			inBody = append(inBody, t)
		case RoleHead:
			v, err := meanOf(t)
			if err != nil {
				return nil, nil, err
			}
			head = append(head, v)
		}
	}
	n := min(len(inBody), normLayers)
	for i := range n {
		v, err := meanOf(inBody[i*len(inBody)/n])
		if err != nil {
			return nil, nil, err
		}
		body = append(body, v)
	}
	return head, body, nil
}

// meanOf reads a small BF16, F16 or F32 tensor and averages it in float64; an empty one is 0, a NaN makes it NaN.
func meanOf(t *Tensor) (float64, error) {
	buf := make([]byte, t.Bytes())
	if err := t.ReadAt(buf, 0); err != nil {
		return 0, fmt.Errorf("reading %s: %w", t.Name, err)
	}
	sum, n := 0.0, 0
	switch t.Dtype() {
	case safetensors.F32:
		for ; len(buf) >= 4; buf, n = buf[4:], n+1 {
			sum += float64(math.Float32frombits(binary.LittleEndian.Uint32(buf)))
		}
	case safetensors.F16:
		for ; len(buf) >= 2; buf, n = buf[2:], n+1 {
			sum += float64(numeric.FP16ToFloat32(binary.LittleEndian.Uint16(buf)))
		}
	default:
		for ; len(buf) >= 2; buf, n = buf[2:], n+1 {
			sum += float64(numeric.BF16ToFloat32(binary.LittleEndian.Uint16(buf)))
		}
	}
	if n == 0 {
		return 0, nil
	}
	return sum / float64(n), nil
}

// median of at least one value; of an even number, the lower one of the middle.
func median(values []float64) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[(len(sorted)-1)/2]
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
