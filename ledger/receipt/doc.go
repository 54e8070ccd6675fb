// Package receipt holds the bundle, the file in which receipts travel to whoever
// checks them, and the judgement over it: [Verify] takes the bytes of a bundle
// and a trust file that came another way, and answers with named checks.
//
// A bundle (schema counterfoil.bundle.v1) is canonical JSON (RFC 8785):
//
//	{
//	  "checkpoint": "<signed note>",          absent if nothing was published yet
//	  "claimBoundaries": {"<code>": "<text>"},
//	  "entries": [
//	    {
//	      "artifact": {
//	        "commitment": {
//	          "digest": "sha256:<hex>",       of the receipt's bytes
//	          "payloadType": "application/vnd.counterfoil.event.v1+json",
//	          "signatures": [{"keyId": "…", "sig": "<base64>"}]
//	        },
//	        "receipt": {<the event>}
//	      },
//	      "record": {
//	        "inclusionProof": ["<base64>"],   absent without a checkpoint
//	        "leafIndex": 0,
//	        "origin": "<log>"
//	      },
//	      "reference": {
//	        "attemptId": "att_…", "eventId": "evt_…", "lifecycle": "attempt",
//	        "previous": "sha256:…", "revision": 1
//	      }
//	    }
//	  ],
//	  "schemaVersion": "counterfoil.bundle.v1"
//	}
//
// shown here with white space that it does not have. Entries are sorted by leaf
// index. The leaf of an entry is spliced from the bytes of receipt and
// signatures as they stand in the file; nothing that is hashed is encoded again.
// Keys that stand in a bundle are refused like any other unknown member, and
// nothing private has a place in it (BND-07).
//
//	entry.go, build.go   writing
//	scan.go, parse.go    reading: one spelling, and what can be saved of a damaged file
//	verify.go, witness.go, leaf.go, chain.go   the checks
//	report.go, claims.go the answer
//	tlogproof.go         one receipt as a C2SP tlog-proof
//
// The package is pure: no I/O, no clock, no goroutine, no network (BND-06).
package receipt

// Schema is the schemaVersion of a bundle.
const Schema = "counterfoil.bundle.v1"

// Bounds of a bundle, checked before anything is read.
const (
	MaxBundleBytes = 256 << 20
	MaxEntries     = 100_000
	// MaxProofHashes is the depth of a tree of 2^64 leaves.
	MaxProofHashes = 64
	// MaxClaimBoundaries is far above the number of registered codes.
	MaxClaimBoundaries = 64
)
