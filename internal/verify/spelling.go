package verify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"seatsmith/internal/dialect"
	"seatsmith/internal/engine"
	"seatsmith/internal/playbook"
)

// spelling is how a dialect names the parts of an NVFP4 module on disk.
type spelling struct {
	codes, global string
	dialect       dialect.Dialect
}

// fp4 says whether a kind is NVFP4, in either spelling.
func (k kind) fp4() bool { return k == nvfp4 || k == modelopt }

// spelling of a kind. FP8 is decoded alike in both dialects.
func (k kind) spelling() spelling {
	if k == modelopt {
		return spelling{"weight", "weight_scale_2", dialect.ModelOpt()}
	}
	return spelling{"weight_packed", "weight_global_scale", dialect.CompressedTensors()}
}

// divisor is a module's global scale as a divisor, whichever way it is stored; 0 when it is not known.
func (j *judge) divisor(module string) float32 {
	if g, ok := j.globals[module+".weight_global_scale"]; ok {
		return g
	}
	if g := j.globals[module+".weight_scale_2"]; g > 0 {
		return 1 / g
	}
	return 0
}

// globalName is the name of a module's global scale, as it is stored.
func (j *judge) globalName(module string) string {
	one, two := module+".weight_global_scale", module+".weight_scale_2"
	_, first := j.m.Lookup(one)
	_, second := j.m.Lookup(two)
	if second && !first || first == second && j.quant != nil && j.quant.IsModelOpt() {
		return two
	}
	return one
}

// dialectName is the block's dialect as a record spells it.
func (j *judge) dialectName() string {
	if j.quant.IsModelOpt() {
		return dialect.ModelOpt().Name()
	}
	return j.quant.Method
}

func (j *judge) wholeName() string {
	if j.quant.IsModelOpt() {
		return "write the module's whole name as it is on disk, or a shell pattern with a star on both sides"
	}
	return "write the module's whole name as it is on disk, or a pattern that starts re:.*"
}

// readQuantization reads the block as the server finds it, and holds hf_quant_config.json against config.json.
func (j *judge) readQuantization() (*engine.Quantization, []engine.Problem, error) {
	file, err := j.m.QuantFile()
	if err != nil {
		return nil, nil, err
	}
	q, problems, err := engine.ReadQuantizationFiles(j.config, file)
	if err != nil || q == nil || len(file) == 0 || q.Key == engine.FileModelOpt {
		return q, problems, err
	}
	if q.Method == engine.CompressedTensors {
		j.blamed[engine.FileModelOpt] = true
		j.add(playbook.New("quant-files-differ", engine.FileModelOpt, "it is a modelopt configuration, and config.json says compressed-tensors; vLLM believes config.json, other servers this file",
			"take this file out of the folder"))
		return q, problems, nil
	}
	if q.ModelOpt == nil {
		return q, problems, nil
	}
	other := readFile(file)
	if other == nil {
		j.blamed[engine.FileModelOpt] = true
		j.add(playbook.New("quant-files-differ", engine.FileModelOpt, "it cannot be read as a modelopt configuration, and config.json holds one",
			"write both files from one plan, or take this one out"))
		return q, problems, nil
	}
	if d := differences(q.ModelOpt, other); len(d) > 0 {
		j.blamed[engine.FileModelOpt] = true
		j.add(playbook.New("quant-files-differ", engine.FileModelOpt,
			"it does not say what config.json says: "+listed(d, mostNames)+"; vLLM believes config.json, other servers this file",
			"write both files from one plan"))
	}
	return q, problems, nil
}

// readFile reads hf_quant_config.json for what it says, as if it stood in config.json; nil when it cannot be read.
func readFile(file []byte) *engine.ModelOpt {
	block, err := sjson.SetBytes(file, "quant_method", engine.ModelOptFP8)
	if layers := gjson.GetBytes(file, "quantization.quantized_layers"); err == nil && layers.Exists() {
		block, err = sjson.SetRawBytes(block, "quantized_layers", []byte(layers.Raw)) // the server asks for them there, or looks into this file
	}
	if err == nil {
		block, err = sjson.DeleteBytes(block, "producer") // a signature changes the method, not what is said
	}
	if err != nil || !json.Valid(block) {
		return nil
	}
	q, _, err := engine.ReadQuantizationFiles(slices.Concat([]byte(`{"quantization_config":`), block, []byte("}")), nil)
	if err != nil || q == nil {
		return nil
	}
	return q.ModelOpt
}

// differences compares two readings of a modelopt block.
func differences(config, file *engine.ModelOpt) []string {
	var out []string
	if config.Algo != file.Algo {
		out = append(out, fmt.Sprintf("quant_algo %s there, %s in config.json", file.Algo, config.Algo))
	}
	if config.GroupSize != file.GroupSize {
		out = append(out, fmt.Sprintf("group_size %d there, %d in config.json", file.GroupSize, config.GroupSize))
	}
	if !strings.EqualFold(config.KV, file.KV) {
		out = append(out, fmt.Sprintf("key/value cache %q there, %q in config.json", file.KV, config.KV))
	}
	only := func(a, b []string, where string) {
		have := map[string]bool{}
		for _, e := range b {
			have[e] = true
		}
		names := slices.DeleteFunc(slices.Clone(a), func(e string) bool { return have[e] })
		if len(names) > 0 {
			out = append(out, fmt.Sprintf("%s only %s", listed(names, 3), where))
		}
	}
	only(config.Exclude, file.Exclude, "excluded in config.json")
	only(file.Exclude, config.Exclude, "excluded there")
	layers := func(m *engine.ModelOpt) []string {
		var names []string
		for _, l := range m.Layers {
			names = append(names, l.Name+" "+l.Algo)
		}
		return names
	}
	only(layers(config), layers(file), "in quantized_layers of config.json")
	only(layers(file), layers(config), "in quantized_layers there")
	return out
}
