package diff

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"seatsmith/internal/playbook"
)

// vocabulary is what a tokenizer.json makes of text, by the tokenizers library's file format: model.vocab is {"token": id},
// or for Unigram a list of [token, score] in the order of ids; added_tokens are objects.
type vocabulary struct {
	ids   map[string]int64
	added map[string]string // content -> the flags that decide how it is found
	rules map[string]string // the parts that cut text, plainly spelled
}

func readVocabulary(data []byte) (v vocabulary, ok bool) {
	if !json.Valid(data) {
		return v, false
	}
	root := gjson.ParseBytes(data)
	v = vocabulary{ids: map[string]int64{}, added: map[string]string{}, rules: map[string]string{}}
	vocab := root.Get("model.vocab")
	n := int64(0)
	vocab.ForEach(func(key, value gjson.Result) bool {
		if vocab.IsArray() {
			v.ids[value.Get("0").Str] = n
			n++
		} else {
			v.ids[key.Str] = value.Int()
		}
		return true
	})
	root.Get("added_tokens").ForEach(func(_, t gjson.Result) bool {
		content := t.Get("content").Str
		v.ids[content] = t.Get("id").Int()
		var flags []string
		for _, flag := range []string{"special", "lstrip", "rstrip", "single_word", "normalized"} {
			if t.Get(flag).Bool() {
				flags = append(flags, flag)
			}
		}
		v.added[content] = strings.Join(flags, " ")
		return true
	})
	for _, part := range []string{"normalizer", "pre_tokenizer", "post_processor", "decoder", "model.type", "model.byte_fallback", "model.ignore_merges", "model.unk_token"} {
		if s := spelled(root.Get(part)); s != "false" { // absent is false
			v.rules[part] = s
		}
	}
	v.rules["model.merges"] = mergeList(root.Get("model.merges"))
	return v, len(v.ids) > 0
}

// mergeList spells merges alike in both forms that the library writes: "a b" and ["a", "b"].
func mergeList(list gjson.Result) string {
	var b strings.Builder
	list.ForEach(func(_, m gjson.Result) bool {
		if m.IsArray() {
			b.WriteString(m.Get("0").Str + " " + m.Get("1").Str + "\n")
		} else {
			b.WriteString(m.Str + "\n")
		}
		return true
	})
	return b.String()
}

// tokenizer compares what text becomes. An id that moved is an error: the embedding still has the old token's row there.
func (c *comparison) tokenizer(body, base []byte) {
	const name = "tokenizer.json"
	switch c.r.Files[name].State {
	case "identical", "equal", "added":
		return
	case "missing":
		c.add(playbook.New("diff-tokenizer", name, "the base has the file and the body does not", takeBase).As(playbook.Warning))
		return
	case "":
		c.r.NotChecked = append(c.r.NotChecked, "the tokenizer: neither folder has a tokenizer.json")
		return
	}
	is, ok := readVocabulary(body)
	was, ok2 := readVocabulary(base)
	if !ok || !ok2 {
		c.r.NotChecked = append(c.r.NotChecked, "the tokenizer: tokenizer.json differs and holds no vocabulary that can be read")
		c.add(playbook.New("diff-tokenizer", name, "the file differs from the base's and holds no vocabulary that can be read", takeBase).As(playbook.Warning))
		return
	}
	var moved, gone, extra, flags []string
	for token, id := range was.ids {
		now, ok := is.ids[token]
		switch {
		case !ok:
			gone = append(gone, fmt.Sprintf("%q (%d)", token, id))
		case now != id:
			moved = append(moved, fmt.Sprintf("%q is %d (base %d)", token, now, id))
		}
	}
	for token, id := range is.ids {
		if _, ok := was.ids[token]; !ok {
			extra = append(extra, fmt.Sprintf("%q (%d)", token, id))
		}
	}
	for token, f := range was.added {
		if now, ok := is.added[token]; ok && now != f {
			flags = append(flags, fmt.Sprintf("%q is %q (base %q)", token, now, f))
		} else if _, plain := is.ids[token]; !ok && plain {
			flags = append(flags, fmt.Sprintf("%q is no added token any more", token))
		}
	}
	for _, list := range [][]string{moved, gone, extra, flags} {
		sortTexts(list)
	}
	say := func(list []string, text, fix string, severity playbook.Severity) {
		if len(list) == 0 {
			return
		}
		message := fmt.Sprintf(text, count(len(list), "token"), some(list))
		c.note(name, message)
		c.add(playbook.New("diff-tokenizer", name, message, fix).As(severity))
	}
	say(moved, "%s other ids than in the base, and the rows of the embedding are looked up by id: %s", takeBase, playbook.Error)
	say(gone, "%s of the base are gone: %s", takeBase, playbook.Warning)
	say(extra, "%s are new: %s", "make sure that the embedding was trained for them", playbook.Warning)
	say(flags, "%s found in text in another way: %s", takeBase, playbook.Warning)
	var parts []string
	for part, text := range was.rules {
		if is.rules[part] != text {
			parts = append(parts, part)
		}
	}
	for part := range is.rules {
		if _, ok := was.rules[part]; !ok {
			parts = append(parts, part)
		}
	}
	if sortTexts(parts); len(parts) > 0 {
		message := "text is cut into other tokens: " + strings.Join(parts, ", ") + " differ from the base's"
		c.note(name, message)
		c.add(playbook.New("diff-tokenizer", name, message, takeBase).As(playbook.Warning))
	}
	if f := c.r.Files[name]; len(f.Changes) == 0 {
		f.State = "equal" // truncation, padding, and the order of keys
		c.r.Files[name] = f
	}
}

// tokenizerConfig compares the fields that decide which class reads the tokenizer and which tokens it adds.
func (c *comparison) tokenizerConfig(body, base side) {
	const name = "tokenizer_config.json"
	if state := c.r.Files[name].State; state == "missing" {
		c.add(playbook.New("diff-tokenizer", name, "the base has the file and the body does not", takeBase).As(playbook.Warning))
		return
	} else if state != "changed" || !json.Valid(body[name]) || !json.Valid(base[name]) {
		return
	}
	is, was := gjson.ParseBytes(body[name]), gjson.ParseBytes(base[name])
	var matter []string
	for _, d := range differences(is, was, "") {
		switch d.key {
		case "chat_template": // compared by itself
			continue
		case "tokenizer_class":
			a, b := strings.TrimSuffix(is.Get(d.key).Str, "Fast"), strings.TrimSuffix(was.Get(d.key).Str, "Fast")
			if a != b {
				matter = append(matter, d.String())
			}
		case "bos_token", "eos_token", "unk_token":
			if a, b := content(is.Get(d.key)), content(was.Get(d.key)); a != b {
				matter = append(matter, d.String())
			}
		case "add_bos_token", "add_eos_token", "add_prefix_space":
			if is.Get(d.key).Bool() != was.Get(d.key).Bool() {
				matter = append(matter, d.String())
			}
		case "added_tokens_decoder":
			if d.is == "" && body["tokenizer.json"] == nil {
				matter = append(matter, "added_tokens_decoder is gone")
			}
			c.note(name, "added_tokens_decoder differs")
			continue
		}
		c.note(name, d.String())
	}
	if len(matter) > 0 {
		c.add(playbook.New("diff-tokenizer", name, strings.Join(matter, ", "), takeBase).As(playbook.Warning))
	}
}

// content is a special token's text in either form, "…" or {"content": "…"}.
func content(v gjson.Result) string {
	if v.IsObject() {
		return v.Get("content").Str
	}
	return v.Str
}
