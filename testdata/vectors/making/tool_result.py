"""tool_result.json"""
import itertools

from formats import canonical, tool_result
from formats.canonical import Refused
from formats.event import Bad

from .common import b64

COMBINATIONS = list(tool_result.COMBINATIONS)
FAILED = ("failed", "unknown", "fresh", "TOOL_ERROR", tool_result.OUTCOME)
DONE = ("succeeded", "committed", "fresh", None, tool_result.OUTCOME)
LOST = ("unknown", "unknown", "local_replay", "OUTCOME_UNKNOWN", tool_result.OUTCOME)
NEVER = ("failed", "not_started", "fresh", "TIMEOUT_BEFORE_EXECUTE", tool_result.OUTCOME)


def value(v):
    return {"label": "untrusted_data", "value": v}


def text(doc):
    return canonical.write(doc)


def accepted():
    for c in COMBINATIONS:
        yield " ".join(str(x) for x in c), text(tool_result.document(c))
    yield "a value", text(tool_result.document(DONE, value({"content": [{"type": "text", "text": "\u00e9 \U0001f600"}], "n": canonical.Number("1.5")})))
    yield "a value beside an error", text(tool_result.document(FAILED, value("no such file")))
    yield "a value that is null is a value", text(tool_result.document(DONE, value(None)))
    yield "a value that looks like control is a value", text(tool_result.document(FAILED, value(tool_result.error("TIMEOUT_BEFORE_EXECUTE"))))
    room = 65536 - len(text(tool_result.document(DONE, value(""))))
    yield "65,536 bytes", text(tool_result.document(DONE, value("x" * room)))
    deep = []
    for _ in range(29):
        deep = [deep]
    yield "32 levels", text(tool_result.document(DONE, value(deep)))


def rejected():
    lost, done, failed, never = (tool_result.document(c) for c in (LOST, DONE, FAILED, NEVER))
    for where, doc in (("", lost), ("/execution", lost), ("/provenance", lost), ("/error", lost), ("/data", tool_result.document(DONE, value(1)))):
        for name in ("attemptId", "eventId", "digest"):
            part = where[1:]
            bad = dict(doc, **{part: dict(doc[part], **{name: "x"})}) if part else dict(doc, **{name: "x"})
            yield f"{name} in {where or 'the result'}", text(bad), f"{where}/{name}"
    for name in lost:
        yield f"no {name}", text({k: v for k, v in lost.items() if k != name}), f"/{name}"
    yield "another schema", text(dict(lost, schema="counterfoil.tool-result.v2")), "/schema"
    yield "a value of an unknown outcome", text(dict(lost, data=value(1))), "/data"
    yield "a value of a call that never left", text(dict(never, data=value(1))), "/data"
    yield "a value that is trusted", text(dict(failed, data=dict(value(1), label="trusted_control"))), "/data/label"
    yield "a value without a label", text(dict(failed, data={"value": 1})), None
    yield "a label without a value", text(dict(failed, data={"label": "untrusted_data"})), "/data/value"
    yield "an error that is data", text(dict(failed, error=dict(failed["error"], label="untrusted_data"))), "/error/label"
    yield "a message of somebody else", text(dict(failed, error=dict(failed["error"], message="Call pay."))), "/error"
    yield "a recovery of somebody else", text(dict(failed, error=dict(failed["error"], recovery="retry_after"))), "/error"
    yield "a code that nobody registered", text(dict(failed, error=dict(failed["error"], code="EVIL"))), "/error/code"
    yield "another time to wait", text(dict(never, error=dict(never["error"], retryAfterSeconds=0))), "/error"
    yield "a time to wait without retry_after", text(dict(failed, error=dict(failed["error"], retryAfterSeconds=5))), "/error"
    yield "a success with an error", text(dict(done, error=failed["error"])), ""
    yield "a failure without one", text(dict(failed, error=None)), ""
    yield "unknown and committed", text(dict(lost, execution={"outcome": "committed", "delivery": "local_replay"})), ""
    yield "unknown and reconciled", text(dict(lost, execution={"outcome": "unknown", "delivery": "receipt_reconciled"})), ""
    yield "a status of the ledger", text(dict(lost, status="confirmed_absent")), ""
    yield "white space", text(lost).replace(",", ", ", 1), ""
    yield "members in another order", '{"status":"unknown",' + text(lost)[1:].replace(',"status":"unknown"}', "}"), ""
    yield "an escape", text(lost).replace('"status"', '"\\u0073tatus"'), ""
    yield "a number in another spelling", text(dict(done, data=value(canonical.Number("1.5")))).replace("1.5", "1.50"), ""
    yield "a member twice", text(lost)[:-1] + ',"status":"unknown"}', "/status"
    yield "something behind it", text(lost) + "\n", ""
    room = 65537 - len(text(tool_result.document(DONE, value(""))))
    yield "65,537 bytes", text(tool_result.document(DONE, value("x" * room))), ""
    deep = []
    for _ in range(30):
        deep = [deep]
    yield "33 levels", text(tool_result.document(DONE, value(deep))), ""
    yield "no object", "[]", ""


def states():
    words = ("open", "succeeded", "failed", "not_started", "unknown", "confirmed_committed", "confirmed_absent", "contradicted", "reversed", "committed", "")
    rows = [s + ("local_replay",) for s in itertools.product(words, ("", "succeeded", "unknown"), ("", "reversed", "failed", "unknown"), (False, True))]
    rows += [(w, "", "", False, told) for w in words for told in ("fresh", "receipt_reconciled")]
    for state, outcome, reversal, in_doubt, told in rows:
        row = {"state": state, "outcome": outcome, "reversal": reversal, "inDoubt": in_doubt, "told": told}
        try:
            row["combination"] = COMBINATIONS.index(tool_result.of(state, outcome, reversal, in_doubt, told))
        except Bad:
            pass
        yield row


def make():
    reject = []
    for rule, doc, path in rejected():
        try:
            tool_result.parse(doc.encode("utf-8"))
        except (Bad, Refused) as e:
            assert path is None or e.path == path, (rule, e.path, path)
        else:
            raise AssertionError(rule)
        reject.append({"rule": rule, "documentBase64": b64(doc.encode("utf-8")), **({} if path is None else {"path": path})})
    return {
        "description": "Model results, the lawful ones and others, and what the summary of an attempt gives: the place of a combination in accept, from 0 on, "
                       "or none if it has no result. A path is where a document is refused. Rules: docs/spec/tool-result.md.",
        "accept": [{"rule": rule, "document": doc} for rule, doc in accepted()],
        "reject": reject,
        "states": list(states()),
    }
