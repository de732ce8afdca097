package verify

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// scaleTile is how many bytes of a scale tensor (or of FP8 codes) are read at once.
const scaleTile = 1 << 20

// scan is what the values of one tensor of scales, or of FP8 codes, say.
type scan struct {
	t         *model.Tensor
	values    int64
	bad       int64  // values that no scale may have (codes: NaN)
	first     int64  // index of the first bad one
	what      string // that value, in words
	subnormal int64  // block scales below E4M3's normal range
	least     byte   // the smallest of their codes, 1 to 7
	ones      int64  // values that are exactly 1
	head      float32
}

// scales reads every scale tensor and every FP8 weight code, and judges the values.
func (j *judge) scales(ctx context.Context) error {
	var list []scan
	var tiles []span
	for i := range j.m.Tensors {
		if t := &j.m.Tensors[i]; scaleValues(t) || fp8Codes(t) {
			tiles = append(tiles, spans(len(list), t.Bytes(), scaleTile)...)
			list = append(list, scan{t: t, first: -1})
		}
	}
	results := make([]scan, len(tiles))
	err := j.each(ctx, "scales", len(tiles), func(i int) int64 { return tiles[i].n }, func(i int, b *buffers) error {
		results[i] = scan{t: list[tiles[i].of].t, first: -1}
		return results[i].read(j.m, tiles[i], b)
	})
	if err != nil {
		return err
	}
	for i, r := range results {
		list[tiles[i].of].merge(r)
	}
	j.judgeScans(list)
	return nil
}

// scaleValues says whether a tensor holds scales that can be read as numbers.
func scaleValues(t *model.Tensor) bool {
	switch t.Suffix {
	case "weight_scale", "weight_global_scale", "input_global_scale", "input_scale", "weight_scale_2", "weight_scale_inv", "k_scale", "v_scale", "q_scale":
		return float(t) || t.Dtype() == safetensors.F8E4M3
	}
	return false
}

func fp8Codes(t *model.Tensor) bool {
	return t.Suffix == "weight" && t.Dtype() == safetensors.F8E4M3
}

// read goes through one tile.
func (s *scan) read(m *model.Model, at span, b *buffers) error {
	p := b.bytes(0, at.n)
	if err := s.t.ReadAt(p, at.off); err != nil {
		return err
	}
	if s.t.Dtype() != safetensors.F8E4M3 {
		s.floats(p, at.off)
		return nil
	}
	s.values = at.n
	zero := false
	codes := fp8Codes(s.t)
	for i, c := range p {
		switch {
		case c&0x7F == 0x7F:
			s.fault(at.off+int64(i), fmt.Sprintf("NaN (code 0x%02X)", c))
		case codes:
		case c&0x7F == 0:
			zero = true
		case c >= 0x80:
			s.fault(at.off+int64(i), fmt.Sprintf("%v (code 0x%02X), negative", numeric.E4M3ToFloat32(c), c))
		case c < 0x08:
			if s.subnormal == 0 || c < s.least {
				s.least = c
			}
			s.subnormal++
		}
	}
	if zero {
		return s.silenced(m, p, at, b)
	}
	return nil
}

// silenced looks for blocks whose scale is zero while their codes are not: no quantizer writes that.
func (s *scan) silenced(m *model.Model, scales []byte, at span, b *buffers) error {
	module := strings.TrimSuffix(s.t.Name, "weight_scale")
	t, ok := m.Lookup(module + "weight_packed")
	if !ok {
		t, ok = m.Lookup(module + "weight") // modelopt
	}
	if !ok || t.Dtype() != safetensors.U8 || t.Bytes() != 8*s.t.Bytes() {
		return nil
	}
	codes := b.bytes(1, 8*at.n)
	if err := t.ReadAt(codes, 8*at.off); err != nil {
		return err
	}
	for i, c := range scales {
		if c&0x7F == 0 && binary.LittleEndian.Uint64(codes[8*i:])&0x7777777777777777 != 0 {
			s.fault(at.off+int64(i), "0, which silences a block whose codes are not zero")
		}
	}
	return nil
}

func (s *scan) floats(p []byte, off int64) {
	width := int64(2)
	if s.t.Dtype() == safetensors.F32 {
		width = 4
	}
	for i := int64(0); (i+1)*width <= int64(len(p)); i++ {
		v := floatAt(s.t.Dtype(), p[i*width:])
		if off == 0 && i == 0 {
			s.head = v
		}
		s.values++
		switch {
		case v == 1:
			s.ones++
		case !(v > 0) || math.IsInf(float64(v), 0):
			s.fault(off/width+i, fmt.Sprint(v))
		}
	}
}

func floatAt(d safetensors.Dtype, p []byte) float32 {
	switch d {
	case safetensors.F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(p))
	case safetensors.F16:
		return numeric.FP16ToFloat32(binary.LittleEndian.Uint16(p))
	}
	return numeric.BF16ToFloat32(binary.LittleEndian.Uint16(p))
}

func (s *scan) fault(index int64, what string) {
	if s.bad == 0 || index < s.first {
		s.first, s.what = index, what
	}
	s.bad++
}

// merge adds a later tile.
func (s *scan) merge(o scan) {
	if s.values == 0 {
		s.head = o.head
	}
	if s.bad == 0 {
		s.first, s.what = o.first, o.what
	}
	s.bad += o.bad
	s.values += o.values
	if o.subnormal > 0 && (s.subnormal == 0 || o.least < s.least) {
		s.least = o.least
	}
	s.subnormal += o.subnormal
	s.ones += o.ones
}

// judgeScans turns what was read into findings.
func (j *judge) judgeScans(list []scan) {
	j.globals, j.subnormal = map[string]float32{}, map[string]blocks{}
	all, bad := map[string]int{}, map[string]int{}
	for i := range list {
		all[list[i].t.Suffix]++
		if list[i].bad > 0 {
			bad[list[i].t.Suffix]++
		}
	}
	cached, ones := 0, 0
	for i := range list {
		s := &list[i]
		module := moduleName(s.t.Name)
		if s.t.Suffix == "k_scale" || s.t.Suffix == "v_scale" {
			if cached++; s.ones == s.values {
				ones++
			}
		}
		switch {
		case s.bad > 0 && fp8Codes(s.t):
			j.explained(module)
			j.blame(s.t)
			j.notes.join("", playbook.New("codes-nan", s.t.Name,
				fmt.Sprintf("%d of %d weights are NaN, the first at index %d", s.bad, s.values, s.first), "quantize the module again from the source"))
		case s.bad > 0:
			if strings.HasPrefix(s.t.Suffix, "weight") { // the scale of an input explains nothing about the weight
				j.explained(module)
			}
			j.blame(s.t)
			j.notes.join(s.t.Suffix, playbook.New("scale-bad", s.t.Name,
				fmt.Sprintf("value %d is %s; %d of its %d values are bad, in %d of %d tensors %s", s.first, s.what, s.bad, s.values, bad[s.t.Suffix], all[s.t.Suffix], s.t.Suffix),
				"quantize the module again from the source; an expert that saw no activations takes the scale of its layer"))
		case slices.Contains([]string{"weight_global_scale", "input_global_scale", "weight_scale_2", "input_scale"}, s.t.Suffix):
			if s.t.Dtype() != safetensors.F32 { // tensor-dtype tells of it
				continue
			}
			j.globals[s.t.Name] = s.head
		case s.subnormal > 0:
			j.subnormal[module] = blocks{s.subnormal, s.values, s.least}
		}
	}
	if j.quant != nil && j.quant.KV != nil && cached > 0 && ones == cached {
		j.add(playbook.New("kv-scale-missing", j.quant.Key+".kv_cache_scheme",
			fmt.Sprintf("all %d key/value scales are exactly 1, as if nothing had been calibrated", cached),
			"calibrate the cache, or set kv_cache_scheme to null"))
	}
	j.inverted()
	j.fusedScales()
	j.native()
}

// blocks counts blocks of a module; least is the smallest of their E4M3 codes.
type blocks struct {
	some, of int64
	least    byte
}

// ratio is how far the faintest block lies below the largest value of its group: the scale of that one is 448, and a
// subnormal code counts 2^-9 each.
func (b blocks) ratio() float64 { return 448 * 512 / float64(max(1, b.least)) }

// explained notes that a module's values are known to be wrong, so that its error is no news.
func (j *judge) explained(module string) { j.faulty[module] = true }

// inverted: compressed-tensors stores a divisor, 2688 over the largest weight; a value below 1 would mean a weight
// above 2688, and looks like modelopt's multiplier. For the same reason modelopt's multiplier is never above 1.
func (j *judge) inverted() {
	for i := range j.m.Tensors {
		t := &j.m.Tensors[i]
		if g, ok := j.globals[t.Name]; ok && (t.Suffix == "weight_global_scale" && g < 1 || t.Suffix == "weight_scale_2" && g > 1 && j.quant != nil && j.quant.IsModelOpt()) {
			j.suspects = append(j.suspects, moduleName(t.Name)) // a suspicion: it explains nothing until the source says so
		}
	}
}

// fusedScales: a fused module has one global scale in the server, the largest divisor of its shards, and their block
// scales are relative to their own: unequal ones decode wrongly by the ratio. Equality is bitwise.
func (j *judge) fusedScales() {
	if j.srv == nil {
		return
	}
	for i := range j.srv.Linears {
		l := &j.srv.Linears[i]
		groups := [][]int{}
		switch {
		case l.Fused():
			all := make([]int, len(l.Shards))
			for n := range all {
				all[n] = n
			}
			groups = append(groups, all)
		case l.Routed(): // gate and up of each expert
			for n := 0; n+2 < len(l.Shards); n += 3 {
				groups = append(groups, []int{n, n + 1})
			}
		}
		for _, g := range groups {
			j.oneScale(i, g, "weight_global_scale", playbook.Error)
			j.oneScale(i, g, "weight_scale_2", playbook.Error)
			j.oneScale(i, g, "input_global_scale", playbook.Warning)
			j.oneScale(i, g, "input_scale", playbook.Warning)
		}
	}
}

func (j *judge) oneScale(i int, group []int, attr string, severity playbook.Severity) {
	l := &j.srv.Linears[i]
	var names, values []string
	var tensors []*model.Tensor
	low, high := float32(math.Inf(1)), float32(0)
	for _, n := range group {
		t := j.stored[i][n][attr]
		if t == nil {
			return
		}
		g, ok := j.globals[t.Name]
		if !ok || severity == playbook.Error && j.faulty[l.Shards[n].Name] {
			return
		}
		names, tensors = append(names, l.Shards[n].Name), append(tensors, t)
		values = append(values, fmt.Sprintf("%s %v", l.Shards[n].Key, g))
		low, high = min(low, g), max(high, g)
	}
	if len(names) < 2 || math.Float32bits(low) == math.Float32bits(high) {
		return
	}
	if severity == playbook.Error {
		j.blame(tensors...)
		for _, n := range names {
			j.explained(n)
		}
	}
	j.notes.join(attr, playbook.New("fused-scale", names[0]+"."+attr,
		fmt.Sprintf("the server uses one number for %s, and they differ by a factor of %.4g: %s", strings.Join(names, ", "), high/low, strings.Join(values, ", ")),
		"quantize the group with one shared scale: the smallest divisor (the largest multiplier), which belongs to the largest weight").As(severity))
}

// moduleName is a tensor's name without its last component.
func moduleName(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i]
	}
	return name
}
