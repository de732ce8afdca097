package model_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"seatsmith/internal/model"
)

const secondShard = "model-00002-of-00002.safetensors"

// A shard that cannot be read hides its tensors: that they are missing is not said beside it, and what is missing for
// another reason still is.
func TestAShardThatCannotBeReadIsTheOnlyNews(t *testing.T) {
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4999802720\n"
	for _, c := range []struct {
		name, want string
		damage     func(path string) error
	}{
		{"a Git LFS pointer", "error file-lfs-pointer", func(p string) error { return os.WriteFile(p, []byte(pointer), 0o644) }},
		{"a web page", "error file-not-safetensors", func(p string) error { return os.WriteFile(p, []byte("<!DOCTYPE html>"), 0o644) }},
		{"cut short", "error file-truncated", func(p string) error { return os.Truncate(p, 200000) }},
		{"gone", "error shard-missing", os.Remove},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := like(t, "tiny").write()
			if err := c.damage(filepath.Join(dir, secondShard)); err != nil {
				t.Fatal(err)
			}
			m, err := model.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			only(t, m.Findings, c.want)
			if m.Head.Present != 0 {
				t.Errorf("%d tensors of the head are present", m.Head.Present)
			}
		})
	}
	dir := like(t, "tiny-finetune").write() // its index does not claim a head either
	if err := os.Truncate(filepath.Join(dir, secondShard), 200000); err != nil {
		t.Fatal(err)
	}
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	only(t, m.Findings, "error file-truncated", "error head-missing")
}

func TestAConfigThatCouldBlockIsRefused(t *testing.T) {
	dir := like(t, "tiny").write()
	path := filepath.Join(dir, "config.json")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := model.Open(dir); err == nil || !strings.Contains(err.Error(), "FIFO") || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

// A small file of deep brackets would become a huge one when it is indented.
func TestADeeplyNestedConfigIsRefused(t *testing.T) {
	good := string(readConfig(t, "tiny"))
	deep := strings.TrimSuffix(strings.TrimSpace(good), "}") + `, "z": ` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + "}"
	if _, err := model.ParseConfig([]byte(deep)); err == nil || !strings.Contains(err.Error(), "nested deeper than 64 levels") {
		t.Errorf("got %v", err)
	}
}
