package token

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Tokenizer is a loaded tokenizer.json.
type Tokenizer struct {
	vocab        map[string]int32 // by the spelling of the file
	raw          map[string]int32 // by bytes; only when whole words skip the merges
	spelling     map[int32]string
	text         map[int32]string // the bytes of each token, added tokens included
	bytes        [256]int32
	merges       pairs
	ignoreMerges bool
	nfc          bool
	prefixSpace  bool // ByteLevel puts a space before every piece that does not begin with one
	gpt2         bool // ByteLevel splits with GPT-2's expression
	splits       []splitter
	before       []int32
	after        []int32
	added        []Added
	addedByID    map[int32]Added
	early, late  matcher // added tokens of the raw and of the normalized text
}

// byteRune is GPT-2's byte-to-character table: printable bytes stand for themselves, the others for U+0100 and on.
var byteRune, runeByte = func() (to [256]rune, from map[rune]byte) {
	from = map[rune]byte{}
	n := rune(0)
	for i := range 256 {
		r := rune(i)
		if !(i >= 33 && i <= 126 || i >= 161 && i <= 172 || i >= 174) {
			r = 256 + n
			n++
		}
		to[i], from[r] = r, byte(i)
	}
	return to, from
}()

// toBytes spells a token's characters as bytes; a token with any other character stands for itself.
func toBytes(s string) string {
	var b strings.Builder
	for _, r := range s {
		c, ok := runeByte[r]
		if !ok {
			return s
		}
		b.WriteByte(c)
	}
	return b.String()
}

func (t *Tokenizer) readVocab(raw json.RawMessage) error {
	if err := json.Unmarshal(raw, &t.vocab); err != nil {
		return fmt.Errorf("tokenizer.json: reading model.vocab: %w", err)
	}
	t.spelling = make(map[int32]string, len(t.vocab))
	for s, id := range t.vocab {
		if id < 0 {
			return fmt.Errorf("tokenizer.json: model.vocab: %q has the id %d", s, id)
		}
		if other, twice := t.spelling[id]; twice {
			return fmt.Errorf("tokenizer.json: model.vocab: the id %d stands for both %q and %q", id, min(s, other), max(s, other))
		}
		t.spelling[id] = s
	}
	for i, r := range byteRune {
		id, ok := t.vocab[string(r)]
		if !ok {
			return fmt.Errorf("tokenizer.json: model.vocab lacks %q, the symbol of byte 0x%02x: text would lose it silently", string(r), i)
		}
		t.bytes[i] = id
	}
	t.text = make(map[int32]string, len(t.vocab))
	if t.ignoreMerges {
		t.raw = make(map[string]int32, len(t.vocab))
	}
	for s, id := range t.vocab {
		t.text[id] = toBytes(s)
		if t.ignoreMerges {
			t.raw[t.text[id]] = id
		}
	}
	return nil
}

// readMerges takes both spellings: "a b" and ["a", "b"].
func (t *Tokenizer) readMerges(list []json.RawMessage) error {
	t.merges = newPairs(len(list))
	for i, raw := range list {
		var a, b string
		var pair []string
		if len(raw) > 0 && raw[0] == '[' {
			if err := json.Unmarshal(raw, &pair); err != nil || len(pair) != 2 {
				return fmt.Errorf("tokenizer.json: model.merges[%d] is not a pair", i)
			}
			a, b = pair[0], pair[1]
		} else {
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return fmt.Errorf("tokenizer.json: model.merges[%d]: %w", i, err)
			}
			var ok bool
			if a, b, ok = strings.Cut(s, " "); !ok {
				return fmt.Errorf("tokenizer.json: model.merges[%d]: %q is not two tokens", i, s)
			}
		}
		left, ok1 := t.vocab[a]
		right, ok2 := t.vocab[b]
		joined, ok3 := t.vocab[a+b]
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("tokenizer.json: model.merges[%d]: %q and %q or their join are not in the vocabulary", i, a, b)
		}
		t.merges.set(left, right, int32(i), joined)
	}
	return nil
}

func (t *Tokenizer) addTokens(added []Added) error {
	t.addedByID = make(map[int32]Added, len(added))
	for i, a := range added {
		if a.Content == "" {
			continue
		}
		if a.ID < 0 {
			return fmt.Errorf("tokenizer.json: added_tokens[%d]: %q has the id %d", i, a.Content, a.ID)
		}
		// As in the library, the vocabulary's id stands when both have the token.
		if id, ok := t.vocab[a.Content]; ok {
			a.ID = id
		}
		if b, twice := t.addedByID[a.ID]; twice && b.Content != a.Content {
			return fmt.Errorf("tokenizer.json: added_tokens: the id %d stands for both %q and %q", a.ID, b.Content, a.Content)
		}
		t.addedByID[a.ID] = a
		t.text[a.ID] = toBytes(a.Content)
		t.added = append(t.added, a)
		if a.Normalized {
			b := a
			if t.nfc {
				b.Content = normalize(a.Content)
			}
			t.late.add(b)
		} else {
			t.early.add(a)
		}
	}
	return nil
}

// Added lists the added tokens in the file's order.
func (t *Tokenizer) Added() []Added { return slices.Clone(t.added) }

// Size is one more than the highest id.
func (t *Tokenizer) Size() int {
	most := int32(-1)
	for id := range t.spelling {
		most = max(most, id)
	}
	for id := range t.addedByID {
		most = max(most, id)
	}
	return int(most) + 1
}

// ID finds a token by its spelling: an added token, or one of the vocabulary as the file spells it.
func (t *Tokenizer) ID(token string) (int32, bool) {
	for _, a := range t.added {
		if a.Content == token {
			return a.ID, true
		}
	}
	id, ok := t.vocab[token]
	return id, ok
}

// Decode gives the text of ids. Bytes that are no UTF-8 become U+FFFD, one for each maximal part, as in the library; an
// unknown id is an error here (the library skips it silently).
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) (string, error) {
	var b []byte
	for i, id := range ids {
		text, ok := t.text[id]
		if !ok {
			return "", fmt.Errorf("no token has the id %d (position %d)", id, i)
		}
		if skipSpecial && t.addedByID[id].Special {
			continue
		}
		b = append(b, text...)
	}
	return lossy(b), nil
}

// lossy is Rust's String::from_utf8_lossy: a truncated sequence is replaced once, as far as it was valid.
func lossy(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	out := make([]byte, 0, len(b)+8)
	for len(b) > 0 {
		r, w := utf8.DecodeRune(b)
		if r != utf8.RuneError || w > 1 {
			out = append(out, b[:w]...)
			b = b[w:]
			continue
		}
		n := 1
		for n < len(b) && n < 4 && !utf8.FullRune(b[:n]) && partial(b[:n+1]) {
			n++
		}
		out = append(out, "\uFFFD"...)
		b = b[n:]
	}
	return string(out)
}

// partial says whether b could begin a valid sequence.
func partial(b []byte) bool { return !utf8.FullRune(b) }
