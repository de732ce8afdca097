package verify_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"seatsmith/internal/plan"
	"seatsmith/internal/verify"
)

// Whatever stands in the two configuration files and in the command, the answer is a report or an error.
func FuzzDoctorSurvivesHostileModelOptFiles(f *testing.F) {
	seed := f.TempDir()
	folder := filepath.Join(seed, "q")
	quantizeFrom(f, donor, folder, plan.Options{Dialect: "modelopt"})
	config, file := readFile(f, folder+"/config.json"), readFile(f, folder+"/hf_quant_config.json")
	f.Add(config, file, "vllm serve /m -tp 2")
	f.Add([]byte(`{"architectures":["Qwen3_5ForConditionalGeneration"],"quantization_config":{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","quantized_layers":{"":{}}}}`), []byte(`{"quantization":{"exclude_modules":[null]}}`), `/m --speculative-config '{"method":"mtp"}'`)
	f.Add([]byte(`{}`), []byte(`[]`), `"`)
	f.Fuzz(func(t *testing.T, config, file []byte, command string) {
		if err := os.WriteFile(folder+"/config.json", config, 0o644); err != nil {
			t.Skip()
		}
		if err := os.WriteFile(folder+"/hf_quant_config.json", file, 0o644); err != nil {
			t.Skip()
		}
		o := verify.Options{Headers: true, Workers: 1, Host: verify.Host{TP: 3, GPU: "sm_90"}}
		if s, err := verify.ParseServe("", command); err == nil {
			o.Serve = append(o.Serve, s)
		}
		r, err := verify.Doctor(context.Background(), folder, o)
		if err == nil && r.Verdict != "ok" && r.Verdict != "warn" && r.Verdict != "fail" {
			t.Errorf("verdict %q", r.Verdict)
		}
		if err == nil {
			verify.SARIF(r, "1")
		}
	})
}
