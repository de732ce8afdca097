package numeric

// A level is one implementation of the inner loops. All levels give the same bytes; they differ in
// speed and in what the machine must have.
type level struct {
	name string
	// amax is the largest magnitude of src, as an integer. What ends in F32 reads float32, all else BF16.
	amax    func(src []byte) uint16
	amaxF32 func(src []byte) uint32
	// nvfp4 codes whole blocks; q.Global is finite and positive, the lengths match.
	nvfp4    func(q NVFP4, codes, scales, src []byte) (collapsed int)
	nvfp4F32 func(q NVFP4, codes, scales, src []byte) (collapsed int)
	// fp8 codes quotients, rounded to BF16 first if round; divisor is finite and positive.
	fp8    func(dst, src []byte, divisor float32, round bool)
	fp8F32 func(dst, src []byte, divisor float32, round bool)
	// widenF16 and widenE4M3 make float32, roundF32 makes BF16 of it; top is the largest magnitude, as an integer.
	widenF16  func(dst, src []byte)
	widenE4M3 func(dst, src []byte, scale float32)
	roundF32  func(dst, src []byte) (changed int64, top uint32)
	// decode multiplies, see DecodeNVFP4Multiplier.
	decode func(dst []float32, codes, scales []byte, multiplier float32)
	// errors adds to the partial sums, see errorSums.add.
	errors func(p *errorSums, decoded []float32, src []byte)
}

// goLevel runs everywhere.
var goLevel = level{
	name:  "go",
	amax:  amaxBits,
	nvfp4: NVFP4.encodeGo,
	fp8:   encodeFP8Go,

	amaxF32:  amaxBitsF32,
	nvfp4F32: NVFP4.encodeF32Go,
	fp8F32:   encodeFP8F32Go,

	widenF16:  widenF16Go,
	widenE4M3: widenE4M3Go,
	roundF32:  roundF32Go,

	decode: decodeNVFP4Reference,
	errors: (*errorSums).addGo,
}

// levels are those that this machine can run, slowest first; active is the one in use. Only tests
// change it.
var (
	levels = machineLevels()
	active = levels[len(levels)-1]
)
