package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"

	"seatsmith/internal/engine"
	"seatsmith/internal/safetensors"
)

// mostCompose is how large a compose file may be.
const mostCompose = 4 << 20

// ReadCompose finds the services of a compose file that run "vllm serve" and reads their commands for an engine. Variables
// are taken from env and from the .env file beside it; what neither has is empty, as for docker. A service may extend another
// one of the same file, and its env_file is read from the same folder or below. What else a compose file can take from other
// files (include, extends of a file, an env_file elsewhere) is refused by name: a command that is half known is not judged.
// Nothing is started.
func ReadCompose(ctx context.Context, spec, path string, env map[string]string) ([]Serve, error) {
	e, err := parseEngine(spec)
	if err != nil {
		return nil, err
	}
	data, err := safetensors.ReadRegular(path, mostCompose)
	if err != nil {
		return nil, fmt.Errorf("compose file: %w", err)
	}
	if err := oneFile(data); err != nil {
		return nil, fmt.Errorf("compose file %s: %w; write it out with \"docker compose config\" and name what that prints", path, err)
	}
	dir := filepath.Dir(path)
	all := types.Mapping{}
	if beside, err := safetensors.ReadRegular(filepath.Join(dir, ".env"), mostCompose); err == nil {
		for line := range strings.Lines(string(beside)) {
			if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(k, "#") {
				all[strings.TrimSpace(k)] = strings.Trim(strings.TrimSpace(v), `"'`)
			}
		}
	} else if !os.IsNotExist(err) {
		return nil, fmt.Errorf("compose file: %w", err)
	}
	for k, v := range env {
		all[k] = v
	}
	project, err := loader.LoadWithContext(ctx, types.ConfigDetails{
		WorkingDir:  dir,
		ConfigFiles: []types.ConfigFile{{Filename: path, Content: data}},
		Environment: all,
	}, func(o *loader.Options) {
		o.SetProjectName("seatsmith", false)
		o.SkipInclude, o.SkipResolveEnvironment, o.ResolvePaths = true, true, false
		o.Profiles = []string{"*"}
	})
	if err != nil {
		return nil, fmt.Errorf("compose file %s: %w", path, err)
	}
	var out []Serve
	for _, name := range slices.Sorted(slices.Values(project.ServiceNames())) {
		s := project.Services[name]
		words := slices.Concat([]string(s.Entrypoint), []string(s.Command))
		if !runsServer(s.Image, words) {
			continue
		}
		settings, err := environment(dir, &s, all)
		if err != nil {
			return nil, fmt.Errorf("compose file %s: service %s: %w", path, name, err)
		}
		for _, k := range slices.Backward(slices.Sorted(maps.Keys(settings))) {
			if strings.HasPrefix(k, "VLLM_") {
				words = slices.Insert(words, 0, k+"="+settings[k])
			}
		}
		a, problems := engine.ParseServeWords(e, words)
		out = append(out, Serve{Where: "service " + name, Args: a, Problems: problems})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("compose file %s: no service runs vllm serve; name another file, or pass the command with --serve-args", path)
	}
	return out, nil
}

// oneFile refuses a compose file that takes services from other files.
func oneFile(data []byte) error {
	var doc struct {
		Include  yaml.Node `yaml:"include"`
		Services map[string]struct {
			Extends yaml.Node `yaml:"extends"`
		} `yaml:"services"`
	}
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return err
	}
	if !doc.Include.IsZero() {
		return errors.New("it includes other files, which are not read")
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Services)) {
		x := doc.Services[name].Extends
		var from struct{ File string }
		if x.Kind != yaml.MappingNode && x.Kind != yaml.AliasNode {
			continue // the name of a service of this file
		}
		if err := x.Decode(&from); err != nil {
			return fmt.Errorf("service %s: extends: %w", name, err)
		}
		if from.File != "" {
			return fmt.Errorf("service %s extends one of %s, which is not read", name, from.File)
		}
	}
	return nil
}

// environment is what a service is started with: its env_file in order, then what environment says itself. A variable
// without a value is taken from the caller's.
func environment(dir string, s *types.ServiceConfig, all types.Mapping) (map[string]string, error) {
	out := map[string]string{}
	lookup := func(k string) (string, bool) { v, ok := all[k]; return v, ok }
	for _, f := range s.EnvFiles {
		if !filepath.IsLocal(f.Path) {
			return nil, fmt.Errorf("env_file %s lies outside the folder of the compose file and is not read; move its VLLM_ variables into environment", f.Path)
		}
		data, err := safetensors.ReadRegular(filepath.Join(dir, f.Path), mostCompose)
		if errors.Is(err, fs.ErrNotExist) && !bool(f.Required) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("env_file: %w", err)
		}
		read, err := dotenv.ParseWithLookup(bytes.NewReader(data), lookup)
		if err != nil {
			return nil, fmt.Errorf("env_file %s: %w", f.Path, err)
		}
		maps.Copy(out, read)
	}
	for k, v := range s.Environment {
		switch own, ok := all[k]; {
		case v != nil:
			out[k] = *v
		case ok:
			out[k] = own
		}
	}
	return out, nil
}

// runsServer says whether a service runs the server: by its words, or by an image whose entry point does.
func runsServer(image string, words []string) bool {
	for i, w := range words {
		if strings.HasPrefix(w, "vllm.entrypoints.") || w == "serve" && i > 0 && strings.HasSuffix(words[i-1], "vllm") {
			return true
		}
	}
	name, _, _ := strings.Cut(image, ":")
	return strings.HasSuffix(name, "vllm-openai") || strings.HasSuffix(name, "vllm-cpu-release-repo")
}
