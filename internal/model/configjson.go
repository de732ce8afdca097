package model

import (
	"bytes"
	"encoding/json/jsontext"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// ConfigJSON is the body's config.json with the head's promise of the view, under the key of the body's family
// (text_config.mtp_num_hidden_layers, num_nextn_predict_layers …). Nothing else changes: where the promise is right already, the bytes are the file's own; otherwise the order of keys and the
// spelling of every value (1e-06, 10000.0) are kept and only white space is made even (two spaces, one entry per line).
func (m *Model) ConfigJSON() []byte {
	c := m.Config
	if !m.grafted || m.head.promise == "" || m.promise() == strconv.FormatInt(c.HeadLayers, 10) {
		return bytes.Clone(c.Raw)
	}
	changed, err := sjson.SetRawBytes(bytes.Clone(c.Raw), c.TextPlace()+m.head.promise, []byte(strconv.FormatInt(c.HeadLayers, 10)))
	if err != nil {
		return bytes.Clone(c.Raw) // an object without duplicate keys was read from these bytes, so this cannot happen
	}
	v := jsontext.Value(changed)
	if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
		return changed
	}
	if bytes.HasSuffix(c.Raw, []byte("\n")) {
		v = append(v, '\n')
	}
	return v
}

// promise is the value of the key in the file, as it is spelled; "" when it is absent.
func (m *Model) promise() string {
	return gjson.GetBytes(m.Config.Raw, m.Config.TextPlace()+m.head.promise).Raw
}
