#!/usr/bin/env python3
"""Recompute every value of the vector files and compare.

Python's standard library only; the formats are implemented anew in formats/,
which shares no code with the ledger. Exit status: 0 all as the files say, 1 a
difference (the first ones are listed), 2 a file cannot be read.

    python3 check_formats.py                          all vector files
    python3 check_formats.py --bundle F --trust T     verify a bundle
"""
import base64
import json
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

from formats import bundle, canonical, ed25519, event, lease, lifecycle, log, request, schema, trust  # noqa: E402
from formats.canonical import Refused  # noqa: E402
from formats.event import Bad  # noqa: E402

LISTED = 20


class Checker:
    def __init__(self):
        self.done = self.bad = 0

    def same(self, where, rule, want, got):
        self.done += 1
        if want != got:
            self.bad += 1
            if self.bad <= LISTED:
                print(f"{where}: {rule}\n  file:     {str(want)[:400]}\n  computed: {str(got)[:400]}")

    def refused(self, where, rule, run, want):
        """run must raise Refused or Bad that fits want: reason and path, path alone, or neither."""
        try:
            run()
            got = {"accepted": True}
        except Refused as e:
            got = {"reason": e.reason, "path": e.path}
        except Bad as e:
            got = {"path": e.path}
        except (log.Malformed, log.NotVerified, trust.Malformed) as e:
            got = {"detail": str(e)}
        if "accepted" not in got:
            got = {k: v for k, v in got.items() if k in want}
        self.same(where, rule, want, got)


def read(name):
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def b64(s):
    return base64.b64decode(s, validate=True)


def pick(case, *names):
    return {n: case[n] for n in names if n in case}


def check_canonical_json(c):
    doc, f = read("canonical_json.json"), "canonical_json.json"
    for case in doc["accept"]:
        for p in map(canonical.PROFILES.get, case["profiles"]):
            try:
                got = canonical.canonical(case["input"].encode("utf-8"), p).decode()
                canonical.check_canonical(got.encode("utf-8"), p)
            except Refused as e:
                got = e
            c.same(f, case["rule"], case["canonical"], got)
    for case in doc["reject"]:
        for p in map(canonical.PROFILES.get, case["profiles"]):
            c.refused(f, case["rule"], lambda: canonical.parse(b64(case["inputBase64"]), p), pick(case, "reason", "path"))
    for case in doc["size"]:
        src = (case["prefix"] + case["unit"] * case["times"] + case["suffix"]).encode("utf-8")
        try:
            canonical.parse(src, canonical.PROFILES[case["profile"]])
            got = None
        except Refused as e:
            got = e.reason
        c.same(f, case["rule"], case["reason"], got)


def check_event(c):
    doc, f = read("event.json"), "event.json"
    for case in doc["accept"]:
        b = case["event"].encode("utf-8")
        try:
            e = event.parse_event(b)
            got = {"eventId": "evt_" + event.digest(b), "digest": "sha256:" + event.digest(b), "subject": event.subject(e),
                   "shard": event.shard_of_attempt(e["attemptId"])}
        except Bad as bad:
            got = bad
        c.same(f, case["rule"], pick(case, "eventId", "digest", "subject", "shard"), got)
    for case in doc["reject"]:
        c.refused(f, case["rule"], lambda: event.parse_event(b64(case["eventBase64"])), pick(case, "path"))
    for case in doc["scope"]:
        got = event.scope(case["tenant"], case["runtimeId"], case["invocationId"]).hex()
        c.same(f, case["rule"], (case["scope"], case["shard"]), (got, got[:2]))


def check_leaf(c):
    doc, f = read("leaf.json"), "leaf.json"
    keys = {}
    for k in doc["keys"]:
        pub = ed25519.public(bytes.fromhex(k["seed"]))
        keys[k["name"]] = pub
        c.same(f, k["name"], (k["publicKey"], k["keyId"]), (pub.hex(), event.key_id(pub)))
    for case in doc["pae"]:
        c.same(f, case["rule"], case["pae"].encode("utf-8"), event.pae(case["payloadType"], case["payload"].encode("utf-8")))
    for case in doc["accept"]:
        b = case["leaf"].encode("utf-8")
        try:
            e, eb, sigs = event.parse_leaf(b)
        except Bad as bad:
            c.same(f, case["rule"], "accepted", bad)
            continue
        got = {"leafHash": log.leaf_hash(b).hex(), "eventId": "evt_" + event.digest(eb), "subject": event.subject(e),
               "pae": event.pae(event.PAYLOAD_TYPE, eb).hex(), "signatures": [{"keyId": k, "sig": s.hex()} for k, s in sigs],
               "verifies": {n: event.verify_with(keys[n], eb, sigs) for n in case["verifies"]}}
        c.same(f, case["rule"], {n: case[n] for n in got}, got)
    for case in doc["reject"]:
        c.refused(f, case["rule"], lambda: event.parse_leaf(b64(case["leafBase64"])), pick(case, "path"))
        c.same(f, case["rule"] + ": subject", event.UNPARSED, event.subject_of_leaf(b64(case["leafBase64"])))
    b = b64(doc["largest"]["leafBase64"])
    c.same(f, "largest", (65535, doc["largest"]["leafHash"], doc["largest"]["eventId"]),
           (len(b), log.leaf_hash(b).hex(), "evt_" + event.digest(event.parse_leaf(b)[1])))


def check_request(c):
    doc, f = read("request.json"), "request.json"
    key = request.tag_key(bytes.fromhex(doc["tenantKey"]), bytes.fromhex(doc["attemptKey"]))
    c.same(f, "tagKey", doc["tagKey"], key.hex())
    for kind in ("begin", "append"):
        for case in doc[kind]:
            got = request.canonical_request(kind, case["body"].encode("utf-8"))
            c.same(f, case["rule"], (case["canonical"], case["tag"]), (got.decode(), request.request_tag(key, got)))


def check_lifecycle(c):
    for case in read("lifecycle.json")["cases"]:
        chain = lifecycle.Chain()
        for i, x in enumerate(case["events"]):
            b = x["event"].encode("utf-8")
            c.same("lifecycle.json", f"{case['rule']}, event {i + 1}", x["code"], chain.add(event.parse_event(b), b))
        c.same("lifecycle.json", case["rule"], case["summary"], chain.summary())


def check_log(c):
    doc, f = read("log.json"), "log.json"
    hashes = [log.leaf_hash(bytes.fromhex(x)) for x in doc["leaves"]]
    for t in doc["tree"]:
        n = t["size"]
        c.same(f, f"root of {n}", t["root"], log.root(hashes[:n]).hex())
        for i, p in enumerate(t["proofs"]):
            proof = [bytes.fromhex(h) for h in p]
            c.same(f, f"proof of {i} in {n}", p, [h.hex() for h in log.prove(i, hashes[:n])])
            c.same(f, f"root by proof of {i} in {n}", t["root"], log.root_from_proof(i, n, hashes[i], proof).hex())
    for case in doc["notInTree"]:
        try:
            got = log.root_from_proof(case["index"], case["size"], bytes.fromhex(case["leafHash"]), [bytes.fromhex(h) for h in case["proof"]]).hex()
        except log.Malformed:
            got = None
        c.same(f, case["rule"], True, got != case["root"])
    keys = {n: log.parse_vkey(s) for n, s in doc["keys"].items()}
    for case in doc["vkey"]["accept"]:
        k = log.parse_vkey(case["vkey"])
        c.same(f, case["rule"], pick(case, "name", "id", "type", "public"), {"name": k.name, "id": k.id.hex(), "type": k.kind, "public": k.public.hex()})
    for case in doc["checkpoint"]["accept"]:
        origin, size, root, _ = log.parse_checkpoint(case["text"])
        c.same(f, case["rule"], pick(case, "origin", "size", "root"), {"origin": origin, "size": str(size), "root": root.hex()})
    for case in doc["note"]["accept"]:
        text, sigs = log.parse_note(b64(case["noteBase64"]))
        c.same(f, case["rule"], pick(case, "text", "lines", "signedBy"),
               {"text": text, "lines": len(sigs), "signedBy": [n for n, k in keys.items() if log.signed_by(text, sigs, k)]})
    for case in doc["vkey"]["reject"]:
        c.refused(f, case["rule"], lambda: log.parse_vkey(case["vkey"]), {})
    for case in doc["checkpoint"]["reject"]:
        c.refused(f, case["rule"], lambda: log.parse_checkpoint(case["text"]), {})
    for case in doc["note"]["reject"]:
        c.refused(f, case["rule"], lambda: log.parse_note(b64(case["noteBase64"])), {})
    for case in doc["note"]["notVerified"]:
        text, sigs = log.parse_note(b64(case["noteBase64"]))
        c.refused(f, case["rule"], lambda: [log.signed_by(text, sigs, k) for k in keys.values()], {})
    for case in doc["path"]:
        c.same(f, case["path"], case["path"], log.tile_path(case["level"], int(case["index"]), case["width"]))


def check_trust(c):
    doc, f = read("trust.json"), "trust.json"
    for case in doc["accept"]:
        t = trust.Trust(case["text"].encode("utf-8"))
        c.same(f, case["rule"], pick(case, "canonical", "origin", "quorum", "eventKeys", "witnesses"),
               {"canonical": t.canonical(), "origin": t.origin, "quorum": t.quorum, "eventKeys": len(t.keys), "witnesses": len(t.witnesses)})
    for case in doc["reject"]:
        c.refused(f, case["rule"], lambda: trust.Trust(case["text"].encode("utf-8")), {})
    for case in doc["judge"]:
        t = trust.Trust(case["trust"].encode("utf-8"))
        _, eb, sigs = event.parse_leaf(case["leaf"].encode("utf-8"))
        for at in case["at"]:
            c.same(f, f"{case['rule']}, leaf {at['leafIndex']}", at["reason"], t.judge(eb, sigs, at["leafIndex"]))


def check_bundle(c):
    for case in read("bundle.json")["cases"]:
        raw = (HERE / case["bundle"]).read_bytes()
        t = trust.Trust((HERE / case["trust"]).read_bytes()) if "trust" in case else None
        r = bundle.verify(raw, t, case.get("minSize", 0), case["newest"].encode("utf-8") if "newest" in case else None, case.get("allowPartial", False),
                          case.get("maxAge"), case.get("now"))
        c.same("bundle.json", case["rule"], case["status"], r.status)
        want = {(f["check"], f.get("leafIndex")) for f in case.get("fails", [])}
        names = {n for n, _ in r.fails}
        missing = [f for f in want if (f if f[1] is not None else f[0]) not in (r.fails if f[1] is not None else names)]
        surplus = names - {n for n, _ in want} if case.get("only", True) else set()
        c.same("bundle.json", case["rule"] + ": failures", ([], set()), (missing, surplus))


def check_lease(c):
    doc = read("lease.json")
    for case in doc["accept"]:
        record = case["record"].encode()
        c.same("lease.json", case["rule"], record, lease.spell(lease.parse(record)))
    for case in doc["reject"]:
        c.refused("lease.json", case["rule"], lambda case=case: lease.parse(b" " * case.get("blanks", 0) + b64(case["recordBase64"])), {})


def check_schemas(c):
    """The JSON Schemas accept what is accepted, and notice faults of form."""
    folder = HERE.parent.parent / "docs" / "spec" / "schema"
    if not folder.is_dir():
        return  # the vectors were copied elsewhere without the specification
    of_trust, of_bundle = (json.loads((folder / f"{n}.schema.json").read_text(encoding="utf-8")) for n in ("trust", "bundle"))
    doc = read("trust.json")
    for case in doc["accept"]:
        c.same("trust.schema.json", case["rule"], True, schema.fits(json.loads(case["text"]), of_trust))
    form = ("unknown member", "unknown member of a key", "no log", "no event keys", "an empty list of event keys", "negative index", "index as text",
            "index with a fraction", "index of 2^53", "another schema", "a public key of 31 bytes", "a public key without padding", "negative quorum")
    for case in doc["reject"]:
        if case["rule"] in form:
            c.same("trust.schema.json", case["rule"], False, schema.fits(json.loads(case["text"]), of_trust))
    for case in read("bundle.json")["cases"]:
        raw = (HERE / case["bundle"]).read_bytes()
        if case["status"] == "verified":
            c.same("bundle.schema.json", case["rule"], True, schema.fits(json.loads(raw), of_bundle))
        if case["bundle"] in ("bundle/format_keys.bundle.json", "bundle/format_value.bundle.json", "bundle/schema_bundle.bundle.json",
                              "bundle/payload_type.bundle.json", "bundle/format_hash33.bundle.json"):
            c.same("bundle.schema.json", case["rule"], False, schema.fits(json.loads(raw), of_bundle))
    of_event = {"$ref": "#/$defs/event"}
    doc = read("event.json")
    for case in doc["accept"]:
        c.same("bundle.schema.json", case["rule"], True, schema.fits(json.loads(case["event"]), of_event, of_bundle))


def verify_file(bundle_path, trust_path):
    """Judge one bundle, as the ledger's own verifier does, and say what failed."""
    try:
        raw, t = pathlib.Path(bundle_path).read_bytes(), trust.Trust(pathlib.Path(trust_path).read_bytes())
    except (OSError, trust.Malformed) as e:
        print(f"cannot judge: {e}", file=sys.stderr)
        return 2
    r = bundle.verify(raw, t)
    print(r.status)
    for name, leaf in r.fails:
        print(name if leaf is None else f"{name}: leaf {leaf}")
    return {"verified": 0, "failed": 1}.get(r.status, 2)


CHECKS = (check_canonical_json, check_event, check_leaf, check_request, check_lifecycle, check_log, check_trust, check_bundle, check_lease, check_schemas)


def main():
    if len(sys.argv) == 5 and (sys.argv[1], sys.argv[3]) == ("--bundle", "--trust"):
        return verify_file(sys.argv[2], sys.argv[4])
    if len(sys.argv) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    c = Checker()
    try:
        for check in CHECKS:
            check(c)
    except (OSError, KeyError, ValueError) as e:
        print(f"cannot read the vectors: {e!r}", file=sys.stderr)
        return 2
    print(f"{c.done} values, {c.bad} wrong")
    return 1 if c.bad else 0


if __name__ == "__main__":
    sys.exit(main())
