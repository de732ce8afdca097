package plan

import (
	"fmt"
	"slices"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// Graft plans an unquantized checkpoint: the body with the donor's whole head, and, where the view was re-homed, under the
// names and in the class that are served. Nothing is coded: every tensor keeps its bytes, and those of the body their
// files.
func Graft(view *model.Model, version string) (*Plan, error) {
	q := quantized{source: sourceOf(view), stored: storedTensors(view)}
	return q.graft(version)
}

// graft is Graft without the model's methods.
func (q quantized) graft(version string) (*Plan, error) {
	p := &Plan{
		Schema: 1, Kind: KindGraft, Version: version, Source: q.fingerprint, Family: q.family,
		Items: []Item{}, Shards: []Shard{}, Files: []File{}, Schemes: map[dialect.Scheme]Tally{}, Findings: []playbook.Finding{},
	}
	notes := newNotes()
	for _, f := range q.findings {
		if f.Rule != "stale-copy" || !q.resolved(f) {
			notes.add(f)
		}
	}
	if q.config == nil {
		notes.add(playbook.New("family-unsupported", "config.json", "the body has no config.json that could be read", "copy config.json from the base"))
	} else {
		p.Architecture = q.config.Architecture
	}
	if _, known := readBlock(q.configJSON, nil); known || len(gatherStored(q.tensors, quantBlock{}, newNotes())) > 0 {
		notes.add(playbook.New("already-quantized", "config.json", "the body is quantized: a graft makes an unquantized checkpoint", "use splice, which also makes the ignore lists right"))
	}
	if playbook.Worst(notes.done()) == playbook.Error {
		p.Findings = notes.done()
		return p, nil
	}
	tensors, err := sorted(q.tensors)
	if err != nil {
		return nil, err
	}
	for i := range tensors {
		t := &tensors[i]
		item := kept(t)
		switch {
		case t.Origin == model.Donor && t.Role == model.RoleHead:
			item.Reason = "the donor's head"
		case t.Origin == model.Donor:
			item.Reason = "the donor's, which the body lacks"
		case t.Stored != "":
			item.Reason = "the body's, under the name that its class reads; stored as " + t.Stored
		default:
			item.Reason = "the body's, as it is"
		}
		p.Items = append(p.Items, item)
	}
	p.tally(tensors, nil)
	p.leftOut(tensors, q.stored, notes)
	p.Shards = withHead(tensors, p.Items, q.stored)
	markWhole(p.Shards, p.Items, tensors, q.stored)
	p.Files = companions(q.files)
	if p.Config, err = indented(q.configJSON); err != nil {
		return nil, fmt.Errorf("planning the graft: config.json: %w", err)
	}
	q.tellHead(tensors, notes)
	p.Findings = notes.done()
	return p, nil
}

// donorFiles are the files of a donor's tensors, by what they hold: the head by itself, and what else came with it.
func donorFiles(items []Item, of []int, used map[string]bool) []Shard {
	var out []Shard
	for _, part := range []struct {
		name string
		mine func(model.Role) bool
	}{
		{"model-mtp", func(r model.Role) bool { return r == model.RoleHead }},
		{"model-donor", func(r model.Role) bool { return r != model.RoleHead }},
	} {
		s := Shard{}
		for _, i := range of {
			if !part.mine(items[i].Role) {
				continue
			}
			s.Items = append(s.Items, i)
			for _, o := range items[i].Outputs {
				s.Bytes += outputBytes(o)
			}
		}
		if len(s.Items) == 0 {
			continue
		}
		s.File = part.name + ".safetensors"
		for n := 2; used[s.File]; n++ {
			s.File = fmt.Sprintf("%s-%d.safetensors", part.name, n)
		}
		used[s.File] = true
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Shard) int { return safetensors.NaturalCompare(a.File, b.File) })
	return out
}
