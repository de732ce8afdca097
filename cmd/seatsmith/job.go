package main

import (
	"strings"

	"github.com/spf13/cobra"

	"seatsmith/internal/line"
	"seatsmith/internal/plan"
)

// jobFlags adds the flags that plan, quantize and forge share; they fill a job.
func jobFlags(cmd *cobra.Command, j *line.Job) {
	f := cmd.Flags()
	f.StringVar(&j.Donor, "donor", "", "base `CKPT` whose MTP head is laid over the source (folder, partial folder or one file)")
	var names []string
	for _, r := range plan.Recipes() {
		names = append(names, r.Name)
	}
	f.StringVar(&j.Recipe, "recipe", "", "recipe: "+strings.Join(names, ", ")+", or a YAML file (default \"default\")")
	f.StringVar(&j.Stats, "stats", "", "activation statistics: a `FILE` stats.safetensors, which nvfp4-w4a4 and fp8-tensor need")
	f.StringVar(&j.Dialect, "dialect", "", "spelling on disk: compressed-tensors or modelopt (default \"compressed-tensors\")")
	f.StringVar(&j.Math, "math", "", "peer whose arithmetic is reproduced bit for bit: modelopt, modelopt-cpu or ct (default \"modelopt\")")
	f.StringVar(&j.Groups, "groups", "", "which tensors share a global scale: server, or llm-compressor for comparisons (default \"server\")")
	f.StringVar(&j.Search, "search", "", "how block scales are chosen: max (default \"max\")")
	f.StringVar(&j.ShardSize, "shard-size", "", "largest size of an output file (default 5GB)")
}

// writeFlags adds the flags of commands that write.
func writeFlags(cmd *cobra.Command, j *line.Job) {
	f := cmd.Flags()
	f.IntVar(&j.Workers, "workers", 0, "how many goroutines quantize (default: one per CPU); the bytes do not depend on it")
	f.BoolVar(&j.SHA256, "sha256", false, "record SHA-256 beside BLAKE3 for every shard")
}
