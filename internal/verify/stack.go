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
	j.tokenizerClass(name, gjson.GetBytes(data, "tokenizer_class").Str)
	j.nestedRope()
	if j.quant != nil && j.quant.IsModelOpt() && j.m.Head.Present > 0 && !j.engine.Has(engine.PlainFC) {
		since, source := engine.Since(engine.PlainFC)
		j.add(playbook.New("engine-too-old", j.engine.String(),
			fmt.Sprintf("before vllm %s (%s; reported for Qwen3-Next and Qwen3.5) the exclusions of a modelopt checkpoint do not reach the drafter, which stops at the first shape of an unquantized head", since, source),
			"serve with vllm "+since+" or later, or without speculation").As(playbook.Warning))
	}
	if j.quant != nil && j.quant.Method == engine.ModelOptMixed && j.engine.Version == (engine.Version{Major: 0, Minor: 25}) {
		j.add(playbook.New("modelopt-since", j.engine.String(),
			"builds of 2026-06-29 to 2026-07-08 give modules that quantized_layers does not list the algorithm of their neighbours, and whether 0.25.0 is one of them is not established",
			"serve with 0.24, or with 0.26 or later").As(playbook.Warning))
	}
	return nil
}

// tokenizerClass: transformers 5 writes a name that version 4 does not have (Q28).
func (j *judge) tokenizerClass(file, class string) {
	if !strings.HasPrefix(class, "TokenizersBackend") {
		return
	}
	message := fmt.Sprintf("tokenizer_class is %q, a name of transformers 5: an image with transformers 4 stops at it (\"does not exist or is not currently imported\")", class)
	severity := playbook.Warning
	switch {
	case j.engine.Has(engine.Transformers4):
		message += fmt.Sprintf("; that of %s has transformers 4", j.engine)
		severity = playbook.Error
	case j.engine.Has(engine.Transformers5):
		message += fmt.Sprintf("; that of %s has transformers 5, other tools may not", j.engine)
	}
	j.add(playbook.New("tokenizer-class", file, message, "take the class from the base model's file; do not append Fast to it").As(severity))
}

// nestedRope: transformers 4 reads rope_theta beside rope_parameters, and takes 10000 where it finds none (Q29). Package
// model tells of two places that differ.
func (j *judge) nestedRope() {
	if !j.engine.Has(engine.Transformers4) {
		return
	}
	for _, place := range []string{"text_config.", ""} {
		theta := gjson.GetBytes(j.config, place+"rope_parameters.rope_theta")
		if theta.Type != gjson.Number || gjson.GetBytes(j.config, place+"rope_theta").Exists() {
			continue
		}
		j.add(playbook.New("rope-moved", "config.json: "+place+"rope_theta",
			fmt.Sprintf("only rope_parameters has it (%s), and transformers 4, which %s comes with, looks beside it and takes 10000 where it finds nothing", theta.Raw, j.engine),
			fmt.Sprintf("write \"rope_theta\": %s beside rope_parameters as well", theta.Raw)).As(playbook.Warning))
		return
	}
}
