package line

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/dustin/go-humanize"
	"go.yaml.in/yaml/v3"

	"seatsmith/internal/diff"
	"seatsmith/internal/model"
	"seatsmith/internal/numeric"
	"seatsmith/internal/plan"
	"seatsmith/internal/safetensors"
)

// Job is what the user asks of forge. Paths in a job file are relative to the file's folder.
type Job struct {
	Schema    int          `yaml:"schema" json:"schema"`                 // 1
	Kind      string       `yaml:"kind,omitempty" json:"kind,omitempty"` // "" for forge and quantize; in the record of a run also graft, splice, convert
	Name      string       `yaml:"name" json:"name"`
	Body      string       `yaml:"body" json:"body"`                                 // folder of the fine-tune
	Donor     string       `yaml:"donor,omitempty" json:"donor,omitempty"`           // base that has the head: folder (may be partial) or one file
	Output    string       `yaml:"output" json:"output"`                             // must not exist
	Repo      string       `yaml:"repo,omitempty" json:"repo,omitempty"`             // OWNER/NAME that the output gets on the hub, for the card and the upload command
	BaseModel string       `yaml:"base_model,omitempty" json:"base_model,omitempty"` // OWNER/NAME of the fine-tune on the hub, for the card
	Recipe    string       `yaml:"recipe,omitempty" json:"recipe,omitempty"`         // built-in name or YAML file
	Stats     string       `yaml:"stats,omitempty" json:"stats,omitempty"`           // file of activation statistics
	Dialect   string       `yaml:"dialect,omitempty" json:"dialect,omitempty"`       // compressed-tensors | modelopt
	Math      string       `yaml:"math,omitempty" json:"math,omitempty"`             // modelopt | ct
	Search    string       `yaml:"search,omitempty" json:"search,omitempty"`         // max
	Groups    string       `yaml:"groups,omitempty" json:"groups,omitempty"`         // server | llm-compressor
	ShardSize string       `yaml:"shard_size,omitempty" json:"shard_size,omitempty"`
	Workers   int          `yaml:"workers,omitempty" json:"workers,omitempty"` // 0: one per CPU
	SHA256    bool         `yaml:"sha256,omitempty" json:"sha256,omitempty"`
	TextOnly  bool         `yaml:"text_only,omitempty" json:"text_only,omitempty"` // in the record of a graft
	Trained   []model.Role `yaml:"trained,omitempty" json:"trained,omitempty"`     // roles that the training was meant to change: each must differ from the donor's
	Diff      *bool        `yaml:"diff,omitempty" json:"diff,omitempty"`           // false: the fine-tune is not compared with its donor, which is then said
	Force     bool         `yaml:"force,omitempty" json:"force,omitempty"`         // take a head whose norms look shifted
	Bounds    Bounds       `yaml:"bounds,omitempty" json:"bounds"`
}

// Bounds are the numbers that a result must keep; beyond one, the answer is no.
type Bounds struct {
	// RelativeMSE is the largest sum of squared errors over sum of squares of the source, by role ("mlp", "attention" …).
	RelativeMSE map[string]float64 `yaml:"relative_mse,omitempty" json:"relative_mse,omitempty"`
}

// quantizable are the roles that a recipe can quantize, and so those that can have a bound.
var quantizable = []model.Role{model.RoleAttention, model.RoleLinearAttention, model.RoleMLP, model.RoleExpert, model.RoleSharedExpert, model.RoleLMHead, model.RoleHead}

// maxJobBytes bounds a job file; the largest sensible one is a few kilobytes.
const maxJobBytes = 1 << 20

// ReadJob reads a job file. Unknown fields are refused by name and line.
func ReadJob(path string) (Job, error) {
	data, err := safetensors.ReadRegular(path, maxJobBytes)
	if err != nil {
		return Job{}, fmt.Errorf("reading the job: %w", err)
	}
	var j Job
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&j); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty; start from examples/tavern/job.yaml")
		}
		return Job{}, fmt.Errorf("%s: %w", path, err)
	}
	var extra any
	if err := dec.Decode(&extra); !errors.Is(err, io.EOF) {
		return Job{}, fmt.Errorf("%s: holds more than one YAML document; keep one job per file", path)
	}
	if j.Schema != 1 {
		return Job{}, fmt.Errorf("%s: schema: got %d, this version reads schema 1; add the line \"schema: 1\"", path, j.Schema)
	}
	dir := filepath.Dir(path)
	for _, p := range []*string{&j.Body, &j.Donor, &j.Output, &j.Stats} {
		*p = relativeTo(dir, *p)
	}
	if isPath(j.Recipe) {
		j.Recipe = relativeTo(dir, j.Recipe)
	}
	return j, nil
}

// isPath tells a recipe file from a built-in name.
func isPath(recipe string) bool {
	return filepath.Ext(recipe) == ".yaml" || filepath.Ext(recipe) == ".yml" || filepath.Base(recipe) != recipe
}

func relativeTo(dir, p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(dir, p)
}

// Check finds what is missing or out of range; every error names the field.
func (j Job) Check() error {
	if j.Output == "" {
		return errors.Join(errors.New("output: missing; name the folder to make"), j.CheckPlan())
	}
	return j.CheckPlan()
}

// CheckPlan is Check for whoever plans only and needs no output.
func (j Job) CheckPlan() error {
	var errs []error
	if j.Body == "" {
		errs = append(errs, errors.New("body: missing; name the folder of the fine-tune"))
	}
	if j.Workers < 0 {
		errs = append(errs, fmt.Errorf("workers: %d is negative; 0 means one per CPU", j.Workers))
	}
	for _, role := range slices.Sorted(maps.Keys(j.Bounds.RelativeMSE)) {
		if bound := j.Bounds.RelativeMSE[role]; !(bound > 0) || math.IsInf(bound, 0) {
			errs = append(errs, fmt.Errorf("bounds.relative_mse.%s: %v is not a positive number", role, bound))
		}
		if !slices.Contains(quantizable, model.Role(role)) {
			errs = append(errs, fmt.Errorf("bounds.relative_mse.%s: no role of this name is ever quantized; there are %v", role, quantizable))
		}
	}
	for _, role := range j.Trained {
		if !slices.Contains(diff.Trainable, role) {
			errs = append(errs, fmt.Errorf("trained: no role is called %q; there are %v", role, diff.Trainable))
		}
	}
	if len(j.Trained) > 0 && !j.compares() {
		errs = append(errs, errors.New("trained: roles are named and diff is false, so nobody would look at them; leave one of the two out"))
	}
	if o, err := j.PlanOptions(); err != nil {
		errs = append(errs, err)
	} else if err := o.Check(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// compares says whether the fine-tune is held against its donor.
func (j Job) compares() bool { return j.Diff == nil || *j.Diff }

// PlanOptions turns the job's words into the planner's.
func (j Job) PlanOptions() (plan.Options, error) {
	o := plan.Options{Recipe: j.Recipe, Stats: j.Stats, Dialect: j.Dialect, Search: j.Search, Groups: j.Groups}
	if j.Math != "" {
		m, err := numeric.ParseMath(j.Math)
		if err != nil {
			return o, fmt.Errorf("math: %w", err)
		}
		o.Math = m
	}
	if j.ShardSize != "" {
		n, err := humanize.ParseBytes(j.ShardSize)
		if err != nil || n == 0 || n > math.MaxInt64 {
			return o, fmt.Errorf("shard_size: %q is not a size such as 5GB", j.ShardSize)
		}
		o.ShardSize = int64(n)
	}
	return o, nil
}
