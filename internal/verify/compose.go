package verify

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"seatsmith/internal/engine"
	"seatsmith/internal/safetensors"
)

// mostCompose is how large a compose file may be.
const mostCompose = 4 << 20

// ReadCompose finds the services of a compose file that run "vllm serve" and reads their commands for an engine. Variables
// are taken from env and from the .env file beside it; what neither has is empty, as for docker. Nothing is started and no
// included file outside its folder is read.
func ReadCompose(ctx context.Context, spec, path string, env map[string]string) ([]Serve, error) {
	e, err := parseEngine(spec)
	if err != nil {
		return nil, err
	}
	data, err := safetensors.ReadRegular(path, mostCompose)
	if err != nil {
		return nil, fmt.Errorf("compose file: %w", err)
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
		o.SkipInclude, o.SkipExtends, o.SkipResolveEnvironment, o.ResolvePaths = true, true, true, false
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
		for k, v := range s.Environment {
			if v != nil && strings.HasPrefix(k, "VLLM_") {
				words = slices.Insert(words, 0, k+"="+*v)
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
