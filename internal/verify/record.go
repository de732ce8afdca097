package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// mostRecord is how large a record may be that is believed.
const mostRecord = 64 << 20

// readRecord reads the record; none is kept when it cannot be believed, which is then a finding.
func (j *judge) readRecord() error {
	data, err := safetensors.ReadRegular(filepath.Join(j.dir, model.ProvenanceFile), mostRecord)
	if errors.Is(err, fs.ErrNotExist) {
		j.unrecordedFolder = true
		return nil
	}
	if err != nil {
		return err
	}
	var p model.Provenance
	bad := ""
	switch err := json.Unmarshal(data, &p); {
	case err != nil:
		bad = err.Error()
	case p.Schema != 1:
		bad = fmt.Sprintf("its schema is %d, this version reads 1", p.Schema)
	case len(p.Files) == 0:
		bad = "it lists no files"
	}
	if bad != "" {
		j.badRecord("", bad)
		j.skip("recorded hashes", true)
		return nil
	}
	j.record = &p
	j.claims()
	return nil
}

func (j *judge) badRecord(cause, what string) {
	j.notes.join(cause, playbook.New("provenance-bad", model.ProvenanceFile, what, "copy the record again from where the folder was made"))
}

// claims holds what the record says of itself against the folder. What nothing here can prove is said to be unchecked.
func (j *judge) claims() {
	p := j.record
	required := []string{"config.json"}
	if x := j.m.Set.Index; x != nil {
		required = append(required, filepath.Base(x.Path))
	}
	for _, f := range j.m.Set.Files {
		required = append(required, f.Name)
	}
	for _, f := range j.m.Files {
		if f.Name == "tokenizer.json" || f.Name == "tokenizer_config.json" {
			required = append(required, f.Name)
		}
	}
	for _, name := range required {
		if _, ok := p.Files[name]; !ok {
			j.unlisted = append(j.unlisted, name)
		}
	}
	if len(j.unlisted) > 0 {
		j.badRecord("files", "it does not list "+listed(j.unlisted, mostNames)+", so nothing is known of their content")
	}
	if p.Tool != "seatsmith" {
		j.badRecord("tool", fmt.Sprintf("it says it was written by %q, and only seatsmith writes it", p.Tool))
	}
	if j.quant != nil && p.Dialect != "" && p.Dialect != j.dialectName() && !j.notes.any("quant-method") {
		j.badRecord("dialect", fmt.Sprintf("it says the dialect is %q, config.json says %q", p.Dialect, j.dialectName()))
	}
	if p.Groups != "" && p.Groups != groupsServer && p.Groups != groupsPeer {
		j.badRecord("groups", fmt.Sprintf("it says that scales are shared as in %q, which is not known", p.Groups))
	}
	head := p.Head == string(model.Body) || p.Head == string(model.Donor)
	switch {
	case p.Head == "" || j.m.Family == "" || j.notes.any("head-missing", "head-misplaced", "head-promise") || j.unread:
	case !head && p.Head != "none":
		j.badRecord("head", fmt.Sprintf("it says that the head is from %q, which is not known", p.Head))
	case head != (j.m.Head.Present > 0):
		j.badRecord("head", fmt.Sprintf("it says that the head is from %q, and %d tensors of a head are stored", p.Head, j.m.Head.Present))
	}
	what := "what the record says of recipe, plan and version (nothing here can prove it)"
	if !j.comparable {
		what = "what the record says of source, recipe, plan and version (nothing here can prove it)"
	}
	j.skip(what, false)
}

// The two ways in which scales are shared, as the record spells them.
const (
	groupsServer = "server"
	groupsPeer   = "llm-compressor"
)

// native holds the recorded native global scales against the stored divisors: converting back must give the same bytes.
// Every module with a global scale has one, and no other has.
func (j *judge) native() {
	p := j.record
	if p == nil {
		return
	}
	m, err := numeric.ParseMath(p.Math)
	if err != nil {
		if p.Math != "" || len(p.Native) > 0 || len(j.globals) > 0 {
			j.badRecord("math", fmt.Sprintf("it says the arithmetic is %q, which is not known, so its scales cannot be converted back", p.Math))
		}
		return
	}
	j.natives = map[string]float32{}
	for i := range j.m.Tensors {
		t := &j.m.Tensors[i]
		module := moduleName(t.Name)
		if t.Name != j.globalName(module) || j.faulty[module] || j.condemned[module] || j.expected[t.Base] == nil {
			continue
		}
		stored, read := j.globals[t.Name]
		global, recorded := p.Native[module]
		q := numeric.NVFP4{Math: m, Global: global}
		want := q.Divisor()
		if t.Suffix == "weight_scale_2" {
			want = q.Multiplier()
		}
		switch {
		case !recorded:
			j.notes.join("native", playbook.New("provenance-bad", t.Name, "the record has no native scale for the module, so a conversion and back would not give the same bytes", "write the module again"))
		case !read: // scale-bad or tensor-dtype tells of it
		case math.Float32bits(want) != math.Float32bits(stored):
			j.notes.join("differs", playbook.New("native-scale", t.Name,
				fmt.Sprintf("it is stored as %v, the recorded native scale %v makes %v", stored, global, want), "write the module again"))
		default:
			j.natives[module] = global
		}
	}
	j.nativeInputs(p, m)
	var ghosts []string
	for _, module := range slices.Sorted(maps.Keys(p.Native)) {
		if j.recordedInput(module) {
			continue
		}
		name := j.globalName(module)
		_, ok := j.m.Lookup(name)
		if !ok && !j.condemned[module] && !j.missingTold(module+".weight") && !j.notes.told(name, "tensor-missing") {
			ghosts = append(ghosts, module)
		}
	}
	if len(ghosts) > 0 {
		j.badRecord("ghosts", "it has native scales of modules that have none in the folder: "+listed(ghosts, mostNames))
	}
}

// withoutRecord tells that there is no record, and what was looked at in its place.
func (j *judge) withoutRecord() {
	if !j.unrecordedFolder {
		return
	}
	missing := playbook.New("provenance-missing", model.ProvenanceFile,
		"the folder carries no record of its files' hashes, so damage since it was made cannot be seen",
		"give the source with --source, or keep the record that the quantizer writes")
	if !j.comparable {
		j.skip("source comparison and recorded hashes", true)
		j.add(missing)
		return
	}
	j.skip(fmt.Sprintf("recorded hashes (no %s): %d of the %d tensors that a whole source has were compared instead, and config.json and %d of its %d other files",
		model.ProvenanceFile, j.tensors, max(len(j.o.Source.Tensors), len(j.o.Source.Expected)), j.companions, len(j.o.Source.Files)), false)
	j.add(missing.As(playbook.Info))
}
