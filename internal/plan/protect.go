package plan

import (
	"strings"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
)

// roles is every role that a recipe may name, in the order in which plans list them.
var roles = []model.Role{
	model.RoleEmbedding, model.RoleAttention, model.RoleLinearAttention, model.RoleLinearGate, model.RoleConv, model.RoleState,
	model.RoleMLP, model.RoleExpert, model.RoleSharedExpert, model.RoleRouter, model.RoleNorm, model.RoleLMHead, model.RoleVision,
	model.RoleHead, model.RoleOther,
}

func joinRoles(list []model.Role) string {
	names := make([]string, len(list))
	for i, r := range list {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}

// Protected says why a role stays as it is unless a rule asks otherwise; ok is false for the roles that recipes quantize
// freely. The facts are those of vLLM 017e9f4448 unless another source is named.
func Protected(role model.Role) (reason string, ok bool) {
	switch role {
	case model.RoleVision:
		return "the vision tower stays as it is: its width 4304 divides by no kernel's tile (NVIDIA/Model-Optimizer#1687), and it is a small part of the bytes", true
	case model.RoleRouter:
		return "routers and expert gates are built without a quantization config: a quantized one loads as zeros or not at all (intel/auto-round#586)", true
	case model.RoleLinearGate:
		return "in_proj_a and in_proj_b stay as they are: they set how the state decays, and both peers keep them", true
	case model.RoleEmbedding:
		return "embeddings are built without a quantization config: a quantized one fails to load (vllm-project/vllm#54304)", true
	case model.RoleNorm:
		return "norms are vectors, which the server holds in source precision", true
	case model.RoleConv:
		return "the short convolution is built without a quantization config", true
	case model.RoleState:
		return "A_log and dt_bias are vectors, which the server holds in source precision", true
	case model.RoleHead:
		return "the MTP head stays as it is: drafts are accepted only as often as the head is exact", true
	case model.RoleLMHead:
		return "lm_head stays as it is: the drafter asks for it too, and older servers do not read a quantized one (vllm-project/vllm#44081)", true
	case model.RoleOther:
		return "this version does not know what it is", true
	}
	return "", false
}

// refuses says why a role cannot have a scheme that quantizes it, whatever a rule says; ok is false when it can.
func refuses(role model.Role, s dialect.Scheme, tied bool) (reason string, ok bool) {
	switch {
	case role == model.RoleHead && s.NVFP4():
		return "the MTP head takes FP8 at most: under modelopt_fp4 the server builds mtp.fc in BF16 whatever the checkpoint holds (vllm-project/vllm#38832), and drafts are accepted only as often as the head is exact", true
	case role == model.RoleLMHead && tied:
		return "tie_word_embeddings is set: lm_head is the embedding, and a quantized embedding fails to load (vllm-project/vllm#54304)", true
	case role == model.RoleHead || role == model.RoleLMHead:
		return "", false
	}
	return Protected(role)
}

// apart says which Linears of the head stay as they are when its layers are quantized.
func apart(t *model.Tensor) (reason string, ok bool) {
	if t.Role != model.RoleHead || !t.Linear {
		return "", false
	}
	switch l := leaf(t.Module); {
	case l == "fc" || l == "eh_proj":
		return "the projection into the head stays as it is: servers differ in whether they build it quantized (vllm-project/vllm#38832, vllm-project/vllm#53414)", true
	case routed(t.Module) != "":
		return "the routed experts of the head stay as they are stored", true
	}
	return "", false
}

// refusedSchemes are schemes that exist and that no plan of this version has, with the reason.
var refusedSchemes = map[dialect.Scheme]string{
	"nvfp4-w4a8": "no server reads it: vLLM 017e9f4448 knows no quant_algo W4A8_NVFP4_FP8 (modelopt.py QUANT_ALGOS), and compressed-tensors' NVFP4 takes inputs of NVFP4 or none. Use nvfp4-w4a16, or nvfp4-w4a4 with statistics",
	"fp8-block":  "block FP8 (a scale per 128 x 128 weights) is not written by this version, and the modelopt dialect has no form of it beside other schemes. Use fp8, which has a scale per row or per weight",
	"mxfp4":      "MXFP4 has no global scale and rounds block scales to powers of two; this version writes NVFP4. Use nvfp4-w4a16",
	"mxfp8":      "MXFP8 is not written by this version. Use fp8",
	"int4":       "integer formats are not written by this version. Use nvfp4-w4a16",
	"int8":       "integer formats are not written by this version. Use fp8",
}
