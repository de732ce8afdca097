package verify

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"seatsmith/internal/dialect"
	"seatsmith/internal/engine"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// The exact test. A folder with our own record says which arithmetic made it, and coding without a search has one
// result: the same weights under the same scales give the same bytes. So every tile is coded again from the source and
// compared byte for byte, codes and scales, and the global scale of each fused group is computed again from the largest
// magnitude of its members. Nothing is bounded, nothing is estimated: one flipped bit is found.
//
// It cannot be used for folders without a record, nor where the record names a search: other tools choose scales and
// codes otherwise, within the bounds of wide.go.

// exactly says whether a quantized tensor can be coded again.
func (j *judge) exactly(it item) bool {
	p := j.record
	if p == nil || p.Search != "max" {
		return false
	}
	if _, err := numeric.ParseMath(p.Math); err != nil {
		return false
	}
	if it.kind.fp4() {
		_, ok := j.natives[it.module]
		return ok
	}
	return true
}

// raw is what the dialect's decoder read of some rows.
type raw map[string][]byte

// listen hands the decoder's reads on and keeps them.
func (r raw) listen(read dialect.Reader) dialect.Reader {
	return func(name string, p []byte, off int64) (safetensors.Dtype, error) {
		d, err := read(name, p, off)
		if len(p) > 0 {
			r[name] = p
		}
		return d, err
	}
}

// again codes rows again and counts the blocks (NVFP4) or rows (FP8) that are not what is stored. src is BF16 or
// float32.
func (o *outcome) again(j *judge, it item, at span, src []byte, stored raw) {
	module := it.module
	wide := it.reads() == safetensors.F32
	m, err := numeric.ParseMath(j.record.Math)
	if err != nil {
		return // exactly said otherwise
	}
	if it.kind.fp4() {
		codes, scales := stored[module+"."+it.kind.spelling().codes], stored[module+".weight_scale"]
		wantCodes, wantScales := make([]byte, len(codes)), make([]byte, len(scales))
		if q := (numeric.NVFP4{Math: m, Global: j.natives[module]}); wide {
			q.EncodeF32(wantCodes, wantScales, src)
		} else {
			q.EncodeBF16(wantCodes, wantScales, src)
		}
		o.units += int64(len(scales))
		if bytes.Equal(codes, wantCodes) && bytes.Equal(scales, wantScales) {
			return
		}
		per := it.in / 16
		for i := range scales {
			if scales[i] != wantScales[i] || !bytes.Equal(codes[8*i:8*i+8], wantCodes[8*i:8*i+8]) {
				o.unlike(at.off+int64(i)/per, int64(i)%per)
			}
		}
		return
	}
	codes, channel := stored[module+".weight"], it.scheme == dialect.FP8Channel
	d := j.modules[module]["weight_scale"].Dtype()
	want := make([]byte, it.in)
	size, amaxOf, encode := 2*it.in, numeric.AmaxBF16, numeric.EncodeFP8BF16
	if wide {
		size, amaxOf, encode = 4*it.in, numeric.AmaxF32, numeric.EncodeFP8F32
	}
	for r := range at.n {
		row, have := src[r*size:(r+1)*size], codes[r*it.in:(r+1)*it.in]
		first := int64(0)
		if channel {
			first = r * width(d)
		}
		scale := floatAt(d, stored[module+".weight_scale"][first:])
		o.units++
		right := true
		if channel { // that of a whole tensor waits for its largest value
			amax, _ := amaxOf(row)
			right = math.Float32bits(numeric.FP8Scale(m, true, amax)) == math.Float32bits(scale)
		}
		encode(m, channel, want, row, scale)
		if !right || !bytes.Equal(have, want) {
			o.unlike(at.off+r, 0)
		}
	}
}

func (o *outcome) unlike(row, block int64) {
	if o.unalike == 0 {
		o.unlikeRow, o.unlikeBlock = row, block
	}
	o.unalike++
}

// codesDiffer tells of a tensor that is not what its record's arithmetic makes of the source.
func (j *judge) codesDiffer(it *item, o *outcome) {
	what, where := "rows", fmt.Sprintf("row %d", o.unlikeRow)
	if it.kind.fp4() {
		what, where = "blocks", fmt.Sprintf("block %d of row %d", o.unlikeBlock, o.unlikeRow)
	}
	j.blameModule(it.module)
	j.notes.join(it.kind.String(), playbook.New("codes-differ", it.name(),
		fmt.Sprintf("%d of %d %s of %s are not what the recorded arithmetic (%s) makes of the source, the first is %s", o.unalike, o.units, what, it.kind, j.record.Math, where),
		"copy the folder again from where it was made, or quantize again from the source"))
}

// shared computes the scale of every fused group, and of every tensor with one scale, again from the largest magnitude
// of its members, where all of them were coded again.
func (j *judge) shared() {
	if j.srv == nil || j.record == nil {
		return
	}
	m, err := numeric.ParseMath(j.record.Math)
	if err != nil {
		return
	}
	for i := range j.srv.Linears {
		l := &j.srv.Linears[i]
		for _, group := range j.sharing(l) {
			most, whole := float32(0), true
			for _, name := range group {
				a, ok := j.amaxes[name]
				most, whole = max(most, a), whole && ok
			}
			if !whole || len(group) == 0 {
				continue
			}
			for _, name := range group {
				switch {
				case j.faulty[name]:
				case j.schemes[name] == dialect.NVFP4W4A16:
					if want := numeric.NewNVFP4(m, most).Global; math.Float32bits(want) != math.Float32bits(j.natives[name]) {
						j.otherScale(j.globalName(name), want, j.natives[name], most)
					}
				case j.schemes[name] == dialect.FP8Tensor:
					if want, have := numeric.FP8Scale(m, false, j.amaxes[name]), j.tensorScale(name); math.Float32bits(want) != math.Float32bits(have) {
						j.otherScale(name+".weight_scale", want, have, j.amaxes[name])
					}
				}
			}
		}
	}
}

func (j *judge) otherScale(name string, want, have, amax float32) {
	j.blameModule(moduleName(name))
	j.notes.join("scale", playbook.New("codes-differ", name,
		fmt.Sprintf("its native value is %v, and the recorded arithmetic (%s) makes %v of the largest magnitude %v of the tensors that share it", have, j.record.Math, want, amax),
		"quantize again from the source"))
}

// sharing lists which of a module's shards share one global scale.
func (j *judge) sharing(l *engine.Linear) [][]string {
	var all []string
	for _, s := range l.Shards {
		all = append(all, s.Name)
	}
	var out [][]string
	switch {
	case l.Routed():
		for n := 0; n+2 < len(all); n += 3 {
			out = append(out, all[n:n+2], all[n+2:n+3])
		}
	case !l.Fused() || j.record.Groups == groupsPeer && !peerShares(l.Shards[0].Key):
		for i := range all {
			out = append(out, all[i:i+1])
		}
	default:
		out = append(out, all)
	}
	return out
}

// peerShares: llm-compressor 0.13 gives q, k and v, and gate and up, one scale, and no other group.
func peerShares(key string) bool { return key == "q_proj" || key == "gate_proj" }

// tensorScale is the one FP8 scale of a module.
func (j *judge) tensorScale(module string) float32 {
	var p [4]byte
	t := j.modules[module]["weight_scale"]
	if t == nil || t.Bytes() > 4 || t.ReadAt(p[:t.Bytes()], 0) != nil {
		return float32(math.NaN())
	}
	if t.Dtype() == safetensors.F32 {
		return math.Float32frombits(binary.LittleEndian.Uint32(p[:]))
	}
	return floatAt(t.Dtype(), p[:])
}
