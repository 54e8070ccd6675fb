// Package consumer follows the events of a log from any index on, and hands out
// nothing that it did not check.
//
//	src, err := tiles.HTTP("https://ledger.example/log", tiles.HTTPConfig{})
//	f, err := consumer.New(consumer.Config{Log: src, Trust: trustFile})
//	for batch, err := range f.Batches(ctx) {
//		…
//		err = store.Save(batch.Cursor().Append(nil))
//	}
//
// # What was checked when an event is handed out
//
//   - Its leaf is under a checkpoint that the log's key of the trust file signed
//     and that the witnesses cosigned as the policy asks. Leaf hashes are added
//     to the compact range of all leaves before them, and that, joined with the
//     rest of the tree, must give the checkpoint's root: a few nodes a batch, not
//     a proof a leaf.
//   - That checkpoint is consistent with each one that the log has shown before,
//     the one in the cursor included. A fork, a rollback, another root at the same
//     size is a *[HistoryError] with both notes, and nothing comes after it.
//   - The leaf is a record in its one spelling, of an event of this log, and a key
//     of the trust file that is valid at its index signed it.
//
// A leaf for which the last does not hold is handed out as what it is, with
// index, bytes, hash and the reason ([Event.Invalid]): no index is ever skipped.
// Whether an event is lawful in the life of its attempt is not checked here: see
// package lifecycle.
//
// # Where the leaves come from
//
// The tiles are enough ([Config.Log]), and are what counts. A [Feed], the event
// stream of the ledger or its NATS stream, brings leaves sooner and saves
// requests; what it brings is held back until a checkpoint covers it, and is
// then checked like everything else. A feed that fails or falls silent costs
// time and no event: the tiles are read instead.
//
// # At least once
//
// A cursor says where to go on and what was checked so far. Save it when what it
// covers is handled: after a crash some events come again, none is missing.
// [Run] does so.
//
// # Cost
//
// A follower starts no goroutine that outlives a call. It holds one batch, what
// the feed brought for the next, and 4 MiB of tiles. Nearly all time goes into
// one Ed25519 verification a leaf, on all processors.
//
//	config.go      what to follow, and whom to believe
//	follower.go    the loop: wait, read, check, hand out
//	checkpoint.go  which checkpoints count, and that they fit together;
//	               witnessed.go fetches the newest that has its cosignatures
//	batch.go       leaves under a root
//	inspect.go     records and their signatures
//	cursor.go      where to go on; store.go keeps it in a file
//	feed.go        leaves that come by another way; events.go is the ledger's
//	run.go         the whole loop with a cursor
package consumer
