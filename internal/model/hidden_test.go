package model_test

import (
	"os"
	"path/filepath"
	"runtime"
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

// A donor's tokenizer must not stand in silently for one that the body has and that is broken.
func TestABrokenCompanionIsNotReplacedByTheDonors(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"dangling link": func(p string) error { return os.Symlink("gone", p) },
		"a FIFO":        func(p string) error { return unix.Mkfifo(p, 0o600) },
		"a folder":      func(p string) error { return os.Mkdir(p, 0o755) },
	} {
		for _, file := range []string{"tokenizer.json", "generation_config.json", "chat_template.jinja"} {
			dir := like(t, "tiny").dropPrefix("mtp.").write()
			path := filepath.Join(dir, file)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			body, err := model.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			v := overlay(t, body, openDonor(t, like(t, "tiny").write()))
			only(t, v.Findings, "error companion-missing")
			if strings.Contains(v.Findings[0].Message, "donor") || v.Findings[0].Subject != file {
				t.Errorf("%s for %s: %v", name, file, v.Findings)
			}
		}
	}
}

func TestACompanionThatCannotBeReadIsNoAnswer(t *testing.T) {
	dir := like(t, "tiny").write()
	if err := os.Chmod(filepath.Join(dir, "tokenizer.json"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // of the test alone, and closed to others
		t.Fatal(err)
	}
	asAnother(t, func() {
		m, err := model.Open(dir)
		if err != nil {
			t.Error(err)
			return
		}
		defer m.Close()
		only(t, m.Findings, "error file-unreadable")
	})
}

// asAnother runs f without root's right to read everything: on a thread of its own, as another file-system user.
func asAnother(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	const nobody = 65534
	ran, done := false, make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		unix.Setfsuid(nobody)
		if got, _ := unix.SetfsuidRetUid(nobody); got == nobody {
			ran = true
			f()
		}
	}()
	<-done
	if !ran {
		t.Skip("NOT CHECKED: running as root without the right to become another file-system user")
	}
}
