package mcp

import "maps"

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
	return object(map[string]schema{
		"code": matching("^[a-z_]+$"), "message": text(), "path": text(), "hint": text(), "reason": text(), "eventId": text(),
		"stored": text(), "offered": text(), "state": text(),
	}, "path", "hint", "reason", "eventId", "stored", "offered", "state")
}

// answerOr is the output schema of a tool: its answer, or an error and nothing
// else. optional members of the answer are those that it may lack.
func answerOr(members map[string]schema, optional ...string) schema {
	ok := object(members, optional...)
	all := maps.Clone(members)
	all["error"] = errorSchema()
	return schema{"type": "object", "properties": all, "additionalProperties": false, "oneOf": []schema{
		{"required": ok["required"], "not": schema{"required": []string{"error"}}},
		{"required": []string{"error"}, "maxProperties": 1},
	}}
}

func claimsSchema() schema {
	return list(object(map[string]schema{"code": matching("^[a-z][a-z0-9_]*$"), "text": text()}))
}

func subjectSchema() schema {
	return object(map[string]schema{"kind": text(), "id": identifierSchema()})
}

func sourceSchema() schema {
	return object(map[string]schema{"runtimeId": identifierSchema(), "agentId": identifierSchema(), "invocationId": identifierSchema(),
		"protocol": identifierSchema(), "implementation": identifierSchema(), "eventId": identifierSchema()}, "eventId")
}

// receiptSchema is counterfoil.receipt.v1 as it is shown here: without openings.
func receiptSchema() schema {
	return object(map[string]schema{
		"schemaVersion": oneOf("counterfoil.receipt.v1"),
		"eventId":       eventIDSchema(), "eventType": text(), "attemptId": attemptIDSchema(), "lifecycle": lifecycleSchema(),
		"revision": schema{"type": "integer", "minimum": 1, "maximum": 1024}, "previous": digestSchema(),
		"ledger": text(), "tenant": text(), "subject": subjectSchema(), "occurredAt": timeSchema(), "capturedAt": timeSchema(),
		"clockSkew": flag(), "traceId": identifierSchema(),
		"action": object(map[string]schema{"name": identifierSchema(), "effectKind": identifierSchema(), "effectMode": identifierSchema(),
			"phase": text(), "status": text()}),
		"reasonCodes": list(text()), "commitments": texts(), "refs": texts(), "statement": statementSchema(), "source": sourceSchema(),
		"sourceAttestation": object(map[string]schema{"level": text(), "status": text()}), "claimBoundary": text(),
		"commitment": object(map[string]schema{"digest": digestSchema(), "payloadType": text(),
			"signatures": list(object(map[string]schema{"keyId": text(), "sig": base64Schema()}))}),
		"leafIndex": natural(), "stage": stageSchema(), "treeSize": natural(), "inclusionProof": list(base64Schema()), "checkpoint": text(),
	}, "previous", "clockSkew", "traceId", "reasonCodes", "commitments", "refs", "statement", "treeSize", "inclusionProof", "checkpoint")
}

// statementSchema: exactly one member, docs/spec/event.md.
func statementSchema() schema {
	s := object(map[string]schema{
		"readback": readbackSchema(nil),
		"review":   object(map[string]schema{"reviewer": identifierSchema(), "rubric": identifierSchema()}, "reviewer", "rubric"),
		"gap":      object(map[string]schema{"from": natural(), "to": natural(), "count": natural()}),
	}, "readback", "review", "gap")
	s["minProperties"] = 1
	return s
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

// attemptStates are the members that an attempt has everywhere.
func attemptStates() map[string]schema {
	return map[string]schema{"attemptId": attemptIDSchema(), "state": text(), "outcome": text(), "reconciliation": text(), "reversal": text(),
		"review": text(), "inDoubt": flag(), "corrected": flag(), "revision": schema{"type": "integer", "minimum": 1}, "subject": subjectSchema()}
}

var attemptOptional = []string{"outcome", "reconciliation", "reversal", "review", "inDoubt", "corrected"}

// attemptSchema is counterfoil.attempt.v1.
func attemptSchema() schema {
	m := attemptStates()
	m["schemaVersion"] = oneOf("counterfoil.attempt.v1")
	m["action"] = object(map[string]schema{"name": identifierSchema(), "effectKind": identifierSchema(), "effectMode": identifierSchema()})
	m["source"] = sourceSchema()
	m["stage"] = stageSchema()
	m["treeSize"] = natural()
	m["receipts"] = list(receiptSchema())
	return object(m, attemptOptional...)
}

// summarySchema is an attempt of a list.
func summarySchema() schema {
	m := attemptStates()
	for name, s := range map[string]schema{"tool": identifierSchema(), "agentId": identifierSchema(), "runtimeId": identifierSchema(),
		"occurredAt": timeSchema(), "capturedAt": timeSchema(), "firstIndex": natural(), "lastIndex": natural()} {
		m[name] = s
	}
	return object(m, append([]string{"capturedAt"}, attemptOptional...)...)
}

// reportSchema is counterfoil.verification.v1.
func reportSchema() schema {
	return object(map[string]schema{
		"schemaVersion": oneOf("counterfoil.verification.v1"), "status": statusSchema(), "origin": text(), "treeSize": natural(),
		"checks": list(object(map[string]schema{"name": text(), "status": oneOf("pass", "fail", "not_checked"), "detail": text(),
			"leafIndex": natural(), "eventId": text(), "expected": text(), "got": text()}, "leafIndex", "eventId", "expected", "got")),
		"claims": list(text()), "notClaimed": list(text()),
		"counts": object(map[string]schema{"entries": natural(), "failed": natural(), "attempts": natural(), "failures": natural()}),
		"signatures": object(map[string]schema{"signatureValid": natural(), "canonicalPayload": natural(), "receiptBindingValid": natural(),
			"chainValid": natural(), "keys": list(object(map[string]schema{"keyId": text(), "fingerprint": text(), "receipts": natural()}))}),
	}, "origin", "treeSize")
}

func statusSchema() schema { return oneOf("verified", "failed", "not_judged") }
