package verify

import (
	"fmt"
	"math"
	"strings"

	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
)

// inputNative is what follows a module's name where the record keeps the native form of its NVFP4 input scale.
const inputNative = ".input_scale"

// inputScaleOf is the stored input scale of an NVFP4 module, nil when there is none. An FP8 module's is no reciprocal of
// anything, and the record does not keep it.
func (j *judge) inputScaleOf(module string) *model.Tensor {
	name := module + ".input_global_scale"
	if j.globalName(module) == module+".weight_scale_2" {
		name = module + ".input_scale"
	}
	if _, four := j.m.Lookup(j.globalName(module)); !four {
		return nil
	}
	t, ok := j.m.Lookup(name)
	if !ok {
		return nil
	}
	return t
}

// nativeInputs holds the recorded native input scales against the stored ones, as native does for the global scales.
func (j *judge) nativeInputs(p *model.Provenance, m numeric.Math) {
	for i := range j.m.Tensors {
		g := &j.m.Tensors[i]
		module := moduleName(g.Name)
		if g.Name != j.globalName(module) || j.faulty[module] || j.condemned[module] || j.expected[g.Base] == nil {
			continue
		}
		t := j.inputScaleOf(module)
		if t == nil {
			continue
		}
		stored, read := j.globals[t.Name]
		native, recorded := p.Native[module+inputNative]
		q := numeric.NVFP4{Math: m, Global: native}
		want := q.Divisor()
		if t.Suffix == "input_scale" {
			want = q.Multiplier()
		}
		switch {
		case !recorded: // another tool's input scale that was carried over
		case !read: // scale-bad or tensor-dtype tells of it
		case math.Float32bits(want) != math.Float32bits(stored):
			j.notes.join("differs input", playbook.New("native-scale", t.Name,
				fmt.Sprintf("it is stored as %v, the recorded native scale %v makes %v", stored, native, want), "write the module again"))
		}
	}
}

// recordedInput says whether a key of the record's native scales is that of an input scale which is stored, or whose
// absence is told elsewhere.
func (j *judge) recordedInput(key string) bool {
	module, ok := strings.CutSuffix(key, inputNative)
	return ok && (j.inputScaleOf(module) != nil || j.condemned[module] || j.missingTold(module+".weight") ||
		j.notes.told(module+".input_global_scale", "tensor-missing") || j.notes.told(module+".input_scale", "tensor-missing"))
}
