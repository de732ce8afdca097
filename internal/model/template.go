package model

import (
	"bytes"
	"fmt"
	"strings"
)

// blockTags are the Jinja statements that a matching end… closes (jinja2 3.1, parser.py; generation is transformers' own,
// utils/chat_template_utils.py). set is one of them when it assigns nothing.
var blockTags = map[string]bool{
	"if": true, "for": true, "macro": true, "call": true, "filter": true, "with": true, "set": true, "generation": true,
}

// templateFault says why a text cannot be a Jinja chat template, "" when nothing speaks against it. It runs nothing: it
// looks for text at all, and for tags and blocks that the text ends without closing, as a template cut short does.
func templateFault(text []byte) string {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return "there is no text in it"
	case !validText(text):
		return "it is not text in UTF-8"
	}
	var open []templateTag
	for at := 0; ; {
		begin := bytes.IndexByte(text[at:], '{')
		if begin < 0 || at+begin+1 >= len(text) {
			break
		}
		at += begin
		mark := text[at+1]
		if mark != '{' && mark != '%' && mark != '#' {
			at++
			continue
		}
		inside, next := tagEnd(text, at)
		if next < 0 {
			return fmt.Sprintf("{%c of line %d is never closed", mark, line(text, at))
		}
		if mark == '%' {
			tag, ok := templateTag{firstWord(inside), at}, true
			if tag.word == "raw" {
				next = rawEnd(text, next)
				ok = next >= 0
			} else {
				open, ok = step(open, tag, inside)
			}
			if !ok {
				return fmt.Sprintf("the %s of line %d has no partner", tag.word, line(text, at))
			}
		}
		at = next
	}
	if n := len(open); n > 0 {
		return fmt.Sprintf("the %s of line %d has no partner", open[n-1].word, line(text, open[n-1].at))
	}
	return ""
}

// templateTag is a statement: its first word, and the byte at which it begins.
type templateTag struct {
	word string
	at   int
}

// step opens or closes a block; ok is false for an end without a beginning.
func step(open []templateTag, tag templateTag, inside []byte) (now []templateTag, ok bool) {
	if opened, ends := strings.CutPrefix(tag.word, "end"); ends && blockTags[opened] {
		n := len(open)
		if n == 0 || open[n-1].word != opened {
			return open, false
		}
		return open[:n-1], true
	}
	if blockTags[tag.word] && !(tag.word == "set" && assigns(inside)) {
		open = append(open, tag)
	}
	return open, true
}

// tagEnd finds the end of the tag that begins at text[at:]; next is -1 when there is none. As in Jinja's own lexer an end
// mark counts only outside of strings and of brackets.
func tagEnd(text []byte, at int) (inside []byte, next int) {
	begin, mark := at+2, text[at+1]
	if mark == '#' {
		n := bytes.Index(text[begin:], []byte("#}"))
		if n < 0 {
			return nil, -1
		}
		return nil, begin + n + 2
	}
	closing := mark
	if mark == '{' {
		closing = '}'
	}
	depth := 0
	for i := begin; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\'' || c == '"':
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case depth == 0 && c == closing && i+1 < len(text) && text[i+1] == '}':
			return text[begin:i], i + 2
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			depth = max(depth-1, 0)
		}
	}
	return nil, -1
}

// rawEnd is behind the endraw that ends a raw block; -1 when there is none.
func rawEnd(text []byte, at int) int {
	for {
		n := bytes.Index(text[at:], []byte("{%"))
		if n < 0 {
			return -1
		}
		at += n + 2
		rest, ok := bytes.CutPrefix(bytes.TrimLeft(text[at:], "-+ \t\r\n"), []byte("endraw"))
		if !ok {
			continue
		}
		if rest, ok = bytes.CutPrefix(bytes.TrimLeft(rest, "-+ \t\r\n"), []byte("%}")); ok {
			return len(text) - len(rest)
		}
	}
}

func firstWord(inside []byte) string {
	inside = bytes.TrimLeft(inside, "-+ \t\r\n")
	n := 0
	for n < len(inside) && inside[n] >= 'a' && inside[n] <= 'z' {
		n++
	}
	return string(inside[:n])
}

// assigns says whether a set statement has a value of its own and therefore no end.
func assigns(inside []byte) bool {
	target, _, _ := bytes.Cut(inside, []byte("|")) // {% set x | filter %} is a block; what follows may hold a "="
	return bytes.IndexByte(target, '=') >= 0
}

func line(text []byte, at int) int { return bytes.Count(text[:at], []byte("\n")) + 1 }
