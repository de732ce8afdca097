package engine

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// ServeArgs is a "vllm serve" command, read as the server's own parser reads it.
type ServeArgs struct {
	Env    map[string]string   // assignments in front of the command
	Model  string              // "" when it is not given
	Values map[string][]string // by the flag's long name; "true" and "false" for flags without a value

	ServedNames       []string
	TensorParallel    int64   // 1 when not given
	MaxModelLen       int64   // 0: the model's own; -1: what fits
	GPUMemory         float64 // share of the whole card
	GPUMemoryGiven    bool
	KVCacheDtype      string // "auto" when not given
	Quantization      string // "" when not given: detected
	PrefixCaching     *bool  // nil: the server decides (Engine.Has(HybridPrefixCaching))
	LanguageModelOnly bool
	AutoToolChoice    bool
	ToolParser        string
	ReasoningParser   string
	LinearBackend     string
	MambaCacheMode    string
	Spec              *Speculative // nil without --speculative-config
}

// ArgKind says what is wrong with an argument.
type ArgKind string

const (
	ArgUnknown    ArgKind = "unknown"    // no version has such a flag
	ArgGone       ArgKind = "gone"       // earlier versions had it
	ArgLater      ArgKind = "later"      // later versions have it
	ArgUnsure     ArgKind = "unsure"     // it came or went at about this version
	ArgDeprecated ArgKind = "deprecated" //
	ArgValue      ArgKind = "value"      // the value is missing or is none that the flag takes
	ArgTwice      ArgKind = "twice"      // the last one counts
	ArgTogether   ArgKind = "together"   // it needs another argument, or goes ill with it
	ArgSpec       ArgKind = "spec"       // inside --speculative-config
)

// ArgProblem is something about an argument. Serious: the server stops before it loads anything.
type ArgProblem struct {
	Flag    string
	Kind    ArgKind
	Message string
	Fix     string
	Serious bool
}

// ParseServe reads a command line: "vllm serve MODEL --flag …", with assignments in front, or the arguments alone (what a
// container image with an entry point is given). The error is for text that no shell splits; everything else is a problem.
func ParseServe(e Engine, line string) (*ServeArgs, []ArgProblem, error) {
	words, err := Words(line)
	if err != nil {
		return nil, nil, fmt.Errorf("serve command: %w", err)
	}
	args, problems := ParseServeWords(e, words)
	return args, problems, nil
}

// ParseServeWords is ParseServe for a command that is split already, such as a list in a compose file.
func ParseServeWords(e Engine, words []string) (*ServeArgs, []ArgProblem) {
	p := serveParser{e: e, a: &ServeArgs{Env: map[string]string{}, Values: map[string][]string{}, TensorParallel: 1, KVCacheDtype: "auto"}}
	for len(words) > 0 && assignment(words[0]) {
		k, v, _ := strings.Cut(words[0], "=")
		p.a.Env[k] = v
		words = words[1:]
	}
	p.run(command(words))
	p.typed()
	p.together()
	return p.a, p.problems
}

func assignment(w string) bool {
	k, _, ok := strings.Cut(w, "=")
	return ok && k != "" && strings.IndexFunc(k, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}

// command drops what starts the server: "vllm serve", a path to it, "python -m vllm.entrypoints.openai.api_server", or
// what runs one of those.
func command(words []string) []string {
	for i, w := range words {
		if strings.HasPrefix(w, "-") && w != "-m" {
			break
		}
		if w == "serve" && i > 0 || strings.HasPrefix(w, "vllm.entrypoints.") {
			return words[i+1:]
		}
	}
	return words
}

type serveParser struct {
	e        Engine
	a        *ServeArgs
	problems []ArgProblem
}

func (p *serveParser) say(flag string, kind ArgKind, serious bool, fix, format string, args ...any) {
	p.problems = append(p.problems, ArgProblem{Flag: flag, Kind: kind, Message: fmt.Sprintf(format, args...), Fix: fix, Serious: serious})
}

func (p *serveParser) run(words []string) {
	for i := 0; i < len(words); {
		w := words[i]
		i++
		if len(w) < 2 || w[0] != '-' || number(w) {
			if p.a.Model != "" {
				p.say(w, ArgUnknown, true, "take it out, or put it behind its flag", "a second word that is no flag: the server takes one model, and stops (\"unrecognized arguments\")")
				continue
			}
			p.a.Model = w
			continue
		}
		name, value, joined := strings.Cut(w, "=")
		name, negated, path := p.spelling(name)
		f, there := p.e.Flag(name)
		if f == nil && strings.HasPrefix(name, "-O") && !strings.HasPrefix(name, "--") {
			continue // -O3: the level of the compiler
		}
		if f == nil {
			f, there = p.short(name)
		}
		if !p.known(name, f, there) {
			for i < len(words) && !joined && (len(words[i]) == 0 || words[i][0] != '-' || number(words[i])) && p.a.Model != "" {
				i++ // its values, as far as anyone can tell
			}
			continue
		}
		if path != "" { // --json-arg.key value
			if !joined && i < len(words) {
				value = words[i]
				i++
			}
			p.a.Values[f.Name] = append(p.a.Values[f.Name], path+"="+value)
			continue
		}
		var values []string
		switch {
		case f.Kind == BoolFlag || f.Kind == SwitchFlag:
			if joined {
				p.say(f.Name, ArgValue, true, "write "+f.Name+" or "+no(f.Name), "it takes no value, found %q (\"ignored explicit argument\")", value)
			}
			values = []string{strconv.FormatBool(!negated)}
		case joined:
			values = []string{value}
		default:
			for i < len(words) && (words[i] == "" || words[i][0] != '-' || number(words[i]) || words[i] == "-") {
				values = append(values, words[i])
				i++
				if f.Kind != ListFlag {
					break
				}
			}
			if len(values) == 0 && f.Kind != MaybeFlag {
				p.say(f.Name, ArgValue, true, "give it a value", "its value is missing (\"expected one argument\")")
				continue
			}
		}
		if old := p.a.Values[f.Name]; len(old) > 0 && f.Kind != AppendFlag && old[0] != strings.Join(values, " ") {
			p.say(f.Name, ArgTwice, false, "keep one", "it stands twice, %q and %q; the last one counts", strings.Join(old, " "), strings.Join(values, " "))
		}
		if f.Kind == AppendFlag {
			values = append(p.a.Values[f.Name], values...)
		}
		p.a.Values[f.Name] = values
		p.check(f, values)
	}
}

func no(name string) string { return "--no-" + strings.TrimPrefix(name, "--") }

// number says whether argparse takes a word for a negative number, and so for a value.
func number(w string) bool {
	_, err := strconv.ParseFloat(w, 64)
	return err == nil
}

// spelling undoes what the parser forgives: underscores, --no-, and a dotted path into a JSON argument.
func (p *serveParser) spelling(name string) (flag string, negated bool, path string) {
	name = dashes(name)
	if at, rest, ok := strings.Cut(name, "."); ok && strings.HasPrefix(name, "--") {
		name, path = at, strings.ReplaceAll(rest, "-", "_")
	}
	if rest, ok := strings.CutPrefix(name, "--no-"); ok {
		if f, _ := p.e.Flag("--" + rest); f != nil && f.Kind == BoolFlag {
			return f.Name, true, path
		}
	}
	return name, false, path
}

// short finds the one flag that starts with an abbreviation, which argparse allows.
func (p *serveParser) short(name string) (*Flag, Presence) {
	var found *Flag
	if len(name) < 4 || !strings.HasPrefix(name, "--") {
		return nil, Absent
	}
	for _, f := range p.e.Flags() {
		if strings.HasPrefix(f.Name, name) {
			if found != nil {
				return nil, Absent
			}
			found = &f
		}
	}
	if found == nil {
		return nil, Absent
	}
	p.say(name, ArgDeprecated, false, "write "+found.Name, "an abbreviation of %s; it breaks as soon as another flag starts so", found.Name)
	return found, Present
}

// known tells of a flag that this version may not have; false: nothing is known of it.
func (p *serveParser) known(name string, f *Flag, there Presence) bool {
	switch there {
	case Absent:
		fix := "take it out"
		if near := p.e.Nearest(name); near != "" {
			fix = "did you mean " + near + "?"
		}
		p.say(name, ArgUnknown, true, fix, "%s has no such flag, and stops (\"unrecognized arguments\")", p.e)
		return false
	case Gone:
		p.say(f.Name, ArgGone, true, goneFix(f), "vllm had this flag before %s; %s stops at it (\"unrecognized arguments\")", f.until, p.e)
	case Later:
		p.say(f.Name, ArgLater, true, "serve with a later version, or take it out", "vllm has this flag since %s; %s stops at it (\"unrecognized arguments\")", later(f), p.e)
	case Unsure:
		p.say(f.Name, ArgUnsure, false, "try \"vllm serve --help=all\" on the very build", "this flag came or went at about this version; whether %s has it is not known", p.e)
	}
	if f.Deprecated && there == Present {
		p.say(f.Name, ArgDeprecated, false, "see what replaces it in the server's help", "it is deprecated")
	}
	return true
}

func later(f *Flag) Version {
	if f.maybe != (Version{}) {
		return f.maybe
	}
	return f.since
}

// replaced are flags that are gone, with what took their place.
var replaced = map[string]string{
	"--disable-log-requests":    "requests are not logged unless --enable-log-requests is given",
	"--enable-reasoning":        "--reasoning-parser alone is enough",
	"--guided-decoding-backend": "--structured-outputs-config '{\"backend\": …}'",
	"--rope-scaling":            "--hf-overrides '{\"rope_parameters\": …}'",
	"--rope-theta":              "--hf-overrides '{\"rope_parameters\": …}'",
	"--task":                    "--runner",
	"--cuda-graph-sizes":        "--cudagraph-capture-sizes",
	"--max-seq-len-to-capture":  "--max-cudagraph-capture-size",
	"--swap-space":              "nothing swaps to the host any more",
	"--use-v2-block-manager":    "there is one only",
	"--num-scheduler-steps":     "scheduling is asynchronous by itself",
	"--device":                  "the platform is detected",
}

func goneFix(f *Flag) string {
	if r, ok := replaced[f.Name]; ok {
		return "take it out: " + r
	}
	return "take it out"
}

// check holds values against the flag's kind.
func (p *serveParser) check(f *Flag, values []string) {
	for _, v := range values {
		want := ""
		switch f.Kind {
		case IntFlag:
			if !wholeNumber(f.Name, v) {
				want = "a whole number"
			}
		case FloatFlag:
			if _, err := strconv.ParseFloat(v, 64); err != nil {
				want = "a number"
			}
		case JSONFlag:
			if !json.Valid([]byte(v)) && f.Name != "--hf-overrides" {
				want = "JSON"
			}
		case ChoiceFlag, ListFlag:
			if len(f.Choices) > 0 && !has(f.Choices, v) {
				want = "one of " + strings.Join(f.Choices, ", ")
			}
		}
		if want != "" && v != "None" {
			p.say(f.Name, ArgValue, true, "", "%q: want %s", v, want)
		}
	}
}

func has(list []string, v string) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// wholeNumber is int(), or human_readable_int (utils/argparse_utils.py) for the flags that take it: 32k is 32000, 32K 32768.
func wholeNumber(flag, v string) bool {
	_, ok := readInt(flag, v)
	return ok
}

var humanFlags = []string{"--max-model-len", "--max-num-batched-tokens", "--max-num-scheduled-tokens", "--kv-cache-memory-bytes", "--safetensors-prefetch-block-size"}

func readInt(flag, v string) (int64, bool) {
	v = strings.TrimSpace(v)
	if n, err := strconv.ParseInt(strings.ReplaceAll(v, "_", ""), 10, 64); err == nil {
		return n, true
	}
	if !has(humanFlags, flag) || v == "" {
		return 0, false
	}
	if flag == "--max-model-len" && strings.EqualFold(v, "auto") {
		return -1, true
	}
	scale := map[byte]float64{'k': 1e3, 'm': 1e6, 'g': 1e9, 't': 1e12, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40}[v[len(v)-1]]
	n, err := strconv.ParseFloat(v[:len(v)-1], 64)
	if scale == 0 || err != nil || n < 0 || n*scale > 1e18 || strings.Contains(v, ".") && v[len(v)-1] < 'a' {
		return 0, false
	}
	return int64(n * scale), true
}
