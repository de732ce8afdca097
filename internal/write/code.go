package write

import (
	"encoding/binary"
	"fmt"
	"math"

	"seatsmith/internal/dialect"
	"seatsmith/internal/numeric"
	"seatsmith/internal/safetensors"
)

// do carries out one tile with a worker's buffers.
func (p *production) do(t *tile, b *buffers) error {
	if t.step == stepSettle {
		return p.settle(t.u)
	}
	w := t.u.works[t.w]
	src := b.src[:t.n]
	if err := w.ref.ReadAt(src, t.off); err != nil {
		return fmt.Errorf("reading tensor %s of %s: %w", w.item.Source, w.ref.File.Path, err)
	}
	switch t.step {
	case stepCopy:
		if bad, value := firstNonFinite(w.item.Dtype, src); bad >= 0 {
			t.u.seen(t, 0, bad, value) // the shard is refused; nobody needs the copy
			p.report.add(t.n)
			return nil
		}
		if err := p.put(w.name(dialect.PartKept), src, t.off); err != nil {
			return err
		}
		p.report.add(t.n)
	case stepScan:
		amax, bad := numeric.AmaxBF16(src)
		p.report.add(t.n / 2)
		if t.u.seen(t, amax, bad, valueAt(src, bad)) {
			return p.settle(t.u)
		}
	case stepCode:
		if err := p.code(t, w, src, b); err != nil {
			return err
		}
		p.report.add(t.n - t.n/2)
	case stepRows:
		if err := p.codeRows(t, w, src, b); err != nil {
			return err
		}
		p.report.add(t.n)
	}
	return nil
}

// settle turns what was seen of a unit into its scales and stores them, then lets its tiles be coded. A unit with a
// NaN or Inf, or with values that the format cannot hold, gets neither: the shard is refused when all of it was looked at.
func (p *production) settle(u *unit) error {
	if !u.finite() {
		p.queue.settled(u, false)
		return nil
	}
	var four [4]byte
	switch u.kind {
	case nvfp4:
		u.q = numeric.NewNVFP4(p.math, u.amax())
		if u.extreme() {
			p.queue.settled(u, false)
			return nil
		}
		binary.LittleEndian.PutUint32(four[:], math.Float32bits(p.dialect.GlobalScale(u.q)))
		for _, w := range u.works {
			if err := p.put(w.name(dialect.PartGlobalScale), four[:], 0); err != nil {
				return err
			}
			p.native(w.module, u.q.Global)
		}
	case fp8:
		w := u.works[0]
		u.scale = numeric.FP8Scale(p.math, false, u.amax())
		if err := p.putScale(w, four[:], u.scale, 0); err != nil {
			return err
		}
	case fp8Wide:
		w := u.works[0]
		for i := range u.rows {
			u.rows[i] = numeric.FP8Scale(p.math, true, u.rows[i])
			if err := p.putScale(w, four[:], u.rows[i], int64(i)); err != nil {
				return err
			}
		}
	}
	p.queue.settled(u, true)
	return nil
}

// code codes a tile of a unit that has its scales. src is n BF16 values; NVFP4 makes n/2 bytes of codes and n/16 block
// scales of it, FP8 n codes. Rounding, ties, saturation and zero blocks are package numeric's.
func (p *production) code(t *tile, w *work, src []byte, b *buffers) error {
	if t.u.kind == nvfp4 {
		codes, scales := b.codes[:t.n/4], b.scales[:t.n/32]
		if lost := t.u.q.EncodeBF16(codes, scales, src); lost > 0 {
			t.u.lost(t.w, int64(lost), smallestLost(codes, src))
		}
		if err := p.put(w.name(dialect.PartCodes), codes, t.off/4); err != nil {
			return err
		}
		return p.put(w.name(dialect.PartBlockScale), scales, t.off/32)
	}
	scale := t.u.scale
	if t.u.kind == fp8Wide {
		scale = t.u.rows[t.row]
	}
	codes := b.codes[:t.n/2]
	numeric.EncodeFP8BF16(p.math, t.u.kind == fp8Wide, codes, src, scale)
	return p.put(w.name(dialect.PartCodes), codes, t.off/2)
}

// codeRows scans and codes a tile of whole rows [rows, cols], each with its own scale. A row with a NaN or Inf is
// noted; the rest of the tile is then left alone.
func (p *production) codeRows(t *tile, w *work, src []byte, b *buffers) error {
	width := w.cols * bf16Size
	scaleOut := w.out[dialect.PartScale].Dtype
	size := scaleSize(scaleOut)
	codes, scales := b.codes[:t.n/2], b.scales[:t.rows*size]
	var largest float32
	for r := range t.rows {
		row := src[r*width : (r+1)*width]
		amax, bad := numeric.AmaxBF16(row)
		if bad >= 0 {
			t.u.seen(t, 0, int(r*w.cols)+bad, valueAt(row, bad))
			return nil
		}
		largest = max(largest, amax)
		scale := numeric.FP8Scale(p.math, true, amax)
		if err := storeScale(scales[r*size:(r+1)*size], scaleOut, scale); err != nil {
			return fmt.Errorf("tensor %s, row %d: %w", w.item.Source, t.row+r, err)
		}
		numeric.EncodeFP8BF16(p.math, true, codes[r*w.cols:(r+1)*w.cols], row, scale)
	}
	t.u.seen(t, largest, -1, 0)
	if err := p.put(w.name(dialect.PartCodes), codes, t.off/2); err != nil {
		return err
	}
	return p.put(w.name(dialect.PartScale), scales, t.row*size)
}

// putScale stores one FP8 scale at position i.
func (p *production) putScale(w *work, four []byte, scale float32, i int64) error {
	o := w.out[dialect.PartScale]
	size := scaleSize(o.Dtype)
	if err := storeScale(four[:size], o.Dtype, scale); err != nil {
		return fmt.Errorf("tensor %s, scale %d: %w", w.item.Source, i, err)
	}
	return p.put(o.Name, four[:size], i*size)
}

func scaleSize(d safetensors.Dtype) int64 {
	if d == safetensors.BF16 {
		return 2
	}
	return 4
}

// storeScale writes a scale in the stored dtype. The codes were made with the value itself, so one that the dtype
// cannot hold exactly is an error, never rounded.
func storeScale(dst []byte, d safetensors.Dtype, scale float32) error {
	if d != safetensors.BF16 {
		binary.LittleEndian.PutUint32(dst, math.Float32bits(scale))
		return nil
	}
	u := numeric.BF16FromFloat32(scale)
	if numeric.BF16ToFloat32(u) != scale {
		return fmt.Errorf("scale %g does not fit BF16, the dtype in which the plan stores it: make the plan again with --math ct", scale)
	}
	binary.LittleEndian.PutUint16(dst, u)
	return nil
}

// firstNonFinite finds the first NaN or Inf of a stretch of a kept tensor, -1 when there is none. A server multiplies with
// a kept weight as with any other: one NaN in a norm or an embedding, and everything that it touches is NaN. Integers
// and dtypes that no unquantized checkpoint of a known family has are not looked at.
func firstNonFinite(d safetensors.Dtype, src []byte) (index int, value float32) {
	switch d {
	case safetensors.BF16:
		index = numeric.FirstNonFiniteBF16(src)
		return index, valueAt(src, index)
	case safetensors.F16:
		if index = numeric.FirstNonFiniteF16(src); index >= 0 {
			value = numeric.FP16ToFloat32(binary.LittleEndian.Uint16(src[2*index:]))
		}
		return index, value
	case safetensors.F32:
		if index = numeric.FirstNonFiniteF32(src); index >= 0 {
			value = math.Float32frombits(binary.LittleEndian.Uint32(src[4*index:]))
		}
		return index, value
	}
	return -1, 0
}

// valueAt is element i of src, 0 when i is negative.
func valueAt(src []byte, i int) float32 {
	if i < 0 {
		return 0
	}
	return numeric.BF16ToFloat32(binary.LittleEndian.Uint16(src[bf16Size*i:]))
}

// smallestLost finds, among the blocks of 16 that are zero after coding but were not before, the one with the smallest
// largest absolute value, and returns that value. codes has 8 bytes and src 32 per block.
func smallestLost(codes, src []byte) float32 {
	smallest := float32(math.MaxFloat32)
	for b := 0; b < len(codes)/8; b++ {
		if binary.LittleEndian.Uint64(codes[8*b:])&0x7777777777777777 != 0 { // a sign alone is still zero
			continue
		}
		if amax, _ := numeric.AmaxBF16(src[32*b : 32*b+32]); amax > 0 {
			smallest = min(smallest, amax)
		}
	}
	return smallest
}
