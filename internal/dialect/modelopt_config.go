package dialect

import (
	"encoding/json"
	"fmt"
	"slices"
)

// modelOptVersion is the release of modelopt whose export was read key by key. The name of the producer is not ours to
// choose: a server takes hf_quant_config.json of no other (vLLM 017e9f4448, model_loader/weight_utils.py get_quant_config).
const modelOptVersion = "0.47.0"

// ModelOptFile is modelopt's own file beside config.json. A server reads it only where config.json says nothing
// (vLLM 017e9f4448, transformers_utils/config.py); other runtimes read it first, so it must agree.
const ModelOptFile = "hf_quant_config.json"

// mixedPrecision is the quant_algo of a checkpoint whose layers differ.
const mixedPrecision = "MIXED_PRECISION"

// modelOptConfig has the keys of modelopt 0.47.0 export/convert_hf_config.py, sorted. There is no kv_cache_scheme when the
// cache is not quantized.
type modelOptConfig struct {
	ConfigGroups    map[string]modelOptGroup `json:"config_groups"`
	Ignore          []string                 `json:"ignore"`
	Producer        modelOptProducer         `json:"producer"`
	QuantAlgo       string                   `json:"quant_algo"`
	QuantMethod     string                   `json:"quant_method"`
	QuantizedLayers map[string]modelOptLayer `json:"quantized_layers,omitempty"`
}

type modelOptProducer struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type modelOptGroup struct {
	InputActivations *modelOptArgs `json:"input_activations,omitempty"`
	Targets          []string      `json:"targets"`
	Weights          *modelOptArgs `json:"weights"`
}

type modelOptArgs struct {
	Dynamic   bool   `json:"dynamic"`
	GroupSize int    `json:"group_size,omitempty"`
	NumBits   int    `json:"num_bits"`
	Type      string `json:"type"`
}

type modelOptLayer struct {
	QuantAlgo string `json:"quant_algo"`
	GroupSize int    `json:"group_size,omitempty"`
}

// modelOptNested is hf_quant_config.json. modelopt writes group_size for NVFP4 only, and exclude_modules for a uniform
// checkpoint only; a mixed one gets the list here too, so that both files say the same.
type modelOptNested struct {
	Producer     modelOptProducer `json:"producer"`
	Quantization struct {
		QuantAlgo       string                   `json:"quant_algo"`
		KVCache         *string                  `json:"kv_cache_quant_algo"`
		GroupSize       int                      `json:"group_size,omitempty"`
		ExcludeModules  []string                 `json:"exclude_modules"`
		QuantizedLayers map[string]modelOptLayer `json:"quantized_layers,omitempty"`
	} `json:"quantization"`
}

// algoOf is a scheme's quant_algo. W4A16_NVFP4 is known since 2026-05-09 (vllm-project/vllm#41769).
func algoOf(s Scheme) modelOptLayer {
	switch s {
	case NVFP4W4A4:
		return modelOptLayer{"NVFP4", blockSize}
	case NVFP4W4A16:
		return modelOptLayer{"W4A16_NVFP4", blockSize}
	}
	return modelOptLayer{"FP8", 0}
}

func modelOptGroupOf(s Scheme, targets []string) modelOptGroup {
	switch s {
	case NVFP4W4A4:
		args := &modelOptArgs{GroupSize: blockSize, NumBits: 4, Type: "float"}
		return modelOptGroup{InputActivations: args, Weights: args, Targets: targets}
	case NVFP4W4A16:
		return modelOptGroup{Weights: &modelOptArgs{GroupSize: blockSize, NumBits: 4, Type: "float"}, Targets: targets}
	}
	args := &modelOptArgs{NumBits: 8, Type: "float"}
	return modelOptGroup{InputActivations: args, Weights: args, Targets: targets}
}

// Config picks the uniform form when one scheme is enough, its exclusions hold and the server's class was read, and
// MIXED_PRECISION otherwise: there, what is not listed stays as it is. Either form is returned only when it selects exactly what was meant, under every name
// that a server asks for.
func (c modelOpt) Config(modules []Module) (json.RawMessage, error) {
	config, err := c.configure(modules)
	if err != nil || config == nil {
		return nil, err
	}
	return compact(config)
}

// Made is hf_quant_config.json.
func (c modelOpt) Made(modules []Module) (map[string]string, error) {
	config, err := c.configure(modules)
	if err != nil || config == nil {
		return nil, err
	}
	var nested modelOptNested
	nested.Producer = config.Producer
	q := &nested.Quantization
	q.QuantAlgo, q.ExcludeModules, q.QuantizedLayers = config.QuantAlgo, config.Ignore, config.QuantizedLayers
	if len(q.QuantizedLayers) == 0 && config.ConfigGroups["group_0"].Weights.GroupSize > 0 {
		q.GroupSize = blockSize
	}
	text, err := json.MarshalIndent(nested, "", "    ")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ModelOptFile, err)
	}
	return map[string]string{ModelOptFile: string(text) + "\n"}, nil
}

// configure is nil, without an error, when no module is quantized.
func (c modelOpt) configure(modules []Module) (*modelOptConfig, error) {
	modules, used, err := prepare(c, modules)
	if err != nil || len(used) == 0 {
		return nil, err
	}
	config := &modelOptConfig{
		ConfigGroups: map[string]modelOptGroup{}, Ignore: modelOptIgnore(modules),
		Producer: modelOptProducer{"modelopt", modelOptVersion}, QuantMethod: "modelopt",
	}
	unread := slices.ContainsFunc(modules, func(m Module) bool { return m.Unread })
	if len(used) == 1 && !unread {
		config.QuantAlgo = algoOf(used[0]).QuantAlgo
		config.ConfigGroups["group_0"] = modelOptGroupOf(used[0], []string{"Linear"})
		if checkModelOpt(modules, config) == nil {
			return config, nil
		}
	}
	config.QuantAlgo, config.QuantizedLayers = mixedPrecision, map[string]modelOptLayer{}
	for i, s := range used {
		var targets []string
		for _, m := range modules {
			if m.Scheme == s {
				targets = append(targets, m.Name)
				config.QuantizedLayers[m.Name] = algoOf(s)
			}
		}
		slices.Sort(targets)
		config.ConfigGroups[fmt.Sprintf("group_%d", i)] = modelOptGroupOf(s, targets)
	}
	if err := checkModelOpt(modules, config); err != nil {
		return nil, fmt.Errorf("quantization_config: %w", err)
	}
	return config, nil
}

// modelOptIgnore names what stays as it is: each kept Linear, the fused spelling of each kept group, what modelopt lists
// though vLLM never quantizes it (routers, conv1d, embed_tokens), and the forms that it writes for a whole tree. Entries are matched as parts of names too, so one that would catch a quantized
// module is left out here, and a check of the whole list follows. modules are sorted by name.
func modelOptIgnore(modules []Module) []string {
	var kept, plain, quantized []string
	head, vision := false, false
	seen := map[string]bool{}
	names := map[string]bool{}
	for _, m := range modules {
		if m.Scheme.Quantized() {
			for _, s := range spellings(runtimeName(m)) {
				if !names[s] {
					names[s] = true
					quantized = append(quantized, s)
				}
			}
			continue
		}
		head, vision = head || m.Head, vision || m.Vision
		if m.Plain {
			plain = append(plain, m.Name)
			continue
		}
		for _, name := range []string{m.Name, m.Fused} {
			if name != "" && !seen[name] {
				seen[name] = true
				kept = append(kept, name)
			}
		}
	}
	forms := append(plain, "mtp*")
	if vision {
		forms = append(forms, "model.visual*")
	}
	forms = append(forms, lmHead)
	if head {
		forms = append(forms, "mtp.fc")
	}
	for _, form := range forms {
		one := newModelOptMatcher([]string{form})
		if !seen[form] && !slices.ContainsFunc(quantized, one.part) {
			seen[form] = true
			kept = append(kept, form)
		}
	}
	return kept
}
