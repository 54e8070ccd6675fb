"""Tool results: docs/spec/tool-result.md."""
from . import canonical
from .event import Bad

SCHEMA = "counterfoil.tool-result.v1"
PROFILE = canonical.Profile(65536, 32, floats=True, noncharacters=True)

# code: recovery, seconds, message
ERRORS = {
    "TIMEOUT_BEFORE_EXECUTE": ("retry_after", 5, "The call never left, so nothing was done. The same call can be made again."),
    "OUTCOME_UNKNOWN": ("query_status", None, "No outcome of the call is known. It may have taken effect: ask for its status, "
                        "and do not make it again before."),
    "STATUS_CONFLICT": ("human_review", None, "What is on record of the call does not agree: its effect was contradicted, undone, "
                        "or is in doubt. A person has to look."),
    "TOOL_ERROR": ("none", None, "The call failed. This does not show that it had no effect."),
}
ATTEMPT, OUTCOME, REVERSAL, RECONCILIATION = (
    "attempt_self_asserted_v1", "outcome_self_asserted_v1", "reversal_self_asserted_v1", "reconciliation_derived_v1")

# status, outcome, delivery, error, claim boundary: whether a value may stand beside it
COMBINATIONS = {
    ("unknown", "unknown", "local_replay", "OUTCOME_UNKNOWN", ATTEMPT): False,
    ("unknown", "unknown", "local_replay", "OUTCOME_UNKNOWN", OUTCOME): False,
    ("unknown", "unknown", "fresh", "OUTCOME_UNKNOWN", OUTCOME): False,
    ("unknown", "unknown", "local_replay", "STATUS_CONFLICT", RECONCILIATION): False,
    ("unknown", "unknown", "local_replay", "STATUS_CONFLICT", REVERSAL): False,
    ("succeeded", "committed", "fresh", None, OUTCOME): True,
    ("succeeded", "committed", "local_replay", None, OUTCOME): True,
    ("succeeded", "committed", "receipt_reconciled", None, RECONCILIATION): True,
    ("failed", "not_started", "fresh", "TIMEOUT_BEFORE_EXECUTE", OUTCOME): False,
    ("failed", "not_started", "local_replay", "TIMEOUT_BEFORE_EXECUTE", OUTCOME): False,
    ("failed", "unknown", "fresh", "TOOL_ERROR", OUTCOME): True,
    ("failed", "unknown", "local_replay", "TOOL_ERROR", OUTCOME): True,
    ("failed", "unknown", "receipt_reconciled", "TOOL_ERROR", RECONCILIATION): False,
}


def error(code):
    if code is None:
        return None
    recovery, seconds, message = ERRORS[code]
    e = {"code": code, "label": "trusted_control", "message": message, "recovery": recovery}
    if seconds is not None:
        e["retryAfterSeconds"] = seconds
    return e


def document(combination, data=None):
    """The members of a result; data is its member data."""
    status, outcome, delivery, code, boundary = combination
    return {"schema": SCHEMA, "status": status, "data": data, "error": error(code),
            "execution": {"outcome": outcome, "delivery": delivery}, "provenance": {"claimBoundary": boundary}}


def members(v, path, names, optional=()):
    if not isinstance(v, dict):
        raise Bad(path, "not an object")
    for n in v:
        if n not in names:
            raise Bad(path + canonical.token(n), "unknown member")
    for n in names:
        if n not in v and n not in optional:
            raise Bad(f"{path}/{n}", "missing")


def parse(b):
    """The combination of a result, or Bad or Refused."""
    doc = canonical.parse(b, PROFILE)
    members(doc, "", ("data", "error", "execution", "provenance", "schema", "status"))
    members(doc["execution"], "/execution", ("outcome", "delivery"))
    members(doc["provenance"], "/provenance", ("claimBoundary",))
    if doc["schema"] != SCHEMA:
        raise Bad("/schema", "another schema")
    code = None
    if doc["error"] is not None:
        members(doc["error"], "/error", ("code", "label", "message", "recovery", "retryAfterSeconds"), ("retryAfterSeconds",))
        code = doc["error"]["code"]
        if code not in ERRORS:
            raise Bad("/error/code", "not in the catalogue")
        if doc["error"]["label"] != "trusted_control":
            raise Bad("/error/label", "not trusted_control")
        if canonical.write(doc["error"]) != canonical.write(error(code)):
            raise Bad("/error", "not the error of its code")
    found = (doc["status"], doc["execution"]["outcome"], doc["execution"]["delivery"], code, doc["provenance"]["claimBoundary"])
    if found not in COMBINATIONS:
        raise Bad("", "a combination that is not in the table")
    if doc["data"] is not None:
        members(doc["data"], "/data", ("label", "value"))
        if doc["data"]["label"] != "untrusted_data":
            raise Bad("/data/label", "not untrusted_data")
        if not COMBINATIONS[found]:
            raise Bad("/data", "no value may stand here")
    if canonical.write(doc).encode("utf-8") != b:
        raise Bad("", "not in canonical form")
    return found


def of(state, outcome, reversal, in_doubt, told):
    """The combination for a summary, or Bad."""
    def row(status, effect, code, boundary, delivery=None):
        if delivery is None and told not in ("fresh", "local_replay"):
            raise Bad("/execution/delivery", "for a read-back to say")
        c = (status, effect, delivery or told, code, boundary)
        if c not in COMBINATIONS:
            raise Bad("/execution/delivery", "not in the table")
        return c
    if in_doubt:
        by = REVERSAL if state != "contradicted" and reversal == "unknown" else RECONCILIATION
        return row("unknown", "unknown", "STATUS_CONFLICT", by)
    if state == "confirmed_absent":
        if outcome == "succeeded" or reversal in ("reversed", "unknown"):
            return row("unknown", "unknown", "STATUS_CONFLICT", RECONCILIATION)
        return row("failed", "unknown", "TOOL_ERROR", RECONCILIATION, "receipt_reconciled")
    simple = {
        "open": ("unknown", "unknown", "OUTCOME_UNKNOWN", ATTEMPT),
        "unknown": ("unknown", "unknown", "OUTCOME_UNKNOWN", OUTCOME),
        "succeeded": ("succeeded", "committed", None, OUTCOME),
        "failed": ("failed", "unknown", "TOOL_ERROR", OUTCOME),
        "not_started": ("failed", "not_started", "TIMEOUT_BEFORE_EXECUTE", OUTCOME),
        "confirmed_committed": ("succeeded", "committed", None, RECONCILIATION, "receipt_reconciled"),
        "contradicted": ("unknown", "unknown", "STATUS_CONFLICT", RECONCILIATION),
        "reversed": ("unknown", "unknown", "STATUS_CONFLICT", REVERSAL),
    }
    if state not in simple:
        raise Bad("/state", "another word")
    return row(*simple[state])
