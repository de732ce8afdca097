package model

import (
	"bytes"
	"encoding/json"
	"encoding/json/jsontext"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/tidwall/gjson"

	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
)

// configFile is the name every message cites.
const configFile = "config.json"

// maxConfigBytes bounds what is read of a configuration. The longest real ones carry an ignore list with three names per
// expert and layer: some 8 MB for 60 layers of 512 experts.
const maxConfigBytes = 64 << 20

// Config is config.json, with what every command asks of it already read.
//
// Sizes that a family has no use for are 0. Every size is positive and small enough that products of four of them fit an
// int64: a configuration that says otherwise is refused when it is read, before anything is allocated for it.
type Config struct {
	Raw            []byte // the file
	Architecture   string // architectures[0]
	ModelType      string // top level
	TextModelType  string // text_config.model_type (or ModelType of a flat config)
	Hidden         int64
	Layers         int64
	LayerTypes     []string // "linear_attention" | "full_attention", one per layer
	Vocab          int64
	HeadLayers     int64 // what the family's key promises (text_config.mtp_num_hidden_layers or its kin), 0 when absent
	HeadLayersSet  bool  // the key is there
	TieEmbeddings  bool  // tie_word_embeddings of text_config, else of the top level, else false
	AttnOutputGate bool
	Vision         bool            // vision_config present
	Quantization   json.RawMessage // quantization_config, nil when absent

	Nested         bool  // the language model's keys stand in text_config
	Intermediate   int64 // width of the dense MLP
	Heads          int64 // query heads of full attention
	KVHeads        int64
	HeadDim        int64
	AttentionBias  bool  // q, k, v and o have biases
	QKVBias        bool  // q, k and v have; the key that vLLM asks for, which transformers does not know
	LinearKeyHeads int64 // gated delta net
	LinearValHeads int64
	LinearKeyDim   int64 // per head
	LinearValDim   int64 // per head
	ConvKernel     int64

	Experts            int64 // routed experts per layer
	ExpertsPerToken    int64
	ExpertIntermediate int64 // width of one routed expert
	SharedIntermediate int64 // width of the shared expert

	Tower *VisionTower // the sizes of vision_config, for a family that builds the tower

	denseLayers []int64 // layers of a mixture that have one MLP all the same
	mlpBias     bool    // gate, up and down have biases
	biasesRead  bool    // the server's class builds the biases that attention_bias promises

	latent  latentSizes
	routing routing
	mxfp4   bool // experts are stored as MXFP4

	tied   map[string]bool   // tie_word_embeddings as it stands, by place ("text_config", "")
	dtypes map[string]string // dtype fields as they stand, by full field name
}

// VisionTower is vision_config: what the shapes of the vision tower follow from.
type VisionTower struct {
	Depth        int64
	Hidden       int64
	Intermediate int64
	Out          int64 // out_hidden_size, the width it hands to the language model
	Positions    int64 // num_position_embeddings
	InChannels   int64
	Patch        int64 // patch_size
	TemporalPtch int64 // temporal_patch_size
	Merge        int64 // spatial_merge_size
	Deepstack    int64 // length of deepstack_visual_indexes
}

// Largest values that are believed. The largest published models of any family stay a factor of four or more below each.
const (
	maxLayers     = 1024
	maxHeadLayers = 64
	maxHidden     = 1 << 18
	maxWidth      = 1 << 20
	maxVocab      = 1 << 24
	maxHeads      = 1 << 12
	maxHeadDim    = 1 << 13
	maxExperts    = 1 << 13
	maxSmall      = 64 // kernel, patch and merge sizes
)

// KeyDim is the width of the queries (and of the keys) of a gated delta net: heads times head size.
func (c *Config) KeyDim() int64 { return c.LinearKeyHeads * c.LinearKeyDim }

// ValueDim is the width of its values.
func (c *Config) ValueDim() int64 { return c.LinearValHeads * c.LinearValDim }

// ConvDim is the number of channels of its convolution, and the rows of in_proj_qkv: queries, keys, values.
func (c *Config) ConvDim() int64 { return 2*c.KeyDim() + c.ValueDim() }

// TextPlace is where the language model's keys stand: "text_config." or "" in a flat configuration.
func (c *Config) TextPlace() string {
	if c.Nested {
		return "text_config."
	}
	return ""
}

// ConfigError says what is wrong in a config.json, one line per field.
type ConfigError struct {
	File  string
	Lines []string // "text_config.hidden_size: want a positive integer, got …"
}

func (e *ConfigError) Error() string {
	return e.File + ": " + strings.Join(e.Lines, "; "+e.File+": ")
}

// Findings is the same as findings of rule config-invalid, for a caller that collects judgements.
func (e *ConfigError) Findings() []playbook.Finding {
	var out []playbook.Finding
	for _, line := range e.Lines {
		field, message, ok := strings.Cut(line, ": ")
		subject := e.File + ": " + field
		if !ok {
			subject, message = e.File, line
		}
		out = append(out, playbook.New("config-invalid", subject, message, "copy the value from the configuration of the base model"))
	}
	return out
}

// ParseConfig reads the text of a config.json. It refuses text that is not one JSON object (a key that stands twice
// included: Python keeps the last, others the first) and fields of the wrong type or of a size nobody can mean; the error
// is a *ConfigError that names every such field. For an architecture that this package does not know, only the fields
// common to all are read, and a size in an unfamiliar form stays 0.
func ParseConfig(data []byte) (*Config, error) {
	if err := checkJSON(data); err != nil {
		return nil, &ConfigError{File: configFile, Lines: []string{err.Error()}}
	}
	root := gjson.ParseBytes(data)
	top := newFields(root, "")
	c := &Config{Raw: data, tied: map[string]bool{}, dtypes: map[string]string{}}
	c.Architecture = top.first("architectures")
	c.ModelType = top.text("model_type")

	text := top
	if nested := top.object("text_config"); nested.Exists() {
		c.Nested = true
		text = top.child("text_config", nested)
	}
	c.TextModelType = text.text("model_type")

	vision := top.object("vision_config")
	c.Vision = vision.Exists()
	if q := top.object("quantization_config"); q.Exists() {
		c.Quantization = json.RawMessage(q.Raw)
	}

	c.tie(top, "")
	c.dtype(top)
	if c.Nested {
		c.tie(text, "text_config")
		c.dtype(text)
	}
	if c.Vision {
		c.dtype(top.child("vision_config", vision))
	}
	if tied, ok := c.tied["text_config"]; ok {
		c.TieEmbeddings = tied
	} else {
		c.TieEmbeddings = c.tied[""]
	}

	if f := familyOf(c.Architecture); f != nil {
		head := f.head(c, "")
		c.HeadLayers, c.HeadLayersSet = readPromise(text, head.promise)
		f.read(c, text)
		if c.Vision && buildsVision(c) {
			c.Tower = readTower(top.child("vision_config", vision))
		}
	} else {
		c.readUnknown(text)
	}
	if lines := top.problems(); len(lines) > 0 {
		return nil, &ConfigError{File: configFile, Lines: lines}
	}
	return c, nil
}

// checkJSON accepts exactly one JSON object in UTF-8 without duplicate keys.
func checkJSON(data []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	if kind := dec.PeekKind(); kind != '{' {
		if _, err := dec.ReadToken(); err != nil {
			return fmt.Errorf("not JSON: %w", err)
		}
		return fmt.Errorf("want a JSON object")
	}
	for first := true; first || dec.StackDepth() > 0; first = false {
		if _, err := dec.ReadToken(); err != nil {
			return fmt.Errorf("not JSON: %w", err)
		}
		if dec.StackDepth() > maxConfigDepth {
			return fmt.Errorf("nested deeper than %d levels at byte %d", maxConfigDepth, dec.InputOffset())
		}
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return fmt.Errorf("not JSON: something follows the object at byte %d", dec.InputOffset())
	}
	return nil
}

func (c *Config) tie(f *fields, place string) {
	if f.has("tie_word_embeddings") {
		c.tied[place] = f.boolean("tie_word_embeddings", false)
	}
}

// dtype collects both spellings; transformers 5 writes dtype, older ones torch_dtype.
func (c *Config) dtype(f *fields) {
	for _, key := range []string{"dtype", "torch_dtype"} {
		if f.has(key) {
			c.dtypes[f.at+key] = strings.TrimPrefix(f.text(key), "torch.")
		}
	}
}

// readUnknown takes what it can of a configuration in an unknown form, and complains about nothing.
func (c *Config) readUnknown(f *fields) {
	quiet := newFields(f.root, f.at)
	c.Hidden, _ = quiet.count("hidden_size", maxHidden)
	c.Layers, _ = quiet.count("num_hidden_layers", maxLayers)
	c.Vocab, _ = quiet.count("vocab_size", maxVocab)
}

// maxConfigDepth is how deep a config.json may nest; real ones have five levels. Indenting a deeper one would make a small
// file a huge one.
const maxConfigDepth = 64

// loadConfig reads dir/config.json.
func loadConfig(dir string) (*Config, error) {
	data, err := safetensors.ReadRegular(filepath.Join(dir, configFile), maxConfigBytes)
	if err != nil {
		return nil, err
	}
	return ParseConfig(data)
}
