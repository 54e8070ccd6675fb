// Package review judges old archive receipts anew, under today's policy, verifiers
// and trust material, and records what it finds without changing anything that
// was recorded then.
//
//	rubric/       from how evidence did to what becomes of a contract; pure
//	contract.go   contracts: which receipt a tool is used on
//	trigger.go    why a contract is due
//	plan.go       which contracts a run reviews, and which it defers; reads no evidence
//	evidence.go   the evidence of a receipt, out of the archive
//	judge.go      evidence verified again, and judged by today's policy
//	recheck.go    the record of that
//	live.go       what a live registry says: noted, never substituted
//	run.go        a run: many contracts on all processors, resumable
//	report.go     what the reviews of a time say together
//
// # The way of a review
//
// Load the receipt; verify its evidence again and judge it under today's policy;
// read the contract's impact; look at the live registry, if asked to; apply the
// rubric; keep the recheck; append a review to the attempt that set the contract
// (REV-18, REV-20). From the append on a crash loses nothing: the same run finds
// its review by the run's id and goes on with the next contract.
//
// The package does its I/O through small interfaces: [Archive], [Recorder], [Live].
// Time, ids and pauses come in. Sources: requirements REV, OPS; docs/spec/review.md.
package review
