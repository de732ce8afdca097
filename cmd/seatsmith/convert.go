package main

import (
	"github.com/spf13/cobra"

	"seatsmith/internal/line"
	"seatsmith/internal/plan"
)

func (a *app) convertCmd() *cobra.Command {
	c := line.Change{Kind: plan.KindConvert}
	cmd := &cobra.Command{
		Use:   "convert QUANT OUT --dialect D",
		Short: "The other dialect, without quantizing again",
		Long: `convert spells a quantized checkpoint in the other dialect. Codes and block scales keep their bytes; names and shapes of
scalars change, and the global scale becomes its reciprocal. seatsmith.json keeps the scale that was there first, so that there and
back gives the same tensors, byte for byte. What the other dialect cannot express is refused by name; nothing is requantized.
The result is judged as the server would load it before it gets its name. OUT must not exist; an interrupted run leaves OUT.partial,
and the same command resumes it.`,
		Example: `  seatsmith convert ./model-NVFP4 ./model-NVFP4-modelopt --dialect modelopt
  seatsmith convert --json ./from-modelopt ./ct --dialect compressed-tensors | jq .findings`,
		Args: args("QUANT", "OUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Source, c.Output = args[0], args[1]
			return a.apply(cmd.Context(), c)
		},
	}
	cmd.Flags().StringVar(&c.Dialect, "dialect", "", "the spelling to give it: compressed-tensors or modelopt")
	changeFlags(cmd, &c)
	return cmd
}
