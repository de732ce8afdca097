package template_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"seatsmith/internal/prompt/ordered"
	"seatsmith/internal/prompt/template"
)

// clock is the moment at which the goldens were rendered.
var clock = time.Date(2026, 2, 3, 4, 5, 6, 789000000, time.UTC)

func goldens(t testing.TB) ordered.Value {
	data, err := os.ReadFile("testdata/goldens.json")
	if err != nil {
		t.Fatal(err)
	}
	v, err := ordered.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func field(v ordered.Value, key string) ordered.Value { m, _ := v.Get(key); return m }

// same compares a render with what Jinja2 gave: text, or the class of its exception.
func same(t *testing.T, name string, out template.Output, err error, want ordered.Value) {
	t.Helper()
	class, raises := want.Get("class")
	if !raises {
		if err != nil {
			t.Errorf("%s: %v; Jinja2 gives %q", name, err, want.TextOf("out"))
		} else if out.Text != want.TextOf("out") {
			t.Errorf("%s:\n got %q\nwant %q", name, out.Text, want.TextOf("out"))
		}
		return
	}
	var r *template.Raised
	if !errors.As(err, &r) {
		t.Errorf("%s: %q, %v; Jinja2 raises %s: %s", name, out.Text, err, class.Text(), want.TextOf("message"))
		return
	}
	if r.Class != class.Text() {
		t.Errorf("%s: raises %s; Jinja2 raises %s: %s", name, r, class.Text(), want.TextOf("message"))
	}
	if r.Class == "TemplateError" && r.Message != want.TextOf("message") {
		t.Errorf("%s: %q; Jinja2 says %q", name, r.Message, want.TextOf("message"))
	}
}

func TestEveryFeatureRendersOrRaisesAsInJinja2(t *testing.T) {
	g := goldens(t)
	cases := field(g, "cases").Items()
	if len(cases) < 160 {
		t.Fatalf("only %d golden templates", len(cases))
	}
	for _, c := range cases {
		var out template.Output
		tpl, err := template.Parse(c.TextOf("template"))
		if err == nil {
			out, err = tpl.Render(template.Input{Vars: field(g, "vars").Members(), Now: clock})
		}
		same(t, c.TextOf("name"), out, err, c)
	}
}

func TestTheFixturesTemplateRendersAsInJinja2(t *testing.T) {
	src, err := os.ReadFile("../../../testdata/tiny/chat_template.jinja")
	if err != nil {
		t.Fatal(err)
	}
	tpl, err := template.Parse(string(src))
	if err != nil {
		t.Fatal(err)
	}
	cases := field(goldens(t), "fixture").Items()
	if len(cases) < 15 {
		t.Fatalf("only %d conversations", len(cases))
	}
	for _, c := range cases {
		vars := field(c, "vars")
		out, err := tpl.Render(template.Input{Vars: vars.Members(), Now: clock})
		same(t, vars.String(), out, err, c)
	}
}

func render(t *testing.T, src string, limits template.Limits, vars ...ordered.Member) (template.Output, error) {
	t.Helper()
	tpl, err := template.Parse(src)
	if err != nil {
		return template.Output{}, err
	}
	return tpl.Render(template.Input{Vars: vars, Now: clock, Limits: limits})
}

func TestAHostileTemplateEndsWithinItsLimits(t *testing.T) {
	small := template.Limits{Steps: 200_000, Bytes: 1 << 20}
	nested := strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000)
	for name, src := range map[string]string{
		"endless loops":   "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
		"doubling text":   "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s | length }}",
		"doubling list":   "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"tilde":           "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
		"repeat":          "{{ 'ab' * 1000000000 }}",
		"repeat a list":   "{{ ([0] * 100000) * 100000 }}",
		"power":           "{{ 10 ** (10 ** 10) }}",
		"wide number":     "{% set ns = namespace(n=9) %}{% for i in range(60) %}{% set ns.n = ns.n * ns.n %}{% endfor %}",
		"wide format":     "{{ '%999999999d' % 1 }}",
		"wide center":     "{{ 'x' | center(1000000000) }}",
		"wide ljust":      "{{ 'x'.ljust(2000000000) }}",
		"wide indent":     "{{ 'x\\ny' | indent(1000000000) }}",
		"join":            "{{ range(100000) | join('x' * 1000) }}",
		"replace":         "{{ ('a' * 100000).replace('a', 'b' * 100000) }}",
		"recursion":       "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
		"mutual":          "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
		"recursive loop":  "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
		"caller":          "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}",
		"parentheses":     "{{ " + nested + " }}",
		"brackets":        "{{ " + strings.Repeat("[", 5000),
		"nots":            "{{ " + strings.Repeat("not ", 100000) + "1 }}",
		"minuses":         "{{ " + strings.Repeat("-", 100000) + "1 }}",
		"ifs":             strings.Repeat("{% if 1 %}", 5000),
		"targets":         "{% for " + strings.Repeat("(", 5000) + "a in b %}",
		"deep value":      "{% set ns = namespace(s=[]) %}{% for i in range(2000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}",
		"deep json":       "{% set ns = namespace(s=[]) %}{% for i in range(2000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s | tojson }}",
		"wide tree":       "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
		"wide tree equal": "{% set a = namespace(s=[1]) %}{% set b = namespace(s=[1]) %}{% for i in range(99) %}{% set a.s = [a.s, a.s] %}{% set b.s = [b.s, b.s] %}{% endfor %}{{ a.s == b.s }}{{ a.s < b.s }}",
		"wide tree key":   "{% set a = namespace(s=(1,)) %}{% for i in range(99) %}{% set a.s = (a.s, a.s) %}{% endfor %}{{ {a.s: 1} }}",
		"wide tree json":  "{% set a = namespace(s=(1,)) %}{% for i in range(99) %}{% set a.s = (a.s, a.s) %}{% endfor %}{{ a.s | tojson }}",
		"long list text":  "{% set s = 'a' * 1000 %}{{ ([s] * 60000) ~ '' }}",
		"long scans":      "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% if 'b' in s or s.find('b') > 0 or s | trim == 'b' %}{% endif %}{% endfor %}",
		"exponential map": "{{ range(90000) | map('string') | map('upper') | map('lower') | list }}",
	} {
		out, err := render(t, src, small)
		var raised *template.Raised
		var limit *template.Limit
		if !errors.As(err, &raised) && !errors.As(err, &limit) {
			t.Errorf("%s: %.40q, %v", name, out.Text, err)
		}
	}
}

func TestAHostileTemplateReachesNothing(t *testing.T) {
	for _, src := range []string{
		"{{ ''.__class__.__mro__[1].__subclasses__() }}",
		"{{ messages.__class__.__init__.__globals__ }}",
		"{{ range.__globals__['__builtins__']['open']('/etc/passwd').read() }}",
		"{{ self.__init__.__globals__ }}", "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
		"{{ namespace.__init__.__globals__ }}", "{{ ('' | attr('__class__')).__mro__ }}", "{{ ''['__class__']['__base__'] }}",
		"{{ '{0.__class__}'.format(1) }}", "{{ '{a.__init__}'.format(a=1) }}", "{{ 'x'.format_map({}) }}", "{{ 'x'.encode('utf-7') }}",
		"{% include '/etc/passwd' %}", "{% import '../secret' as s %}", "{% from 'x' import y %}", "{% extends 'http://example.org' %}",
		"{{ joiner.__init__ }}{{ joiner.__init__() }}", "{{ lipsum() }}", "{{ loop.__class__() }}",
	} {
		out, err := render(t, src, template.Limits{})
		if err == nil {
			t.Errorf("%s renders %q", src, out.Text)
		}
	}
}

func TestWhatIsNotKnownIsNeverARender(t *testing.T) {
	for _, src := range []string{
		"{{ range }}", "{{ [1] | map('string') }}", "{{ [3, 1] | random }}", "{{ 'straße' | upper }}", "{{ 'x' | urlencode }}",
		"{{ {'a': 1}.items() }}", "{{ '{:>5}'.format(1) }}", "{{ '\\N{DASH}' }}", "{% autoescape true %}{% endautoescape %}",
		"{{ strftime_now('%Q') }}", "{{ 1 is sameas 1 }}", "{{ [0.1, 0.2, 0.3] | sum }}", "{{ 5.5.is_integer }}",
	} {
		out, err := render(t, src, template.Limits{})
		var u *template.Unknown
		if !errors.As(err, &u) {
			t.Errorf("%s: %q, %v", src, out.Text, err)
		}
	}
}

func TestErrorsNameTheLineOfTheTemplate(t *testing.T) {
	_, err := render(t, "a\n\n{{ x.y }}\n", template.Limits{})
	if err == nil || !strings.Contains(err.Error(), "line 3") || !strings.Contains(err.Error(), "'x' is undefined") {
		t.Error(err)
	}
	_, err = render(t, "a\n{% if x %}\n{% nosuch %}", template.Limits{})
	if err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Error(err)
	}
}

func TestGenerationMarksTheAssistantsBytes(t *testing.T) {
	out, err := render(t, "{% generation %}héy{% endgeneration %}x{% for i in [1,2] %}{% generation %}{{ i }}{% endgeneration %},{% endfor %}", template.Limits{})
	if err != nil || out.Text != "héyx1,2," {
		t.Fatalf("%q, %v", out.Text, err)
	}
	got := ""
	for _, s := range out.Spans {
		got += "[" + out.Text[s.From:s.To] + "]"
	}
	if got != "[héy][1][2]" {
		t.Errorf("%s", got)
	}
}

func FuzzRender(f *testing.F) {
	g := goldens(f)
	for _, c := range field(g, "cases").Items() {
		f.Add(c.TextOf("template"))
	}
	vars := field(g, "vars").Members()
	f.Fuzz(func(t *testing.T, src string) {
		tpl, err := template.Parse(src)
		if err != nil {
			return
		}
		limits := template.Limits{Steps: 20_000, Bytes: 1 << 20}
		a, err := tpl.Render(template.Input{Vars: vars, Now: clock, Limits: limits})
		b, err2 := tpl.Render(template.Input{Vars: vars, Now: clock, Limits: limits})
		if a.Text != b.Text || (err == nil) != (err2 == nil) {
			t.Fatal("two renders differ")
		}
	})
}

func BenchmarkRenderFixture(b *testing.B) {
	src, err := os.ReadFile("../../../testdata/tiny/chat_template.jinja")
	if err != nil {
		b.Fatal(err)
	}
	tpl, err := template.Parse(string(src))
	if err != nil {
		b.Fatal(err)
	}
	vars := field(field(goldens(b), "fixture").Items()[7], "vars").Members()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tpl.Render(template.Input{Vars: vars}); err != nil {
			b.Fatal(err)
		}
	}
}
