package model

import (
	"bytes"
	"fmt"
	"slices"

	"seatsmith/internal/playbook"
)

// judgeTied compares tie_word_embeddings with the tensors. The flag of text_config counts before the one of the top level
// (public reports QwenLM/Qwen3-VL-Embedding#89, vllm-project/vllm#6758).
func (m *Model) judgeTied() []playbook.Finding {
	const rule, key = "lm-head-tied", "tie_word_embeddings"
	var out []playbook.Finding
	inner, innerSet := m.Config.tied["text_config"]
	outer, outerSet := m.Config.tied[""]
	if innerSet && outerSet && inner != outer {
		out = append(out, playbook.New(rule, configFile+": "+key,
			fmt.Sprintf("text_config says %t and the top level says %t; servers read the one or the other", inner, outer),
			"make both say what the checkpoint is: true without lm_head.weight, false with it").As(playbook.Error))
	}
	lmHead, embed := m.layout.nameOf(RoleLMHead), m.layout.nameOf(RoleEmbedding)
	head, embedding := m.parameter(lmHead), m.parameter(embed)
	field := configFile + ": " + key
	if innerSet {
		field = configFile + ": text_config." + key
	}
	switch {
	case head == nil && m.hides(lmHead), embedding == nil && m.hides(embed):
	case !m.Config.TieEmbeddings && head == nil:
		out = append(out, playbook.New(rule, lmHead,
			key+" is false and lm_head.weight is missing: the server's output layer stays uninitialised",
			"set "+key+" to true if the model was trained tied, or take lm_head.weight from the checkpoint this one was made from").As(playbook.Error))
	case m.Config.TieEmbeddings && head != nil && embedding != nil:
		out = append(out, judgeTiedPair(rule, field, head, embedding))
	case m.Config.TieEmbeddings && head != nil:
		out = append(out, playbook.New(rule, field,
			key+" is true, lm_head.weight is stored and the embedding is missing",
			"set "+key+" to false, and take the embedding from the checkpoint this one was made from").As(playbook.Error))
	}
	return out
}

// judgeTiedPair: a tied model that stores lm_head.weight all the same. The server loads it over the shared weight, so
// different values replace the embedding. Only sampled rows are read here; they tell copies from different matrices, and
// the message says how many were compared.
func judgeTiedPair(rule, field string, head, embedding *Tensor) playbook.Finding {
	const repair = "set tie_word_embeddings to false, or remove lm_head.weight from its shard if the model was trained tied"
	if head.Suffix != "weight" || embedding.Suffix != "weight" || head.Dtype() != embedding.Dtype() || !slices.Equal(head.Shape(), embedding.Shape()) {
		return playbook.New(rule, field,
			fmt.Sprintf("tie_word_embeddings is true, but lm_head.weight (%s %v) is stored beside a different embedding (%s %v)",
				head.Dtype(), head.Shape(), embedding.Dtype(), embedding.Shape()), repair).As(playbook.Error)
	}
	compared, differs, err := sampleRows(head, embedding)
	switch {
	case err != nil:
		return playbook.New(rule, field,
			fmt.Sprintf("tie_word_embeddings is true and lm_head.weight is stored; whether it equals the embedding could not be read: %v", err), repair).As(playbook.Error)
	case differs >= 0:
		return playbook.New(rule, field,
			fmt.Sprintf("tie_word_embeddings is true, but lm_head.weight differs from the embedding (row %d): the server overwrites one with the other", differs), repair).As(playbook.Error)
	}
	return playbook.New(rule, field,
		fmt.Sprintf("tie_word_embeddings is true and lm_head.weight is stored as well; %d of its %d rows were compared and equal the embedding's: a duplicate of %d bytes", compared, head.Shape()[0], head.Bytes()),
		"remove lm_head.weight from its shard to save the bytes").As(playbook.Info)
}

// sampleRows compares up to 16 rows spread over two equally shaped matrices, at most 64 KiB of each. differs is the first
// row that is not equal, -1 when none is.
func sampleRows(a, b *Tensor) (compared int, differs int64, err error) {
	const most, width = 16, 64 << 10
	rows := int64(1)
	if len(a.Shape()) > 0 {
		rows = a.Shape()[0]
	}
	if rows == 0 || a.Bytes() == 0 {
		return 0, -1, nil
	}
	row := a.Bytes() / rows
	x, y := make([]byte, min(row, width)), make([]byte, min(row, width))
	n := min(rows, most)
	for i := range n {
		r := i * (rows - 1) / max(n-1, 1)
		if err := a.ReadAt(x, r*row); err != nil {
			return compared, -1, err
		}
		if err := b.ReadAt(y, r*row); err != nil {
			return compared, -1, err
		}
		if !bytes.Equal(x, y) {
			return compared, r, nil
		}
		compared++
	}
	return compared, -1, nil
}

// parameter finds the tensor that holds a parameter of the unquantized checkpoint, packed or not, nil when none does.
func (m *Model) parameter(base string) *Tensor {
	if t, ok := m.Lookup(base); ok {
		return t
	}
	if t, ok := m.Lookup(base + "_packed"); ok { // "….weight_packed"
		return t
	}
	for i, r := range m.respelled {
		if r.base == base && m.Tensors[i].Holds() {
			return &m.Tensors[i]
		}
	}
	return nil
}
