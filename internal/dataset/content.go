package dataset

import (
	"fmt"
	"strings"

	"seatsmith/internal/playbook"
	"seatsmith/internal/prompt"
	"seatsmith/internal/prompt/ordered"
)

// content asks whether every turn came through the template, and what inside it a tokenizer or template takes for control.
func (c *checker) content(where string, row prompt.Row, text string) {
	at := 0
	for i, m := range row.Messages {
		subject := fmt.Sprintf("%s: messages[%d]", where, i)
		assistant := m.TextOf("role") == "assistant"
		for _, part := range texts(m) {
			if assistant {
				c.think(subject, part)
			}
			c.control(subject, part, assistant)
			shown := part
			if _, after, split := cutLast(part, "</think>"); split && assistant {
				shown = after
			}
			end := find(text, shown, at)
			if end < 0 {
				c.note("turn-dropped", subject, fmt.Sprintf("the template leaves out this %s turn (%d characters)", m.TextOf("role"), len([]rune(shown))), "")
				continue
			}
			at = end
		}
		if r := strings.TrimSpace(m.TextOf("reasoning_content")); r != "" && find(text, r, 0) < 0 {
			c.report.ReasoningDropped += len([]rune(r))
		}
		if r := m.TextOf("reasoning_content"); r != "" {
			c.control(subject+".reasoning_content", r, false)
		}
	}
	for i, t := range row.Tools {
		f, ok := t.Get("function")
		if !ok {
			f = t
		}
		if name := f.TextOf("name"); !strings.Contains(text, name) {
			c.note("turn-dropped", fmt.Sprintf("%s: tools[%d]", where, i), fmt.Sprintf("the template leaves out the tool %s", name), "")
		}
	}
}

// texts are a message's texts, not empty ones.
func texts(m ordered.Value) []string {
	content, _ := m.Get("content")
	var out []string
	add := func(s string) {
		if strings.TrimSpace(s) != "" {
			out = append(out, s)
		}
	}
	if content.IsString() {
		add(content.Text())
	}
	for _, part := range content.Items() {
		add(part.TextOf("text"))
	}
	return out
}

// find looks for a turn's text in a prompt, from a place on and then anywhere, as it is or as JSON writes it. It returns where
// the text ends, or -1.
func find(text, part string, from int) int {
	part = strings.TrimSpace(part)
	if part == "" {
		return from
	}
	escaped := string(ordered.AppendString(nil, part))
	for _, p := range []string{part, escaped[1 : len(escaped)-1]} {
		if i := strings.Index(text[from:], p); i >= 0 {
			return from + i + len(p)
		}
	}
	if strings.Contains(text, part) {
		return from
	}
	return -1
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// think judges the tags of an assistant's content: none, or one opening before one closing.
func (c *checker) think(subject, part string) {
	open, closed := strings.Count(part, "<think>"), strings.Count(part, "</think>")
	switch {
	case open == 0 && closed == 0:
	case closed > 1 || open > 1:
		c.note("think-stray", subject, fmt.Sprintf("%d times <think> and %d times </think> in one content: a template splits at the first or the last of them", open, closed),
			"put the thinking into reasoning_content")
	case open == 0:
		c.note("think-stray", subject, "a </think> without <think>: templates take what is before it for thinking, some print a stray tag",
			"put what is before it into reasoning_content")
	case closed == 0:
		c.note("think-stray", subject, "a <think> without </think>", "close it, or put the thinking into reasoning_content")
	case strings.Index(part, "<think>") > strings.Index(part, "</think>"):
		c.note("think-stray", subject, "</think> comes before <think>", "put the thinking into reasoning_content")
	}
}

// control finds the tokenizer's own tokens spelled inside a text: they become control tokens in the middle of a turn.
func (c *checker) control(subject, part string, assistant bool) {
	seen := map[string]bool{}
	for _, m := range c.p.Tokens.FindAdded(part) {
		name := m.Token.Content
		if seen[name] || assistant && (name == "<think>" || name == "</think>") {
			continue
		}
		seen[name] = true
		if m.Token.Special {
			c.note("control-text", subject, fmt.Sprintf("the text spells the special token %s at byte %d: the turn is cut there", name, m.Start),
				"take it out, or spell it otherwise")
			continue
		}
		c.note("control-text", subject, fmt.Sprintf("the text spells the added token %s at byte %d, which the model reads as structure", name, m.Start), "")
		c.found[len(c.found)-1] = c.found[len(c.found)-1].As(playbook.Warning)
	}
}

// calls asks whether the tool calls of a row come back when its prompt is parsed as a server parses an answer.
func (c *checker) calls(where string, row prompt.Row, text string, src prompt.Source) {
	sent := row.Calls()
	c.report.Calls += len(sent)
	if len(sent) == 0 {
		return
	}
	if !strings.Contains(src.Text, "<tool_call>") {
		if !c.report.CallsUnread {
			c.note("calls-unread", src.From, "the template does not write <tool_call>: whether calls come back was not found out", "")
		}
		c.report.CallsUnread = true
		return
	}
	found := prompt.FindCalls(text)
	at := len(found) - 1
	for i := len(sent) - 1; i >= 0; i-- {
		k := at
		for k >= 0 && !found[k].Same(sent[i]) {
			k--
		}
		if k < 0 {
			c.note("call-lost", where, fmt.Sprintf("call %d of the row, of %s, does not come back when the prompt is parsed again", i+1, sent[i].TextOf("name")),
				"look at its arguments with calib render: a value that holds a tag, or blank lines at its ends, is lost")
			continue
		}
		at = k - 1
	}
}
