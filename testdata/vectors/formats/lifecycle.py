"""The rules of an attempt: docs/spec/lifecycle.md.

A chain is the list of the events that counted so far, each with its event id.
"""
from .event import MAX_REVISION, digest

IDENTITY = ("ledger", "tenant", "attemptId", "subject", "action", "traceId")


class Chain:
    def __init__(self):
        self.events, self.ids = [], []

    def add(self, e, event_bytes):
        """Counts the event and returns "", or the code of the rule it breaks."""
        code = self.check(e, "evt_" + digest(event_bytes))
        if code == "":
            self.events.append(e)
            self.ids.append("evt_" + digest(event_bytes))
        return code

    def check(self, e, event_id):
        kind = e["lifecycle"]
        if event_id in self.ids:
            return "duplicate_leaf"
        if kind == "attempt":
            return "attempt_exists" if self.events else ""
        if not self.events:
            return "attempt_missing"
        if len(self.events) >= MAX_REVISION:
            return "too_many_events"
        if any(old["source"].get("eventId") == e["source"]["eventId"] for old in self.events[1:]):
            return "duplicate_source_event"
        if int(e["revision"]) != len(self.events) + 1 or e["previous"] != "sha256:" + self.ids[-1][4:]:
            return "chain_broken"
        if identity(e) != identity(self.events[0]):
            return "attempt_identity_differs"
        return getattr(self, "allow_" + kind)(e)

    # What the rules look at.

    def in_force(self):
        """Index of the newest outcome, −1 without one."""
        return max((i for i, e in enumerate(self.events) if e["lifecycle"] == "outcome"), default=-1)

    def settled(self):
        """Whether a reconciliation after the outcome in force told something."""
        return any(e["lifecycle"] == "reconciliation" and e["status"] != "still_unknown"
                   for e in self.events[self.in_force() + 1 :])

    def in_doubt(self):
        doubt = False
        for e in self.events:
            if e["lifecycle"] == "reconciliation" and e["status"] != "still_unknown":
                doubt = e["status"] == "contradicted"
            if e["lifecycle"] == "reversal" and e["status"] != "failed":
                doubt = e["status"] == "unknown"
        return doubt

    def target(self, e, ref):
        """Index of the event that a ref names, −1 if it names none of these."""
        v = e.get("refs", {}).get(ref)
        return self.ids.index(v) if v in self.ids else -1

    # The five rules.

    def allow_outcome(self, e):
        cur, corrects = self.in_force(), "corrects" in e.get("refs", {})
        if cur < 0:
            if corrects:
                return "link_target_wrong"
            return "attempt_not_open" if self.settled() else ""
        if not corrects:
            return "outcome_exists"
        if self.target(e, "corrects") != cur:
            return "link_target_wrong"
        return "unknown_needs_readback" if self.events[cur]["status"] == "unknown" else ""

    def allow_reversal(self, e):
        i = self.target(e, "reverses")
        if i < 0 or self.events[i]["lifecycle"] != "outcome":
            return "link_target_wrong"
        done = any(old["lifecycle"] == "reversal" and old["status"] == "reversed" and old["refs"]["reverses"] == self.ids[i]
                   for old in self.events)
        return "already_reversed" if done else ""

    def allow_reconciliation(self, e):
        cur = self.in_force()
        unresolved = (cur < 0 or self.events[cur]["status"] == "unknown") and not self.settled()
        if not unresolved and not self.in_doubt():
            return "nothing_to_reconcile"
        return "" if e["status"] == self.derive(e) else "status_not_derived"

    def derive(self, e):
        rb, have = e["statement"]["readback"], e.get("tags", {}).get("readback")
        if rb["observed"] == "absent":
            return "confirmed_absent"
        if rb["observed"] == "unreachable":
            return "still_unknown"
        if int(rb.get("count", 1)) > 1:
            return "contradicted"
        want = self.events[0].get("tags", {}).get("expectedEffect")
        if want is None and self.in_force() >= 0:
            want = self.events[self.in_force()].get("tags", {}).get("result")
        if want is None or have is None:
            return "still_unknown"
        return "confirmed_committed" if want == have else "contradicted"

    def allow_review(self, e):
        return "link_target_wrong" if self.target(e, "reviews") < 0 else ""

    # The words of the views.

    def summary(self):
        out = {"state": "open", "inDoubt": self.in_doubt(), "corrected": False}
        for e in self.events:
            kind, status = e["lifecycle"], e["status"]
            if kind != "attempt":
                out[kind] = status
            if (kind == "outcome" or (kind == "reconciliation" and status != "still_unknown")
                    or (kind == "reversal" and status == "reversed")):
                out["state"] = status
            if kind == "outcome":
                out["corrected"] = "corrects" in e.get("refs", {})
        return out


def identity(e):
    source = {k: v for k, v in e["source"].items() if k != "eventId"}
    return [e.get(k) for k in IDENTITY] + [source]
