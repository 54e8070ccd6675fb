package consumer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/tiles"
)

// Bounds of the event stream.
const (
	// maxEventLine bounds a line: a leaf of 65,535 bytes with its place, or as
	// much text about why it does not count.
	maxEventLine = 256 << 10
	// eventLines is how many lines are read ahead.
	eventLines = 64
	// eventSilence is after how long a stream without a sign of life is given up;
	// an idle one sends an empty line every 15 seconds.
	eventSilence = 45 * time.Second
)

// EventsConfig says which event stream to read.
type EventsConfig struct {
	// Server is the base URL of the ledger, like http://127.0.0.1:8480.
	Server string
	// Token is the bearer token.
	Token string
	// Client makes the requests; it should not follow redirects, which would carry
	// the token elsewhere. Default: one that does not.
	Client *http.Client
}

// Events is the feed of a ledger's event stream, GET /v1/events as NDJSON: a
// leaf comes the moment it is published, without polling. Close it.
type Events struct {
	cfg  EventsConfig
	base string
	open *eventStream
	next uint64 // index of the line that comes next from open
}

var _ Feed = (*Events)(nil)

// NewEvents makes the feed; it connects when it is asked.
func NewEvents(cfg EventsConfig) (*Events, error) {
	u, err := url.Parse(cfg.Server)
	if err != nil {
		return nil, fmt.Errorf("server of the event stream: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("server of the event stream %q: expected http:// or https:// and a host", u.Redacted())
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &Events{cfg: cfg, base: strings.TrimSuffix(u.String(), "/")}, nil
}

// Close ends the stream and waits for its end.
func (e *Events) Close() {
	if e.open != nil {
		e.open.close()
		e.open = nil
	}
}

// Next is that of [Feed]. Where the connection broke it fails once and opens a new
// one at the next call.
func (e *Events) Next(ctx context.Context, from uint64, most int) ([][]byte, error) {
	if e.open != nil && e.next != from {
		e.Close()
	}
	if e.open == nil {
		e.open, e.next = e.start(from), from
	}
	var leaves [][]byte
	for len(leaves) < most {
		var l eventLine
		var more bool
		if len(leaves) > 0 {
			select {
			case l, more = <-e.open.lines:
			default:
				return leaves, nil
			}
		} else {
			select {
			case l, more = <-e.open.lines:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		var err error
		if !more {
			err = e.open.err
		} else if l.index != e.next {
			err = fmt.Errorf("the event stream shows leaf %d, expected %d", l.index, e.next)
		}
		if err != nil {
			e.Close()
			if len(leaves) > 0 {
				return leaves, nil
			}
			return nil, err
		}
		leaves = append(leaves, l.leaf)
		e.next++
	}
	return leaves, nil
}

// eventStream is one answer that is being read.
type eventStream struct {
	lines chan eventLine
	err   error // why there are no more, once lines is closed
	end   context.CancelCauseFunc
}

type eventLine struct {
	index uint64
	leaf  []byte // nil for one that does not count: its bytes are not sent
}

// close ends the stream and waits until its goroutine has.
func (s *eventStream) close() {
	s.end(errEventsClosed)
	for range s.lines {
	}
}

var (
	errEventsClosed = errors.New("the event stream was closed")
	errEventsSilent = fmt.Errorf("the event stream gave no sign of life for %s", eventSilence)
)

func (e *Events) start(from uint64) *eventStream {
	ctx, end := context.WithCancelCause(context.Background())
	s := &eventStream{lines: make(chan eventLine, eventLines), end: end}
	go func() {
		defer end(errEventsClosed)
		s.err = e.run(ctx, s, from)
		if cause := context.Cause(ctx); cause != nil {
			s.err = cause
		}
		close(s.lines)
	}()
	return s
}

// run reads lines until there are no more; it never returns nil.
func (e *Events) run(ctx context.Context, s *eventStream, from uint64) error {
	silence := time.AfterFunc(eventSilence, func() { s.end(errEventsSilent) })
	defer silence.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+"/v1/events?from="+strconv.FormatUint(from, 10), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+e.cfg.Token)
	res, err := e.cfg.Client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s/v1/events: status %d, expected 200", e.base, res.StatusCode)
	}
	in := bufio.NewReaderSize(res.Body, 64<<10)
	for {
		silence.Reset(eventSilence)
		line, err := readLine(in)
		if err != nil {
			return fmt.Errorf("the event stream broke off: %w", err)
		}
		if len(line) == 0 {
			continue
		}
		var doc struct {
			LeafIndex uint64         `json:"leafIndex"`
			Record    jsontext.Value `json:"record"`
		}
		if err := json.Unmarshal(line, &doc); err != nil {
			return fmt.Errorf("a line of the event stream: %w", err)
		}
		if len(doc.Record) > tiles.MaxEntry {
			return fmt.Errorf("the event stream shows a record of %d bytes, a leaf has at most %d", len(doc.Record), tiles.MaxEntry)
		}
		silence.Stop() // what the consumer takes its time for is no silence
		select {
		case s.lines <- eventLine{index: doc.LeafIndex, leaf: doc.Record}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readLine reads one line of at most maxEventLine, without its end.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxEventLine {
			return nil, fmt.Errorf("a line has over %d bytes", maxEventLine)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}
