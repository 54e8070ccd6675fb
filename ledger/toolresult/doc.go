// Package toolresult words what came of a tool call, twice and apart:
//
//   - [ModelResult] is the only form in which a result is given to a model. It
//     says how the call ended, whether its effect is known, and what may be
//     done next.
//   - [ProtectedAudit] names the evidence: attempt, events, digests. It is
//     never given to a model.
//
// A ModelResult (schema counterfoil.tool-result.v1) is canonical JSON (RFC 8785)
// with exactly these six members, shown here with white space that it does not
// have:
//
//	{
//	  "data": {"label": "untrusted_data", "value": <any JSON>},   or null
//	  "error": {                                                  or null
//	    "code": "TIMEOUT_BEFORE_EXECUTE",
//	    "label": "trusted_control",
//	    "message": "…",
//	    "recovery": "retry_after",
//	    "retryAfterSeconds": 5                                    with retry_after alone
//	  },
//	  "execution": {"delivery": "local_replay", "outcome": "not_started"},
//	  "provenance": {"claimBoundary": "outcome_self_asserted_v1"},
//	  "schema": "counterfoil.tool-result.v1",
//	  "status": "failed"
//	}
//
// All but the value is chosen from closed lists: a ModelResult holds a row of
// the table of lawful combinations and nothing else, so that no id, no digest
// and no text of a tool can stand where control is read.
//
//	model.go      the result and its bytes
//	lawful.go     the combinations that there are
//	catalogue.go  errors and their recoveries
//	parse.go      reading, strictly
//	ledger.go     from the ledger's words to a result
//	audit.go      the other projection
//
// Source: requirements TRS-01 to TRS-05, OPR-07 to OPR-12; docs/spec/tool-result.md.
// The package is pure (no I/O, no clock) and safe for concurrent use.
package toolresult
