package model

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"

	"lukechampine.com/blake3"

	"seatsmith/internal/safetensors"
)

// Fingerprint identifies the source by content of its headers and sizes, not by its place: BLAKE3 (32 bytes, in hex) over
// the bytes of config.json, the table of contents of each shard (names, dtypes, shapes, offsets of its tensors) with its
// size, and, in a view, the donor's shards that give a tensor and the names of those tensors. Folder and file names,
// dates and header metadata do not enter, nor does the order of shards.
//
// It does not read weights: two fine-tunes of one base that were saved alike have equal fingerprints. What the bytes
// were is recorded by whoever reads them.
func (m *Model) Fingerprint() string {
	h := blake3.New(32, nil)
	feed(h, "seatsmith source 1", string(m.ConfigJSON()))
	feedShards(h, "body", m.Set.Files)
	if m.grafted {
		used := map[*safetensors.File]bool{}
		for i := range m.Tensors {
			if t := &m.Tensors[i]; t.Origin == Donor {
				used[t.File] = true
				feed(h, "from donor", t.Name)
			}
		}
		var files []*safetensors.File
		for _, f := range m.DonorSet.Files {
			if used[f] {
				files = append(files, f)
			}
		}
		feedShards(h, "donor", files)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// feedShards hashes shards as a set.
func feedShards(h hash.Hash, kind string, files []*safetensors.File) {
	sums := make([][]byte, len(files))
	for i, f := range files {
		s := blake3.New(32, nil)
		feedInts(s, f.Size, f.DataStart, int64(len(f.Tensors)))
		for _, t := range f.Tensors { // in offset order
			feed(s, t.Name, string(t.Dtype))
			feedInts(s, int64(len(t.Shape)))
			feedInts(s, t.Shape...)
			feedInts(s, t.Begin, t.End)
		}
		sums[i] = s.Sum(nil)
	}
	slices.SortFunc(sums, bytes.Compare)
	feed(h, kind)
	feedInts(h, int64(len(sums)))
	for _, s := range sums {
		h.Write(s)
	}
}

// feed writes strings with their lengths, so that no two lists give the same bytes.
func feed(h hash.Hash, parts ...string) {
	for _, p := range parts {
		feedInts(h, int64(len(p)))
		h.Write([]byte(p))
	}
}

func feedInts(h hash.Hash, values ...int64) {
	var b [8]byte
	for _, v := range values {
		binary.LittleEndian.PutUint64(b[:], uint64(v))
		h.Write(b[:])
	}
}
