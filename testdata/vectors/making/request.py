"""request.json"""
from formats import request

TENANT_KEY, ATTEMPT_KEY = bytes(range(32, 64)), bytes(range(32))
ATTEMPT = "att_0c00112233445566778899aabbccddee"
SOURCE = '"source":{"runtimeId":"r","agentId":"a","invocationId":"i","protocol":"mcp","implementation":"x"}'
HEAD = '"occurredAt":"2026-07-28T00:00:00.000Z","action":{"name":"pay","effectKind":"payment","effectMode":"one_time"}'
CSOURCE = '"source":{"agentId":"a","implementation":"x","invocationId":"i","protocol":"mcp","runtimeId":"r"},"subject":{"id":"pay","kind":"tool_action"}'
CACTION = '{"action":{"effectKind":"payment","effectMode":"one_time","name":"pay"},'
TIME = '"occurredAt":"2026-07-28T00:00:00.000Z",'

# rule, body as sent, canonical request (written by hand)
BEGIN = [
    ("required members alone: the subject is filled in", "{" + SOURCE + "," + HEAD + "}", CACTION + TIME + CSOURCE + "}"),
    ("white space and order do not matter", "{ " + HEAD + " ,\n" + SOURCE + "}", CACTION + TIME + CSOURCE + "}"),
    ("the default subject written out is the same request",
     "{" + SOURCE + "," + HEAD + ',"subject":{"kind":"tool_action","id":"pay"}}', CACTION + TIME + CSOURCE + "}"),
    ("empty optional members are absent", "{" + SOURCE + "," + HEAD + ',"traceId":"","keepBody":false,"privateInputRaw":""}', CACTION + TIME + CSOURCE + "}"),
    ("trace", "{" + SOURCE + "," + HEAD + ',"traceId":"t-1"}', CACTION + TIME + CSOURCE + ',"traceId":"t-1"}'),
    ("keepBody is a member when true", "{" + SOURCE + "," + HEAD + ',"keepBody":true}', CACTION + '"keepBody":true,' + TIME + CSOURCE + "}"),
    ("private input in canonical form, floats included", "{" + SOURCE + "," + HEAD + ',"privateInput":{"b":1.50,"a":[1e21,"\\u00e9"]}}',
     CACTION + TIME + '"privateInput":{"a":[1e+21,"\u00e9"],"b":1.5},' + CSOURCE + "}"),
    ("an empty object is a private input", "{" + SOURCE + "," + HEAD + ',"privateInput":{}}', CACTION + TIME + '"privateInput":{},' + CSOURCE + "}"),
    ("an empty array is a private input", "{" + SOURCE + "," + HEAD + ',"privateInput":[]}', CACTION + TIME + '"privateInput":[],' + CSOURCE + "}"),
    ("an empty text is a private input", "{" + SOURCE + "," + HEAD + ',"privateInput":""}', CACTION + TIME + '"privateInput":"",' + CSOURCE + "}"),
    ("null is a private input", "{" + SOURCE + "," + HEAD + ',"privateInput":null}', CACTION + TIME + '"privateInput":null,' + CSOURCE + "}"),
    ("false is a private input", "{" + SOURCE + "," + HEAD + ',"privateInput":false}', CACTION + TIME + '"privateInput":false,' + CSOURCE + "}"),
    ("zero is a private input", "{" + SOURCE + "," + HEAD + ',"privateInput":-0.0}', CACTION + TIME + '"privateInput":0,' + CSOURCE + "}"),
    ("raw input stays base64", "{" + SOURCE + "," + HEAD + ',"privateInputRaw":"AP+A"}', CACTION + TIME + '"privateInputRaw":"AP+A",' + CSOURCE + "}"),
    ("expected effect", "{" + SOURCE + "," + HEAD + ',"expectedEffect":{"balance":0}}', '{"action":{"effectKind":"payment","effectMode":"one_time","name":"pay"},'
     '"expectedEffect":{"balance":0},' + TIME + CSOURCE + "}"),
    ("an empty expected effect is one", "{" + SOURCE + "," + HEAD + ',"expectedEffect":{}}', CACTION + '"expectedEffect":{},' + TIME + CSOURCE + "}"),
    ("another subject", "{" + SOURCE + "," + HEAD + ',"subject":{"kind":"contract","id":"c-1"}}',
     CACTION + TIME + CSOURCE.replace('{"id":"pay","kind":"tool_action"}', '{"id":"c-1","kind":"contract"}') + "}"),
]

A = '"attemptId":"' + ATTEMPT + '"'
APPEND = [
    ("outcome", "{" + A + ',"lifecycle":"outcome","sourceEventId":"e-1","occurredAt":"2026-07-28T00:00:00.000Z","status":"succeeded"}',
     "{" + A + ',"lifecycle":"outcome",' + TIME + '"sourceEventId":"e-1","status":"succeeded"}'),
    ("private result", "{" + A + ',"lifecycle":"outcome","sourceEventId":"e-1",' + TIME + '"status":"failed","privateResult":{"z":0.10,"a":null}}',
     "{" + A + ',"lifecycle":"outcome",' + TIME + '"privateResult":{"a":null,"z":0.1},"sourceEventId":"e-1","status":"failed"}'),
    ("an empty object is a private result", "{" + A + ',"lifecycle":"outcome","sourceEventId":"e-1",' + TIME + '"status":"failed","privateResult":{}}',
     "{" + A + ',"lifecycle":"outcome",' + TIME + '"privateResult":{},"sourceEventId":"e-1","status":"failed"}'),
    ("raw result", "{" + A + ',"lifecycle":"outcome","sourceEventId":"e-1",' + TIME + '"status":"failed","privateResultRaw":"AP+A","keepBody":true}',
     "{" + A + ',"keepBody":true,"lifecycle":"outcome",' + TIME + '"privateResultRaw":"AP+A","sourceEventId":"e-1","status":"failed"}'),
    ("reason codes keep their order, refs are sorted", "{" + A + ',"lifecycle":"outcome","sourceEventId":"e-1",' + TIME
     + '"status":"failed","reasonCodes":["timeout","correction"],"refs":{"policy":"sha256:' + "0" * 64 + '","corrects":"evt_' + "1" * 64 + '"}}',
     "{" + A + ',"lifecycle":"outcome",' + TIME + '"reasonCodes":["timeout","correction"],"refs":{"corrects":"evt_' + "1" * 64
     + '","policy":"sha256:' + "0" * 64 + '"},"sourceEventId":"e-1","status":"failed"}'),
    ("empty reason codes and refs are absent", "{" + A + ',"lifecycle":"outcome","sourceEventId":"e-1",' + TIME + '"status":"failed","reasonCodes":[],"refs":{}}',
     "{" + A + ',"lifecycle":"outcome",' + TIME + '"sourceEventId":"e-1","status":"failed"}'),
    ("reconciliation", "{" + A + ',"lifecycle":"reconciliation","sourceEventId":"e-2",' + TIME + '"readback":{"source":"bank","observed":"absent"}}',
     "{" + A + ',"lifecycle":"reconciliation",' + TIME + '"readback":{"observed":"absent","source":"bank"},"sourceEventId":"e-2"}'),
    ("reconciliation with a value", "{" + A + ',"lifecycle":"reconciliation","sourceEventId":"e-2",' + TIME
     + '"readback":{"value":{"b":1.0,"a":2},"count":1,"source":"bank","observed":"present"}}',
     "{" + A + ',"lifecycle":"reconciliation",' + TIME + '"readback":{"count":1,"observed":"present","source":"bank","value":{"a":2,"b":1}},"sourceEventId":"e-2"}'),
    ("an empty object is a value", "{" + A + ',"lifecycle":"reconciliation","sourceEventId":"e-2",' + TIME
     + '"readback":{"value":{},"source":"bank","observed":"present"}}',
     "{" + A + ',"lifecycle":"reconciliation",' + TIME + '"readback":{"observed":"present","source":"bank","value":{}},"sourceEventId":"e-2"}'),
    ("review", "{" + A + ',"lifecycle":"review","sourceEventId":"e-3",' + TIME + '"status":"noted","reviewer":"auditor","rubric":"v1","refs":{"reviews":"evt_' + "1" * 64 + '"}}',
     "{" + A + ',"lifecycle":"review",' + TIME + '"refs":{"reviews":"evt_' + "1" * 64 + '"},"reviewer":"auditor","rubric":"v1","sourceEventId":"e-3","status":"noted"}'),
]


def make():
    key = request.tag_key(TENANT_KEY, ATTEMPT_KEY)
    out = {
        "description": "The canonical request that sameness is decided on, and its tag. body is what a caller sends, canonical the request, both as "
                       "text whose bytes are UTF-8. begin and append bodies that give the same canonical request are the same request. Rules: "
                       "docs/spec/commitments.md.",
        "tenantKey": TENANT_KEY.hex(), "attemptKey": ATTEMPT_KEY.hex(), "tagKey": key.hex(),
    }
    for kind, cases in (("begin", BEGIN), ("append", APPEND)):
        out[kind] = []
        for rule, body, want in cases:
            got = request.canonical_request(kind, body.encode("utf-8"))
            assert got.decode() == want, f"{rule}:\n{got.decode()}\n{want}"
            out[kind].append({"rule": rule, "body": body, "canonical": want, "tag": request.request_tag(key, got)})
    return out
