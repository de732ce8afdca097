package verify

import (
	"cmp"
	"net/url"
	"path/filepath"
	"strings"

	"seatsmith/internal/playbook"
)

// SARIF is a report as SARIF 2.1.0 (OASIS Static Analysis Results Interchange Format, 2020-03-27), which code hosts and
// editors show. Every rule of a finding is described from its playbook entry. Findings have no lines: a location is the
// file that a subject names, inside the checkpoint's folder.
func SARIF(r *Report, version string) any {
	type text struct {
		Text string `json:"text"`
	}
	type config struct {
		Level string `json:"level"`
	}
	type rule struct {
		ID     string `json:"id"`
		Short  text   `json:"shortDescription"`
		Full   text   `json:"fullDescription"`
		Help   text   `json:"help"`
		Config config `json:"defaultConfiguration"`
	}
	type logical struct {
		Name string `json:"fullyQualifiedName"`
	}
	type artifact struct {
		URI string `json:"uri"`
	}
	type physical struct {
		Artifact artifact `json:"artifactLocation"`
	}
	type location struct {
		Physical physical  `json:"physicalLocation"`
		Logical  []logical `json:"logicalLocations"`
	}
	type result struct {
		Rule      string     `json:"ruleId"`
		Index     int        `json:"ruleIndex"`
		Level     string     `json:"level"`
		Message   text       `json:"message"`
		Locations []location `json:"locations"`
	}
	rules, results, index := []rule{}, []result{}, map[string]int{}
	for _, f := range r.Findings {
		if _, ok := index[f.Rule]; !ok {
			index[f.Rule] = len(rules)
			n := rule{ID: f.Rule, Config: config{level(f.Severity)}}
			for _, e := range playbook.Lookup(f.Rule) {
				if e.ID == f.Rule {
					n.Short, n.Full, n.Config = text{e.Title}, text{e.Claim}, config{level(e.Severity)}
					n.Help = text{e.Why + "\n\nWhat to do: " + e.Fix}
				}
			}
			rules = append(rules, n)
		}
		message := f.Subject + ": " + f.Message
		if f.Fix != "" {
			message += " Next: " + f.Fix
		}
		results = append(results, result{f.Rule, index[f.Rule], level(f.Severity), text{message},
			[]location{{physical{artifact{uri(cmp.Or(r.Places[f.Subject], "config.json"))}}, []logical{{f.Subject}}}}})
	}
	return map[string]any{
		"$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
		"version": "2.1.0",
		"runs": []any{map[string]any{
			"tool":    map[string]any{"driver": map[string]any{"name": "seatsmith", "semanticVersion": version, "rules": rules}},
			"results": results,
			"invocations": []any{map[string]any{"executionSuccessful": true,
				"toolExecutionNotifications": notifications(r.NotChecked)}},
		}},
	}
}

// notifications say what was not checked, which SARIF has no result for.
func notifications(skipped []string) []any {
	out := []any{}
	for _, s := range skipped {
		out = append(out, map[string]any{"level": "note", "message": map[string]string{"text": "not checked: " + s}})
	}
	return out
}

func level(s playbook.Severity) string {
	if s == playbook.Info {
		return "note"
	}
	return string(s)
}

// fileOf is the file that a subject is about: the one that it names, the shard of a tensor or of a module's first, the index
// for a tensor that is not there, and config.json for everything else (it is always there, and decides what is served).
func (j *judge) fileOf(subject string) string {
	name, _, _ := strings.Cut(subject, ": ")
	for _, end := range []string{".json", ".safetensors", ".jinja", ".txt", ".model", ".yaml", ".yml"} {
		for _, n := range []string{name, subject} { // a file's name may hold a colon
			if strings.HasSuffix(n, end) && filepath.IsLocal(n) {
				return filepath.ToSlash(n)
			}
		}
	}
	if t, ok := j.m.Lookup(name); ok && t.File != nil {
		return t.File.Name
	}
	for _, module := range []string{name, moduleName(name)} { // the latter for a part that is missing
		for i := range j.m.Tensors {
			if t := &j.m.Tensors[i]; t.File != nil && t.Module == module {
				return t.File.Name
			}
		}
	}
	if j.expected[name] != nil && j.m.Set.Index != nil {
		return "model.safetensors.index.json"
	}
	return "config.json"
}

// uri spells a file's name as a URI reference.
func uri(name string) string { return (&url.URL{Path: name}).String() }
