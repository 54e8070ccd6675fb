// Package lease decides which of several nodes signs checkpoints, through one
// small record that they all share.
//
// # The record
//
// A register holds one [Record]: who holds the lease, the guard (size and root of
// the largest tree that anybody may have signed), the newest checkpoint, and the
// newest one with cosignatures. Every change is a compare-and-set on the
// register's revision. That alone makes the rules safe; no clock does:
//
//   - Who holds the lease writes the guard before it signs ([Lease.Reserve]) and the
//     checkpoint before it shows it to anybody ([Lease.Publish]).
//   - The guard never gets smaller, and a size never gets a second root, whoever
//     holds the lease. So two nodes never sign two trees of one size.
//   - A holder that slept still believes that it holds the lease. Whoever took over
//     has moved the revision, so the sleeper's next write is refused, and what it
//     signed is never shown.
//
// # Time
//
// Durations decide only when somebody tries to take over, and whether [Lease.Held]
// says yes; they are measured by each node's own monotonic clock. The holder
// writes at least once in Config.Beat; who has seen no new revision for Config.TTL
// takes over with the next epoch. A clock that runs wrong costs a change of the
// holder, never a second history.
//
// # Answers that do not come
//
// A write without an answer may be stored, now or a little later. It is never
// repeated blindly: the register is read first. A record of this process is
// known by its instance, a random name that every [Lease] has.
//
// The format is docs/spec/lease.md.
package lease
