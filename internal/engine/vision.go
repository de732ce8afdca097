package engine

import "fmt"

// vision is Qwen3_VisionTransformer (qwen3_vl.py). Its linears are quantizable to the server; blocks are as wide as
// 4304, which no kernel tile divides, so every recipe keeps the tower as it is.
func (b *builder) vision(runtime, ckpt string) {
	v := b.a.Vision
	b.param(ckpt+"patch_embed.proj.weight", v.Hidden, v.Channels, v.Temporal, v.Patch, v.Patch)
	b.param(ckpt+"patch_embed.proj.bias", v.Hidden)
	b.param(ckpt+"pos_embed.weight", v.Positions, v.Hidden)
	for i := int64(0); i < v.Depth; i++ {
		r, c := fmt.Sprintf("%sblocks.%d.", runtime, i), fmt.Sprintf("%sblocks.%d.", ckpt, i)
		b.norm(c+"norm1", v.Hidden)
		b.norm(c+"norm2", v.Hidden)
		b.linear(r, c, "attn.qkv", qkvClass, Tower, 3*v.Hidden, v.Hidden, true)
		b.linear(r, c, "attn.proj", rowClass, Tower, v.Hidden, v.Hidden, true)
		b.linear(r, c, "mlp.linear_fc1", columnClass, Tower, v.Intermediate, v.Hidden, true)
		b.linear(r, c, "mlp.linear_fc2", rowClass, Tower, v.Hidden, v.Intermediate, true)
	}
	wide := v.Hidden * v.Merge * v.Merge
	b.merger(runtime+"merger.", ckpt+"merger.", v.Hidden, wide)
	for i := int64(0); i < v.Deepstack; i++ {
		p := fmt.Sprintf("deepstack_merger_list.%d.", i)
		b.merger(runtime+p, ckpt+p, wide, wide) // use_postshuffle_norm
	}
}

func (b *builder) merger(runtime, ckpt string, norm, wide int64) {
	b.norm(ckpt+"norm", norm)
	b.linear(runtime, ckpt, "linear_fc1", columnClass, Tower, wide, wide, true)
	b.linear(runtime, ckpt, "linear_fc2", rowClass, Tower, b.a.Vision.Out, wide, true)
}

func (b *builder) norm(ckpt string, width int64) {
	b.param(ckpt+".weight", width)
	b.param(ckpt+".bias", width)
}
