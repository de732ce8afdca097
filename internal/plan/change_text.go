package plan

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// ChangeText writes the plan of a graft, a splice or a convert for people: what comes in, what is left out, what gets
// another name. verbose lists every tensor. Write errors are the caller's to notice, at the end of w.
func (p *Plan) ChangeText(w io.Writer, verbose bool) {
	out := bufio.NewWriter(w)
	defer out.Flush()
	fmt.Fprintf(out, "%s of %s (%s)", p.Kind, p.Architecture, p.Family)
	if p.Dialect != "" {
		fmt.Fprintf(out, ", dialect %s", p.Dialect)
	}
	fmt.Fprintln(out)
	donor, renamed, inverted := 0, 0, 0
	for i := range p.Items {
		item := &p.Items[i]
		if item.Origin == "donor" {
			donor++
		}
		if item.Action == Reciprocal {
			inverted++
		}
		if len(item.Outputs) == 1 && (item.Outputs[0].Name != item.Source || item.Stored != "") {
			renamed++
		}
	}
	fmt.Fprintf(out, "  %s: %d from the donor, %d under another name, %d scales as reciprocals; %s left out\n",
		plural(len(p.Items), "tensor"), donor, renamed, inverted, plural(len(p.Dropped), "tensor"))
	fmt.Fprintf(out, "  %s, %s copied\n", plural(len(p.Shards), "shard"), plural(len(p.Files), "companion file"))
	if !verbose {
		return
	}
	for i := range p.Items {
		item := &p.Items[i]
		var names []string
		for _, o := range item.Outputs {
			names = append(names, o.Name)
		}
		fmt.Fprintf(out, "  %s %s -> %s: %s\n", item.Action, item.Source, strings.Join(names, ", "), item.Reason)
	}
	for _, d := range p.Dropped {
		fmt.Fprintf(out, "  left out %s: %s\n", d.Name, d.Reason)
	}
}
