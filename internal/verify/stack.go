package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/tidwall/gjson"

	"seatsmith/internal/engine"
	"seatsmith/internal/playbook"
)

// stack judges what decides whether a server's other parts take the folder: the class of its tokenizer, and builds that
// read a right configuration wrongly.
func (j *judge) stack() error {
	const name = "tokenizer_config.json"
	data, err := readCompanion(filepath.Join(j.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if class := gjson.GetBytes(data, "tokenizer_class").Str; strings.HasPrefix(class, "TokenizersBackend") {
		j.add(playbook.New("tokenizer-class", name,
			fmt.Sprintf("tokenizer_class is %q, a name of transformers 5: an image with transformers 4 stops at it (\"does not exist or is not currently imported\")", class),
			"take the class from the base model's file"))
	}
	if j.quant != nil && j.quant.Method == engine.ModelOptMixed && j.engine.Version == (engine.Version{Major: 0, Minor: 25}) {
		j.add(playbook.New("modelopt-since", j.engine.String(),
			"builds of 2026-06-29 to 2026-07-08 give modules that quantized_layers does not list the algorithm of their neighbours, and whether 0.25.0 is one of them is not established",
			"serve with 0.24, or with 0.26 or later").As(playbook.Warning))
	}
	return nil
}
