package token_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"seatsmith/internal/prompt/token"
)

func TestEveryTextGivesTheIDsOfTheTokenizersLibrary(t *testing.T) {
	goldens, _ := filepath.Glob("testdata/*.golden.jsonl")
	if len(goldens) != 7 {
		t.Fatalf("%d golden files", len(goldens))
	}
	for _, name := range goldens {
		t.Run(filepath.Base(name), func(t *testing.T) {
			model := name[:len(name)-len(".golden.jsonl")] + ".json"
			if filepath.Base(model) == "qwen35.json" {
				model = "../../../testdata/tiny/tokenizer.json"
			}
			tok := load(t, model)
			e := tok.NewEncoder()
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			n := 0
			for s := bufio.NewScanner(f); s.Scan(); n++ {
				var row struct {
					Text, Decoded, Plain string
					IDs                  []int32
				}
				if err := json.Unmarshal(s.Bytes(), &row); err != nil {
					t.Fatal(err)
				}
				for range 2 { // the second time from the cache
					ids, err := e.Encode(nil, row.Text)
					if err != nil || !slices.Equal(ids, row.IDs) {
						t.Errorf("row %d: %+q gives %v (%v), want %v", n, row.Text, ids, err, row.IDs)
					}
				}
				want := row.Text
				if row.Decoded != "" {
					want = row.Decoded
				}
				if got, err := tok.Decode(row.IDs, false); got != want || err != nil {
					t.Errorf("row %d decodes to %+q (%v), want %+q", n, got, err, want)
				}
				if row.Plain != "" {
					want = row.Plain
				}
				if got, err := tok.Decode(row.IDs, true); (got != want && row.Plain != "") || err != nil {
					t.Errorf("row %d decodes for people to %+q (%v), want %+q", n, got, err, want)
				}
			}
			if n < 40 {
				t.Errorf("only %d rows", n)
			}
		})
	}
}

func TestTheFixturesGoldenIDsAreEqual(t *testing.T) {
	for _, name := range []string{"tiny", "tiny-finetune", "moe"} {
		data, err := os.ReadFile("../../../testdata/golden/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var g struct {
			Eval []struct {
				Text string
				IDs  []int32
			}
			Greedy []struct {
				IDs  []int32
				Text string
			}
		}
		if err := json.Unmarshal(data, &g); err != nil {
			t.Fatal(err)
		}
		if len(g.Eval) == 0 || len(g.Greedy) == 0 {
			t.Fatalf("%s: no eval texts", name)
		}
		tok := load(t, "../../../testdata/"+name+"/tokenizer.json")
		e := tok.NewEncoder()
		for i, row := range g.Eval {
			ids, err := e.Encode(nil, row.Text)
			if len(ids) > 512 {
				ids = ids[:512] // the goldens are cut there
			}
			if err != nil || !slices.Equal(ids, row.IDs) {
				t.Errorf("%s: eval[%d]: %v, %v; want %v", name, i, ids, err, row.IDs)
			}
		}
		for i, row := range g.Greedy {
			if got, err := tok.Decode(row.IDs, false); err != nil || got != row.Text {
				t.Errorf("%s: greedy[%d] decodes to %q (%v), want %q", name, i, got, err, row.Text)
			}
		}
	}
}

func TestADocumentGetsTheTokensOfItsPostProcessorAndATemplateDoesNot(t *testing.T) {
	data, err := os.ReadFile("testdata/llama3.json")
	if err != nil {
		t.Fatal(err)
	}
	var f map[string]json.RawMessage
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	f["post_processor"] = json.RawMessage(`{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"TemplateProcessing",
		"single":[{"SpecialToken":{"id":"<|im_start|>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<|im_end|>","type_id":0}}],
		"special_tokens":{"<|im_start|>":{"id":"<|im_start|>","ids":[330],"tokens":["<|im_start|>"]},"<|im_end|>":{"id":"<|im_end|>","ids":[331],"tokens":["<|im_end|>"]}}}]}`)
	data, _ = json.Marshal(f)
	tok, err := token.Load(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := tok.NewEncoder()
	plain, _ := e.Encode(nil, "river")
	whole, _ := e.EncodeDocument(nil, "river")
	if !slices.Equal(whole, slices.Concat([]int32{330}, plain, []int32{331})) || len(plain) == 0 || plain[0] == 330 {
		t.Errorf("plain %v, document %v", plain, whole)
	}
}
