"""lifecycle.json"""
from formats import event, lifecycle

from .common import DIGEST, TAG, attempt, event_id, follow, text

A, B = TAG["a"], TAG["b"]
FOREIGN = "evt_" + "0" * 64

# A step is (lifecycle, status, details): refs by name, where a number is the
# place of an event in the chain; tag; read-back (observed, count); change.


def out(status, corrects=None, tag=None):
    return ("outcome", status, {"corrects": corrects, "tag": tag})


def rev(status, which):
    return ("reversal", status, {"reverses": which})


def rec(status, observed, count=0, tag=None):
    return ("reconciliation", status, {"rb": (observed, count), "tag": tag})


def review(status, which):
    return ("review", status, {"reviews": which})


GONE, SILENT = rec("confirmed_absent", "absent"), rec("still_unknown", "unreachable")
THERE, OTHER = rec("confirmed_committed", "present", 1, A), rec("contradicted", "present", 0, B)

# rule, steps with the code that each ends with ("" counts), state word, in doubt
CASES = [
    ("begun", [], "open", False),
    ("outcome", [(out("succeeded"), "")], "succeeded", False),
    ("not started", [(out("not_started"), "")], "not_started", False),
    ("unknown is not failed", [(out("unknown"), "")], "unknown", False),
    ("a second outcome needs a correction link", [(out("succeeded"), ""), (out("failed"), "outcome_exists")], "succeeded", False),
    ("so does one with the same status", [(out("failed"), ""), (out("failed"), "outcome_exists")], "failed", False),
    ("correction", [(out("succeeded"), ""), (out("failed", 2), "")], "failed", False),
    ("correction of the correction", [(out("succeeded"), ""), (out("failed", 2), ""), (out("succeeded", 3), "")], "succeeded", False),
    ("correction of an outcome no longer in force", [(out("succeeded"), ""), (out("failed", 2), ""), (out("unknown", 2), "link_target_wrong")], "failed", False),
    ("correction without an outcome", [(out("failed", 1), "link_target_wrong")], "open", False),
    ("correction of the attempt", [(out("failed"), ""), (out("succeeded", 1), "link_target_wrong")], "failed", False),
    ("correction of an event of another attempt", [(out("failed"), ""), (out("succeeded", FOREIGN), "link_target_wrong")], "failed", False),
    ("correction never leaves unknown", [(out("unknown"), ""), (out("succeeded", 2), "unknown_needs_readback")], "unknown", False),
    ("correction may go to unknown", [(out("succeeded"), ""), (out("unknown", 2), "")], "unknown", False),
    ("and only a read-back leads on", [(out("succeeded"), ""), (out("unknown", 2), ""), (out("failed", 3), "unknown_needs_readback"), (GONE, "")], "confirmed_absent", False),
    ("reversal", [(out("succeeded"), ""), (rev("reversed", 2), "")], "reversed", False),
    ("reversal twice", [(out("succeeded"), ""), (rev("reversed", 2), ""), (rev("reversed", 2), "already_reversed")], "reversed", False),
    ("reversal tried again", [(out("succeeded"), ""), (rev("failed", 2), ""), (rev("reversed", 2), "")], "reversed", False),
    ("reversal of the attempt", [(out("succeeded"), ""), (rev("reversed", 1), "link_target_wrong")], "succeeded", False),
    ("reversal of an open attempt", [(rev("reversed", 1), "link_target_wrong")], "open", False),
    ("reversal without a link", [(out("succeeded"), ""), (rev("reversed", None), "link_target_wrong")], "succeeded", False),
    ("reversal that failed changes nothing", [(out("succeeded"), ""), (rev("failed", 2), "")], "succeeded", False),
    ("reversal unknown casts doubt", [(out("succeeded"), ""), (rev("unknown", 2), "")], "succeeded", True),
    ("reversal unknown, read back as gone", [(out("succeeded"), ""), (rev("unknown", 2), ""), (GONE, "")], "confirmed_absent", False),
    ("reversal unknown, read back as there", [(out("succeeded"), ""), (rev("unknown", 2), ""), (THERE, ""), (GONE, "nothing_to_reconcile")], "confirmed_committed", False),
    ("a failed reversal ends no doubt", [(out("succeeded"), ""), (rev("unknown", 2), ""), (rev("failed", 2), ""), (GONE, "")], "confirmed_absent", False),
    ("correction after a reversal", [(out("succeeded"), ""), (rev("reversed", 2), ""), (out("failed", 2), "")], "failed", False),
    ("known outcome: nothing to reconcile", [(out("succeeded"), ""), (GONE, "nothing_to_reconcile")], "succeeded", False),
    ("open: none read back", [(GONE, ""), (GONE, "nothing_to_reconcile")], "confirmed_absent", False),
    ("open: one matching", [(THERE, "")], "confirmed_committed", False),
    ("open: one differing", [(OTHER, "")], "contradicted", True),
    ("open: two", [(rec("contradicted", "present", 2, A), "")], "contradicted", True),
    ("open: unreachable", [(SILENT, "")], "open", False),
    ("unknown: none read back", [(out("unknown"), ""), (GONE, "")], "confirmed_absent", False),
    ("unknown: one matching", [(out("unknown"), ""), (THERE, ""), (GONE, "nothing_to_reconcile")], "confirmed_committed", False),
    ("unknown: one differing, then one matching", [(out("unknown"), ""), (OTHER, ""), (THERE, "")], "confirmed_committed", False),
    ("unknown: two", [(out("unknown"), ""), (rec("contradicted", "present", 2), "")], "contradicted", True),
    ("unknown: unreachable, then none", [(out("unknown"), ""), (SILENT, ""), (GONE, "")], "confirmed_absent", False),
    ("present without a value", [(rec("still_unknown", "present"), "")], "open", False),
    ("status that the read-back does not give", [(rec("confirmed_committed", "absent"), "status_not_derived")], "open", False),
    ("committed, but the values differ", [(rec("confirmed_committed", "present", 1, B), "status_not_derived")], "open", False),
    ("unknown, but the values agree", [(rec("still_unknown", "present", 1, A), "status_not_derived")], "open", False),
    ("outcome after silence", [(SILENT, ""), (out("succeeded"), "")], "succeeded", False),
    ("outcome after a read-back that settled", [(GONE, ""), (out("succeeded"), "attempt_not_open")], "confirmed_absent", False),
    ("outcome after a contradiction", [(OTHER, ""), (SILENT, ""), (out("succeeded"), "attempt_not_open")], "contradicted", True),
    ("a failed reversal ends no contradiction", [(out("unknown"), ""), (OTHER, ""), (rev("failed", 2), ""), (THERE, "")], "confirmed_committed", False),
    ("a reversal ends a contradiction", [(out("unknown"), ""), (OTHER, ""), (rev("reversed", 2), ""), (THERE, "nothing_to_reconcile")], "reversed", False),
    ("reversed, and still there", [(out("unknown"), ""), (rev("reversed", 2), ""), (THERE, "")], "confirmed_committed", False),
    ("a read-back of an earlier outcome settles no later one", [(out("succeeded"), ""), (rev("unknown", 2), ""), (THERE, ""), (out("unknown", 2), ""), (GONE, "")],
     "confirmed_absent", False),
    ("review of every event", [(out("failed"), ""), (review("noted", 1), ""), (review("disputed", 2), ""), (review("upheld", 4), "")], "failed", False),
    ("review of an event of another attempt", [(review("noted", FOREIGN), "link_target_wrong")], "open", False),
    ("the same leaf again", [(out("succeeded"), ""), ("again", "duplicate_leaf")], "succeeded", False),
    ("a second attempt event", [("begin", "attempt_exists")], "open", False),
    ("a source event id again", [(out("failed"), ""), (("review", "noted", {"reviews": 1, "source": "event-2"}), "duplicate_source_event")], "failed", False),
    ("a revision too high", [(("outcome", "failed", {"change": {"revision": 3}}), "chain_broken")], "open", False),
    ("another previous", [(("outcome", "failed", {"change": {"previous": DIGEST["0"]}}), "chain_broken")], "open", False),
    ("another agent", [(("outcome", "failed", {"agent": "agent:other"}), "attempt_identity_differs")], "open", False),
    ("another action", [(("outcome", "failed", {"change": {"action": {"name": "x", "effectKind": "y", "effectMode": "z"}}}), "attempt_identity_differs")], "open", False),
    ("a trace dropped", [(("outcome", "failed", {"change": {"traceId": None}}), "attempt_identity_differs")], "open", False),
    ("another ledger", [(("outcome", "failed", {"change": {"ledger": "other.example"}}), "attempt_identity_differs")], "open", False),
    ("assurance raised", [(("outcome", "failed", {"assurance": "attested"}), "attempt_identity_differs")], "open", False),
]

# Without an expected effect the result of the outcome in force is compared.
RESULTS = [
    ("equal to the result", [(out("unknown", tag=B), ""), (rec("confirmed_committed", "present", 1, B), "")], "confirmed_committed", False),
    ("different from the result", [(out("unknown", tag=B), ""), (rec("contradicted", "present", 1, A), "")], "contradicted", True),
    ("no result", [(out("unknown"), ""), (rec("still_unknown", "present", 1, A), "")], "unknown", False),
    ("no outcome", [(rec("still_unknown", "present", 1, A), "")], "open", False),
    ("the result in force counts", [(out("succeeded", tag=A), ""), (out("unknown", 2, tag=B), ""), (rec("confirmed_committed", "present", 1, B), "")], "confirmed_committed", False),
]


def build(first, chain, step, last):
    if step == "again":
        return last
    if step == "begin":
        return dict(first, capturedAt="2026-07-28T00:01:00.000Z")
    kind, status, d = step
    before = chain.events[-1]
    refs = {n: d[n] for n in ("corrects", "reverses", "reviews") if d.get(n) is not None}
    refs = {n: chain.ids[v - 1] if isinstance(v, int) else v for n, v in refs.items()}
    tags = {"request": TAG["c"]}
    if d.get("tag"):
        tags["readback" if kind == "reconciliation" else "result"] = d["tag"]
    statement = None
    if kind == "reconciliation":
        observed, count = d["rb"]
        statement = {"readback": {"source": "bank", "observed": observed} | ({"count": count} if count else {})}
    if kind == "review":
        statement = {"review": {"reviewer": "auditor"}}
    e = follow(before, first, kind, status, d.get("source", "event-%d" % (before["revision"] + 1)), tags=tags, refs=refs or None, statement=statement)
    e.update(d.get("change", {}))
    e = {k: v for k, v in e.items() if v is not None}
    if "agent" in d:
        e["source"] = dict(e["source"], agentId=d["agent"])
    if "assurance" in d:
        e["source"] = dict(e["source"], assurance={"level": d["assurance"], "status": "verified"})
    return e


def make():
    cases = []
    for expected, rows in ((A, CASES), (None, RESULTS)):
        for rule, steps, state, doubt in rows:
            first = attempt(tags={"request": TAG["b"]} | ({"expectedEffect": expected} if expected else {}))
            chain, events, last = lifecycle.Chain(), [], first
            for step, want in [(None, "")] + steps:
                e = last = first if step is None else build(first, chain, step, last)
                event.parse_event(text(e))
                got = chain.add(e, text(e))
                assert got == want, f"{rule}: {got} != {want}"
                events.append({"event": text(e).decode(), "code": want})
            s = chain.summary()
            assert (s["state"], s["inDoubt"]) == (state, doubt), f"{rule}: {s}"
            cases.append({"rule": rule, "events": events, "summary": s})
    orphan = follow(attempt(), attempt(), "outcome", "failed", "event-2")
    cases.append({"rule": "an event before its attempt", "events": [{"event": text(orphan).decode(), "code": "attempt_missing"}],
                  "summary": {"state": "open", "inDoubt": False, "corrected": False}})
    assert event_id(orphan)
    return {
        "description": "The rules of an attempt. Each case feeds valid events, in order, to the fold of one attempt; code is the rule that an event "
                       "breaks (it does not count then), empty if it counts. summary is the state after the last. Rules: docs/spec/lifecycle.md.",
        "cases": cases,
    }
