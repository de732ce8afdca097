package prompt

import (
	"fmt"
	"path/filepath"
	"time"

	"seatsmith/internal/prompt/ordered"
	"seatsmith/internal/prompt/template"
	"seatsmith/internal/prompt/token"
)

// Prompter is a checkpoint's chat templates and tokenizer.
type Prompter struct {
	Sources Sources
	Tokens  *token.Tokenizer
	Special []ordered.Member // bos_token, eos_token … as the template sees them
	Now     time.Time        // the clock of strftime_now: fixed, so that equal rows give equal prompts
	parsed  map[string]parsed
}

type parsed struct {
	t   *template.Template
	err error
}

// specialKeys are the variables that transformers passes from the tokenizer: those that are set.
var specialKeys = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "additional_special_tokens"}

// Open reads chat_template.jinja (or .json), tokenizer_config.json, special_tokens_map.json and tokenizer.json of a folder. An
// error is a file that cannot be read or understood; a template that cannot be parsed fails each render instead.
func Open(dir string, now time.Time) (*Prompter, error) {
	p := &Prompter{Now: now, parsed: map[string]parsed{}}
	raw, err := readFile(filepath.Join(dir, "tokenizer_config.json"), maxConfig)
	if err != nil {
		return nil, err
	}
	var config ordered.Value
	if raw != nil {
		if config, err = ordered.Decode(raw); err != nil {
			return nil, fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	if p.Sources, err = readSources(dir, config); err != nil {
		return nil, err
	}
	for _, s := range p.Sources.List {
		t, err := template.Parse(s.Text)
		p.parsed[s.Text] = parsed{t, err}
	}
	var legacy ordered.Value
	if data, err := readFile(filepath.Join(dir, "special_tokens_map.json"), maxConfig); err != nil {
		return nil, err
	} else if data != nil {
		if legacy, err = ordered.Decode(data); err != nil {
			return nil, fmt.Errorf("special_tokens_map.json: %w", err)
		}
	}
	for _, key := range specialKeys {
		v, ok := config.Get(key)
		if !ok {
			v, _ = legacy.Get(key)
		}
		if v = contentOf(v); !v.IsNull() {
			p.Special = append(p.Special, ordered.Member{Key: key, Value: v})
		}
	}
	data, err := readFile(filepath.Join(dir, "tokenizer.json"), maxTokenizer)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return nil, fmt.Errorf("%s has no tokenizer.json: without it a prompt has no tokens; copy the base's", dir)
	}
	if p.Tokens, err = token.Load(data, raw); err != nil {
		return nil, err
	}
	return p, nil
}

// contentOf is the text of a special token, which may be an object with its content, or a list of them.
func contentOf(v ordered.Value) ordered.Value {
	switch {
	case v.IsObject():
		c, _ := v.Get("content")
		return c
	case v.IsArray():
		items := make([]ordered.Value, v.Len())
		for i, item := range v.Items() {
			items[i] = contentOf(item)
		}
		return ordered.NewArray(items)
	}
	return v
}

// Options say how a row is rendered.
type Options struct {
	Generate bool             // end with the assistant's opening, as a request does
	Vars     []ordered.Member // enable_thinking, preserve_thinking, documents …; a row's own come after and win
	Limits   template.Limits
}

// Vars are the variables that a template sees for a row, in the way of apply_chat_template.
func (p *Prompter) Vars(row Row, o Options) []ordered.Member {
	tools := ordered.Value{}
	if len(row.Tools) > 0 {
		tools = ordered.NewArray(row.Tools)
	}
	vars := []ordered.Member{
		{Key: "messages", Value: ordered.NewArray(row.Messages)},
		{Key: "tools", Value: tools},
		{Key: "documents", Value: ordered.Value{}},
		{Key: "add_generation_prompt", Value: ordered.NewBool(o.Generate)},
	}
	vars = append(vars, p.Special...)
	vars = append(vars, o.Vars...)
	vars = append(vars, row.Vars...)
	return ordered.NewObject(vars...).Members()
}

// Render gives the text of a row. The error is of package template, or says that there is no template.
func (p *Prompter) Render(row Row, o Options) (template.Output, Source, error) {
	src, err := p.Sources.Pick(len(row.Tools) > 0)
	if err != nil {
		return template.Output{}, src, err
	}
	t := p.parsed[src.Text]
	if t.err != nil {
		return template.Output{}, src, fmt.Errorf("%s: %w", src.From, t.err)
	}
	out, err := t.t.Render(template.Input{Vars: p.Vars(row, o), Now: p.Now, Limits: o.Limits})
	return out, src, err
}
