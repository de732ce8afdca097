package verify

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"seatsmith/internal/dialect"
	"seatsmith/internal/engine"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/playbook"
)

// Options of a judgement.
type Options struct {
	Source   *model.Model // the view that was quantized (body with the donor laid over), nil: recorded hashes are checked
	Engine   string       // "" is engine.Default
	Workers  int          // 0: one per CPU
	Progress func(stage string, done, total int64)

	Headers bool    // Doctor: headers and small files only
	Host    Host    // Doctor: what is to serve it
	Serve   []Serve // Doctor: commands that are to serve it
}

// RoleError is the weight error of one role against the source, over its quantized tensors (and of the two halves of gated
// q_proj, "q_proj.query" and "q_proj.gate"): the sum of squared
// differences over the sum of squared source values, and the largest absolute difference.
type RoleError struct {
	RelativeMSE float64 `json:"relative_mse"`
	Max         float64 `json:"max"`
}

// Report is what verify prints as JSON and what a run keeps as verify.json. Scripts read these fields.
type Report struct {
	Schema         int                  `json:"schema"`
	Verdict        string               `json:"verdict"` // ok | warn | fail
	Engine         string               `json:"engine"`
	NotChecked     []string             `json:"not_checked"`
	Unjudged       bool                 `json:"unjudged"` // nothing is known to be wrong, and something that matters could not be judged: not good
	Unread         bool                 `json:"unread"`   // unjudged only because the class's loader was not read (loader-unread); the rest was judged and no error found
	Findings       []playbook.Finding   `json:"findings"`
	TensorsChecked int                  `json:"tensors_checked"`
	BytesIdentical int64                `json:"bytes_identical"` // bytes compared with the source and found equal
	ErrorByRole    map[string]RoleError `json:"error_by_role"`

	Places map[string]string `json:"-"` // the file of the folder that each subject of a finding is about
}

// Checkpoint judges a finished folder. The error is for what could not be read or found out at all.
func Checkpoint(ctx context.Context, dir string, o Options) (*Report, error) {
	j, err := newJudge(o)
	if err != nil {
		return nil, err
	}
	m, err := model.Open(dir)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	j.m, j.dir, j.config = m, dir, m.Config.Raw
	j.carry(m.Findings)
	if err := j.quantization(); err != nil {
		return nil, fmt.Errorf("verifying %s: %w", dir, err)
	}
	j.structure()
	j.path()
	if err := j.stack(); err != nil {
		return nil, fmt.Errorf("verifying %s: %w", dir, err)
	}
	j.comparable = j.fit()
	if err := j.readRecord(); err != nil {
		return nil, fmt.Errorf("verifying %s: %w", dir, err)
	}
	for _, stage := range []func(context.Context) error{j.scales, j.compare, j.alone, j.files, j.readSums, j.hashes, j.sums} {
		if err := stage(ctx); err != nil {
			return nil, fmt.Errorf("verifying %s: %w", dir, err)
		}
	}
	j.withoutRecord()
	return j.done(), nil
}

// Source judges an unquantized view before anything is planned: is it whole, are the names those of its class, is the
// head there. It reads headers only.
func Source(m *model.Model) *Report {
	j, err := newJudge(Options{})
	if err != nil { // the default engine is a constant of package engine
		return &Report{Schema: 1, Verdict: "fail", NotChecked: []string{err.Error()}}
	}
	j.m, j.dir, j.config = m, m.Dir, m.ConfigJSON()
	j.keepQuantized = true
	j.carry(m.Findings)
	if m.Config.Quantization == nil {
		j.structure()
	} else {
		j.skip("the server's modules: the source is quantized already", true)
	}
	j.skip("tensor data: a source is judged by its headers", false)
	return j.done()
}

// judge is one judgement in the making.
type judge struct {
	o      Options
	engine engine.Engine
	m      *model.Model
	dir    string
	config []byte // config.json as the server would read it

	keepQuantized bool // judging a source: "already quantized" is news there, not here
	dialectKnown  bool // the quantization block is of the dialect that is judged
	quantBroken   bool // quantized tensors without a usable block: nothing is compared with it
	unread        bool // a file could not be read: what it held is missing for no other reason
	modelMissing  bool // package model told of expected parameters that nobody holds
	srv           *engine.Server
	quant         *engine.Quantization
	bound         *engine.Bound
	resolved      []engine.Resolution // per linear
	stored        [][]parts           // per linear, per shard
	fusedExperts  []parts             // per linear: the 3-D tensors of a mixture
	caches        map[string]*model.Tensor
	modules       map[string]parts  // stored tensors by module and last component of their names
	eights        map[string]*eight // how the FP8 weights of the source are read, by name; nil for any other source

	expected  map[string]*model.Expected // what package model expects, by name
	held      map[string]bool            // parameters that some tensor holds
	tails     map[string]bool            // of tensors under a prefix that the class does not read
	condemned map[string]bool            // modules whose data is explained by a finding already
	refusals  map[string]bool            // groups of which it was told that the server refuses them
	faulty    map[string]bool            // modules whose values are known to be wrong
	byModule  map[string][]*model.Tensor // the tensors of each module, made when first asked for
	blamed    map[string]bool            // files in whose content an error was found already: that their hash changed is no news
	globals   map[string]float32
	subnormal map[string]blocks
	suspects  []string // modules whose global scale looks inverted
	roles     map[model.Role]*numeric.Error
	gates     map[string]*numeric.Error // of gated q_proj, its two halves

	comparable       bool               // there is a source, and it is one
	amaxes           map[string]float32 // largest source magnitude of the modules that were coded again and are equal
	schemes          map[string]dialect.Scheme
	looked           map[string]bool    // kept tensors whose values were looked at while they were compared
	tensors          int                // of the source that were compared
	companions       int                // of the source that were compared
	record           *model.Provenance  // nil: none, or none that can be believed
	unrecordedFolder bool               // there is no record
	summed           map[string]string  // what SHA256SUMS says, by file; nil without one
	unlisted         []string           // files that the record should list and does not
	natives          map[string]float32 // per module, the recorded native scale that makes the stored one

	notes     notes
	skipped   []string
	important bool // something that matters was not checked
	unknown   bool // something of that for another reason than a loader that was not read
	report    Report
}

// parts are the stored tensors of one checkpoint module, by attribute ("weight_packed").
type parts map[string]*model.Tensor

func newJudge(o Options) (*judge, error) {
	e, err := parseEngine(o.Engine)
	if err != nil {
		return nil, err
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	j := &judge{o: o, engine: e, condemned: map[string]bool{}, faulty: map[string]bool{}, blamed: map[string]bool{}}
	j.report = Report{Schema: 1, Engine: e.String(), ErrorByRole: map[string]RoleError{}}
	if !e.Read() {
		j.add(playbook.New("engine-unread", e.String(),
			fmt.Sprintf("the source of this version was not read; %s was, and its rules are applied", engine.ReadRange()),
			"try the checkpoint on the server itself before it takes a seat"))
	}
	return j, nil
}

func (j *judge) add(f playbook.Finding) { j.notes.add(f) }

// blame notes that a finding is about the content of a tensor's file.
func (j *judge) blame(tensors ...*model.Tensor) {
	for _, t := range tensors {
		if t != nil && t.File != nil {
			j.blamed[t.File.Name] = true
		}
	}
}

// blameModule blames the files of every part of a checkpoint module.
func (j *judge) blameModule(module string) {
	if j.byModule == nil {
		j.byModule = map[string][]*model.Tensor{}
		for i := range j.m.Tensors {
			t := &j.m.Tensors[i]
			j.byModule[t.Module] = append(j.byModule[t.Module], t)
			if name := moduleName(t.Name); name != t.Module {
				j.byModule[name] = append(j.byModule[name], t)
			}
		}
	}
	j.blame(j.byModule[module]...)
}

// blameConfig notes that a finding is about what config.json says.
func (j *judge) blameConfig() { j.blamed["config.json"] = true }

// skip notes what was not checked. important: without it the verdict cannot be "ok".
func (j *judge) skip(what string, important bool) {
	if !slices.Contains(j.skipped, what) {
		j.skipped = append(j.skipped, what)
	}
	j.important = j.important || important
	j.unknown = j.unknown || important
}

// skipUnread notes what was not checked because the loader of the class was not read.
func (j *judge) skipUnread(what string) {
	unknown := j.unknown
	j.skip(what, true)
	j.unknown = unknown
}

// done puts the report together.
func (j *judge) done() *Report {
	r := &j.report
	r.Findings = j.notes.done()
	r.Places = map[string]string{}
	for _, f := range r.Findings {
		r.Places[f.Subject] = j.fileOf(f.Subject)
	}
	r.NotChecked = append([]string{}, j.skipped...)
	r.TensorsChecked = len(j.m.Tensors)
	for role, sum := range j.roles {
		r.ErrorByRole[string(role)] = RoleError{RelativeMSE: sum.RelativeMSE(), Max: sum.MaxAbs}
	}
	for half, sum := range j.gates {
		r.ErrorByRole[half] = RoleError{RelativeMSE: sum.RelativeMSE(), Max: sum.MaxAbs}
	}
	switch worst := playbook.Worst(r.Findings); {
	case worst == playbook.Error:
		r.Verdict = "fail"
	case worst == playbook.Warning || j.important:
		r.Verdict = "warn"
	default:
		r.Verdict = "ok"
	}
	r.Unjudged = r.Verdict == "warn" && j.important
	r.Unread = r.Unjudged && !j.unknown
	return r
}
