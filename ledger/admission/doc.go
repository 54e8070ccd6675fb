// Package admission is the pure core of admitting an MCP server on evidence: the
// five records of an admission, the spanning set that binds them, and the decision.
//
// An admission goes through four phases. Discovery reads a registry entry and
// makes a [RegistrySnapshot]. Verification resolves an artifact ([ArtifactBinding])
// and judges what others signed about it ([Finding]). [Decide] puts both before a
// policy and gives a [Decision]: admit, quarantine or reject, with ordered reason
// codes. The archive binds everything by digest in an [ArchiveReceipt]; [Conclude]
// gives the final decision, which is never admit without a receipt that is kept.
//
// Records are canonical JSON (RFC 8785 on the restricted domain of package canon),
// each with its schema in it, and named by the SHA-256 of those bytes. They have
// one accepted spelling.
//
// The package does no I/O, reads no clock and is safe for concurrent use. What
// reads files and networks implements [Resolver] and [Verifier]. Sources:
// requirements ADM, ARC; docs/spec/admission.md.
package admission
