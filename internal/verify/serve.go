package verify

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"seatsmith/internal/engine"
	"seatsmith/internal/playbook"
)

// Serve is a command that is to serve the checkpoint. Where names it in findings: "serve-args", or a service of a compose
// file.
type Serve struct {
	Where    string
	Args     *engine.ServeArgs
	Problems []engine.ArgProblem
}

// ParseServe reads a command line for an engine ("" is engine.Default).
func ParseServe(spec, line string) (Serve, error) {
	e, err := parseEngine(spec)
	if err != nil {
		return Serve{}, err
	}
	a, problems, err := engine.ParseServe(e, line)
	return Serve{Where: "serve-args", Args: a, Problems: problems}, err
}

func parseEngine(spec string) (engine.Engine, error) {
	if spec == "" {
		spec = engine.Default
	}
	return engine.Parse(spec)
}

// serve judges a command together with the checkpoint: what the server's parser makes of it, and where the two contradict.
func (j *judge) serve(s *Serve) {
	at := func(flag string) string { return s.Where + ": " + flag }
	for _, p := range s.Problems {
		f := playbook.New("serve-args", at(p.Flag), p.Message, p.Fix)
		if !p.Serious {
			f = f.As(playbook.Warning)
		}
		j.add(f)
	}
	a := s.Args
	if a == nil {
		return
	}
	if a.Spec.MTP() && j.m.Head.Present == 0 && !j.notes.any("head-missing") {
		j.add(playbook.New("serve-headless", at("--speculative-config"), "the command drafts with the model's own head, and the checkpoint has none: the server stops, or drafts from uninitialised memory",
			"lay a head over it (seatsmith graft), or leave speculation out"))
	}
	j.flagMethod(a, at)
	text := j.srv != nil && j.srv.Arch.Vision == nil
	if a.LanguageModelOnly && text {
		j.add(playbook.New("serve-args", at("--language-model-only"), "the checkpoint has no vision tower, so there is nothing to leave out", "take it out").As(playbook.Warning))
	}
	if a.TensorParallel > 1 && a.TensorParallel != j.o.Host.TP {
		data := a.Values["--mm-encoder-tp-mode"]
		j.parallel(a.TensorParallel, at("--tensor-parallel-size"), !a.LanguageModelOnly && !(len(data) > 0 && data[len(data)-1] == "data"))
	}
	j.memory(a, max(a.TensorParallel, 1), at("--gpu-memory-utilization"))
	if a.Spec.MTP() {
		// C34: the command is right for serving; nothing here says whether somebody measures through it
		j.skip("what is measured through a server that drafts: prompt_logprobs are wrong for some requests there (vllm-project/vllm#53488), so score quality without --speculative-config", false)
	}
	if cache := a.KVCacheDtype; strings.HasPrefix(cache, "fp8") && len(j.caches) == 0 && !j.notes.names("kv_cache_scheme", "kv-scale-missing") {
		j.add(playbook.New("kv-scale-missing", at("--kv-cache-dtype"), fmt.Sprintf("%s keeps keys and values in FP8, and the checkpoint has no scales for them; the server uses 1.0", cache),
			"leave the flag out, or calibrate the cache").As(playbook.Warning))
	}
	if most := gjson.GetBytes(j.config, "text_config.max_position_embeddings").Int(); most > 0 && a.MaxModelLen > most && a.Env["VLLM_ALLOW_LONG_MAX_MODEL_LEN"] != "1" {
		j.add(playbook.New("serve-args", at("--max-model-len"), fmt.Sprintf("%d is more than max_position_embeddings, %d: the server stops", a.MaxModelLen, most), "give at most "+strconv.FormatInt(most, 10)))
	}
}

// flagMethod holds --quantization against the block (vLLM 017e9f4448, config/model.py _verify_quantization: the two must
// be one method).
func (j *judge) flagMethod(a *engine.ServeArgs, at func(string) string) {
	switch flag := a.Quantization; {
	case flag == "":
	case j.quant == nil:
		j.add(playbook.New("serve-quantization", at("--quantization"), fmt.Sprintf("%q is asked for, and config.json says nothing of it: the server quantizes what is not quantized, or stops", flag), "take the flag out: the server reads the method from config.json"))
	case flag != j.quant.Method && flag != j.quant.Written:
		j.add(playbook.New("serve-quantization", at("--quantization"), fmt.Sprintf("%q is asked for, and config.json says %q: the server stops", flag, j.quant.Method), "take the flag out: the server reads the method from config.json"))
	}
}
