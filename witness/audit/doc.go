// Package audit re-derives everything that a ledger's log says from its public
// tiles alone, as a stranger: no token, no data directory, nothing but the log's
// URL or a copy of its files, and a trust file that came another way.
//
//	report, err := audit.Run(ctx, audit.Config{Source: src, Trust: file, Now: time.Now})
//
// # What is checked, in this order
//
//  1. The checkpoint: the log's signature, and the cosignatures that the trust
//     file asks for.
//  2. History: every checkpoint that was remembered is a beginning of this one.
//     A fork (also at the same size), a log that shrank and a rewritten beginning
//     end the audit; both signed notes are kept, and where it can be proven an
//     equivocation document is written.
//  3. The tree, from the signed root down: each hash tile against the hash above
//     it, each bundle of leaves against its hash. So a damaged leaf is named with
//     the hash that the signed root demands, and nothing is folded or stored
//     before it is proven. The root is computed from the leaves alone as well.
//  4. Each leaf: one canonical record, of this log and tenant, signed by an event
//     key that is valid at its index, lawful in its chain, not in the log before.
//     The rules are those of package lifecycle.
//  5. If asked, a live server's views against the states that follow from the
//     leaves.
//
// # Leaves that do not count
//
// Who may publish on the ledger's stream can put anything into the log. It is
// logged as it is, and the ledger's views park it. The audit names every such leaf
// and is not passed, unless their number was accepted with AllowParked: a leaf
// that nobody can account for is a reason to ask.
//
// # After damage
//
// What comes after a damaged leaf can no longer be judged by its chain. Later
// leaves are still proven, parsed and their signatures verified, but not folded:
// Report.Leaves.NotJudged counts them. The fold stays before the damaged leaf, so
// that a later audit of the repaired log goes on there.
//
// # Memory and disk
//
// The states of attempts are in a Badger database, so memory does not grow with
// the log. A few bundles are held at once: 64 KiB each as a rule, 16 MiB at worst.
//
// # Crashes
//
// States, findings and position of a batch are one transaction. A kill at any
// moment leaves the fold at the end of a batch, and the next run goes on there.
// The state file is written after the fold was flushed, the mirror's checkpoint
// after everything under it was flushed.
package audit
