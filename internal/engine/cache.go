package engine

import "strings"

// cacheAttrs are the parameters that an attention module takes for its cache, under every compressed-tensors block
// (compressed_tensors.py CompressedTensorsKVCacheMethod.create_weights).
var cacheAttrs = []string{"q_scale", "k_scale", "v_scale", "q_zero_point", "k_zero_point", "v_zero_point"}

// CacheNeed is what the server takes for one of an attention module's cache parameters ("k_scale"). A single number may
// have any number of dimensions; other shapes stop the loader. With one scale per head (strategy "attn_head") the stored
// shape is flattened. ok is false where the loader throws the tensor away unread.
func (b *Bound) CacheNeed(attr string) (need Need, ok bool) {
	need = Need{Suffix: attr, Dtypes: floats, Shapes: [][]int64{{1}, {}, {1, 1}, {1, 1, 1}}}
	if b.opt != nil { // BaseKVCacheMethod has no zero points; a mixed block has it only with an algorithm for the cache
		q := b.Quantization
		return need, strings.HasSuffix(attr, "_scale") && (q.Method != ModelOptMixed || q.ModelOpt != nil && q.ModelOpt.KV != "")
	}
	if kv := b.Quantization.KV; kv == nil || kv.Strategy != "attn_head" {
		return need, true
	}
	n := b.server.Arch.KVHeads
	if attr == "q_scale" {
		n = b.server.Arch.Heads
	}
	need.Shapes = [][]int64{{n}, {n, 1}, {n, 1, 1}}
	return need, strings.HasSuffix(attr, "_scale")
}
