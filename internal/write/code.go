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
	if err := w.ref.ReadAt(src, w.first+t.off); err != nil {
		return fmt.Errorf("reading tensor %s of %s: %w", w.item.Source, w.ref.File.Path, err)
	}
	switch t.step {
	case stepCopy:
		defer p.report.add(t.n)
		if seen := w.firstBad(src); seen.bad >= 0 {
			t.u.seen(t, seen) // the shard is refused; nobody needs the copy
			return nil
		}
		if w.item.Record != "" {
			p.native(w.item.Record, math.Float32frombits(binary.LittleEndian.Uint32(src)))
		}
		return p.put(w.name(dialect.PartKept), src, t.off)
	case stepTurn:
		defer p.report.add(t.n)
		return p.turn(t, w, src)
	}
	data, seen, ok, err := p.load(t, w, src, b)
	if err != nil {
		return err
	}
	switch t.step {
	case stepRound:
		defer p.report.add(t.n)
		if ok {
			rounded := b.codes[:2*t.n/w.width]
			seen.changed, seen.bad = numeric.RoundF32(rounded, data)
			seen.value = w.valueAt(data, seen.bad)
			ok = seen.bad < 0
			if ok {
				err = p.put(w.name(dialect.PartKept), rounded, t.off/w.width*2)
			}
		}
		t.u.seen(t, seen)
		return err
	case stepScan:
		if ok {
			seen = w.look(data)
		}
		p.report.add(t.n / 2)
		if t.u.seen(t, seen) {
			return p.settle(t.u)
		}
	case stepCode:
		defer p.report.add(t.n - t.n/2)
		if ok { // else the scales changed after they were looked at, and so the file did, which is found out
			return p.code(t, w, data, b)
		}
		t.u.seen(t, seen)
	case stepRows:
		defer p.report.add(t.n)
		if ok {
			return p.codeRows(t, w, data, b)
		}
		t.u.seen(t, seen)
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

// code codes a tile of a unit that has its scales. data is n values, BF16 or float32; NVFP4 makes n/2 bytes of codes and
// n/16 block scales of it, FP8 n codes. Rounding, ties, saturation and zero blocks are package numeric's.
func (p *production) code(t *tile, w *work, data []byte, b *buffers) error {
	n, at := t.n/w.width, t.off/w.width
	if t.u.kind == nvfp4 {
		codes, scales := b.codes[:n/2], b.scales[:n/16]
		encode, wide := t.u.q.EncodeBF16, w.wide()
		if wide {
			encode = t.u.q.EncodeF32
		}
		if lost := encode(codes, scales, data); lost > 0 {
			t.u.lost(t.w, int64(lost), smallestLost(codes, data, wide))
		}
		if err := p.put(w.name(dialect.PartCodes), codes, at/2); err != nil {
			return err
		}
		return p.put(w.name(dialect.PartBlockScale), scales, at/16)
	}
	scale := t.u.scale
	if t.u.kind == fp8Wide {
		scale = t.u.rows[t.row]
	}
	codes := b.codes[:n]
	w.encodeFP8(p.math, t.u.kind == fp8Wide, codes, data, scale)
	return p.put(w.name(dialect.PartCodes), codes, at)
}

// encodeFP8 codes data, BF16 or float32, with one scale.
func (w *work) encodeFP8(m numeric.Math, channel bool, codes, data []byte, scale float32) {
	if w.wide() {
		numeric.EncodeFP8F32(m, channel, codes, data, scale)
	} else {
		numeric.EncodeFP8BF16(m, channel, codes, data, scale)
	}
}

// codeRows scans and codes a tile of whole rows [rows, cols], each with its own scale. A row with a NaN or Inf is
// noted; the rest of the tile is then left alone.
func (p *production) codeRows(t *tile, w *work, data []byte, b *buffers) error {
	n := t.n / w.width
	width := int64(len(data))
	if t.rows > 0 {
		width /= t.rows
	}
	scaleOut := w.out[dialect.PartScale].Dtype
	size := scaleSize(scaleOut)
	codes, scales := b.codes[:n], b.scales[:t.rows*size]
	all := nothingBad
	for r := range t.rows {
		row := data[r*width : (r+1)*width]
		seen := w.look(row)
		if seen.bad >= 0 {
			seen.bad += int(r * w.cols)
			t.u.seen(t, seen)
			return nil
		}
		all.amax = max(all.amax, seen.amax)
		scale := numeric.FP8Scale(p.math, true, seen.amax)
		if err := storeScale(scales[r*size:(r+1)*size], scaleOut, scale); err != nil {
			return fmt.Errorf("tensor %s, row %d: %w", w.item.Source, t.row+r, err)
		}
		w.encodeFP8(p.math, true, codes[r*w.cols:(r+1)*w.cols], row, scale)
	}
	t.u.seen(t, all)
	if err := p.put(w.name(dialect.PartCodes), codes, t.off/w.width); err != nil {
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

// firstBad finds the first NaN or Inf of a stretch of a kept tensor. A server multiplies with a kept weight as with any
// other: one NaN in a norm or an embedding, and everything that it touches is NaN. Integers and dtypes that no checkpoint of
// a known family has are not looked at.
func (w *work) firstBad(src []byte) sight {
	s := nothingBad
	switch w.item.Dtype {
	case safetensors.BF16:
		if s.bad = numeric.FirstNonFiniteBF16(src); s.bad >= 0 {
			s.value = numeric.BF16ToFloat32(binary.LittleEndian.Uint16(src[2*s.bad:]))
		}
	case safetensors.F16:
		if s.bad = numeric.FirstNonFiniteF16(src); s.bad >= 0 {
			s.value = numeric.FP16ToFloat32(binary.LittleEndian.Uint16(src[2*s.bad:]))
		}
	case safetensors.F32:
		if s.bad = numeric.FirstNonFiniteF32(src); s.bad >= 0 {
			s.value = math.Float32frombits(binary.LittleEndian.Uint32(src[4*s.bad:]))
		}
	case safetensors.F8E4M3:
		if s.bad = numeric.FirstNaNE4M3(src); s.bad >= 0 {
			s.value = numeric.E4M3ToFloat32(src[s.bad])
		}
	}
	return s
}

// smallestLost finds, among the blocks of 16 that are zero after coding but were not before, the one with the smallest
// largest absolute value, and returns that value. codes has 8 bytes per block, data 32 of BF16 or 64 of float32.
func smallestLost(codes, data []byte, wide bool) float32 {
	smallest := float32(math.MaxFloat32)
	size, amaxOf := 32, numeric.AmaxBF16
	if wide {
		size, amaxOf = 64, numeric.AmaxF32
	}
	for b := 0; b < len(codes)/8; b++ {
		if binary.LittleEndian.Uint64(codes[8*b:])&0x7777777777777777 != 0 { // a sign alone is still zero
			continue
		}
		if amax, _ := amaxOf(data[size*b : size*(b+1)]); amax > 0 {
			smallest = min(smallest, amax)
		}
	}
	return smallest
}
