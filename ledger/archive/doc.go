// Package archive keeps the evidence of admissions: records, files of evidence,
// receipts. A body is named by the SHA-256 of its content, lies sealed in the
// vault, and is kept once however many admissions refer to it.
//
//	archive.go   the archive as an admission and a review run see it
//	failure.go   typed failures, under the codes of package admission
//	keep.go      bodies in and out
//	retention.go how long a body is kept, and what ends it
//	fields.go    the field audit that comes before a compaction
//	compact.go   a compaction, and the proof that its summary still gives
//
// # Owners and references
//
// Every body has owners: the attempts in whose admissions it was used. One
// reference says who, in which role, under which retention class and until when.
// A body is there as long as one of its references is. Erasing an attempt ends
// its references, and with the last one the body.
//
// # What is named how
//
// Callers name bodies by "sha256:" and 64 hex digits. On disk they have a keyed
// name: byte-equal content of two tenants has no name, key or byte in common
// (PRV-12), and nobody without the tenant's key can ask whether a known file is
// there.
//
// # Absence
//
// Four things are told apart, and none of them is a failed check. A body that was
// never kept is [ErrAbsent]. Evidence that an admission did not have is an entry
// with state absent and a reason (ARC-12). A body that was kept and is gone is
// [*Gone], with why: expired, erased or compacted; it reads as unavailable
// (ARC-11). And an archive that does not answer is a [*Failure].
package archive
