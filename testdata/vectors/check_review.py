#!/usr/bin/env python3
"""Recompute every value of review.json, and of the tables in review/, and compare.

Python's standard library only. Exit status: 0 all equal, 1 a difference, 2 a
file cannot be read.
"""
import base64
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))

from formats import compare, review  # noqa: E402
from formats.event import Bad  # noqa: E402

values = compare.Values()
same, load = values.same, compare.load


def path_of(raw):
    try:
        review.check_recheck(raw)
    except Bad as e:
        return e.path
    return "accepted"


def main():
    doc = load("review.json")
    for c in doc["contracts"]:
        same(c["rule"], c["document"], review.contract_bytes(c["name"], c["terms"]).decode())
        same(c["rule"], c["digest"], review.contract_digest(c["name"], c["terms"]))
    for c in doc["accept"]:
        same(c["rule"], "accepted", path_of(c["recheck"].encode()))
        same(c["rule"], c["digest"], review.sha(c["recheck"].encode()))
    for c in doc["reject"]:
        got = path_of(base64.b64decode(c["recheckBase64"], validate=True))
        same(c["rule"], c.get("path", got if got != "accepted" else None), got)
    for r in doc["rubric"]:
        got = review.rubric(r["recheck"], r["incomplete"], r["drift"], r["impact"], r["privilegedEvidenceFail"], r["standardAs"])
        same(str(r), (r["disposition"], r["reasonCodes"]) if "disposition" in r else None, got)
    for c in doc["verifiers"]:
        same(c["rule"], c["digest"], review.verifiers_digest(c["verifiers"]))
    for c in doc["standings"]:
        same(c["rule"], (c["call"], c.get("reason", "")), review.standing(c["events"]))
    for r in load("review/replay_rubric_truth_table.json")["table"]:
        recheck = r["evidence_recheck"] if r["evidence_available"] else "unavailable"
        same(str(r), (r["disposition"], r["reason_codes"]), review.rubric(recheck, False, r["policy_drift"], r["contract_impact"]))
    knobs = load("review/rubric_knobs.json")
    for c in knobs["accept"] + knobs["refuse"]:
        got = review.rubric(c["recheck"], c.get("incomplete", False), c.get("drift", False), c["impact"], c.get("privilegedEvidenceFail", "retire"), c.get("standardAs", "low"))
        same(c["rule"], (c["disposition"], c["reasonCodes"]) if "disposition" in c else None, got)
    return values.end()


if __name__ == "__main__":
    sys.exit(main())
