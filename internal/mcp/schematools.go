package mcp

import (
	"slices"

	"counterfoil/internal/api"
	"counterfoil/ledger/receipt"
)

// The schemas of the arguments and answers of each tool. What an argument may
// hold beyond its type is said by the ledger, in one place for every interface.

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func waitSchema() schema {
	return said(oneOf("accepted", "logged", "published"), "Stage to wait for; without it, as the ledger's durability says.")
}

func occurredSchema() schema {
	return said(timeSchema(), "When it occurred by the clock of the source, RFC 3339 in UTC with milliseconds: 2026-07-28T00:00:00.000Z.")
}

func rawSchema() schema {
	return said(base64Schema(), "A private value that JSON cannot carry exactly, in standard base64. Not beside the JSON one.")
}

func keepBodySchema() schema {
	return said(flag(), "Keep the private values themselves in the ledger's vault, encrypted, and not only what opens their commitments.")
}

var beginIn = object(map[string]schema{
	"invocationId": said(identifierSchema(), "Your own id of this action, never used for another: sending the same again gives the same attempt."),
	"occurredAt":   occurredSchema(),
	"traceId":      said(identifierSchema(), "Trace that the action belongs to."),
	"action": said(object(map[string]schema{
		"name":       said(identifierSchema(), "Name of the action, such as that of the tool."),
		"effectKind": said(identifierSchema(), "What kind of effect it has, such as mcp.tools/call or payment."),
		"effectMode": said(identifierSchema(), "How the effect can be repeated, such as read_only, additive, destructive or one_time."),
	}), "What is about to be done."),
	"subject":         said(subjectSchema(), "What the attempt is about; by default the kind tool_action and the action's name."),
	"privateInput":    anyJSON("The input of the action, any JSON. Kept as a commitment only."),
	"privateInputRaw": rawSchema(),
	"expectedEffect":  anyJSON("What a read-back will show if the action took effect, any JSON. Private. A later reconciliation is compared with it."),
	"keepBody":        keepBodySchema(),
	"wait":            waitSchema(),
}, "traceId", "subject", "privateInput", "privateInputRaw", "expectedEffect", "keepBody", "wait")

var appendIn = object(map[string]schema{
	"attemptId":     said(attemptIDSchema(), "As receipt_begin answered."),
	"lifecycle":     oneOf("outcome", "reversal", "reconciliation", "review"),
	"sourceEventId": said(identifierSchema(), "Your own id of this event, one for each event of the attempt."),
	"occurredAt":    occurredSchema(),
	"status": said(text(), "outcome: succeeded, failed, not_started, unknown. reversal: reversed, failed, unknown. review: upheld, disputed, noted; of a contract or "+
		"admission continue, re_admit, quarantine, retire. Never on a reconciliation."),
	"privateResult":    anyJSON("What the action answered, any JSON. Kept as a commitment only."),
	"privateResultRaw": rawSchema(),
	"reasonCodes":      said(schema{"type": "array", "items": text(), "maxItems": 16}, "Registered codes of why, such as tool_error, timeout, connection_lost."),
	"refs":             said(texts(), "Links to events: corrects (outcome), reverses (reversal), reviews (review)."),
	"readback": said(readbackSchema(anyJSON("What was present, any JSON. Private.")),
		"Reconciliation only, and required there: what an authoritative source shows now."),
	"rubric":   said(identifierSchema(), "Review only: by what rules it was judged. The reviewer is the agent of the session."),
	"keepBody": keepBodySchema(),
	"wait":     waitSchema(),
}, "status", "privateResult", "privateResultRaw", "reasonCodes", "refs", "readback", "rubric", "keepBody", "wait")

var recordOut = answerOr(map[string]schema{
	"created":         said(flag(), "False if the same had been recorded before."),
	"receipt":         receiptSchema(),
	"claimBoundaries": claimsSchema(),
})

var getIn = object(map[string]schema{"attemptId": attemptIDSchema(), "eventId": eventIDSchema()}, "attemptId", "eventId")

var getOut = answerOr(map[string]schema{"attempt": attemptSchema(), "receipt": receiptSchema(), "result": resultSchema(), "claimBoundaries": claimsSchema()},
	"attempt", "receipt", "result")

var searchIn = object(map[string]schema{
	"state": said(oneOf("open", "succeeded", "failed", "not_started", "unknown", "confirmed_committed", "confirmed_absent", "contradicted", "reversed"),
		"List attempts in this state instead of receipts. Open is without an outcome, which proves nothing; unknown is not failed."),
	"tool":      said(identifierSchema(), "Name of the action."),
	"agent":     said(identifierSchema(), "Agent id."),
	"runtime":   said(identifierSchema(), "Runtime id."),
	"status":    said(text(), "Status of the event."),
	"lifecycle": lifecycleSchema(),
	"kind":      said(text(), "Subject kind, such as tool_action."),
	"from":      said(timeSchema(), "First time at which it occurred."),
	"to":        said(timeSchema(), "End of the time in which it occurred, not included."),
	"order":     said(oneOf("oldest", "newest"), "By leaf index; oldest first by default."),
	"limit":     said(schema{"type": "integer", "minimum": 1, "maximum": maxPage}, "64 by default. A page has fewer if it would be over 64 KiB."),
	"pageToken": said(schema{"type": "string", "minLength": 1, "maxLength": maxCursor}, "nextPageToken of the page before, all else unchanged."),
}, "state", "tool", "agent", "runtime", "status", "lifecycle", "kind", "from", "to", "order", "limit", "pageToken")

var searchOut = answerOr(map[string]schema{
	"treeSize":      natural(),
	"receipts":      list(describe[foundReceipt](refined())),
	"attempts":      list(describe[api.AttemptSummary](refined())),
	"nextPageToken": text(),
}, "nextPageToken")

func attemptIDsSchema() schema {
	return schema{"type": "array", "items": attemptIDSchema(), "minItems": 1, "maxItems": maxAttempts}
}

var bundleIn = object(map[string]schema{"attemptIds": attemptIDsSchema()})

var bundleOut = answerOr(map[string]schema{
	"bytes":  natural(),
	"sha256": matching("^[0-9a-f]{64}$"),
	"bundle": said(text(), "The bundle, byte for byte: "+receipt.Schema+"."),
})

var verifyIn = object(map[string]schema{
	"bundle":       said(text(), "The exact text of a bundle."),
	"attemptIds":   said(attemptIDsSchema(), "Attempts of this ledger to verify instead."),
	"minSize":      said(natural(), "The checkpoint has at least so many leaves."),
	"allowPartial": said(flag(), "Accept attempts of which earlier events are not in the bundle."),
}, "bundle", "attemptIds", "minSize", "allowPartial")

var verifyOut = answerOr(map[string]schema{"status": statusSchema(), "shortened": flag(), "report": describe[receipt.Report](nil)})
