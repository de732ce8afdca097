package verify

import (
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
			[]location{{physical{artifact{fileOf(f.Subject)}}, []logical{{f.Subject}}}}})
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

// fileOf is the file that a subject is about: its first word where that is a file's name, else the index of the tensors.
func fileOf(subject string) string {
	name, _, _ := strings.Cut(subject, ": ")
	for _, end := range []string{".json", ".safetensors", ".jinja", ".txt", ".model", ".yaml", ".yml"} {
		if strings.HasSuffix(name, end) && !strings.ContainsAny(name, " %\\") {
			return name
		}
	}
	if strings.HasPrefix(subject, "quantization_config") || strings.HasPrefix(subject, "text_config") {
		return "config.json"
	}
	return "model.safetensors.index.json"
}
