package model

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"seatsmith/internal/playbook"
)

// layerLists are keys that hold one entry per layer, as a list or as a string of letters. Sources: transformers
// (layer_types, mlp_layer_types), vLLM 017e9f4448 models/mimo_v2.py (hybrid_layer_pattern, moe_layer_freq),
// nemotron_h.py (hybrid_override_pattern), deepseek_v2.py (index_topk_pattern), minimax_text_01.py (attn_type_list).
var layerLists = []string{
	"layer_types", "mlp_layer_types", "hybrid_layer_pattern", "moe_layer_freq", "hybrid_override_pattern",
	"index_topk_pattern", "indexer_types", "attn_type_list",
}

// judgeLayerLists compares the length of lists that go layer by layer with the number of layers. A list cut short is what
// an exporter leaves that saved the body alone or dropped layers (stepfun's Step-3.7-Flash-NVFP4, whose lists end at layer
// 45 while three layers of a head are promised). Some savers count the layers of the head in and some do not; readers that
// check the length refuse the one or the other.
func (m *Model) judgeLayerLists() []playbook.Finding {
	place, n, heads := m.Config.TextPlace(), m.Config.Layers, m.Config.HeadLayers
	var out []playbook.Finding
	for _, key := range layerLists {
		v := gjson.GetBytes(m.Config.Raw, place+key)
		var got int64
		switch {
		case v.IsArray():
			got = int64(len(v.Array()))
		case v.Type == gjson.String:
			got = int64(len(strings.ReplaceAll(v.Str, "|", "")))
		default:
			continue
		}
		subject := configFile + ": " + place + key
		switch {
		case got == n:
		case heads > 0 && got == n+heads:
			out = append(out, playbook.New("layer-list", subject,
				fmt.Sprintf("%d entries: %d layers and %d of the head; transformers wants one for each of num_hidden_layers, and servers differ", got, n, heads),
				fmt.Sprintf("keep the list as the publisher of the base has it; if readers refuse it, cut it to %d entries", n)).As(playbook.Warning))
		case got < n:
			out = append(out, playbook.New("layer-list", subject,
				fmt.Sprintf("the list is cut short: %d entries for the %d layers of num_hidden_layers", got, n),
				"copy the list from the configuration of the base model"))
		default:
			out = append(out, playbook.New("layer-list", subject,
				fmt.Sprintf("%d entries for the %d layers of num_hidden_layers and %d of the head", got, n, heads),
				"copy the list, or num_hidden_layers, from the configuration of the base model"))
		}
	}
	return out
}
