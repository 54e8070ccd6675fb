package mcp

import (
	"maps"

	"counterfoil/internal/api"
	"counterfoil/ledger/event"
)

// schema is a JSON Schema (2020-12). The ones of this package are exact: every
// object names its members and has no others.
type schema map[string]any

// object is an object with exactly these members, required where they do not
// stand in optional.
func object(members map[string]schema, optional ...string) schema {
	required := []string{}
	opt := map[string]bool{}
	for _, name := range optional {
		opt[name] = true
	}
	for _, name := range sorted(members) {
		if !opt[name] {
			required = append(required, name)
		}
	}
	s := schema{"type": "object", "properties": members, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// texts is an object whose members are texts under names that the event chose.
func texts() schema {
	return schema{"type": "object", "propertyNames": schema{"pattern": "^[A-Za-z][A-Za-z0-9_]{0,63}$"}, "additionalProperties": schema{"type": "string"}}
}

func list(of schema) schema { return schema{"type": "array", "items": of} }

// said adds a description.
func said(s schema, description string) schema {
	s = maps.Clone(s)
	s["description"] = description
	return s
}

func text() schema                 { return schema{"type": "string"} }
func matching(re string) schema    { return schema{"type": "string", "pattern": re} }
func oneOf(words ...string) schema { return schema{"type": "string", "enum": words} }
func natural() schema              { return schema{"type": "integer", "minimum": 0} }
func flag() schema                 { return schema{"type": "boolean"} }

// identifierSchema is a name that a source chose. A schema counts characters
// and the ledger bytes, which are never fewer.
func identifierSchema() schema { return schema{"type": "string", "minLength": 1, "maxLength": 255} }

func attemptIDSchema() schema { return matching("^att_[0-9a-f]{32}$") }
func eventIDSchema() schema   { return matching("^evt_[0-9a-f]{64}$") }
func digestSchema() schema    { return matching("^sha256:[0-9a-f]{64}$") }
func timeSchema() schema {
	return matching(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$`)
}
func base64Schema() schema { return matching("^[A-Za-z0-9+/]*={0,2}$") }
func lifecycleSchema() schema {
	return oneOf("attempt", "outcome", "reversal", "reconciliation", "review")
}
func stageSchema() schema { return oneOf("accepted", "logged", "published", "witnessed") }

// anyJSON is a private value of the caller's own shape (EVI-13).
func anyJSON(description string) schema { return schema{"description": description} }

// errorSchema is what a result with isError holds.
func errorSchema() schema {
	return describe[api.Error](map[string]schema{"code": matching("^[a-z_]+$")})
}

// answerOr is the output schema of a tool: its answer, or an error and nothing
// else. optional members of the answer are those that it may lack.
func answerOr(members map[string]schema, optional ...string) schema {
	ok := object(members, optional...)
	all := maps.Clone(members)
	all["error"] = errorSchema()
	return lifted(schema{"type": "object", "properties": all, "additionalProperties": false, "oneOf": []schema{
		{"required": ok["required"], "not": schema{"required": []string{"error"}}},
		{"required": []string{"error"}, "maxProperties": 1},
	}}, all)
}

func claimsSchema() schema {
	return list(object(map[string]schema{"code": matching("^[a-z][a-z0-9_]*$"), "text": text()}))
}

func subjectSchema() schema {
	return object(map[string]schema{"kind": text(), "id": identifierSchema()})
}

// refined says more of the members of receipts and attempts than their Go types.
func refined() map[string]schema {
	return map[string]schema{
		"eventId": eventIDSchema(), "attemptId": attemptIDSchema(), "lifecycle": lifecycleSchema(), "previous": digestSchema(),
		"revision": {"type": "integer", "minimum": 1, "maximum": 1024}, "occurredAt": timeSchema(), "capturedAt": timeSchema(),
		"digest": digestSchema(), "stage": stageSchema(), "statement": statementSchema(), "inclusionProof": list(base64Schema()),
		"signatures": list(object(map[string]schema{"keyId": text(), "sig": base64Schema()})),
		"openings":   nil, // salts: never shown
	}
}

// receiptSchema is counterfoil.receipt.v1 as it is shown here.
func receiptSchema() schema {
	r := refined()
	r["schemaVersion"] = oneOf(api.ReceiptSchema)
	// The source's event id is its own.
	r["source"] = describe[api.ReceiptSource](nil)
	return describe[api.Receipt](r)
}

// attemptSchema is counterfoil.attempt.v1.
func attemptSchema() schema {
	r := refined()
	r["schemaVersion"] = oneOf(api.AttemptSchema)
	r["source"] = describe[api.ReceiptSource](nil)
	r["receipts"] = list(receiptSchema())
	return describe[api.Attempt](r)
}

// statementSchema: exactly one member, docs/spec/event.md.
func statementSchema() schema {
	s := object(map[string]schema{
		"readback": readbackSchema(nil),
		"review":   object(map[string]schema{"reviewer": identifierSchema(), "rubric": identifierSchema(), "run": reviewRunSchema()}, "reviewer", "rubric", "run"),
		"contract": object(map[string]schema{"impact": oneOf(event.Impacts...), "receipt": digestSchema(), "admission": eventIDSchema(),
			"artifact": digestSchema(), "tools": digestSchema(), "class": identifierSchema(), "server": identifierSchema()},
			"admission", "artifact", "tools", "class", "server"),
		"gap": object(map[string]schema{"from": natural(), "to": natural(), "count": natural()}),
		"key": object(map[string]schema{"change": oneOf("registered", "retired", "revoked", "disabled"), "keyId": identifierSchema(),
			"publicKey": base64Schema(), "index": natural()}, "publicKey"),
		"erasure": object(map[string]schema{"state": oneOf("redacted", "purged"), "attempts": list(attemptIDSchema())}),
		"hold":    object(map[string]schema{"attempt": attemptIDSchema(), "subject": subjectSchema()}, "attempt", "subject"),
		"retention": object(map[string]schema{"attempt": attemptIDSchema(), "class": identifierSchema(),
			"kind": oneOf("security_evidence", "discovery_telemetry"), "days": natural()}),
	}, "readback", "review", "contract", "gap", "key", "erasure", "hold", "retention")
	s["minProperties"] = 1
	return s
}

// reviewRunSchema is what a review run says, docs/spec/review.md.
func reviewRunSchema() schema {
	return object(map[string]schema{"id": identifierSchema(), "trigger": oneOf(event.ReviewTriggers...), "mode": oneOf(event.ReviewReportOnly, event.ReviewEnforced),
		"impact": oneOf(event.Impacts...), "recheck": oneOf(event.RecheckStates...), "causes": list(schema{"type": "string"})}, "causes")
}

// readbackSchema is a read-back, with the private value where it is asked for.
func readbackSchema(value schema) schema {
	members := map[string]schema{"source": identifierSchema(), "observed": oneOf("present", "absent", "unreachable"),
		"count": {"type": "integer", "minimum": 1}}
	optional := []string{"count"}
	if value != nil {
		members["value"] = value
		optional = append(optional, "value")
	}
	return object(members, optional...)
}

func statusSchema() schema { return oneOf("verified", "failed", "not_judged") }
