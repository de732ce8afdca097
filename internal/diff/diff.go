package diff

import (
	"context"
	"errors"
	"runtime"

	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// Options of a comparison.
type Options struct {
	Workers  int                                   // 0: one per CPU
	Progress func(stage string, done, total int64) // bytes of the base; called from several goroutines, may be nil

	// Trained are the roles that the training was meant to change. When it is given, each of them must have changed and the
	// others are not judged; nil leaves it to the rule of the untouched role.
	Trained []model.Role
}

// Trainable are the roles that Options.Trained may name.
var Trainable = []model.Role{
	model.RoleAttention, model.RoleLinearAttention, model.RoleLinearGate, model.RoleMLP, model.RoleExpert, model.RoleSharedExpert,
	model.RoleRouter, model.RoleNorm, model.RoleConv, model.RoleState, model.RoleEmbedding, model.RoleLMHead, model.RoleVision, model.RoleHead,
}

// Report is what a comparison found. Its JSON form is the document of `seatsmith diff`.
type Report struct {
	Schema  int                  `json:"schema"`
	Verdict string               `json:"verdict"` // "ok", "warn", "fail"
	Roles   map[model.Role]*Role `json:"roles"`
	Kinds   []Kind               `json:"kinds"`   // the parameters of the body's layers, by name without numbers
	Experts []Experts            `json:"experts"` // layers in which some experts are identical and some are not
	Files   map[string]File      `json:"files"`   // small files by name; config.json among them

	TensorsCompared int   `json:"tensors_compared"`
	BytesCompared   int64 `json:"bytes_compared"` // of the base
	BytesShared     int64 `json:"bytes_shared"`   // of those, in files that both folders share, which need not be read

	NotChecked []string           `json:"not_checked"`
	Unjudged   bool               `json:"unjudged"` // nothing could be compared, so nobody knows
	Findings   []playbook.Finding `json:"findings"`
}

// Role counts the parameters of one role.
type Role struct {
	Changed        int            `json:"changed"`
	Identical      int            `json:"identical"`
	Missing        int            `json:"missing"`
	Added          int            `json:"added"`
	Recast         int            `json:"recast"`       // of the changed and identical ones: stored in another element type
	Incomparable   int            `json:"incomparable"` // one side is quantized, or the shapes differ
	RelativeChange *Spread        `json:"relative_change"`
	Dtypes         map[string]int `json:"dtypes,omitempty"` // "F32 for BF16" -> parameters
}

// Spread is over the changed parameters of a role: ‖body - base‖ / ‖base‖, Frobenius. Parameters with NaN or Inf and those
// of a base that is all zero are not in it; without any it is null.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// Kind counts the parameters of one name without numbers, over layers and experts.
type Kind struct {
	Name      string     `json:"name"`
	Role      model.Role `json:"role"`
	Changed   int        `json:"changed"`
	Identical int        `json:"identical"`

	params []*param
}

// Experts says how many of the experts of a layer are those of the base.
type Experts struct {
	Layer     string `json:"layer"` // "layers.3"
	Identical int    `json:"identical"`
	Experts   int    `json:"experts"`
}

// File is how a small file differs: "identical", "equal" (other bytes, same meaning), "changed", "missing" or "added". Changes
// name what differs, in words.
type File struct {
	State   string   `json:"state"`
	Changes []string `json:"changes,omitempty"`
}

// Run compares a fine-tune with its base. The report always stands alone; an error is for files that could not be read.
//
// Findings of the two models about their files come first when they hide tensors (safetensors.Blinds): what could not be
// read is not missing. Neither model is closed.
func Run(ctx context.Context, body, base *model.Model, o Options) (*Report, error) {
	if body == nil || base == nil {
		return nil, errors.New("comparing: two models are needed")
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	r := &Report{
		Schema: 1, Roles: map[model.Role]*Role{}, Files: map[string]File{},
		Kinds: []Kind{}, Experts: []Experts{}, NotChecked: []string{}, Findings: []playbook.Finding{},
	}
	c := &comparison{body: body, base: base, o: o, r: r}
	c.blinded()
	c.pair()
	if err := c.stream(ctx); err != nil {
		return nil, err
	}
	c.count()
	c.judge()
	if err := c.files(); err != nil {
		return nil, err
	}
	switch playbook.Worst(r.Findings) {
	case playbook.Error:
		r.Verdict = "fail"
	case playbook.Warning:
		r.Verdict = "warn"
	default:
		r.Verdict = "ok"
	}
	if r.Unjudged {
		r.Verdict = "fail"
	}
	return r, nil
}

// comparison is the state of one Run.
type comparison struct {
	body, base *model.Model
	o          Options
	r          *Report
	params     []*param // in natural order of keys
	units      []unit
	blind      bool // tensors are hidden by a file that cannot be read
	unmerged   []string
	doubled    []string
	drift      map[prefixes][]string
	resized    []string
	misfit     []string
	mapped     int // 3-D experts that were compared with single ones
}

func (c *comparison) add(f playbook.Finding) { c.r.Findings = append(c.r.Findings, f) }

// blinded takes over what the two models say about files that hide tensors.
func (c *comparison) blinded() {
	for i, m := range []*model.Model{c.body, c.base} {
		for _, f := range m.Findings {
			if !safetensors.Blinds(f.Rule) || f.Severity != playbook.Error {
				continue
			}
			if i == 1 {
				f.Subject = "base " + f.Subject
			}
			c.blind = true
			c.add(f)
		}
	}
}
