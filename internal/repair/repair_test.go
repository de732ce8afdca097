package repair_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/repair"
	"seatsmith/internal/verify"
	"seatsmith/internal/write"
)

const tiny = "../../testdata/tiny"

func quantized(t *testing.T, dialect string) string {
	t.Helper()
	m, err := model.Open(tiny)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := plan.Make(m, plan.Options{Dialect: dialect})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "quantized")
	if _, err := write.Run(context.Background(), p, m, dir, write.Options{}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func plain(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "plain")
	if err := os.CopyFS(dir, os.DirFS(tiny)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func edit(t *testing.T, path string, change func([]byte) ([]byte, error)) {
	t.Helper()
	data, err := change(read(t, path))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// noHead takes every entry about the head out of a list.
func noHead(path string) func([]byte) ([]byte, error) {
	return func(data []byte) ([]byte, error) {
		var kept []string
		for _, e := range gjson.GetBytes(data, path).Array() {
			if !strings.Contains(e.Str, "mtp") {
				kept = append(kept, e.Str)
			}
		}
		return sjson.SetBytes(data, path, kept)
	}
}

func shardOf(t *testing.T, dir string) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil || len(list) == 0 {
		t.Fatal(err, list)
	}
	return list[0]
}

func TestWhatTheTensorsLeaveNoDoubtAboutIsRepaired(t *testing.T) {
	for _, c := range []struct {
		name, rule, says string
		make             func(t *testing.T) string
		do               func(t *testing.T, dir string)
	}{
		{"head not ignored", "head-not-ignored", "re:.*mtp.*", func(t *testing.T) string {
			dir := quantized(t, "compressed-tensors")
			edit(t, dir+"/config.json", func(data []byte) ([]byte, error) {
				return sjson.SetBytes(data, "quantization_config.config_groups.group_0.targets", []string{"Linear"})
			})
			return dir
		}, nil},
		{"head not excluded, modelopt", "head-not-ignored", "mtp*", func(t *testing.T) string { return quantized(t, "modelopt") }, func(t *testing.T, dir string) {
			edit(t, dir+"/config.json", noHead("quantization_config.ignore"))
			edit(t, dir+"/hf_quant_config.json", noHead("quantization.exclude_modules"))
		}},
		{"no method", "quant-method", "compressed-tensors", func(t *testing.T) string { return quantized(t, "compressed-tensors") }, func(t *testing.T, dir string) {
			edit(t, dir+"/config.json", func(data []byte) ([]byte, error) { return sjson.SetBytes(data, "quantization_config.quant_method", "") })
		}},
		{"the two files disagree", "quant-files-differ", "hf_quant_config.json", func(t *testing.T) string { return quantized(t, "modelopt") }, func(t *testing.T, dir string) {
			edit(t, dir+"/hf_quant_config.json", noHead("quantization.exclude_modules"))
		}},
		{"promise of no head", "head-promise", "mtp_num_hidden_layers", plain, func(t *testing.T, dir string) {
			edit(t, dir+"/config.json", func(data []byte) ([]byte, error) { return sjson.SetBytes(data, "text_config.mtp_num_hidden_layers", 0) })
		}},
		{"no index", "index-missing", "headers", plain, func(t *testing.T, dir string) {
			if err := os.Remove(dir + "/model.safetensors.index.json"); err != nil {
				t.Fatal(err)
			}
		}},
		{"stale copy of a shard", "shard-leftover", "left out", plain, func(t *testing.T, dir string) {
			if err := os.WriteFile(dir+"/old.safetensors", read(t, shardOf(t, dir)), 0o644); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := c.make(t)
			if c.do != nil {
				c.do(t, dir)
			} else {
				edit(t, dir+"/config.json", noHead("quantization_config.ignore"))
			}
			ctx, out := context.Background(), filepath.Join(t.TempDir(), "fixed")
			before, err := verify.Doctor(ctx, dir, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			old := read(t, dir+"/config.json")
			done, err := repair.Run(ctx, dir, out, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !has(before, c.rule) || !strings.Contains(strings.Join(done.Repairs, "\n"), c.says) {
				t.Fatalf("before %v, repaired %q", before.Findings, done.Repairs)
			}
			after, err := verify.Doctor(ctx, out, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if has(after, c.rule) || len(after.Findings) >= len(before.Findings) {
				t.Errorf("after %v", after.Findings)
			}
			if !bytes.Equal(old, read(t, dir+"/config.json")) {
				t.Error("the folder itself was changed")
			}
			if !bytes.Equal(read(t, shardOf(t, dir)), read(t, filepath.Join(out, filepath.Base(shardOf(t, dir))))) {
				t.Error("weights were changed")
			}
			left, err := filepath.Glob(out + ".partial*")
			if err != nil || len(left) > 0 {
				t.Error("something unfinished was left", left)
			}
		})
	}
}

func has(r *verify.Report, rule string) bool {
	for _, f := range r.Findings {
		if f.Rule == rule {
			return true
		}
	}
	return false
}

func TestWhatNeedsAChoiceIsNotRepairedAndNothingIsOverwritten(t *testing.T) {
	ctx, out := context.Background(), filepath.Join(t.TempDir(), "fixed")
	done, err := repair.Run(ctx, "../../testdata/tiny-finetune", out, verify.Options{})
	if err != nil || len(done.Repairs) > 0 {
		t.Fatal(err, done)
	}
	if _, err := os.Lstat(out); err == nil {
		t.Error("a folder without repairs was written")
	}
	dir := plain(t)
	if err := os.Remove(dir + "/model.safetensors.index.json"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := repair.Run(ctx, dir, out, verify.Options{}); err == nil {
		t.Error("a folder that was there was written to")
	}
	entries, err := os.ReadDir(out)
	if err != nil || len(entries) > 0 {
		t.Error(err, entries)
	}
	ctx, stop := context.WithCancel(ctx)
	stop()
	if _, err := repair.Run(ctx, dir, out+"-2", verify.Options{}); err == nil {
		t.Error("cancelled, and it went on")
	}
	if list, _ := filepath.Glob(filepath.Dir(out) + "/*"); slices.ContainsFunc(list, func(p string) bool { return strings.Contains(p, "fixed-2") }) {
		t.Error("a cancelled repair left something", list)
	}
}
