package diff

import (
	"slices"

	"github.com/tidwall/gjson"

	"seatsmith/internal/playbook"
)

func sortTexts(list []string) { slices.Sort(list) }

// asides are keys that say how and by what a file was written, or that another rule judges: they change no answer.
var asides = []string{
	"transformers_version", "_name_or_path", "dtype", "torch_dtype", "use_cache", "architectures", "model_type", "auto_map", "initializer_range",
	"quantization_config", "text_config", "vision_config", "mtp_num_hidden_layers", "num_nextn_predict_layers", "unsloth_version", "unsloth_fixed",
	"image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id", "router_aux_loss_coef", "output_router_logits", "return_dict",
}

// config compares the language model's keys of config.json, wherever they stand: in text_config or at the top. A value
// that both have and that differs makes another model of the same weights; a key that only one side has is listed, since
// versions of transformers write more or fewer defaults, with one exception: a rope base that is gone.
func (c *comparison) config(body, base []byte) {
	const name = "config.json"
	if body == nil || base == nil {
		return
	}
	is, was := textOf(body), textOf(base)
	var matter []string
	for _, d := range differences(is, was, "") {
		if slices.Contains(asides, d.key) {
			continue
		}
		switch {
		case d.key == "rope_theta", d.key == "rope_scaling", d.key == "rope_parameters", d.key == "partial_rotary_factor":
			continue
		case d.key == "eos_token_id" || d.key == "bos_token_id" || d.key == "pad_token_id":
			c.note(name, d.String())
			continue
		}
		c.note(name, d.String())
		if d.is != "" && d.was != "" {
			matter = append(matter, d.String())
		}
	}
	a, b := rope(is), rope(was)
	for _, key := range rotary {
		x, y := a[key], b[key]
		if x == y || x == "" && key == "partial_rotary_factor" { // the family's default may go unsaid
			continue
		}
		d := difference{key, x, y}
		c.note(name, d.String())
		matter = append(matter, d.String())
	}
	if len(matter) > 0 {
		c.add(playbook.New("diff-config", name, "the same weights make another model: "+some(matter), "take the values from the base, unless the training changed them on purpose"))
	}
}

// textOf is the language model's part of a configuration, with tie_word_embeddings from the top where it lacks it.
func textOf(data []byte) gjson.Result {
	root := gjson.ParseBytes(data)
	if t := root.Get("text_config"); t.IsObject() {
		return t
	}
	return root
}

// rope gathers the rotary settings from their old places (rope_theta, rope_scaling) and their new one (rope_parameters,
// transformers 5).
func rope(c gjson.Result) map[string]string {
	out := map[string]string{}
	for _, place := range []gjson.Result{c, c.Get("rope_scaling"), c.Get("rope_parameters")} {
		for _, key := range append(slices.Clone(rotary), "type") {
			v := spelled(place.Get(key))
			if key == "type" {
				key = "rope_type"
			}
			if v != "" && v != `"default"` {
				out[key] = v
			}
		}
	}
	return out
}

// rotary are the settings that turn positions into angles.
var rotary = []string{"rope_theta", "partial_rotary_factor", "rope_type", "factor", "original_max_position_embeddings"}
