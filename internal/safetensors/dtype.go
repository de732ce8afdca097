package safetensors

// Dtype is the name of an element type as it stands in a header: "BF16", "F8_E4M3", "U8" …
type Dtype string

// The types that checkpoints are made of. The format knows more; Bits lists them all.
const (
	BF16   Dtype = "BF16"
	F16    Dtype = "F16"
	F32    Dtype = "F32"
	U8     Dtype = "U8"
	F8E4M3 Dtype = "F8_E4M3"
)

// dtypes are the types of upstream's enum in its declaration order, which is the order of increasing alignment that its
// writer sorts by (huggingface/safetensors 0.8.0-dev, commit 24b0b28, safetensors/src/tensor.rs, enum Dtype). A later
// version may add names; a file that uses one is refused here until its width is known.
var dtypes = []struct {
	name Dtype
	bits int64
}{
	{"BOOL", 8},
	{"F4", 4},
	{"F6_E2M3", 6},
	{"F6_E3M2", 6},
	{"U8", 8},
	{"I8", 8},
	{"F8_E5M2", 8},
	{"F8_E4M3", 8},
	{"F8_E8M0", 8},
	{"F8_E4M3FNUZ", 8},
	{"F8_E5M2FNUZ", 8},
	{"I16", 16},
	{"U16", 16},
	{"F16", 16},
	{"BF16", 16},
	{"I32", 32},
	{"U32", 32},
	{"F32", 32},
	{"C64", 64},
	{"F64", 64},
	{"I64", 64},
	{"U64", 64},
}

// dtypeRank is a type's place in dtypes.
var dtypeRank = func() map[Dtype]int {
	ranks := make(map[Dtype]int, len(dtypes))
	for i, d := range dtypes {
		ranks[d.name] = i
	}
	return ranks
}()

// Bits is the size of one element in bits (F4 is 4); ok is false for a name the format does not know.
func (d Dtype) Bits() (bits int64, ok bool) {
	rank, ok := dtypeRank[d]
	if !ok {
		return 0, false
	}
	return dtypes[rank].bits, true
}
