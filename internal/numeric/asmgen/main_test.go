package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheCommittedAssemblyIsWhatTheGeneratorWrites(t *testing.T) {
	files := generate()
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s differs from what the generator writes: run go generate in internal/numeric", name)
		}
	}
	committed, err := filepath.Glob("../*.s")
	if err != nil || len(committed) != len(files) {
		t.Errorf("%d assembly files beside %d generated ones: %v", len(committed), len(files), err)
	}
}

func TestGeneratingTwiceGivesTheSameText(t *testing.T) {
	first := generate()
	for name, text := range generate() {
		if text != first[name] {
			t.Errorf("%s came out differently", name)
		}
	}
}
