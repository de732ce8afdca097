package engine

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// methods are the values of quant_method that the server knows (vLLM 017e9f4448, layers/quantization/__init__.py).
var methods = strings.Fields(`awq auto_awq fp8 fbgemm_fp8 fp_quant modelopt modelopt_fp4 modelopt_mxfp8 modelopt_mixed auto_gptq gptq gptq_marlin
	awq_marlin humming compressed-tensors experts_int8 quark moe_wna16 torchao inc mxfp4 gpt_oss_mxfp4 deepseek_v4_fp8 online
	fp8_per_tensor fp8_per_block fp8_per_channel int8_per_channel_weight_only nvfp4_per_token mxfp8
	auto-round bitsandbytes gguf`) // the last three are turned into others, or come with a loader or a plug-in of their own

// KnownMethod says whether the server has a dialect of this name. It stops at every other ("Unknown quantization
// method").
func KnownMethod(method string) bool { return slices.Contains(methods, method) }

// locate finds the block. The server looks twice, in different orders: for the method at quantization_config and
// compression_config of the top level and then at both of text_config (model_arch_config_convertor.py
// get_quantization_config), for the arguments at quantization_config of both and then at compression_config of the top
// level only (model_loader/weight_utils.py get_quant_config).
func (q *Quantization) locate(root gjson.Result) (arguments, method gjson.Result) {
	first := func(keys ...string) (string, gjson.Result) {
		for _, key := range keys {
			if v := root.Get(key); !null(v) {
				return key, v
			}
		}
		return "", gjson.Result{}
	}
	q.MethodKey, method = first("quantization_config", "compression_config", "text_config.quantization_config", "text_config.compression_config")
	q.Key, arguments = first("quantization_config", "text_config.quantization_config", "compression_config")
	if q.Key == "" && q.MethodKey != "" {
		q.Key, arguments, q.Unread = q.MethodKey, method, true
	}
	return arguments, method
}

// method is _normalize_quantization_config: letters are lowered and an underscore is forgiven; a block that modelopt
// signed is taken for modelopt's, whatever its quant_method says.
func (r *reader) method(block gjson.Result) {
	q := r.q
	q.Written = text(block.Get("quant_method"))
	q.Method = strings.ReplaceAll(strings.ToLower(q.Written), "compressed_tensors", CompressedTensors)
	if strings.HasSuffix(q.MethodKey, "compression_config") {
		return // only a quantization_config is asked for its producer
	}
	defer func() { q.Method = override(q.Method, algoOf(block)) }()
	signed, legacy := block.Get("quantization"), false
	if signed.IsObject() {
		legacy = signed.Get("modelopt_quant_config").Exists()
	}
	switch p := block.Get("producer"); {
	case p.Exists() && !p.IsObject():
		r.refuse(".producer", "want an object, found %s: the server asks it for a name and stops", orNull(p))
	case text(p.Get("name")) != "modelopt" && !legacy:
	case signed.Exists() && !signed.IsObject():
		r.refuse(".quantization", "want an object, found %s: the server asks it for quant_algo and stops", orNull(signed))
	default:
		algo := signed.Get("quant_algo")
		if null(algo) {
			return
		}
		switch strings.ToUpper(algo.String()) {
		case "FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO":
			q.Method, q.Signed = "modelopt", algo.String()
		case "NVFP4":
			q.Method, q.Signed = "modelopt_fp4", algo.String()
		default:
			r.refuse(".quantization.quant_algo", "%s is no algorithm of modelopt that the server knows (\"Unknown ModelOpt quant algo\")", orNull(algo))
		}
	}
}
