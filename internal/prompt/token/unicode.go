package token

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/unicode/rangetable"
)

// The tables below were measured on tokenizers 0.23.3 (PyPI wheel, December 2026) against Go 1.27 (Unicode 17): every code
// point was matched with \p{L}, \p{M}, \p{N} and \s, and normalized beside marks of other combining classes.

// newerThanRegex are letters, marks and numbers of Unicode 17 that the library's regular expressions do not know.
var newerThanRegex = [][2]rune{
	{0x88f, 0x88f}, {0xc5c, 0xc5c}, {0xcdc, 0xcdc}, {0x1acf, 0x1add}, {0x1ae0, 0x1aeb}, {0xa7ce, 0xa7cf}, {0xa7d2, 0xa7d2}, {0xa7d4, 0xa7d4},
	{0xa7f1, 0xa7f1}, {0x10940, 0x10959}, {0x10ec5, 0x10ec7}, {0x10efa, 0x10efb}, {0x11b60, 0x11b67}, {0x11db0, 0x11ddb}, {0x11de0, 0x11de9}, {0x16ea0, 0x16eb8},
	{0x16ebb, 0x16ed3}, {0x16ff2, 0x16ff6}, {0x187f8, 0x187ff}, {0x18d09, 0x18d1e}, {0x18d80, 0x18df2}, {0x1e6c0, 0x1e6de}, {0x1e6e0, 0x1e6f5}, {0x1e6fe, 0x1e6ff},
	{0x2b73a, 0x2b73f}, {0x2cea2, 0x2cead}, {0x323b0, 0x33479},
}

// newerThanNormalizer are code points whose decomposition or combining class is newer than the library's normalizer: it
// passes them on as it does any starter.
var newerThanNormalizer = [][2]rune{
	{0x7fd, 0x7fd}, {0x897, 0x89f}, {0x8ca, 0x8d3}, {0x9fe, 0x9fe}, {0xc3c, 0xc3c}, {0xd3b, 0xd3c}, {0xeba, 0xeba}, {0x1715, 0x1715},
	{0x1abf, 0x1add}, {0x1ae0, 0x1aeb}, {0x1df6, 0x1dfa}, {0xa82c, 0xa82c}, {0x105c9, 0x105c9}, {0x105d2, 0x105d2}, {0x105da, 0x105da}, {0x105e4, 0x105e4},
	{0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac}, {0x10efa, 0x10efb}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070},
	{0x1133b, 0x1133b}, {0x11382, 0x11385}, {0x1138b, 0x1138b}, {0x1138e, 0x1138e}, {0x11390, 0x11391}, {0x113c2, 0x113c2}, {0x113c5, 0x113c5}, {0x113c7, 0x113c8},
	{0x113ce, 0x113d0}, {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11935, 0x11935}, {0x11938, 0x11938}, {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0},
	{0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x1611e, 0x1611e},
	{0x16121, 0x16129}, {0x1612f, 0x1612f}, {0x16d63, 0x16d63}, {0x16d67, 0x16d6a}, {0x16ff0, 0x16ff1}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
	{0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef}, {0x1e6e3, 0x1e6e3}, {0x1e6e6, 0x1e6e6}, {0x1e6ee, 0x1e6ef}, {0x1e6f5, 0x1e6f5},
}

// Classes of a code point.
const (
	classL = 1 << iota
	classM
	classN
	classS  // white space
	classNL // \r or \n
)

// classes holds a byte for every code point; it is built once, in a few milliseconds.
var classes = sync.OnceValue(func() *[unicode.MaxRune + 1]uint8 {
	t := new([unicode.MaxRune + 1]uint8)
	mark := func(table *unicode.RangeTable, class uint8) {
		rangetable.Visit(table, func(r rune) { t[r] |= class })
	}
	mark(unicode.L, classL)
	mark(unicode.M, classM)
	mark(unicode.N, classN)
	mark(unicode.White_Space, classS)
	t['\r'] |= classNL
	t['\n'] |= classNL
	for _, r := range newerThanRegex {
		for c := r[0]; c <= r[1]; c++ {
			t[c] = 0
		}
	}
	return t
})

// isNewer says whether the library's normalizer does not know a code point.
var isNewer = sync.OnceValue(func() func(rune) bool {
	set := map[rune]bool{}
	for _, r := range newerThanNormalizer {
		for c := r[0]; c <= r[1]; c++ {
			set[c] = true
		}
	}
	return func(r rune) bool { return r >= newerThanNormalizer[0][0] && set[r] }
})

// normalize is NFC as the library has it.
//
// Go's norm follows the Stream-Safe Text Format and puts a joiner after 30 marks in a row; the library does not, so long
// runs are put in order here.
func normalize(s string) string {
	if norm.NFC.IsNormalString(s) && !longRun(s) {
		return s
	}
	var b strings.Builder
	newer := isNewer()
	for len(s) > 0 {
		i := strings.IndexFunc(s, newer)
		part := s
		if i >= 0 {
			part = s[:i]
		}
		if longRun(part) {
			b.WriteString(composeLong(part))
		} else {
			b.WriteString(norm.NFC.String(part))
		}
		if i < 0 {
			break
		}
		_, w := utf8.DecodeRuneInString(s[i:])
		b.WriteString(s[i : i+w])
		s = s[i+w:]
	}
	return b.String()
}

// longRun says whether a text has so many marks in a row that norm would cut them.
func longRun(s string) bool {
	run := 0
	for i := 0; i < len(s); {
		if s[i] < 0x80 {
			run = 0
			i++
			continue
		}
		p := norm.NFD.PropertiesString(s[i:])
		if p.CCC() == 0 && p.TrailCCC() == 0 {
			run = 0
		} else if run += max(1, utf8.RuneCount(p.Decomposition())); run > 28 {
			return true
		}
		i += max(1, p.Size())
	}
	return false
}

// composeLong is NFC by the book (UAX 15): decompose, order marks by class, compose with the last starter.
func composeLong(s string) string {
	var runes []rune
	var ccc []uint8
	for i := 0; i < len(s); {
		p := norm.NFD.PropertiesString(s[i:])
		w := max(1, p.Size())
		d := p.Decomposition()
		if d == nil {
			d = []byte(s[i : i+w])
			if r, _ := utf8.DecodeRune(d); r >= 0xac00 && r <= 0xd7a3 {
				d = norm.NFD.Bytes(d)
			}
		}
		for len(d) > 0 {
			r, n := utf8.DecodeRune(d)
			runes = append(runes, r)
			ccc = append(ccc, norm.NFD.Properties(d).CCC())
			d = d[n:]
		}
		i += w
	}
	order(runes, ccc)
	out := runes[:0]
	classesOut := ccc[:0]
	starter := -1
	for i, r := range runes {
		if starter >= 0 && (len(out)-1 == starter || classesOut[len(out)-1] < ccc[i] && classesOut[len(out)-1] != 0) {
			if c, ok := compose(out[starter], r); ok {
				out[starter] = c
				continue
			}
		}
		if ccc[i] == 0 {
			starter = len(out)
		}
		out, classesOut = append(out, r), append(classesOut, ccc[i])
	}
	return string(out)
}

// order sorts each run of marks by class, stably, in linear time: classes are bytes.
func order(runes []rune, ccc []uint8) {
	for i := 0; i < len(runes); {
		if ccc[i] == 0 {
			i++
			continue
		}
		j := i
		var count [257]int
		for j < len(runes) && ccc[j] != 0 {
			count[int(ccc[j])+1]++
			j++
		}
		for c := 1; c < 257; c++ {
			count[c] += count[c-1]
		}
		sortedRunes, sortedCCC := make([]rune, j-i), make([]uint8, j-i)
		for k := i; k < j; k++ {
			at := count[ccc[k]]
			count[ccc[k]]++
			sortedRunes[at], sortedCCC[at] = runes[k], ccc[k]
		}
		copy(runes[i:], sortedRunes)
		copy(ccc[i:], sortedCCC)
		i = j
	}
}

// compose joins a starter and what follows it, when Unicode has one character for both.
func compose(a, b rune) (rune, bool) {
	s := norm.NFC.String(string(a) + string(b))
	r, w := utf8.DecodeRuneInString(s)
	return r, w == len(s)
}
