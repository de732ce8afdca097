package token

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// splitter cuts a text into pieces, in order, leaving nothing out.
type splitter func(s string, emit func(string) error) error

// The split expressions that are written by hand below, exactly as tokenizer.json spells them.
const (
	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen35 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

func newSplitter(p part) (splitter, error) {
	switch {
	case p.Behavior != "Isolated":
		return nil, fmt.Errorf("tokenizer.json: pre_tokenizer Split with behavior %s is not built; Isolated is", p.Behavior)
	case p.Invert && p.Pattern.Regex == nil:
		return nil, fmt.Errorf("tokenizer.json: pre_tokenizer Split with invert and a plain string is not built")
	case p.Pattern.String != nil:
		return splitString(*p.Pattern.String), nil
	case p.Pattern.Regex == nil:
		return nil, fmt.Errorf("tokenizer.json: pre_tokenizer Split has no pattern")
	}
	// With Isolated, what matches and what does not are both pieces: inverting changes nothing.
	switch pattern := *p.Pattern.Regex; pattern {
	case patternGPT2:
		return splitGPT2, nil
	case patternQwen2:
		return scanner{letters: classL, digits: 1}.split, nil
	case patternQwen35:
		return scanner{letters: classL | classM, digits: 1}.split, nil
	case patternLlama3:
		return scanner{letters: classL, digits: 3}.split, nil
	default:
		return splitRegex(pattern)
	}
}

// next is the character at i with its classes; width 0 at the end.
func next(t *[1114112]uint8, s string, i int) (r rune, class uint8, width int) {
	if i >= len(s) {
		return -1, 0, 0
	}
	if c := s[i]; c < utf8.RuneSelf {
		return rune(c), t[c], 1
	}
	r, width = utf8.DecodeRuneInString(s[i:])
	return r, t[r], width
}

// contraction is the length of 's 't 're 've 'm 'll 'd at i, or 0; fold takes capitals and the long s (U+017F) too.
func contraction(s string, i int, fold bool) int {
	if i+1 >= len(s) || s[i] != '\'' {
		return 0
	}
	a := s[i+1]
	if fold && a == 0xc5 && i+2 < len(s) && s[i+2] == 0xbf {
		return 3
	}
	var b byte
	if i+2 < len(s) {
		b = s[i+2]
	}
	if fold {
		if a >= 'A' && a <= 'Z' {
			a |= 0x20
		}
		if b >= 'A' && b <= 'Z' {
			b |= 0x20
		}
	}
	switch {
	case a == 's' || a == 't' || a == 'm' || a == 'd':
		return 2
	case a == 'r' && b == 'e' || a == 'v' && b == 'e' || a == 'l' && b == 'l':
		return 3
	}
	return 0
}

// blanks is the end of \s*[\r\n]+, \s+(?!\S) or \s+ at i, whichever of the three comes first and matches.
func blanks(t *[1114112]uint8, s string, i int, newlines bool) int {
	j, last, lastNL := i, i, -1
	for {
		_, class, w := next(t, s, j)
		if class&classS == 0 {
			break
		}
		last = j
		j += w
		if class&classNL != 0 {
			lastNL = j
		}
	}
	switch {
	case newlines && lastNL > 0:
		return lastNL
	case j == len(s) || last == i:
		return j
	}
	return last // the last blank goes to what follows
}

// scanner is the expression of Qwen2 to Qwen3.8 and Llama 3, which differ in what a letter is and how many digits stay
// together.
type scanner struct {
	letters uint8
	digits  int
}

func (c scanner) split(s string, emit func(string) error) error {
	t := classes()
	for i := 0; i < len(s); {
		end := c.end(t, s, i)
		if err := emit(s[i:end]); err != nil {
			return err
		}
		i = end
	}
	return nil
}

func (c scanner) end(t *[1114112]uint8, s string, i int) int {
	r, class, w := next(t, s, i)
	if r == '\'' {
		if n := contraction(s, i, true); n > 0 {
			return i + n
		}
	}
	// [^\r\n\p{L}\p{N}]?[letters]+ ; a mark may be the optional first character or a letter itself.
	if class&c.letters != 0 {
		return c.run(t, s, i+w, c.letters)
	}
	if class&(classNL|classL|classN) == 0 {
		if _, class2, w2 := next(t, s, i+w); class2&c.letters != 0 {
			return c.run(t, s, i+w+w2, c.letters)
		}
	}
	if class&classN != 0 {
		j := i + w
		for n := 1; n < c.digits; n++ {
			_, class, w := next(t, s, j)
			if class&classN == 0 {
				break
			}
			j += w
		}
		return j
	}
	//  ?[^\s letters \p{N}]+[\r\n]*
	j := i
	if r == ' ' {
		j++
	}
	k := j
	for {
		_, class, w := next(t, s, k)
		if w == 0 || class&(classS|c.letters|classN) != 0 {
			break
		}
		k += w
	}
	if k > j {
		return c.run(t, s, k, classNL)
	}
	return blanks(t, s, i, true)
}

func (scanner) run(t *[1114112]uint8, s string, i int, in uint8) int {
	for {
		_, class, w := next(t, s, i)
		if class&in == 0 {
			return i
		}
		i += w
	}
}

// splitGPT2 is GPT-2's expression: contractions in small letters only, one blank before a word, no care for newlines.
func splitGPT2(s string, emit func(string) error) error {
	t := classes()
	for i := 0; i < len(s); {
		end := i + contraction(s, i, false)
		if end == i {
			end = gpt2End(t, s, i)
		}
		if err := emit(s[i:end]); err != nil {
			return err
		}
		i = end
	}
	return nil
}

func gpt2End(t *[1114112]uint8, s string, i int) int {
	j := i
	if s[i] == ' ' {
		j++
	}
	_, class, w := next(t, s, j)
	if w == 0 || class&classS != 0 {
		return blanks(t, s, i, false)
	}
	var kind uint8
	switch {
	case class&classL != 0:
		kind = classL
	case class&classN != 0:
		kind = classN
	}
	for j += w; ; j += w {
		_, class, w = next(t, s, j)
		same := class&kind != 0
		if kind == 0 {
			same = w > 0 && class&(classS|classL|classN) == 0
		}
		if !same {
			return j
		}
	}
}

// digitsSplitter is the Digits pre-tokenizer: numbers apart from the rest, one by one or together.
func digitsSplitter(individual bool) splitter {
	return func(s string, emit func(string) error) error {
		t := classes()
		start := 0
		for i := 0; i < len(s); {
			_, class, w := next(t, s, i)
			j := i + w
			if class&classN == 0 {
				i = j
				continue
			}
			if start < i {
				if err := emit(s[start:i]); err != nil {
					return err
				}
			}
			for !individual {
				_, class, w := next(t, s, j)
				if class&classN == 0 {
					break
				}
				j += w
			}
			if err := emit(s[i:j]); err != nil {
				return err
			}
			i, start = j, j
		}
		if start < len(s) {
			return emit(s[start:])
		}
		return nil
	}
}

func splitString(sep string) splitter {
	return func(s string, emit func(string) error) error {
		start := 0
		for i := 0; sep != "" && i+len(sep) <= len(s); {
			if s[i:i+len(sep)] != sep {
				i++
				continue
			}
			if start < i {
				if err := emit(s[start:i]); err != nil {
					return err
				}
			}
			if err := emit(sep); err != nil {
				return err
			}
			i += len(sep)
			start = i
		}
		if start < len(s) {
			return emit(s[start:])
		}
		return nil
	}
}

// splitRegex is for every other expression. The library's engine is Oniguruma; this one knows look-around and Unicode
// classes too, and refuses what it does not know (POSIX brackets, class intersections) when the file is loaded. Code points that the
// library does not know are shown to it as unassigned ones.
func splitRegex(pattern string) (splitter, error) {
	// What Oniguruma reads differently and this engine would accept.
	for _, odd := range []string{"[[:", "&&", "(?m", `\G`, `\K`, `\R`, `\X`, `\h`, "$"} {
		if strings.Contains(pattern, odd) {
			return nil, fmt.Errorf("tokenizer.json: pre_tokenizer Split: the expression %q uses %s, which is not built", pattern, odd)
		}
	}
	re, err := regexp2.Compile(pattern, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: pre_tokenizer Split: the expression %q is not understood: %w", pattern, err)
	}
	re.MatchTimeout = 10 * time.Second
	return func(s string, emit func(string) error) error {
		t := classes()
		runes := make([]rune, 0, len(s))
		offsets := make([]int, 0, len(s)+1)
		for i, r := range s {
			if t[r] == 0 && r > 0x80 && isNewerLetter(r) {
				r = 0x0378 // unassigned
			}
			runes, offsets = append(runes, r), append(offsets, i)
		}
		offsets = append(offsets, len(s))
		done := 0
		m, err := re.FindRunesMatch(runes)
		for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
			from, to := m.RuneIndex, m.RuneIndex+m.RuneLength
			if from == to {
				continue
			}
			if done < from {
				if err := emit(s[offsets[done]:offsets[from]]); err != nil {
					return err
				}
			}
			if err := emit(s[offsets[from]:offsets[to]]); err != nil {
				return err
			}
			done = to
		}
		if err != nil {
			return fmt.Errorf("splitting with %q: %w", pattern, err)
		}
		if done < len(runes) {
			return emit(s[offsets[done]:])
		}
		return nil
	}, nil
}

func isNewerLetter(r rune) bool {
	for _, x := range newerThanRegex {
		if r >= x[0] && r <= x[1] {
			return true
		}
	}
	return false
}
