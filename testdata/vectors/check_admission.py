#!/usr/bin/env python3
"""Recompute every value of admission.json and of admission/ and compare.

Python's standard library only. Exit status: 0 all equal, 1 a difference, 2 a
file cannot be read.
"""
import base64
import hashlib
import json
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))

from formats import admission, canonical, compare, ed25519  # noqa: E402

values = compare.Values()
same, load = values.same, compare.load


def check_sets(doc):
    key = base64.b64decode(doc["publicKey"])
    for c in doc["sets"]:
        records = []
        for n in ("snapshot", "binding", "evidence", "decision"):
            r = c.get(n)
            if r is None:
                records.append(None)
                continue
            canonical.check_canonical(r["canonical"].encode(), admission.RECORD)
            same(f"{c['rule']}: {n}", r["digest"], admission.sha(r["canonical"].encode()))
            records.append(json.loads(r["canonical"]))
        retention = json.loads(c["spanningSet"]["canonical"])["retention_class"]
        span = admission.write(admission.span(*records, retention))
        same(f"{c['rule']}: spanning set", c["spanningSet"], {"canonical": span.decode(), "digest": admission.sha(span)})
        bundle = records[2]
        again = admission.evidence(bundle.get("used", []), **{k: v for k, v in bundle.items() if k in ("binding", "others", "absent", "checks", "sources")})
        same(f"{c['rule']}: evidence", bundle, again)
        old = json.loads(c["receipt"]["canonical"])
        receipt = admission.write(admission.receipt(records, retention, old["receivedAt"], old.get("refers")))
        same(f"{c['rule']}: receipt", c["receipt"], {"canonical": receipt.decode(), "digest": admission.sha(receipt)})
        sealed = json.loads(c["sealed"])
        same(f"{c['rule']}: sealed", sealed["receipt"], old)
        for s in sealed["signatures"]:
            same(f"{c['rule']}: signature", True, ed25519.verify(key, admission.pae(receipt), base64.b64decode(s["sig"])))


def check_published():
    """The vectors of the published format, which are never changed."""
    doc = load("admission/archive_spanning_set_digest.json")
    for what, c in [("published set", doc)]:
        same(what, c["digest"], admission.name(doc["input"]))
    for m in doc["must_differ"]:  # each changes one member: another class, or an x behind the value
        changed = json.loads(json.dumps(doc["input"]))
        *path, last = m["changed"].split(".")
        at = changed
        for p in path:
            at = at[p]
        at[last] = "discovery-telemetry-30d" if last == "retention_class" else at[last] + "x"
        same(f"published set, {m['changed']}", m["digest"], admission.name(changed))
    seed = load("admission/seed_spanning_set.json")
    canon = (compare.HERE / "admission" / "seed_spanning_set.py.canon").read_bytes()
    same("seed set", canon, admission.write(seed))
    same("seed digest", "4f09b38d6400cfebb22cfd8185cb9f28ba9d187b10ad5fe39bafd0c5bb0d2baa", hashlib.sha256(canon).hexdigest())


def main():
    doc = load("admission.json")
    for c in doc["setDigest"]:
        same(f"set digest: {c['rule']}", c["digest"], admission.set_digest(c["digests"]))
    check_sets(doc)
    for c in doc["entries"]:
        same(f"entry: {c['rule']}", {k: v for k, v in c.items() if k not in ("rule", "input")}, admission.entry_digests(c["input"].encode()))
    for c in doc["policies"]:
        canonical.check_canonical(c["canonical"].encode(), admission.RECORD)
        same(f"policy: {c['rule']}", c["digest"], admission.sha(c["canonical"].encode()))
    check_published()
    return values.end()


if __name__ == "__main__":
    sys.exit(main())
