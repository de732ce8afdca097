package write_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"lukechampine.com/blake3"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/write"
)

func TestTheFolderHoldsWhatThePlanSays(t *testing.T) {
	for name, o := range map[string]plan.Options{"default": smallShards, "nvfp4-all-linear": allLinear, "ct arithmetic": {ShardSize: 150_000, Math: numeric.CT}} {
		t.Run(name, func(t *testing.T) {
			m := openView(t, tinyBody, tinyDonor)
			p := makePlan(t, m, o)
			out := filepath.Join(t.TempDir(), "out")
			res := mustRun(t, p, m, out, write.Options{})
			if res.Dir != out || res.Shards != len(p.Shards) || res.Resumed != 0 || res.BytesIn != p.BytesIn || res.BytesOut != p.BytesOut {
				t.Errorf("result %+v; the plan has %d shards, %d bytes in, %d out", res, len(p.Shards), p.BytesIn, p.BytesOut)
			}
			if len(p.Shards) < 3 {
				t.Fatalf("%d shards: too few for this test to mean much", len(p.Shards))
			}
			absent(t, out+".partial")
			set, err := safetensors.OpenSet(out)
			if err != nil {
				t.Fatal(err)
			}
			defer set.Close()
			if len(set.Problems) > 0 {
				t.Errorf("the written set has problems: %v", set.Problems)
			}
			checkTensors(t, m, p, set)
			var config, planned any
			read := readFile(t, out, "config.json")
			if err := json.Unmarshal(read, &config); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(p.Config, &planned); err != nil {
				t.Fatal(err)
			}
			if a, b := mustJSON(t, config), mustJSON(t, planned); !bytes.Equal(a, b) {
				t.Errorf("config.json is %s, planned was %s", a, b)
			}
			if set.Index == nil || set.Index.TotalSize != p.BytesOut {
				t.Errorf("the index says %+v, the tensors have %d bytes", set.Index, p.BytesOut)
			}
		})
	}
}

// checkTensors codes every item again, whole and by the plain definition, and compares.
func checkTensors(t *testing.T, m *model.Model, p *plan.Plan, set *safetensors.Set) {
	t.Helper()
	math_, err := numeric.ParseMath(p.Math)
	if err != nil {
		t.Fatal(err)
	}
	d, err := dialect.Parse(p.Dialect)
	if err != nil {
		t.Fatal(err)
	}
	amax := map[string]float32{}
	for i := range p.Items {
		if it := &p.Items[i]; it.Scheme.NVFP4() {
			src, _ := m.Lookup(it.Source)
			a, _ := numeric.AmaxBF16(readTensor(t, src.Ref))
			amax[group(it)] = max(amax[group(it)], a)
		}
	}
	written := 0
	for i := range p.Items {
		it := &p.Items[i]
		tensor, _ := m.Lookup(it.Source)
		src := readTensor(t, tensor.Ref)
		want := map[dialect.Part][]byte{}
		n := len(src) / 2
		switch {
		case !it.Scheme.Quantized():
			want[dialect.PartKept] = src
		case it.Scheme.NVFP4():
			q := numeric.NewNVFP4(math_, amax[group(it)])
			want[dialect.PartCodes], want[dialect.PartBlockScale] = make([]byte, n/2), make([]byte, n/16)
			q.EncodeBF16Reference(want[dialect.PartCodes], want[dialect.PartBlockScale], src)
			want[dialect.PartGlobalScale] = binary.LittleEndian.AppendUint32(nil, math.Float32bits(d.GlobalScale(q)))
		case it.Scheme == dialect.FP8Channel:
			rows, cols := int(it.Shape[0]), int(it.Shape[1])
			codes := make([]byte, n)
			for r := range rows {
				row := src[r*cols*2 : (r+1)*cols*2]
				a, _ := numeric.AmaxBF16(row)
				s := numeric.FP8Scale(math_, true, a)
				numeric.EncodeFP8BF16(math_, true, codes[r*cols:(r+1)*cols], row, s)
				for _, o := range it.Outputs {
					if o.Part == dialect.PartScale && o.Dtype == safetensors.BF16 {
						want[dialect.PartScale] = binary.LittleEndian.AppendUint16(want[dialect.PartScale], numeric.BF16FromFloat32(s))
					} else if o.Part == dialect.PartScale {
						want[dialect.PartScale] = binary.LittleEndian.AppendUint32(want[dialect.PartScale], math.Float32bits(s))
					}
				}
			}
			want[dialect.PartCodes] = codes
		default:
			t.Fatalf("%s: this test does not know scheme %s", it.Source, it.Scheme)
		}
		for _, o := range it.Outputs {
			ref, ok := set.Lookup(o.Name)
			if !ok {
				t.Errorf("%s is missing", o.Name)
				continue
			}
			written++
			if ref.Tensor.Dtype != o.Dtype || len(ref.Tensor.Shape) != len(o.Shape) {
				t.Errorf("%s is %s %v, planned as %s %v", o.Name, ref.Tensor.Dtype, ref.Tensor.Shape, o.Dtype, o.Shape)
			}
			if got := readTensor(t, ref); !bytes.Equal(got, want[o.Part]) {
				t.Errorf("%s differs from the plain definition", o.Name)
			}
		}
	}
	if n := len(set.Refs()); n != written {
		t.Errorf("%d tensors on disk, %d planned", n, written)
	}
}

func group(it *plan.Item) string {
	if it.Group != "" {
		return it.Group
	}
	return it.Source
}

func TestTheProvenanceHashesEveryOtherFileAndKeepsNativeScales(t *testing.T) {
	m, p := tiny(t)
	out := filepath.Join(t.TempDir(), "out")
	mustRun(t, p, m, out, write.Options{SHA256: true})
	var got model.Provenance
	dec := json.NewDecoder(bytes.NewReader(readFile(t, out, model.ProvenanceFile)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Schema != 1 || got.Tool != "seatsmith" || got.Version != p.Version || got.Source != p.Source || got.Plan != p.Hash() ||
		got.Recipe != p.Recipe.Name || got.Dialect != p.Dialect || got.Math != p.Math || got.Search != p.Search || got.Groups != p.Groups || got.Head != "donor" {
		t.Errorf("provenance %+v does not describe the plan", got)
	}
	files := tree(t, out)
	delete(files, model.ProvenanceFile)
	for name, sha := range files {
		b := readFile(t, out, name)
		sum := blake3.Sum256(b)
		h := got.Files[name]
		if h.Bytes != int64(len(b)) || h.BLAKE3 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s is recorded as %+v", name, h)
		}
		if shard := filepath.Ext(name) == ".safetensors"; shard && h.SHA256 != sha || !shard && h.SHA256 != "" {
			t.Errorf("%s has SHA-256 %q, asked for were shards", name, h.SHA256)
		}
	}
	if len(got.Files) != len(files) {
		t.Errorf("%d files recorded, %d there", len(got.Files), len(files))
	}
	for i := range p.Items {
		it := &p.Items[i]
		tensor, _ := m.Lookup(it.Source)
		native, ok := got.Native[tensor.Module]
		if ok != it.Scheme.NVFP4() || ok && !(native > 0) {
			t.Errorf("module %s under %s has native scale %v (%v)", tensor.Module, it.Scheme, native, ok)
		}
	}
	if text := string(readFile(t, out, model.ProvenanceFile)); bytes.Contains([]byte(text), []byte(filepath.Dir(out))) {
		t.Error("the provenance tells where it was written")
	}
}

func TestWorkersAndTilesDoNotChangeAByte(t *testing.T) {
	for name, o := range map[string]plan.Options{"default": smallShards, "nvfp4-all-linear": allLinear} {
		t.Run(name, func(t *testing.T) {
			m := openView(t, tinyBody, tinyDonor)
			p := makePlan(t, m, o)
			dir := t.TempDir()
			mustRun(t, p, m, filepath.Join(dir, "first"), write.Options{Workers: 1})
			want := tree(t, filepath.Join(dir, "first"))
			for _, c := range []struct {
				workers int
				tile    int64 // 0: as usual; 64 is narrower than every row, 800 no divisor of any
			}{{2, 0}, {8, 0}, {1, 64}, {8, 800}, {3, 4096}} {
				undo := write.SetTile(c.tile)
				out := filepath.Join(dir, strconv.Itoa(c.workers)+"-"+strconv.FormatInt(c.tile, 10))
				mustRun(t, p, m, out, write.Options{Workers: c.workers})
				undo()
				sameTree(t, tree(t, out), want)
			}
		})
	}
}

func TestBuffersStayWithinTheBudgetForAnyNumberOfWorkers(t *testing.T) {
	for _, n := range []int{1, 2, 8, 38, 39, 64, 128, 1000, 2520, 5000} {
		for most, wide := range map[int]bool{2000: false, 1500: true} {
			bytes, workers, tile := write.PoolBytes(n, wide)
			if bytes > 256<<20 {
				t.Errorf("%d workers: %d bytes of buffers", n, bytes)
			}
			if workers < min(n, most) || tile < 32<<10 || tile%32 != 0 {
				t.Errorf("%d workers: got %d with tiles of %d", n, workers, tile)
			}
		}
	}
}

func TestPlansFromAFileGiveTheSameBytes(t *testing.T) {
	m, p := tiny(t)
	dir := t.TempDir()
	mustRun(t, p, m, filepath.Join(dir, "a"), write.Options{})
	text, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	var read plan.Plan
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	mustRun(t, &read, m, filepath.Join(dir, "b"), write.Options{})
	sameTree(t, tree(t, filepath.Join(dir, "b")), tree(t, filepath.Join(dir, "a")))
}

func TestProgressCountsSourceBytesAndEventsNameShards(t *testing.T) {
	m, p := tiny(t)
	out := filepath.Join(t.TempDir(), "out")
	var last, total int64
	kinds := map[string]int{}
	mustRun(t, p, m, out, write.Options{
		Workers: 2,
		Progress: func(stage string, done, all int64) {
			if stage != "write" || done < last || done > all {
				t.Errorf("progress %q %d of %d after %d", stage, done, all, last)
			}
			last, total = done, all
		},
		Event: func(kind string, fields map[string]any) { kinds[kind]++ },
	})
	if last != p.BytesIn || total != p.BytesIn {
		t.Errorf("progress ended with %d of %d, the source has %d bytes", last, total, p.BytesIn)
	}
	if kinds["shard-done"] != len(p.Shards) || kinds["published"] != 1 {
		t.Errorf("events %v for %d shards", kinds, len(p.Shards))
	}
}

func readFile(t testing.TB, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
