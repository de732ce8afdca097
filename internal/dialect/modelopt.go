package dialect

import (
	"errors"
	"fmt"

	"seatsmith/internal/numeric"
	"seatsmith/internal/safetensors"
)

// ModelOpt is the spelling of NVIDIA's Model-Optimizer (modelopt).
//
// Names, dtypes and shapes are those that modelopt 0.47.0 exports (export/unified_export_hf.py _export_quantized_weight)
// and that vLLM 017e9f4448 registers (layers/quantization/modelopt.py ModelOptNvFp4LinearMethod, ModelOptFp8LinearMethod):
// scalars have no dimension, and the global scale multiplies.
func ModelOpt() Dialect { return modelOpt{} }

type modelOpt struct{}

func (modelOpt) Name() string { return "modelopt" }

// Servable refuses fp8-channel: a layer of MIXED_PRECISION that says FP8_PER_CHANNEL_PER_TOKEN stays unquantized without a
// word, and the experts of a mixture have no such method at all (vLLM 017e9f4448, modelopt.py
// ModelOptMixedPrecisionConfig.get_quant_method).
func (modelOpt) Servable(s Scheme) error {
	if s == FP8Channel {
		return errors.New("fp8-channel has no form in the modelopt dialect that a server reads beside other schemes: MIXED_PRECISION knows FP8 only with one scale per weight and a static input_scale, and leaves a per-channel layer unquantized without a word. Use fp8-tensor with activation statistics, or the compressed-tensors dialect")
	}
	_, err := ParseScheme(string(s))
	return err
}

func (c modelOpt) Spell(source string, s Scheme, _ numeric.Math, shape []int64) ([]Output, error) {
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
			{module + ".weight", PartCodes, safetensors.U8, []int64{out, in / 2}},
			{module + ".weight_scale", PartBlockScale, safetensors.F8E4M3, []int64{out, in / blockSize}},
			{module + ".weight_scale_2", PartGlobalScale, safetensors.F32, []int64{}},
		}
	} else {
		outputs = []Output{
			{module + ".weight", PartCodes, safetensors.F8E4M3, []int64{out, in}},
			{module + ".weight_scale", PartScale, safetensors.F32, []int64{}},
		}
	}
	if s == NVFP4W4A4 || s == FP8Tensor { // W4A16_NVFP4 has none: a server ignores it, another may refuse it
		outputs = append(outputs, Output{module + ".input_scale", PartInputScale, safetensors.F32, []int64{}})
	}
	return outputs, nil
}

// GlobalScale multiplies here: weight = code * weight_scale * weight_scale_2, the reciprocal of compressed-tensors' (R29).
func (modelOpt) GlobalScale(q numeric.NVFP4) float32 { return q.Multiplier() }

// InputScale multiplies, for NVFP4 and for FP8.
func (c modelOpt) InputScale(s Scheme, m numeric.Math, amax float32) (float32, error) {
	return inputScale(c, s, m, amax)
}

// Decode reads, per row: in/2 + in/16 bytes (NVFP4), in bytes (FP8), or in values of BF16, F16 or F32 (bf16). The
// arithmetic is numeric.DecodeNVFP4Multiplier and numeric.DecodeFP8.
func (c modelOpt) Decode(dst []float32, module string, s Scheme, in int64, row0, rows int64, read Reader) error {
	return decode(c, nvfp4Names{"weight", "weight_scale_2", numeric.DecodeNVFP4Multiplier}, dst, module, s, in, row0, rows, read)
}
