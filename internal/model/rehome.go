package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// Laying says how a donor is laid over a body.
type Laying struct {
	// Rehome gives a text-only body the family's served class: its names, and the vision tower, configuration and files of
	// the donor. A body that claims that class and has no tower, which no server loads, is re-homed without being asked.
	Rehome   bool
	TextOnly bool // a text-only body keeps its class, or gets the text-only one where it claims another
	Force    bool // take a head whose norms look shifted by one
}

// Rename is a tensor whose name in a view is not the one that it is stored under.
type Rename struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Origin Origin `json:"origin"`
}

// Renames lists what a view renames, in natural order of the new names.
func (m *Model) Renames() []Rename {
	var out []Rename
	for i := range m.Tensors {
		if t := &m.Tensors[i]; t.Stored != "" {
			out = append(out, Rename{From: t.Stored, To: t.Name, Origin: t.Origin})
		}
	}
	return out
}

// source is the tensor as it goes into another model.
func (t *Tensor) source() source {
	s := source{Ref: t.Ref, origin: t.Origin}
	if t.Stored != "" {
		s.as = t.Name
	}
	return s
}

// Lay lays the donor's whole head over the body, as Overlay does, in the way that was asked for. A text-only body is
// re-homed first: what is renamed is in Renames, and a finding (body-rehomed) sums it up. A donor that lacks the tower refuses
// (donor-towerless).
func Lay(body, donor *Model, how Laying) (*Model, error) {
	home, note, err := body.rehome(donor, how)
	if err != nil {
		return nil, fmt.Errorf("re-homing %s: %w", body.Dir, err)
	}
	if note.Severity == playbook.Error {
		return refuse(home, donor, note), nil
	}
	view, err := lay(home, donor, how.Force)
	if err == nil && note.Rule != "" {
		view.Findings = append(view.Findings, note)
	}
	return view, err
}

// rehome is the body under the class and the names that are served; the body itself when there is nothing to do.
func (m *Model) rehome(donor *Model, how Laying) (*Model, playbook.Finding, error) {
	c, known := classOf(m.Config.Architecture)
	wrapper, text := servedClasses(c.family)
	if !known || wrapper == "" || text == "" {
		return m, playbook.Finding{}, nil
	}
	textOnly := !m.hasRole(RoleVision)
	mixture := c.vision && len(m.judgeTextOnly()) > 0
	misnamed := c.vision && len(m.respelled) > 0 && len(m.judgePrefixes()) > 0
	switch {
	case !textOnly && !(how.Rehome && misnamed):
		return m, playbook.Finding{}, nil
	case how.TextOnly && !c.vision:
		return m, playbook.Finding{}, nil
	case how.TextOnly:
		raw, err := m.textConfig(text)
		if err != nil {
			return m, playbook.Finding{}, err
		}
		return m.moved(raw, nil)
	case !mixture && !how.Rehome:
		return m, playbook.Finding{}, nil
	}
	if !textOnly {
		return m.moved(m.Config.Raw, nil)
	}
	refusal := playbook.New("donor-towerless", configFile+": architectures", "", "give the whole base model (its folder with config.json and the shards of model.visual.*), or keep the text-only class with graft --text-only")
	if dc, ok := classOf(donor.Config.Architecture); !ok || !dc.vision || dc.family.name() != c.family.name() {
		refusal.Message = fmt.Sprintf("the body is text-only (%s); to serve it as %s the donor must be one, and its config.json names %q", m.Config.Architecture, wrapper, donor.Config.Architecture)
		return m, refusal, nil
	}
	raw, err := m.wrapperConfig(donor)
	if err != nil {
		return m, playbook.Finding{}, err
	}
	home, note, err := m.moved(raw, donor)
	if err != nil {
		return m, note, err
	}
	var missing []string
	for i := range home.Expected {
		if e := &home.Expected[i]; e.Role == RoleVision {
			if _, ok := home.Lookup(e.Name); !ok {
				missing = append(missing, e.Name)
			}
		}
	}
	if len(missing) > 0 {
		refusal.Message = fmt.Sprintf("the body is text-only (%s); the donor lacks %s of the vision tower that %s needs: %s", m.Config.Architecture, tensors(len(missing)), wrapper, names(missing))
		return m, refusal, nil
	}
	return home, note, nil
}

// servedClasses are the two classes of a family: the wrapper with a vision tower, and the text-only one.
func servedClasses(f family) (wrapper, text string) {
	for _, c := range classes {
		switch {
		case f == nil || c.family.name() != f.name():
		case c.vision && wrapper == "":
			wrapper = c.architecture
		case !c.vision && text == "":
			text = c.architecture
		}
	}
	return wrapper, text
}

// moved is the body under another configuration: names as its class reads them, and the donor's vision tower where there
// is one. It shares the files of both.
func (m *Model) moved(raw []byte, donor *Model) (*Model, playbook.Finding, error) {
	none := playbook.Finding{}
	cfg, err := ParseConfig(raw)
	if err != nil {
		return m, none, err
	}
	home := &Model{Dir: m.Dir, Config: cfg, Set: m.Set, problems: m.problems}
	if home.Files, home.absent, err = companions(m.Dir, cfg); err != nil {
		return m, none, err
	}
	home.broken = judgeContents(home.Files, cfg)
	var sources []source
	for i := range m.Tensors {
		sources = append(sources, source{Ref: m.Tensors[i].Ref, origin: Body})
	}
	if err := home.understand(sources, cfg.HeadLayers); err != nil {
		return m, none, err
	}
	type prefixes struct{ from, to string }
	renamed := map[prefixes]int{}
	var order []prefixes
	for i := range sources {
		r, ok := home.respelled[i]
		if !ok || r.head {
			continue
		}
		sources[i].as = r.to + sources[i].Ref.Tensor.Name[len(r.from):]
		if renamed[prefixes{r.from, r.to}]++; renamed[prefixes{r.from, r.to}] == 1 {
			order = append(order, prefixes{r.from, r.to})
		}
	}
	tower := 0
	if donor != nil {
		for i := range donor.Tensors {
			if t := &donor.Tensors[i]; t.Role == RoleVision {
				sources = append(sources, source{Ref: t.Ref, origin: Donor})
				tower++
			}
		}
	}
	slices.SortFunc(sources, func(a, b source) int { return safetensors.NaturalCompare(a.name(), b.name()) })
	if err := home.understand(sources, cfg.HeadLayers); err != nil {
		return m, none, err
	}
	home.judge()
	var told []string
	for _, p := range order {
		told = append(told, fmt.Sprintf("%s from %q to %q", tensors(renamed[p]), p.from, p.to))
	}
	message := fmt.Sprintf("the body is served as %s (its config.json says %s)", cfg.Architecture, m.Config.Architecture)
	if len(told) > 0 {
		message += "; renamed are " + strings.Join(told, ", ")
	}
	if tower > 0 {
		message += fmt.Sprintf("; the vision tower, %s, and the wrapper's configuration are the donor's", tensors(tower))
	}
	return home, playbook.New("body-rehomed", configFile+": architectures", message, ""), nil
}

// ofFile are the keys of a flat configuration that belong to the file and not to the language model.
var ofFile = []string{
	"architectures", "model_type", "transformers_version", "vision_config", "text_config", "quantization_config", "_name_or_path", "auto_map",
	"image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id",
}

// wrapperConfig is the donor's configuration around the body's language model. A body whose own configuration is nested
// keeps it, and takes from the donor what a tower needs.
func (m *Model) wrapperConfig(donor *Model) ([]byte, error) {
	var err error
	set := func(doc []byte, key string, raw []byte) []byte {
		if err == nil {
			doc, err = sjson.SetRawBytes(doc, key, raw)
		}
		return doc
	}
	theirs := gjson.ParseBytes(donor.Config.Raw)
	if m.Config.Nested {
		out := bytes.Clone(m.Config.Raw)
		out = set(out, "architectures", []byte(theirs.Get("architectures").Raw))
		out = set(out, "model_type", []byte(theirs.Get("model_type").Raw))
		for _, key := range []string{"vision_config", "image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"} {
			if v := theirs.Get(key); v.Exists() && !gjson.GetBytes(out, key).IsObject() {
				out = set(out, key, []byte(v.Raw))
			}
		}
		return out, err
	}
	text := bytes.Clone(m.Config.Raw)
	for _, key := range ofFile {
		if err == nil {
			text, err = sjson.DeleteBytes(text, key)
		}
	}
	kind, jsonErr := json.Marshal(m.family.textModelType())
	if jsonErr != nil {
		return nil, jsonErr
	}
	text = set(text, "model_type", kind)
	out := set(bytes.Clone(donor.Config.Raw), "text_config", text)
	if v := gjson.GetBytes(m.Config.Raw, "tie_word_embeddings"); v.Exists() {
		out = set(out, "tie_word_embeddings", []byte(v.Raw))
	}
	if err == nil {
		out, err = sjson.DeleteBytes(out, "quantization_config")
	}
	return out, err
}

// textConfig is the body's configuration as the text-only class reads it: flat, without a tower.
func (m *Model) textConfig(architecture string) ([]byte, error) {
	out := bytes.Clone(m.Config.Raw)
	if m.Config.Nested {
		out = []byte(gjson.GetBytes(out, "text_config").Raw)
		for _, key := range []string{"transformers_version", "tie_word_embeddings", "dtype", "torch_dtype"} {
			v := gjson.GetBytes(m.Config.Raw, key)
			if !v.Exists() || gjson.GetBytes(out, key).Exists() {
				continue
			}
			var err error
			if out, err = sjson.SetRawBytes(out, key, []byte(v.Raw)); err != nil {
				return nil, err
			}
		}
	}
	var err error
	for _, key := range []string{"vision_config", "image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"} {
		if err == nil {
			out, err = sjson.DeleteBytes(out, key)
		}
	}
	if err == nil {
		out, err = sjson.SetBytes(out, "architectures", []string{architecture})
	}
	if err == nil {
		out, err = sjson.SetBytes(out, "model_type", m.family.textModelType())
	}
	return out, err
}
