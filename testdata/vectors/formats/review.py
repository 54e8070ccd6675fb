"""Contracts and reviews: docs/spec/review.md."""
import hashlib
import re

from . import canonical, event
from .event import Bad, hex64

RECORD = canonical.Profile(256 << 10, 32, floats=False, noncharacters=False)
CONTRACT, CONTRACTS, RECHECK = "counterfoil.contract.v1", "counterfoil.contracts.v1", "counterfoil.evidence-recheck.v1"
REFUSE, QUEUE, ALLOW = "refuse", "queue", "allow"


def sha(b):
    return "sha256:" + hashlib.sha256(b).hexdigest()


def write(v):
    return canonical.write(v).encode("utf-8")


def contract_bytes(name, terms):
    return write({"schema": CONTRACT, "name": name, **terms})


def contract_digest(name, terms):
    return sha(contract_bytes(name, terms))


def verifiers_digest(infos):
    out = []
    for v in infos:
        v = dict(v)
        if v.get("trust"):
            v["trust"] = sorted(v["trust"], key=lambda m: (m["name"], m["digest"]))
        out.append(v)
    return sha(write(sorted(out, key=lambda v: (v["id"], v["version"]))))


def rubric(recheck, incomplete, drift, impact, fail="retire", standard="low"):
    """The table of docs/spec/review.md; None refuses."""
    if recheck not in ("pass", "fail", "unavailable") or impact not in event.IMPACTS or (incomplete and recheck != "unavailable"):
        return None
    if fail not in ("retire", "quarantine") or standard not in ("low", "privileged"):
        return None
    privileged = (standard if impact == "standard" else impact) == "privileged"
    if recheck == "unavailable":
        return "quarantine", ["receipt_evidence_unavailable"] + (["receipt_evidence_incomplete"] if incomplete else [])
    if recheck == "fail":
        return (fail, ["current_policy_evidence_fail", "privileged_contract"]) if privileged else ("re_admit", ["current_policy_evidence_fail"])
    if drift:
        if privileged:
            return "re_admit", ["policy_drift_detected", "privileged_contract_requires_fresh_receipt"]
        return "continue", ["policy_drift_detected"]
    return "continue", ["receipt_still_within_policy"]


def standing(events):
    """What the reviews of one contract say about calls. events: in log order,
    {"impact","receipt"} sets the terms, {"disposition","mode","receipt"?} reviews."""
    terms, last = None, {}
    for at, e in enumerate(events):
        if "impact" in e:
            terms = e
        elif terms is not None:
            last[e["mode"]] = dict(e, receipt=e.get("receipt", terms["receipt"]), at=at)
    if terms is None:
        return REFUSE, "contract_unknown"
    about = lambda mode: last.get(mode) if last.get(mode, {}).get("receipt") == terms["receipt"] else None
    e, r = about("enforced"), about("report_only")
    if e and e["disposition"] == "quarantine":
        return REFUSE, "contract_quarantined"
    if e and e["disposition"] == "retire":
        return REFUSE, "contract_retired"
    if e and e["disposition"] == "re_admit":
        return (REFUSE if terms["impact"] == "privileged" else QUEUE), "contract_requires_readmission"
    if r and (e is None or r["at"] > e["at"]) and r["disposition"] != "continue":
        return QUEUE, "contract_reported"
    return ALLOW, ""


def check_recheck(b):
    """A recheck from its bytes, or Bad."""
    try:
        r = canonical.parse(b, RECORD)
    except canonical.Refused as x:
        raise Bad(x.path, x.reason) from None
    S = str
    event.fit(r, {"schema": S, "receipt": S, "contract": S, "evidenceBundle": S, "policy": {"id": S, "version": S, "digest": S}, "admittedUnder": S,
                  "class": S, "state": S, "incomplete": bool, "causes": [S], "gaps": [{"role": S, "digest": S, "state": S, "code": S}],
                  "findings": [{"evidence": S, "verifier": S, "predicateType": S, "state": S, "code": S}],
                  "failed": [{"gate": S, "id": S, "codes": [S]}], "live": [{"what": S, "then": S, "now": S}], "checkedAt": S,
                  "verifiers": [{"id": S, "version": S, "trust": [{"name": S, "digest": S}]}]}, "")
    if r.get("schema") != RECHECK:
        raise Bad("/schema", "another schema")
    for path, v, optional in (("/receipt", r.get("receipt"), False), ("/contract", r.get("contract"), False),
                              ("/policy/digest", (r.get("policy") or {}).get("digest"), False), ("/evidenceBundle", r.get("evidenceBundle"), True),
                              ("/admittedUnder", r.get("admittedUnder"), True)):
        if not hex64("sha256:", v or "") and not (optional and not v):
            raise Bad(path, "no digest")
    state, causes = r.get("state"), r.get("causes") or []
    if state not in ("pass", "fail", "unavailable"):
        raise Bad("/state", "unknown word")
    if (state == "pass") != (not causes):
        raise Bad("/causes", "with all states but pass")
    if r.get("incomplete") and state != "unavailable":
        raise Bad("/incomplete", "of unavailable evidence only")
    if state == "pass" and (r.get("gaps") or r.get("failed")):
        raise Bad("/gaps", "a pass has none")
    if len(causes) > 8:
        raise Bad("", "too many")
    if len(set(causes)) != len(causes) or not all(re.fullmatch("[a-z][a-z0-9_]{0,127}", c) for c in causes):
        raise Bad("/causes", "one twice, or no code")
    for i, n in enumerate(r.get("live") or []):
        if not n.get("what") or any(len(v.encode("utf-8")) > 255 for v in n.values()):
            raise Bad(f"/live/{i}", "no name, or too long")
    event.check_time("/checkedAt", r.get("checkedAt"))
    empty = lambda v: v in ("", [], {}, None, False) or isinstance(v, dict) and any(empty(x) for x in v.values()) or isinstance(v, list) and any(empty(x) for x in v)
    if empty(r) or write(r) != b:
        raise Bad("", "not the one spelling")
    return r
