package verify

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"seatsmith/internal/engine"
	"seatsmith/internal/playbook"
)

// quantization reads the block of config.json and judges what the server would refuse before it looks at modules.
func (j *judge) quantization() error {
	q, problems, err := j.readQuantization()
	if err != nil {
		return err
	}
	looks := j.looks()
	if q == nil {
		// package model tells of quantized tensors without a block
		if j.quantBroken = looks != ""; j.quantBroken {
			j.skip("quantized modules against the server's rules, because nothing says how they are quantized", true)
		}
		return nil
	}
	j.quant = q
	alone := q.Key == engine.FileModelOpt
	if !alone || q.Method == "" { // else the server finds the block where other readers do not
		j.notes.drop(func(f playbook.Finding) bool { return f.Rule == "quant-config-missing" })
	}
	if alone && q.Method == "" {
		j.fileAlone()
		return nil
	}
	switch {
	case q.Method == engine.CompressedTensors, q.ModelOpt != nil && (looks == "modelopt" || j.impossible(q.Method) == ""):
		j.dialectKnown = true
	case q.IsModelOpt() && j.impossible(q.Method) == "" && len(problems) > 0:
		j.quantBroken = true // config-args tells why the server stops
		j.skip("quantized modules against the server's rules, because their block cannot be read", true)
	default:
		j.method(q, looks)
	}
	j.standing(q)
	j.patterns(q)
	if q.IsModelOpt() && !j.dialectKnown && looks == engine.CompressedTensors {
		problems = nil // the wrong method is the news, not what its block lacks
	}
	for _, p := range problems {
		f := playbook.New("config-args", p.Where, p.Message, "write the arguments as the server knows them")
		if !p.Serious {
			f = f.As(playbook.Warning)
		} else if p.Group != "" || q.IsModelOpt() {
			j.refuse(p.Group)
		}
		if p.Serious {
			j.blameConfig()
		}
		j.add(f)
	}
	if q.Transform {
		j.skip("what transform_config does to the weights", true)
	}
	return nil
}

// looks says which dialect the stored tensors look like, "" for an unquantized folder.
func (j *judge) looks() string {
	out := ""
	for i := range j.m.Tensors {
		switch t := &j.m.Tensors[i]; t.Suffix {
		case "weight_scale_2":
			return "modelopt"
		case "weight_packed", "weight_global_scale", "weight_scale":
			out = engine.CompressedTensors
		}
	}
	return out
}

func orUnquantized(looks string) string {
	if looks == "" {
		return "an unquantized checkpoint"
	}
	return looks
}

// entries judges the ignore list as a whole.
func (j *judge) entries() {
	if j.quant == nil || !j.dialectKnown {
		return
	}
	for _, d := range j.bound.Dead(j.resolved) {
		message := "the entry matches nothing that the server asks for: " + d.Reason
		if len(d.Means) > 0 {
			message += "; it seems to mean " + listed(d.Means, 3)
		}
		j.notes.join(d.Reason, playbook.New("ignore-dead", fmt.Sprintf("%s: %q", j.ignoreKey(), d.Entry), message,
			j.wholeName()))
	}
	for _, o := range j.bound.Overreaches() {
		if o.Also = j.unmeant(o); len(o.Also) == 0 {
			continue
		}
		j.notes.join("overreach", playbook.New("ignore-overreach", fmt.Sprintf("%s: %q", j.ignoreKey(), o.Entry),
			"the server finds the entry inside other names as well, and keeps "+listed(o.Also, 3)+" unquantized, too",
			"write the module's whole name, or end the entry with a dot and a star"))
	}
}

// unmeant takes those modules out of what an exclusion covers that are fused with one that it names: "in_proj_b" is found
// inside the fused name in_proj_ba, and what shares a module with it must be excluded, too.
func (j *judge) unmeant(o engine.Overreach) []string {
	core, fused := strings.TrimSuffix(o.Entry, "*"), map[string]bool{}
	for i := range j.srv.Linears {
		l := &j.srv.Linears[i]
		if slices.ContainsFunc(l.Shards, func(s engine.Shard) bool { return s.Name == core || strings.HasSuffix(s.Name, "."+core) }) {
			for _, s := range l.Shards {
				fused[s.Name] = true
			}
		}
	}
	return slices.DeleteFunc(o.Also, func(name string) bool { return fused[name] })
}

// cacheScales: a key/value cache scheme wants two scales per layer of full attention; without them the server uses 1.
func (j *judge) cacheScales() {
	if j.quant == nil || j.quant.KV == nil {
		return
	}
	for i := range j.srv.Linears {
		l := &j.srv.Linears[i]
		attention, ok := strings.CutSuffix(l.Runtime, ".qkv_proj")
		if !ok || l.Drafter {
			continue
		}
		for _, s := range []string{"k_scale", "v_scale"} {
			if j.caches[attention+".attn."+s] == nil {
				j.notes.join("missing", playbook.New("kv-scale-missing", strings.TrimSuffix(l.Shards[0].Name, ".q_proj")+"."+s,
					"kv_cache_scheme makes the server keep keys and values in FP8, but the scale is not stored; it uses 1.0",
					"calibrate the cache, or set kv_cache_scheme to null"))
			}
		}
	}
}

// traps are parts of a path that make the server take another speculative method (R19).
var traps = []string{"eagle-", "eagle3", "dflash", "dspark"}

// path judges the folder's own path.
func (j *judge) path() {
	for _, f := range OutputPath(j.dir) {
		j.add(f)
	}
}

// OutputPath judges where a checkpoint is, or is to be, before anything is written there: the server matches the path
// that it is given, lower-cased, before it looks at the head. A folder that is itself so named is an error; one above it
// is a warning, since the server may see another path.
func OutputPath(dir string) []playbook.Finding {
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	base, parents := strings.ToLower(filepath.Base(abs)), strings.ToLower(filepath.Dir(abs))
	for _, t := range traps {
		message := fmt.Sprintf("the path contains %q, by which the server chooses another method than mtp", t)
		switch {
		case strings.Contains(base, t):
			return []playbook.Finding{playbook.New("path-trap", filepath.Base(abs), message, "choose another name for the folder")}
		case strings.Contains(parents, t):
			return []playbook.Finding{playbook.New("path-trap", filepath.Base(abs), message+" (a folder above; it matters if the server sees the same path)",
				"serve it under a path without that part").As(playbook.Warning)}
		}
	}
	return nil
}
