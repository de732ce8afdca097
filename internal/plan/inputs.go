package plan

import (
	"fmt"
	"slices"
	"strings"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// inputs decides the scales of activations, by output module, from statistics.
type inputs struct {
	d      dialect.Dialect
	math   numeric.Math
	stats  *stats
	dtypes dtypes
	scales map[string]float32 // what is stored
	native map[string]float32 // the same in the form of the arithmetic, for nvfp4-w4a4
}

// scale gives every module of a unit its input scale, or takes the unit's choice back. Modules that the server fuses see
// the same input and share one scale, that of the largest amax of any of them: the server uses one (R22, R30). An expert
// that no token reached, or whose statistic is no number, gets the largest of its layer for the same projection; a server
// given Inf or 0 there computes NaN (Q10: 14 of 92,400 scales were infinite). For anything else there is nothing to fall
// back on: a role rule keeps the unit, a name rule is refused.
func (in *inputs) scale(u *unit, tensors []model.Tensor, choices []choice, notes *notes) {
	scheme := choices[u.members[0]].scheme
	if !scheme.StaticInput() {
		return
	}
	best := map[string]float32{} // by fused spelling, or by module
	layer := map[string]float32{}
	var order []string
	var lacking []string        // modules that get another's statistic
	of := map[string][]string{} // key -> modules
	bad := map[string]error{}   // key -> what is wrong with a statistic
	for _, i := range u.members {
		for _, p := range pieces(&tensors[i]) {
			key := p.fused
			if key == "" {
				key = p.module
			}
			if of[key] == nil {
				order = append(order, key)
			}
			of[key] = append(of[key], p.module)
			amax, ok := in.stats.amax[p.module]
			if !ok && p.module != tensors[i].Module {
				amax, ok = in.stats.amax[tensors[i].Module] // one site for all experts of the layer
			}
			if !ok {
				continue
			}
			if _, err := in.d.InputScale(scheme, in.math, amax); err != nil {
				bad[key] = err
				continue
			}
			best[key] = max(best[key], amax)
			layer[leaf(key)] = max(layer[leaf(key)], amax)
		}
	}
	for _, key := range order {
		amax := best[key]
		if amax == 0 && routed(key) != "" {
			if amax = layer[leaf(key)]; amax > 0 {
				for _, module := range of[key] { // the subject is the rest of the name
					lacking = append(lacking, strings.TrimPrefix(module, u.name(tensors)+"."))
				}
			}
		}
		scale, err := in.d.InputScale(scheme, in.math, amax)
		if err != nil {
			why := fmt.Sprintf("%s stores an input scale, and the statistics have none for %s", scheme, leaf(of[key][0]))
			if bad[key] != nil {
				why += ": " + bad[key].Error()
			}
			u.takeBack(tensors, choices, notes, why, "calibrate on the model that is quantized, or choose a scheme without statistics")
			return
		}
		for _, module := range of[key] {
			in.scales[module] = scale
			if scheme == dialect.NVFP4W4A4 {
				in.native[module] = dialect.NativeInput(in.math, amax)
			}
		}
	}
	if len(lacking) > 0 {
		slices.SortFunc(lacking, safetensors.NaturalCompare)
		notes.add(playbook.New("stats-fallback", u.name(tensors), fmt.Sprintf("%d modules have no usable statistic and get the largest of their layer: %s", len(lacking), strings.Join(lacking, ", ")),
			"calibrate with more or more varied prompts, so that every expert is reached"))
	}
}
