package prompt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"seatsmith/internal/prompt/ordered"
)

// Source is one named chat template as the checkpoint spells it.
type Source struct {
	Name string // default, tool_use, or a name of the checkpoint's own
	Text string
	From string // the file, with the key
}

// Sources are a checkpoint's chat templates. As in transformers (5.x, tokenization_utils_base.py) the file
// chat_template.jinja wins over the key in tokenizer_config.json, and additional_chat_templates/NAME.jinja are named ones.
type Sources struct {
	List   []Source
	Hidden []Source // what the winner hides: a server that reads the other one renders other prompts
}

// Pick chooses as transformers does: the only one; else tool_use when there are tools and one of that name; else default.
func (s Sources) Pick(tools bool) (Source, error) {
	get := func(name string) (Source, bool) {
		i := slices.IndexFunc(s.List, func(t Source) bool { return t.Name == name })
		if i < 0 {
			return Source{}, false
		}
		return s.List[i], true
	}
	if tools {
		if t, ok := get("tool_use"); ok {
			return t, nil
		}
	}
	if t, ok := get("default"); ok {
		return t, nil
	}
	if len(s.List) == 0 {
		return Source{}, errors.New("the checkpoint has no chat template: neither chat_template.jinja nor chat_template in tokenizer_config.json; copy the base's")
	}
	names := make([]string, len(s.List))
	for i, t := range s.List {
		names[i] = t.Name
	}
	return Source{}, fmt.Errorf("none of the chat templates (%s) is called default", strings.Join(names, ", "))
}

// maxConfig bounds what is read of a template or a config, in bytes; tokenizer.json may be larger.
const (
	maxConfig    = 16 << 20
	maxTokenizer = 256 << 20
)

// readFile reads a regular file of bounded size; a file that is not there is nil without an error.
func readFile(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("reading %s: not a regular file", path)
	}
	if info.Size() > most {
		return nil, fmt.Errorf("reading %s: %d bytes; at most %d are read", path, info.Size(), most)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return data, nil
}

func readSources(dir string, config ordered.Value) (Sources, error) {
	var s Sources
	keyed, err := keyedSources("tokenizer_config.json", config)
	if err != nil {
		return s, err
	}
	file, err := readFile(filepath.Join(dir, "chat_template.jinja"), maxConfig)
	if err != nil {
		return s, err
	}
	legacy, err := readFile(filepath.Join(dir, "chat_template.json"), maxConfig)
	if err != nil {
		return s, err
	}
	switch {
	case file != nil:
		s.List = []Source{{"default", string(file), "chat_template.jinja"}}
		more, err := filepath.Glob(filepath.Join(escapeGlob(dir), "additional_chat_templates", "*.jinja"))
		if err != nil {
			return s, fmt.Errorf("listing additional_chat_templates: %w", err)
		}
		for _, path := range more {
			text, err := readFile(path, maxConfig)
			if err != nil {
				return s, err
			}
			name := strings.TrimSuffix(filepath.Base(path), ".jinja")
			s.List = append(s.List, Source{name, string(text), "additional_chat_templates/" + name + ".jinja"})
		}
		for _, k := range keyed {
			i := slices.IndexFunc(s.List, func(t Source) bool { return t.Name == k.Name })
			if i < 0 || s.List[i].Text != k.Text {
				s.Hidden = append(s.Hidden, k)
			}
		}
	case len(keyed) > 0:
		s.List = keyed
	case legacy != nil:
		v, err := ordered.Decode(legacy)
		if err != nil {
			return s, fmt.Errorf("chat_template.json: %w", err)
		}
		s.List, err = keyedSources("chat_template.json", v)
		return s, err
	}
	return s, nil
}

// keyedSources reads the key chat_template: a string, or a list of {"name", "template"}.
func keyedSources(file string, config ordered.Value) ([]Source, error) {
	v, ok := config.Get("chat_template")
	from := file + ": chat_template"
	switch {
	case !ok || v.IsNull():
		return nil, nil
	case v.IsString():
		return []Source{{"default", v.Text(), from}}, nil
	case !v.IsArray():
		return nil, fmt.Errorf("%s is %s; want a string or a list of named templates", from, v.Kind())
	}
	var out []Source
	for i, t := range v.Items() {
		name, hasName := t.Get("name")
		text, hasText := t.Get("template")
		if !hasName || !hasText || !name.IsString() || !text.IsString() {
			return nil, fmt.Errorf("%s[%d]: want an object with the strings name and template", from, i)
		}
		if slices.ContainsFunc(out, func(s Source) bool { return s.Name == name.Text() }) {
			return nil, fmt.Errorf("%s[%d]: a second template called %q", from, i, name.Text())
		}
		out = append(out, Source{name.Text(), text.Text(), fmt.Sprintf("%s[%d]", from, i)})
	}
	return out, nil
}

// escapeGlob keeps a folder's own brackets and stars from being a pattern.
func escapeGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}
