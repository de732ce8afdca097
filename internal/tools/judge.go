package tools

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"seatsmith/internal/playbook"
)

// functionName is what OpenAI's API takes as a function's name (API reference, FunctionObject.name: a-z, A-Z, 0-9, underscores
// and dashes, at most 64).
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Judge says what is wrong with what was captured, gravest first inside each tool. A capture with an error among its findings
// is not to be used.
func (c *Capture) Judge() []playbook.Finding {
	found := slices.Clone(c.problems)
	if len(c.Tools) == 0 && len(found) == 0 {
		found = append(found, playbook.New("tools-empty", c.From, "the source answers, and lists no tool",
			"See that the server has its tools switched on for this caller, or that it is the right server."))
	}
	if len(c.Stubbed) > 0 {
		found = append(found, playbook.New("tools-stubbed", c.From,
			fmt.Sprintf("%d modules are missing in this interpreter and were stood in for: %s", len(c.Stubbed), strings.Join(c.Stubbed, ", ")),
			"Give --python the interpreter of the deployment, which has them."))
	}
	first := map[string]int{}
	for i, t := range c.Tools {
		where := fmt.Sprintf("tool %d (%.80s)", i, t.Name())
		if t.Where != "" {
			where += " at " + t.Where
		}
		if !functionName.MatchString(t.Name()) {
			found = append(found, playbook.New("tool-name", where, fmt.Sprintf("%.100q is no name of a function: 1 to 64 of a-z, A-Z, 0-9, _ and - (it has %d bytes)", t.Name(), len(t.Name())),
				"Rename the tool where it is served, or choose a shorter --prefix."))
		}
		if j, twice := first[t.Name()]; twice {
			found = append(found, playbook.New("tool-duplicate", where, fmt.Sprintf("tool %d has this name too", j),
				"Remove one of them; for two servers give each a --prefix of its own."))
		} else {
			first[t.Name()] = i
		}
		if len(t.Derived) > 0 {
			found = append(found, playbook.New("tool-derived", where, fmt.Sprintf("its %s come from the function, not from the registration", strings.Join(t.Derived, " and ")),
				"Compare with what the backend itself sends: --from MODULE:NAME, or capture from the running server."))
		}
		if t.function().TextOf("description") == "" {
			found = append(found, playbook.New("tool-undescribed", where, "it has no description, so the model has only its name to go by", "Describe it where it is served."))
		}
		parameters, ok := t.function().Get("parameters")
		if !ok {
			continue // OpenAI: a function without parameters takes none
		}
		faults := CheckSchema(parameters)
		for _, f := range faults {
			found = append(found, playbook.New("tool-schema", where, "parameters"+f.Path+": "+f.Message, "Repair the schema where it is served."))
		}
		if len(faults) == maxFaults {
			found = append(found, playbook.New("tool-schema", where, fmt.Sprintf("only the first %d faults of this schema are listed", maxFaults), "Repair those first."))
		}
	}
	return found
}
