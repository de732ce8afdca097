package model

import (
	"fmt"
	"slices"
	"strings"

	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// Overlay lays the donor's whole head over the body; nothing is copied. A head that the body had, complete or not and
// under whatever prefix, is left out of the view: holes are never filled from another model.
//
// The head must have been made for this body: family, depth, vocabulary and sizes are compared with the body's
// configuration (donor-stranger), it must be whole (donor-headless), unquantized (donor-quantized) and its norms stored as
// the body's are (donor-norms-shifted, for which a few small tensors are read; it is the one look at weights beside the
// rows of a doubly stored lm_head). A refusal is a finding of severity error in the result, which is then the body alone. An
// error is for norms that cannot be read.
//
// The view shares the files of both models: closing it closes them.
func Overlay(body, donor *Model) (*Model, error) { return lay(body, donor, false) }

// lay is Overlay; force takes a head whose norms look shifted, with a warning.
func lay(body, donor *Model, force bool) (*Model, error) {
	if body.family == nil {
		return body.withDonor(donor), nil
	}
	if playbook.Worst(donor.problems) == playbook.Error {
		view := body.withDonor(donor) // a shard that cannot be read says nothing about the head in it
		view.Findings = slices.DeleteFunc(view.Findings, func(f playbook.Finding) bool { return f.Rule == "head-missing" })
		return view, nil
	}
	head := donor.headTensors(&body.head)
	if refusal, ok := compareModels(body, donor, head); ok {
		return refuse(body, donor, refusal), nil
	}
	view := body.withDonor(donor)
	cfg := *body.Config
	cfg.HeadLayers, cfg.HeadLayersSet = donor.headDepth(head, &body.head), true
	view.Config, view.grafted = &cfg, true
	var sources []source
	replaced := 0
	for i := range body.Tensors {
		if t := &body.Tensors[i]; t.Role != RoleHead {
			sources = append(sources, t.source())
		} else {
			replaced++
		}
	}
	for _, t := range head {
		sources = append(sources, source{Ref: t.Ref, origin: Donor})
	}
	slices.SortFunc(sources, func(a, b source) int { return safetensors.NaturalCompare(a.name(), b.name()) })
	if err := view.understand(sources, cfg.HeadLayers); err != nil {
		return nil, fmt.Errorf("laying the head of %s over %s: %w", donor.Dir, body.Dir, err)
	}
	view.takeFiles(donor)
	view.judge()
	if refusal, ok := view.compareHead(donor); ok {
		return refuse(body, donor, refusal), nil
	}
	refusal, shifted, err := view.compareNorms()
	if err != nil {
		return nil, fmt.Errorf("laying the head of %s over %s: %w", donor.Dir, body.Dir, err)
	}
	if shifted && !force {
		refusal.Fix += "; --force takes it as it is"
		return refuse(body, donor, refusal), nil
	}
	if shifted {
		view.Findings = append(view.Findings, refusal.As(playbook.Warning))
	}
	if replaced > 0 {
		view.Findings = append(view.Findings, playbook.New("head-replaced", body.head.place(),
			fmt.Sprintf("the body has %s of a head of its own; the donor's whole head of %s takes their place", tensors(replaced), tensors(len(head))), ""))
	}
	if donor.family == nil {
		view.Findings = append(view.Findings, playbook.New("donor-stranger", configFile,
			"there is no config.json beside the donor's head: only the shapes of the head were compared, not depth and vocabulary of its model", "").As(playbook.Info))
	}
	return view, nil
}

// withDonor is a copy of the body that knows of the donor.
func (m *Model) withDonor(donor *Model) *Model {
	view := *m
	view.DonorDir, view.DonorSet = donor.Dir, donor.Set
	view.Files = slices.Clone(m.Files)
	view.absent = slices.Clone(m.absent)
	view.broken = slices.Clone(m.broken)
	view.problems = slices.Concat(m.problems, donor.problems)
	view.Findings = slices.Concat(m.Findings, donor.problems)
	return &view
}

// refuse is the body with the reason why the donor's head is not taken. That the body lacks a head is then no news.
func refuse(body, donor *Model, refusal playbook.Finding) *Model {
	view := body.withDonor(donor)
	view.Findings = slices.DeleteFunc(view.Findings, func(f playbook.Finding) bool { return f.Rule == "head-missing" })
	view.Findings = append(view.Findings, refusal)
	return view
}

const otherDonor = "give the base model that this fine-tune was made from, as its publisher released it"

// compareModels looks at what the two configurations say, before any shape.
func compareModels(body, donor *Model, head []*Tensor) (playbook.Finding, bool) {
	if !body.head.grafts() {
		return playbook.New("donor-headless", donorSubject(body),
			fmt.Sprintf("checkpoints of family %s have no head of their own: no donor can give one", body.Family),
			"leave --donor out; to speculate with this family, serve a drafter from a repository of its own beside it"), true
	}
	if len(head) == 0 {
		message := fmt.Sprintf("no tensor of the donor begins with %q", body.head.place())
		if n := len(donor.respelled); n > 0 && donor.hasRole(RoleHead) {
			message += ", its head stands under another prefix"
		}
		return playbook.New("donor-headless", donorSubject(body), message, otherDonor+"; a fine-tune usually lost the head"), true
	}
	var differ []string
	if a := donor.Config.Architecture; a != "" && donor.Family != body.Family {
		differ = append(differ, fmt.Sprintf("its architecture is %s (the body's %s)", a, body.Config.Architecture))
	}
	if donor.family != nil {
		for _, size := range []struct {
			name         string
			donor, wants int64
		}{
			{"num_hidden_layers", donor.Config.Layers, body.Config.Layers},
			{"vocab_size", donor.Config.Vocab, body.Config.Vocab},
			{"hidden_size", donor.Config.Hidden, body.Config.Hidden},
		} {
			if size.donor != size.wants {
				differ = append(differ, fmt.Sprintf("its %s is %d (the body's %d)", size.name, size.donor, size.wants))
			}
		}
	}
	if len(differ) > 0 {
		return playbook.New("donor-stranger", donorSubject(body), "the donor is another model: "+strings.Join(differ, ", "), otherDonor), true
	}
	for _, t := range head {
		if quantizedParts[t.Suffix] || !isFloat(t.Dtype()) {
			return playbook.New("donor-quantized", t.Name,
				fmt.Sprintf("the donor's head is quantized (%s is %s): a head is copied byte for byte into a checkpoint that expects it unquantized", t.Name, t.Dtype()),
				"give the unquantized release of the base model"), true
		}
	}
	return playbook.Finding{}, false
}

func donorSubject(body *Model) string { return "donor " + body.head.place() }

// compareHead looks at the head as it lies in the view: is it whole, and of the sizes that the body implies?
func (m *Model) compareHead(donor *Model) (playbook.Finding, bool) {
	byName := map[string]*Expected{}
	var wrong []string
	for i := range m.Expected {
		e := &m.Expected[i]
		if e.Role != RoleHead {
			continue
		}
		byName[e.Name] = e
		if t, ok := m.Lookup(e.Name); ok && e.Shape != nil && !slices.Equal(t.Shape(), e.Shape) {
			wrong = append(wrong, fmt.Sprintf("%s is %v instead of %v", e.Name, t.Shape(), e.Shape))
		}
	}
	if len(wrong) > 0 {
		var differ []string
		for _, s := range m.family.headSizes() {
			e := byName[s.name]
			t, ok := m.Lookup(s.name)
			if e == nil || !ok {
				continue
			}
			if shape := t.Shape(); len(shape) == len(e.Shape) && shape[s.dim] != e.Shape[s.dim] {
				differ = append(differ, fmt.Sprintf("%s is %d (the body's %d)", s.size, shape[s.dim], e.Shape[s.dim]))
			}
		}
		message := "the donor's head was made for another model"
		if len(differ) > 0 {
			message += ": " + strings.Join(differ, ", ")
		}
		return playbook.New("donor-stranger", donorSubject(m), message+"; "+names(wrong), otherDonor), true
	}
	if missing := m.Head.Missing; len(missing) > 0 {
		return playbook.New("donor-headless", donorSubject(m),
			fmt.Sprintf("the donor's head is not whole: %d of %s present, missing: %s", m.Head.Present, tensors(m.Head.Expected), strings.Join(missing, ", ")),
			"give every shard that holds a tensor of the head, or another copy of the base model"), true
	}
	return playbook.Finding{}, false
}
