package streamable

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// parts reads a stream to its end.
func parts(t *testing.T, in io.Reader, limit int) (raw []byte, pieces, data []string, err error) {
	t.Helper()
	r := eventReader{in: bufio.NewReaderSize(in, 16), limit: limit}
	for {
		p, err := r.next()
		raw = append(raw, p.raw...)
		if len(p.raw) > 0 {
			pieces = append(pieces, string(p.raw))
		}
		if p.data != nil {
			data = append(data, string(p.data))
		}
		if err != nil {
			return raw, pieces, data, err
		}
	}
}

func TestEventsAreCutWhereTheyEnd(t *testing.T) {
	for _, c := range []struct {
		in     string
		pieces []string
		data   []string
	}{
		{"", nil, nil},
		{": a\n\ndata: x\n\n", []string{": a\n", "\n", "data: x\n\n"}, []string{"x"}},
		{"id: 1\r\ndata: x\r\ndata:y\r\n\r\n", []string{"id: 1\r\n", "data: x\r\ndata:y\r\n\r\n"}, []string{"x\ny"}},
		{"data: a\r\rdata: b\n\r\n", []string{"data: a\r\r", "data: b\n\r\n"}, []string{"a", "b"}},
		{"data\n\n", []string{"data\n\n"}, nil},
		{"data:  x\nevent: e\nid: 2\n\n", []string{"data:  x\nevent: e\nid: 2\n\n"}, []string{" x"}},
		{"data: x\n", []string{"data: x\n"}, nil}, // without an end it is no event
		{"dataset: x\n\n", []string{"dataset: x\n", "\n"}, nil},
		{"data: " + strings.Repeat("x", 40) + "\n\n: y", []string{"data: " + strings.Repeat("x", 40) + "\n\n", ": y"}, []string{strings.Repeat("x", 40)}},
	} {
		raw, pieces, data, err := parts(t, strings.NewReader(c.in), 100)
		if string(raw) != c.in || !slices.Equal(pieces, c.pieces) || !slices.Equal(data, c.data) || !errors.Is(err, io.EOF) {
			t.Errorf("%q: pieces %q, data %q, %v", c.in, pieces, data, err)
		}
	}
	if _, _, data, err := parts(t, strings.NewReader("data: 1\n\ndata: "+strings.Repeat("x", 100)+"\n\n"), 100); err == nil || errors.Is(err, io.EOF) || len(data) != 1 {
		t.Errorf("an event above the bound is read: %q, %v", data, err)
	}
}

// A line feed that comes later than its carriage return holds nothing up.
func TestALateLineFeedIsNoLine(t *testing.T) {
	pr, pw := io.Pipe()
	r := eventReader{in: bufio.NewReader(pr), limit: 100}
	go func() {
		for _, s := range []string{"data: x\r\n\r", "\n", ": y\r", "\ndata: z\r", "\n", "\r\n"} {
			_, _ = io.WriteString(pw, s)
		}
		pw.Close()
	}()
	for _, want := range []string{"data: x\r\n\r", "\n", ": y\r", "\n", "data: z\r\n\r\n"} {
		p, err := r.next()
		if string(p.raw) != want || err != nil {
			t.Errorf("got %q, %v, want %q", p.raw, err, want)
		}
	}
}

func FuzzEventsPassUntouched(f *testing.F) {
	for _, s := range []string{"data: a\r\n\r\n", "\r\r\n\n:\rdata", "id:1\ndata:{}\r\r", "\n\n\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		raw, _, data, err := parts(t, bytes.NewReader(in), 1<<20)
		if !bytes.Equal(raw, in) || !errors.Is(err, io.EOF) {
			t.Fatalf("%q became %q, %v", in, raw, err)
		}
		slow, _, same, _ := parts(t, iotest.OneByteReader(bytes.NewReader(in)), 1<<20)
		if !bytes.Equal(slow, in) || !slices.Equal(data, same) {
			t.Fatalf("byte by byte %q has data %q, else %q", in, same, data)
		}
	})
}
