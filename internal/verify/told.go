package verify

import (
	"strings"

	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// One accident gives one finding, but only an error may take the place of another finding, and only of one about the
// same tensor. A warning or a piece of information never does: what is left out because of it would be good in the end.
// In doubt both are told.

// refusedDonors leave a view without a head.
var refusedDonors = []string{"donor-headless", "donor-stranger", "donor-norms-shifted", "donor-quantized"}

// carry takes over package model's findings.
func (j *judge) carry(findings []playbook.Finding) {
	for _, f := range findings {
		if f.Rule == "already-quantized" && !j.keepQuantized {
			continue
		}
		j.add(f)
		if f.Severity == playbook.Error && safetensors.Blinds(f.Rule) {
			j.unread = true
			file, _, _ := strings.Cut(f.Subject, ": ")
			j.blamed[file] = true
		}
	}
	j.expected, j.held, j.tails = map[string]*model.Expected{}, map[string]bool{}, map[string]bool{}
	for i := range j.m.Expected {
		j.expected[j.m.Expected[i].Name] = &j.m.Expected[i]
	}
	for i := range j.m.Tensors {
		t := &j.m.Tensors[i]
		if t.Holds() {
			j.held[t.Base] = true
		}
		if j.respelled(t) {
			j.tails[tail(t.Base)] = true
		}
	}
	if j.unread {
		j.skip("tensors of the files that could not be read", true)
		j.dropLost()
	}
	j.modelMissing = j.notes.any("tensor-missing")
}

// dropLost takes back what package model said about missing tensors, when all of them stood in files that could not be
// read; a tensor that the index does not place in such a file is missing for another reason, and then all is left.
func (j *judge) dropLost() {
	for name := range j.expected {
		if !j.held[name] && !j.lost(name) {
			return
		}
	}
	j.notes.drop(func(f playbook.Finding) bool {
		return f.Rule == "tensor-missing" || f.Rule == "head-missing" || f.Rule == "lm-head-tied" && f.Subject == "lm_head.weight"
	})
}

// lost says whether a parameter stood in a file that could not be read: the index promises it. Without an index nobody
// knows what the file held.
func (j *judge) lost(name string) bool {
	if !j.unread || j.held[name] {
		return false
	}
	x := j.m.Set.Index
	if x == nil {
		return true
	}
	_, plain := x.WeightMap[name]
	_, packed := x.WeightMap[name+"_packed"]
	return plain || packed
}

// respelled says whether a tensor stands under a prefix that the class does not read: its role is known, its name is not.
func (j *judge) respelled(t *model.Tensor) bool {
	return t.Role != model.RoleOther && j.expected[t.Base] == nil
}

// tail is a name without the prefixes that savers put before it.
func tail(name string) string {
	for {
		rest := name
		for _, w := range []string{"model.", "language_model.", "base_model.", "module.", "_orig_mod."} {
			rest = strings.TrimPrefix(rest, w)
		}
		if rest == name {
			return name
		}
		name = rest
	}
}

// missing says whether a parameter's absence is news.
func (j *judge) missing(base string) bool { return j.held[base] || !j.missingTold(base) }

// missingTold says whether an error tells already that nobody holds a parameter of the unquantized checkpoint.
func (j *judge) missingTold(name string) bool {
	if j.lost(name) || j.notes.told(name, "tensor-missing") {
		return true
	}
	if j.tails[tail(name)] && j.notes.any("layout-prefix", "head-misplaced") {
		return true
	}
	e := j.expected[name]
	if e == nil || j.held[name] {
		return false
	}
	switch e.Role {
	case model.RoleHead:
		return j.notes.any("head-missing", "head-misplaced") || j.notes.any(refusedDonors...)
	case model.RoleLMHead:
		return j.notes.told("lm_head.weight", "lm-head-tied")
	case model.RoleVision:
		return j.modelMissing || j.notes.any("text-only-vision")
	}
	return j.modelMissing
}

// strayTold says whether an error tells already that a stored tensor has no place.
func (j *judge) strayTold(t *model.Tensor) bool {
	switch {
	case j.notes.told(t.Name, "tensor-unexpected"):
		return true
	case j.expected[t.Base] != nil:
		return false
	case t.Role == model.RoleHead && j.notes.any("head-misplaced"), t.Role != model.RoleHead && j.respelled(t) && j.notes.any("layout-prefix"):
		return true
	}
	return false
}

// spare turns what package model says of a stray bias into a warning: the server's loader passes over the name of a bias
// that the module was not built with, so the checkpoint loads and computes what it did without it. A bias that the
// configuration implies is another matter, which package model tells apart.
func (j *judge) spare() {
	for _, e := range j.notes.entries {
		f := &e.finding
		if f.Rule != "tensor-unexpected" || f.Severity != playbook.Error || !strings.HasSuffix(f.Subject, ".bias") || strings.Contains(f.Message, "more kinds") {
			continue
		}
		if t, ok := j.m.Lookup(f.Subject); ok && j.ignored(t) {
			*f = playbook.New("tensor-unexpected", f.Subject, "nothing implies a bias of this kind; the server passes over it without a word",
				"take the tensor out of its shard, or correct config.json if the model has biases").As(playbook.Warning)
		}
	}
	j.notes.reindex()
}
