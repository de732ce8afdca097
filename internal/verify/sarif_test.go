package verify_test

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// What SARIF 2.1.0 (OASIS, 2020-03-27) requires of the objects that are written: sarifLog version (§3.13.2) and runs; run tool
// (§3.14.6); toolComponent name (§3.19.8); reportingDescriptor id (§3.49.3), once each; multiformatMessageString text
// (§3.12.3); result message (§3.27.11), a ruleIndex that is the ruleId's (§3.27.6), level one of four (§3.27.10); an
// artifactLocation uri that is a URI reference (§3.4.3); invocation executionSuccessful (§3.20.14); notification message
// (§3.58.5).
func conforms(t *testing.T, r *verify.Report) gjson.Result {
	t.Helper()
	data, err := json.Marshal(verify.SARIF(r, "0.1.0"))
	if err != nil {
		t.Fatal(err)
	}
	doc := gjson.ParseBytes(data)
	want := func(at gjson.Result, keys ...string) {
		t.Helper()
		for _, k := range keys {
			if v := at.Get(k); !v.Exists() || v.Type == gjson.Null || v.Type == gjson.String && v.Str == "" {
				t.Errorf("%s has no %s", at.Raw, k)
			}
		}
	}
	levels := []string{"none", "note", "warning", "error"}
	want(doc, "version", "runs", `\$schema`)
	if doc.Get("version").Str != "2.1.0" || len(doc.Get("runs").Array()) != 1 {
		t.Fatalf("%s", data)
	}
	run := doc.Get("runs.0")
	want(run, "tool.driver.name", "results")
	ids := map[string]int{}
	for i, rule := range run.Get("tool.driver.rules").Array() {
		want(rule, "id", "shortDescription.text", "fullDescription.text", "help.text", "defaultConfiguration.level")
		if _, twice := ids[rule.Get("id").Str]; twice {
			t.Errorf("rule %s stands twice", rule.Get("id").Str)
		}
		ids[rule.Get("id").Str] = i
		if !slices.Contains(levels, rule.Get("defaultConfiguration.level").Str) {
			t.Errorf("%s", rule.Raw)
		}
	}
	results := run.Get("results").Array()
	if len(results) != len(r.Findings) {
		t.Errorf("%d results of %d findings", len(results), len(r.Findings))
	}
	for i, x := range results {
		want(x, "ruleId", "ruleIndex", "level", "message.text", "locations.0.physicalLocation.artifactLocation.uri", "locations.0.logicalLocations.0.fullyQualifiedName")
		if at, ok := ids[x.Get("ruleId").Str]; !ok || int64(at) != x.Get("ruleIndex").Int() {
			t.Errorf("%s has not the index of its rule", x.Raw)
		}
		wanted := map[playbook.Severity]string{playbook.Error: "error", playbook.Warning: "warning", playbook.Info: "note"}[r.Findings[i].Severity]
		if x.Get("level").Str != wanted {
			t.Errorf("%s is %q", r.Findings[i], x.Get("level").Str)
		}
		if uri := x.Get("locations.0.physicalLocation.artifactLocation.uri").Str; !reference(uri) {
			t.Errorf("%q is no reference to a file of the folder", uri)
		}
	}
	for _, v := range run.Get("invocations").Array() {
		if !v.Get("executionSuccessful").IsBool() {
			t.Errorf("%s", v.Raw)
		}
		notes := v.Get("toolExecutionNotifications").Array()
		if len(notes) != len(r.NotChecked) {
			t.Errorf("%d notes of %q", len(notes), r.NotChecked)
		}
		for _, n := range notes {
			want(n, "message.text")
			if !slices.Contains(levels, n.Get("level").Str) {
				t.Errorf("%s", n.Raw)
			}
		}
	}
	return run
}

func reference(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.Scheme == "" && u.Host == "" && filepath.IsLocal(u.Path) && !strings.ContainsAny(uri, " \\")
}

func TestSARIFHasWhatTheStandardRequiresWhateverIsWrong(t *testing.T) {
	for _, c := range checks {
		if c.rules == "" || c.source {
			continue
		}
		f := quant0(t)
		if c.make != nil {
			f = c.make(t)
		}
		if c.do != nil {
			c.do(f)
		}
		f.save()
		o := verify.Options{Host: c.host, Engine: c.engine, Headers: true}
		if c.command != "" {
			o.Serve = command(t, c.command).Serve
		}
		conforms(t, doctor(t, f.dir, o))
	}
}

func TestSARIFPlacesAFindingInItsFile(t *testing.T) {
	f := copyOf(t, "default")
	delete(f.tensors, down0+".weight_scale")
	f.ignore(adding(layer0 + "mlp.qate_proj"))
	f.add(down0+".weight_packed", "stray", safetensors.BF16, []int64{2}, make([]byte, 4))
	f.save()
	remove(t, filepath.Join(f.dir, "generation_config.json"))
	o := command(t, "/m --max-model-length 64")
	run := conforms(t, doctor(t, f.dir, o))
	for rule, file := range map[string]string{
		"tensor-missing":    f.get(down0 + ".weight_packed").file,
		"tensor-unexpected": f.get("stray").file,
		"ignore-dead":       "config.json",
		"companion-missing": "generation_config.json",
		"serve-args":        "config.json",
	} {
		at := run.Get(`results.#(ruleId=="` + rule + `").locations.0.physicalLocation.artifactLocation.uri`)
		if at.Str != file {
			t.Errorf("%s is placed in %q, want %q", rule, at.Str, file)
		}
	}
}

func TestSARIFSpellsFilesAsReferences(t *testing.T) {
	f := whole(t)
	f.save()
	const name = "über 100%: all.safetensors"
	remove(t, filepath.Join(f.dir, "model.safetensors.index.json"))
	writeFile(t, filepath.Join(f.dir, name), []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"))
	run := conforms(t, doctor(t, f.dir, verify.Options{}))
	found := false
	for _, x := range run.Get("results.#.locations.0.physicalLocation.artifactLocation.uri").Array() {
		u, err := url.Parse(x.Str)
		found = found || err == nil && filepath.Clean(u.Path) == name
	}
	if !found {
		t.Errorf("%s", run.Get("results").Raw)
	}
}
