package token

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// matcher finds added tokens: leftmost first, and of those that begin there the longest.
type matcher struct {
	tokens  map[string]Added
	lengths []int // distinct, longest first
	first   [256]bool
}

func (m *matcher) add(a Added) {
	if m.tokens == nil {
		m.tokens = map[string]Added{}
	}
	m.tokens[a.Content] = a
	m.first[a.Content[0]] = true
	if !slices.Contains(m.lengths, len(a.Content)) {
		m.lengths = append(m.lengths, len(a.Content))
		slices.SortFunc(m.lengths, func(a, b int) int { return b - a })
	}
}

// next finds the next token at or after from; end is 0 when there is none.
func (m *matcher) next(s string, from int) (a Added, start, end int) {
	if len(m.tokens) == 0 {
		return a, 0, 0
	}
	for i := from; i < len(s); i++ {
		if !m.first[s[i]] {
			continue
		}
		for _, n := range m.lengths {
			if i+n <= len(s) {
				if a, ok := m.tokens[s[i:i+n]]; ok {
					return a, i, i + n
				}
			}
		}
	}
	return a, 0, 0
}

// split cuts s at its added tokens: text gets what is between them, token the tokens, in order.
func (m *matcher) split(s string, text func(string) error, token func(a Added, start, end int)) error {
	done := 0
	for from := 0; ; {
		a, start, end := m.next(s, from)
		if end == 0 {
			break
		}
		from = end
		if a.SingleWord {
			before, _ := utf8.DecodeLastRuneInString(s[:start])
			after, _ := utf8.DecodeRuneInString(s[end:])
			if start > 0 && isWordRune(before) || end < len(s) && isWordRune(after) {
				continue
			}
		}
		if a.LStrip {
			for start > done {
				r, w := utf8.DecodeLastRuneInString(s[:start])
				if !unicode.Is(unicode.White_Space, r) {
					break
				}
				start -= w
			}
			start = max(start, done)
		}
		if a.RStrip {
			for end < len(s) {
				r, w := utf8.DecodeRuneInString(s[end:])
				if !unicode.Is(unicode.White_Space, r) {
					break
				}
				end += w
			}
			from = max(from, end)
		}
		if done < start {
			if err := text(s[done:start]); err != nil {
				return err
			}
		}
		token(a, start, end)
		done = end
	}
	if done < len(s) {
		return text(s[done:])
	}
	return nil
}

// isWordRune is \w of Rust's regex crate: Alphabetic, M, Nd, Pc and Join_Control (UTS 18, annex C).
func isWordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.Is(unicode.Nd, r) || unicode.Is(unicode.Nl, r) || unicode.Is(unicode.Pc, r) ||
		unicode.Is(unicode.Other_Alphabetic, r) || r == 0x200c || r == 0x200d
}

// Match is an added token that a text spells.
type Match struct {
	Token      Added
	Start, End int // bytes
}

// FindAdded lists the added tokens that a text spells: what Encode would turn into control tokens.
func (t *Tokenizer) FindAdded(text string) []Match {
	var out []Match
	note := func(a Added, start, end int) { out = append(out, Match{a, start, end}) }
	skip := func(string) error { return nil }
	_ = t.early.split(text, skip, note) // skip never fails
	_ = t.late.split(text, skip, note)
	slices.SortStableFunc(out, func(a, b Match) int { return a.Start - b.Start })
	return out
}
