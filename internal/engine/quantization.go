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
	MethodKey string // where the server takes the method from: Key, unless there are two blocks
	Unread    bool   // the server takes the method from the block and then does not find it again
	Method    string // quant_method as the server comes to understand it
	Written   string // quant_method as it stands in the file
	Signed    string // modelopt's quant_algo, which decided Method instead of what is written; "" when it did not
	Format    string // the top level's format
	PlainHead bool   // "dynamic" names the head with -: and so the drafter's layers are built unquantized
	Groups    []Group
	Ignore    []string
	KV        *KVScheme // nil without kv_cache_scheme
	Transform bool      // a transform_config with groups: what it does to weights is not simulated
	ModelOpt  *ModelOpt // the arguments of a modelopt method, nil for others and where they cannot be read
	Broken    bool      // modelopt: the server stops when it reads the block, so nothing is resolved

	targets  []target
	compiled map[string]*pattern
}

// Group is one of config_groups.
type Group struct {
	Name    string
	Format  string // its own; see Own
	Own     bool   // the group has a format, be it empty or no text: the top level's is not asked then
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

// CompressedTensors is the quant_method that Bind understands beside those of modelopt.
const CompressedTensors = "compressed-tensors"

// ReadQuantization reads the quantization block of a folder that has no hf_quant_config.json; see ReadQuantizationFiles.
func ReadQuantization(config []byte) (*Quantization, []Problem, error) {
	return ReadQuantizationFiles(config, nil)
}

// ReadQuantizationFiles finds and reads the quantization block of a folder: that of config.json, or, where config.json has
// no quantization_config at its top level, the whole of hf_quant_config.json (modelopt 0.29 and before; empty when there
// is no such file). It returns nil when there is none, or when it is null. For another method than compressed-tensors and
// modelopt's only Key and Method are filled. err is for JSON that cannot be read at all.
func ReadQuantizationFiles(config, modelopt []byte) (*Quantization, []Problem, error) {
	if !json.Valid(config) {
		return nil, nil, fmt.Errorf("config.json is not valid JSON")
	}
	root := gjson.ParseBytes(config)
	q := &Quantization{compiled: map[string]*pattern{}}
	block, method := q.locate(root)
	if len(modelopt) > 0 && null(root.Get("quantization_config")) {
		if !json.Valid(modelopt) {
			return nil, nil, fmt.Errorf("%s is not valid JSON", FileModelOpt)
		}
		if file := gjson.ParseBytes(modelopt); !null(file) {
			q.Key, q.MethodKey, q.Unread = FileModelOpt, FileModelOpt, false
			block, method = file, file
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
	r.method(method)
	switch {
	case q.Method == CompressedTensors:
		r.block(block)
	case q.IsModelOpt():
		q.PlainHead = q.Method != ModelOptFP4 && q.Key == "quantization_config" && plainHead(block.Get("dynamic"))
		r.modelopt(block, modelopt)
	}
	return q, r.problems, nil
}

// IsModelOpt says whether the server reads the block with one of its modelopt classes.
func (q *Quantization) IsModelOpt() bool {
	switch q.Method {
	case ModelOptFP8, ModelOptFP4, ModelOptMX, ModelOptMixed:
		return true
	}
	return false
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
	if v := block.Get("ignore"); v.Exists() && null(v) {
		r.refuse(".ignore", "null is no list: the server walks through it and stops; write [] or leave the key out")
	}
	q.Ignore = r.names(".ignore", block.Get("ignore"))
	q.PlainHead = q.Key == "quantization_config" && plainHead(block.Get("dynamic"))
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
	r.sparsity(block.Get("sparsity_config"))
	r.transform(block.Get("transform_config"))
	for _, e := range q.Ignore {
		r.compile(e)
	}
}

// readGroup is one pass of from_config and _quantization_scheme_map_from_config.
func (r *reader) readGroup(name string, v gjson.Result) {
	where := ".config_groups." + name
	own := v.Get("format")
	g := Group{Name: name, Format: text(own), Own: !null(own)}
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
		// what is empty is as good as none for activations, and a refusal for weights
		if a := v.Get(key); !falsy(a) || key == "weights" {
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
	format := r.q.format(&g)
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
	case falsy(v.Get("symmetric")):
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

// plainHead is Qwen3_5MultiTokenPredictor's reading of GPTQ's list of exceptions (qwen3_5_mtp.py), which it asks of every
// dialect.
func plainHead(dynamic gjson.Result) bool {
	found := false
	if dynamic.IsObject() {
		dynamic.ForEach(func(k, _ gjson.Result) bool {
			found = found || strings.HasPrefix(k.String(), "-:") && strings.Contains(k.String(), "mtp")
			return true
		})
	}
	return found
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
	if g.Own {
		return g.Format
	}
	return q.Format
}
