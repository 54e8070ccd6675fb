"""event.json"""
import json

from formats import event

from .common import DIGEST, PUBLIC, TAG, attempt, b64, event_id, follow, text


B = PUBLIC["event-b"]
KEY_CHANGES = (
    ("registered", {"change": "registered", "keyId": event.key_id(B), "publicKey": b64(B), "index": 0}),
    ("registered, by Ed25519ph", {"change": "registered", "keyId": event.prehash_key_id(B), "publicKey": b64(B), "index": 7}),
    ("retired", {"change": "retired", "keyId": event.key_id(B), "index": 2**53 - 1}),
    ("revoked", {"change": "revoked", "keyId": event.key_id(B), "index": 3}),
    ("disabled", {"change": "disabled", "keyId": event.key_id(B), "index": 3}),
)


ATT = ["att_%032x" % i for i in range(256)]
LEDGER = {"kind": "ledger", "id": "ledger.example/log"}
NOTICES = (
    ("one attempt is redacted", {"erasure": {"state": "redacted", "attempts": ATT[:1]}}),
    ("attempts are purged", {"erasure": {"state": "purged", "attempts": ATT[:3]}}),
    ("256 attempts are purged", {"erasure": {"state": "purged", "attempts": ATT}}),
    ("legal hold on an attempt", {"hold": {"attempt": ATT[7]}}),
    ("legal hold on a subject", {"hold": {"subject": {"kind": "tool_action", "id": "invoice \u00fc/17"}}}),
    ("evidence is kept under another class", {"retention": {"attempt": ATT[7], "class": "security-evidence-400d", "kind": "security_evidence", "days": 400}}),
    ("evidence is kept for the shortest time", {"retention": {"attempt": ATT[7], "class": "x", "kind": "discovery_telemetry", "days": 1}}),
    ("evidence is kept for the longest time", {"retention": {"attempt": ATT[7], "class": "x" * 255, "kind": "security_evidence", "days": 36525}}),
)


EVT = "evt_" + "5" * 64
CONTRACTS = (
    ("the least", {"impact": "low", "receipt": DIGEST["1"]}),
    ("all members", {"impact": "privileged", "receipt": DIGEST["1"], "admission": EVT, "artifact": DIGEST["2"], "tools": DIGEST["3"],
                     "class": "privileged", "server": "io.github.example/server"}),
)
RUN = {"id": "run_7", "trigger": "policy_change", "mode": "enforced", "impact": "privileged", "recheck": "fail", "causes": ["signer_key_unknown"]}
RUN_REFS = {"receipt": DIGEST["1"], "policy": DIGEST["2"], "contract": DIGEST["3"], "recheck": DIGEST["4"]}


def reviewed(kind="contract", status="retire", codes=("current_policy_evidence_fail", "privileged_contract"), run=RUN, **refs):
    c = attempt(subject={"kind": kind, "id": "mcp/server"})
    return follow(c, c, "review", status, "run_7", refs=dict(RUN_REFS, reviews=event_id(c), **refs), reasonCodes=list(codes),
                  statement={"review": {"rubric": "counterfoil.rubric.v1", "run": run}})


def accepted():
    a = attempt()
    yield "attempt of a tool action", a
    yield "attempt without traceId, commitments and tags", attempt(traceId=None, commitments=None, tags=None)
    yield "attempt with an expected effect", attempt(commitments={"expectedEffect": DIGEST["d"], "input": DIGEST["a"]},
                                                     tags={"expectedEffect": TAG["e"], "request": TAG["b"]})
    yield "another tenant: another shard", attempt(tenant="team-7")
    yield "identifiers that need escapes, and characters beyond ASCII", attempt(
        traceId='quote " backslash \\ slash / <&> \u00e9 e\u0301 \U0001f600 \u2028',
        source=dict(a["source"], agentId="\u00fc" * 127, runtimeId="runtime:any"))
    yield "identifier of 255 bytes", attempt(action=dict(a["action"], name="x" * 255))
    for kind in event.KINDS[1:7]:
        yield f"attempt of kind {kind}", attempt(subject={"kind": kind, "id": "subject-1"})
    yield "notice of the ledger: events that are known to be lost", attempt(
        subject={"kind": "ledger", "id": "ledger.example/log"}, statement={"gap": {"from": 7, "to": 12, "count": 4}})
    for name, statement in NOTICES:
        yield f"notice of the ledger: {name}", attempt(subject=LEDGER, statement=statement)
    for name, change in KEY_CHANGES:
        yield f"change of a key: {name}", attempt(subject={"kind": "key", "id": change["keyId"]}, statement={"key": change})
    o = follow(a, a, "outcome", "succeeded", "observation-1", commitments={"result": DIGEST["f"]}, tags={"request": TAG["c"], "result": TAG["d"]})
    yield "outcome", o
    yield "outcome with reason codes", follow(a, a, "outcome", "failed", "observation-1", reasonCodes=["tool_error", "timeout"])
    yield "reason codes of the right form that no registry knows yet", follow(a, a, "outcome", "failed", "observation-1", reasonCodes=["x9_y"])
    yield "outcome not started", follow(a, a, "outcome", "not_started", "observation-1")
    yield "outcome unknown", follow(a, a, "outcome", "unknown", "observation-1")
    yield "correction", follow(o, a, "outcome", "failed", "observation-2", refs={"corrects": event_id(o)}, reasonCodes=["correction"])
    yield "reversal", follow(o, a, "reversal", "reversed", "reversal-1", refs={"reverses": event_id(o)})
    for status, rb in (("confirmed_absent", {"observed": "absent"}), ("still_unknown", {"observed": "unreachable"}),
                       ("confirmed_committed", {"observed": "present"}), ("contradicted", {"observed": "present", "count": 2})):
        yield f"reconciliation: {status}", follow(a, a, "reconciliation", status, "read-1", statement={"readback": dict(rb, source="bank")},
                                                  tags={"request": TAG["c"], "readback": TAG["e"]} if rb["observed"] == "present" else {"request": TAG["c"]})
    yield "review by a person", follow(o, a, "review", "disputed", "review-1", refs={"reviews": event_id(a)}, statement={"review": {"reviewer": "auditor"}})
    c = attempt(subject={"kind": "contract", "id": "contract-1"})
    yield "review of a contract gives a disposition", follow(c, c, "review", "re_admit", "review-1", refs={"reviews": event_id(c)},
                                                             statement={"review": {"reviewer": "auditor", "rubric": "rubric-v1"}})
    for name, terms in CONTRACTS:
        yield f"contract: {name}", attempt(subject={"kind": "contract", "id": "mcp/server"}, statement={"contract": terms})
    yield "review by a run", reviewed()
    yield "review by a run, with all refs", reviewed(evidence=DIGEST["5"], verifiers=DIGEST["6"], admission=EVT)
    yield "review of an admission by a run", reviewed(kind="admission", status="continue", codes=["receipt_still_within_policy"],
                                                      run={"id": "r", "trigger": "schedule", "mode": "report_only", "impact": "low", "recheck": "pass"})
    for trigger in event.TRIGGERS:
        yield f"review by a run, trigger {trigger}", reviewed(run=dict(RUN, trigger=trigger))
    yield "review by a run with 8 causes", reviewed(run=dict(RUN, causes=["cause_%d" % i for i in range(8)]))
    yield "refs by digest", follow(a, a, "outcome", "succeeded", "observation-1", refs={"policy": DIGEST["1"]})
    yield "16 members and 16 reason codes", follow(
        a, a, "outcome", "failed", "observation-1", reasonCodes=["code_%d" % i for i in range(16)],
        commitments={"c%02d" % i: DIGEST["0"] for i in range(16)}, refs={"r_%d" % i: DIGEST["2"] for i in range(16)})
    yield "largest revision", dict(follow(a, a, "outcome", "failed", "observation-1"), revision=1024)
    yield "the source may claim any time", attempt(occurredAt="0000-02-29T23:59:59.999Z", capturedAt="9999-12-31T23:59:59.999Z")


A, O = attempt(), follow(attempt(), attempt(), "outcome", "failed", "observation-1", reasonCodes=["timeout"])
R = follow(A, A, "reconciliation", "confirmed_absent", "read-1", statement={"readback": {"source": "bank", "observed": "absent"}})
V = follow(A, A, "review", "noted", "review-1", refs={"reviews": event_id(A)}, statement={"review": {"reviewer": "auditor"}})
G = attempt(subject={"kind": "ledger", "id": "x"}, statement={"gap": {"from": 7, "to": 12, "count": 4}})
K = attempt(subject={"kind": "key", "id": "x"}, statement={"key": KEY_CHANGES[0][1]})
C = attempt(subject={"kind": "contract", "id": "mcp/server"}, statement={"contract": CONTRACTS[1][1]})
W = reviewed()
X, H, HS, T = (attempt(subject=LEDGER, statement=NOTICES[i][1]) for i in (1, 3, 4, 5))

# rule, event to start from, what is replaced in its canonical text, by what,
# path (None: not compared)
SPELLING = [
    ("white space", A, "{", "{ ", ""),
    ("line break at the end", A, '"traceId":"trace-001"}', '"traceId":"trace-001"}\n', ""),
    ("escape for a plain character", A, "trace-001", "\\u0074race-001", ""),
    ("escaped slash", A, "ledger.example/log", "ledger.example\\/log", ""),
    ("members in another order", A, '"status":"requested","subject"', '"subject":{"id":"x","kind":"tool_action"},"status":"requested","subjectX"', None),
    ("upper-case hex", A, '"sha256:aa', '"sha256:AA', "/commitments/input"),
    ("empty optional text", A, '"traceId":"trace-001"', '"traceId":""', ""),
    ("null for an optional member", A, '"traceId":"trace-001"', '"traceId":null', ""),
    ("null for a required member", A, '"tenant":"default"', '"tenant":null', "/tenant"),
    ("empty map", A, ',"revision"', ',"refs":{},"revision"', ""),
    ("empty array", O, '"reasonCodes":["timeout"]', '"reasonCodes":[]', ""),
    ("empty statement", O, ',"status":"failed"', ',"statement":{},"status":"failed"', "/statement"),
    ("a name twice", A, '"tenant":"default"', '"tenant":"default","tenant":"default"', "/tenant"),
    ("a name twice, once by escape", A, '"tenant":"default"', '"tenant":"default","\\u0074enant":"default"', "/tenant"),
    ("a name twice in source", A, '"agentId":"agent:any"', '"agentId":"agent:any","agentId":"agent:any"', "/source/agentId"),
    ("bytes behind the event", A, '"traceId":"trace-001"}', '"traceId":"trace-001"}{}', ""),
    ("cut short", A, '"traceId":"trace-001"}', '"traceId":"trace-001"', ""),
    ("unknown member", A, '"tenant"', '"surplus":1,"tenant"', "/surplus"),
    ("member in another case", A, '"tenant"', '"Tenant"', "/Tenant"),
    ("unknown member in source", A, '"agentId"', '"agent":"x","agentId"', "/source/agent"),
    ("the id inside the event", A, '"ledger"', '"eventId":"x","ledger"', "/eventId"),
    ("revision as text", A, '"revision":1', '"revision":"1"', "/revision"),
    ("revision with a fraction", A, '"revision":1', '"revision":1.0', "/revision"),
    ("revision with an exponent", A, '"revision":1', '"revision":1e0', "/revision"),
    ("revision beyond 2^53", A, '"revision":1', '"revision":9007199254740993', "/revision"),
    ("text as number", A, '"tenant":"default"', '"tenant":1', "/tenant"),
    ("object as text", A, '"subject":{"id":"external_tool_call","kind":"tool_action"}', '"subject":"tool_action"', "/subject"),
    ("map as array", A, '"tags":{', '"tags":[{}],"tenantX":{', None),
    ("reason code as number", O, '["timeout"]', "[1]", "/reasonCodes/0"),
    ("an array of events", A, None, None, ""),
    ("lone surrogate", A, "trace-001", "\\ud800", "/traceId"),
    ("noncharacter", A, "trace-001", "\ufdd0", "/traceId"),
]

MEMBERS = [
    ("another schema", A, "counterfoil.event.v1", "counterfoil.event.v2", "/schema"),
    ("schema missing", A, '"schema":"counterfoil.event.v1",', "", "/schema"),
    ("origin with a plus sign", A, "ledger.example/log", "ledger+log", "/ledger"),
    ("origin with a space", A, "ledger.example/log", "ledger log", "/ledger"),
    ("origin with a no-break space", A, "ledger.example/log", "ledger\u00a0log", "/ledger"),
    ("origin empty", A, "ledger.example/log", "", "/ledger"),
    ("tenant in upper case", A, '"tenant":"default"', '"tenant":"Default"', "/tenant"),
    ("tenant with a dot", A, '"tenant":"default"', '"tenant":"a.b"', "/tenant"),
    ("tenant of 33 bytes", A, '"tenant":"default"', '"tenant":"' + "a" * 33 + '"', "/tenant"),
    ("attempt id in upper case", A, "aabbccddee", "AABBCCDDEE", "/attemptId"),
    ("attempt id too short", A, "aabbccddee", "aabbccdd", "/attemptId"),
    ("attempt id without its prefix", A, '"attemptId":"att_', '"attemptId":"', "/attemptId"),
    ("attempt id of another shard", A, '"attemptId":"' + A["attemptId"][:6], '"attemptId":"att_' + "%02x" % (int(A["attemptId"][4:6], 16) ^ 1), "/attemptId"),
    ("revision 0", A, '"revision":1', '"revision":0', "/revision"),
    ("negative revision", A, '"revision":1', '"revision":-1', "/revision"),
    ("revision 1025", O, '"revision":2', '"revision":1025', "/revision"),
    ("previous at revision 1", A, ',"revision"', ',"previous":"' + DIGEST["0"] + '","revision"', "/previous"),
    ("previous missing after it", O, '"previous":"' + O["previous"] + '",', "", "/previous"),
    ("previous is an event id", O, '"previous":"sha256:', '"previous":"evt_', "/previous"),
    ("attempt at revision 2", O, '"lifecycle":"outcome"', '"lifecycle":"attempt"', "/lifecycle"),
    ("outcome at revision 1", A, '"lifecycle":"attempt"', '"lifecycle":"outcome"', "/lifecycle"),
    ("unknown lifecycle", O, '"lifecycle":"outcome"', '"lifecycle":"replay"', "/lifecycle"),
    ("unknown subject kind", A, '"kind":"tool_action"', '"kind":"tool"', "/subject/kind"),
    ("subject id missing", A, '"id":"external_tool_call",', "", "/subject/id"),
    ("status of another lifecycle", A, '"status":"requested"', '"status":"succeeded"', "/status"),
    ("contradicted is no outcome", O, '"status":"failed"', '"status":"contradicted"', "/status"),
    ("disposition on a tool action", V, '"status":"noted"', '"status":"retire"', "/status"),
    ("claim boundary of another lifecycle", A, "attempt_self_asserted_v1", "outcome_self_asserted_v1", "/claimBoundary"),
    ("claim boundary of one's own", A, "attempt_self_asserted_v1", "everything_is_true_v1", "/claimBoundary"),
    ("time without milliseconds", A, "00:00:00.000Z", "00:00:00Z", "/occurredAt"),
    ("time with an offset", A, "00:00:00.120Z", "00:00:00.120+00:00", "/capturedAt"),
    ("time with microseconds", A, "00:00:00.120Z", "00:00:00.120000Z", "/capturedAt"),
    ("time with a comma", A, "00:00:00.120Z", "00:00:00,120Z", "/capturedAt"),
    ("time in lower case", A, "2026-07-28T00:00:00.120Z", "2026-07-28t00:00:00.120z", "/capturedAt"),
    ("29 February of a common year", A, "2026-07-28T00:00:00.000Z", "2026-02-29T00:00:00.000Z", "/occurredAt"),
    ("hour 24", A, "2026-07-28T00:00:00.000Z", "2026-07-28T24:00:00.000Z", "/occurredAt"),
    ("leap second", A, "2026-07-28T00:00:00.000Z", "2026-06-30T23:59:60.000Z", "/occurredAt"),
    ("source event id in an attempt", A, '"implementation"', '"eventId":"x","implementation"', "/source/eventId"),
    ("source event id missing after it", O, '"eventId":"observation-1",', "", "/source/eventId"),
    ("identifier of 256 bytes", A, '"runtimeId":"runtime:any"', '"runtimeId":"' + "r" * 256 + '"', "/source/runtimeId"),
    ("control character in an identifier", A, "trace-001", "a\\nb", "/traceId"),
    ("C1 control character in an identifier", A, "trace-001", "a\u0085b", "/traceId"),
    ("DEL in an identifier", A, "trace-001", "a\x7fb", "/traceId"),
    ("agent missing", A, '"agentId":"agent:any",', "", "/source/agentId"),
    ("assurance missing", A, '"assurance":{"level":"self_asserted","status":"unverified"},', "", "/source/assurance/level"),
    ("effect mode empty", A, '"effectMode":"one_time"', '"effectMode":""', "/action/effectMode"),
    ("action missing", A, '"action":{"effectKind":"org.example/declared-effect","effectMode":"one_time","name":"external_tool_call"},', "", "/action/name"),
    ("reason code with a dash", O, "timeout", "time-out", "/reasonCodes"),
    ("reason code in upper case", O, "timeout", "Timeout", "/reasonCodes"),
    ("reason code that begins with a digit", O, "timeout", "1timeout", "/reasonCodes"),
    ("reason code of 129 bytes", O, "timeout", "x" * 129, "/reasonCodes"),
    ("reason code twice", O, '["timeout"]', '["timeout","timeout"]', "/reasonCodes"),
    ("17 reason codes", O, '["timeout"]', "[" + ",".join('"c%d"' % i for i in range(17)) + "]", "/reasonCodes"),
    ("17 commitments", A, '"commitments":{', '"commitments":{' + "".join('"c%02d":"%s",' % (i, DIGEST["0"]) for i in range(16)), "/commitments"),
    ("commitment name that begins with a digit", A, '"commitments":{"input"', '"commitments":{"1input"', "/commitments"),
    ("commitment name with a dash", A, '"commitments":{"input"', '"commitments":{"in-put"', "/commitments"),
    ("commitment name of 65 bytes", A, '"commitments":{"input"', '"commitments":{"' + "n" * 65 + '"', "/commitments"),
    ("commitment of 63 digits", A, DIGEST["a"], DIGEST["a"][:-1], "/commitments/input"),
    ("commitment without its prefix", A, DIGEST["a"], DIGEST["a"][7:], "/commitments/input"),
    ("digest for a tag", A, TAG["b"], DIGEST["b"], "/tags/request"),
    ("ref that is free text", V, event_id(A), "free text", "/refs/reviews"),
    ("ref that is an attempt id", V, event_id(A), A["attemptId"], "/refs/reviews"),
    ("statement on an outcome", O, ',"status":"failed"', ',"statement":{"review":{"reviewer":"x"}},"status":"failed"', "/statement"),
    ("reconciliation without a read-back", R, '"statement":{"readback":{"observed":"absent","source":"bank"}},', "", "/statement"),
    ("two statements", V, '"statement":{', '"statement":{"gap":{"count":1,"from":1,"to":1},', "/statement"),
    ("unknown statement", V, '"review":{"reviewer":"auditor"}', '"review":{"reviewer":"auditor"},"verdict":{}', "/statement/verdict"),
    ("read-back that observed nothing known", R, '"observed":"absent"', '"observed":"maybe"', "/statement/readback/observed"),
    ("count without present", R, '"observed":"absent"', '"count":1,"observed":"absent"', "/statement/readback/count"),
    ("negative count", R, '"observed":"absent"', '"count":-1,"observed":"present"', "/statement/readback/count"),
    ("count of 0", R, '"observed":"absent"', '"count":0,"observed":"absent"', "/statement"),
    ("read-back without a source", R, ',"source":"bank"', "", "/statement/readback/source"),
    ("value of a read-back in the clear", R, '"source":"bank"', '"source":"bank","value":1', "/statement/readback/value"),
    ("review by nobody", V, '"reviewer":"auditor"', "", "/statement/review"),
    ("gap that ends before it begins", G, '"to":12', '"to":6', "/statement/gap"),
    ("gap from sequence 0", G, '"from":7', '"from":0', "/statement/gap"),
    ("gap with more missing than its range", G, '"count":4', '"count":7', "/statement/gap"),
    ("gap with none missing", G, '"count":4', '"count":0', "/statement/gap"),
    ("change of a key on a tool action", K, '"kind":"key"', '"kind":"tool_action"', "/statement"),
    ("unknown change of a key", K, '"registered"', '"lost"', "/statement/key/change"),
    ("key that is no key id", K, event.key_id(B), event.key_id(B)[8:], "/statement/key/keyId"),
    ("id of another key", K, event.key_id(B), event.key_id(PUBLIC["attacker"]), "/statement/key/publicKey"),
    ("registered without its key", K, ',"publicKey":"' + b64(B) + '"', "", "/statement/key/publicKey"),
    ("retired with a key", K, '"registered"', '"retired"', "/statement/key/publicKey"),
    ("public key without padding", K, b64(B), b64(B).rstrip("="), "/statement/key/publicKey"),
    ("change of a key without an index", K, '"index":0,', "", "/statement"),
    ("index of a key below 0", K, '"index":0', '"index":-1', "/statement/key/index"),
    ("erasure on a tool action", A, '"status":"requested"', '"statement":' + json.dumps(NOTICES[0][1], separators=(",", ":"), sort_keys=True) + ',"status":"requested"', "/statement"),
    ("erasure on a change of a key", K, '"statement":{', '"statement":{"erasure":{"attempts":["' + ATT[0] + '"],"state":"purged"},', "/statement"),
    ("erasure beside a gap", X, '"statement":{', '"statement":{"gap":{"count":1,"from":1,"to":1},', "/statement"),
    ("erasure beside a hold", X, '"state":"purged"}', '"state":"purged"},"hold":{"attempt":"' + ATT[0] + '"}', "/statement"),
    ("privacy state that leads back", X, '"purged"', '"active"', "/statement/erasure/state"),
    ("erasure without a state", X, ',"state":"purged"', "", "/statement/erasure/state"),
    ("erasure of nothing", X, json.dumps(ATT[:3], separators=(",", ":")), "[]", "/statement/erasure/attempts"),
    ("erasure without attempts", X, '"attempts":' + json.dumps(ATT[:3], separators=(",", ":")) + ",", "", "/statement/erasure/attempts"),
    ("erasure of 257 attempts", X, ATT[2], '","'.join(ATT[2:] + ["att_" + "f" * 32]), "/statement/erasure/attempts"),
    ("erasure of something that is no attempt", X, ATT[2], ATT[2].upper(), "/statement/erasure/attempts"),
    ("erased attempts out of order", X, ATT[0], ATT[9], "/statement/erasure/attempts"),
    ("erased attempt twice", X, ATT[1], ATT[0], "/statement/erasure/attempts"),
    ("erasure with a word about its content", X, '"state":"purged"', '"note":"n","state":"purged"', None),
    ("hold on nothing", H, '"attempt":"' + ATT[7] + '"', "", "/statement/hold"),
    ("hold on both", H, '"attempt":"' + ATT[7] + '"', '"attempt":"' + ATT[7] + '","subject":{"id":"x","kind":"contract"}', "/statement/hold"),
    ("hold on something that is no attempt", H, ATT[7], "att_7", "/statement/hold/attempt"),
    ("hold on a subject of no kind", HS, '"kind":"tool_action"', '"kind":"person"', "/statement/hold/subject/kind"),
    ("hold on a subject without id", HS, '"id":"invoice \u00fc/17"', '"id":""', "/statement/hold/subject/id"),
    ("hold with an empty attempt", HS, '"hold":{', '"hold":{"attempt":"",', "/statement"),
    ("retention without a class", T, '"class":"security-evidence-400d",', "", "/statement/retention/class"),
    ("retention of no kind", T, '"security_evidence"', '"evidence"', "/statement/retention/kind"),
    ("retention of no day", T, '"days":400', '"days":0', "/statement/retention/days"),
    ("retention over a hundred years", T, '"days":400', '"days":36526', "/statement/retention/days"),
    ("retention of no attempt", T, ATT[7], "att_7", "/statement/retention/attempt"),
    ("contract on a tool action", C, '"kind":"contract"', '"kind":"tool_action"', "/statement"),
    ("contract of no impact", C, '"impact":"privileged"', '"impact":"high"', "/statement/contract/impact"),
    ("contract without a receipt", C, ',"receipt":"' + DIGEST["1"] + '"', "", "/statement/contract/receipt"),
    ("contract with an event id for a receipt", C, DIGEST["1"], EVT, "/statement/contract/receipt"),
    ("contract with a digest for its admission", C, EVT, DIGEST["5"], "/statement/contract/admission"),
    ("contract with a version for an artifact", C, DIGEST["2"], "1.7.2", "/statement/contract/artifact"),
    ("contract with a list of tools in the clear", C, '"tools":"' + DIGEST["3"] + '"', '"tools":["a"]', "/statement/contract/tools"),
    ("contract with an empty class", C, '"class":"privileged"', '"class":""', "/statement"),
    ("contract that copies what its receipt says", C, '"receipt"', '"predicateType":"x","receipt"', "/statement/contract/predicateType"),
    ("run of a review of a tool action", V, '"reviewer":"auditor"', '"rubric":"r","run":' + json.dumps(RUN, separators=(",", ":"), sort_keys=True), "/statement/review/run"),
    ("run without a rubric", W, '"rubric":"counterfoil.rubric.v1",', '"reviewer":"auditor",', "/statement/review/rubric"),
    ("run without an id", W, '"id":"run_7",', "", "/statement/review/run/id"),
    ("run with an unknown trigger", W, "policy_change", "whim", "/statement/review/run/trigger"),
    ("run without a mode", W, '"mode":"enforced",', "", "/statement/review/run/mode"),
    ("run with an impact that nobody knows", W, '"impact":"privileged"', '"impact":"high"', "/statement/review/run/impact"),
    ("run without a recheck", W, '"recheck":"fail",', "", "/statement/review/run/recheck"),
    ("run with a cause twice", W, '["signer_key_unknown"]', '["signer_key_unknown","signer_key_unknown"]', "/statement/review/run/causes"),
    ("run with 9 causes", W, '["signer_key_unknown"]', "[" + ",".join('"c%d"' % i for i in range(9)) + "]", "/statement/review/run/causes"),
    ("run with no causes in a list", W, '["signer_key_unknown"]', "[]", "/statement"),
    ("run without a contract", W, '"contract":"' + DIGEST["3"] + '",', "", "/refs/contract"),
    ("run with an event id for a receipt", W, DIGEST["1"], EVT, "/refs/receipt"),
    ("run without a policy", W, '"policy":"' + DIGEST["2"] + '",', "", "/refs/policy"),
    ("run without the digest of its recheck", W, '"recheck":"' + DIGEST["4"] + '",', "", "/refs/recheck"),
    ("run without a reason", W, '"reasonCodes":["current_policy_evidence_fail","privileged_contract"],', "", "/reasonCodes"),
    ("disposition that nobody knows", W, '"status":"retire"', '"status":"allow"', "/status"),
    ("verifier logs in a run", W, '"mode"', '"log":"x","mode"', "/statement/review/run/log"),
    ("gap on a change of a key", K, '"statement":{"key":', '"statement":{"gap":{"count":1,"from":1,"to":1},"key":', "/statement"),
]


def rejected():
    for rule, start, old, new, path in SPELLING + MEMBERS:
        t = text(start).decode()
        if old is None:
            yield rule, f"[{t}]".encode(), path
            continue
        assert old in t, rule
        yield rule, t.replace(old, new, 1).encode("utf-8"), path
    long = attempt()
    long["commitments"] = {"c%02d" % i: DIGEST["0"] for i in range(16)}
    t = text(long)
    yield "32,769 bytes, the rest white space", t + b" " * (32769 - len(t)), ""
    yield "byte 0xff", text(A).replace(b"trace-001", b"\xff"), None


def make():
    accept, reject = [], []
    for rule, e in accepted():
        t = text(e)
        event.parse_event(t)
        accept.append({"rule": rule, "event": t.decode(), "eventId": event_id(e), "digest": "sha256:" + event.digest(t),
                       "subject": event.subject(e), "shard": event.shard_of_attempt(e["attemptId"])})
    for rule, raw, path in rejected():
        case = {"rule": rule, "eventBase64": b64(raw)}
        if path is not None:
            case["path"] = path
        try:
            event.parse_event(raw)
            raise AssertionError(f"{rule}: accepted")
        except event.Bad as bad:
            assert path in (None, bad.path), f"{rule}: {bad.path} != {path}"
        reject.append(case)
    scopes = [{"rule": r, "tenant": t, "runtimeId": a, "invocationId": b, "scope": event.scope(t, a, b).hex(),
               "shard": event.scope(t, a, b)[:1].hex()} for r, t, a, b in (
        ("plain", "default", "runtime:any", "invocation-001"),
        ("another invocation", "default", "runtime:any", "invocation-002"),
        ("a boundary that moved gives another scope", "default", "runtime:anyi", "nvocation-001"),
        ("bytes are UTF-8", "team-7", "\u00e9", "\U0001f600"),
        ("empty parts are parts", "", "", ""))]
    return {
        "description": "Events. accept: event is the canonical text (its bytes are UTF-8), with the id, digest, stream subject and shard that "
                       "follow from it. reject: event as base64, with the JSON pointer of the member at fault where that is given. scope: "
                       "SHA-256 over the length-prefixed label, tenant, runtimeId and invocationId. Rules: docs/spec/event.md.",
        "accept": accept, "reject": reject, "scope": scopes,
    }
