package mcp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/api"
)

// ServeStdio serves one client that writes newline-delimited JSON-RPC to in and
// reads it from out, until in ends, which is no error, or ctx does. Nothing else
// is written to out.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	to := &lineWriter{w: out}
	from, pipe := io.Pipe()
	go func() { // ends with in, which belongs to the process
		pipe.CloseWithError(s.filter(in, pipe, to))
	}()
	err := s.sdk.Run(ctx, &sdk.IOTransport{Reader: from, Writer: to})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// filter passes on the messages that the guard lets pass, one a line, and
// answers the others.
func (s *Server) filter(in io.Reader, pass io.Writer, answer io.Writer) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, size, err := readLine(lines)
		if len(line) > 0 {
			m := guard(line)
			if size > len(line) { // too large to say which call it was
				m = &message{}
				m.look(line)
				m.refuse(&fault{code: -32600, doc: &api.Error{Code: api.CodeTooLarge, Message: "the message is over 4 MiB", Hint: "send larger private values over HTTP"}})
			}
			switch {
			case m.refusal == nil:
				_, werr := pass.Write(append(line, '\n'))
				err = errors.Join(err, werr)
			case m.id == nil && m.method != "":
				s.cfg.Logger.Debug("a notification is refused", "method", m.method) // nobody waits for an answer
			default:
				_, werr := answer.Write(append(m.refusal, '\n'))
				err = errors.Join(err, werr)
			}
		}
		if err != nil {
			return err
		}
	}
}

// readLine reads a line without its end, and no more than maxSeen bytes of it;
// size is how long it is. A line may end with the input.
func readLine(r *bufio.Reader) (line []byte, size int, err error) {
	for {
		part, err := r.ReadSlice('\n')
		size += len(part)
		line = append(line, part[:min(len(part), maxSeen-len(line))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			trimmed := trimSpace(line)
			return trimmed, size - (len(line) - len(trimmed)), err
		}
	}
}

// trimSpace drops the white space of JSON around a line.
func trimSpace(b []byte) []byte {
	v := jsontext.Value(b)
	for len(v) > 0 && isSpace(v[0]) {
		v = v[1:]
	}
	for len(v) > 0 && isSpace(v[len(v)-1]) {
		v = v[:len(v)-1]
	}
	return v
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// lineWriter writes whole lines of two writers. Closing it leaves the
// process's output open.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// Close implements [io.Closer].
func (l *lineWriter) Close() error { return nil }
