package numeric

import "math"

// LevelNames are the levels that this machine can run.
func LevelNames() (names []string) {
	for _, l := range levels {
		names = append(names, l.name)
	}
	return names
}

// UseLevel makes one level the active one and returns what undoes it.
func UseLevel(name string) (restore func()) {
	before := active
	for _, l := range levels {
		if l.name == name {
			active = l
			return func() { active = before }
		}
	}
	panic("no level " + name)
}

// EncodeFP8BF16Reference is the plain definition of EncodeFP8BF16.
func EncodeFP8BF16Reference(m Math, channel bool, dst, src []byte, scale float32) {
	encodeFP8Reference(dst, src, fp8Divisor(m, channel, scale), fp8RoundsQuotient(m, channel))
}

// DecodeNVFP4Reference is the plain definition of DecodeNVFP4Multiplier.
var DecodeNVFP4Reference = decodeNVFP4Reference

// AddBF16Reference is the plain definition of Error.AddBF16 on an empty Error.
func AddBF16Reference(decoded []float32, src []byte) Error {
	before := active
	active.errors = (*errorSums).add
	defer func() { active = before }()
	var e Error
	e.AddBF16(decoded, src)
	return e
}

// Parts of the plain Go path that have their own claims to hold.
var Reciprocal = reciprocal

func E2M1ByCell(f float32) uint8 { return e2m1Cells[e2m1Cell(math.Float32bits(f))] }

// EncodeFP8F32Reference is the plain definition of EncodeFP8F32.
func EncodeFP8F32Reference(m Math, channel bool, dst, src []byte, scale float32) {
	encodeFP8F32Reference(dst, src, fp8Divisor(m, channel, scale), fp8RoundsQuotient(m, channel))
}

// RoundF32Reference is the plain definition of RoundF32.
var RoundF32Reference = roundF32Reference
