package model

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"seatsmith/internal/playbook"
)

// tokenIDs are the token ids that a file names, of which only those beyond the vocabulary are kept: the 250,000 ids of a
// tokenizer cost one comparison each.
type tokenIDs struct {
	vocab  int64 // rows of the embedding, 0 when that is not known
	beyond map[int64]bool
	top    tokenID
	fields bool // the ids are those of fields such as eos_token_id, not of a tokenizer
}

type tokenID struct {
	id    int64
	field string
	text  string // raw JSON of the token's text, "" when only the id is known
}

func (t *tokenIDs) add(field string, id int64, text gjson.Result) {
	if t.vocab <= 0 || id < t.vocab {
		return
	}
	if t.beyond == nil {
		t.beyond = map[int64]bool{}
	}
	t.beyond[id] = true
	if id > t.top.id {
		t.top = tokenID{id, field, text.Raw}
	}
}

// finding says that ids lie beyond the vocabulary; beyond is false when none does.
func (t *tokenIDs) finding(subject string) (f playbook.Finding, beyond bool) {
	n := len(t.beyond)
	if n == 0 {
		return playbook.Finding{}, false
	}
	if t.top.field != "" {
		subject += ": " + t.top.field
	}
	count := "1 token id is"
	if n > 1 {
		count = fmt.Sprintf("%d token ids are", n)
	}
	largest := strconv.FormatInt(t.top.id, 10)
	if t.top.text != "" {
		largest += " (" + clip(t.top.text) + ")"
	}
	fix := "take the tokenizer that belongs to these weights, or resize embed_tokens and lm_head and set vocab_size"
	if t.fields {
		fix = "take the ids from the configuration of the base model"
	}
	return playbook.New("tokenizer-vocab", subject,
		fmt.Sprintf("%s not below vocab_size %d, the largest is %s: the embedding has no row for it", count, t.vocab, largest), fix), true
}

// clip shortens a token's text for a message.
func clip(raw string) string {
	const most = 60
	if len(raw) > most {
		return strings.ToValidUTF8(raw[:most], "") + "…"
	}
	return raw
}

// wholeNumber reads a token id: a whole number from 0 up.
func wholeNumber(v gjson.Result) (int64, bool) {
	if v.Type != gjson.Number || v.Num < 0 || v.Num > 1<<53 || v.Num != math.Trunc(v.Num) {
		return 0, false
	}
	return int64(v.Num), true
}

// addObject adds the ids of {"token": id}; the first value that is no id is a fault.
func (t *tokenIDs) addObject(field string, v gjson.Result) (faults []fault) {
	v.ForEach(func(key, value gjson.Result) bool {
		id, ok := wholeNumber(value)
		if !ok {
			faults = []fault{{field: field, message: fmt.Sprintf("the id of %s is %s: want a whole number", clip(key.Raw), shown(value)), fix: fetchAgain}}
			return false
		}
		t.add(field, id, key)
		return true
	})
	return faults
}

// readTokenizer looks through a tokenizer.json as the tokenizers library lays it out: added_tokens is a list of objects
// with id and content; model.vocab is {"token": id}, or for Unigram a list of [token, score] in the order of ids.
func readTokenizer(root gjson.Result, ids *tokenIDs) (faults []fault) {
	bad := func(field, message string) {
		faults = append(faults, fault{field: field, message: message, fix: fetchAgain})
	}
	var added, model, vocab gjson.Result
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "added_tokens":
			added = value
		case "model":
			model = value
		}
		return true
	})
	if !model.IsObject() {
		what := "got " + shown(model)
		if !model.Exists() {
			what = "the field is missing"
		}
		bad("model", "want an object, "+what+": no reader finds a tokenizer in this file")
		return faults
	}
	if added.Exists() && added.Type != gjson.Null && !added.IsArray() {
		bad("added_tokens", "want a list, got "+shown(added))
	}
	at := 0
	added.ForEach(func(_, value gjson.Result) bool {
		id, ok := wholeNumber(value.Get("id"))
		if !ok {
			bad(fmt.Sprintf("added_tokens[%d].id", at), "want a whole number, got "+shown(value.Get("id")))
			return false
		}
		ids.add("added_tokens", id, value.Get("content"))
		at++
		return true
	})
	model.ForEach(func(key, value gjson.Result) bool {
		if key.Str == "vocab" {
			vocab = value
		}
		return true
	})
	switch {
	case vocab.IsObject():
		faults = append(faults, ids.addObject("model.vocab", vocab)...)
	case vocab.IsArray():
		n := int64(0)
		vocab.ForEach(func(_, value gjson.Result) bool {
			ids.add("model.vocab", n, value.Get("0"))
			n++
			return true
		})
	case !vocab.Exists():
		bad("model.vocab", "the field is missing: the tokenizer knows no token")
	default:
		bad("model.vocab", "want an object or a list, got "+shown(vocab))
	}
	return faults
}

// addFields adds the ids of fields such as eos_token_id (a number or a list) and image_token_id. A negative number is how
// some configurations say none.
func (t *tokenIDs) addFields(at string, object gjson.Result) (faults []fault) {
	t.fields = true
	object.ForEach(func(key, value gjson.Result) bool {
		if !strings.HasSuffix(key.Str, "_token_id") {
			return true
		}
		field := at + key.Str
		list := []gjson.Result{value}
		if value.IsArray() {
			list = value.Array()
		}
		for _, v := range list {
			switch id, ok := wholeNumber(v); {
			case ok:
				t.add(field, id, gjson.Result{})
			case v.Type == gjson.Null && !value.IsArray(), v.Type == gjson.Number && v.Num < 0 && v.Num == math.Trunc(v.Num):
			default:
				faults = append(faults, fault{field: field, message: "want a token id, got " + shown(v), fix: fetchAgain})
			}
		}
		return true
	})
	return faults
}

// judgeTokenIDs looks at the token ids that config.json itself names, at the top and for the language model.
func (m *Model) judgeTokenIDs() []playbook.Finding {
	root := gjson.ParseBytes(m.Config.Raw)
	var out []playbook.Finding
	places := map[string]gjson.Result{"": root}
	order := []string{""}
	if m.Config.Nested {
		order = append(order, m.Config.TextPlace())
		places[m.Config.TextPlace()] = root.Get("text_config")
	}
	for _, at := range order {
		ids := &tokenIDs{vocab: m.Config.Vocab}
		for _, x := range ids.addFields(at, places[at]) {
			out = append(out, playbook.New("config-invalid", configFile+": "+x.field, x.message, "copy the value from the configuration of the base model"))
		}
		if f, beyond := ids.finding(configFile); beyond {
			out = append(out, f)
		}
	}
	return out
}
