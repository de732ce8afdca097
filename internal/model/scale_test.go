package model_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/model"
)

// wide is a folder with the headers of a mixture of experts stored one by one: layers times experts times 3 tensors of
// one row and more, over a hole in the file instead of data.
func wide(t testing.TB, layers, experts int) string {
	t.Helper()
	f := like(t, "moe").set("text_config.num_experts", experts).set("text_config.num_hidden_layers", layers)
	f.set("text_config.hidden_size", 16).set("text_config.moe_intermediate_size", 16)
	f.t = t
	f.shards, f.tensors = 0, nil
	f.index = false
	dir := f.write()
	var header strings.Builder
	header.WriteByte('{')
	var end int64
	for l := range layers {
		for e := range experts {
			for _, p := range []string{"gate", "up", "down"} {
				if end > 0 {
					header.WriteByte(',')
				}
				fmt.Fprintf(&header, `"model.language_model.layers.%d.mlp.experts.%d.%s_proj.weight":{"dtype":"BF16","shape":[16,16],"data_offsets":[%d,%d]}`, l, e, p, end, end+512)
				end += 512
			}
		}
	}
	header.WriteByte('}')
	text := header.String()
	text += strings.Repeat(" ", (8-len(text)%8)%8)
	path := filepath.Join(dir, "model.safetensors")
	if err := os.WriteFile(path, slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), []byte(text)), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 8+int64(len(text))+end); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestManyExpertsMakeFewFindings(t *testing.T) {
	m := open(t, wide(t, 10, 100))
	if len(m.Tensors) != 3000 || len(m.Findings) > 25 {
		t.Errorf("%d tensors, %d findings", len(m.Tensors), len(m.Findings))
	}
	if tn, ok := m.Lookup("model.language_model.layers.9.mlp.experts.99.up_proj.weight"); !ok || tn.Role != model.RoleExpert || tn.Layer != 9 {
		t.Errorf("%+v", tn)
	}
}

// BenchmarkOpen300000 is the bound of the house for headers alone: 300,000 tensors in less than 5 s.
func BenchmarkOpen300000(b *testing.B) {
	dir := wide(b, 100, 1000)
	for b.Loop() {
		m, err := model.Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		if len(m.Tensors) != 300000 {
			b.Fatal(len(m.Tensors))
		}
		m.Report()
		m.Fingerprint()
		m.Close()
	}
}

func BenchmarkFingerprint300000(b *testing.B) {
	m := open(b, wide(b, 100, 1000))
	for b.Loop() {
		m.Fingerprint()
	}
}
