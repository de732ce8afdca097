package dialect_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"seatsmith/internal/dialect"
	"seatsmith/internal/safetensors"
)

type stored struct {
	dtype safetensors.Dtype
	data  []byte
}

// disk reads from tensors in memory; a read past the end is an error, as in a truncated file.
func disk(tensors map[string]stored) dialect.Reader {
	return func(name string, p []byte, off int64) (safetensors.Dtype, error) {
		s, ok := tensors[name]
		if !ok {
			return "", errors.New("no such tensor")
		}
		if off < 0 || off+int64(len(p)) > int64(len(s.data)) {
			return s.dtype, fmt.Errorf("bytes %d to %d of %d", off, off+int64(len(p)), len(s.data))
		}
		copy(p, s.data[off:])
		return s.dtype, nil
	}
}

func f32(values ...float32) []byte {
	var out []byte
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

func u16(values ...uint16) []byte {
	var out []byte
	for _, v := range values {
		out = binary.LittleEndian.AppendUint16(out, v)
	}
	return out
}

// TestDecodeFollowsTheFormat decodes hand-made bytes: two rows of 16, of which the second is asked for.
func TestDecodeFollowsTheFormat(t *testing.T) {
	packed := make([]byte, 16)
	packed[8], packed[9] = 0x72, 0x9f // elements 0..3 of row 1: codes 2, 7, 15, 9 = 1, 6, -6, -0.5
	fp8 := make([]byte, 32)
	fp8[16], fp8[17], fp8[18] = 0x38, 0xb8, 0x7e // 1, -1, 448
	global := stored{safetensors.F32, f32(4)}
	for name, c := range map[string]struct {
		scheme  dialect.Scheme
		tensors map[string]stored
		want    []float32
	}{
		"nvfp4 divides by the global scale": {dialect.NVFP4W4A16, map[string]stored{
			"m.weight_packed": {safetensors.U8, packed}, "m.weight_scale": {safetensors.F8E4M3, []byte{0x38, 0x40}}, "m.weight_global_scale": global,
		}, []float32{0.5, 3, -3, -0.25}}, // 0x40 is 2
		"fp8 per channel, F32 scale": {dialect.FP8Channel, map[string]stored{
			"m.weight": {safetensors.F8E4M3, fp8}, "m.weight_scale": {safetensors.F32, f32(9, 0.5)},
		}, []float32{0.5, -0.5, 224, 0}},
		"fp8 per channel, BF16 scale": {dialect.FP8Channel, map[string]stored{
			"m.weight": {safetensors.F8E4M3, fp8}, "m.weight_scale": {safetensors.BF16, u16(0x4000, 0x3f00)},
		}, []float32{0.5, -0.5, 224, 0}},
		"fp8 per tensor": {dialect.FP8Tensor, map[string]stored{
			"m.weight": {safetensors.F8E4M3, fp8}, "m.weight_scale": {safetensors.F32, f32(0.5)},
		}, []float32{0.5, -0.5, 224, 0}},
		"kept BF16": {dialect.BF16, map[string]stored{
			"m.weight": {safetensors.BF16, append(make([]byte, 32), append(u16(0x3f80, 0xbf80), make([]byte, 28)...)...)},
		}, []float32{1, -1, 0, 0}},
		"kept F16": {dialect.BF16, map[string]stored{
			"m.weight": {safetensors.F16, append(make([]byte, 32), append(u16(0x3c00, 0xbc00), make([]byte, 28)...)...)},
		}, []float32{1, -1, 0, 0}},
		"kept F32": {dialect.BF16, map[string]stored{
			"m.weight": {safetensors.F32, append(make([]byte, 64), append(f32(1, -1), make([]byte, 56)...)...)},
		}, []float32{1, -1, 0, 0}},
	} {
		dst := make([]float32, 16)
		if err := dialect.CompressedTensors().Decode(dst, "m", c.scheme, 16, 1, 1, disk(c.tensors)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, want := range append(c.want, make([]float32, 12)...) {
			if dst[i] != want {
				t.Errorf("%s: element %d is %v, want %v (all: %v)", name, i, dst[i], want, dst)
				break
			}
		}
	}
}

func TestDecodeNamesWhatIsWrong(t *testing.T) {
	good := func() map[string]stored {
		return map[string]stored{
			"m.weight_packed": {safetensors.U8, make([]byte, 16)}, "m.weight_scale": {safetensors.F8E4M3, make([]byte, 2)}, "m.weight_global_scale": {safetensors.F32, f32(1)},
			"m.weight": {safetensors.F8E4M3, make([]byte, 32)},
		}
	}
	for name, c := range map[string]struct {
		edit     func(map[string]stored)
		scheme   dialect.Scheme
		in, rows int64
		want     string
	}{
		"missing tensor":           {func(m map[string]stored) { delete(m, "m.weight_global_scale") }, dialect.NVFP4W4A16, 16, 2, "m.weight_global_scale: no such tensor"},
		"block scales as U8":       {func(m map[string]stored) { m["m.weight_scale"] = stored{safetensors.U8, make([]byte, 2)} }, dialect.NVFP4W4A16, 16, 2, "m.weight_scale: dtype is U8, want F8_E4M3"},
		"codes as I8":              {func(m map[string]stored) { m["m.weight_packed"] = stored{"I8", make([]byte, 16)} }, dialect.NVFP4W4A16, 16, 2, "m.weight_packed: dtype is I8"},
		"a scale that is no float": {nil, dialect.FP8Channel, 16, 2, "m.weight_scale: dtype is F8_E4M3, want BF16"},
		"too few rows":             {nil, dialect.NVFP4W4A16, 16, 3, "m.weight_packed: bytes"},
		"an odd width":             {nil, dialect.NVFP4W4A16, 24, 2, "24 mod 16 = 8"},
		"no width":                 {nil, dialect.NVFP4W4A16, 0, 2, "width 0"},
		"negative rows":            {nil, dialect.NVFP4W4A16, 16, -1, "rows"},
		"an unknown scheme":        {nil, "int4", 16, 2, "not known"},
	} {
		tensors := good()
		if c.edit != nil {
			c.edit(tensors)
		}
		dst := make([]float32, max(0, c.rows*c.in))
		if err := dialect.CompressedTensors().Decode(dst, "m", c.scheme, c.in, 0, c.rows, disk(tensors)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if err := dialect.CompressedTensors().Decode(make([]float32, 3), "m", dialect.BF16, 16, 0, 1, disk(good())); err == nil || !strings.Contains(err.Error(), "holds 3") {
		t.Errorf("a destination of the wrong size: %v", err)
	}
	if err := dialect.CompressedTensors().Decode(nil, "m", dialect.BF16, math.MaxInt64, 2, 0, disk(nil)); err != nil {
		t.Errorf("no rows: %v", err)
	}
}

func TestDecodeReadsModelOptsSpelling(t *testing.T) {
	packed := make([]byte, 16)
	packed[8], packed[9] = 0x72, 0x9f // as above
	fp8 := make([]byte, 32)
	fp8[16], fp8[17], fp8[18] = 0x38, 0xb8, 0x7e
	for name, c := range map[string]struct {
		scheme  dialect.Scheme
		tensors map[string]stored
		want    []float32
	}{
		"nvfp4 multiplies by the global scale": {dialect.NVFP4W4A16, map[string]stored{
			"m.weight": {safetensors.U8, packed}, "m.weight_scale": {safetensors.F8E4M3, []byte{0x38, 0x40}}, "m.weight_scale_2": {safetensors.F32, f32(0.25)},
		}, []float32{0.5, 3, -3, -0.25}},
		"nvfp4 with FP4 inputs is the same weight": {dialect.NVFP4W4A4, map[string]stored{
			"m.weight": {safetensors.U8, packed}, "m.weight_scale": {safetensors.F8E4M3, []byte{0x38, 0x40}}, "m.weight_scale_2": {safetensors.F32, f32(0.25)}, "m.input_scale": {safetensors.F32, f32(9)},
		}, []float32{0.5, 3, -3, -0.25}},
		"fp8 per tensor": {dialect.FP8Tensor, map[string]stored{
			"m.weight": {safetensors.F8E4M3, fp8}, "m.weight_scale": {safetensors.F32, f32(0.5)}, "m.input_scale": {safetensors.F32, f32(9)},
		}, []float32{0.5, -0.5, 224, 0}},
		"fp8 per row, as another tool writes it": {dialect.FP8Channel, map[string]stored{
			"m.weight": {safetensors.F8E4M3, fp8}, "m.weight_scale": {safetensors.F32, f32(9, 0.5)},
		}, []float32{0.5, -0.5, 224, 0}},
	} {
		dst := make([]float32, 16)
		if err := dialect.ModelOpt().Decode(dst, "m", c.scheme, 16, 1, 1, disk(c.tensors)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, want := range append(c.want, make([]float32, 12)...) {
			if dst[i] != want {
				t.Errorf("%s: element %d is %v, want %v", name, i, dst[i], want)
				break
			}
		}
	}
	other := map[string]stored{"m.weight_packed": {safetensors.U8, packed}, "m.weight_scale": {safetensors.F8E4M3, []byte{0x38, 0x40}}, "m.weight_global_scale": {safetensors.F32, f32(4)}}
	if err := dialect.ModelOpt().Decode(make([]float32, 16), "m", dialect.NVFP4W4A16, 16, 1, 1, disk(other)); err == nil || !strings.Contains(err.Error(), "m.weight") {
		t.Errorf("the other dialect's names: %v", err)
	}
}
