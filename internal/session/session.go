// Package session turns recorded MCP sessions into evidence: every tools/call
// of the client becomes a begin, and what came of it an outcome.
//
// # The file
//
// A recording has one message a line, in the order in which they passed:
//
//	{"at": RFC 3339 time, "dir": "client"|"server", "message": the JSON-RPC message as sent}
//
// These three members are read strictly. The message itself may hold anything:
// other methods, unknown members, numbers and strings that JSON can only just
// spell. A line has at most [MaxLineBytes], a file at most [MaxFileBytes]; it is
// streamed, and what is kept in memory are the calls without an answer and the
// tools that were listed.
//
// # What becomes what
//
// The source's runtimeId is "mcp-session:" and the first 32 hex digits of the
// SHA-256 of the file, so recording a file again finds what is there. Its
// invocationId is the call's number in the file and its JSON-RPC id, for
// example 3:17 or 4:"a": ids may be reused once they are answered.
//
//	result                              succeeded
//	result with isError true            failed   tool_error
//	error                               failed   protocol_error
//	no answer, cancelled by the client  unknown  cancelled
//	no answer                           unknown  response_missing
//
// A call that starts a task is answered by the result of tasks/result, since
// the first answer only says that the task was accepted. An answer that could
// belong to two open calls with one id belongs to neither: both end unknown.
// A call without an answer ends when the recording does, or when the client
// initialises anew. A last line that breaks off, without a line end, is not
// part of the recording: it ends before it.
//
// Arguments and answers are private values: they travel as JSON where canonical
// JSON carries them exactly, and as the bytes that were recorded otherwise.
//
// Source: MCP 2025-11-25, JSON-RPC 2.0, requirements EVI-06, EVI-07, EVI-09,
// EVI-13, EVI-22.
package session

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"counterfoil/ledger/client"
)

// Bounds of a recording.
const (
	// MaxLineBytes bounds a line, and so each private value: the ledger takes
	// as much.
	MaxLineBytes = 16 << 20
	// MaxFileBytes bounds a file.
	MaxFileBytes = 1 << 30
	// MaxCalls bounds the calls of a file.
	MaxCalls = 1 << 20
	// MaxOpen bounds the requests that wait for an answer at one time.
	MaxOpen = 1 << 16
	// MaxTools bounds the tools whose annotations are kept; later ones count
	// as not annotated.
	MaxTools = 1 << 14
)

// Step is one thing to record: the begin of a call, or its outcome. Exactly one
// of the two is set. The outcome's attemptId is left for whoever sends the
// steps: it is known from the receipt of the begin with the same Call.
type Step struct {
	Call    int // number of the call in the file, from 1
	Line    int // line that it comes from, from 1
	Begin   *client.Begin
	Outcome *client.Append
}

// LineError says which line of a recording was refused.
type LineError struct {
	Line   int
	Detail string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Detail) }

// Reader reads the steps of one recording. It is not safe for concurrent use.
type Reader struct {
	src      io.ReadSeeker
	in       *bufio.Reader
	sum      hash.Hash // of what Next has read
	digest   [sha256.Size]byte
	line     int
	at       string // of the newest line
	finished bool
	torn     int

	conn  *connection
	calls int
	queue []*Step
}

// NewReader reads r once to know its digest, and starts again from its first
// byte for the steps. It refuses what is over MaxFileBytes.
func NewReader(r io.ReadSeeker) (*Reader, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(r, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the recording: %w", err)
	}
	if n > MaxFileBytes {
		return nil, fmt.Errorf("the recording is over %d bytes (hint: split it between two sessions)", MaxFileBytes)
	}
	if n == 0 {
		return nil, errors.New("the recording is empty")
	}
	out := &Reader{src: r}
	h.Sum(out.digest[:0])
	return out, out.rewind()
}

// rewind starts the steps again from the first.
func (r *Reader) rewind() error {
	if _, err := r.src.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the recording again from its start: %w (hint: name a file, not a pipe)", err)
	}
	*r = Reader{src: r.src, digest: r.digest, sum: sha256.New(), conn: newConnection()}
	r.in = bufio.NewReaderSize(io.TeeReader(io.LimitReader(r.src, MaxFileBytes+1), r.sum), 64<<10)
	return nil
}

// Check reads the whole recording for what [Reader.Next] would refuse, and
// starts the steps again from the first.
func (r *Reader) Check() error {
	if err := r.rewind(); err != nil {
		return err
	}
	for {
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			return r.rewind()
		} else if err != nil {
			return err
		}
	}
}

// RuntimeID names the recording by its content.
func (r *Reader) RuntimeID() string { return "mcp-session:" + r.TraceID() }

// TraceID is the trace of all calls of the recording.
func (r *Reader) TraceID() string { return hex.EncodeToString(r.digest[:16]) }

// Implementation is the server that the client spoke to last.
func (r *Reader) Implementation() string { return r.conn.implementation }

// TornLine is the number of the last line if it breaks off, which is known at
// the end of the recording; 0 if it does not.
func (r *Reader) TornLine() int { return r.torn }

// Next returns the next step in the order of the recording, and io.EOF after
// the last. A line that is refused is a *LineError; the steps before it hold.
func (r *Reader) Next() (*Step, error) {
	for {
		if len(r.queue) > 0 {
			s := r.queue[0]
			r.queue = r.queue[1:]
			return s, nil
		}
		if r.finished {
			return nil, io.EOF
		}
		if err := r.advance(); err != nil {
			return nil, err
		}
	}
}

// advance reads one line and queues its steps; at the end, those of the calls
// that nothing was heard of.
func (r *Reader) advance() error {
	raw, ended, err := r.readLine()
	if errors.Is(err, io.EOF) {
		if !bytes.Equal(r.sum.Sum(nil), r.digest[:]) {
			return errors.New("the recording changed while it was read (hint: record it when it is complete)")
		}
		r.finished = true
		r.endOpenCalls()
		return nil
	}
	if err != nil {
		return err
	}
	l, err := parseLine(raw)
	if r.line > 1 && !ended && errors.Is(err, io.ErrUnexpectedEOF) {
		r.torn = r.line // whoever wrote it was stopped: the recording ends before it
		return nil
	}
	if err != nil {
		return &LineError{r.line, err.Error()}
	}
	r.at = l.at
	for _, m := range l.messages {
		if l.fromClient {
			err = r.fromClient(m)
		} else {
			r.fromServer(m)
		}
		if err != nil {
			return &LineError{r.line, err.Error()}
		}
	}
	return nil
}

// readLine returns the next line without its end, in memory of its own, and
// whether it had one.
func (r *Reader) readLine() (text []byte, ended bool, err error) {
	r.line++
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if len(line)+len(part) > MaxLineBytes+1 {
			return nil, false, &LineError{r.line, fmt.Sprintf("over %d bytes", MaxLineBytes)}
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], true, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, false, nil
		case errors.Is(err, io.EOF):
			return nil, false, io.EOF
		default:
			return nil, false, fmt.Errorf("read line %d: %w", r.line, err)
		}
	}
}
