package dialect

import (
	"fmt"
	"strings"

	"seatsmith/internal/numeric"
	"seatsmith/internal/safetensors"
)

// blockSize is the number of weights, along in, that share one E4M3 scale. Servers fix it: vLLM 017e9f4448 takes no
// other group_size for a tensor_group of 4-bit floats (compressed_tensors.py _is_nvfp4_format).
const blockSize = 16

// CompressedTensors is vLLM's and llm-compressor's spelling.
//
// The tensor names and dtypes are those of the parameters that vLLM 017e9f4448 registers for a module
// (compressed_tensors/schemes/compressed_tensors_w4a4_nvfp4.py and compressed_tensors_w8a8_fp8.py), and of what
// compressed-tensors 0.18.0 writes. No weight_shape is written: these two schemes do not register it, and an unexpected
// tensor stops the server (R6, R31).
func CompressedTensors() Dialect { return compressedTensors{} }

type compressedTensors struct{}

func (compressedTensors) Name() string { return "compressed-tensors" }

func (compressedTensors) Servable(s Scheme) error {
	_, err := ParseScheme(string(s))
	return err
}

func (c compressedTensors) Spell(source string, s Scheme, m numeric.Math, shape []int64) ([]Output, error) {
	if err := c.Servable(s); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	module, out, in, err := matrix(source, s, shape)
	if err != nil {
		return nil, err
	}
	var outputs []Output
	if s.NVFP4() {
		outputs = []Output{
			{module + ".weight_packed", PartCodes, safetensors.U8, []int64{out, in / 2}},
			{module + ".weight_scale", PartBlockScale, safetensors.F8E4M3, []int64{out, in / blockSize}},
			{module + ".weight_global_scale", PartGlobalScale, safetensors.F32, []int64{1}},
		}
		if s == NVFP4W4A4 {
			outputs = append(outputs, Output{module + ".input_global_scale", PartInputScale, safetensors.F32, []int64{1}})
		}
		return outputs, nil
	}
	scale := []int64{out, 1}
	if s == FP8Tensor {
		scale = []int64{1}
	}
	outputs = []Output{
		{module + ".weight", PartCodes, safetensors.F8E4M3, []int64{out, in}},
		{module + ".weight_scale", PartScale, fp8ScaleDtype(m), scale},
	}
	if s == FP8Tensor {
		outputs = append(outputs, Output{module + ".input_scale", PartInputScale, safetensors.F32, []int64{1}})
	}
	return outputs, nil
}

// matrix checks what is to be spelled: the weight of a module, under a scheme that changes it, [out, in] with whole blocks.
func matrix(source string, s Scheme, shape []int64) (module string, out, in int64, err error) {
	module, ok := strings.CutSuffix(source, ".weight")
	switch {
	case !s.Quantized():
		return "", 0, 0, fmt.Errorf("%s: scheme %s changes nothing, so there is nothing to spell", source, s)
	case !ok || module == "":
		return "", 0, 0, fmt.Errorf("%s: only a tensor named MODULE.weight can be quantized", source)
	case len(shape) != 2 || shape[0] <= 0 || shape[1] <= 0:
		return "", 0, 0, fmt.Errorf("%s: shape %v is not a matrix [out, in]", source, shape)
	}
	if out, in = shape[0], shape[1]; s.NVFP4() && in%blockSize != 0 {
		return "", 0, 0, fmt.Errorf("%s: in is %d, and %d mod %d = %d; NVFP4 codes whole blocks of %d", source, in, in, blockSize, in%blockSize, blockSize)
	}
	return module, out, in, nil
}

// fp8ScaleDtype is the dtype of an FP8 weight_scale. compressed-tensors computes it in BF16, the dtype of the weight,
// and stores that; modelopt's arithmetic makes an F32, which BF16 would round once more. vLLM 017e9f4448 holds it as
// float32 [out, 1] either way (fp8_utils.py create_fp8_scale_parameter), and BF16 widens exactly.
func fp8ScaleDtype(m numeric.Math) safetensors.Dtype {
	if m == numeric.CT {
		return safetensors.BF16
	}
	return safetensors.F32
}

// GlobalScale is a divisor here: weight = code * weight_scale / weight_global_scale (R29). modelopt stores the
// reciprocal; one taken for the other gives fluent garbage (modular/modular#6600).
func (compressedTensors) GlobalScale(q numeric.NVFP4) float32 { return q.Divisor() }

// InputScale of NVFP4 divides, as the global scale of the weights does. An FP8 input_scale multiplies.
func (c compressedTensors) InputScale(s Scheme, m numeric.Math, amax float32) (float32, error) {
	return inputScale(c, s, m, amax)
}

// Made is nil: everything stands in config.json.
func (compressedTensors) Made([]Module) (map[string]string, error) { return nil, nil }
