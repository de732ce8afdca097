package repair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"seatsmith/internal/atomicfile"
	"seatsmith/internal/engine"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
	"seatsmith/internal/safetensors"
	"seatsmith/internal/verify"
)

// Repaired is what Run did: each repair in words (none: nothing was written), and the report about the result, which
// the caller fills in.
type Repaired struct {
	Dir     string         `json:"dir"`
	Repairs []string       `json:"repairs"`
	Report  *verify.Report `json:"report"`
}

// Run copies a checkpoint into the new folder out with the repairs that change no weight and that the stored tensors
// leave no doubt about:
//
//   - a head that is stored unquantized and not excluded is excluded (config.json and hf_quant_config.json);
//   - the promise mtp_num_hidden_layers is made where the tensors of the head are there;
//   - an empty quant_method is what the tensors look like;
//   - an index that is missing or wrong is made from the shards' headers, where no tensor stands twice;
//   - an hf_quant_config.json that contradicts config.json, and shards that belong to no index, are left out, and so are
//     records of the old bytes (seatsmith.json, SHA256SUMS).
//
// Whatever else is wrong stays wrong: the result is to be judged again. The folder appears under its name when it is whole;
// nothing is overwritten, and the checkpoint itself is never written to.
func Run(ctx context.Context, dir, out string, o verify.Options) (*Repaired, error) {
	if _, err := os.Lstat(out); err == nil {
		return nil, fmt.Errorf("%s exists already and nothing is overwritten; choose another name: %w", out, fs.ErrExist)
	}
	o.Headers, o.Serve, o.Progress = true, nil, nil
	r, err := verify.Doctor(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	m, err := model.Open(dir)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	p := repair{m: m, config: bytes.Clone(m.Config.Raw), drop: map[string]bool{}}
	if p.file, err = m.QuantFile(); err != nil {
		return nil, err
	}
	for _, step := range []func([]playbook.Finding) error{p.method, p.exclusions, p.promise, p.stale, p.reindex} {
		if err := step(r.Findings); err != nil {
			return nil, fmt.Errorf("repairing %s: %w", dir, err)
		}
	}
	done := &Repaired{Dir: out, Repairs: append([]string{}, p.done...)}
	if len(p.done) == 0 {
		return done, nil
	}
	if err := p.publish(ctx, out); err != nil {
		return nil, err
	}
	return done, nil
}

type repair struct {
	m       *model.Model
	config  []byte
	file    []byte // hf_quant_config.json, nil without one
	index   []byte // nil: as it is
	drop    map[string]bool
	sidecar bool // a shard that the index does not name has tensors of its own
	done    []string
}

func (p *repair) did(format string, args ...any) {
	p.done = append(p.done, fmt.Sprintf(format, args...))
}

func found(findings []playbook.Finding, rules ...string) []playbook.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f playbook.Finding) bool { return !slices.Contains(rules, f.Rule) })
}

// method names the dialect that the tensors look like, where the block names none.
func (p *repair) method(findings []playbook.Finding) error {
	block := gjson.GetBytes(p.config, "quantization_config")
	if len(found(findings, "quant-method")) == 0 || !block.IsObject() || block.Get("quant_method").String() != "" {
		return nil
	}
	looks := p.looks()
	switch {
	case looks == engine.CompressedTensors && block.Get("config_groups").IsObject():
	case looks == "modelopt" && (block.Get("quant_algo").Exists() || block.Get("quantization.quant_algo").Exists()):
	default:
		return nil // nothing says how the tensors are coded
	}
	var err error
	p.config, err = sjson.SetBytes(p.config, "quantization_config.quant_method", looks)
	p.did("config.json: quantization_config.quant_method is %q, as the tensors are", looks)
	return err
}

// looks says which dialect the stored tensors are spelled in, "" where nothing is certain.
func (p *repair) looks() string {
	one, two := false, false
	for i := range p.m.Tensors {
		switch p.m.Tensors[i].Suffix {
		case "weight_packed", "weight_global_scale":
			one = true
		case "weight_scale_2":
			two = true
		}
	}
	switch {
	case one && !two:
		return engine.CompressedTensors
	case two && !one:
		return "modelopt"
	}
	return ""
}

// exclusions keeps an unquantized head out of the quantization.
func (p *repair) exclusions(findings []playbook.Finding) error {
	if len(found(findings, "head-not-ignored")) == 0 {
		return nil
	}
	var names []string
	for i := range p.m.Tensors {
		t := &p.m.Tensors[i]
		if t.Role != model.RoleHead || !t.Linear {
			continue
		}
		if d := t.Dtype(); d != safetensors.BF16 && d != safetensors.F16 && d != safetensors.F32 {
			return nil // part of it is quantized: what belongs in the list is not certain
		}
		names = append(names, t.Module)
		if t.Fused != "" && !slices.Contains(names, t.Fused) {
			names = append(names, t.Fused)
		}
	}
	q, _, err := engine.ReadQuantization(p.config)
	if err != nil || q == nil || q.Key != "quantization_config" {
		return err
	}
	path := "quantization_config.ignore"
	all := append([]string{"re:.*mtp.*"}, names...)
	if q.IsModelOpt() {
		all = []string{"mtp*"}
		if q.ModelOpt != nil && q.ModelOpt.Nested {
			path = "quantization_config.quantization.exclude_modules"
		}
		if p.file != nil {
			if p.file, err = extend(p.file, "quantization.exclude_modules", all); err != nil {
				return err
			}
			p.did("%s: exclude_modules has %q", engine.FileModelOpt, all[0])
		}
	}
	p.config, err = extend(p.config, path, all)
	p.did("config.json: %s has %q and the head's names, because the head is stored unquantized", path, all[0])
	return err
}

// extend adds entries that a list of JSON does not have.
func extend(data []byte, path string, entries []string) ([]byte, error) {
	var list []string
	for _, e := range gjson.GetBytes(data, path).Array() {
		list = append(list, e.String())
	}
	for _, e := range entries {
		if !slices.Contains(list, e) {
			list = append(list, e)
		}
	}
	return sjson.SetBytes(data, path, list)
}

// promise says in config.json that there is a head, where there is one.
func (p *repair) promise(findings []playbook.Finding) error {
	if len(found(findings, "head-promise")) == 0 {
		return nil
	}
	layers := map[string]bool{}
	for i := range p.m.Tensors {
		if rest, ok := strings.CutPrefix(p.m.Tensors[i].Name, "mtp.layers."); ok {
			n, _, _ := strings.Cut(rest, ".")
			layers[n] = true
		}
	}
	path := "mtp_num_hidden_layers"
	if gjson.GetBytes(p.config, "text_config").IsObject() {
		path = "text_config." + path
	}
	if len(layers) != 1 || !layers["0"] || gjson.GetBytes(p.config, path).Int() > 0 {
		return nil
	}
	var err error
	p.config, err = sjson.SetBytes(p.config, path, 1)
	p.did("config.json: %s is 1, because the tensors of the head are there", path)
	return err
}

// stale leaves out what contradicts the rest or belongs to nothing, and the records of what is about to change.
func (p *repair) stale(findings []playbook.Finding) error {
	if len(found(findings, "quant-files-differ")) > 0 {
		p.drop[engine.FileModelOpt] = true
		p.did("%s is left out: it does not say what config.json says", engine.FileModelOpt)
	}
	if x := p.m.Set.Index; x != nil && len(found(findings, "shard-leftover")) > 0 {
		return p.leftovers(x)
	}
	return nil
}

// leftovers judges the shards that the index does not name: one whose every tensor stands in another shard is a stale copy
// and is left out; one with tensors that stand nowhere else belongs into the index.
func (p *repair) leftovers(x *safetensors.Index) error {
	entries, err := os.ReadDir(p.m.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".safetensors") || slices.Contains(x.Files(), e.Name()) {
			continue
		}
		f, err := safetensors.Open(filepath.Join(p.m.Dir, e.Name()))
		if err != nil {
			continue
		}
		f.Close()
		twice := 0
		for _, t := range f.Header.Tensors {
			if x.WeightMap[t.Name] != "" {
				twice++
			}
		}
		switch twice {
		case len(f.Header.Tensors):
			p.drop[e.Name()] = true
			p.did("%s is left out: all its tensors stand in shards that the index names", e.Name())
		case 0:
			p.sidecar = true
		}
	}
	return nil
}

// reindex makes the index from the shards' headers.
func (p *repair) reindex(findings []playbook.Finding) error {
	if !p.sidecar && len(found(findings, "index-missing", "index-wrong", "index-unlisted", "index-size", "index-syntax")) == 0 || len(found(findings, "shard-missing", "file-truncated", "file-unreadable")) > 0 {
		return nil
	}
	entries, err := os.ReadDir(p.m.Dir)
	if err != nil {
		return err
	}
	weights, total := map[string]string{}, int64(0)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".safetensors") || p.drop[e.Name()] {
			continue
		}
		f, err := safetensors.Open(filepath.Join(p.m.Dir, e.Name()))
		if err != nil {
			return nil // a file that is none: nothing is certain
		}
		f.Close()
		for _, t := range f.Header.Tensors {
			if weights[t.Name] != "" {
				return nil // it stands twice, and nothing says which of the two is meant
			}
			weights[t.Name] = e.Name()
			total += t.Bytes()
		}
	}
	p.index = safetensors.IndexBytes(weights, total)
	p.did("%s was made from the headers of the shards: %d tensors", safetensors.IndexName, len(weights))
	return nil
}

// publish writes the folder under a temporary name, flushes it, and gives it its name in one step.
func (p *repair) publish(ctx context.Context, out string) (err error) {
	partial, err := os.MkdirTemp(filepath.Dir(filepath.Clean(out)), filepath.Base(out)+".partial-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(partial)) }() // gone under this name once it is published
	if err := os.Chmod(partial, 0o755); err != nil {
		return err
	}
	made := map[string][]byte{"config.json": p.config}
	if p.index != nil {
		made[safetensors.IndexName] = p.index
	}
	if p.file != nil && !p.drop[engine.FileModelOpt] {
		made[engine.FileModelOpt] = p.file
	}
	for _, name := range []string{model.ProvenanceFile, "SHA256SUMS"} {
		if _, err := os.Lstat(filepath.Join(p.m.Dir, name)); err == nil {
			p.drop[name] = true
		}
	}
	root, err := filepath.EvalSymlinks(p.m.Dir)
	if err != nil {
		return err
	}
	err = filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		name, err := filepath.Rel(root, at)
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && at != root:
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(partial, name), 0o755)
		case p.drop[name] || made[name] != nil || strings.HasPrefix(d.Name(), "."):
			return nil
		}
		return copyFile(at, filepath.Join(partial, name))
	})
	if err != nil {
		return fmt.Errorf("copying to %s: %w", out, err)
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if err := os.WriteFile(filepath.Join(partial, name), made[name], 0o644); err != nil {
			return err
		}
	}
	return atomicfile.PublishDir(partial, out)
}

// copyFile copies what a file or a link leads to; on file systems that can, blocks are shared (copy_file_range).
func copyFile(from, to string) error {
	src, _, err := safetensors.OpenRegular(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}
