package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
)

// EventsOptions says what to follow.
type EventsOptions struct {
	// From is the leaf index of the first event.
	From uint64
	// Stop ends the sequence at the published size of the moment; otherwise it
	// goes on until ctx ends.
	Stop bool
	// Interrupted, if set, is told why a stream is being opened anew, and after
	// which pause.
	Interrupted func(err error, wait time.Duration)
}

// reasonDamaged is the reason of an [Error] where a file of the log is damaged.
const reasonDamaged = "log_damaged"

var (
	errSilent   = errors.New("the event stream went silent")
	errStopped  = errors.New("the consumer has had enough")
	errLongLine = fmt.Errorf("a line of the event stream is over %d bytes", MaxEventBytes)
)

// Events yields published leaves in the order of the log, every index once:
// what the stream repeats or leaves out ends the sequence with an error. A
// stream that breaks off or goes silent is opened anew at the next index, for
// as long as ctx lasts; one that cannot be opened at all the first time, or is
// refused, ends the sequence. With Stop, a log that is damaged ends it as well:
// an [Error] of reason log_damaged. The pair is either an event or the last error.
func (c *Client) Events(ctx context.Context, opts EventsOptions) iter.Seq2[*StreamedEvent, error] {
	return func(yield func(*StreamedEvent, error) bool) {
		next, wait, opened := opts.From, firstPause, false
		for {
			before := next
			err := c.eventsOnce(ctx, opts.Stop, &next, &opened, yield)
			switch {
			case errors.Is(err, errStopped):
				return
			case ctx.Err() != nil:
				yield(nil, context.Cause(ctx))
				return
			case err == nil && opts.Stop:
				return
			case err == nil:
				err = io.ErrUnexpectedEOF
			}
			var u *Unreachable
			var e *Error
			again := errors.Is(err, errSilent) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &u) ||
				errors.As(err, &e) && e.Status >= 500
			if opts.Stop && errors.As(err, &e) && e.Reason == reasonDamaged {
				again = false // whoever follows may wait until it is put right
			}
			if !opened || !again {
				yield(nil, err)
				return
			}
			if next > before {
				wait = firstPause
			}
			if opts.Interrupted != nil {
				opts.Interrupted(err, wait)
			}
			if err := c.cfg.Pause(ctx, wait); err != nil {
				yield(nil, err)
				return
			}
			wait = min(2*wait, longestPause)
		}
	}
}

// eventsOnce reads one stream from *next on, and moves it. It returns nil if
// the ledger ended the stream.
func (c *Client) eventsOnce(ctx context.Context, stop bool, next *uint64, opened *bool, yield func(*StreamedEvent, error) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	query := url.Values{"from": {itoa(*next)}}
	if stop {
		query.Set("follow", "false")
	}
	silence := time.AfterFunc(c.cfg.Idle, func() { cancel(errSilent) })
	defer silence.Stop()
	res, err := c.request(ctx, http.MethodGet, "/v1/events", query, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	*opened = true
	lines := bufio.NewReaderSize(res.Body, 64<<10)
	for {
		silence.Reset(c.cfg.Idle)
		line, err := readLine(lines)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			if errors.Is(context.Cause(ctx), errSilent) {
				return errSilent
			}
			if errors.Is(err, errLongLine) {
				return err
			}
			return &Unreachable{Server: c.Server(), Err: err}
		}
		if len(line) == 0 {
			continue // a sign of life
		}
		ev := &StreamedEvent{Raw: line}
		if err := json.Unmarshal(line, ev); err != nil { // not wrapped: its EOF is not the end of the connection
			return fmt.Errorf("line of the event stream at index %d: %v", *next, err)
		}
		if ev.LeafIndex != *next {
			return fmt.Errorf("the event stream shows leaf %d, expected %d", ev.LeafIndex, *next)
		}
		*next++
		silence.Stop() // what the consumer takes its time for is no silence of the ledger
		if !yield(ev, nil) {
			return errStopped
		}
	}
}

// readLine reads one line of at most MaxEventBytes. A line without its end is
// io.ErrUnexpectedEOF.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > MaxEventBytes {
			return nil, errLongLine
		}
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}
