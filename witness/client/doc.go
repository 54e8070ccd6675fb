// Package client gathers cosignatures for the checkpoints of one log from the
// witnesses of a tlog-policy, beside publishing: nothing here is waited for by
// whoever signs checkpoints or takes events.
//
//	quorum.go     who counts, and how many meet the quorum
//	board.go      which checkpoint a witness is asked for
//	exchange.go   one request and its answer, C2SP tlog-witness
//	worker.go     one witness: ask, back off, ask again
//	incident.go   a witness that is ahead of the log, or has another root
//	store.go      what is kept in Config.Dir
//	gatherer.go   the whole, and what others read of it
//
// # Whom is asked for what
//
// Every witness with a URL has a goroutine of its own, which knows the old size
// to send to it and how long to wait after a failure. It asks for the newest
// checkpoint, unless others have signed, or are asked for, another one that can
// still meet the quorum: two witnesses that each sign whatever is newest when
// they are free would rarely sign the same tree. Checkpoints that were published
// in between are left out.
//
// # What counts
//
// A line counts if the key of the witness that was asked verifies it over the
// checkpoint that was offered, with a time that is not zero. Other lines are
// ignored.
//
// # Durability
//
// Cosignatures are stored before a checkpoint counts as witnessed. The old sizes
// are those of the stored cosignatures; one that is out of date costs a 409 and
// is corrected by it. A cosignature that was lost on the way is asked for again:
// the witness then gives one for the tree that it already has.
//
// # Incidents
//
// A witness that is ahead of the log, or says that a tree does not follow from
// its own, is an incident, and kept. Its own checkpoint is then fetched. If the
// log's key signed that, and the log's tree does not hold it, the log was set
// back or forked: [Gatherer.Permit] refuses from then on, also after a new
// start, until an operator removes the file stopped.json. If not, the witness is
// alone with what it says, and stops nothing.
package client
