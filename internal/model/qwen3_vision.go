package model

import "slices"

// readTower reads vision_config. Absent fields take the defaults that vLLM 017e9f4448 gives them
// (transformers_utils/configs/qwen3_5.py).
func readTower(f *fields) *VisionTower {
	return &VisionTower{
		Depth:        f.positive("depth", maxLayers),
		Hidden:       f.positive("hidden_size", maxHidden),
		Intermediate: f.positive("intermediate_size", maxWidth),
		Out:          f.positive("out_hidden_size", maxHidden),
		Positions:    f.positive("num_position_embeddings", maxVocab),
		InChannels:   f.optional("in_channels", maxSmall, 3),
		Patch:        f.optional("patch_size", maxSmall, 16),
		TemporalPtch: f.optional("temporal_patch_size", maxSmall, 2),
		Merge:        f.optional("spatial_merge_size", maxSmall, 2),
		Deepstack:    f.length("deepstack_visual_indexes", maxLayers),
	}
}

// visionSections is the vision tower of Qwen3-VL, which Qwen3.5 inherits (vLLM 017e9f4448, models/qwen3_vl.py). Every
// Linear of it is built with the quantization config, the patch embedding and the position table are not. Without a tower
// in the configuration the names are still recognised, but none is expected.
func visionSections(t *VisionTower) []section {
	var none VisionTower
	optional := t == nil
	if optional {
		t = &none
	}
	w, f := t.Hidden, t.Intermediate
	wide := w * t.Merge * t.Merge
	pair := func(path string, linear bool, shape ...int64) []slot {
		return []slot{
			{path: path + ".weight", linear: linear, shape: shape, optional: optional},
			{path: path + ".bias", shape: shape[:1], optional: optional},
		}
	}
	merger := func(prefix string, norm int64) []slot {
		return slices.Concat(
			pair(prefix+"norm", false, norm),
			pair(prefix+"linear_fc1", true, wide, wide),
			pair(prefix+"linear_fc2", true, t.Out, wide))
	}
	block := slices.Concat(
		pair("norm1", false, w),
		pair("norm2", false, w),
		pair("attn.qkv", true, 3*w, w),
		pair("attn.proj", true, w, w),
		pair("mlp.linear_fc1", true, f, w),
		pair("mlp.linear_fc2", true, w, f))
	globals := slices.Concat(
		pair("patch_embed.proj", false, w, t.InChannels, t.TemporalPtch, t.Patch, t.Patch),
		[]slot{{path: "pos_embed.weight", shape: []int64{t.Positions, w}, optional: optional}},
		merger("merger.", w))
	return []section{
		tableOf("model.visual.blocks.", true, t.Depth, RoleVision, block),
		tableOf("model.visual.deepstack_merger_list.", true, t.Deepstack, RoleVision, merger("", wide)),
		tableOf("model.visual.", false, 1, RoleVision, globals),
	}
}
