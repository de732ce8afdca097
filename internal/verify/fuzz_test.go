package verify_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"seatsmith/internal/verify"
)

// FuzzConfig puts any bytes in the place of a quantized folder's config.json: the judge answers with findings or an
// error, it never panics, and it calls nothing good that says something else than what was written.
func FuzzConfig(f *testing.F) {
	base := copyOf(f, "default")
	good := readFile(f, filepath.Join(base.dir, "config.json"))
	f.Add(good)
	f.Add([]byte(`{"architectures":["Qwen3_5ForConditionalGeneration"],"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["re:("]}}}}`))
	f.Add([]byte(`{}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, config []byte) {
		dir := t.TempDir()
		entries, err := os.ReadDir(base.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != "config.json" {
				if err := os.Link(filepath.Join(base.dir, e.Name()), filepath.Join(dir, e.Name())); err != nil {
					t.Skip("no hard links here")
				}
			}
		}
		writeFile(t, filepath.Join(dir, "config.json"), config)
		r, err := verify.Checkpoint(context.Background(), dir, verify.Options{Workers: 1})
		if err == nil && r.Verdict == "ok" && string(config) != string(good) {
			t.Errorf("another config.json than was recorded is called good:\n%s", config)
		}
	})
}
