package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// OpenDonor opens a base that may be partial: a folder, whole or with an index and only the shards that hold the head, or
// one .safetensors file (config.json is taken from beside it when there is one). Only what touches the head is judged:
// other shards may be missing. Whether the donor fits a body is the matter of Overlay.
func OpenDonor(path string) (*Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("opening the donor: %w; name the base model's folder, or a file with its head", err)
	}
	m := &Model{Dir: path}
	if info.IsDir() {
		m.Set, err = safetensors.OpenSet(path)
	} else {
		m.Dir = filepath.Dir(path)
		m.Set, err = safetensors.OpenFileSet(path)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the donor: %w", err)
	}
	if err := m.readDonor(info.IsDir()); err != nil {
		m.Set.Close()
		return nil, fmt.Errorf("opening the donor %s: %w", path, err)
	}
	return m, nil
}

func (m *Model) readDonor(folder bool) error {
	cfg, err := loadConfig(m.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		cfg = &Config{}
	case err != nil:
		return err
	}
	m.Config = cfg
	if folder {
		if m.Files, _, err = companions(m.Dir, cfg); err != nil {
			return err
		}
	}
	refs := m.Set.Refs()
	sources := make([]source, len(refs))
	for i, r := range refs {
		sources[i] = source{Ref: r, origin: Donor}
	}
	for i := range m.Files {
		m.Files[i].Origin = Donor
	}
	if err := m.understand(sources, cfg.HeadLayers); err != nil {
		return err
	}
	m.Head.Missing = []string{}
	if m.family != nil {
		m.reportHead(m.match())
	}
	m.problems = convert(m.headProblems(), "donor ")
	m.Findings = m.problems
	return nil
}

// headProblems keeps what is wrong with files that hold, or should hold, the head.
func (m *Model) headProblems() []safetensors.Problem {
	holds := mayBeHead
	if m.family != nil {
		holds = m.head.holds
	}
	needed, holders := map[string]bool{}, map[string]int{}
	if m.Set.Index != nil {
		for tensor, file := range m.Set.Index.WeightMap {
			if holds(tensor) {
				needed[file] = true
			}
		}
	}
	copies := false
	for _, f := range m.Set.Files {
		for _, t := range f.Tensors {
			if holds(t.Name) {
				needed[f.Name] = true
				holders[t.Name]++
				copies = copies || holders[t.Name] > 1
			}
		}
	}
	found := len(holders) > 0
	var out []safetensors.Problem
	for _, p := range m.Set.Problems {
		switch p.Rule {
		case "stale-copy":
			if !copies {
				continue
			}
		case "index-missing", "index-size", "index-unlisted", "index-wrong", "shard-leftover", "shard-numbering", "data-unaligned":
			continue // they concern the whole of a checkpoint; what is missing of the head shows by itself
		case "index-syntax", "path-escape":
		default:
			// A shard that cannot be read matters when it should hold the head, or might.
			if known := found || len(needed) > 0; known && !needed[filepath.Base(p.File)] {
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

// headTensors lists the tensors of a donor's head, by the layout that a body has for it.
func (m *Model) headTensors(layout *headLayout) []*Tensor {
	var out []*Tensor
	for i := range m.Tensors {
		if layout.holds(m.Tensors[i].Name) {
			out = append(out, &m.Tensors[i])
		}
	}
	return out
}

// headDepth is how many layers a donor's head has: what its configuration promises, else what the names show.
func (m *Model) headDepth(head []*Tensor, layout *headLayout) int64 {
	if m.family != nil && m.Config.HeadLayers > 0 {
		return m.Config.HeadLayers
	}
	depth := int64(1)
	for _, t := range head {
		depth = max(depth, layout.depthOf(t.Name))
	}
	return depth
}

// takeFiles gives a view the companions that the body lacks and the donor has.
func (m *Model) takeFiles(donor *Model) {
	var taken []CompanionFile
	for _, f := range donor.Files {
		for i := range m.absent {
			same := m.absent[i].name == f.Name || m.absent[i].name == "chat_template.jinja" && f.Name == "chat_template.json"
			if same && m.absent[i].from != Donor && !m.absent[i].useless {
				m.absent[i].from = Donor
				taken = append(taken, f)
			}
		}
		if f.Name == "video_preprocessor_config.json" && m.Config.Vision && buildsVision(m.Config) && !m.carries(f.Name) {
			m.absent = append(m.absent, absence{name: f.Name, severity: playbook.Info, from: Donor})
			taken = append(taken, f)
		}
	}
	m.broken = append(m.broken, judgeContents(taken, m.Config)...)
	m.Files = append(m.Files, taken...)
	sortFiles(m.Files)
}

func (m *Model) carries(name string) bool {
	for _, f := range m.Files {
		if f.Name == name {
			return true
		}
	}
	return false
}
