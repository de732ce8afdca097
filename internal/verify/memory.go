package verify

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"seatsmith/internal/engine"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
)

// ParseMemory reads the memory of a card: "32GiB", "24564MiB" (as nvidia-smi prints it), "80GB" or a number of bytes.
func ParseMemory(s string) (int64, error) {
	digits := strings.TrimSpace(s)
	unit := 1.0
	for _, u := range []struct {
		name  string
		bytes float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"GB", 1e9}, {"MB", 1e6}, {"G", 1 << 30}, {"M", 1 << 20}} {
		if len(digits) > len(u.name) && strings.EqualFold(digits[len(digits)-len(u.name):], u.name) {
			digits, unit = strings.TrimSpace(digits[:len(digits)-len(u.name)]), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(n > 0) || n*unit < 1<<20 || n*unit > 1<<50 {
		return 0, fmt.Errorf("memory %q: want a size such as 32GiB or 24564MiB", s)
	}
	return int64(n * unit), nil
}

// memory judges whether the weights fit what a command gives the server (C31): a floor, without cache, activations and
// graphs. a is nil without a command: then the version's own share is taken, and the head is loaded where there is one.
//
// While the drafter loads it allocates an embedding and an lm_head of its own in BF16, before it shares the target's
// (vllm-project/vllm#53887); that is told as a warning, since it is given back.
func (j *judge) memory(a *engine.ServeArgs, tp int64, where string) {
	card := j.o.Host.Memory
	if card == 0 {
		j.skip("whether the weights fit the card's memory (--gpu-memory)", false)
		return
	}
	if j.srv == nil {
		j.skipUnread("whether the weights fit the card's memory, because the server's class could not be built")
		return
	}
	if a == nil {
		a = &engine.ServeArgs{GPUMemory: j.share(), Spec: &engine.Speculative{Method: "mtp"}}
	}
	if !(a.GPUMemory > 0 && a.GPUMemory <= 1) {
		return // told, where the command was read
	}
	drafts := a.Spec.MTP() && j.m.Head.Present > 0
	weights := int64(0)
	for i := range j.m.Tensors {
		switch t := &j.m.Tensors[i]; {
		case t.Role == model.RoleHead && !drafts, t.Role == model.RoleVision && a.LanguageModelOnly, t.Role == model.RoleOther:
		default:
			weights += t.Bytes()
		}
	}
	weights /= max(1, tp)
	arch := j.srv.Arch
	drafter := 2 * arch.Vocab * arch.Hidden * 2 / max(1, tp)
	room := int64(float64(card) * a.GPUMemory)
	share := fmt.Sprintf("%s of a card with %s", percent(a.GPUMemory), gib(card))
	switch {
	case weights > room:
		j.add(playbook.New("gpu-memory", where, fmt.Sprintf("the weights alone take %s on each rank, and %s is %s: the server stops", gib(weights), share, gib(room)),
			"serve with more ranks or a larger card, raise --gpu-memory-utilization, or quantize more"))
	case drafts && weights+drafter > room:
		j.add(playbook.New("gpu-memory", where, fmt.Sprintf("the weights take %s on each rank, the drafter %s more while it loads (an embedding and an lm_head in BF16), and %s is %s", gib(weights), gib(drafter), share, gib(room)),
			"leave more room, or serve without speculation").As(playbook.Warning))
	}
}

// share is what the version takes of a card when it is not told.
func (j *judge) share() float64 {
	if f, _ := j.engine.Flag("--gpu-memory-utilization"); f != nil {
		if text, ok := f.Default(j.engine.Version); ok {
			if v, err := strconv.ParseFloat(text, 64); err == nil {
				return v
			}
		}
	}
	return 0.9
}

func gib(n int64) string { return fmt.Sprintf("%.4g GiB", float64(n)/(1<<30)) }

func percent(share float64) string { return fmt.Sprintf("%g%%", math.Round(share*1000)/10) }
