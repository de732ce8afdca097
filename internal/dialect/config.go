package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"seatsmith/internal/safetensors"
)

// formatVersion is what the "version" key says: the compressed-tensors release whose configuration was read key by key
// and whose bytes are the test data of package numeric. vLLM 017e9f4448 does not read the key; other loaders use it to
// tell old layouts from this one, so it names the layout, not this program.
const formatVersion = "0.18.0"

// quantizationConfig has the keys that llm-compressor's model_free_ptq writes with compressed-tensors 0.18.0, sorted as
// it sorts them. Its other writer, oneshot, adds an empty sparsity_config, which vLLM calls deprecated.
type quantizationConfig struct {
	ConfigGroups           map[string]configGroup `json:"config_groups"`
	Format                 string                 `json:"format"`
	GlobalCompressionRatio *float64               `json:"global_compression_ratio"`
	Ignore                 []string               `json:"ignore"`
	KVCacheScheme          *configArgs            `json:"kv_cache_scheme"`
	QuantMethod            string                 `json:"quant_method"`
	QuantizationStatus     string                 `json:"quantization_status"`
	TransformConfig        struct{}               `json:"transform_config"`
	Version                string                 `json:"version"`
}

type configGroup struct {
	Format            string      `json:"format"`
	InputActivations  *configArgs `json:"input_activations"`
	OutputActivations *configArgs `json:"output_activations"`
	Targets           []string    `json:"targets"`
	Weights           *configArgs `json:"weights"`
}

// configArgs is compressed-tensors' QuantizationArgs with every key, as the peers write it.
type configArgs struct {
	ActOrder       *string  `json:"actorder"`
	BlockStructure []int64  `json:"block_structure"`
	Dynamic        any      `json:"dynamic"` // false, true or "local"
	GroupSize      *int64   `json:"group_size"`
	NumBits        int      `json:"num_bits"`
	Observer       *string  `json:"observer"`
	ObserverKwargs struct{} `json:"observer_kwargs"`
	ScaleDtype     *string  `json:"scale_dtype"`
	Strategy       string   `json:"strategy"`
	Symmetric      bool     `json:"symmetric"`
	Type           string   `json:"type"`
	ZPDtype        *string  `json:"zp_dtype"`
}

// newGroup is the group of one scheme without its targets. The values are those of the presets NVFP4, NVFP4A16, FP8 and
// FP8_DYNAMIC of compressed-tensors 0.18.0. An FP8 group needs its own format: under a global mixed-precision vLLM finds no
// scheme for it otherwise (R27).
func newGroup(s Scheme) configGroup {
	weights, inputs := "memoryless_minmax", "static_minmax"
	if s.NVFP4() {
		size, scale := int64(blockSize), "torch.float8_e4m3fn"
		args := func(dynamic any, observer *string) *configArgs {
			return &configArgs{NumBits: 4, Type: "float", Strategy: "tensor_group", GroupSize: &size, ScaleDtype: &scale,
				Symmetric: true, Dynamic: dynamic, Observer: observer}
		}
		g := configGroup{Format: "nvfp4-pack-quantized", Weights: args(false, &weights)}
		if s == NVFP4W4A4 { // the kernel makes the block scales of activations, under a stored global scale
			g.InputActivations = args("local", &inputs)
		}
		return g
	}
	args := func(strategy string, dynamic bool, observer *string) *configArgs {
		return &configArgs{NumBits: 8, Type: "float", Strategy: strategy, Symmetric: true, Dynamic: dynamic, Observer: observer}
	}
	if s == FP8Tensor {
		return configGroup{Format: "float-quantized", Weights: args("tensor", false, &weights), InputActivations: args("tensor", false, &inputs)}
	}
	return configGroup{Format: "float-quantized", Weights: args("channel", false, &weights), InputActivations: args("token", true, nil)}
}

// Config writes one group per scheme, in the order of the schemes' list. The ignore list names every kept Linear, the
// fused spelling of every kept fused group, and the forms that other runtimes understand.
func (c compressedTensors) Config(modules []Module) (json.RawMessage, error) {
	modules, used, err := prepare(c, modules)
	if err != nil || len(used) == 0 {
		return nil, err
	}
	ignore := ignoreList(modules)
	targets := patternTargets(modules, used)
	if checkSelection(modules, used, targets, ignore) != nil {
		targets = exactTargets(modules, used)
		if err := checkSelection(modules, used, targets, ignore); err != nil {
			return nil, fmt.Errorf("quantization_config: %w", err)
		}
	}

	config := quantizationConfig{
		ConfigGroups: map[string]configGroup{}, Format: "mixed-precision", Ignore: ignore,
		QuantMethod: "compressed-tensors", QuantizationStatus: "compressed", Version: formatVersion,
	}
	for i, s := range used {
		group := newGroup(s)
		group.Targets = targets[i]
		config.ConfigGroups[fmt.Sprintf("group_%d", i)] = group
		if len(used) == 1 {
			config.Format = group.Format
		}
	}
	return compact(config)
}

// compact renders a value as one line of JSON, without the escapes that only HTML needs.
func compact(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("quantization_config: %w", err)
	}
	return bytes.TrimSpace(buf.Bytes()), nil
}

// prepare sorts modules by name, refuses what no configuration can express, and lists the schemes that change something,
// in the order of the schemes' list.
func prepare(d Dialect, modules []Module) (sorted []Module, used []Scheme, err error) {
	sorted = slices.Clone(modules)
	if i := slices.IndexFunc(sorted, func(m Module) bool { return m.Plain && m.Scheme.Quantized() }); i >= 0 {
		return nil, nil, fmt.Errorf("quantization_config: module %s: no server builds it quantized; keep it in bf16", sorted[i].Name)
	}
	if _, lists := d.(modelOpt); !lists { // its targets say what is quantized
		sorted = slices.DeleteFunc(sorted, func(m Module) bool { return m.Plain })
	}
	slices.SortFunc(sorted, func(a, b Module) int { return safetensors.NaturalCompare(a.Name, b.Name) })
	if err := checkModules(d, sorted); err != nil {
		return nil, nil, fmt.Errorf("quantization_config: %w", err)
	}
	for _, s := range schemes {
		if s.Quantized() && slices.ContainsFunc(sorted, func(m Module) bool { return m.Scheme == s }) {
			used = append(used, s)
		}
	}
	return sorted, used, nil
}

// checkModules refuses what no configuration can express. modules are sorted by name.
func checkModules(d Dialect, modules []Module) error {
	fused := map[string]Module{}
	for i, m := range modules {
		switch {
		case m.Name == "":
			return fmt.Errorf("a module has no name")
		case i > 0 && modules[i-1].Name == m.Name:
			return fmt.Errorf("module %s is listed twice", m.Name)
		case strings.HasPrefix(m.Name, "re:"):
			return fmt.Errorf("module %s: a name that starts with \"re:\" would be read as a pattern", m.Name)
		case m.Scheme.Quantized() && !strings.Contains(m.Name, ".") && m.Name != lmHead:
			// find_matched_target of vLLM takes a bare name for a class name, and maps no prefix in it.
			return fmt.Errorf("module %s: a name without a dot cannot be a target; keep it in bf16", m.Name)
		}
		if err := d.Servable(m.Scheme); err != nil {
			return fmt.Errorf("module %s: %w", m.Name, err)
		}
		if m.Fused == "" {
			continue
		}
		if first, ok := fused[m.Fused]; !ok {
			fused[m.Fused] = m
		} else if first.Scheme != m.Scheme {
			return fmt.Errorf("%s is %s and %s is %s, but the server builds both as %s, which has one scheme; give them the same", first.Name, first.Scheme, m.Name, m.Scheme, m.Fused)
		}
	}
	return nil
}
