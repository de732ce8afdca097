package main

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"seatsmith/internal/model"
	"seatsmith/internal/safetensors"
)

// makeStats writes activation statistics for every Linear of a checkpoint, and for each of its experts: stats CKPT FILE.
// The numbers are made up, between 2 and 18, and depend on the names alone.
func makeStats(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: stats CKPT FILE")
	}
	m, err := model.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer m.Close()
	var specs []safetensors.Spec
	add := func(module string) {
		specs = append(specs, safetensors.Spec{Name: module + ".input_amax", Dtype: safetensors.F32, Shape: []int64{1}})
	}
	for i := range m.Tensors {
		switch t := &m.Tensors[i]; {
		case !t.Linear:
		case len(t.Shape()) == 3:
			experts, leaf := t.Module[:strings.LastIndexByte(t.Module, '.')], t.Module[strings.LastIndexByte(t.Module, '.')+1:]
			for e := range t.Shape()[0] {
				if leaf == "gate_up_proj" {
					add(fmt.Sprintf("%s.%d.gate_proj", experts, e))
					add(fmt.Sprintf("%s.%d.up_proj", experts, e))
				} else {
					add(fmt.Sprintf("%s.%d.%s", experts, e, leaf))
				}
			}
		default:
			add(t.Module)
		}
	}
	layout, err := safetensors.NewLayout(specs, map[string]string{"format": "seatsmith-stats", "schema": "1", "model": m.Fingerprint()})
	ts.Check(err)
	w, err := safetensors.Create(ts.MkAbs(args[1]), layout)
	ts.Check(err)
	for _, s := range specs {
		h := fnv.New32a()
		h.Write([]byte(s.Name))
		amax := 2 + float32(h.Sum32()%128)/8
		ts.Check(w.WriteAt(s.Name, binary.LittleEndian.AppendUint32(nil, math.Float32bits(amax)), 0))
	}
	ts.Check(w.Close())
}
