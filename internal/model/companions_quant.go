package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"seatsmith/internal/safetensors"
)

// QuantFile is modelopt's own description of a quantized folder, beside config.json. It describes the folder that it
// stands in and is never copied as a companion.
const QuantFile = "hf_quant_config.json"

// maxRecordBytes bounds the record that is read; the largest, of one scale per expert, has some 30 MB.
const maxRecordBytes = 64 << 20

// QuantFile reads hf_quant_config.json of the body; nil without an error when there is none.
func (m *Model) QuantFile() ([]byte, error) {
	data, err := safetensors.ReadRegular(filepath.Join(m.Dir, QuantFile), maxConfigBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := checkJSON(data); err != nil {
		return nil, &ConfigError{File: QuantFile, Lines: []string{err.Error()}}
	}
	return data, nil
}

// Record reads the record that seatsmith left in the body's folder; nil without an error when there is none. What it says
// is a claim: who uses it checks it against the tensors.
func (m *Model) Record() (*Provenance, error) {
	data, err := safetensors.ReadRegular(filepath.Join(m.Dir, ProvenanceFile), maxRecordBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var p Provenance
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("%s in %s: %w; remove it to go on without the scales that it keeps", ProvenanceFile, m.Dir, err)
	}
	if p.Schema != 1 {
		return nil, fmt.Errorf("%s in %s: schema %d, this version reads 1", ProvenanceFile, m.Dir, p.Schema)
	}
	return &p, nil
}
