package verify

import (
	"context"
	"fmt"

	"seatsmith/internal/engine"
	"seatsmith/internal/model"
)

// Host is what a checkpoint is to be served on.
type Host struct {
	TP  int64  // tensor-parallel ranks; 0 and 1 are one
	GPU string // "sm_120", "cpu", "rocm", "xpu"; "" is not known

	Memory int64 // bytes of one card; 0 is not known
}

// Doctor judges a checkpoint of anyone's making by the server's rules: would it load, would its head draft, is it whole.
// It reads headers and small files, then every scale tensor (and FP8 codes); Options.Headers leaves the scan out. Weights
// are not compared with anything and hashes are not read, which Checkpoint does; the report says so. The error is for what
// could not be read or found out at all.
func Doctor(ctx context.Context, dir string, o Options) (*Report, error) {
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
		return nil, fmt.Errorf("judging %s: %w", dir, err)
	}
	j.structure()
	j.path()
	if err := j.stack(); err != nil {
		return nil, fmt.Errorf("judging %s: %w", dir, err)
	}
	if o.Headers {
		j.skip("the values of scale tensors (--headers)", false)
	} else {
		if err := j.scales(ctx); err != nil {
			return nil, fmt.Errorf("judging %s: %w", dir, err)
		}
		j.suspected(nil)
	}
	j.skip("the values of other tensors, the source and recorded hashes (seatsmith verify compares them)", false)
	if err := j.host(); err != nil {
		return nil, err
	}
	for i := range o.Serve {
		j.serve(&o.Serve[i])
	}
	return j.done(), nil
}

// quantizedSchemes lists the schemes that the server would build, each with a module of it.
func (j *judge) quantizedSchemes() map[engine.Scheme]string {
	out := map[engine.Scheme]string{}
	if j.srv == nil || j.quantBroken {
		return out
	}
	for i, r := range j.resolved {
		if r.State == engine.Quantized && out[r.Scheme] == "" {
			out[r.Scheme] = j.srv.Linears[i].Runtime
		}
	}
	return out
}
