package token

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Added is an added token.
type Added struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only where no word character touches it
	LStrip     bool   `json:"lstrip"`      // takes the white space before it
	RStrip     bool   `json:"rstrip"`      // and behind it
	Normalized bool   `json:"normalized"`  // is looked for in the normalized text
	Special    bool   `json:"special"`     // is left out when decoding for people
}

// file is tokenizer.json as far as it is read.
type file struct {
	Added         []Added         `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         struct {
		Type         *string           `json:"type"`
		Dropout      *float64          `json:"dropout"`
		Prefix       *string           `json:"continuing_subword_prefix"`
		Suffix       *string           `json:"end_of_word_suffix"`
		ByteFallback bool              `json:"byte_fallback"`
		IgnoreMerges bool              `json:"ignore_merges"`
		Vocab        json.RawMessage   `json:"vocab"`
		Merges       []json.RawMessage `json:"merges"`
	} `json:"model"`
}

// part is one component: all fields that any of the known types has.
type part struct {
	Type          string `json:"type"`
	Normalizers   []part `json:"normalizers"`
	PreTokenizers []part `json:"pretokenizers"`
	Decoders      []part `json:"decoders"`
	Processors    []part `json:"processors"`
	Pattern       struct {
		Regex  *string
		String *string
	} `json:"pattern"`
	Behavior       string `json:"behavior"`
	Invert         bool   `json:"invert"`
	AddPrefixSpace *bool  `json:"add_prefix_space"`
	UseRegex       *bool  `json:"use_regex"`
	Individual     bool   `json:"individual_digits"`
	Single         []struct {
		SpecialToken *struct{ ID string }
		Sequence     *struct{ ID string }
	} `json:"single"`
	SpecialTokens map[string]struct {
		IDs []int32 `json:"ids"`
	} `json:"special_tokens"`
}

func readPart(raw json.RawMessage, what string) (*part, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	p := &part{}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("tokenizer.json: reading %s: %w", what, err)
	}
	return p, nil
}

// Load reads a tokenizer. config is tokenizer_config.json or nil: added tokens that only its added_tokens_decoder lists are
// added, as transformers does. An error names the part of the file that is not understood.
func Load(tokenizer, config []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(tokenizer, &f); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	t := &Tokenizer{ignoreMerges: f.Model.IgnoreMerges}
	if err := f.checkModel(); err != nil {
		return nil, err
	}
	if err := t.readNormalizer(f.Normalizer); err != nil {
		return nil, err
	}
	if err := t.readPreTokenizer(f.PreTokenizer); err != nil {
		return nil, err
	}
	if err := t.readDecoder(f.Decoder); err != nil {
		return nil, err
	}
	if err := t.readVocab(f.Model.Vocab); err != nil {
		return nil, err
	}
	if err := t.readMerges(f.Model.Merges); err != nil {
		return nil, err
	}
	added, err := withConfig(f.Added, config)
	if err != nil {
		return nil, err
	}
	if err := t.addTokens(added); err != nil {
		return nil, err
	}
	return t, t.readPost(f.PostProcessor)
}

func (f *file) checkModel() error {
	m := &f.Model
	kind := "none"
	switch {
	case m.Type != nil:
		kind = *m.Type
	case len(m.Merges) > 0: // older files do not say
		kind = "BPE"
	}
	switch {
	case kind != "BPE":
		return fmt.Errorf("tokenizer.json: model.type is %s; only byte-level BPE is read", kind)
	case m.ByteFallback:
		return fmt.Errorf("tokenizer.json: model.byte_fallback is true: this is a SentencePiece model, not byte-level BPE")
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("tokenizer.json: model.dropout is %v: the same text would give other tokens each time", *m.Dropout)
	case m.Prefix != nil && *m.Prefix != "":
		return fmt.Errorf("tokenizer.json: model.continuing_subword_prefix is %q; only byte-level BPE is read", *m.Prefix)
	case m.Suffix != nil && *m.Suffix != "":
		return fmt.Errorf("tokenizer.json: model.end_of_word_suffix is %q; only byte-level BPE is read", *m.Suffix)
	}
	return nil
}

func (t *Tokenizer) readNormalizer(raw json.RawMessage) error {
	p, err := readPart(raw, "normalizer")
	if p == nil || err != nil {
		return err
	}
	for _, n := range flatten(*p, func(p part) []part { return p.Normalizers }) {
		if n.Type != "NFC" {
			return fmt.Errorf("tokenizer.json: normalizer %s is not built; only NFC is", n.Type)
		}
		t.nfc = true
	}
	return nil
}

func flatten(p part, inside func(part) []part) []part {
	if p.Type != "Sequence" {
		return []part{p}
	}
	var out []part
	for _, q := range inside(p) {
		out = append(out, flatten(q, inside)...)
	}
	return out
}

func (t *Tokenizer) readPreTokenizer(raw json.RawMessage) error {
	p, err := readPart(raw, "pre_tokenizer")
	if err != nil {
		return err
	}
	if p == nil {
		return fmt.Errorf("tokenizer.json: no pre_tokenizer; byte-level BPE needs ByteLevel")
	}
	bytes := false
	for _, q := range flatten(*p, func(p part) []part { return p.PreTokenizers }) {
		if bytes {
			return fmt.Errorf("tokenizer.json: pre_tokenizer %s after ByteLevel is not built", q.Type)
		}
		switch q.Type {
		case "Split":
			s, err := newSplitter(q)
			if err != nil {
				return err
			}
			t.splits = append(t.splits, s)
		case "Digits":
			t.splits = append(t.splits, digitsSplitter(q.Individual))
		case "ByteLevel":
			bytes = true
			t.prefixSpace = q.AddPrefixSpace == nil || *q.AddPrefixSpace
			t.gpt2 = q.UseRegex == nil || *q.UseRegex
		default:
			return fmt.Errorf("tokenizer.json: pre_tokenizer %s is not built; Split, Digits and ByteLevel are", q.Type)
		}
	}
	if !bytes {
		return fmt.Errorf("tokenizer.json: pre_tokenizer has no ByteLevel: only byte-level BPE is read")
	}
	return nil
}

func (t *Tokenizer) readDecoder(raw json.RawMessage) error {
	p, err := readPart(raw, "decoder")
	if p == nil || err != nil {
		return err
	}
	for _, q := range flatten(*p, func(p part) []part { return p.Decoders }) {
		if q.Type != "ByteLevel" {
			return fmt.Errorf("tokenizer.json: decoder %s is not built; ByteLevel is", q.Type)
		}
	}
	return nil
}

func (t *Tokenizer) readPost(raw json.RawMessage) error {
	p, err := readPart(raw, "post_processor")
	if p == nil || err != nil {
		return err
	}
	for _, q := range flatten(*p, func(p part) []part { return p.Processors }) {
		switch q.Type {
		case "ByteLevel": // changes offsets, no ids
		case "TemplateProcessing":
			before := true
			for _, s := range q.Single {
				switch {
				case s.Sequence != nil:
					before = false
				case s.SpecialToken != nil:
					ids := q.SpecialTokens[s.SpecialToken.ID].IDs
					if len(ids) == 0 {
						return fmt.Errorf("tokenizer.json: post_processor names %q without an id", s.SpecialToken.ID)
					}
					if before {
						t.before = append(t.before, ids...)
					} else {
						t.after = append(t.after, ids...)
					}
				}
			}
		default:
			return fmt.Errorf("tokenizer.json: post_processor %s is not built; ByteLevel and TemplateProcessing are", q.Type)
		}
	}
	return nil
}

// withConfig adds the tokens that only tokenizer_config.json lists.
func withConfig(added []Added, config []byte) ([]Added, error) {
	if len(config) == 0 {
		return added, nil
	}
	var c struct {
		Decoder map[string]Added `json:"added_tokens_decoder"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: reading added_tokens_decoder: %w", err)
	}
	known := map[string]bool{}
	for _, a := range added {
		known[a.Content] = true
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.Decoder), func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	}) {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("tokenizer_config.json: added_tokens_decoder: %q is no token id", key)
		}
		a := c.Decoder[key]
		a.ID = int32(id)
		if !known[a.Content] {
			added = append(added, a)
		}
	}
	return added, nil
}
