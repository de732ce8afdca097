package verify

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// values is what the numbers of a kept tensor, or of a part of it, say by themselves. A NaN or an infinity in one norm
// makes every answer NaN, and no server looks.
type values struct {
	seen   int64
	bad    int64 // NaN and infinities: how many were met; the rest of a tile after the first is not looked at
	at     int64 // index of the first
	value  float32
	filled bool // something is not zero
}

// look goes through little-endian values of one dtype; index is that of the first. Zeros of either sign are zero.
func look(d safetensors.Dtype, p []byte, index int64) values {
	v := values{seen: int64(len(p)) / width(d)}
	first := -1
	switch d {
	case safetensors.BF16:
		amax, bad := numeric.AmaxBF16(p)
		first, v.filled = bad, amax > 0
	case safetensors.F16:
		var all uint16
		for i := 0; i+2 <= len(p); i += 2 {
			m := binary.LittleEndian.Uint16(p[i:]) & 0x7FFF
			if all |= m; m >= 0x7C00 {
				first = i / 2
				break
			}
		}
		v.filled = all != 0
	case safetensors.F32:
		var all uint32
		for i := 0; i+4 <= len(p); i += 4 {
			m := binary.LittleEndian.Uint32(p[i:]) & 0x7FFFFFFF
			if all |= m; m >= 0x7F800000 {
				first = i / 4
				break
			}
		}
		v.filled = all != 0
	}
	if first >= 0 {
		v.bad, v.at, v.filled = 1, index+int64(first), true
		v.value = floatAt(d, p[int64(first)*width(d):])
	}
	return v
}

func (v *values) merge(o values) {
	if v.bad == 0 {
		v.at, v.value = o.at, o.value
	}
	v.seen += o.seen
	v.bad += o.bad
	v.filled = v.filled || o.filled
}

// width is the size of a float in bytes.
func width(d safetensors.Dtype) int64 {
	if d == safetensors.F32 {
		return 4
	}
	return 2
}

// kept compares a tile of a tensor that was not quantized: bytes where the dtypes are equal, else values, at counting
// elements then.
func kept(it item, at span, b *buffers) (outcome, error) {
	to := it.stored.Dtype()
	if it.recast() {
		x, err := it.load(at.off, at.n, b)
		if err != nil {
			return outcome{}, err
		}
		y := b.bytes(1, at.n*width(to))
		if err := it.stored.ReadAt(y, at.off*width(to)); err != nil {
			return outcome{}, err
		}
		return recast(it.reads(), to, x, y, at), nil
	}
	x, y := b.bytes(0, at.n), b.bytes(1, at.n)
	if err := it.source.ReadAt(x, it.begin*width(to)+at.off); err != nil {
		return outcome{}, err
	}
	if err := it.stored.ReadAt(y, at.off); err != nil {
		return outcome{}, err
	}
	o := outcome{}
	if float(it.stored) {
		o.values = look(to, y, at.off/width(to))
	}
	if bytes.Equal(x, y) {
		o.equal = at.n
		return o, nil
	}
	for i := range x {
		if x[i] != y[i] {
			if o.differ == 0 {
				o.at = at.off + int64(i)
			}
			o.differ++
		}
	}
	o.equal = at.n - o.differ
	return o, nil
}

// recast compares values of two dtypes; only exactly equal ones are equal, a NaN equals a NaN. A BF16 that is what a wider
// source rounds to (to nearest, ties to even) is counted apart.
func recast(from, to safetensors.Dtype, x, y []byte, at span) outcome {
	o := outcome{values: look(to, y, at.off)}
	for i := range at.n {
		a, b := floatAt(from, x[i*width(from):]), floatAt(to, y[i*width(to):])
		if a != b && (a == a || b == b) {
			if to == safetensors.BF16 && numeric.BF16ToFloat32(numeric.BF16FromFloat32(a)) == b {
				o.rounded++
				continue
			}
			if o.differ == 0 {
				o.at = at.off + i
			}
			o.differ++
		}
	}
	return o
}

// alone looks at the kept tensors that were not compared with a source.
func (j *judge) alone(ctx context.Context) error {
	var list []*model.Tensor
	var tiles []span
	for i := range j.m.Tensors {
		if t := &j.m.Tensors[i]; float(t) && !scaleValues(t) && !j.looked[t.Name] {
			tiles = append(tiles, spans(len(list), t.Bytes(), keptTile)...)
			list = append(list, t)
		}
	}
	results := make([]values, len(tiles))
	err := j.each(ctx, "values", len(tiles), func(i int) int64 { return tiles[i].n }, func(i int, b *buffers) error {
		t, at := list[tiles[i].of], tiles[i]
		p := b.bytes(0, at.n)
		if err := t.ReadAt(p, at.off); err != nil {
			return err
		}
		results[i] = look(t.Dtype(), p, at.off/width(t.Dtype()))
		return nil
	})
	if err != nil {
		return err
	}
	sums := make([]values, len(list))
	for i, r := range results {
		sums[tiles[i].of].merge(r)
	}
	for i, t := range list {
		j.keptValues(t, sums[i], "")
	}
	return nil
}

// keptValues judges the values of one kept tensor. like says how they compare with the source's.
func (j *judge) keptValues(t *model.Tensor, v values, like string) {
	if v.bad > 0 {
		j.blame(t)
		j.notes.join("", playbook.New("kept-nonfinite", t.Name,
			fmt.Sprintf("value %d is %v%s: every answer that passes through it is NaN", v.at, v.value, like),
			"repair the tensor in the source, or take it from the base model, and write the checkpoint again"))
		return
	}
	if v.seen == 0 || v.filled {
		return
	}
	switch t.Role {
	case model.RoleLMHead, model.RoleEmbedding, model.RoleNorm, model.RoleHead:
		j.notes.join("", playbook.New("kept-zero", t.Name, fmt.Sprintf("all %d values are zero%s", v.seen, like),
			"look for the step that left the tensor unfilled; take it from the base model if the zeros are not meant"))
	}
}

// likeSource says whether the source has the value as well.
func (it *item) likeSource(v values) (string, error) {
	if v.bad == 0 {
		return "", nil
	}
	p, err := it.load(v.at, 1, &buffers{})
	if err != nil {
		return "", err
	}
	if s := float64(floatAt(it.reads(), p)); math.IsNaN(s) || math.IsInf(s, 0) {
		return ", and the source has it too", nil
	}
	return ", and the source has a number there", nil
}
