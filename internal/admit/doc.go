// Package admit runs an admission: it reads a registry entry, resolves the
// artifact, has the evidence verified, asks the policy, and records all of it
// through a running ledger. Resolvers, verifiers and the network are on this side;
// the ledger keeps records and signs, and asks nobody (EVI-02).
//
//	admit.go     what an admission needs and what it answers; the order of phases
//	discover.go  the registry entry, and the one path through it
//	verify.go    artifact, evidence, judgement
//	keep.go      bodies, records and receipt into the archive
//	mark.go      the events of the admission
//	contract.go  the contract that stands on it, and what an earlier one pins
//	stack.go     the resolvers and verifiers that are shipped
//
// An admission is one attempt whose action is "admission". It begins before
// anything is read. Every mark (admission.RetryRights) is an attempt of its own
// under the same trace id, begun before its work, with an outcome behind it. The
// decision is the outcome of the admission: succeeded is admit, failed is quarantine
// or reject, with the reason codes. An outcome that an archive's failure caused is
// corrected by a later one, and both stay (ADM-14, ADM-31).
package admit
