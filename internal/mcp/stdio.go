package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/api"
)

// drainLimit bounds how long the end of the input waits for answers: longer
// than a ledger waits for a stage, twice.
const drainLimit = 70 * time.Second

// ServeStdio serves one client that writes newline-delimited JSON-RPC to in and
// reads it from out, until in ends, which is no error, or ctx does. What was
// asked before in ended is answered. Nothing but messages is written to out.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	to := &lineWriter{w: out, answered: make(chan struct{}, 1)}
	from, pass := io.Pipe()
	go func() { // ends with in, which belongs to the process
		err := s.filter(in, pass, to)
		to.drain(ctx)
		pass.CloseWithError(err)
	}()
	err := s.sdk.Run(ctx, &sdk.IOTransport{Reader: from, Writer: to})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// filter passes on the messages that the guard lets pass, one a line, and
// answers the others. It returns the error that ends in.
func (s *Server) filter(in io.Reader, pass io.Writer, out *lineWriter) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, whole, err := readLine(lines)
		var werr error
		if len(line) > 0 {
			m := tooLong(line)
			if whole {
				m = guard(line)
			}
			switch {
			case m.refusal == nil:
				if m.id != nil && m.method != "" && m.method != "subscriptions/listen" { // which is never answered
					out.asked()
				}
				_, werr = pass.Write(append(line, '\n'))
			case m.notifies:
				s.cfg.Logger.Debug("a notification is refused", "method", m.method) // nobody waits for an answer
			default:
				werr = out.line(m.refusal)
			}
		}
		if err := errors.Join(err, werr); err != nil {
			return err
		}
	}
}

// tooLong refuses a message of which only the beginning was read.
func tooLong(beginning []byte) *message {
	m := new(message)
	m.look(beginning)
	m.refuse(&fault{code: jsonrpc.CodeInvalidRequest, doc: &api.Error{Code: api.CodeTooLarge, Message: "the message is over 4 MiB",
		Hint: "send larger private values over HTTP: POST /v1/attempts takes up to 16 MiB"}})
	return m
}

// readLine reads a line without the white space around it. Of one that is
// longer than maxSeen it keeps the beginning, and whole is false. The last line
// may end with the input.
func readLine(r *bufio.Reader) (line []byte, whole bool, err error) {
	whole = true
	for {
		part, err := r.ReadSlice('\n')
		if keep := maxSeen - len(line); len(part) > keep {
			part, whole = part[:keep], false
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.Trim(line, " \t\r\n"), whole, err
		}
	}
}

// lineWriter writes whole lines of two writers, the protocol library and the
// guard, and knows how many requests the library has not answered. Closing it
// leaves the process's output open.
type lineWriter struct {
	answered chan struct{} // something was answered

	mu   sync.Mutex
	w    io.Writer
	open int // requests without an answer
}

func (l *lineWriter) asked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
}

// Write takes one message of the library, with its line end.
func (l *lineWriter) Write(p []byte) (int, error) {
	var m message
	m.look(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.w.Write(p)
	if m.method == "" {
		l.open--
		select {
		case l.answered <- struct{}{}:
		default:
		}
	}
	return n, err
}

// line writes a message of the guard.
func (l *lineWriter) line(message []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.w.Write(append(message, '\n'))
	return err
}

// drain waits until every request is answered, for a bounded time.
func (l *lineWriter) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	for {
		l.mu.Lock()
		open := l.open
		l.mu.Unlock()
		if open <= 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-l.answered:
		}
	}
}

// Close implements [io.Closer].
func (l *lineWriter) Close() error { return nil }
