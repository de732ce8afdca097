package dialect

import (
	"encoding/binary"
	"fmt"
	"math"

	"seatsmith/internal/numeric"
	"seatsmith/internal/safetensors"
)

// maxElements bounds rows*in, so that byte counts cannot overflow.
const maxElements = math.MaxInt64 / 8

// Decode reads, per row: in/2 + in/16 bytes (NVFP4), in bytes and one scale (FP8), or in values of BF16, F16 or F32
// (bf16). The arithmetic is numeric.DecodeNVFP4 and numeric.DecodeFP8.
func (c compressedTensors) Decode(dst []float32, module string, s Scheme, in int64, row0, rows int64, read Reader) error {
	return decode(c, nvfp4Names{"weight_packed", "weight_global_scale", numeric.DecodeNVFP4}, dst, module, s, in, row0, rows, read)
}

// nvfp4Names is what the dialects differ in when they are read: the names of codes and global scale, and whether the scale
// divides or multiplies.
type nvfp4Names struct {
	codes, global string
	values        func(dst []float32, codes, scales []byte, global float32)
}

func decode(c Dialect, names nvfp4Names, dst []float32, module string, s Scheme, in int64, row0, rows int64, read Reader) error {
	switch {
	case in <= 0 || row0 < 0 || rows < 0 || (rows > 0 && row0+rows > maxElements/in):
		return fmt.Errorf("%s: cannot read rows %d to %d of width %d", module, row0, row0+rows, in)
	case int64(len(dst)) != rows*in:
		return fmt.Errorf("%s: %d rows of width %d make %d values, the destination holds %d", module, rows, in, rows*in, len(dst))
	case rows == 0:
		return nil
	}
	switch {
	case s.NVFP4():
		return decodeNVFP4(names, dst, module, in, row0, rows, read)
	case s.FP8():
		return decodeFP8(dst, module, s, in, row0, rows, read)
	case s == BF16:
		return decodeKept(dst, module+".weight", in, row0, read)
	}
	return fmt.Errorf("%s: %w", module, c.Servable(s))
}

func decodeNVFP4(names nvfp4Names, dst []float32, module string, in, row0, rows int64, read Reader) error {
	if in%blockSize != 0 {
		return fmt.Errorf("%s: in is %d, and %d mod %d = %d; it cannot hold NVFP4", module, in, in, blockSize, in%blockSize)
	}
	codes, scales, global := make([]byte, rows*in/2), make([]byte, rows*in/blockSize), make([]byte, 4)
	for _, part := range []struct {
		name string
		p    []byte
		off  int64
		want safetensors.Dtype
	}{
		{module + "." + names.codes, codes, row0 * in / 2, safetensors.U8},
		{module + ".weight_scale", scales, row0 * in / blockSize, safetensors.F8E4M3},
		{module + "." + names.global, global, 0, safetensors.F32},
	} {
		if err := readAs(part.name, part.p, part.off, part.want, read); err != nil {
			return err
		}
	}
	names.values(dst, codes, scales, math.Float32frombits(binary.LittleEndian.Uint32(global)))
	return nil
}

func decodeFP8(dst []float32, module string, s Scheme, in, row0, rows int64, read Reader) error {
	codes := make([]byte, rows*in)
	if err := readAs(module+".weight", codes, row0*in, safetensors.F8E4M3, read); err != nil {
		return err
	}
	first, count := row0, rows
	if s == FP8Tensor {
		first, count = 0, 1
	}
	scales := make([]float32, count)
	if err := readFloats(scales, module+".weight_scale", first, read); err != nil {
		return err
	}
	for r := range rows {
		scale := scales[0]
		if s == FP8Channel {
			scale = scales[r]
		}
		numeric.DecodeFP8(dst[r*in:(r+1)*in], codes[r*in:(r+1)*in], scale)
	}
	return nil
}

func decodeKept(dst []float32, name string, in, row0 int64, read Reader) error {
	return readFloats(dst, name, row0*in, read)
}

// readAs reads p and refuses another dtype: a server converts silently what it was not told (R8).
func readAs(name string, p []byte, off int64, want safetensors.Dtype, read Reader) error {
	got, err := read(name, p, off)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if got != want {
		return fmt.Errorf("%s: dtype is %s, want %s", name, got, want)
	}
	return nil
}

// readFloats reads len(dst) elements from element first of a BF16, F16 or F32 tensor, widened exactly.
func readFloats(dst []float32, name string, first int64, read Reader) error {
	dtype, err := read(name, nil, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	size := int64(2)
	switch dtype {
	case safetensors.F32:
		size = 4
	case safetensors.BF16, safetensors.F16:
	default:
		return fmt.Errorf("%s: dtype is %s, want BF16, F16 or F32", name, dtype)
	}
	p := make([]byte, int64(len(dst))*size)
	if err := readAs(name, p, first*size, dtype, read); err != nil {
		return err
	}
	for i := range dst {
		switch dtype {
		case safetensors.F32:
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(p[4*i:]))
		case safetensors.BF16:
			dst[i] = numeric.BF16ToFloat32(binary.LittleEndian.Uint16(p[2*i:]))
		default:
			dst[i] = numeric.FP16ToFloat32(binary.LittleEndian.Uint16(p[2*i:]))
		}
	}
	return nil
}
