// Package projections is the read side: views that are folded from the log and
// from nothing else.
//
// The way of a leaf, in the order of the packages:
//
//	follow        reads the leaves of a published tree, proves that they are the
//	              ones under the checkpoint's root, judges each by the lifecycle
//	              rules, and hands what counts to the projections below
//	receipts      one row an event, one row an attempt, one row a parked leaf
//	search        which leaf indices carry a tool, an agent, a status …
//	stats         counts
//	dispositions  the latest review result of each contract and admission
//	contracts     the tool contracts in force, with their latest reviews
//	kv            the Badger database under all of them: rows and cursor change
//	              together or not at all; digest; generations
//	query         what API, UI and bundles read; checks rows against leaves
//
// # Rows
//
// Every row is a pure function of the leaves 0 … size−1, where size is in the
// cursor row. Keys start with one letter:
//
//	c                                  cursor: size, root, compact range
//	r ‖ index                          receipt row
//	e ‖ event digest                   index of the event's receipt row
//	a ‖ attempt                        folded attempt and the indices of its events
//	s ‖ scope                          the attempt that holds a sameness scope
//	p ‖ index                          parked leaf
//	x ‖ field ‖ string ‖ index / 256   which of 256 indices carry a value
//	z ‖ index / 256                    range of occurredAt among 256 indices
//	n                                  counts
//	d ‖ string kind ‖ string subject   latest disposition
//	t ‖ string name                    tool contract
//	v ‖ string run ‖ index             what a review run reviewed
//
// Integers in keys are 8-byte big-endian; strings are escaped (kv.AppendString),
// so that no value is a prefix of another. Keys that start with a byte below
// 0x10 are not derived from leaves alone (format, wording of errors) and are
// outside of the digest.
//
// # Digest
//
// The view digest at a size is SHA-256 over lp(key) ‖ lp(value) of every derived
// row in key order, lp being an 8-byte big-endian length before the bytes. It is
// the same for every way of cutting the leaves into batches, and after a rebuild.
//
// projections imports the formats of the ledger (event, lifecycle) and neither
// stream, log nor witness.
package projections
