package dialect

import (
	"encoding/json"
	"fmt"

	"seatsmith/internal/numeric"
	"seatsmith/internal/safetensors"
)

// Dialect is a way to spell quantized tensors on disk.
type Dialect interface {
	// Name is the --dialect name.
	Name() string
	// Servable says why a scheme cannot be spelled or served; nil when it can.
	Servable(s Scheme) error
	// Spell lists the tensors that a [out, in] weight named source ("….weight") becomes under a quantized scheme.
	Spell(source string, s Scheme, m numeric.Math, shape []int64) ([]Output, error)
	// Config renders the quantization_config for these Linear modules (all of them, kept ones too): one JSON object
	// with sorted keys, no line breaks. It is nil, without an error, when no module is quantized.
	Config(modules []Module) (json.RawMessage, error)
	// Made lists the small files, by name, that belong beside config.json for these modules; they agree with Config. It is
	// nil when the dialect has none, or no module is quantized.
	Made(modules []Module) (map[string]string, error)
	// GlobalScale is the number stored for an NVFP4 group.
	GlobalScale(q numeric.NVFP4) float32
	// InputScale is what is stored under PartInputScale of nvfp4-w4a4 and fp8-tensor for activations whose largest
	// magnitude is amax. The error says why that amax gives no scale that a server can use: the result is always finite,
	// positive and, with its reciprocal, a normal float32.
	InputScale(s Scheme, m numeric.Math, amax float32) (float32, error)
	// Decode dequantizes rows [row0, row0+rows) of a [out, in] module, reading its parts through read. dst holds
	// rows*in values. Scales are used as they are stored: a NaN or infinite one gives NaN or infinite values, so that
	// the caller can say which rows suffer.
	Decode(dst []float32, module string, s Scheme, in int64, row0, rows int64, read Reader) error
}

// Reader reads len(p) bytes at byte off of a stored tensor and tells its dtype; with an empty p it only tells the dtype.
type Reader func(name string, p []byte, off int64) (safetensors.Dtype, error)

// Parse finds a dialect by its --dialect name.
func Parse(name string) (Dialect, error) {
	switch name {
	case "compressed-tensors":
		return CompressedTensors(), nil
	case "modelopt":
		return ModelOpt(), nil
	}
	return nil, fmt.Errorf("dialect %q is not known; use compressed-tensors or modelopt", name)
}
