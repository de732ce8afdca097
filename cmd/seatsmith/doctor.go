package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"seatsmith/internal/atomicfile"
	"seatsmith/internal/engine"
	"seatsmith/internal/repair"
	"seatsmith/internal/verify"
)

func (a *app) doctorCmd() *cobra.Command {
	var o verify.Options
	var serveArgs, compose, fix, sarif, memory string
	cmd := &cobra.Command{
		Use:   "doctor CKPT",
		Short: "Would this checkpoint load, would its head draft, is it whole",
		Long: `doctor judges any checkpoint by the server's own rules, without running a model: an unquantized one, or one that anyone
quantized, in the compressed-tensors or the modelopt dialect. It reads headers and small files, then every scale tensor;
--headers leaves the scan out. With --serve-args or --compose the serve command is judged together with the checkpoint.
--fix writes a repaired copy into a new folder, with repairs that change no weight, and judges it.
It exits 0 when nothing is wrong, 1 when something is, 3 when it could not find out.`,
		Example: `  seatsmith doctor ./my-quant --engine vllm@0.24 --gpu sm_120 --gpu-memory 32GiB
  seatsmith doctor ./my-quant --serve-args 'vllm serve /models/q --reasoning-parser qwen3 --max-model-len 32K'
  seatsmith doctor ./my-quant --compose compose.yaml --headers --json
  seatsmith doctor ./my-quant --fix ./my-quant-fixed`,
		Args: args("CKPT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := doctorUsage(&o, memory); err != nil {
				return usageError{err}
			}
			if err := a.commands(cmd.Context(), &o, serveArgs, compose); err != nil {
				return err
			}
			r, err := a.examine(cmd.Context(), args[0], o)
			if err != nil {
				return err
			}
			out := doctorReport{Report: r}
			if fix != "" {
				if out.Repaired, err = a.repair(cmd.Context(), args[0], fix, o); err != nil {
					return err
				}
				r = out.Repaired.Report
			}
			if sarif != "" {
				data, err := json.MarshalIndent(verify.SARIF(r, version), "", "  ")
				if err != nil {
					return err
				}
				if err := atomicfile.WriteNew(sarif, append(data, '\n'), 0o644); err != nil {
					return err
				}
			}
			if a.json {
				a.document(out)
			}
			a.decide(r.Findings)
			if r.Unjudged && a.answer == exitGood {
				a.answer = exitUnknown
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Engine, "engine", "", "the server that is to load it, such as vllm@0.24 (default "+engine.Default+")")
	f.Int64Var(&o.Host.TP, "tp", 1, "over how many tensor-parallel ranks it is to be split")
	f.StringVar(&o.Host.GPU, "gpu", "", "the card that is to serve it: sm_120, sm_90 …, or cpu, rocm, xpu")
	f.StringVar(&memory, "gpu-memory", "", "the memory of one card, such as 32GiB or 24564MiB: do the weights fit")
	f.StringVar(&serveArgs, "serve-args", "", "the serve `COMMAND`, or its arguments alone")
	f.StringVar(&compose, "compose", "", "a compose `FILE` whose services run vllm serve")
	f.BoolVar(&o.Headers, "headers", false, "headers and small files only, no scan of the scales")
	f.StringVar(&fix, "fix", "", "write a repaired copy to the new folder `OUT`")
	f.StringVar(&sarif, "sarif", "", "write the findings as SARIF 2.1.0 to the new `FILE`")
	f.IntVar(&o.Workers, "workers", 0, "how many goroutines scan (default: one per CPU)")
	return cmd
}

// doctorReport is the document: the report, and of a repaired copy what was repaired and its own report.
type doctorReport struct {
	*verify.Report
	Repaired *repair.Repaired `json:"repaired,omitempty"`
}

func doctorUsage(o *verify.Options, memory string) (err error) {
	if _, err := engine.Parse(o.Engine); o.Engine != "" && err != nil {
		return fmt.Errorf("--engine: %w", err)
	}
	if _, _, err := verify.ParseGPU(o.Host.GPU); o.Host.GPU != "" && err != nil {
		return fmt.Errorf("--gpu: %w", err)
	}
	if memory != "" {
		if o.Host.Memory, err = verify.ParseMemory(memory); err != nil {
			return fmt.Errorf("--gpu-memory: %w", err)
		}
	}
	if o.Host.TP < 1 || o.Host.TP > 1024 {
		return fmt.Errorf("--tp %d: want 1 to 1024", o.Host.TP)
	}
	if o.Workers < 0 {
		return fmt.Errorf("--workers %d is negative; 0 means one per CPU", o.Workers)
	}
	return nil
}

// commands reads the serve commands that were given.
func (a *app) commands(ctx context.Context, o *verify.Options, line, compose string) error {
	if line != "" {
		s, err := verify.ParseServe(o.Engine, line)
		if err != nil {
			return usageError{fmt.Errorf("--serve-args: %w", err)}
		}
		o.Serve = append(o.Serve, s)
	}
	if compose == "" {
		return nil
	}
	env := map[string]string{}
	for _, e := range os.Environ() {
		if k, v, ok := strings.Cut(e, "="); ok {
			env[k] = v
		}
	}
	services, err := verify.ReadCompose(ctx, o.Engine, compose, env)
	o.Serve = append(o.Serve, services...)
	return err
}

// examine judges a folder and prints the report for people.
func (a *app) examine(ctx context.Context, dir string, o verify.Options) (*verify.Report, error) {
	p := a.progress()
	defer p.close()
	o.Progress = p.update
	r, err := verify.Doctor(ctx, dir, o)
	p.close()
	if err != nil {
		return nil, err
	}
	a.findings(r.Findings)
	a.say("%s:", dir)
	w := a.report()
	fmt.Fprintf(w, "doctor: %s (as %s would load it), %s\n", r.Verdict, r.Engine, plural(r.TensorsChecked, "tensor"))
	if r.Unjudged {
		fmt.Fprintln(w, "  something that matters could not be judged, so this is not good (exit code 3)")
	}
	for _, n := range r.NotChecked {
		fmt.Fprintf(w, "  not checked: %s\n", n)
	}
	return r, nil
}

// repair writes a repaired copy and judges it.
func (a *app) repair(ctx context.Context, dir, out string, o verify.Options) (*repair.Repaired, error) {
	done, err := repair.Run(ctx, dir, out, o)
	if err != nil {
		return nil, err
	}
	for _, what := range done.Repairs {
		a.say("repaired: %s", what)
	}
	if len(done.Repairs) == 0 {
		a.say("nothing that can be repaired safely; %s was not written", out)
		done.Report, err = a.examine(ctx, dir, o)
		return done, err
	}
	done.Report, err = a.examine(ctx, out, o)
	return done, err
}
