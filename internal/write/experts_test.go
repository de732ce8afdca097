package write_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
	"seatsmith/internal/write"
)

// The experts of the fixture are stacked; each becomes three modules, and gate and up share a scale.
func TestStackedExpertsAreWrittenOneByOne(t *testing.T) {
	m, err := model.Open("../../testdata/moe")
	must(t, err)
	defer m.Close()
	p := makePlan(t, m, plan.Options{Recipe: "default"})
	if errs := playbook.Errors(p.Findings); len(errs) > 0 {
		t.Fatalf("refused: %v", errs)
	}
	var first map[string]string
	for _, tile := range []int64{0, 96} {
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
		record := readRecord(t, out)
		amax := map[string]float32{}
		stretch := func(it *plan.Item) []float32 {
			tensor, _ := m.Lookup(it.Source)
			v := decode(t, it.Dtype, readTensor(t, tensor.Ref))
			return v[it.Begin : it.Begin+it.Shape[0]*it.Shape[1]]
		}
		pieces := 0
		for i := range p.Items {
			if it := &p.Items[i]; it.Role == model.RoleExpert && it.Action == plan.Quantize {
				pieces++
				amax[it.Group+it.Module()] = largest(stretch(it))
				if it.Group != "" {
					amax[it.Group] = max(amax[it.Group], largest(stretch(it)))
				}
			}
		}
		if pieces == 0 {
			t.Fatal("no expert is quantized")
		}
		for i := range p.Items {
			it := &p.Items[i]
			if it.Role != model.RoleExpert || it.Action != plan.Quantize {
				continue
			}
			a := amax[it.Group+it.Module()]
			if it.Group != "" {
				a = amax[it.Group]
			}
			codes, scales := expect(it.Scheme, numeric.Modelopt, stretch(it), int(it.Shape[1]), a)
			for _, o := range it.Outputs {
				switch o.Part {
				case dialect.PartCodes:
					if !bytes.Equal(get(o.Name), codes) {
						t.Errorf("%s: codes differ", o.Name)
					}
				case dialect.PartBlockScale:
					if !bytes.Equal(get(o.Name), scales) {
						t.Errorf("%s: scales differ", o.Name)
					}
				}
			}
			if want := numeric.NewNVFP4(numeric.Modelopt, a).Global; record.Native[it.Module()] != want {
				t.Errorf("%s: the record has scale %v, want %v", it.Module(), record.Native[it.Module()], want)
			}
		}
	}
}
