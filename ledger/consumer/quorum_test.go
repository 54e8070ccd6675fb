package consumer_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"counterfoil/ledger/consumer"
	"counterfoil/ledger/trust"
	"counterfoil/projections/leaftest"
)

// Without enough cosignatures nothing is handed out, and it is said who lacks.
func TestLOG12_WaitsForTheQuorum(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 20)
	l := newLog(t, id).add(leaves[:8]...)
	a, b, c := newWitness(t, "w.example/a"), newWitness(t, "w.example/b"), newWitness(t, "w.example/c")
	file := id.trust(t)
	file.Witnesses, file.Quorum = []trust.VerifierKey{a.key, b.key, c.key}, 2
	first := l.checkpoint()
	l.add(leaves[8:]...)
	second := l.checkpoint()

	serve := [][]byte{first, cosigned(t, first, a), cosigned(t, first, a, a), cosigned(t, first, a, c), second, cosigned(t, second, b), cosigned(t, second, b, c, a)}
	at := 0
	l.lie("checkpoint", func([]byte) []byte { return serve[at] })
	var told []string
	f := must(consumer.New(consumer.Config{Log: l.source(), Trust: file, Waiting: func(err error, _ time.Duration) {
		var q *consumer.QuorumError
		if !errors.As(err, &q) {
			t.Errorf("told %v", err)
		}
		told = append(told, err.Error())
	}, Pause: func(context.Context, time.Duration) error { at++; return nil }}))(t)
	batch := must(f.Next(t.Context()))(t)
	if at != 3 || batch.Checkpoint.Size != 8 || len(batch.Events) != 8 {
		t.Errorf("checkpoint %d of size %d gave %d events", at, batch.Checkpoint.Size, len(batch.Events))
	}
	batch = must(f.Next(t.Context()))(t)
	if at != 6 || batch.Checkpoint.Size != 20 || len(batch.Events) != 12 || string(batch.Note) != string(serve[6]) {
		t.Errorf("checkpoint %d of size %d gave %d events", at, batch.Checkpoint.Size, len(batch.Events))
	}
	if len(told) != 5 || !strings.Contains(told[1], "1 of 3") || !strings.Contains(told[1], "w.example/b") || !strings.Contains(told[4], "w.example/a") {
		t.Errorf("told %q", told)
	}
	// One that stops at the end says it, and does not wait for ever.
	at = 1
	events, err := collectErr(t, consumer.Config{Log: l.source(), Trust: file})
	var q *consumer.QuorumError
	if !errors.As(err, &q) || q.Size != 8 || len(events) > 0 {
		t.Errorf("%d events, %v", len(events), err)
	}
	// A policy beside the trust file counts instead of it, and may ask for more.
	policy := file.Policy()
	policy.Groups[0].K = 3
	at = 3
	if events, err := collectErr(t, consumer.Config{Log: l.source(), Trust: file, Policy: policy}); !errors.As(err, &q) || len(events) > 0 {
		t.Errorf("policy of 3: %d events, %v", len(events), err)
	}
	// A cursor of a time when less was asked is no way round.
	at = 3
	cursor := collect(t, consumer.Config{Log: l.source(), Trust: file})[3].Cursor()
	if events, err := collectErr(t, consumer.Config{Log: l.source(), Trust: file, Policy: policy, Cursor: cursor}); !errors.As(err, &q) || len(events) > 0 {
		t.Errorf("old cursor: %d events, %v", len(events), err)
	}
	at = 6
	same(t, collect(t, consumer.Config{Log: l.source(), Trust: file, Policy: policy, Cursor: cursor}), leaves, 4)
	// A cosignature without a time says nothing about the newest tree.
	l.lie("checkpoint", always(cosigned(t, timeless(t, first, b), a)))
	if events, err := collectErr(t, consumer.Config{Log: l.source(), Trust: file}); !errors.As(err, &q) || len(events) > 0 || !strings.Contains(err.Error(), "states no time") {
		t.Errorf("without a time: %d events, %v", len(events), err)
	}
}

// On a busy log the newest checkpoint never has its cosignatures. The newest that
// has them is enough, if it fits the others.
func TestLOG12_WitnessedCheckpointBehindTheNewest(t *testing.T) {
	id := newIdentity(t)
	leaves := records("a", 300)
	l := newLog(t, id).add(leaves[:50]...)
	a := newWitness(t, "w.example/a")
	file := id.trust(t)
	file.Witnesses, file.Quorum = []trust.VerifierKey{a.key}, 1
	early := cosigned(t, l.checkpoint(), a)
	l.add(leaves[50:280]...)
	middle := cosigned(t, l.checkpoint(), a)
	uncosigned := l.checkpoint()
	l.add(leaves[280:]...)
	const path = "checkpoint.witnessed"
	cfg := consumer.Config{Log: l.source(), Trust: file, Witnessed: consumer.WitnessedHTTP(l.http.URL, nil)}

	var q *consumer.QuorumError
	if events, err := collectErr(t, cfg); !errors.As(err, &q) || q.Size != 300 || len(events) > 0 {
		t.Errorf("404: %d events, %v", len(events), err)
	}
	l.lie(path, always(early))
	same(t, collect(t, cfg), leaves[:50], 0)
	served := early
	l.lie(path, func([]byte) []byte { return served })
	follow := cfg
	follow.Pause = func(context.Context, time.Duration) error { served = middle; return nil }
	f := must(consumer.New(follow))(t)
	for _, want := range []int{50, 230} {
		if b, err := f.Next(t.Context()); err != nil || len(b.Events) != want {
			t.Fatalf("batch of %d: %+v, %v", want, b, err)
		}
	}
	cursor := collect(t, cfg)[279].Cursor()
	l.lie(path, always(early)) // an older one is no rollback, and nothing new
	cfg.Cursor = cursor
	if events, err := collectErr(t, cfg); !errors.As(err, &q) || len(events) > 0 {
		t.Errorf("older: %d events, %v", len(events), err)
	}
	cfg.Cursor = nil
	for name, c := range map[string]struct {
		served []byte
		want   any
	}{
		"not cosigned":    {uncosigned, &q},
		"another history": {cosigned(t, id.signed(t, trust.Checkpoint{Origin: leaftest.Origin, Size: 200, Root: sha256.Sum256(nil)}), a), new(*consumer.HistoryError)},
		"no note":         {[]byte("x"), new(*consumer.CheckpointError)},
		"too long":        {make([]byte, 2*trust.MaxNoteBytes), new(*consumer.CheckpointError)},
	} {
		l.lie(path, always(c.served))
		if events, err := collectErr(t, cfg); !errors.As(err, c.want) || len(events) > 0 {
			t.Errorf("%s: %d events, %v", name, len(events), err)
		}
	}
}
