package plan

import (
	"strings"

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

// Protected says why this version never quantizes a role; ok is false for the roles that a recipe may quantize.
// The facts are those of vLLM 017e9f4448 unless another source is named.
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
		return "lm_head stays as it is: the drafter asks for it under another name than the target, and quantizing it is not in this version (vllm-project/vllm#44081)", true
	case model.RoleOther:
		return "this version does not know what it is", true
	}
	return "", false
}
