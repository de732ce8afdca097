package model

import (
	"bytes"
	"encoding/json/jsontext"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// maxCompanionBytes bounds a companion that must be read as a whole. The largest known tokenizer.json, of a vocabulary of
// 262,144, has 33 MB.
const maxCompanionBytes = 64 << 20

// fault is what is wrong inside a companion.
type fault struct {
	field   string // where in the file, "" for all of it
	message string
	fix     string
	unread  bool // the file could not be read, so nobody knows what is in it
}

const fetchAgain = "copy it from the base model, or download it again"

func whole(message string) []fault { return []fault{{message: message, fix: fetchAgain}} }

// judgeContents looks into the companions of a known class: is each the file that its name promises (public report S01:
// a download leaves Git LFS pointers, web pages and halves behind), and does every token id have a row in the embedding?
func judgeContents(files []CompanionFile, c *Config) []playbook.Finding {
	if _, known := classOf(c.Architecture); !known {
		return nil
	}
	var out []playbook.Finding
	activeTemplate := true // that of tokenizer_config.json is used when there is no file
	for _, f := range files {
		activeTemplate = activeTemplate && f.Name != "chat_template.jinja"
	}
	for _, f := range files {
		subject := f.Name
		if f.Origin == Donor {
			subject = "donor " + f.Name
		}
		ids := &tokenIDs{vocab: c.Vocab}
		faults := lookInside(f, activeTemplate, ids)
		for _, x := range faults {
			at := subject
			if x.field != "" {
				at += ": " + x.field
			}
			if x.unread {
				out = append(out, playbook.New("file-unreadable", at, x.message, x.fix))
				continue
			}
			out = append(out, playbook.New("companion-broken", at, x.message, x.fix).As(weight(f.Name, c)))
		}
		if finding, beyond := ids.finding(subject); beyond {
			out = append(out, finding)
		}
	}
	return out
}

// weight is how bad it is that a file is broken: an error when a server reads it, a warning for what merely lies there.
func weight(name string, c *Config) playbook.Severity {
	lower := strings.ToLower(name)
	switch {
	case strings.HasSuffix(lower, "processor_config.json"):
		if buildsVision(c) {
			return playbook.Error
		}
		return playbook.Warning
	case filepath.Ext(lower) == ".jinja" && lower != "chat_template.jinja":
		return playbook.Warning
	case filepath.Ext(lower) != ".json", strings.HasPrefix(lower, "tokenizer"), strings.HasPrefix(lower, "vocab"), objects[lower]:
		return playbook.Error
	}
	return playbook.Warning
}

// objects are the JSON files that must hold an object.
var objects = map[string]bool{
	"tokenizer.json": true, "tokenizer_config.json": true, "generation_config.json": true, "special_tokens_map.json": true,
	"added_tokens.json": true, "vocab.json": true, "chat_template.json": true, "processor_config.json": true,
	"preprocessor_config.json": true, "video_preprocessor_config.json": true,
}

// lookInside reads one companion, says what is wrong with it, and adds the token ids that it names.
func lookInside(f CompanionFile, activeTemplate bool, ids *tokenIDs) []fault {
	lower := strings.ToLower(f.Name)
	for _, legal := range []string{"license", "licence", "notice"} {
		if strings.HasPrefix(lower, legal) {
			return nil
		}
	}
	ext := filepath.Ext(lower)
	text := ext == ".json" || ext == ".jinja"
	limit := int64(sniffLen)
	if text {
		limit = maxCompanionBytes + 1
	}
	data, size, err := readHead(f.Path, limit)
	switch {
	case err != nil:
		return []fault{{message: "the file cannot be read: " + err.Error(), fix: "check permissions and the disk, then try again", unread: true}}
	case size == 0:
		return whole("the file is empty")
	}
	if what, fix := unmask(data[:min(len(data), sniffLen)], size); what != "" {
		return []fault{{message: "this is " + what, fix: fix}}
	}
	switch {
	case text && size > maxCompanionBytes:
		return whole(fmt.Sprintf("the file has %d bytes, and none of its kind has more than %d", size, maxCompanionBytes))
	case ext == ".jinja":
		if wrong := templateFault(data); wrong != "" {
			return whole("this is no chat template: " + wrong)
		}
	case ext == ".json":
		return lookIntoJSON(lower, data, activeTemplate, ids)
	}
	return nil
}

func lookIntoJSON(name string, data []byte, activeTemplate bool, ids *tokenIDs) []fault {
	if wrong := jsonFault(data); wrong != "" {
		return whole(wrong)
	}
	root := gjson.ParseBytes(data)
	if objects[name] && !root.IsObject() {
		return whole("want a JSON object, got " + shown(root))
	}
	switch name {
	case "tokenizer.json":
		return readTokenizer(root, ids)
	case "vocab.json", "added_tokens.json":
		return ids.addObject("", root)
	case "tokenizer_config.json":
		return readTokenizerConfig(root, activeTemplate, ids)
	case "chat_template.json":
		return templateFaults("chat_template", root.Get("chat_template"), true)
	case "generation_config.json":
		return ids.addFields("", root)
	}
	return nil
}

// jsonFault says why a text is not one JSON value, "" when it is. Keys may stand twice: no reader of these files minds.
func jsonFault(data []byte) string {
	lenient := jsontext.AllowDuplicateNames(true)
	if jsontext.Value(data).IsValid(lenient) {
		return ""
	}
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return "not JSON: it begins with a byte order mark, which Python's reader refuses"
	}
	dec := jsontext.NewDecoder(bytes.NewReader(data), lenient)
	err := dec.SkipValue()
	switch {
	case err == nil:
		return fmt.Sprintf("not JSON: something follows the value at byte %d", dec.InputOffset())
	case err == io.EOF:
		return "not JSON: there is nothing but white space"
	case strings.Contains(err.Error(), io.ErrUnexpectedEOF.Error()):
		return fmt.Sprintf("not JSON: the text ends in the middle of a value, after %d bytes", len(data))
	}
	return "not JSON: " + strings.TrimPrefix(err.Error(), "jsontext: ")
}

// sniffLen is how much of a file unmask looks at; a Git LFS pointer is smaller by definition (git-lfs docs/spec.md).
const sniffLen = 1024

// unmask recognises what a failed download leaves under a companion's name; what is "" for anything else.
func unmask(head []byte, size int64) (what, fix string) {
	if bytes.HasPrefix(head, []byte("version https://git-lfs")) || bytes.HasPrefix(head, []byte("version https://hawser")) {
		what = fmt.Sprintf("a Git LFS pointer of %d bytes, not the file itself", size)
		for line := range bytes.Lines(head) {
			rest, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("size "))
			if n, err := strconv.ParseInt(string(rest), 10, 64); ok && err == nil {
				what = fmt.Sprintf("a Git LFS pointer of %d bytes; the real file has %d bytes", size, n)
			}
		}
		return what, "run git lfs pull in the repository, or copy the file again"
	}
	for _, m := range []struct{ mark, what string }{{"PK\x03\x04", "a zip archive"}, {"\x1f\x8b\x08", "a gzip archive"}} {
		if bytes.HasPrefix(head, []byte(m.mark)) {
			return m.what + ", not the file that the name promises", fetchAgain
		}
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	switch {
	case webPage.Match(text):
		return "a web page, not the file that the name promises", fetchAgain
	case serverError.Match(text):
		return "a server's error message, not the file that the name promises", fetchAgain
	}
	return "", ""
}

var (
	webPage     = regexp.MustCompile(`^(?i)<(!doctype|html|head|\?xml)`)
	serverError = regexp.MustCompile(`^\{\s*"(error|message|detail)"\s*:\s*["{]`)
)

// readHead reads at most limit bytes of a file and tells its size.
func readHead(path string, limit int64) (data []byte, size int64, err error) {
	f, size, err := safetensors.OpenRegular(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	data = make([]byte, min(size, limit))
	n, err := io.ReadFull(f, data)
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		err = nil // it shrank just now; what is left is judged
	}
	return data[:n], size, err
}

// templateFaults judges a chat_template value: a text, or a list of named ones.
func templateFaults(field string, v gjson.Result, required bool) []fault {
	bad := func(field, wrong string) []fault { return []fault{{field: field, message: wrong, fix: fetchAgain}} }
	switch {
	case !v.Exists() || v.Type == gjson.Null:
		if required {
			return bad(field, "the field is missing")
		}
		return nil
	case v.Type == gjson.String:
		if wrong := templateFault([]byte(v.Str)); wrong != "" {
			return bad(field, "this is no chat template: "+wrong)
		}
		return nil
	case !v.IsArray():
		return bad(field, "want a text or a list of named texts, got "+shown(v))
	}
	for i, one := range v.Array() {
		at := fmt.Sprintf("%s[%d].template", field, i)
		if t := one.Get("template"); t.Type != gjson.String {
			return bad(at, "want a text, got "+shown(t))
		} else if wrong := templateFault([]byte(t.Str)); wrong != "" {
			return bad(at, "this is no chat template: "+wrong)
		}
	}
	return nil
}

// readTokenizerConfig looks at the template, when it is the one that counts, and at the ids of the added tokens.
func readTokenizerConfig(root gjson.Result, activeTemplate bool, ids *tokenIDs) (faults []fault) {
	if activeTemplate {
		faults = templateFaults("chat_template", root.Get("chat_template"), false)
	}
	root.Get("added_tokens_decoder").ForEach(func(key, value gjson.Result) bool {
		if n, err := strconv.ParseInt(key.Str, 10, 64); err == nil {
			ids.add("added_tokens_decoder", n, value.Get("content"))
		}
		return true
	})
	return faults
}

func validText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }
