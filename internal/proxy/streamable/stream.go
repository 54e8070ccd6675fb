package streamable

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"counterfoil/internal/proxy/traffic"
	"counterfoil/ledger/event"
)

// stream passes on server-sent events. Lines pass at once until an event has
// data; then the event is held until it is whole, and as long as the outcome of
// a call that it answers takes.
func (x *exchange) stream(body io.Reader) {
	flush := http.NewResponseController(x.w)
	_ = flush.Flush() // the client sees the headers
	lines := eventReader{in: bufio.NewReaderSize(body, 64<<10), limit: x.h.cfg.MaxMessage}
	for {
		part, err := lines.next()
		if len(part.raw) > 0 {
			packet := traffic.Read(part.data)
			x.end(x.s.conn.Answered(packet))
			if _, werr := x.w.Write(part.raw); werr != nil {
				return
			}
			_ = flush.Flush()
			x.s.conn.Forwarded(packet)
		}
		x.resumable = x.resumable || lines.hasID
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			if x.r.Context().Err() == nil {
				x.h.cfg.Log.Info("a stream of the server broke off", "error", err.Error())
			}
			x.broken = true
			return
		}
	}
}

// afterStream decides on calls whose stream ended before their answer. A client
// may ask for the rest of it.
func (x *exchange) afterStream() {
	if x.s.conn.Unanswered(x.packet) > 0 {
		reason := x.lost()
		if x.resumable && x.s.id != "" && reason != "cancelled" {
			time.AfterFunc(resumeWithin, func() {
				x.s.conn.Refuse(x.packet, event.StatusUnknown, []string{reason}, nil)
			})
		} else {
			x.s.conn.Refuse(x.packet, event.StatusUnknown, []string{reason}, nil)
		}
	}
	if x.broken {
		panic(http.ErrAbortHandler) // the client sees it break off too
	}
}

// part is what can be passed on together: an event with data, or a line.
type part struct {
	raw  []byte
	data []byte // empty without data
}

// eventReader cuts a stream into parts. The parts together are the stream.
type eventReader struct {
	in    *bufio.Reader
	limit int
	hasID bool // some event had an id: the stream can be resumed

	afterCR bool // a line feed that comes next belongs to the line before it
}

// next returns the next part. With an error the part holds what was read last.
func (e *eventReader) next() (p part, err error) {
	holding := false
	for {
		line, rest, err := e.line(e.limit - len(p.raw))
		p.raw = append(p.raw, line...)
		if err != nil {
			p.data = nil // an event without its end is none
			return p, err
		}
		text := bytes.TrimRight(line, "\r\n")
		switch {
		case rest:
		case len(text) == 0: // the end of an event
			return p, nil
		default:
			holding = e.field(&p, text, holding)
		}
		if !holding {
			return p, nil
		}
	}
}

// field reads one field and reports whether the event has data.
func (e *eventReader) field(p *part, text []byte, holding bool) bool {
	name, value, _ := bytes.Cut(text, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		if holding {
			p.data = append(p.data, '\n')
		}
		p.data = append(p.data, value...)
		return true
	case "id":
		e.hasID = true
	}
	return holding
}

// line reads a line with its end: LF, CR, or CR and LF. It does not wait for a
// line feed behind a carriage return: one that comes later is the rest of the
// line before, and no line of its own.
func (e *eventReader) line(limit int) (line []byte, rest bool, err error) {
	for {
		if _, err := e.in.Peek(1); err != nil {
			return line, false, err
		}
		buf, _ := e.in.Peek(e.in.Buffered())
		if e.afterCR && buf[0] == '\n' {
			e.afterCR = false
			_, _ = e.in.Discard(1)
			return []byte{'\n'}, true, nil
		}
		e.afterCR = false
		n := bytes.IndexAny(buf, "\r\n")
		end := n >= 0
		if n++; !end {
			n = len(buf)
		}
		if end && buf[n-1] == '\r' && n < len(buf) && buf[n] == '\n' {
			n++
		}
		if len(line)+n > limit {
			return line, false, fmt.Errorf("an event is over %d bytes", e.limit)
		}
		line = append(line, buf[:n]...)
		_, _ = e.in.Discard(n)
		if end {
			e.afterCR = line[len(line)-1] == '\r'
			return line, false, nil
		}
	}
}
