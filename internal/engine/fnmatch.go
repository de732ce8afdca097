package engine

import "strings"

// fnmatch is Python's fnmatch.fnmatch on POSIX: * is any text, dots and all, ? one character, [seq] and [!seq] one of a
// set; a [ without its ] is itself. The whole name must match. The time is bounded by len(pattern) × len(name).
func fnmatch(pattern, name string) bool {
	p, n := 0, 0
	star, back := -1, 0 // the last *, and where in name it stopped
	for n < len(name) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				star, back = p, n
				p++
				continue
			}
			if w, ok := fnmatchOne(pattern[p:], name[n]); ok {
				p += w
				n++
				continue
			}
		}
		if star < 0 {
			return false
		}
		back++
		p, n = star+1, back
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// fnmatchOne matches one character and says how much of the pattern it used.
func fnmatchOne(p string, c byte) (int, bool) {
	switch p[0] {
	case '?':
		return 1, true
	case '[':
		j := 1
		if j < len(p) && p[j] == '!' {
			j++
		}
		if j < len(p) && p[j] == ']' {
			j++
		}
		end := strings.IndexByte(p[j:], ']')
		if end < 0 {
			break
		}
		set, not := p[1:j+end], false
		if set[0] == '!' {
			set, not = set[1:], true
		}
		return j + end + 1, inSet(set, c) != not
	}
	return 1, p[0] == c
}

func inSet(set string, c byte) bool {
	for i := 0; i < len(set); i++ {
		if i+2 < len(set) && set[i+1] == '-' {
			if set[i] <= c && c <= set[i+2] {
				return true
			}
			i += 2
			continue
		}
		if set[i] == c {
			return true
		}
	}
	return false
}
