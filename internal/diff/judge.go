package diff

import (
	"fmt"
	"slices"
	"strings"

	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
)

// judge answers the question of the command: did the fine-tune survive?
func (c *comparison) judge() {
	c.structure()
	changedAny, compared := 0, 0
	for _, r := range c.r.Roles {
		changedAny += r.Changed
		compared += r.Changed + r.Identical
	}
	if n := len(c.keysOf(incomparable, func(*param) bool { return true })) - len(c.misfit); n > 0 {
		c.r.NotChecked = append(c.r.NotChecked, fmt.Sprintf("the values of %s: stored quantized on one side only, or in two ways", count(n, "parameter")))
		c.add(playbook.New("diff-incomparable", "quantized tensors", fmt.Sprintf("%s could not be compared: one side is quantized", count(n, "parameter")), "compare the unquantized checkpoints"))
	}
	switch {
	case compared == 0 && c.blind:
		c.r.Unjudged = true
		return
	case compared == 0 && len(c.keysOf(incomparable, func(*param) bool { return true })) > len(c.misfit):
		c.r.Unjudged = true
		return
	case compared == 0 || c.strangers():
		c.add(playbook.New("diff-stranger", "config.json: architectures", fmt.Sprintf("the two folders are not a fine-tune and its base: %s of %s have the same name and shape (%s, %s)",
			count(compared, "parameter"), count(len(c.params), "one"), named(c.body.Config.Architecture), named(c.base.Config.Architecture)), otherFolder))
		return
	case changedAny == 0:
		c.add(playbook.New("diff-nothing-changed", "all roles", fmt.Sprintf("all %s that both have are those of the base, value for value: nothing was trained, or nothing was merged", count(compared, "parameter")), mergeAgain))
		return
	}
	c.far()
	if c.o.Trained != nil {
		c.trained()
	} else {
		c.untouched()
	}
	c.layers()
	c.experts()
	if c.body.Family == "" && c.base.Family == "" {
		c.r.NotChecked = append(c.r.NotChecked, "whether the roles are right: the architecture is unknown, so they are guessed from names")
	}
}

func named(architecture string) string {
	if architecture == "" {
		return "no architecture"
	}
	return architecture
}

// strangers says whether the families differ, or most of the base is not in the body or of other shapes.
func (c *comparison) strangers() bool {
	if a, b := c.body.Family, c.base.Family; a != "" && b != "" && a != b {
		return true
	}
	both, lost := 0, len(c.misfit)
	for _, p := range c.params {
		switch {
		case p.state <= changed:
			both++
		case p.state == missing && p.role != model.RoleHead && p.role != model.RoleVision:
			lost++
		}
	}
	return !c.blind && lost > both
}

// far warns of Linears that changed by more than their own size. Two independent models of equal norms are a relative change of
// 1.41 apart; a fine-tune stays well below 1.
func (c *comparison) far() {
	var far []string
	for _, role := range linears {
		if r := c.r.Roles[role]; r != nil && r.RelativeChange != nil && r.RelativeChange.Median >= 1 {
			far = append(far, fmt.Sprintf("%s %.2g", role, r.RelativeChange.Median))
		}
	}
	if len(far) > 0 {
		c.add(playbook.New("diff-stranger", far[0], "the median relative change is as large as between two models that have nothing to do with each other: "+some(far), otherFolder).As(playbook.Warning))
	}
}

// trained judges against what the user says was trained.
func (c *comparison) trained() {
	for _, role := range c.o.Trained {
		r := c.r.Roles[role]
		switch {
		case r == nil || r.Changed+r.Identical == 0:
			c.add(playbook.New("diff-role-untouched", string(role), "the role was to be trained, and no parameter of it could be compared", "look at the roles in the report; name only roles that this model has"))
		case r.Changed == 0:
			c.add(playbook.New("diff-role-untouched", string(role), fmt.Sprintf("the role was to be trained, and all %s are those of the base", count(r.Identical, "parameter")), mergeAgain))
		}
	}
}

// untouched is the rule of the untouched role. A role of Linears is untouched when every parameter of it is identical.
//
//	experts            error whenever another role of Linears, or a router, changed: in all six reports that this rule is
//	                   made from the experts were the part that was left unmerged, while attention changed. A LoRA that left
//	                   them alone on purpose says so (--trained)
//	any other role     error when a norm, a convolution or a state vector changed: they are no Linears, no adapter
//	                   touches them, so whoever trained them trained everything, this role included
//	part of an MLP     the same two, where gate or up changed and another projection of the role did not at all: whoever
//	                   aims at an MLP names all three, while an edit changes down alone, which is nothing to say
//	any other role     warning else: a LoRA on attention alone (PEFT's default for many models), an edit of few directions
//	                   (abliteration changes o_proj and down_proj) and a target list without in_proj_* look like that
//
// Norms, embeddings, lm_head, vision and head may stay untouched without a word: most trainings leave them alone, and a
// small step on a norm can vanish in BF16.
func (c *comparison) untouched() {
	var moved []string
	whole := ""
	for role, r := range c.sorted() {
		if r.Changed == 0 {
			continue
		}
		if slices.Contains(linears, role) || role == model.RoleRouter {
			moved = append(moved, string(role))
		}
		if whole == "" && (role == model.RoleNorm || role == model.RoleConv || role == model.RoleState) {
			whole = string(role)
		}
	}
	for _, role := range linears {
		r := c.r.Roles[role]
		if r != nil && r.Changed > 0 {
			c.half(role, whole)
		}
		if r == nil || r.Changed > 0 || r.Identical == 0 {
			continue
		}
		what := fmt.Sprintf("all %s are those of the base, byte for byte, while ", count(r.Identical, "parameter"))
		fix := mergeAgain + "; if the role was left out on purpose, say what was trained: --trained " + strings.Join(moved, ",")
		f := playbook.New("diff-role-untouched", string(role), "", fix)
		switch {
		case whole != "":
			f.Message = what + fmt.Sprintf("even %s changed, which no adapter touches: whoever trained that trained this role too", whole)
		case role == model.RoleExpert && len(moved) > 0:
			f.Message = what + strings.Join(moved, ", ") + " changed: this is how a merge looks that left the experts out"
		case len(moved) == 0: // only embeddings, lm_head, head or vision changed
			f.Message = what + "no role of Linears changed at all"
			f = f.As(playbook.Warning)
		default:
			f.Message = what + strings.Join(moved, ", ") + " changed: right for an adapter on those alone, wrong for any other training"
			f = f.As(playbook.Warning)
		}
		c.add(f)
	}
}

// half finds the projections of an MLP, of experts or of a shared expert that did not change at all beside changed gates.
func (c *comparison) half(role model.Role, whole string) {
	if role != model.RoleMLP && role != model.RoleExpert && role != model.RoleSharedExpert {
		return
	}
	gates := false
	var still []string
	for _, k := range c.r.Kinds {
		switch {
		case k.Role != role:
		case k.Changed > 0:
			gates = gates || strings.Contains(k.Name, "gate") || strings.Contains(k.Name, "up_proj") || strings.HasSuffix(k.Name, ".w1") || strings.HasSuffix(k.Name, ".w3")
		default:
			still = append(still, k.Name)
		}
	}
	if !gates || len(still) == 0 {
		return
	}
	f := playbook.New("diff-role-untouched", string(role), fmt.Sprintf("%s untouched in every layer while other projections of the role changed", some(still)), mergeAgain)
	if whole == "" {
		f = f.As(playbook.Warning)
	}
	c.add(f)
}
