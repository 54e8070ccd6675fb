package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"counterfoil/internal/bench/rig"

	"github.com/codenotary/immudb/embedded/logger"
	"github.com/codenotary/immudb/embedded/store"
	"github.com/codenotary/immudb/pkg/api/schema"
	"github.com/codenotary/immudb/pkg/database"
)

const (
	// immudbDefaults is how long immudb waits for more before it flushes.
	immudbDefaults = store.DefaultSyncFrequency
	// immudbQuick is a pause that suits clients that wait for their answers.
	immudbQuick = time.Millisecond
	immudbBatch = 256
)

// immudb is the database embedded, every answer flushed and verified by the
// client as immudb's own client does: inclusion of what it set, and that the
// state which this client knew before is part of the new one.
func immudb(pause time.Duration, batch int) rig.System {
	name := fmt.Sprintf("immudb, verified, flush after %s", pause)
	if batch > 1 {
		name += fmt.Sprintf(", batches of %d", batch)
	}
	return rig.System{Name: name, Open: func(_ context.Context, dir string, clients int) (rig.Recorder, error) {
		// A transaction at work, and one being read for its proof, a client.
		opts := database.DefaultOptions().WithDBRootPath(dir).WithReadTxPoolSize(max(database.DefaultReadTxPoolSize, 2*clients)).
			WithStoreOptions(store.DefaultOptions().WithSynced(true).WithSyncFrequency(pause).
				WithMaxConcurrency(max(store.DefaultMaxConcurrency, 2*clients)))
		db, err := database.NewDB("bench", nil, opts, logger.NewSimpleLoggerWithLevel("immudb", io.Discard, logger.LogError))
		if err != nil {
			return nil, err
		}
		return &immudbClients{db: db, batch: batch, value: value(), states: make([]immudbState, clients)}, nil
	}}
}

// immudbState is what one client knows of the database.
type immudbState struct {
	tx  uint64
	alh [sha256.Size]byte
}

type immudbClients struct {
	db     database.DB
	batch  int
	value  []byte
	states []immudbState // by client
	keys   atomic.Int64
}

var errImmudbProof = errors.New("immudb: the proof does not hold")

func (c *immudbClients) Record(ctx context.Context, client int) (int, error) {
	known := &c.states[client]
	req := &schema.VerifiableSetRequest{SetRequest: &schema.SetRequest{}, ProveSinceTx: known.tx}
	for range c.batch {
		req.SetRequest.KVs = append(req.SetRequest.KVs, &schema.KeyValue{Key: []byte("event-" + strconv.FormatInt(c.keys.Add(1), 10)), Value: c.value})
	}
	got, err := c.db.VerifiableSet(ctx, req)
	if err != nil {
		return 0, err
	}
	tx := schema.TxFromProto(got.Tx)
	digest, err := store.EntrySpecDigestFor(tx.Header().Version)
	if err != nil {
		return 0, err
	}
	for _, kv := range req.SetRequest.KVs {
		proof, err := tx.Proof(database.EncodeKey(kv.Key))
		if err != nil {
			return 0, err
		}
		e := database.EncodeEntrySpec(kv.Key, nil, kv.Value)
		if !store.VerifyInclusion(proof, digest(e), tx.Header().Eh) {
			return 0, fmt.Errorf("%w: inclusion of %s", errImmudbProof, kv.Key)
		}
	}
	id, alh := tx.Header().ID, tx.Header().Alh()
	if tx.Header().Eh != schema.DigestFromProto(got.DualProof.TargetTxHeader.EH) {
		return 0, fmt.Errorf("%w: another transaction", errImmudbProof)
	}
	if known.tx > 0 && !store.VerifyDualProof(schema.DualProofFromProto(got.DualProof), known.tx, id, known.alh, alh) {
		return 0, fmt.Errorf("%w: %d is not a continuation of %d", errImmudbProof, id, known.tx)
	}
	*known = immudbState{id, alh}
	return c.batch, nil
}

// Settle has nothing to wait for: a set is answered once it is indexed.
func (c *immudbClients) Settle(context.Context) error { return nil }

func (c *immudbClients) Close() error { return c.db.Close() }
