package plan

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"seatsmith/internal/dialect"
	"seatsmith/internal/model"
)

// Text writes the plan for people: what becomes of each role, with sizes before and after; what is kept and why; the
// head. Findings are the caller's to print. verbose adds a line per tensor. Write errors are the caller's to notice, at the end of w.
func (p *Plan) Text(w io.Writer, verbose bool) {
	out := bufio.NewWriter(w)
	defer out.Flush()
	fmt.Fprintf(out, "%s (%s)\n", p.Architecture, p.Family)
	fmt.Fprintf(out, "recipe %s, dialect %s, math %s, search %s, groups %s\n", p.Recipe.Name, p.Dialect, p.Math, p.Search, p.Groups)
	if p.Stats != nil {
		fmt.Fprintf(out, "activation statistics %.16s\n", p.Stats.Hash)
	}
	if len(p.Items) > 0 {
		p.textRoles(out)
		p.textKept(out)
		fmt.Fprintf(out, "\n%s\n", p.textHead())
		if n := len(p.Shards); n > 0 {
			fmt.Fprintf(out, "%s, %s copied\n", plural(n, "shard"), plural(len(p.Files), "companion file"))
		}
	}
	if verbose {
		p.textItems(out)
	}
}

type row struct {
	tensors         int
	before, after   int64
	elements, first int64 // first: index of the first item, for a stable order
}

func (r *row) add(i int, item *Item) {
	if r.tensors == 0 {
		r.first = int64(i)
	}
	r.tensors++
	r.elements += elements(item.Shape)
	before, after := item.bytes()
	r.before += before
	r.after += after
}

// bytes is an item's size before and after.
func (item *Item) bytes() (before, after int64) {
	bits, _ := item.Dtype.Bits()
	before = (elements(item.Shape)*bits + 7) / 8
	for _, o := range item.Outputs {
		after += outputBytes(o)
	}
	return before, after
}

func (p *Plan) textRoles(out io.Writer) {
	type key struct {
		role   model.Role
		scheme dialect.Scheme
	}
	rows := map[key]*row{}
	var keys []key
	total := &row{}
	for i := range p.Items {
		item := &p.Items[i]
		k := key{item.Role, item.Scheme}
		if rows[k] == nil {
			rows[k] = &row{}
			keys = append(keys, k)
		}
		rows[k].add(i, item)
		total.add(i, item)
	}
	slices.SortStableFunc(keys, func(a, b key) int {
		if c := slices.Index(roles, a.role) - slices.Index(roles, b.role); c != 0 {
			return c
		}
		return strings.Compare(string(a.scheme), string(b.scheme))
	})
	table := [][]string{{"role", "scheme", "tensors", "before", "after", "bits/weight"}}
	line := func(role, scheme string, r *row) {
		bits := "-"
		if r.elements > 0 {
			bits = fmt.Sprintf("%.2f", float64(r.after)*8/float64(r.elements))
		}
		table = append(table, []string{role, scheme, strconv.Itoa(r.tensors), size(r.before), size(r.after), bits})
	}
	for _, k := range keys {
		line(string(k.role), schemeName(k.scheme), rows[k])
	}
	line("all", "", total)
	textTable(out, table, 2)
}

// schemeName is a scheme as people read it: kept tensors are not all BF16.
func schemeName(s dialect.Scheme) string {
	if !s.Quantized() {
		return "kept"
	}
	return string(s)
}

// textTable aligns columns: the first left ones to the left, the rest to the right.
func textTable(out io.Writer, rows [][]string, left int) {
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], len(cell))
		}
	}
	fmt.Fprintln(out)
	for _, r := range rows {
		var b strings.Builder
		for i, cell := range r {
			if i < left {
				fmt.Fprintf(&b, "%-*s  ", width[i], cell)
			} else {
				fmt.Fprintf(&b, "%*s  ", width[i], cell)
			}
		}
		fmt.Fprintln(out, strings.TrimRight(b.String(), " "))
	}
}

// textKept lists why tensors are kept, in the order of their first tensor.
func (p *Plan) textKept(out io.Writer) {
	rows := map[string]*row{}
	for i := range p.Items {
		if item := &p.Items[i]; !item.Scheme.Quantized() {
			if rows[item.Reason] == nil {
				rows[item.Reason] = &row{}
			}
			rows[item.Reason].add(i, item)
		}
	}
	reasons := make([]string, 0, len(rows))
	for reason := range rows {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int { return int(rows[a].first - rows[b].first) })
	if len(reasons) > 0 {
		fmt.Fprintln(out, "\nkept as it is")
	}
	for _, reason := range reasons {
		fmt.Fprintf(out, "  %s, %s: %s\n", plural(rows[reason].tensors, "tensor"), size(rows[reason].before), reason)
	}
}

func (p *Plan) textHead() string {
	n, coded, rounded, bytes := 0, 0, 0, int64(0)
	from := model.Body
	for i := range p.Items {
		if item := &p.Items[i]; item.Role == model.RoleHead {
			n++
			from = item.Origin
			_, after := item.bytes()
			bytes += after
			if item.Scheme.Quantized() {
				coded++
			}
			if item.Action == Cast || item.Action == Widen {
				rounded++
			}
		}
	}
	switch {
	case n == 0:
		return "no MTP head: the server cannot draft"
	case coded > 0:
		return fmt.Sprintf("MTP head: %s, %s, from the %s, %d of them quantized", plural(n, "tensor"), size(bytes), from, coded)
	}
	if rounded > 0 {
		return fmt.Sprintf("MTP head: %s, %s, from the %s, %d of them rounded to BF16", plural(n, "tensor"), size(bytes), from, rounded)
	}
	return fmt.Sprintf("MTP head: %s, %s, from the %s, byte for byte", plural(n, "tensor"), size(bytes), from)
}

func (p *Plan) textItems(out io.Writer) {
	shardOf := map[int]string{}
	for _, s := range p.Shards {
		for _, i := range s.Items {
			shardOf[i] = s.File
		}
	}
	table := [][]string{{"tensor", "dtype", "shape", "scheme", "group", "shard", "reason"}}
	for i := range p.Items {
		item := &p.Items[i]
		dims := make([]string, len(item.Shape))
		for k, d := range item.Shape {
			dims[k] = strconv.FormatInt(d, 10)
		}
		table = append(table, []string{item.Source, string(item.Dtype), "[" + strings.Join(dims, ",") + "]", schemeName(item.Scheme), orDash(item.Group), orDash(shardOf[i]), item.Reason})
	}
	textTable(out, table, len(table[0]))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func size(n int64) string { return humanize.Bytes(uint64(max(0, n))) }

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
