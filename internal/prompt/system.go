package prompt

import (
	"slices"
	"strings"

	"seatsmith/internal/prompt/ordered"
)

// MergeSystem joins the system messages of a row into one leading message, in their order, with a blank line between: many
// templates refuse a system message that is not the first. It says whether it changed anything; a system message whose
// content is not a string is left where it is.
func MergeSystem(row Row) (Row, bool) {
	var parts []string
	var rest []ordered.Value
	moved := false
	for i, m := range row.Messages {
		content, _ := m.Get("content")
		if m.TextOf("role") != "system" || !content.IsString() {
			rest = append(rest, m)
			continue
		}
		moved = moved || i > 0
		parts = append(parts, strings.TrimSpace(content.Text()))
	}
	if !moved {
		return row, false
	}
	head := ordered.NewObject(ordered.Member{Key: "role", Value: ordered.NewString("system")},
		ordered.Member{Key: "content", Value: ordered.NewString(strings.Join(parts, "\n\n"))})
	row.Messages = slices.Insert(rest, 0, head)
	return row, true
}
