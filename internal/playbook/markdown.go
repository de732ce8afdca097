package playbook

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// plain reduces a text to its words: lower case, every run of what is no letter or digit one space. So line breaks,
// emphasis, quotation marks, hyphens and case do not hide a claim.
func plain(s string) string {
	words, _ := plainLines(s)
	return strings.TrimSpace(words)
}

// plainLines is plain with the line number of every byte of the result.
func plainLines(s string) (string, []int) {
	var b strings.Builder
	var lines []int
	line, gap := 1, true
	put := func(r rune) {
		n := b.Len()
		b.WriteRune(r)
		for range b.Len() - n {
			lines = append(lines, line)
		}
	}
	for _, r := range s {
		if r == '\n' {
			line++
		}
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			put(unicode.ToLower(r))
			gap = false
		} else if !gap {
			put(' ')
			gap = true
		}
	}
	return b.String(), lines
}

// phrase compiles one entry of phrases: words, which are found in order with nothing but white space, punctuation and
// emphasis between them, or "re:" and a pattern over the plain text.
func phrase(p string) (*regexp.Regexp, error) {
	if pattern, ok := strings.CutPrefix(p, "re:"); ok {
		return regexp.Compile(`\b(?:` + pattern + `)\b`)
	}
	words := plain(p)
	if len(strings.Fields(words)) < 3 {
		return nil, fmt.Errorf("%q is too short to tell a claim: three words at least", p)
	}
	return regexp.Compile(`\b` + regexp.QuoteMeta(words) + `\b`)
}

// Header is the warning to paste above a superseded claim. A file that has it is not flagged for that entry again.
func Header(r Rule) string {
	return fmt.Sprintf("> **Superseded %s** (seatsmith playbook `%s`): %s See `seatsmith playbook show %s`.", r.SupersededOn, r.ID, strings.Join(strings.Fields(r.Why), " "), r.SupersededBy)
}

// LintText looks for superseded claims in a Markdown text; name is only for the findings.
func (b *Book) LintText(name, text string) []Finding {
	words, lines := plainLines(text)
	var out []Finding
	for _, r := range b.Settled() {
		if r.Status != "superseded" || strings.Contains(text, "(seatsmith playbook `"+r.ID+"`)") {
			continue
		}
		first := -1
		for _, p := range r.Phrases {
			re, err := phrase(p)
			if err != nil {
				continue
			}
			if at := re.FindStringIndex(words); at != nil && (first < 0 || at[0] < first) {
				first = at[0]
			}
		}
		if first >= 0 {
			out = append(out, New("playbook-superseded", fmt.Sprintf("%s:%d", name, lines[first]),
				fmt.Sprintf("it repeats %s, superseded on %s by %s: %s", r.ID, r.SupersededOn, r.SupersededBy, strings.Join(strings.Fields(r.Title), " ")), "correct the text, or paste above it: "+Header(r)))
		}
	}
	return out
}

// maxMarkdownBytes bounds one document.
const maxMarkdownBytes = 16 << 20

// LintPaths looks into Markdown files, and into those below folders; hidden folders and node_modules are passed over. It
// returns how many files it read. An error is for a path that cannot be read.
func (b *Book) LintPaths(paths []string) (found []Finding, read int, err error) {
	for _, root := range paths {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if base := d.Name(); name != root && (strings.HasPrefix(base, ".") || base == "node_modules") {
					return fs.SkipDir
				}
				return nil
			}
			if name != root && !slices.Contains([]string{".md", ".markdown", ".mdx"}, strings.ToLower(filepath.Ext(name))) {
				return nil
			}
			info, err := os.Stat(name)
			if err != nil {
				return err
			}
			if !info.Mode().IsRegular() || info.Size() > maxMarkdownBytes {
				return fmt.Errorf("%s: want a regular file of at most %d bytes", name, maxMarkdownBytes)
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			read++
			found = append(found, b.LintText(name, string(text))...)
			return nil
		})
		if err != nil {
			return nil, read, fmt.Errorf("reading Markdown: %w", err)
		}
	}
	return found, read, nil
}
