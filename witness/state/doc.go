// Package state keeps what a witness must never forget: which logs it knows,
// and the latest checkpoint of each that it cosigned.
//
//	loglist.go   the list of logs, logs/v0
//	entry.go     one line of the journal
//	journal.go   append with one flush for many callers, compaction
//	guard.go     the high-water mark, the second copy of how far we were
//	open.go      start: compare journal and guard, cut an unfinished end
//	store.go     latest checkpoints, compare-and-swap
//	evidence.go  equivocation documents, bounded
//
// # Files
//
//	DIR/lock              held by the one process that serves
//	DIR/journal           one line an update; see entry.go
//	DIR/evidence/LOG/…    equivocation documents, LOG is hex(SHA-256(origin))
//	GUARD/high-water      the sequence and chain hash of the newest durable line
//	MARKER                the id of the state that a key signs with; beside the key
//
// # Durability
//
// An update is answered after two flushes: the line in the journal, then the
// high-water mark. Both come before the caller may send a signature out. So the
// mark is never ahead of the journal, and a journal that ends before the mark
// was restored from an older copy: [Open] refuses it. A process that dies
// anywhere leaves the old state or the new one.
//
// After a failed write or flush the store takes nothing more: what is on the
// disk is known again only after a new start.
//
// # What cannot be noticed
//
// If journal and guard are restored together from copies of the same moment,
// nothing in them says so. Put the guard on another disk, or outside of what is
// backed up. The marker beside the key notices a state that was lost or replaced
// altogether, not one that was set back.
package state
