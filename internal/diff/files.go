package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// maxFileBytes bounds a small file that is read as a whole; the largest known tokenizer.json has 33 MB.
const maxFileBytes = 64 << 20

const takeBase = "take the file from the base, unless the training changed it on purpose"

// side is the small files of one folder.
type side map[string][]byte

// files compares what stands beside the weights. A file that cannot be read ends the comparison; one that is not what its name promises
// is compared as bytes (inspect says what is wrong with it).
func (c *comparison) files() error {
	body, err := read(c.body)
	if err != nil {
		return fmt.Errorf("the body: %w", err)
	}
	base, err := read(c.base)
	if err != nil {
		return fmt.Errorf("the base: %w", err)
	}
	if len(base) == 0 {
		c.r.NotChecked = append(c.r.NotChecked, "tokenizer, template and configuration: there are none beside the base's weights")
		return nil
	}
	for name := range base {
		if _, ok := body[name]; !ok {
			c.r.Files[name] = File{State: "missing"}
		}
	}
	for name, data := range body {
		was, ok := base[name]
		switch {
		case !ok:
			c.r.Files[name] = File{State: "added"}
		case bytes.Equal(data, was):
			c.r.Files[name] = File{State: "identical"}
		case sameJSON(name, data, was):
			c.r.Files[name] = File{State: "equal"}
		default:
			c.r.Files[name] = File{State: "changed"}
		}
	}
	c.tokenizer(body["tokenizer.json"], base["tokenizer.json"])
	c.tokenizerConfig(body, base)
	c.template(body, base)
	c.generation(body["generation_config.json"], base["generation_config.json"])
	c.config(body["config.json"], base["config.json"])
	return nil
}

func read(m *model.Model) (side, error) {
	s := side{}
	if m.Config != nil && len(m.Config.Raw) > 0 {
		s["config.json"] = m.Config.Raw
	}
	for _, f := range m.Files {
		data, err := safetensors.ReadRegular(f.Path, maxFileBytes)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.Name, err)
		}
		s[f.Name] = data
	}
	return s, nil
}

// sameJSON says whether two JSON files hold the same values in whatever order and spacing.
func sameJSON(name string, a, b []byte) bool {
	if !strings.HasSuffix(name, ".json") {
		return false
	}
	x, xok := plainJSON(a)
	y, yok := plainJSON(b)
	return xok && yok && x == y
}

// plainJSON spells a value with sorted keys and numbers as Go spells them; ok is false for what is not JSON.
func plainJSON(data []byte) (string, bool) {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return "", false
	}
	out, err := json.Marshal(v)
	return string(out), err == nil
}

// note adds what differs in a file to the report.
func (c *comparison) note(name, change string) {
	f := c.r.Files[name]
	f.Changes = append(f.Changes, change)
	c.r.Files[name] = f
}

// template compares the chat template that is in force: chat_template.jinja, else the one in tokenizer_config.json or
// chat_template.json. Jinja drops one final newline, and so does the comparison.
func (c *comparison) template(body, base side) {
	name, is, had := inForce(body)
	from, was, have := inForce(base)
	if is == was && had == have {
		return
	}
	f := playbook.New("diff-template", name, "", takeBase)
	switch {
	case !have:
		return // a fine-tune that brought its own template
	case !had:
		f.Subject, f.Message = from, "the base has a chat template and the body has none: chat requests fail, or get another format than the training's"
	default:
		a, b := strings.Split(is, "\n"), strings.Split(was, "\n")
		line := 0
		for line < len(a) && line < len(b) && a[line] == b[line] {
			line++
		}
		f.Message = fmt.Sprintf("the chat template differs from line %d on (%d lines, the base's has %d): prompts become other tokens", line+1, len(a), len(b))
		c.note(name, fmt.Sprintf("differs from line %d on", line+1))
	}
	c.add(f)
}

func inForce(s side) (name, text string, ok bool) {
	if data, ok := s["chat_template.jinja"]; ok {
		return "chat_template.jinja", strings.TrimSuffix(string(data), "\n"), true
	}
	for _, name := range []string{"tokenizer_config.json", "chat_template.json"} {
		if !json.Valid(s[name]) { // it limits the depth, which gjson does not
			continue
		}
		if v := gjson.GetBytes(s[name], "chat_template"); v.Exists() && v.Type != gjson.Null {
			text := v.Str
			if v.IsArray() { // [{"name": "default", "template": …}, …]
				for _, t := range v.Array() {
					if text == "" || t.Get("name").Str == "default" {
						text = t.Get("template").Str
					}
				}
			}
			return name, strings.TrimSuffix(text, "\n"), true
		}
	}
	return "chat_template.jinja", "", false
}

// generation compares generation_config.json. Which ids end a generation changes when a server stops; the sampling
// settings are only listed.
func (c *comparison) generation(body, base []byte) {
	const name = "generation_config.json"
	switch {
	case base == nil || !json.Valid(base):
		return
	case body == nil:
		c.add(playbook.New("diff-generation", name, "the base has the file and the body does not: a server falls back to its own sampling, and may not stop at every end token", takeBase))
		return
	case !json.Valid(body):
		return
	}
	a, b := ends(body), ends(base)
	if !slices.Equal(a, b) {
		c.note(name, fmt.Sprintf("eos_token_id is %v (base %v)", a, b))
		c.add(playbook.New("diff-generation", name+": eos_token_id", fmt.Sprintf("generation ends at %v, the base's at %v", a, b), takeBase))
	}
	for _, change := range differences(gjson.ParseBytes(body), gjson.ParseBytes(base), "") {
		if change.key != "eos_token_id" && change.key != "transformers_version" {
			c.note(name, change.String())
		}
	}
}

func ends(data []byte) []string {
	out := []string{}
	v := gjson.GetBytes(data, "eos_token_id")
	for _, id := range v.Array() {
		if id.Type == gjson.Number {
			out = append(out, id.Raw)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// difference is a key whose value differs; "" for a side that lacks it.
type difference struct{ key, is, was string }

func (d difference) String() string {
	switch {
	case d.is == "":
		return fmt.Sprintf("%s is gone (base %s)", d.key, clip(d.was))
	case d.was == "":
		return fmt.Sprintf("%s is added (%s)", d.key, clip(d.is))
	}
	return fmt.Sprintf("%s is %s (base %s)", d.key, clip(d.is), clip(d.was))
}

// differences lists the keys of two objects that differ, in order of name. null counts as absent; numbers are compared as
// numbers.
func differences(is, was gjson.Result, at string) []difference {
	a, b := is.Map(), was.Map()
	names := map[string]bool{}
	for k := range a {
		names[k] = true
	}
	for k := range b {
		names[k] = true
	}
	var order []string
	for k := range names {
		order = append(order, k)
	}
	slices.Sort(order)
	var out []difference
	for _, k := range order {
		x, y := spelled(a[k]), spelled(b[k])
		if x == y {
			continue
		}
		out = append(out, difference{at + k, x, y})
	}
	return out
}

func spelled(v gjson.Result) string {
	if !v.Exists() || v.Type == gjson.Null {
		return ""
	}
	if s, ok := plainJSON([]byte(v.Raw)); ok {
		return s
	}
	return v.Raw
}

func clip(s string) string {
	const most = 80
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
