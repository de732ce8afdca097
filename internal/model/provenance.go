package model

// ProvenanceFile is the name of the record that a written checkpoint carries.
const ProvenanceFile = "seatsmith.json"

// Provenance is that record. It depends on source content, recipe, version and arithmetic only: no paths, no dates,
// so the same work gives the same bytes.
type Provenance struct {
	Schema  int                 `json:"schema"` // 1
	Tool    string              `json:"tool"`   // "seatsmith"
	Version string              `json:"version"`
	Kind    string              `json:"kind,omitempty"`    // what made the folder: "" quantize, else graft, splice or convert
	Source  string              `json:"source"`            // fingerprint of the view; of what was quantized, where only the spelling or the head was changed since
	From    string              `json:"from,omitempty"`    // splice and convert: fingerprint of the quantized folder that this one was made from
	Foreign bool                `json:"foreign,omitempty"` // splice and convert: another tool coded the weights, so source is not known
	Plan    string              `json:"plan"`              // plan hash
	Recipe  string              `json:"recipe"`
	Dialect string              `json:"dialect"`
	Math    string              `json:"math"`
	Search  string              `json:"search"`
	Groups  string              `json:"groups"`
	Head    string              `json:"head"`   // "body", "donor" or "none"
	Files   map[string]FileHash `json:"files"`  // every file of the folder but this one
	Native  map[string]float32  `json:"native"` // module -> global scale in the arithmetic's own form (weight_scale_2, or g)
	// Rounded counts, by role, kept tensors of an F32 or F16 source that were rounded to BF16.
	Rounded map[string]Rounded `json:"rounded,omitempty"`
}

// FileHash identifies a file's bytes.
type FileHash struct {
	Bytes  int64  `json:"bytes"`
	BLAKE3 string `json:"blake3"`
	SHA256 string `json:"sha256,omitempty"`
}

// Rounded counts tensors that were rounded to BF16, to nearest, ties to even.
type Rounded struct {
	Tensors int64 `json:"tensors"`
	Values  int64 `json:"values"`
	Changed int64 `json:"changed"` // values that BF16 cannot hold exactly
}
