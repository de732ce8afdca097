package write_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/write"
)

// A weight is one tensor of a made source: what is stored, and the float32 values that it stands for.
type weight struct {
	spec   safetensors.Spec
	data   []byte
	values []float32
	scale  *plan.SourceScale
	scales []byte           // of an FP8 source
	at     safetensors.Spec // where they are stored
}

// makeWeight fills a tensor with normally distributed values; block is that of an FP8 source.
func makeWeight(rng *rand.Rand, name string, d safetensors.Dtype, block [2]int64, shape ...int64) *weight {
	w := &weight{spec: safetensors.Spec{Name: name, Dtype: d, Shape: shape}}
	n := int64(1)
	for _, s := range shape {
		n *= s
	}
	var scales []float32
	out, in := shape[len(shape)-2], shape[len(shape)-1]
	down, across := int64(0), int64(0)
	if d == safetensors.F8E4M3 {
		down, across = (out+block[0]-1)/block[0], (in+block[1]-1)/block[1]
		for range n / (out * in) * down * across {
			s := float32(math.Exp(rng.NormFloat64())) * 0.001
			scales = append(scales, s)
			w.scales = binary.LittleEndian.AppendUint32(w.scales, math.Float32bits(s))
		}
		w.at = safetensors.Spec{Name: name + "_scale_inv", Dtype: safetensors.F32, Shape: []int64{n / (out * in) * down, across}}
		w.scale = &plan.SourceScale{Name: w.at.Name, Dtype: safetensors.F32, Block: block, Origin: model.Body}
	}
	for i := range n {
		v := float32(rng.NormFloat64() * 0.02)
		switch d {
		case safetensors.BF16:
			u := numeric.BF16FromFloat32(v)
			w.data, w.values = binary.LittleEndian.AppendUint16(w.data, u), append(w.values, numeric.BF16ToFloat32(u))
		case safetensors.F16:
			u := numeric.FP16FromFloat32(v)
			w.data, w.values = binary.LittleEndian.AppendUint16(w.data, u), append(w.values, numeric.FP16ToFloat32(u))
		case safetensors.F32:
			w.data, w.values = binary.LittleEndian.AppendUint32(w.data, math.Float32bits(v)), append(w.values, v)
		case safetensors.F8E4M3:
			u := numeric.E4M3FromFloat32(v * 5000)
			matrix, row, col := i/(out*in), i%(out*in)/in, i%in
			s := scales[(matrix*down+row/block[0])*across+col/block[1]]
			w.data, w.values = append(w.data, u), append(w.values, float32(numeric.E4M3ToFloat32(u)*s))
		}
	}
	return w
}

// float32Bytes is values as a float32 tensor.
func float32Bytes(values []float32) []byte {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// made stores weights as a checkpoint of no family.
func made(t *testing.T, ws ...*weight) (*model.Model, *plan.Plan) {
	t.Helper()
	specs := map[string]safetensors.Spec{}
	for _, w := range ws {
		specs[w.spec.Name] = w.spec
		if w.scale != nil {
			specs[w.at.Name] = w.at
		}
	}
	m, p := handmade(t, specs)
	for _, w := range ws {
		w.store(t, m)
	}
	return m, p
}

// store puts a weight's bytes into its checkpoint.
func (w *weight) store(t *testing.T, m *model.Model) {
	t.Helper()
	edit(t, m.Dir, w.spec.Name, func(b []byte) { copy(b, w.data) })
	if w.scale != nil {
		edit(t, m.Dir, w.at.Name, func(b []byte) { copy(b, w.scales) })
	}
}

// part is an output of a scheme.
func part(name string, part dialect.Part, d safetensors.Dtype, shape ...int64) dialect.Output {
	return dialect.Output{Name: name, Part: part, Dtype: d, Shape: shape}
}

// outputs are those of a matrix under a scheme.
func outputs(module string, s dialect.Scheme, m numeric.Math, out, in int64) []dialect.Output {
	if s.NVFP4() {
		return []dialect.Output{
			part(module+".weight_packed", dialect.PartCodes, safetensors.U8, out, in/2),
			part(module+".weight_scale", dialect.PartBlockScale, safetensors.F8E4M3, out, in/16),
			part(module+".weight_global_scale", dialect.PartGlobalScale, safetensors.F32, 1),
		}
	}
	d, rows := safetensors.F32, int64(1)
	if m == numeric.CT {
		d = safetensors.BF16
	}
	if s == dialect.FP8Channel {
		rows = out
	}
	return []dialect.Output{
		part(module+".weight", dialect.PartCodes, safetensors.F8E4M3, out, in),
		part(module+".weight_scale", dialect.PartScale, d, rows, 1),
	}
}

// expect computes what a weight's values become, from the plain definitions. amax is that of its group.
func expect(s dialect.Scheme, m numeric.Math, values []float32, in int, amax float32) (codes, scales []byte) {
	src := float32Bytes(values)
	if s.NVFP4() {
		codes, scales = make([]byte, len(values)/2), make([]byte, len(values)/16)
		numeric.NewNVFP4(m, amax).EncodeF32Reference(codes, scales, src)
		return codes, scales
	}
	channel := s == dialect.FP8Channel
	for r := 0; r < len(values); r += in {
		if channel {
			amax = largest(values[r : r+in])
		}
		scale := numeric.FP8Scale(m, channel, amax)
		if channel || r == 0 {
			if m == numeric.CT {
				scales = binary.LittleEndian.AppendUint16(scales, numeric.BF16FromFloat32(scale))
			} else {
				scales = binary.LittleEndian.AppendUint32(scales, math.Float32bits(scale))
			}
		}
		divisor := scale
		if m == numeric.Modelopt && !channel {
			divisor = numeric.BF16ToFloat32(numeric.BF16FromFloat32(scale))
		}
		for _, v := range values[r : r+in] {
			x := v / divisor
			if m == numeric.CT || !channel {
				x = numeric.BF16ToFloat32(numeric.BF16FromFloat32(x))
			}
			codes = append(codes, numeric.E4M3FromFloat32(x))
		}
	}
	return codes, scales
}

func largest(values []float32) (amax float32) {
	for _, v := range values {
		amax = max(amax, v, -v)
	}
	return amax
}

// stored opens an output and reads tensors of it.
func stored(t *testing.T, out string) func(name string) []byte {
	t.Helper()
	set, err := safetensors.OpenSet(out)
	must(t, err)
	t.Cleanup(func() { set.Close() })
	return func(name string) []byte {
		ref, ok := set.Lookup(name)
		if !ok {
			t.Fatalf("no tensor %s", name)
		}
		return readTensor(t, ref)
	}
}

// sources are the dtypes and scalings of a source, with one that no block size divides.
var sources = []struct {
	name  string
	dtype safetensors.Dtype
	block [2]int64
}{
	{"BF16", safetensors.BF16, [2]int64{}},
	{"F16", safetensors.F16, [2]int64{}},
	{"F32", safetensors.F32, [2]int64{}},
	{"FP8 block", safetensors.F8E4M3, [2]int64{16, 32}},
	{"FP8 tensor", safetensors.F8E4M3, [2]int64{37, 80}},
	{"FP8 channel", safetensors.F8E4M3, [2]int64{1, 80}},
	{"FP8 one large block", safetensors.F8E4M3, [2]int64{math.MaxInt32, 128}},
}

func TestEverySourceIsQuantizedStraightFromItsFloat32Values(t *testing.T) {
	for _, math := range []numeric.Math{numeric.Modelopt, numeric.ModeloptCPU, numeric.CT} {
		for _, scheme := range []dialect.Scheme{dialect.NVFP4W4A16, dialect.FP8Channel, dialect.FP8Tensor} {
			t.Run(fmt.Sprint(math, " ", scheme), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(7, uint64(math)))
				var ws []*weight
				for i, s := range sources {
					ws = append(ws, makeWeight(rng, fmt.Sprintf("w%d.weight", i), s.dtype, s.block, 37, 80))
				}
				m, p := made(t, ws...)
				p.Math = math.String()
				for i, w := range ws {
					add(t, m, p, w.spec.Name, scheme, outputs(fmt.Sprintf("w%d", i), scheme, math, 37, 80)...)
					p.Items[i].SourceScale = w.scale
				}
				var first map[string]string
				for _, tile := range []int64{0, 32, 96, 4096} {
					undo := write.SetTile(tile)
					out := filepath.Join(t.TempDir(), "out")
					mustRun(t, p, m, out, write.Options{Workers: 2})
					undo()
					if first != nil {
						sameTree(t, tree(t, out), first)
						continue
					}
					first = tree(t, out)
					get := stored(t, out)
					for i, w := range ws {
						codes, scales := expect(scheme, math, w.values, 80, largest(w.values))
						name := fmt.Sprintf("w%d.weight", i)
						if scheme.NVFP4() {
							if !bytes.Equal(get(name+"_packed"), codes) || !bytes.Equal(get(name+"_scale"), scales) {
								t.Errorf("%s: codes or scales differ from the definition", sources[i].name)
							}
						} else if !bytes.Equal(get(name), codes) || !bytes.Equal(get(name+"_scale"), scales) {
							t.Errorf("%s: codes or scales differ from the definition", sources[i].name)
						}
					}
				}
			})
		}
	}
}

// A q projection that was left in F32 beside a k projection in FP8 and a v projection in BF16.
func TestAGroupOfSeveralDtypesSharesOneGlobalScale(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	q := makeWeight(rng, "q.weight", safetensors.F32, [2]int64{}, 16, 64)
	k := makeWeight(rng, "k.weight", safetensors.F8E4M3, [2]int64{8, 64}, 16, 64)
	v := makeWeight(rng, "v.weight", safetensors.BF16, [2]int64{}, 16, 64)
	m, p := made(t, q, k, v)
	var all []float32
	for i, w := range []*weight{q, k, v} {
		module := strings.TrimSuffix(w.spec.Name, ".weight")
		add(t, m, p, w.spec.Name, dialect.NVFP4W4A16, outputs(module, dialect.NVFP4W4A16, numeric.Modelopt, 16, 64)...)
		p.Items[i].SourceScale, p.Items[i].Group = w.scale, "qkv"
		all = append(all, w.values...)
	}
	out := filepath.Join(t.TempDir(), "out")
	mustRun(t, p, m, out, write.Options{Workers: 2})
	get := stored(t, out)
	global := float32Bytes([]float32{numeric.NewNVFP4(numeric.Modelopt, largest(all)).Divisor()})
	for _, w := range []*weight{q, k, v} {
		codes, scales := expect(dialect.NVFP4W4A16, numeric.Modelopt, w.values, 64, largest(all))
		if !bytes.Equal(get(w.spec.Name+"_packed"), codes) || !bytes.Equal(get(w.spec.Name+"_scale"), scales) || !bytes.Equal(get(w.spec.Name+"_global_scale"), global) {
			t.Errorf("%s differs from the definition with the scale of the group", w.spec.Name)
		}
	}
}

// Experts in one tensor of three dimensions: gate and up of each are one group, the last expert is left out.
func TestAStretchOfATensorIsOneExpert(t *testing.T) {
	for _, s := range sources {
		t.Run(s.name, func(t *testing.T) {
			const experts, half, in = 3, 5, 48
			block := s.block
			if block[0] > 1 {
				block = [2]int64{4, 32} // cuts an expert, and no expert is a whole number of blocks
			}
			w := makeWeight(rand.New(rand.NewPCG(1, 3)), "experts.gate_up", s.dtype, block, experts, 2*half, in)
			m, p := made(t, w)
			tensor, _ := m.Lookup(w.spec.Name)
			p.Shards = []plan.Shard{{File: "model-00001-of-00001.safetensors"}}
			for i, name := range []string{"0.gate", "0.up", "1.gate", "1.up"} {
				it := plan.Item{
					Source: w.spec.Name, Begin: int64(i * half * in), Origin: tensor.Origin, Role: tensor.Role, Dtype: s.dtype, Shape: []int64{half, in},
					Action: plan.Quantize, Scheme: dialect.NVFP4W4A16, Group: name[:1], SourceScale: w.scale,
					Outputs: outputs("experts."+name, dialect.NVFP4W4A16, numeric.Modelopt, half, in),
				}
				p.Items = append(p.Items, it)
				p.Shards[0].Items = append(p.Shards[0].Items, i)
				p.Shards[0].Bytes += half*in/2 + half*in/16 + 4
			}
			_, err := write.Run(context.Background(), p, m, filepath.Join(t.TempDir(), "out"), write.Options{})
			says(t, err, w.spec.Name, "960 to 1439", "in no item")
			p.Dropped = []plan.Dropped{{Name: w.spec.Name, Origin: model.Body, Reason: "a test leaves the last expert out"}}
			for _, tile := range []int64{0, 32} {
				undo := write.SetTile(tile)
				out := filepath.Join(t.TempDir(), "out")
				mustRun(t, p, m, out, write.Options{Workers: 2})
				undo()
				get := stored(t, out)
				record := readRecord(t, out)
				for i, name := range []string{"0.gate", "0.up", "1.gate", "1.up"} {
					expert := w.values[i/2*2*half*in:][:2*half*in]
					codes, scales := expect(dialect.NVFP4W4A16, numeric.Modelopt, w.values[i*half*in:][:half*in], in, largest(expert))
					name = "experts." + name
					if !bytes.Equal(get(name+".weight_packed"), codes) || !bytes.Equal(get(name+".weight_scale"), scales) {
						t.Errorf("%s differs from its stretch of the source", name)
					}
					if got, want := record.Native[name], numeric.NewNVFP4(numeric.Modelopt, largest(expert)).Global; got != want {
						t.Errorf("the record has scale %v for %s, want %v", got, name, want)
					}
				}
			}
		})
	}
}

func TestItemsOfATensorNeitherOverlapNorLeaveAnythingOut(t *testing.T) {
	w := makeWeight(rand.New(rand.NewPCG(1, 3)), "e", safetensors.BF16, [2]int64{}, 4, 32)
	m, p := made(t, w)
	add(t, m, p, "e", dialect.BF16, kept("a", safetensors.BF16, 2, 32))
	add(t, m, p, "e", dialect.BF16, kept("b", safetensors.BF16, 2, 32))
	for i := range p.Items {
		p.Items[i].Shape, p.Items[i].Begin = []int64{2, 32}, int64(i)*64
	}
	out := filepath.Join(t.TempDir(), "out")
	mustRun(t, p, m, out, write.Options{})
	if get := stored(t, out); !bytes.Equal(append(get("a"), get("b")...), w.data) {
		t.Error("the halves are not the tensor")
	}
	for begin, word := range map[int64]string{32: "two items", 65: "planned as", 96: "planned as", -1: "planned as", math.MaxInt64: "planned as"} {
		broken := clone(t, p)
		broken.Items[1].Begin = begin
		_, err := write.Run(context.Background(), broken, m, filepath.Join(t.TempDir(), "out"), write.Options{})
		says(t, err, "tensor e", word)
	}
	broken := clone(t, p)
	broken.Items[0].Begin, broken.Items[0].Shape = 1, []int64{63}
	_, err := write.Run(context.Background(), broken, m, filepath.Join(t.TempDir(), "out"), write.Options{})
	says(t, err, "elements 0 to 0 of tensor e")
}

func TestKeptTensorsBecomeBF16AndWhatChangesIsCounted(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	f32 := makeWeight(rng, "f32", safetensors.F32, [2]int64{}, 9, 33)
	f16 := makeWeight(rng, "f16", safetensors.F16, [2]int64{}, 5, 20)
	fp8 := makeWeight(rng, "fp8", safetensors.F8E4M3, [2]int64{4, 16}, 9, 33)
	m, p := made(t, f32, f16, fp8)
	for i, w := range []*weight{f32, f16, fp8} {
		add(t, m, p, w.spec.Name, dialect.BF16, kept(w.spec.Name+".new", safetensors.BF16, w.spec.Shape...))
		p.Items[i].Action, p.Items[i].SourceScale, p.Items[i].Role = plan.Cast, w.scale, model.RoleNorm
	}
	p.Items[2].Action = plan.Widen
	changed := 0
	for _, w := range []*weight{f32, f16} {
		for _, v := range w.values {
			if numeric.BF16ToFloat32(numeric.BF16FromFloat32(v)) != v {
				changed++
			}
		}
	}
	for _, tile := range []int64{0, 32, 256} {
		undo := write.SetTile(tile)
		out := filepath.Join(t.TempDir(), "out")
		var events []string
		res := mustRun(t, p, m, out, write.Options{Workers: 2, Event: func(kind string, fields map[string]any) {
			if kind == "cast" {
				events = append(events, fmt.Sprint(fields["role"], fields["tensors"], fields["values"], fields["changed"]))
			}
		}})
		undo()
		get := stored(t, out)
		for _, w := range []*weight{f32, f16, fp8} {
			var want []byte
			for _, v := range w.values {
				want = binary.LittleEndian.AppendUint16(want, numeric.BF16FromFloat32(v))
			}
			if !bytes.Equal(get(w.spec.Name+".new"), want) {
				t.Errorf("%s differs from its values rounded to BF16", w.spec.Name)
			}
		}
		if want := []string{fmt.Sprint("norm", 2, 9*33+5*20, changed)}; fmt.Sprint(events) != fmt.Sprint(want) {
			t.Errorf("events %v, want %v", events, want)
		}
		if got := readRecord(t, out).Rounded["norm"]; got != (model.Rounded{Tensors: 2, Values: 9*33 + 5*20, Changed: int64(changed)}) {
			t.Errorf("the record has %+v", got)
		}
		if len(res.Findings) != 1 || res.Findings[0].Rule != "cast-changed" || res.Findings[0].Severity != playbook.Info ||
			!strings.Contains(res.Findings[0].Message, fmt.Sprintf("%d of %d", changed, 9*33+5*20)) {
			t.Errorf("findings %+v", res.Findings)
		}
	}
}

// put32 stores a float32.
func put32(b []byte, i int, v float32) { binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v)) }

func TestWhatCannotBeCodedIsNamedInEverySource(t *testing.T) {
	for _, c := range []struct {
		name   string
		source int // of sources
		action plan.Action
		break_ func(b, scales []byte)
		rule   string
		says   []string
	}{
		{"NaN in F32", 2, plan.Quantize, func(b, _ []byte) { put32(b, 80*20+3, nan) }, "source-nonfinite", []string{"NaN", "[20, 3]", "element 1603"}},
		{"Inf in F32, cast", 2, plan.Cast, func(b, _ []byte) { put32(b, 80*36+79, -inf) }, "source-nonfinite", []string{"-Inf", "[36, 79]", "kept"}},
		{"beyond BF16", 2, plan.Cast, func(b, _ []byte) { put32(b, 81, math.MaxFloat32) }, "source-rounds-beyond", []string{"3.40282e+38", "[1, 1]", "element 81"}},
		{"Inf in F16", 1, plan.Quantize, func(b, _ []byte) { b[2*81], b[2*81+1] = 0, 0x7c }, "source-nonfinite", []string{"+Inf", "[1, 1]"}},
		{"NaN in F16, cast", 1, plan.Cast, func(b, _ []byte) { b[0], b[1] = 0, 0x7e }, "source-nonfinite", []string{"NaN", "[0, 0]"}},
		{"NaN code", 3, plan.Quantize, func(b, _ []byte) { b[80*30+1] = 0xff }, "source-nonfinite", []string{"NaN", "[30, 1]"}},
		{"NaN code, widened", 5, plan.Widen, func(b, _ []byte) { b[80*30+1] = 0x7f }, "source-nonfinite", []string{"NaN", "[30, 1]"}},
		{"NaN code, kept", 4, plan.Keep, func(b, _ []byte) { b[80*30+1] = 0x7f }, "source-nonfinite", []string{"NaN", "[30, 1]"}},
		{"product beyond float32", 4, plan.Quantize, func(b, s []byte) { put32(s, 0, 3e38); b[80] = 0x7e }, "source-nonfinite", []string{"Inf"}},
		{"NaN scale", 3, plan.Quantize, func(_, s []byte) { put32(s, 4, nan) }, "source-scale-bad", []string{"NaN", "[1, 1]", "element 4", "w.weight is scaled"}},
		{"zero scale", 5, plan.Quantize, func(_, s []byte) { put32(s, 36, 0); put32(s, 20, 0) }, "source-scale-bad", []string{"holds 0", "[20, 0]"}},
		{"negative scale", 5, plan.Widen, func(_, s []byte) { put32(s, 36, -1) }, "source-scale-bad", []string{"holds -1", "[36, 0]"}},
		{"infinite scale", 4, plan.Quantize, func(_, s []byte) { put32(s, 0, inf) }, "source-scale-bad", []string{"+Inf"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sources[c.source]
			w := makeWeight(rand.New(rand.NewPCG(2, 2)), "w.weight", s.dtype, s.block, 37, 80)
			c.break_(w.data, w.scales)
			m, p := made(t, w)
			for _, scheme := range []dialect.Scheme{dialect.NVFP4W4A16, dialect.FP8Channel, dialect.FP8Tensor} {
				p.Items, p.Shards = nil, nil
				subject := "w.weight"
				switch c.action {
				case plan.Quantize:
					add(t, m, p, "w.weight", scheme, outputs("w", scheme, numeric.Modelopt, 37, 80)...)
				case plan.Keep:
					add(t, m, p, "w.weight", dialect.BF16, kept("w.weight", s.dtype, 37, 80))
				default:
					add(t, m, p, "w.weight", dialect.BF16, kept("w.weight", safetensors.BF16, 37, 80))
				}
				p.Items[0].Action = c.action
				if c.action != plan.Keep {
					p.Items[0].SourceScale = w.scale
				} else {
					p.Dropped = []plan.Dropped{{Name: w.at.Name, Origin: model.Body}}
				}
				if c.rule == "source-scale-bad" {
					subject = w.at.Name
				}
				for _, tile := range []int64{0, 32, 4096} {
					undo := write.SetTile(tile)
					findings := runRefused(t, m, p)
					undo()
					if len(findings) != 1 || findings[0].Rule != c.rule || findings[0].Subject != subject {
						t.Fatalf("%s, tile %d: findings %+v", scheme, tile, findings)
					}
					for _, word := range c.says {
						if !strings.Contains(findings[0].Message, word) {
							t.Errorf("message %q does not say %q", findings[0].Message, word)
						}
					}
				}
			}
		})
	}
}

func TestActionsThatTheirSourceCannotHaveAreRefusedBeforeAnyWork(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	f32 := makeWeight(rng, "f32.weight", safetensors.F32, [2]int64{}, 16, 32)
	fp8 := makeWeight(rng, "fp8.weight", safetensors.F8E4M3, [2]int64{8, 8}, 16, 32)
	m, p := made(t, f32, fp8)
	add(t, m, p, "f32.weight", dialect.FP8Channel, outputs("f32", dialect.FP8Channel, numeric.Modelopt, 16, 32)...)
	add(t, m, p, "fp8.weight", dialect.FP8Channel, outputs("fp8", dialect.FP8Channel, numeric.Modelopt, 16, 32)...)
	p.Items[1].SourceScale = fp8.scale
	out := filepath.Join(t.TempDir(), "out")
	mustRun(t, p, m, out, write.Options{})
	one := float32(1)
	for word, break_ := range map[string]func(p *plan.Plan){
		"does not know action":  func(p *plan.Plan) { p.Items[0].Action, p.Items[0].Scheme = "polish", dialect.BF16 },
		"does not go with":      func(p *plan.Plan) { p.Items[0].Action = plan.Keep },
		"exactly for an FP8":    func(p *plan.Plan) { p.Items[1].SourceScale = nil },
		"source scale is there": func(p *plan.Plan) { p.Items[0].SourceScale = p.Items[1].SourceScale },
		"no tensor nowhere":     func(p *plan.Plan) { p.Items[1].SourceScale.Name = "nowhere" },
		"planned with scales":   func(p *plan.Plan) { p.Items[1].SourceScale.Dtype = safetensors.BF16 },
		"blocks of [8 16]":      func(p *plan.Plan) { p.Items[1].SourceScale.Block[1] = 16 },
		"have no element":       func(p *plan.Plan) { p.Items[1].SourceScale.Block[1] = 0 },
		"belong together":       func(p *plan.Plan) { p.Items[0].InputScale = &one },
		"graft codes nothing":   func(p *plan.Plan) { p.Kind = plan.KindGraft },
		"own dtype": func(p *plan.Plan) {
			p.Items[0].Action, p.Items[0].Scheme = plan.Keep, dialect.BF16
			p.Items[0].Outputs = []dialect.Output{kept("x", safetensors.BF16, 16, 32)}
		},
		"makes BF16 of": func(p *plan.Plan) {
			p.Items[0].Action, p.Items[0].Scheme = plan.Widen, dialect.BF16
			p.Items[0].Outputs = []dialect.Output{kept("x", safetensors.BF16, 16, 32)}
		},
		"one F32 number": func(p *plan.Plan) {
			p.Items[0].Action, p.Items[0].Scheme = plan.Reciprocal, dialect.BF16
		},
	} {
		broken := clone(t, p)
		break_(broken)
		broken.Dropped = []plan.Dropped{{Name: fp8.at.Name, Origin: model.Body, Reason: "it is a scale"}}
		_, err := write.Run(context.Background(), broken, m, filepath.Join(t.TempDir(), "out"), write.Options{})
		says(t, err, word)
	}
}

// Everything that is not coded from BF16, killed at every step.
func TestARunWithEveryActionKilledAtAnyStepIsFinishedByTheNext(t *testing.T) {
	m, p, dir := everyAction(t)
	planFile := filepath.Join(t.TempDir(), "plan.json")
	put(t, planFile, planJSON(t, p))
	var steps []string
	var mu sync.Mutex // shards are finished beside each other
	undo := write.SetFailpoint(func(name string) { mu.Lock(); defer mu.Unlock(); steps = append(steps, name) })
	mustRun(t, p, m, filepath.Join(dir, "whole"), write.Options{Workers: 1})
	undo()
	want := tree(t, filepath.Join(dir, "whole"))
	var findings []playbook.Finding
	for i, step := range steps {
		out := filepath.Join(dir, fmt.Sprintf("out%d", i))
		cmd := inChild(out, childKill+"="+step, childBody+"="+m.Dir, childPlan+"="+planFile)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err == nil || stderr.Len() > 0 {
			t.Fatalf("%s: the child was not killed: %v, %s", step, err, stderr.Bytes())
		}
		if step == "published" {
			sameTree(t, tree(t, out), want)
			continue
		}
		absent(t, out)
		res := mustRun(t, p, m, out, write.Options{Workers: 2})
		sameTree(t, tree(t, out), want)
		if findings == nil {
			findings = res.Findings
		}
		if len(res.Findings) == 0 || fmt.Sprint(res.Findings) != fmt.Sprint(findings) {
			t.Errorf("after a kill at %s the findings are %v, not %v", step, res.Findings, findings)
		}
		must(t, os.RemoveAll(out))
	}
}

func TestAChangedScaleTensorIsAChangedSource(t *testing.T) {
	m, p, dir := everyAction(t)
	out := filepath.Join(dir, "out")
	defer write.SetFailpoint(func(name string) {
		if name == "shard-created:"+p.Shards[0].File {
			edit(t, m.Dir, "fp8.weight_scale_inv", func(b []byte) { b[0] ^= 1 })
		}
	})()
	_, err := write.Run(context.Background(), p, m, out, write.Options{})
	if !errors.Is(err, write.ErrSourceChanged) {
		t.Errorf("got %v, want ErrSourceChanged", err)
	}
	absent(t, out)
}
