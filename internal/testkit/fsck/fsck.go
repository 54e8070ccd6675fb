// Package fsck lets tests check a stored log with Tessera's own checker, which
// derives every tile and the root again from the entry bundles. It shares no
// code with the packages under test.
package fsck

import (
	"context"
	"testing"
	"time"

	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"
)

// workers is more than one on purpose: with a single worker the checker of
// Tessera v1.0.4 hangs for ever at the first bad tile.
const workers = 8

// patience is how long a check may take. The checker can also hang with many
// workers, when each of them has met a bad tile.
const patience = 5 * time.Minute

// Check fails the test unless the log in logDir has a checkpoint of that origin
// signed by vkey, and every bundle and tile below it is what the leaves say.
func Check(t testing.TB, logDir, origin, vkey string) {
	t.Helper()
	if err := Error(t.Context(), logDir, origin, vkey); err != nil {
		t.Fatalf("fsck of %s: %v", logDir, err)
	}
}

// Error is Check for logs that are expected to be damaged.
func Error(ctx context.Context, logDir, origin, vkey string) error {
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, context.DeadlineExceeded)
	defer cancel()
	f := fsck.New(origin, verifier, client.FileFetcher{Root: logDir}, leafHashes, fsck.Opts{N: workers})
	done := make(chan error, 1)
	go func() { done <- f.Check(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func leafHashes(bundle []byte) ([][]byte, error) {
	var b api.EntryBundle
	if err := b.UnmarshalText(bundle); err != nil {
		return nil, err
	}
	hashes := make([][]byte, len(b.Entries))
	for i, e := range b.Entries {
		hashes[i] = rfc6962.DefaultHasher.HashLeaf(e)
	}
	return hashes, nil
}
