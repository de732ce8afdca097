package peer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"seatsmith/internal/prompt/ordered"
	"seatsmith/internal/prompt/peer"
)

// The test binary is its own child, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		if err := peer.Child(os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func client(t *testing.T) *peer.Client {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := peer.Start(exe, "serve")
	t.Cleanup(c.Close)
	return c
}

func TestTheSecondEngineRendersWithKeysInOrder(t *testing.T) {
	c := client(t)
	v, err := ordered.DecodeString(`{"d":{"z":1,"a":1.50,"big":null}}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, src := range []string{"{{ d | tojson }}\n", "{% for k in d %}\n{{ k }}\n{% endfor %}", "{{ d | tojson }}\n"} {
		got, err := c.Render(context.Background(), src, "", v.Members())
		want := `{"z": 1, "a": 1.5, "big": null}`
		if strings.Contains(src, "for") {
			want = "z\na\nbig\n"
		}
		if err != nil || got != want {
			t.Errorf("%q: %q, %v", src, got, err)
		}
	}
	if got, err := c.Render(context.Background(), "{{ strftime_now('%Y') }}", "2026", nil); err != nil || got != "2026" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestADeadChildIsNoAnswerAndTheNextQuestionIsAnswered(t *testing.T) {
	c := client(t)
	for _, src := range []string{
		"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", // overflows the stack: nothing recovers from that
		"{{ nosuch | nosuch }}", "{% if %}",
	} {
		if out, err := c.Render(context.Background(), src, "", nil); !errors.Is(err, peer.ErrNoAnswer) {
			t.Errorf("%s: %q, %v", src, out, err)
		}
		if out, err := c.Render(context.Background(), "ok", "", nil); err != nil || out != "ok" {
			t.Errorf("after %s: %q, %v", src, out, err)
		}
	}
}

func TestAChildThatCannotStartIsNoAnswer(t *testing.T) {
	c := peer.Start("./no-such-program")
	defer c.Close()
	if _, err := c.Render(context.Background(), "x", "", nil); !errors.Is(err, peer.ErrNoAnswer) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := client(t).Render(ctx, "x", "", nil); err != nil && !errors.Is(err, peer.ErrNoAnswer) {
		t.Error(err)
	}
}

func TestServeRefusesWhatIsNotAQuestion(t *testing.T) {
	for _, in := range []string{"\xff\xff\xff\xff", "\x00\x00\x00\x05{}", "\x00\x00\x00\x02[", "\x00\x00\x00\x02{["} {
		if err := peer.Serve(strings.NewReader(in), &bytes.Buffer{}); err == nil {
			t.Errorf("%q was served", in)
		}
	}
}
