package main

import (
	"github.com/spf13/cobra"

	"seatsmith/internal/line"
	"seatsmith/internal/plan"
)

func (a *app) graftCmd() *cobra.Command {
	c := line.Change{Kind: plan.KindGraft}
	cmd := &cobra.Command{
		Use:   "graft BODY OUT --donor BASE",
		Short: "An unquantized checkpoint with the donor's whole head",
		Long: `graft writes the body with the donor's whole head; nothing is quantized. The head comes from one donor, and holes are never
filled from another. A head made for another model is refused. A text-only body (flat names model.layers.*) is re-homed into the
class that servers know for its family: names, and vision tower, configuration and processor files from the donor, with every
rename listed (-v, or renamed in --json); --text-only keeps the class. Shards that do not change are cloned where the file system
can, and copied otherwise. The result is compared with both sources, byte by byte, before it gets its name.`,
		Example: `  seatsmith graft ./my-finetune ./my-finetune-mtp --donor ./base
  seatsmith graft ./flat-text-only ./whole --donor ./base --json | jq .renamed`,
		Args: args("BODY", "OUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Source, c.Output = args[0], args[1]
			return a.apply(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Donor, "donor", "", "base `CKPT` that has the head (folder, partial folder or one file)")
	f.BoolVar(&c.TextOnly, "text-only", false, "keep the class of a text-only body")
	f.BoolVar(&c.Force, "force", false, "take a head whose norms look shifted by one; nothing is ever subtracted")
	changeFlags(cmd, &c)
	return cmd
}
