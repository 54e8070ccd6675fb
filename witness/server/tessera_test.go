package server

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
)

// TestLOG10_TesseraIsCosigned: a log and a witness client that others wrote
// publish nothing without our cosignature, and start with an empty tree.
func TestLOG10_TesseraIsCosigned(t *testing.T) {
	l := newLog(t, origin, 0, 0, "") // for its key
	w := newWitness(t, 1_000_000, l)
	prefix, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	member, err := tessera.NewWitness(w.key.Verifier().String(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	driver, err := posix.New(ctx, posix.Config{Path: t.TempDir(), HTTPClient: http.DefaultClient})
	if err != nil {
		t.Fatal(err)
	}
	opts := tessera.NewAppendOptions().WithCheckpointSigner(l.signer).WithCheckpointInterval(100*time.Millisecond).
		WithCheckpointRepublishInterval(time.Hour).WithBatching(1, 10*time.Millisecond).
		WithWitnesses(tessera.NewWitnessGroup(1, member), &tessera.WitnessOptions{Timeout: 10 * time.Second})
	appender, shutdown, reader, err := tessera.NewAppender(ctx, driver, opts)
	if err != nil {
		t.Fatal(err)
	}
	awaiter := tessera.NewPublicationAwaiter(ctx, reader.ReadCheckpoint, 10*time.Millisecond)
	var checkpoint []byte
	for i := range 5 {
		future := appender.Add(ctx, tessera.NewEntry([]byte(fmt.Sprint("entry ", i))))
		if _, checkpoint, err = awaiter.Await(ctx, future); err != nil {
			t.Fatal(err)
		}
		w.verify(t, string(checkpoint), l)
	}
	if err := shutdown(ctx); err != nil {
		t.Error(err)
	}
	if now, _ := w.store.Latest(origin); now.Checkpoint.Size != 5 {
		t.Errorf("latest is %d", now.Checkpoint.Size)
	}
	if n := w.store.EvidenceCount(); n != 0 {
		t.Errorf("%d accusations of an honest log", n)
	}
}
