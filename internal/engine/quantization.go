package engine

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// Quantization is the quantization block of a config.json, read in the order of its keys (the order of the groups
// decides which of two matching targets wins).
type Quantization struct {
	Key       string // where it stands: "quantization_config", "compression_config", "text_config.quantization_config"
	Method    string // quant_method
	Format    string // the top level's format
	Groups    []Group
	Ignore    []string
	KV        *KVScheme // nil without kv_cache_scheme
	Transform bool      // a transform_config that is not empty: what it does to weights is not simulated

	targets  []target
	compiled map[string]*pattern
}

// Group is one of config_groups.
type Group struct {
	Name    string
	Format  string // its own, "" when it has none
	Weights *Args
	Input   *Args // nil: activations stay as they are
	Output  *Args
	Targets []string
	Skipped bool // attention only: left to the key/value cache
	bad     bool // refused while reading; resolves to nothing, the problem was told
}

// KVScheme is kv_cache_scheme.
type KVScheme struct{ Strategy string }

// target is one entry of the server's target map; a later group with the same target takes its place.
type target struct {
	text  string
	group int
}

// Problem is something in the block that the server refuses when it reads it. Serious is false where only some versions
// of the compressed-tensors package refuse.
type Problem struct {
	Where   string // "quantization_config.config_groups.group_0.weights"
	Message string
	Serious bool
	Group   string // name of the group that it is about, "" for the block as a whole
}

// CompressedTensors is the quant_method that Bind understands.
const CompressedTensors = "compressed-tensors"

// ReadQuantization finds and reads the quantization block of a config.json. It returns nil when there is none, or when
// it is null. For another method than compressed-tensors only Key and Method are filled. err is for JSON that cannot be
// read at all.
func ReadQuantization(config []byte) (*Quantization, []Problem, error) {
	if !json.Valid(config) {
		return nil, nil, fmt.Errorf("config.json is not valid JSON")
	}
	root := gjson.ParseBytes(config)
	q := &Quantization{compiled: map[string]*pattern{}}
	var block gjson.Result
	// model_arch_config_convertor.py: the top level first, both spellings, then text_config.
	for _, key := range []string{"quantization_config", "compression_config", "text_config.quantization_config", "text_config.compression_config"} {
		if block = root.Get(key); block.Exists() && block.Type != gjson.Null {
			q.Key = key
			break
		}
	}
	if q.Key == "" {
		return nil, nil, nil
	}
	r := reader{q: q}
	if !block.IsObject() {
		return q, []Problem{{Where: q.Key, Message: "want an object, found " + orNull(block), Serious: true}}, nil
	}
	if key := repeated(block.Raw); key != "" {
		r.refuse(key, "the key stands twice; the server takes the last, other readers the first")
	}
	q.Method = text(block.Get("quant_method"))
	if q.Method == CompressedTensors {
		r.block(block)
	}
	return q, r.problems, nil
}

// reader collects what the server would refuse.
type reader struct {
	q        *Quantization
	problems []Problem
	group    string // the group that is being read
}

func (r *reader) refuse(where, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.q.Key + where, fmt.Sprintf(format, args...), true, r.group})
}

func (r *reader) block(block gjson.Result) {
	q := r.q
	q.Format = text(block.Get("format"))
	q.Ignore = r.names(".ignore", block.Get("ignore"))
	groups := block.Get("config_groups")
	if groups.Exists() && !groups.IsObject() {
		r.refuse(".config_groups", "want an object, found %s", orNull(groups))
	}
	groups.ForEach(func(k, v gjson.Result) bool {
		r.group = k.String()
		r.readGroup(r.group, v)
		r.group = ""
		return true
	})
	for i, g := range q.Groups {
		for _, t := range g.Targets {
			if !g.Skipped {
				r.target(t, i)
			}
		}
	}
	r.cache(block.Get("kv_cache_scheme"))
	if t := block.Get("sparsity_config.targets"); len(t.Array()) > 0 {
		r.refuse(".sparsity_config", "targets are not empty: sparsity was removed, the server refuses the checkpoint")
	}
	if t := block.Get("transform_config"); t.IsObject() && len(t.Map()) > 0 {
		q.Transform = true
	}
	for _, e := range q.Ignore {
		r.compile(e)
	}
}

// readGroup is one pass of from_config and _quantization_scheme_map_from_config.
func (r *reader) readGroup(name string, v gjson.Result) {
	where := ".config_groups." + name
	g := Group{Name: name, Format: text(v.Get("format"))}
	if !v.Get("targets").IsArray() {
		r.refuse(where+".targets", "want a list, found %s", orNull(v.Get("targets")))
		g.bad = true
	}
	g.Targets = r.names(where+".targets", v.Get("targets"))
	if len(g.Targets) == 1 && strings.HasSuffix(g.Targets[0], "Attention") {
		g.Skipped = true // "Attention quant is coupled with KV-cache quantization in vLLM."
		r.q.Groups = append(r.q.Groups, g)
		return
	}
	read := func(key string) *Args {
		// an empty object is as good as none for activations, and a refusal for weights
		if a := v.Get(key); len(a.Map()) > 0 || a.Exists() && a.Type != gjson.Null && !a.IsObject() || key == "weights" {
			args, err := parseArgs(a)
			if err != nil {
				r.refuse(where+"."+key, "%v", err)
				g.bad = true
				return nil
			}
			for _, k := range args.Unknown {
				r.problems = append(r.problems, Problem{r.q.Key + where + "." + key, fmt.Sprintf("key %q is not one that compressed-tensors 0.18 knows, and it refuses unknown keys", k), false, r.group})
			}
			return args
		}
		return nil
	}
	g.Weights, g.Input, g.Output = read("weights"), read("input_activations"), read("output_activations")
	format := g.Format
	if format == "" {
		format = r.q.Format
	}
	if !g.bad && g.Input == nil && activationFormat(format) && g.Weights.Type != "float" {
		r.refuse(where, "format %q without input_activations needs float weights, not %s", format, g.Weights.Type)
		g.bad = true
	}
	r.q.Groups = append(r.q.Groups, g)
}

func (r *reader) target(text string, group int) {
	r.compile(text)
	for i := range r.q.targets {
		if r.q.targets[i].text == text {
			r.q.targets[i].group = group
			return
		}
	}
	r.q.targets = append(r.q.targets, target{text, group})
}

func (r *reader) compile(e string) {
	text, ok := strings.CutPrefix(e, "re:")
	if ok && r.q.compiled[text] == nil {
		p := compile(text)
		r.q.compiled[text] = &p
	}
}

// cache is validate_kv_cache_scheme.
func (r *reader) cache(v gjson.Result) {
	if !v.IsObject() {
		if v.Exists() && v.Type != gjson.Null {
			r.refuse(".kv_cache_scheme", "want an object or null, found %s", orNull(v))
		}
		return
	}
	r.q.KV = &KVScheme{Strategy: v.Get("strategy").String()}
	switch {
	case v.Get("type").String() != "float" || v.Get("num_bits").Num != 8:
		r.refuse(".kv_cache_scheme", "type %s, num_bits %s: only 8-bit float is supported", orNull(v.Get("type")), orNull(v.Get("num_bits")))
	case r.q.KV.Strategy != "tensor" && r.q.KV.Strategy != "attn_head":
		r.refuse(".kv_cache_scheme", "strategy %s: only tensor and attn_head are supported", orNull(v.Get("strategy")))
	case !v.Get("symmetric").Bool():
		r.refuse(".kv_cache_scheme", "symmetric %s: only symmetric scales are supported", orNull(v.Get("symmetric")))
	}
}

func (r *reader) names(where string, v gjson.Result) []string {
	if v.Exists() && v.Type != gjson.Null && !v.IsArray() {
		r.refuse(where, "want a list, found %s", orNull(v))
		return nil
	}
	var out []string
	for i, e := range v.Array() {
		if e.Type != gjson.String {
			r.refuse(fmt.Sprintf("%s[%d]", where, i), "want a name, found %s", orNull(e))
			continue
		}
		out = append(out, e.Str)
	}
	return out
}

func text(v gjson.Result) string {
	if v.Type == gjson.String {
		return v.Str
	}
	return ""
}

// activationFormat is is_activation_quantization_format.
func activationFormat(format string) bool {
	switch format {
	case "naive-quantized", "int-quantized", "float-quantized", "nvfp4-pack-quantized":
		return true
	}
	return false
}

// format is the group's own format, or the top level's.
func (q *Quantization) format(g *Group) string {
	if g.Format != "" {
		return g.Format
	}
	return q.Format
}
