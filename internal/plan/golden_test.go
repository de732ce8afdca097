package plan_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seatsmith/internal/model"
	"seatsmith/internal/plan"
	"seatsmith/internal/playbook"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-golden +got):\n%s", name, diff)
	}
}

// view lays the head of testdata/tiny over a fine-tune that lost it.
func view(t *testing.T) *model.Model {
	t.Helper()
	body, err := model.Open(filepath.Join("..", "..", "testdata", "tiny-finetune"))
	if err != nil {
		t.Fatal(err)
	}
	donor, err := model.OpenDonor(filepath.Join("..", "..", "testdata", "tiny"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Overlay(body, donor)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestPlanOfAFineTuneWithADonorsHead(t *testing.T) {
	p, err := plan.Make(view(t), plan.Options{Version: "test", ShardSize: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	if e := playbook.Errors(p.Findings); e != nil {
		t.Fatalf("refused: %v", e)
	}
	items := p.Items
	p.Source, p.Items = "of the view", nil // package model tests fingerprints
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for _, i := range items { // a line each, so that a diff can be read
		if err := enc.Encode(i); err != nil {
			t.Fatal(err)
		}
	}
	enc.SetIndent("", " ")
	if err := enc.Encode(p); err != nil {
		t.Fatal(err)
	}
	golden(t, "plan.json", out.Bytes())
	golden(t, "config.json", p.Config)
}

func TestTextForPeople(t *testing.T) {
	p, err := plan.Make(view(t), plan.Options{Recipe: "nvfp4-all-linear", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var brief, full bytes.Buffer
	p.Text(&brief, false)
	p.Text(&full, true)
	golden(t, "text.txt", brief.Bytes())
	for _, i := range p.Items {
		if !strings.Contains(full.String(), "\n"+i.Source+" ") {
			t.Errorf("the verbose text does not list %s", i.Source)
		}
	}
}
