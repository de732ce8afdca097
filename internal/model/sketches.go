package model

var twoNorms = []string{"input_layernorm.weight", "post_attention_layernorm.weight"}

// flat is a sketch with the names that most families share.
func flat(id string, parts func(*Config) []slot) sketch {
	return sketch{id: id, embedding: "embed_tokens.weight", norm: "norm.weight", layerStem: "layers.", norms: twoNorms, parts: parts}
}

// inlined is a flat sketch whose head is the layer behind the last one, as DeepSeek builds it.
func inlined(id string, parts func(*Config) []slot) sketch {
	s := flat(id, parts)
	s.headLayer = deepseekHead
	s.layout_ = func(c *Config, textPrefix string) headLayout {
		return inlineHead(c, textPrefix, "num_nextn_predict_layers")
	}
	return s
}

// The structure-only families. GLM-4.7 keeps its head in a side file (sgl-project/sglang#17166), whose names are those of
// the inline layout.
var (
	deepseekV3 = certain(inlined("deepseek_v3", joined(latentAttention, deepseekMLP)), readLatent, latentWhole)
	glm5       = certain(inlined("glm_moe_dsa", joined(latentAttention, deepseekMLP)), readLatent, latentWhole)
	glm4moe    = certain(sideFile(inlined("glm4_moe", joined(splitAttention, deepseekMLP)), "mtp.safetensors"), readGLM4, splitWhole)
	glm4lite   = certain(inlined("glm4_moe_lite", joined(latentAttention, deepseekMLP)), readGLM4Lite, latentWhole)
	glm5next   = wrapped(inlined("glm5_next", joined(splitAttention, latentAttention, deepseekMLP)))
	mimo       = mimoFamily()
	mimoV2     = mimoV2Family()
	nemotronH  = nemotronFamily()
	minimaxM3  = minimaxFamily()
	gptOss     = gptOssFamily()
	gemma4     = gemmaFamily("model.language_model.")
	gemma4text = gemmaFamily("model.")
)

// certain is a sketch whose tables are whole where the configuration has every size.
func certain(s sketch, sizes func(*Config, *fields), whole func(*Config) *wholeTables) sketch {
	s.sizes, s.whole = sizes, whole
	return s
}

func sideFile(s sketch, file string) sketch {
	inner := s.layout_
	s.layout_ = func(c *Config, textPrefix string) headLayout {
		h := inner(c, textPrefix)
		h.side = file
		return h
	}
	return s
}

func wrapped(s sketch) sketch {
	s.textPrefix = wrappedPrefix
	return s
}

// mimoFamily: a Qwen2 body, and a head of Qwen2 layers under model.mtp_layers.
func mimoFamily() sketch {
	s := flat("mimo", joined(splitAttention, func(*Config) []slot { return deepseekMLP(nil)[:3] }))
	s.layout_ = func(_ *Config, textPrefix string) headLayout {
		return nestedHead(textPrefix, "mtp_layers.", "mtp_layers.", "num_nextn_predict_layers")
	}
	s.headLayer = func(c *Config) []slot {
		h := c.Hidden
		return []slot{
			{path: "token_layernorm.weight", shape: []int64{h}},
			{path: "hidden_layernorm.weight", shape: []int64{h}},
			{path: "input_proj.weight", linear: false, shape: []int64{h, 2 * h}},
			{path: "final_layernorm.weight", shape: []int64{h}},
			{path: "input_layernorm.weight", shape: []int64{h}},
			{path: "post_attention_layernorm.weight", shape: []int64{h}},
		}
	}
	return certain(s, readMiMo, mimoWhole)
}

// mimoV2Family ships three layers of a head, of which vLLM reads the first and overwrites whatever the configuration says
// (models/mimo_v2_mtp.py); so no key promises it.
func mimoV2Family() sketch {
	s := flat("mimo_v2", joined(splitAttention, func(*Config) []slot {
		return []slot{may("self_attn.qkv_proj.weight", RoleAttention, true, "")}
	}, deepseekMLP))
	s.layout_ = func(_ *Config, textPrefix string) headLayout {
		return nestedHead(textPrefix, "mtp.", "mtp.layers.", "")
	}
	s.headLayer = func(c *Config) []slot {
		h := c.Hidden
		return []slot{
			{path: "enorm.weight", shape: []int64{h}},
			{path: "hnorm.weight", shape: []int64{h}},
			{path: "eh_proj.weight", linear: true, shape: []int64{h, 2 * h}},
			{path: "input_layernorm.weight", shape: []int64{h}},
			{path: "pre_mlp_layernorm.weight", shape: []int64{h}},
			{path: "final_layernorm.weight", shape: []int64{h}},
		}
	}
	return s
}

// nemotronFamily: Mamba, attention and MLP or expert layers by a pattern, all below backbone. and named mixer; the head is
// a tail whose layers follow mtp_hybrid_override_pattern.
func nemotronFamily() sketch {
	return sketch{
		id: "nemotron_h", textPrefix: "backbone.", embedding: "embeddings.weight", norm: "norm_f.weight", layerStem: "layers.",
		norms: []string{"norm.weight"},
		parts: func(*Config) []slot {
			const fused = "mixer.qkv_proj"
			return []slot{
				may("mixer.q_proj.weight", RoleAttention, true, fused),
				may("mixer.k_proj.weight", RoleAttention, true, fused),
				may("mixer.v_proj.weight", RoleAttention, true, fused),
				may("mixer.o_proj.weight", RoleAttention, true, ""),
				may("mixer.in_proj.weight", RoleLinearAttention, false, ""),
				may("mixer.out_proj.weight", RoleLinearAttention, false, ""),
				may("mixer.conv1d.weight", RoleConv, false, ""),
				may("mixer.conv1d.bias", RoleConv, false, ""),
				may("mixer.A_log", RoleState, false, ""),
				may("mixer.D", RoleState, false, ""),
				may("mixer.dt_bias", RoleState, false, ""),
				may("mixer.norm.weight", RoleNorm, false, ""),
				may("mixer.up_proj.weight", RoleMLP, true, ""),
				may("mixer.down_proj.weight", RoleMLP, true, ""),
				may("mixer.gate.weight", RoleRouter, false, ""),
				may("mixer.gate.e_score_correction_bias", RoleRouter, false, ""),
				may("mixer.experts.N.up_proj.weight", RoleExpert, true, ""),
				may("mixer.experts.N.down_proj.weight", RoleExpert, true, ""),
				may("mixer.shared_experts.up_proj.weight", RoleSharedExpert, true, ""),
				may("mixer.shared_experts.down_proj.weight", RoleSharedExpert, true, ""),
			}
		},
		layout_: func(*Config, string) headLayout { return tailHead("num_nextn_predict_layers") },
		headLayer: func(c *Config) []slot {
			h := c.Hidden
			return []slot{ // the first layer of a step holds the first three, the last one final_layernorm
				{path: "enorm.weight", shape: []int64{h}, optional: true},
				{path: "hnorm.weight", shape: []int64{h}, optional: true},
				{path: "eh_proj.weight", linear: true, shape: []int64{h, 2 * h}, optional: true},
				{path: "final_layernorm.weight", shape: []int64{h}, optional: true},
				{path: "norm.weight", shape: []int64{h}},
			}
		},
	}
}

// minimaxFamily: the language model below language_model.model., experts named w1, w2 and w3, and an index in the
// attention of sparse layers that the server joins with q, k and v (vLLM 017e9f4448, models/minimax_m3/nvidia/model.py). A
// layer of the head is a decoder layer below transformer_layer. (mtp.py there).
func minimaxFamily() sketch {
	experts := func(*Config) []slot {
		const each, shared = "block_sparse_moe.experts.N.gate_up_proj", "block_sparse_moe.shared_experts.gate_up_proj"
		return []slot{
			may("block_sparse_moe.gate.weight", RoleRouter, false, ""),
			may("block_sparse_moe.e_score_correction_bias", RoleRouter, false, ""),
			may("block_sparse_moe.experts.N.w1.weight", RoleExpert, true, each),
			may("block_sparse_moe.experts.N.w3.weight", RoleExpert, true, each),
			may("block_sparse_moe.experts.N.w2.weight", RoleExpert, true, ""),
			may("block_sparse_moe.shared_experts.gate_proj.weight", RoleSharedExpert, true, shared),
			may("block_sparse_moe.shared_experts.up_proj.weight", RoleSharedExpert, true, shared),
			may("block_sparse_moe.shared_experts.down_proj.weight", RoleSharedExpert, true, ""),
			may("self_attn.index_q_proj.weight", RoleAttention, true, "self_attn.qkv_proj"),
			may("self_attn.index_k_proj.weight", RoleAttention, true, "self_attn.qkv_proj"),
			may("self_attn.index_q_norm.weight", RoleNorm, false, ""),
			may("self_attn.index_k_norm.weight", RoleNorm, false, ""),
		}
	}
	parts := joined(splitAttention, deepseekMLP, experts)
	s := flat("minimax_m3", parts)
	s.textPrefix = "language_model.model."
	s.layout_ = func(_ *Config, textPrefix string) headLayout {
		return nestedHead(textPrefix, "mtp.", "mtp.layers.", "num_mtp_modules")
	}
	s.headLayer = func(c *Config) []slot {
		h := c.Hidden
		return []slot{
			{path: "enorm.weight", shape: []int64{h}},
			{path: "hnorm.weight", shape: []int64{h}},
			{path: "eh_proj.weight", linear: true, shape: []int64{h, 2 * h}},
			{path: "final_layernorm.weight", shape: []int64{h}},
		}
	}
	s.inner = func(c *Config) []slot {
		inner := parts(c)
		for _, n := range twoNorms {
			inner = append(inner, may(n, RoleNorm, false, ""))
		}
		for i := range inner {
			inner[i].path = "transformer_layer." + inner[i].path
			if inner[i].fused != "" {
				inner[i].fused = "transformer_layer." + inner[i].fused
			}
		}
		return inner
	}
	return s
}

// gptOssFamily stores its experts as MXFP4 blocks and scales, without any Linear of its own to quantize again.
func gptOssFamily() sketch {
	s := flat("gpt_oss", joined(splitAttention, func(*Config) []slot {
		return []slot{
			may("self_attn.o_proj.bias", RoleAttention, false, ""),
			may("self_attn.sinks", RoleAttention, false, ""),
			may("mlp.router.weight", RoleRouter, false, ""),
			may("mlp.router.bias", RoleRouter, false, ""),
			may("mlp.experts.gate_up_proj", RoleExpert, false, ""),
			may("mlp.experts.gate_up_proj_blocks", RoleExpert, false, ""),
			may("mlp.experts.gate_up_proj_scales", RoleExpert, false, ""),
			may("mlp.experts.gate_up_proj_bias", RoleExpert, false, ""),
			may("mlp.experts.down_proj", RoleExpert, false, ""),
			may("mlp.experts.down_proj_blocks", RoleExpert, false, ""),
			may("mlp.experts.down_proj_scales", RoleExpert, false, ""),
			may("mlp.experts.down_proj_bias", RoleExpert, false, ""),
		}
	}))
	s.layout_ = func(*Config, string) headLayout { return headLayout{kind: headNone} }
	s.refusal = "its experts are MXFP4 already, which this version neither reads nor writes"
	return certain(s, readGptOss, gptOssWhole)
}

// gemmaFamily: the head is the publisher's assistant, a repository with queries of its own that shares the target's
// key/value cache.
func gemmaFamily(prefix string) sketch {
	s := flat("gemma4", splitAttention)
	s.textPrefix = prefix
	s.layout_ = func(*Config, string) headLayout { return headLayout{kind: headOwn, where: "…-assistant"} }
	s.refusal = "it is recognised and its layers are not known here"
	return s
}
