package api

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/transparency-dev/merkle/rfc6962"

	"counterfoil/ledger/event"
)

const (
	// eventsChunk is how many leaves are read at once for a stream.
	eventsChunk = 256
	// eventsPing is how often an idle stream shows that it lives.
	eventsPing = 15 * time.Second
)

// StreamedEvent is one line of GET /v1/events. A leaf that is no record that
// counts has parked, the reason, in place of record: consumers see every index.
type StreamedEvent struct {
	LeafIndex uint64         `json:"leafIndex"`
	LeafHash  string         `json:"leafHash"` // standard base64 of the RFC 6962 leaf hash
	EventID   string         `json:"eventId,omitempty"`
	Record    jsontext.Value `json:"record,omitzero"` // the leaf bytes
	Parked    string         `json:"parked,omitempty"`
	TreeSize  uint64         `json:"treeSize"` // of the checkpoint that covers it
}

// events serves GET /v1/events?from=INDEX: every published leaf in order, then
// new ones as they are published. NDJSON, or server-sent events whose id is the
// leaf index; Last-Event-ID resumes behind it. follow=false stops at the end.
// Where the log cannot be read, the answer is an error, or, once it has begun,
// the connection breaks behind the last event that is sound.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	if err := known(r.URL.Query(), "from", "follow"); err != nil {
		return err
	}
	from, err := startOf(r)
	if err != nil {
		return err
	}
	sse := strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	follow := true
	switch r.URL.Query().Get("follow") {
	case "", "true":
	case "false":
		follow = false
	default:
		return invalid("", "use true or false", "unknown value of the query parameter follow")
	}
	if sse {
		w.Header().Set("Content-Type", "text/event-stream")
	} else {
		w.Header().Set("Content-Type", "application/x-ndjson")
	}
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Time{}) // a follower stays as long as it likes
	sent := &sentWriter{w: w}
	out := bufio.NewWriterSize(sent, 64<<10)
	flush := func() error { return errors.Join(out.Flush(), rc.Flush()) }

	err = s.Events(r.Context(), from, follow, Follower{
		Event: func(e *StreamedEvent) error { return writeEvent(out, sse, e) },
		Flush: flush,
		Ping: func() error {
			if sse {
				_, err := out.WriteString(": still here\n\n")
				return err
			}
			return out.WriteByte('\n')
		},
	})
	switch {
	case err == nil:
		return nil
	case !sent.began && out.Buffered() == 0:
		return err
	}
	// An end in good order would say that there is no more: what is sound goes
	// out, and the connection breaks. The client resumes, and is told then.
	e := s.Explain("GET /v1/events", err)
	_ = flush() // the client is gone if this fails
	return fmt.Errorf("%w: %w", errBroken, e)
}

// errBroken ends an answer that has begun, so that the client sees that it is
// not whole.
var errBroken = errors.New("the answer breaks off")

// sentWriter knows whether anything was written.
type sentWriter struct {
	w     io.Writer
	began bool
}

func (s *sentWriter) Write(p []byte) (int, error) {
	s.began = true
	return s.w.Write(p)
}

// Follower takes a stream of events. An error of its functions means that it is
// gone.
type Follower struct {
	Event func(*StreamedEvent) error
	Flush func() error // all that is published was given
	Ping  func() error // nothing new for a while
}

// Events gives every published leaf from an index on to f, in order, and, if
// follow is set, new ones as they are published. It ends without an error when
// ctx ends, the follower is gone or the server ends its streams.
func (s *Server) Events(ctx context.Context, from uint64, follow bool, f Follower) error {
	ping := time.NewTicker(eventsPing)
	defer ping.Stop()
	for {
		size, changed := s.cfg.Ledger.Published()
		for from < size {
			to, gone := min(size, from+eventsChunk), false
			err := s.cfg.Ledger.Leaves(ctx, from, to, func(index uint64, leaf []byte) error {
				err := f.Event(s.streamed(index, leaf, size))
				gone = err != nil
				return err
			})
			if gone || ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read leaves from %d: %w", from, err)
			}
			from = to
		}
		if f.Flush() != nil || !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.ending:
			return nil
		case <-changed:
		case <-ping.C:
			if f.Ping() != nil {
				return nil
			}
		}
	}
}

func startOf(r *http.Request) (uint64, error) {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		n, ok := leafIndex(id)
		if !ok {
			return 0, invalid("", "send the id of the last event that you have seen", "Last-Event-ID is not a leaf index")
		}
		return n + 1, nil
	}
	v := r.URL.Query().Get("from")
	if v == "" {
		return 0, nil
	}
	n, ok := leafIndex(v)
	if !ok {
		return 0, invalid("", "from is the leaf index of the first event that you want", "from is not a leaf index")
	}
	return n, nil
}

// leafIndex reads an index in its one spelling.
func leafIndex(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 63)
	return n, err == nil && strconv.FormatUint(n, 10) == s
}

func (s *Server) streamed(index uint64, leaf []byte, size uint64) *StreamedEvent {
	out := &StreamedEvent{LeafIndex: index, TreeSize: size, LeafHash: base64.StdEncoding.EncodeToString(rfc6962.DefaultHasher.HashLeaf(leaf))}
	rec, err := event.ParseRecord(leaf)
	if err == nil {
		err = s.cfg.Ledger.Check(rec, leaf, index)
	}
	if err != nil {
		out.Parked = err.Error()
		return out
	}
	out.EventID, out.Record = rec.Digest().EventID(), leaf
	return out
}

func writeEvent(out *bufio.Writer, sse bool, e *StreamedEvent) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if sse {
		_, _ = out.WriteString("id: " + strconv.FormatUint(e.LeafIndex, 10) + "\nevent: record\ndata: ")
	}
	_, _ = out.Write(b)
	if sse {
		_ = out.WriteByte('\n')
	}
	return out.WriteByte('\n')
}
