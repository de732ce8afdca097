package verify

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"seatsmith/internal/engine"
	"seatsmith/internal/playbook"
)

// method judges a block that is not resolved: of another dialect, or of none. looks is the dialect of the stored tensors.
func (j *judge) method(q *engine.Quantization, looks string) {
	j.quantBroken = true
	subject := q.Key + ".quant_method"
	switch {
	case q.Method == "":
		j.blameConfig()
		j.add(playbook.New("quant-method", subject,
			fmt.Sprintf("it is empty or missing; the server knows no such method. The tensors look like %s", orUnquantized(looks)),
			fmt.Sprintf("write \"quant_method\": %q", orUnquantized(looks))))
		j.skip("quantized modules against the server's rules, because no method is named", true)
	case q.Signed != "" && looks == engine.CompressedTensors:
		j.blameConfig()
		j.add(playbook.New("quant-method", subject,
			fmt.Sprintf("it says %q, but the block is signed by modelopt with quant_algo %s, and the server takes it for %s; the tensors look like %s", q.Written, q.Signed, q.Method, looks),
			"take producer and quantization out of the block"))
		j.skip("quantized modules against the server's rules, because the server takes the block for another dialect's", true)
	case !engine.KnownMethod(q.Method):
		j.blameConfig()
		j.add(playbook.New("quant-method", subject,
			fmt.Sprintf("the server knows no method %q and stops. The tensors look like %s", q.Written, orUnquantized(looks)),
			fmt.Sprintf("write \"quant_method\": %q", orUnquantized(looks))))
		j.skip("quantized modules against the server's rules, because the method is unknown", true)
	case j.impossible(q.Method) != "":
		j.blameConfig()
		j.add(playbook.New("quant-method", subject,
			fmt.Sprintf("it says %q, and no checkpoint of that method has a tensor like %s: the tensors look like %s", q.Written, j.impossible(q.Method), orUnquantized(looks)),
			fmt.Sprintf("write \"quant_method\": %q", orUnquantized(looks))))
		j.skip("quantized modules against the server's rules, because the method is not that of the tensors", true)
	default:
		j.add(playbook.New("dialect-unread", subject,
			fmt.Sprintf("%q is another dialect than compressed-tensors and modelopt, and is not judged by this version", q.Method),
			"check the folder with the server itself"))
		j.skip("quantized modules: dialect "+q.Method+" is not judged by this version", true)
	}
}

// fileAlone: config.json says nothing, and the server takes hf_quant_config.json for one of another tool (C20, R20).
func (j *judge) fileAlone() {
	j.quantBroken = true
	algo := "an algorithm that it does not name"
	if file, err := j.m.QuantFile(); err == nil {
		if a := gjson.GetBytes(file, "quantization.quant_algo"); a.Type == gjson.String {
			algo = a.Str
		}
	}
	j.blameConfig()
	j.add(playbook.New("quant-config-missing", "config.json: quantization_config",
		fmt.Sprintf("config.json has none, and of a folder with %s alone the server understands FP8 and NVFP4 of modelopt, not %s: it finds no method", engine.FileModelOpt, algo),
		"write the block into config.json as quantization_config, with quant_method modelopt"))
	j.skip("quantized modules against the server's rules, because no method is named", true)
}

// impossible names a stored tensor that a checkpoint of a method never has, "" when there is none. Packed nibbles with a
// divisor are compressed-tensors' alone, a second scale is modelopt's, and a scale per channel in two dimensions is none
// of the fp8 method's, whose scales are one number or blocks (vLLM 017e9f4448, quantization/fp8.py, modelopt.py, awq.py,
// gptq.py).
func (j *judge) impossible(method string) string {
	modelopt := strings.HasPrefix(method, "modelopt")
	for i := range j.m.Tensors {
		t := &j.m.Tensors[i]
		switch t.Suffix {
		case "weight_packed", "weight_global_scale":
			return t.Name
		case "weight_scale_2":
			if !modelopt {
				return t.Name
			}
		case "qweight", "qzeros":
			if modelopt || method == "fp8" {
				return t.Name
			}
		case "weight_scale":
			if s := t.Shape(); !modelopt && float(t) && len(s) == 2 && s[1] == 1 && s[0] > 1 {
				return t.Name
			}
		}
	}
	return ""
}

// standing judges where the block stands and how its method is spelled.
func (j *judge) standing(q *engine.Quantization) {
	if q.Unread {
		j.blameConfig()
		j.add(playbook.New("quant-method", q.Key,
			"the server takes the method from here and does not look here for the arguments: it builds the method without any and stops",
			"move the block to quantization_config at the top level of config.json"))
		return
	}
	const inner = "text_config.quantization_config"
	if q.MethodKey != q.Key {
		j.add(playbook.New("quant-method", q.Key,
			fmt.Sprintf("there are two blocks: the server takes the method from %s and the arguments from %s", q.MethodKey, q.Key),
			"keep one block, as quantization_config at the top level").As(playbook.Warning))
	} else if q.Key == inner {
		j.add(playbook.New("quant-method", q.Key,
			"the block stands inside text_config, where only vLLM looks, and only when the top level has none",
			"move it to the top level of config.json").As(playbook.Warning))
	}
	if j.dialectKnown && q.Key != engine.FileModelOpt && q.Written != q.Method && !(q.IsModelOpt() && strings.HasPrefix(q.Written, "modelopt")) {
		j.add(playbook.New("quant-method", q.MethodKey+".quant_method",
			fmt.Sprintf("it is spelled %q; vLLM reads that as %q, other readers compare letter for letter and refuse it", q.Written, q.Method),
			fmt.Sprintf("write %q", q.Method)).As(playbook.Warning))
	}
}
