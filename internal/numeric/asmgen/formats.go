package main

// Rounding to a float format with m mantissa bits, done with one float32 addition.
//
// For a magnitude a in the format's range let e be its exponent, or the format's lowest normal exponent
// if that is larger. Near 2^(e+23-m) a float32 has steps of 2^(e-m), which are the format's steps at a.
// So a + 2^(e+23-m) rounds a to the format, ties to even, subnormals included, and leaves k = a/2^(e-m)
// in the low mantissa bits; the code is k + 2^m*(e - lowest).
//
// With E the bits of 2^e, (E >> (23-m)) is 2^m*(e+127). A constant c in the low mantissa bits of the
// magic number, even so that ties stay ties, turns that offset into -lowest, modulo 256: the low byte of
// bits(a + magic) + (E >> (23-m)) is the code.
const (
	e2m1Magic = 22<<23 + 2  // m = 1, lowest 0: 2 + 2*127 is 0 modulo 256
	e4m3Magic = 20<<23 + 56 // m = 3, lowest -6: 56 + 8*127 is 8*6 modulo 256
	e2m1Shift = 22
	e4m3Shift = 20
)

const (
	exponentBits  = 0x7f800000
	magnitudeBits = 0x7fffffff
	signBit       = 0x80000000
)

// A scaleRule is the peer whose block scale a kernel computes.
type scaleRule int

const (
	scaleModelopt scaleRule = iota
	scaleCT
)

const scaleComment = `Codes groups of %d blocks of %s. divisor is fl(6*global) for modelopt, 6 for ct.
Returns the number of collapsed blocks. R8..R11 hold codes, scales, src and the count of groups left.`

const nvfp4Signature = "(codes, scales, src *byte, groups int, global, divisor float32) (collapsed int)"

// An element is the format of the weights that a kernel reads.
type element int

const (
	bf16 element = iota
	f32
)

// size is in bytes.
func (e element) size() int { return 2 + 2*int(e) }

func (e element) String() string { return [...]string{"BF16", "float32"}[e] }

// tag goes into the name of a kernel.
func (e element) tag() string { return [...]string{"", "F32"}[e] }
