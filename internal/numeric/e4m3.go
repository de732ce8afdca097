package numeric

import "math"

// Codes and values of E4M3FN: bias 7, no infinity, NaN 0x7f and 0xff, 448 (0x7e) the largest, 2^-9
// (0x01) the smallest positive.
const (
	e4m3Max      = 448
	e4m3Smallest = 0x1p-9
	e4m3NaN      = 0x7f
	e4m3MaxCode  = 0x7e
)

// e4m3Values holds the value of every code.
var e4m3Values = func() (t [256]float32) {
	for c := range t {
		sign, exp, man := float64(1), c>>3&15, float64(c&7)
		if c >= 0x80 {
			sign = -1
		}
		switch {
		case c&0x7f == e4m3NaN:
			t[c] = float32(math.NaN())
		case exp == 0:
			t[c] = float32(math.Copysign(math.Ldexp(man, -9), sign))
		default:
			t[c] = float32(sign * math.Ldexp(1+man/8, exp-7))
		}
	}
	return t
}()

// E4M3ToFloat32 is the exact value of an E4M3FN code; 0x7f and 0xff are NaN, 0x80 is -0.
func E4M3ToFloat32(c uint8) float32 { return e4m3Values[c] }

// E4M3FromFloat32 rounds to the nearest E4M3FN value, ties to the even code, and saturates: every
// magnitude above 448, infinity included, gives 448. The sign is kept, that of zero too. NaN gives
// 0x7f or 0xff by its sign.
//
// Within +-464 this equals torch 2.11's .to(float8_e4m3fn); torch turns what is beyond into NaN,
// which a quantizer must never write, hence the saturation.
func E4M3FromFloat32(f float32) uint8 {
	u := math.Float32bits(f)
	sign, a := uint8(u>>24)&0x80, u&0x7fffffff
	switch {
	case a > 0x7f800000:
		return sign | e4m3NaN
	case a >= 0x43e00000: // 448
		return sign | e4m3MaxCode
	case a < 0x3c800000: // below 2^-6: a multiple of 2^-9, which adding 2^14 (one step is 2^-9) rounds to
		return sign | uint8(math.Float32bits(math.Float32frombits(a)+0x1p14)-0x46800000)
	}
	a += 0x7ffff + a>>20&1
	return sign | uint8(a>>20-120<<3)
}
