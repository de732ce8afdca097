package verify_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seatsmith/internal/verify"
)

// compose reads a compose file that lies beside files.
func compose(t *testing.T, text string, files map[string]string) ([]verify.Serve, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "stack")
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, []byte(data))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "compose.yaml")
	writeFile(t, path, []byte(text))
	return verify.ReadCompose(context.Background(), "", path, map[string]string{"VLLM_USE_V1": "1"})
}

func TestASettingOfAnEnvFileReachesTheCommand(t *testing.T) {
	const long = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
	list, err := compose(t, `services:
  one:
    image: vllm/vllm-openai:v0.28.0
    env_file: [one.env, {path: gone.env, required: false}, env/two.env]
    environment: [VLLM_USE_V1, VLLM_LOGGING_LEVEL=INFO]
    command: ["/m", "--max-model-len", "100M"]
`, map[string]string{"one.env": long + "=0\nVLLM_LOGGING_LEVEL=DEBUG\nHF_TOKEN=secret\n", "env/two.env": "export " + long + "='1'\n"})
	if err != nil {
		t.Fatal(err)
	}
	env := list[0].Args.Env
	if env[long] != "1" || env["VLLM_LOGGING_LEVEL"] != "INFO" || env["VLLM_USE_V1"] != "1" || env["HF_TOKEN"] != "" {
		t.Errorf("%v", env)
	}
	f := whole(t)
	f.save()
	clean(t, doctor(t, f.dir, verify.Options{Serve: list})) // else longer than max_position_embeddings
}

func TestAServiceTakesTheCommandOfTheOneThatItExtends(t *testing.T) {
	list, err := compose(t, `services:
  base: {image: vllm/vllm-openai, command: ["/m", "-tp", "2"]}
  one: {extends: base}
  two: {extends: {service: base}, command: ["/other"]}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 3 || list[1].Where != "service one" || list[1].Args.TensorParallel != 2 || list[2].Args.Model != "/other" || list[2].Args.TensorParallel != 1 {
		t.Errorf("%+v", list)
	}
}

// What is in other files is never left out without a word.
func TestWhatAComposeFileTakesFromOtherFilesIsRefusedByName(t *testing.T) {
	const server = "image: vllm/vllm-openai, command: [/m]"
	other := map[string]string{"other.yaml": "services: {base: {" + server + "}}", "../outside.env": "VLLM_USE_V1=0", "bad.env": "no variables here\n"}
	for name, c := range map[string]struct{ text, said string }{
		"another file's service":   {"services: {one: {extends: {file: other.yaml, service: base}}}", "service one extends one of other.yaml"},
		"the same behind an alias": {"x-from: &from {file: other.yaml, service: base}\nservices: {one: {extends: *from}}", "service one extends one of other.yaml"},
		"an included file":         {"include: [other.yaml]\nservices: {one: {" + server + "}}", "includes other files"},
		"an env_file outside":      {"services: {one: {" + server + ", env_file: ../outside.env}}", "../outside.env lies outside"},
		"an env_file by its path":  {"services: {one: {" + server + ", env_file: /etc/environment}}", "/etc/environment lies outside"},
		"an env_file that is gone": {"services: {one: {" + server + ", env_file: gone.env}}", "gone.env"},
		"an env_file of no kind":   {"services: {one: {" + server + ", env_file: bad.env}}", "env_file bad.env"},
	} {
		if _, err := compose(t, c.text, other); err == nil || !strings.Contains(err.Error(), c.said) {
			t.Errorf("%s: %v, want %q", name, err, c.said)
		}
	}
	// of a service that runs no server nothing is asked
	if list, err := compose(t, "services: {db: {image: postgres, env_file: gone.env}, one: {"+server+"}}", nil); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}
