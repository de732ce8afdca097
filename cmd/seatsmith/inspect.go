package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"seatsmith/internal/model"
)

func (a *app) inspectCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect CKPT",
		Short: "Say what a checkpoint folder is: family, bytes by role, head, vision, quantization, findings",
		Long: `inspect opens a Hugging Face checkpoint folder and reads headers and JSON only: a 60-shard model takes well under a
second. It exits 1 when something is wrong that has a name, 3 when the folder cannot be read.`,
		Example: `  seatsmith inspect testdata/tiny-finetune
  seatsmith inspect --json ./model | jq .mtp`,
		Args: args("CKPT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := model.Open(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			r := m.Report()
			a.inspected(args[0], r)
			if a.verbose {
				a.tensors(m)
			}
			a.findings(r.Findings)
			if a.json {
				a.document(r)
			}
			a.decide(r.Findings)
			return nil
		},
	}
}

func (a *app) inspected(path string, r model.Report) {
	w := a.report()
	family := r.Family
	if family == "" {
		family = "unknown family"
	}
	fmt.Fprintf(w, "%s: %s (%s), %s parameters, %s in %s\n", path, r.Architecture, family, humanize.SIWithDigits(float64(r.Parameters), 1, ""), size(r.Bytes), plural(r.Tensors, "tensor"))
	roles := slices.SortedFunc(maps.Keys(r.Roles), func(x, y model.Role) int {
		return cmp.Or(cmp.Compare(r.Roles[y].Bytes, r.Roles[x].Bytes), cmp.Compare(x, y))
	})
	var rows [][]string
	for _, role := range roles {
		rows = append(rows, []string{string(role), plural(r.Roles[role].Tensors, "tensor"), size(r.Roles[role].Bytes)})
	}
	table(w, rows)
	h := r.MTP
	switch {
	case h.Promised == 0 && h.Present == 0:
		fmt.Fprintln(w, "  MTP head: none, and none promised")
	default:
		fmt.Fprintf(w, "  MTP head (%s): %s promised, %d of %d tensors present\n", h.Layout, plural(int(h.Promised), "layer"), h.Present, h.Expected)
	}
	if r.Quantization == nil {
		fmt.Fprintln(w, "  quantization: none")
	} else {
		fmt.Fprintf(w, "  quantization: %s\n", gjson.GetBytes(r.Quantization, "quant_method").String())
	}
}

// tensors lists every tensor: name, role, dtype, shape and the file that holds it.
func (a *app) tensors(m *model.Model) {
	var rows [][]string
	for i := range m.Tensors {
		t := &m.Tensors[i]
		rows = append(rows, []string{printable(t.Name), string(t.Role), string(t.Dtype()), fmt.Sprint(t.Shape()), t.File.Name})
	}
	table(a.report(), rows)
}
