package model

import (
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// Role is what a tensor is.
type Role string

// The roles. A recipe selects by them, inspect counts by them.
const (
	RoleEmbedding       Role = "embedding"
	RoleLMHead          Role = "lm_head"
	RoleNorm            Role = "norm"
	RoleAttention       Role = "attention"             // q, k, v, o projections of full attention
	RoleLinearAttention Role = "linear_attention"      // in_proj_qkv, in_proj_z, out_proj
	RoleLinearGate      Role = "linear_attention_gate" // in_proj_a, in_proj_b
	RoleConv            Role = "conv"                  // conv1d
	RoleState           Role = "state"                 // A_log, dt_bias
	RoleMLP             Role = "mlp"
	RoleExpert          Role = "expert"
	RoleSharedExpert    Role = "shared_expert"
	RoleRouter          Role = "router" // mlp.gate, shared_expert_gate
	RoleVision          Role = "vision"
	RoleHead            Role = "head" // every tensor of the MTP head, under whatever prefix it stands
	RoleOther           Role = "other"
)

// Origin says which folder of a view a tensor comes from.
type Origin string

// The two folders of a view.
const (
	Body  Origin = "body"
	Donor Origin = "donor"
)

// Tensor is a stored tensor, understood.
type Tensor struct {
	Name   string // as it stands on disk
	Base   string // module and parameter of the unquantized checkpoint: "….q_proj.weight" also for "….q_proj.weight_packed"
	Module string // Base without its last component ("….q_proj"); Base itself for fused experts
	Suffix string // last component of Name: "weight", "weight_packed", "weight_scale", "A_log" …
	Role   Role
	Layer  int    // decoder (or head, or vision) layer index, -1 when none
	Linear bool   // the weight, or a quantized part of the weight, of a Linear that the server builds with a quantization config
	Fused  string // the server's fused spelling of Module, "" when it stands alone
	Origin Origin
	Stored string // the name in its file, where a view calls it by another; "" elsewhere
	safetensors.Ref
}

// Dtype is the stored element type.
func (t *Tensor) Dtype() safetensors.Dtype { return t.Ref.Tensor.Dtype }

// Shape is the stored shape, slowest dimension first: [out, in] for the weight of a Linear.
func (t *Tensor) Shape() []int64 { return t.Ref.Tensor.Shape }

// Bytes is the size of the stored data.
func (t *Tensor) Bytes() int64 { return t.Ref.Tensor.Bytes() }

// Holds reports whether the tensor itself carries the values of its Base (a weight, packed or not), and not a scale or
// another companion of a quantized weight.
func (t *Tensor) Holds() bool { return !quantizedParts[t.Suffix] || t.Suffix == "weight_packed" }

// Expected is a tensor that the configuration implies, in the unquantized checkpoint.
type Expected struct {
	Name   string
	Role   Role
	Layer  int
	Module string
	Linear bool
	Fused  string
	Shape  []int64
	Dtypes []safetensors.Dtype // allowed source dtypes, nil: BF16, F16 or F32
}

// Allows reports whether a source may store the tensor as d.
func (e *Expected) Allows(d safetensors.Dtype) bool {
	if e.Dtypes == nil {
		return d == safetensors.BF16 || d == safetensors.F16 || d == safetensors.F32
	}
	for _, allowed := range e.Dtypes {
		if d == allowed {
			return true
		}
	}
	return false
}

// Head is the report on the MTP head. Its JSON form is the "mtp" field of inspect.
type Head struct {
	Layout    string   `json:"layout"`    // kind and place: "tail mtp.", "inline model.layers.61.", "none"; "" when the family is unknown
	Promised  int64    `json:"promised"`  // layers the config promises
	Expected  int      `json:"expected"`  // tensors that makes
	Present   int      `json:"present"`   // of the expected ones, those stored under the name the server reads
	Missing   []string `json:"missing"`   // the expected ones that are not there, natural order
	Quantized bool     `json:"quantized"` // a tensor of the head is stored quantized
	Ignored   bool     `json:"ignored"`   // the quantization config ignores every Linear of the head
}

// Model is a checkpoint opened and understood, or a donor's head laid over a body. It never changes after Open,
// OpenDonor or Overlay returned it, and may be read from several goroutines.
type Model struct {
	Dir      string
	DonorDir string // "" without a donor
	Family   string // "qwen3_5", "qwen3_5_moe"; "" when unknown
	Config   *Config
	Tensors  []Tensor // natural name order
	Expected []Expected
	Head     Head
	Set      *safetensors.Set
	DonorSet *safetensors.Set
	Files    []CompanionFile    // everything else in the folder(s) that belongs to the checkpoint
	Findings []playbook.Finding // of files and structure, unquantized view

	family    family             // nil when unknown
	head      headLayout         // where the family keeps its head
	layout    *layout            // nil when unknown
	byName    map[string]int     // Tensor.Name -> index into Tensors
	respelled map[int]respelling // tensors under a prefix that the class does not read
	problems  []playbook.Finding // what is wrong with the files themselves
	broken    []playbook.Finding // what is wrong inside companions
	absent    []absence          // companions that the folder should hold and does not
	grafted   bool               // the head is the donor's
}

// CompanionFile is a tokenizer, template, processor or generation file. Origin says whose.
type CompanionFile struct {
	Name   string // relative to the folder
	Path   string
	Origin Origin
}

// Lookup finds a tensor by its name on disk.
func (m *Model) Lookup(name string) (*Tensor, bool) {
	i, ok := m.byName[name]
	if !ok {
		return nil, false
	}
	return &m.Tensors[i], true
}

// Supported says why this family cannot be quantized by this version; nil when it can.
func (m *Model) Supported() error {
	if m.family == nil {
		return unknownError(m.Config)
	}
	return m.family.supported()
}

// StructureOnly reports whether of this family only names, roles and the head's layout are known, and not what a server's
// class does with them: absence of a tensor is then told only of what every such checkpoint has, and a name that is not
// known is no fault.
func (m *Model) StructureOnly() bool {
	_, ok := m.family.(sketch)
	return ok
}
