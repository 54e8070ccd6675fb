package consumer

import (
	"fmt"
	"runtime"
	"sync"

	"counterfoil/ledger/event"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// Event is one leaf of the log. Nothing in it is to be changed.
type Event struct {
	Index uint64
	Hash  tiles.Hash // of the leaf, in the tree
	Leaf  []byte     // as it was logged
	// Record is the event with its signatures, and KeyID the key of the trust file
	// that signed it; nil and "" if Invalid is set.
	Record *event.Record
	KeyID  string
	// Invalid says why the leaf is no record that counts; nil if it is one.
	Invalid *Invalid

	batch *Batch
}

// Cursor goes on behind the event.
func (e *Event) Cursor() *Cursor {
	return e.batch.cursorAfter(int(e.Index-e.batch.Events[0].Index) + 1)
}

// Reasons of Invalid, as in the registry of parked leaves.
const (
	Unparseable  = "unparseable"   // it is no record in its one spelling
	WrongOrigin  = "wrong_origin"  // its event is of another ledger
	BadSignature = "bad_signature" // no signature counts
)

// Invalid says why a leaf is no record that counts.
type Invalid struct {
	Reason string
	// Key is why no signature counts, if that is the reason.
	Key    trust.KeyReason
	Detail string
}

func (i *Invalid) String() string { return i.Reason + ": " + i.Detail }

// inspect reads records and checks their signatures, on all processors: it is
// most of the work and needs no order.
func (f *Follower) inspect(events []Event) {
	workers := min(runtime.GOMAXPROCS(0), (len(events)+15)/16)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < len(events); i += workers {
				f.inspectOne(&events[i])
			}
		})
	}
	all.Wait()
}

func (f *Follower) inspectOne(e *Event) {
	rec, err := event.ParseRecord(e.Leaf)
	if err != nil {
		e.Invalid = &Invalid{Reason: Unparseable, Detail: err.Error()}
		return
	}
	if origin := f.cfg.Trust.Origin(); rec.Event.Ledger != origin {
		e.Invalid = &Invalid{Reason: WrongOrigin, Detail: fmt.Sprintf("event of ledger %s, expected %s", rec.Event.Ledger, origin)}
		return
	}
	key, err := f.cfg.Trust.EventKeys.Check(rec, e.Index)
	if err != nil {
		e.Invalid = &Invalid{Reason: BadSignature, Key: trust.ReasonOf(err), Detail: err.Error()}
		return
	}
	e.Record, e.KeyID = rec, key
}
