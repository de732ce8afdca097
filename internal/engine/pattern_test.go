package engine

import "testing"

// Python's re.match on these names, as computed with CPython 3.11; Unknown where Go cannot run the pattern, or could only
// run it with another meaning.
func TestPatternsMatchAsPythonDoesOrAreUnknown(t *testing.T) {
	const name = "language_model.model.layers.10.mlp.gate_proj"
	for _, c := range []struct {
		pattern string
		want    Answer
	}{
		{`.*gate_proj`, Yes},
		{`gate_proj`, No}, // anchored at the start
		{`language_model`, Yes},
		{`.*gate`, Yes}, // not anchored at the end
		{`.*gate$`, No},
		{`.*layers\.(9|10)\.`, Yes},
		{`x|language`, Yes},
		{`.*layers\.1\.`, No},
		{`(?i)LANGUAGE`, Yes},
		{`.*layers\.\d{2}\.`, Yes},
		{`.*[.]layers[.][^a-z]+[.]mlp`, Yes},
		{`[]l]anguage`, Yes},
		{`(?P<tower>language)_model`, Yes},
		{``, Yes},
		{`(?!mtp).*`, Unknown},
		{`.*(?<!q)_proj$`, Unknown},
		{`(.)\1`, Unknown},
		{`.*+x`, No}, // there is no x, whatever a possessive quantifier does
		{`.*+_proj`, Unknown},
		{`(?!x)y`, No}, // look-around only takes matches away
		{`(?!mtp)language`, Unknown},
		{`(?i)(?!x)LANGUAGE`, Unknown},
		{`(?!.*mlp).*router`, No},
		{`(?:(?!mtp).)*$`, Unknown},
		{`visual(?=\.blocks)`, No},
		{`(l)\1`, Unknown},
		{`(v)\1`, No},
		{`x(?i)*`, Unknown},
		{`a\13`, No},
		{`.{,3}anguage`, Unknown},
		{`v{,3}isual`, No},
		{`(?:lenguage){e<=1}`, Unknown},
		{`.*gate_proj\Z`, Unknown},
		{`\Qlanguage\E`, Unknown},
		{`[[a-z]--[x]]`, Unknown},
		{`language(?i)_MODEL`, Unknown},
		{`(language`, Unknown},
		{`language)(`, Unknown},
		{`(?x) language`, Unknown},
		{`längua`, Unknown},
	} {
		p := compile(c.pattern)
		if got := p.match(name); got != c.want {
			t.Errorf("re:%s on %s: %d, want %d", c.pattern, name, got, c.want)
		}
	}
}

// Each of the first list raised regex.error in the Python module regex (2026.5.9), each of the second compiled there.
func TestPatternsThatNoEngineCompilesAreKnown(t *testing.T) {
	for _, text := range []string{`(`, `)`, `a)(b`, `[z-a]`, `*x`, `+`, `?`, `\`, `\\\`, `(?P<a`, `a{2,1}`, `[abc`, `a**`, `a+*`, `(?!x`, `(*a)`, `a|*`, `(?=`, `.*(layers`} {
		if p := compile(text); p.bad == "" || p.match("mtp.fc") != Unknown {
			t.Errorf("re:%s: %q", text, p.bad)
		}
	}
	for _, text := range []string{``, `()`, `[)]`, `[(]`, `\(`, `(?!x)y`, `a*+`, `a++`, `[]a]`, `[a-z]`, `(?x)a#(`, `(?#()a`, `a{1,2}`, `a{2000}`, `[\)]`, `\\`, `{`, `a{`, `]`} {
		if p := compile(text); p.bad != "" {
			t.Errorf("re:%s: %s", text, p.bad)
		}
	}
}

func FuzzPatternNeverPanics(f *testing.F) {
	for _, s := range []string{`.*mtp.*`, `[`, `(?`, `\`, `{`, `[^]`, `a{2,1}`, `(?P<`} {
		f.Add(s, "mtp.fc")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		p := compile(pattern)
		if got := p.match(name); got != Yes && got != No && got != Unknown {
			t.Fatal(got)
		}
	})
}

func TestAnUnknownPatternDecidesNothing(t *testing.T) {
	m := newMapper(Engine{"vllm", newestRead}, &Arch{})
	compiled := map[string]*pattern{}
	for _, text := range []string{"(?!mtp).*", ".*mtp.*"} {
		p := compile(text)
		compiled[text] = &p
	}
	unsure := newEntries(m, []string{"re:(?!mtp).*"}, compiled)
	if a, by, err := ignored("mtp.layers.0.self_attn.qkv_proj", &unsure, packedDrafter); a != Unknown || by != "re:(?!mtp).*" || err != nil {
		t.Errorf("ignored: %d %q %v", a, by, err)
	}
	both := newEntries(m, []string{"re:(?!mtp).*", "re:.*mtp.*"}, compiled)
	if a, _, _ := ignored("mtp.layers.0.self_attn.qkv_proj", &both, packedDrafter); a != Yes {
		t.Errorf("an entry that surely matches does not decide: %d", a)
	}
	if _, found, by := findTarget("mtp.fc", "ColumnParallelLinear", &both, packedDrafter); found || by == "" {
		t.Error("a target after an unknown pattern was taken, though the pattern may come first")
	}
}
