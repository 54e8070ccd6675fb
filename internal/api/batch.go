package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/canon"
	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
)

const (
	// maxBatchItems bounds the lines of one batch.
	maxBatchItems = 10_000
	// maxBatchBytes bounds one batch.
	maxBatchBytes = 64 << 20
	// batchLanes is how many items are worked on at once. Items of one attempt
	// or one scope share a lane, so they keep their order.
	batchLanes = 64
)

// batchItem is one line of a batch: {"begin":{…}} or {"append":{…}}.
type batchItem struct {
	Begin  jsontext.Value `json:"begin,omitzero"`
	Append jsontext.Value `json:"append,omitzero"`
}

// batchAnswer is the answer to one line, in the order of the lines.
type batchAnswer struct {
	Line    int      `json:"line"` // from 1
	Status  int      `json:"status"`
	Receipt *Receipt `json:"receipt,omitempty"`
	Error   *Error   `json:"error,omitempty"`
}

// append adds the JSON of an answer to dst.
func (a *batchAnswer) append(dst []byte) ([]byte, error) {
	if a.Receipt == nil {
		b, err := json.Marshal(a, json.Deterministic(true))
		return append(dst, b...), err
	}
	o := object{b: append(dst, '{'), first: true}
	o.number("line", uint64(a.Line))
	o.number("status", uint64(a.Status))
	o.name("receipt")
	o.b = a.Receipt.Append(o.b)
	return append(o.b, '}'), nil
}

// work is one parsed line on its way.
type work struct {
	begin  *intake.Begin
	append *intake.Append
	res    *intake.Result
	err    error
}

// lane spreads work so that what must keep its order shares a lane.
func (w *work) lane() int {
	if w.begin != nil {
		return int(event.ScopeOf("", w.begin.Source.RuntimeID, w.begin.Source.InvocationID)[0]) % batchLanes
	}
	shard, _ := event.ShardOfAttempt(w.append.AttemptID)
	n := 0
	for i := 0; i < len(shard); i++ {
		n = n*16 + bytes.IndexByte([]byte("0123456789abcdef"), shard[i])
	}
	return n % batchLanes
}

// batch serves POST /v1/events:batch: NDJSON in, NDJSON out, one answer a line.
// A line that fails does not stop the others. The stage is waited for once.
func (s *Server) batch(w http.ResponseWriter, r *http.Request) error {
	stage, err := s.stage(r.URL.Query().Get("wait"))
	if err != nil {
		return err
	}
	items, err := readBatch(http.MaxBytesReader(w, r.Body, maxBatchBytes))
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return bodyTooLarge(maxBatchBytes)
	}
	if err != nil {
		return err
	}
	record, done := context.WithTimeout(r.Context(), s.cfg.WaitLimit)
	s.recordAll(record, items)
	done()

	last, any := uint64(0), false
	for _, it := range items {
		if it.res != nil {
			last, any = max(last, it.res.LeafIndex()), true
		}
	}
	var waitErr error
	if any {
		wait, cancel := context.WithTimeout(r.Context(), s.cfg.WaitLimit)
		waitErr = s.cfg.Ledger.Wait(wait, last, stage)
		cancel()
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	out := bufio.NewWriterSize(w, 64<<10)
	var line []byte
	for i, it := range items {
		if line, err = s.batchAnswer(r, i+1, it, stage, waitErr).append(line[:0]); err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return nil //nolint:nilerr // the client is gone; what was recorded stays recorded
		}
	}
	_ = out.Flush()
	return nil
}

func (s *Server) recordAll(ctx context.Context, items []*work) {
	var lanes [batchLanes][]*work
	for _, it := range items {
		if it.err == nil {
			l := it.lane()
			lanes[l] = append(lanes[l], it)
		}
	}
	var wg sync.WaitGroup
	for _, lane := range lanes {
		if len(lane) == 0 {
			continue
		}
		wg.Go(func() {
			for _, it := range lane {
				if it.begin != nil {
					it.res, it.err = s.cfg.Ledger.Begin(ctx, it.begin)
				} else {
					it.res, it.err = s.cfg.Ledger.Append(ctx, it.append)
				}
			}
		})
	}
	wg.Wait()
}

func (s *Server) batchAnswer(r *http.Request, line int, it *work, stage string, waitErr error) *batchAnswer {
	err := it.err
	if err == nil {
		err = waitErr
	}
	if err == nil {
		place, perr := s.cfg.Ledger.Place(r.Context(), it.res.LeafIndex(), proves(stage))
		if perr == nil {
			status := http.StatusOK
			if it.res.New {
				status = http.StatusCreated
			}
			return &batchAnswer{Line: line, Status: status, Receipt: NewReceipt(it.res.Rec, place, it.res.Openings)}
		}
		err = perr
	}
	e := s.Explain("batch line "+itoa(int64(line)), err)
	return &batchAnswer{Line: line, Status: e.status, Error: e}
}

// readBatch parses all lines before anything is recorded; a line that does not
// parse gets its own error, too many lines refuse the batch.
func readBatch(r io.Reader) ([]*work, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	var items []*work
	for {
		line, err := br.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		end := err != nil
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if len(items) == maxBatchItems {
				return nil, &Error{Code: CodeTooLarge, Message: "more than " + itoa(maxBatchItems) + " lines", Hint: "send several batches", status: http.StatusRequestEntityTooLarge}
			}
			items = append(items, parseItem(line))
		}
		if end {
			break
		}
	}
	if len(items) == 0 {
		return nil, invalid("", `send lines like {"begin":{…}} or {"append":{…}}`, "the batch is empty")
	}
	return items, nil
}

func parseItem(line []byte) *work {
	var raw batchItem
	if err := json.Unmarshal(line, &raw, json.RejectUnknownMembers(true)); err != nil {
		return &work{err: invalid("", `send lines like {"begin":{…}} or {"append":{…}}`, "not a batch item: "+canon.Syntax(err).Detail)}
	}
	w := &work{}
	switch {
	case (len(raw.Begin) > 0) == (len(raw.Append) > 0):
		w.err = invalid("", `send lines like {"begin":{…}} or {"append":{…}}`, "a batch item has either begin or append")
	case len(raw.Begin) > 0:
		w.begin, w.err = intake.ParseBegin(raw.Begin)
	default:
		w.append, w.err = intake.ParseAppend(raw.Append, "")
	}
	return w
}
