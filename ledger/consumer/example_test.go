package consumer_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"

	"counterfoil/ledger/consumer"
	"counterfoil/ledger/event"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/tlog"
	"counterfoil/ledger/trust"
	"counterfoil/projections/leaftest"
)

// A consumer that handles events one batch at a time, and goes on where it
// stopped.
func ExampleRun() {
	log, trustFile, dir := exampleLog()
	defer os.RemoveAll(dir)
	run := func() {
		cfg := consumer.Config{Log: log, Trust: trustFile, Stop: true}
		err := consumer.Run(context.Background(), cfg, consumer.File(filepath.Join(dir, "cursor")), func(_ context.Context, b *consumer.Batch) error {
			for _, e := range b.Events {
				if e.Invalid != nil {
					fmt.Println(e.Index, e.Invalid.Reason)
					continue
				}
				fmt.Println(e.Index, e.Record.Event.Lifecycle, e.Record.Event.Source.InvocationID)
			}
			return nil
		})
		fmt.Println("end:", err)
	}
	run()
	run()
	// Output:
	// 0 attempt call-1
	// 1 attempt call-2
	// 2 unparseable
	// end: <nil>
	// end: <nil>
}

// An own loop, and an own place for the cursor.
func ExampleFollower_Events() {
	log, trustFile, dir := exampleLog()
	defer os.RemoveAll(dir)
	ctx := context.Background()
	f, err := consumer.New(consumer.Config{Log: log, Trust: trustFile, From: 1, Stop: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	var saved []byte
	for e, err := range f.Events(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Index)
		saved = e.Cursor().Append(nil)
		break
	}
	cursor, err := consumer.ParseCursor(saved)
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err = consumer.New(consumer.Config{Log: log, Trust: trustFile, Cursor: cursor, Stop: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := f.Next(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(b.Events[0].Index, "under size", b.Checkpoint.Size)
	_, err = f.Next(ctx)
	fmt.Println(err)
	// Output:
	// 1
	// 2 under size 3
	// end of the log
}

// exampleLog makes a log of two records and a leaf that is none.
func exampleLog() (log tiles.Source, file *trust.File, dir string) {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "consumer-example-")
	check(err)
	skey, vkey, err := note.GenerateKey(rand.Reader, leaftest.Origin)
	check(err)
	signer, err := note.NewSigner(skey)
	check(err)
	l, err := tlog.Open(ctx, tlog.Config{Dir: filepath.Join(dir, "log"), GuardDir: filepath.Join(dir, "guard"), Origin: leaftest.Origin, Signer: signer,
		VerifierKey: vkey, Create: true, CheckLeaf: func(uint64, []byte) error { return nil }, Logger: slog.New(slog.DiscardHandler)})
	check(err)
	_, err = l.Append(ctx, [][]byte{leaftest.Leaf(leaftest.Begin("call-1", nil)), leaftest.Leaf(leaftest.Begin("call-2", nil)), []byte("no record")})
	check(err)
	_, err = l.Publish(ctx)
	check(err)
	check(l.Close(ctx))

	key, err := trust.ParseVerifierKey(vkey)
	check(err)
	pub := leaftest.Key.Public().(ed25519.PublicKey)
	keys, err := trust.NewEventKeys([]trust.EventKey{{KeyID: event.KeyID(pub), PublicKey: pub}})
	check(err)
	return tiles.Dir(filepath.Join(dir, "log")), &trust.File{Log: key, EventKeys: keys}, dir
}
