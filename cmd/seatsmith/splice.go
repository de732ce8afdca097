package main

import (
	"github.com/spf13/cobra"

	"seatsmith/internal/line"
	"seatsmith/internal/plan"
)

func (a *app) spliceCmd() *cobra.Command {
	c := line.Change{Kind: plan.KindSplice}
	cmd := &cobra.Command{
		Use:   "splice QUANT OUT --donor BASE",
		Short: "Give a checkpoint that was quantized elsewhere its head back",
		Long: `splice lays the donor's whole head into a quantized checkpoint. What the checkpoint stored of a head (stale copies, quantized
leftovers, under whatever prefix) is left out, in whatever shard it stands; the ignore lists name the head in the checkpoint's own
dialect; config.json promises it; the index is written anew. Nothing else is repaired: every other tensor keeps its bytes and its
file. All that changed is listed as findings (-v). The result is judged as the server would load it before it gets its name.`,
		Example: `  seatsmith splice ./model-NVFP4 ./model-NVFP4-mtp --donor ./base
  seatsmith splice ./model-NVFP4 ./whole --donor ./base/model-00014-of-00014.safetensors`,
		Args: args("QUANT", "OUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Source, c.Output = args[0], args[1]
			return a.apply(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Donor, "donor", "", "base `CKPT` that has the head (folder, partial folder or one file)")
	f.BoolVar(&c.Force, "force", false, "take a head whose norms look shifted by one; nothing is ever subtracted")
	changeFlags(cmd, &c)
	return cmd
}
