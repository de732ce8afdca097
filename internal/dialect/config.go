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
	Dynamic        bool     `json:"dynamic"`
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

// newGroup is the group of one scheme without its targets. The values are those of the presets NVFP4A16 and FP8_DYNAMIC
// of compressed-tensors 0.18.0. The FP8 group needs its own format: under a global mixed-precision vLLM finds no scheme
// for it otherwise (R27).
func newGroup(s Scheme) configGroup {
	observer := "memoryless_minmax"
	if s == NVFP4W4A16 {
		size, scale := int64(blockSize), "torch.float8_e4m3fn"
		return configGroup{
			Format: "nvfp4-pack-quantized",
			Weights: &configArgs{NumBits: 4, Type: "float", Strategy: "tensor_group", GroupSize: &size, ScaleDtype: &scale,
				Symmetric: true, Observer: &observer},
		}
	}
	return configGroup{
		Format:           "float-quantized",
		Weights:          &configArgs{NumBits: 8, Type: "float", Strategy: "channel", Symmetric: true, Observer: &observer},
		InputActivations: &configArgs{NumBits: 8, Type: "float", Strategy: "token", Symmetric: true, Dynamic: true},
	}
}

// Config writes one group per scheme, in the order of the schemes' list. The ignore list names every kept Linear, the
// fused spelling of every kept fused group, and the forms that other runtimes understand.
func (c compressedTensors) Config(modules []Module) (json.RawMessage, error) {
	modules = slices.Clone(modules)
	slices.SortFunc(modules, func(a, b Module) int { return safetensors.NaturalCompare(a.Name, b.Name) })
	if err := c.checkModules(modules); err != nil {
		return nil, fmt.Errorf("quantization_config: %w", err)
	}
	var used []Scheme
	for _, s := range schemes {
		if s.Quantized() && slices.ContainsFunc(modules, func(m Module) bool { return m.Scheme == s }) {
			used = append(used, s)
		}
	}
	if len(used) == 0 {
		return nil, nil
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
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(config); err != nil {
		return nil, fmt.Errorf("quantization_config: %w", err)
	}
	return bytes.TrimSpace(buf.Bytes()), nil
}

// checkModules refuses what no list of targets can express. modules are sorted by name.
func (c compressedTensors) checkModules(modules []Module) error {
	fused := map[string]Module{}
	for i, m := range modules {
		switch {
		case m.Name == "":
			return fmt.Errorf("a module has no name")
		case i > 0 && modules[i-1].Name == m.Name:
			return fmt.Errorf("module %s is listed twice", m.Name)
		case strings.HasPrefix(m.Name, "re:"):
			return fmt.Errorf("module %s: a name that starts with \"re:\" would be read as a pattern", m.Name)
		case m.Scheme.Quantized() && !strings.Contains(m.Name, "."):
			// find_matched_target takes a bare name for a class name, and maps no prefix in it.
			return fmt.Errorf("module %s: a name without a dot cannot be a target; keep it in bf16", m.Name)
		}
		if err := c.Servable(m.Scheme); err != nil {
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
