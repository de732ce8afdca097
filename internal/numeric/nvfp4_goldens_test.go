package numeric_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"seatsmith/internal/numeric"
)

// Groups that share a global scale, as the peers form them. llm-compressor 0.13
// observers/helpers.py FUSED_LAYER_NAMES; modelopt's export finds every Linear that is fed by the same
// tensor, which adds the linear attention pair.
var (
	ctGroups = [][]string{{"q_proj", "k_proj", "v_proj"}, {"gate_proj", "up_proj"}}
	moGroups = append([][]string{{"in_proj_qkv", "in_proj_z"}}, ctGroups...)
)

// groupAmax is the largest magnitude over the tensor's group, itself included.
func (g *goldens) groupAmax(tensor string, groups [][]string) float32 {
	cut := strings.LastIndexByte(tensor, '.') + 1
	members := []string{tensor[cut:]}
	for _, group := range groups {
		if slices.Contains(group, tensor[cut:]) {
			members = group
		}
	}
	var amax float32
	for _, m := range members {
		if w := g.weights[tensor[:cut]+m]; w != nil {
			a, _ := numeric.AmaxBF16(w.data)
			amax = max(amax, a)
		}
	}
	return amax
}

// An encoder is one way to code NVFP4: the reference, or a fast path at some dispatch level.
type encoder func(q numeric.NVFP4, codes, scales, src []byte) int

func encodeNVFP4(e encoder, q numeric.NVFP4, src []byte) (codes, scales []byte, collapsed int) {
	codes, scales = make([]byte, len(src)/4), make([]byte, len(src)/32)
	collapsed = e(q, codes, scales, src)
	return codes, scales, collapsed
}

// nvfp4Schemes are all NVFP4 runs of the peers with max calibration.
var nvfp4Schemes = []struct {
	scheme  string
	math    map[string]numeric.Math // by device
	groups  [][]string
	codes   string // field of the codes
	global  string // field of the native global scale
	tensors int    // how many the peer coded
}{
	{"ct.nvfp4", both(numeric.CT, numeric.CT), ctGroups, "weight_packed", "weight_global_scale", 74},
	{"ct.nvfp4_own", both(numeric.CT, numeric.CT), nil, "weight_packed", "weight_global_scale", 24},
	{"ct.nvfp4_oneshot", both(numeric.CT, numeric.CT), ctGroups, "weight_packed", "weight_global_scale", 25},
	{"mo.nvfp4", both(numeric.Modelopt, numeric.ModeloptCPU), nil, "weight", "weight_scale_2", 74},
	{"mo.nvfp4_fused", both(numeric.Modelopt, numeric.ModeloptCPU), moGroups, "weight", "weight_scale_2", 5},
	{"mo.nvfp4_hf", both(numeric.Modelopt, numeric.ModeloptCPU), moGroups, "weight", "weight_scale_2", 25},
}

func both(cuda, cpu numeric.Math) map[string]numeric.Math {
	return map[string]numeric.Math{"cuda": cuda, "cpu": cpu}
}

// compareNVFP4 codes every weight of every scheme and compares codes, scales and global scale with what
// the peer stored.
func compareNVFP4(t *testing.T, e encoder) {
	g := readGoldens(t)
	var n tally
	for _, s := range nvfp4Schemes {
		for device, m := range s.math {
			tensors := g.tensors(t, s.scheme, s.codes)
			if len(tensors) != s.tensors {
				t.Errorf("%s: %d tensors, expected %d", s.scheme, len(tensors), s.tensors)
			}
			for _, tensor := range tensors {
				q := numeric.NewNVFP4(m, g.groupAmax(tensor, s.groups))
				codes, scales, _ := encodeNVFP4(e, q, g.weights[tensor].data)
				if tensor == "edge.all_zero" && m != numeric.CT {
					n.deliberate += 3 // see TestAnAllZeroTensorIsNotCopiedFromModelopt
					continue
				}
				n.compare(t, g, s.scheme, device, tensor, s.codes, codes)
				n.compare(t, g, s.scheme, device, tensor, "weight_scale", scales)
				n.compare(t, g, s.scheme, device, tensor, s.global, float32Bytes(q.Global))
			}
		}
	}
	n.settle(t, 1356, 6)
}

func TestNVFP4ReferenceEqualsThePeers(t *testing.T) {
	compareNVFP4(t, numeric.NVFP4.EncodeBF16Reference)
}

// modelopt 0.47 exports an all-zero tensor with global scale 0, NaN scales and every code 7, without a
// warning. This package writes what decodes to zero.
func TestAnAllZeroTensorIsNotCopiedFromModelopt(t *testing.T) {
	g := readGoldens(t)
	src := g.weights["edge.all_zero"].data
	for device, m := range both(numeric.Modelopt, numeric.ModeloptCPU) {
		q := numeric.NewNVFP4(m, 0)
		codes, scales, collapsed := encodeNVFP4(numeric.NVFP4.EncodeBF16Reference, q, src)
		if q.Global != 1 || collapsed != 0 || !bytes.Equal(codes, make([]byte, len(codes))) ||
			!bytes.Equal(scales, bytes.Repeat([]byte{0x38}, len(scales))) {
			t.Errorf("%v: global %v, %d collapsed, scales % x, codes % x", m, q.Global, collapsed, scales[:4], codes[:4])
		}
		if ws2 := g.find("mo.nvfp4", device, "edge.all_zero", "weight_scale_2").float32s(t)[0]; ws2 != 0 {
			t.Errorf("%v: the peer wrote weight_scale_2 %v", m, ws2)
		}
		if c := g.find("mo.nvfp4", device, "edge.all_zero", "weight_scale").data[0]; c&0x7f != 0x7f {
			t.Errorf("%v: the peer wrote scale %#02x, not NaN", m, c)
		}
		if c := g.find("mo.nvfp4", device, "edge.all_zero", "weight").data[0]; c != 0x77 {
			t.Errorf("%v: the peer wrote codes %#02x", m, c)
		}
	}
}

// The amax that modelopt's calibrator keeps, and the activation scale it derives from one.
func TestAmaxAndActivationScalesEqualThePeers(t *testing.T) {
	g := readGoldens(t)
	var n tally
	for _, scheme := range []string{"mo.nvfp4", "mo.nvfp4_fused", "mo.nvfp4_hf", "mo.fp8_tensor"} {
		for device, m := range both(numeric.Modelopt, numeric.ModeloptCPU) {
			for _, tensor := range g.tensors(t, scheme, "weight") {
				act := g.find(scheme, device, tensor, "input_amax").float32s(t)[0]
				scale := numeric.NewNVFP4(m, act).Global
				if scheme == "mo.fp8_tensor" {
					scale = numeric.FP8Scale(m, false, act)
				}
				n.compare(t, g, scheme, device, tensor, "input_scale", float32Bytes(scale))
				if scheme != "mo.nvfp4_hf" {
					amax := g.groupAmax(tensor, map[bool][][]string{true: moGroups}[scheme == "mo.nvfp4_fused"])
					n.compare(t, g, scheme, device, tensor, "weight_amax", float32Bytes(amax))
				}
			}
		}
	}
	n.settle(t, 506, 0)
}

// llm-compressor's oneshot swaps norm modules while it calibrates, so the amax behind its
// input_global_scale can be one or two BF16 steps from the plain model's; the rule itself is ours.
func TestActivationGlobalScaleOfOneshotFollowsTheSameRule(t *testing.T) {
	g := readGoldens(t)
	exact, near := 0, 0
	for _, tensor := range g.tensors(t, "ct.nvfp4_oneshot", "input_global_scale") {
		for _, device := range []string{"cuda", "cpu"} {
			stored := g.find("ct.nvfp4_oneshot", device, tensor, "input_global_scale").float32s(t)[0]
			amax := numeric.BF16FromFloat32(g.find("ct.nvfp4_oneshot", device, tensor, "input_amax").float32s(t)[0])
			found := false
			for step := -2; step <= 2; step++ {
				a := numeric.BF16ToFloat32(uint16(int(amax) + step))
				if numeric.NewNVFP4(numeric.CT, a).Global == stored {
					found = true
					if step == 0 {
						exact++
					}
				}
			}
			if found {
				near++
			} else {
				t.Errorf("%s.%s: %v is not the scale of any amax within two steps of %#04x", tensor, device, stored, amax)
			}
		}
	}
	t.Logf("%d scales, %d of them from the plain model's own amax", near, exact)
	if near != 50 || exact != 44 {
		t.Errorf("%d and %d scales", near, exact)
	}
}

// 7,680 amax values from 2^-40 to 2^20, and what torch and the tools made of them.
func TestScalarRulesEqualTorchOverASweepOfAmax(t *testing.T) {
	g := readGoldens(t)
	global := func(m numeric.Math) func(float32) float32 {
		return func(a float32) float32 { return numeric.NewNVFP4(m, a).Global }
	}
	fp8 := func(m numeric.Math, channel bool) func(float32) float32 {
		return func(a float32) float32 { return numeric.FP8Scale(m, channel, a) }
	}
	rules := []struct {
		array string
		rule  func(amax float32) float32
	}{
		{"ct_g.cuda", global(numeric.CT)},
		{"ct_g.cpu", global(numeric.CT)},
		{"rtruediv_2688.cuda", global(numeric.CT)},
		{"rtruediv_2688.cpu", global(numeric.CT)},
		{"recip_mul.cuda", global(numeric.CT)},
		{"recip_mul.cpu", global(numeric.CT)},
		{"mo_ws2.cuda", global(numeric.Modelopt)},
		{"mo_ws2.cpu", global(numeric.ModeloptCPU)},
		{"mo_ws2_of_bf16.cuda", global(numeric.Modelopt)},
		{"mo_ws2_of_bf16.cpu", global(numeric.ModeloptCPU)},
		{"div_448_bf16.cuda", fp8(numeric.CT, true)},
		{"div_448_bf16.cpu", fp8(numeric.CT, false)},
		{"div_448_f32.cuda", fp8(numeric.Modelopt, false)},
		{"div_448_f32.cpu", fp8(numeric.ModeloptCPU, true)},
		{"div_448_tensor0.cuda", fp8(numeric.ModeloptCPU, false)}, // a tensor divisor divides truly on CUDA too
		{"div_448_tensor0.cpu", fp8(numeric.ModeloptCPU, false)},
		{"div_6_bf16.cuda", func(a float32) float32 { return numeric.BF16ToFloat32(numeric.BF16FromFloat32(a / 6)) }},
		{"div_6_bf16.cpu", func(a float32) float32 { return numeric.BF16ToFloat32(numeric.BF16FromFloat32(a / 6)) }},
		{"div_6_f32.cuda", func(a float32) float32 { return a * (float32(1) / 6) }},
		{"div_6_f32.cpu", func(a float32) float32 { return a / 6 }},
	}
	amax := g.arrays["sweep.amax"].float32s(t)
	values := 0
	for _, r := range rules {
		want := g.arrays["sweep."+r.array].float32s(t)
		every := len(amax) / len(want)
		for i, w := range want {
			if got := r.rule(amax[i*every]); got != w {
				t.Errorf("%s of amax %v: got %v, torch gave %v", r.array, amax[i*every], got, w)
				break
			}
		}
		values += len(want)
	}
	t.Logf("%d arrays, %d values", len(rules), values)
	if values != 18*7680+2*512 {
		t.Errorf("compared %d values", values)
	}
}

// One block pair on which every variant of the arithmetic differs: amax 0x3f3f.
func TestTheWorkedExampleComesOutAsPublished(t *testing.T) {
	words := []uint16{
		0x3f3f, 0xbf00, 0x3e80, 0x3dcd, 0xbdcd, 0x3d80, 0xbcf6, 0x3c76, 0x3ecd, 0xbea9, 0x3e4d, 0xbe57, 0x3a83, 0xba83, 0, 0x8000,
		0, 0, 0, 0, 0, 0, 0, 0, 0x8000, 0x8000, 0x8000, 0x8000, 0x8000, 0x8000, 0x8000, 0x8000,
		0x33d7, 0xb457, 0x3301, 0xb22c, 0, 0, 0x33d7, 0x33d7, 0xb3d7, 0x3457, 0, 0, 0, 0, 0x3357, 0xb357,
		0x3d40, 0x3d20, 0x3ce0, 0x3ca0, 0x3c60, 0x3c20, 0x3bc0, 0x3b00, 0xbb00, 0xbbc0, 0xbc20, 0xbc60, 0xbca0, 0xbce0, 0xbd20, 0xbd40,
	}
	var src []byte
	for _, w := range words {
		src = binary.LittleEndian.AppendUint16(src, w)
	}
	row0 := "e7 24 1a 08 d5 b3 80 00 00 00 00 00 00 00 00 00 "
	tail := " 77 56 34 12 a9 cb ed ff"
	for _, want := range []struct {
		math   numeric.Math
		global uint32
		scales string
		codes  string
	}{
		{numeric.CT, 0x45620000, "7e 20 20 5e", row0 + "80 80 00 00 08 00 00 80" + tail},
		{numeric.Modelopt, 0x39918619, "7e 38 01 5e", row0 + "90 80 00 00 18 00 00 80" + tail},
		{numeric.ModeloptCPU, 0x39918618, "7e 38 01 5e", row0 + "90 80 00 00 18 00 00 80" + tail},
	} {
		amax, _ := numeric.AmaxBF16(src)
		q := numeric.NewNVFP4(want.math, amax)
		codes, scales, collapsed := encodeNVFP4(numeric.NVFP4.EncodeBF16Reference, q, src)
		if binary.LittleEndian.Uint32(float32Bytes(q.Global)) != want.global {
			t.Errorf("%v: global %v", want.math, q.Global)
		}
		if got := hex(scales); got != want.scales {
			t.Errorf("%v: scales %s, want %s", want.math, got, want.scales)
		}
		if got := hex(codes); got != want.codes {
			t.Errorf("%v: codes\n %s, want\n %s", want.math, got, want.codes)
		}
		if wantCollapsed := map[bool]int{true: 1}[want.math == numeric.CT]; collapsed != wantCollapsed {
			t.Errorf("%v: %d blocks collapsed, want %d", want.math, collapsed, wantCollapsed)
		}
	}
}
