package verify

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"seatsmith/internal/engine"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// fit says whether the source can be compared with. What is wrong with it is told: a comparison with half a source is
// half a comparison, whatever it finds.
func (j *judge) fit() bool {
	s := j.o.Source
	if s == nil {
		j.skip("comparison with the source (none was given)", false)
		return false
	}
	const none = "comparison with the source: what was given is none"
	if sameFolder(s.Dir, j.dir) || sameShards(s, j.m) {
		j.add(playbook.New("source-same", s.Dir, "it is the folder that is judged: a comparison with itself finds nothing", "name the checkpoint that the folder was made from"))
		j.skip(none, true)
		return false
	}
	if eights, ok := readEights(s); ok {
		j.eights = eights
		j.add(playbook.New("source-fp8", s.Dir, fmt.Sprintf("the source is FP8 itself: %d of its weights are compared as code times scale, and what they lost when they were coded shows in no number here", len(eights)),
			"name the unquantized checkpoint, if there is one"))
	} else if what := quantizedSource(s); what != "" {
		j.add(playbook.New("source-quantized", s.Dir, "it is quantized itself ("+what+"): equal to it says nothing about the weights that both were made from",
			"name the unquantized checkpoint"))
		j.skip(none, true)
		return false
	}
	for _, f := range playbook.Errors(Source(s).Findings) {
		j.notes.join(f.Rule, playbook.New("source-unfit", f.Subject,
			fmt.Sprintf("the source itself is not whole, so it was compared in part only: %s: %s", f.Rule, f.Message), f.Fix))
	}
	return true
}

func sameFolder(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// sameShards says whether every shard of the source's body is a file of the folder, under whatever name.
func sameShards(s, m *model.Model) bool {
	for _, f := range s.Set.Files {
		x, err := os.Stat(f.Path)
		if err != nil {
			return false
		}
		if !slices.ContainsFunc(m.Set.Files, func(o *safetensors.File) bool {
			y, err := os.Stat(o.Path)
			return err == nil && os.SameFile(x, y)
		}) {
			return false
		}
	}
	return len(s.Set.Files) > 0
}

// quantizedSource says what shows that a source is quantized, "" when nothing does.
func quantizedSource(s *model.Model) string {
	if q, _, err := engine.ReadQuantization(s.Config.Raw); err == nil && q != nil {
		return "config.json: " + q.Key
	}
	for i := range s.Tensors {
		t := &s.Tensors[i]
		if quantizedPart(t.Suffix) || t.Suffix == "weight" && !float(t) {
			return fmt.Sprintf("%s is %s", t.Name, t.Dtype())
		}
	}
	return ""
}

// extras walks the folder's own tensors: what the source does not have came from somewhere else, and nobody compared it.
func (j *judge) extras() {
	for i := range j.m.Tensors {
		t := &j.m.Tensors[i]
		if j.derived(t) || j.strayTold(t) || j.unfitTold(t) {
			continue
		}
		f := playbook.New("source-extra", t.Name, "the folder has the tensor and the source does not: nothing says what it should hold",
			"name the source that the folder was made from, or take the tensor out of its shard")
		switch {
		case t.Role == model.RoleHead && j.o.Source.DonorDir == "":
			f.Message, f.Fix = "the source has no such head tensor, and no donor was named: nothing says what it should hold", "pass --donor with the model that the head was taken from"
		case j.ignored(t):
			f = f.As(playbook.Warning)
			f.Message += "; no server reads it"
		default:
			j.blame(t)
		}
		j.notes.join(part(t), f)
	}
}

// unfitTold says whether source-unfit names the reason why the source has no such tensor: a shard that is missing, a donor
// that was refused.
func (j *judge) unfitTold(t *model.Tensor) bool {
	if !j.notes.any("source-unfit") {
		return false
	}
	if t.Role == model.RoleHead && slices.ContainsFunc(j.o.Source.Findings, func(f playbook.Finding) bool { return slices.Contains(refusedDonors, f.Rule) }) {
		return true
	}
	x := j.o.Source.Set.Index
	if x == nil {
		return false
	}
	_, ok := x.WeightMap[t.Base]
	return ok
}

// derived says whether a tensor stands for one of the source: it has the name, or it is a part of what a weight becomes
// under the scheme that the module is stored in, or a calibrated scale of a key/value cache that config.json declares.
func (j *judge) derived(t *model.Tensor) bool {
	s := j.o.Source
	if _, ok := s.Lookup(t.Name); ok {
		return true
	}
	module := moduleName(t.Name)
	if _, ok := s.Lookup(module + ".weight"); ok && slices.Contains(partsOf[kindOf(j.modules[module])], t.Suffix) {
		return true
	}
	if at := strings.LastIndex(module, ".experts."); at >= 0 { // one by one, where the source has them in one tensor
		prefix := module[:at] + ".experts."
		_, up := s.Lookup(prefix + "gate_up_proj")
		_, down := s.Lookup(prefix + "down_proj")
		return up && down
	}
	cache := t.Suffix == "k_scale" || t.Suffix == "v_scale" || t.Suffix == "q_scale"
	return cache && j.quant != nil && j.quant.KV != nil && j.srv != nil && j.srv.Place(t.Name).Fate == engine.CacheScale
}

// partsOf are the tensors that a weight becomes.
var partsOf = map[kind][]string{
	nvfp4: {"weight_packed", "weight_scale", "weight_global_scale", "input_global_scale"},
	fp8:   {"weight_scale", "input_scale"},

	modelopt: {"weight_scale", "weight_scale_2", "input_scale"},
}

// part is what a tensor that came or went belongs to: a head comes and goes as a whole.
func part(t *model.Tensor) string {
	if t.Role == model.RoleHead {
		return "head"
	}
	return generic(t.Name)
}

// ignored says whether the server passes over a tensor by its name, without a word.
func (j *judge) ignored(t *model.Tensor) bool {
	if j.srv == nil {
		return false
	}
	slot := j.srv.Place(t.Name)
	switch slot.Fate {
	case engine.Tolerated, engine.Skipped:
		return true
	case engine.InLinear:
		l := &j.srv.Linears[slot.Linear]
		return slot.Attr == "bias" && slot.Shard >= 0 && !l.Shards[slot.Shard].Bias
	}
	return false
}
