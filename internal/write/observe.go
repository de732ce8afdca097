package write

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
)

// uncodable lists the tensors that cannot be written: those that cannot be coded, and kept ones with a NaN or Inf, in the order of the plan.
func (p *production) uncodable() []playbook.Finding {
	return p.findings(func(u *unit, w *work, s *scan) (playbook.Finding, bool) {
		if s.bad < 0 && u.finite() && u.extreme() {
			return playbook.New("source-extreme", w.item.Source,
				fmt.Sprintf("the largest value of the tensors that share its global scale is %s; %s cannot hold such a scale as a normal number", number(u.amax()), w.item.Scheme),
				"look for the step that scaled the tensor, or keep it and its fused partners as they are with a name rule of the recipe"), true
		}
		if s.badScale >= 0 {
			scale := w.scale.ref
			return playbook.New("source-scale-bad", w.item.SourceScale.Name,
				fmt.Sprintf("holds %s at %s (in %s); %s is scaled by it", number(s.scale), place(scale.Tensor.Shape, s.badScale), scale.File.Path, w.item.Source),
				"take the checkpoint from its publisher again, or start from the unquantized one"), true
		}
		if s.bad < 0 {
			return playbook.Finding{}, false
		}
		at := place(w.ref.Tensor.Shape, w.item.Begin+s.bad)
		if finite := float64(s.badValue) - float64(s.badValue); finite == 0 && w.item.Action != plan.Reciprocal {
			return playbook.New("source-rounds-beyond", w.item.Source,
				fmt.Sprintf("holds %s at %s (in %s), which BF16 cannot hold: it would become infinite", number(s.badValue), at, w.ref.File.Path),
				"look for the step that made the value; no weight of a working model is near 3.4e38"), true
		}
		what := "is to become " + string(w.item.Scheme)
		switch {
		case w.item.Action == plan.Reciprocal:
			what = "is to become its reciprocal"
		case w.item.Action != plan.Quantize:
			what = "is kept: a server that computes with it answers with NaN"
		}
		return playbook.New("source-nonfinite", w.item.Source,
			fmt.Sprintf("holds %s at %s (in %s) and %s", number(s.badValue), at, w.ref.File.Path, what),
			"repair the tensor in the source: find the step that made the value, or take the tensor from the base model"), true
	})
}

// observations lists what is worth a word about tensors that were coded.
func (p *production) observations() []playbook.Finding {
	return p.findings(func(u *unit, w *work, s *scan) (playbook.Finding, bool) {
		switch {
		case !w.item.Scheme.Quantized():
			return playbook.Finding{}, false
		case s.amax == 0 && w.bytes > 0:
			return playbook.New("zero-tensor", w.item.Source,
				fmt.Sprintf("all %d values are zero; written with codes 0 under %s", w.elements(), w.item.Scheme),
				"nothing, if the zeros are meant; otherwise look for the step that left the tensor unfilled"), true
		case s.collapsed > 0:
			return playbook.New("block-collapsed", w.item.Source,
				fmt.Sprintf("%d of %d blocks collapsed to zero: the largest value of the group is %s times that of the flattest of them, and %d is the most that a block scale can span",
					s.collapsed, w.elements()/16, number(u.amax()/s.smallest), 28672),
				"keep this tensor and its fused partners as they are with a name rule of the recipe, or repair the outlier"), true
		}
		return playbook.Finding{}, false
	})
}

// findings asks about every member of every unit and answers in the order of the shard's items.
func (p *production) findings(ask func(*unit, *work, *scan) (playbook.Finding, bool)) []playbook.Finding {
	found := map[*work]playbook.Finding{}
	for _, u := range p.units {
		for i, w := range u.works {
			if f, ok := ask(u, w, &u.scans[i]); ok {
				found[w] = f
			}
		}
	}
	var list []playbook.Finding
	for _, w := range p.sh.works {
		if f, ok := found[w]; ok {
			list = append(list, f)
		}
	}
	return list
}

// place spells element i of a tensor by its indexes, and by its number where that says more.
func place(shape []int64, i int64) string {
	if len(shape) < 2 {
		return position(shape, i)
	}
	return fmt.Sprintf("%s, element %d", position(shape, i), i)
}

// position spells element i of a tensor as its indexes, [row, col] for a matrix.
func position(shape []int64, i int64) string {
	at := make([]string, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		at[d] = strconv.FormatInt(i%shape[d], 10)
		i /= shape[d]
	}
	return "[" + strings.Join(at, ", ") + "]"
}

// number prints a value as a person writes it: NaN, +Inf, -Inf, 1e+06.
func number(v float32) string {
	if math.IsNaN(float64(v)) {
		return "NaN"
	}
	return strconv.FormatFloat(float64(v), 'g', 6, 32)
}
