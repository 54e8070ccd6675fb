"""review.json"""
import itertools

from formats import event, review
from formats.event import Bad

from .common import DIGEST, b64

EVT = "evt_" + "5" * 64
AT = "2026-11-30T12:00:00.000Z"
POLICY = {"id": "stamps", "version": "2", "digest": DIGEST["3"]}
ROOT = {"name": "trusted_root", "digest": DIGEST["6"]}

CONTRACTS = (
    ("the least", "mcp/docs", {"impact": "low", "receipt": DIGEST["1"]}),
    ("all members", "mcp/write", {"impact": "privileged", "receipt": DIGEST["1"], "admission": EVT, "artifact": DIGEST["2"], "tools": DIGEST["3"],
                                  "class": "privileged", "server": "io.github.example/server"}),
    ("another impact is another contract", "mcp/docs", {"impact": "privileged", "receipt": DIGEST["1"]}),
    ("another name is another contract", "mcp/docs2", {"impact": "low", "receipt": DIGEST["1"]}),
    ("a name beyond ASCII", "B\u00fccher \U0001f600", {"impact": "standard", "receipt": DIGEST["f"]}),
)


def rechecks():
    base = {"schema": review.RECHECK, "receipt": DIGEST["1"], "contract": DIGEST["2"], "policy": POLICY, "state": "pass", "checkedAt": AT}
    finding = {"evidence": DIGEST["4"], "verifier": "sigstore", "predicateType": "https://slsa.dev/provenance/v1", "state": "verified"}
    full = dict(base, evidenceBundle=DIGEST["5"], admittedUnder=DIGEST["7"], **{"class": "privileged"}, findings=[finding],
                verifiers=[{"id": "sigstore", "version": "1", "trust": [ROOT]}])
    yield "the least", base
    yield "a pass", full
    yield "a failure", dict(full, state="fail", causes=["evidence_gap", "signer_key_unknown"],
                            findings=[dict(finding, state="failed", code="signer_key_unknown")],
                            failed=[{"gate": "evidence", "id": "attestation:provenance", "codes": ["evidence_gap", "signer_key_unknown"]}])
    yield "a gap", dict(base, state="unavailable", causes=["receipt_expired"], gaps=[{"role": "receipt", "digest": DIGEST["1"], "state": "expired"}])
    yield "a gap because the archive failed, in part", dict(
        full, findings=[], state="unavailable", incomplete=True, causes=["evidence_unreadable", "archive_unreachable"],
        gaps=[{"role": "evidence", "digest": DIGEST["4"], "state": "unreadable", "code": "archive_unreachable"}])
    yield "notes of a live registry", dict(full, live=[{"what": "status", "then": "active", "now": "deprecated"}, {"what": "registry", "now": "unavailable"}])


def bad_rechecks():
    good = dict(rechecks())["a pass"]
    fail = dict(rechecks())["a failure"]
    for rule, r, path in (
        ("another schema", dict(good, schema="counterfoil.evidence-recheck.v2"), "/schema"),
        ("no receipt", {k: v for k, v in good.items() if k != "receipt"}, "/receipt"),
        ("an event id for a contract", dict(good, contract=EVT), "/contract"),
        ("unknown state", dict(good, state="passed"), "/state"),
        ("a pass with a cause", dict(good, causes=["evidence_gap"]), "/causes"),
        ("a failure without a cause", {k: v for k, v in fail.items() if k != "causes"}, "/causes"),
        ("a pass with a failed verdict", dict(good, failed=fail["failed"]), "/gaps"),
        ("an incomplete failure", dict(fail, incomplete=True), "/incomplete"),
        ("a cause twice", dict(fail, causes=["a", "a"]), "/causes"),
        ("nine causes", dict(fail, causes=["c%d" % i for i in range(9)]), ""),
        ("a time without milliseconds", dict(good, checkedAt="2026-11-30T12:00:00Z"), "/checkedAt"),
        ("a note over 255 bytes", dict(good, live=[{"what": "x", "now": "y" * 256}]), "/live/0"),
        ("a note about nothing", dict(good, live=[{"now": "y"}]), "/live/0"),
        ("logs of a verifier", dict(good, log="…"), None),
        ("incomplete false is another spelling of absent", dict(good, incomplete=False), None),
        ("an empty list is another spelling of absent", dict(good, gaps=[]), None),
    ):
        yield rule, review.write(r), path
    yield "white space", review.write(good).replace(b'{"', b'{ "', 1), None
    yield "a member twice", review.write(good).replace(b'"state":"pass"', b'"state":"pass","state":"pass"'), None


def standings():
    set_ = lambda impact, receipt="1": {"impact": impact, "receipt": DIGEST[receipt]}
    rev = lambda mode, disposition, **more: {"mode": mode, "disposition": disposition, **more}
    E, R = "enforced", "report_only"
    for rule, events in (
        ("no contract", []),
        ("a review before the first terms", [rev(E, "retire", receipt=DIGEST["1"]), set_("low")]),
        ("no review", [set_("privileged")]),
        ("continue", [set_("privileged"), rev(E, "continue")]),
        ("quarantine", [set_("low"), rev(E, "quarantine")]),
        ("retire", [set_("privileged"), rev(E, "retire")]),
        ("re_admit of a privileged contract", [set_("privileged"), rev(E, "re_admit")]),
        ("re_admit of a standard contract", [set_("standard"), rev(E, "re_admit")]),
        ("evidence restored", [set_("low"), rev(E, "quarantine"), rev(E, "continue")]),
        ("a report queues", [set_("low"), rev(R, "quarantine")]),
        ("a report that continues", [set_("low"), rev(R, "quarantine"), rev(R, "continue")]),
        ("a report lifts nothing", [set_("low"), rev(E, "retire"), rev(R, "continue")]),
        ("a report blocks nothing", [set_("privileged"), rev(E, "continue"), rev(R, "retire")]),
        ("an older report is outdated", [set_("privileged"), rev(R, "retire"), rev(E, "continue")]),
        ("the receipt was replaced", [set_("privileged"), rev(E, "retire"), set_("privileged", "2")]),
        ("the receipt was replaced, and came back", [set_("privileged"), rev(E, "retire"), set_("privileged", "2"), set_("privileged")]),
        ("set anew on the same receipt", [set_("low"), rev(E, "quarantine"), set_("low")]),
        ("the impact grew after re_admit", [set_("low"), rev(E, "re_admit"), set_("privileged")]),
        ("the impact shrank after re_admit", [set_("privileged"), rev(E, "re_admit"), set_("low")]),
        ("a late review of an old receipt", [set_("low"), set_("low", "2"), rev(E, "retire", receipt=DIGEST["1"])]),
        ("an enforced review of an old receipt beside a report", [set_("low"), rev(E, "retire"), set_("low", "2"), rev(R, "re_admit")]),
    ):
        call, reason = review.standing(events)
        case = {"rule": rule, "events": events, "call": call}
        if reason:
            case["reason"] = reason
        yield case


def verifiers():
    a, b = {"id": "mcpb", "version": "1"}, {"id": "sigstore", "version": "1+x", "trust": [ROOT, {"name": "key", "digest": DIGEST["8"]}]}
    for rule, infos in (("none", []), ("one", [a]), ("two", [a, b]), ("two in another order", [b, a]),
                        ("trust material in another order", [a, dict(b, trust=b["trust"][::-1])]),
                        ("another version", [dict(a, version="2"), b]), ("other trust material", [a, dict(b, trust=[ROOT])])):
        yield {"rule": rule, "verifiers": infos, "digest": review.verifiers_digest(infos)}


def make():
    contracts = [{"rule": r, "name": n, "terms": t, "document": review.contract_bytes(n, t).decode(), "digest": review.contract_digest(n, t)}
                 for r, n, t in CONTRACTS]
    accept = []
    for rule, r in rechecks():
        r = {k: v for k, v in r.items() if v != []}
        t = review.write(r)
        review.check_recheck(t)
        accept.append({"rule": rule, "recheck": t.decode(), "digest": review.sha(t)})
    reject = []
    for rule, raw, path in bad_rechecks():
        try:
            review.check_recheck(raw)
            raise AssertionError(f"{rule}: accepted")
        except Bad as bad:
            assert path in (None, bad.path), f"{rule}: {bad.path} != {path}"
        case = {"rule": rule, "recheckBase64": b64(raw)}
        if path is not None:
            case["path"] = path
        reject.append(case)
    table = []
    for recheck, incomplete, drift, impact, fail, standard in itertools.product(
            ("pass", "fail", "unavailable"), (False, True), (False, True), event.IMPACTS, ("retire", "quarantine"), ("low", "privileged")):
        got = review.rubric(recheck, incomplete, drift, impact, fail, standard)
        row = {"recheck": recheck, "incomplete": incomplete, "drift": drift, "impact": impact, "privilegedEvidenceFail": fail, "standardAs": standard}
        if got:
            row.update(disposition=got[0], reasonCodes=got[1])
        table.append(row)
    return {
        "description": "Contracts, rechecks, the rubric with all knobs, digests of verifiers, and what the reviews of a contract say about calls. "
                       "A row of the rubric without a disposition is refused. standings: events in the order of the log, of one contract; one with "
                       "impact sets terms, one with disposition reviews, about its receipt or the one in force. Rules: docs/spec/review.md.",
        "contracts": contracts, "accept": accept, "reject": reject, "rubric": table, "verifiers": list(verifiers()), "standings": list(standings()),
    }
