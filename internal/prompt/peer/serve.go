package peer

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"runtime/debug"
	"strings"

	"github.com/ardanlabs/jinja"

	"seatsmith/internal/prompt/ordered"
)

// Limits of the child.
const (
	maxStack  = 64 << 20
	maxMemory = 1 << 30 // that the collector aims at
	maxFrame  = 512 << 20
)

// Child is the body of the hidden command: it bounds this whole process, then serves.
func Child(in io.Reader, out io.Writer) error {
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(maxMemory)
	limit()
	return Serve(in, out)
}

// Serve answers questions until the input ends. A frame is a length (4 bytes, big endian)
// and that many bytes. A question is a JSON object {"template", "now", "vars"}, where "template" is left out when it is that
// of the question before; an answer is a byte, '+' for a render and '-' for an error, and the text.
func Serve(in io.Reader, out io.Writer) error {
	r, w := bufio.NewReader(in), bufio.NewWriter(out)
	var compiled *jinja.Template
	var bad error
	for {
		frame, err := readFrame(r)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a question: %w", err)
		}
		q, err := ordered.Decode(frame)
		if err != nil {
			return fmt.Errorf("reading a question: %w", err)
		}
		if src, ok := q.Get("template"); ok {
			// Python turns CR LF into LF and drops the last newline when it loads a template; the library does neither.
			text := strings.TrimSuffix(strings.ReplaceAll(strings.ReplaceAll(src.Text(), "\r\n", "\n"), "\r", "\n"), "\n")
			compiled, bad = jinja.Compile(text)
		}
		mark, text := byte('-'), ""
		switch {
		case bad != nil:
			text = bad.Error()
		case compiled == nil:
			text = "no template was sent"
		default:
			vars, _ := q.Get("vars")
			if text, err = render(compiled, vars, q.TextOf("now")); err != nil {
				text = err.Error()
			} else {
				mark = '+'
			}
		}
		if err := writeFrame(w, append([]byte{mark}, text...)); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
		if err := w.Flush(); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
}

// render runs the library; a panic inside it is its answer.
func render(t *jinja.Template, vars ordered.Value, now string) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the library panicked: %v", p)
		}
	}()
	m := map[string]jinja.Value{}
	for _, v := range vars.Members() {
		m[v.Key] = fromJSON(v.Value)
	}
	if now != "" { // the library has no clock to set: a fixed text stands for every format
		m["strftime_now"] = jinja.NewCallable("strftime_now", func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
			return jinja.NewString(now), nil
		})
	}
	return t.RenderValues(m)
}

func fromJSON(v ordered.Value) jinja.Value {
	switch v.Kind() {
	case ordered.Bool:
		return jinja.NewBool(v.Bool())
	case ordered.String:
		return jinja.NewString(v.Text())
	case ordered.Number:
		text := v.Text()
		if n, ok := new(big.Int).SetString(text, 10); ok && n.IsInt64() {
			return jinja.NewInt(n.Int64())
		}
		var f float64
		_, _ = fmt.Sscan(text, &f) // a number that JSON allows
		return jinja.NewFloat(f)
	case ordered.Array:
		items := make([]jinja.Value, v.Len())
		for i, item := range v.Items() {
			items[i] = fromJSON(item)
		}
		return jinja.NewList(items)
	case ordered.Object:
		d := jinja.NewDict()
		for _, m := range v.Members() {
			d.AsDict().Set(m.Key, fromJSON(m.Value))
		}
		return d
	}
	return jinja.None()
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes; at most %d are read", n, maxFrame)
	}
	// The length is only believed as far as bytes come.
	var b strings.Builder
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return nil, fmt.Errorf("a frame of %d bytes ends early: %w", n, err)
	}
	return []byte(b.String()), nil
}

func writeFrame(w io.Writer, data []byte) error {
	if len(data) > maxFrame {
		return fmt.Errorf("a frame of %d bytes; at most %d are written", len(data), maxFrame)
	}
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(data)))
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
