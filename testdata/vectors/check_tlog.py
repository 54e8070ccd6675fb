#!/usr/bin/env python3
"""Judge every case of tlog/ with the second implementation in formats/.

Python's standard library only. Exit status: 0 all as the files say, 1 a
difference (the first ones are listed), 2 a file cannot be read.
"""
import hashlib
import itertools
import json
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

from formats import ed25519, log, mldsa, pieces, policy, tlog_proof, witness  # noqa: E402

LISTED = 20


class File:
    """One vector file and how many of its cases agree."""

    def __init__(self, name):
        self.name, self.doc, self.done, self.bad = name, json.loads((HERE / "tlog" / f"{name}.json").read_text(encoding="utf-8")), 0, 0

    def raw(self, p):
        return pieces.read(p, self.doc.get("parts"))

    def text(self, p):
        return self.raw(p).decode("utf-8")

    def keys(self):
        return {n: log.parse_vkey(self.text(p)) for n, p in self.doc["keys"].items()}

    def same(self, case, want, got):
        self.done += 1
        if want != got:
            self.bad += 1
            if self.bad <= LISTED:
                print(f"{self.name}.json: {case['spec']}, {case['rule']}\n  file:     {str(want)[:400]}\n  computed: {str(got)[:400]}")

    def accept(self, case, want, parse, *args):
        try:
            got = parse(*args)
        except (log.Malformed, log.NotVerified, policy.Bad, UnicodeDecodeError) as e:
            got = repr(e)
        self.same(case, want, got)

    def reject(self, member, parse):
        for case in self.doc["reject"]:
            try:
                parse(self.raw(case[member]))
                self.same(case, "refused", "accepted")
            except (log.Malformed, UnicodeDecodeError):
                self.same(case, "", "")

    def verify(self, case):
        """What each named key finds in a note."""
        keys = self.keys()
        text, sigs = log.parse_note(self.raw(case["note"]))
        self.same(case, self.raw(case["note"]), (text + "\n" + "".join(f"\u2014 {n} {log.b64(i + s)}\n" for n, i, s in sigs)).encode())
        for name, want in case["verify"].items():
            k = keys[name]
            try:
                got = {"lines": log.signed_by(text, sigs, k)}
                if got["lines"] and k.kind != log.ED25519:
                    got["time"] = str(log.cosigned_at(text, sigs, k))
            except log.NotVerified:
                got = "bad"
            self.same(case, want, got)


def check_verifier_key(f):
    def read(case):
        k = log.parse_vkey(f.text(case["vkey"]))
        return {"name": k.name, "id": k.id.hex(), "type": k.kind, "publicSha256": hashlib.sha256(k.public).hexdigest()}

    for case in f.doc["accept"]:
        f.accept(case, {n: case[n] for n in ("name", "id", "type", "publicSha256")}, read, case)
    f.reject("vkey", lambda b: log.parse_vkey(b.decode("utf-8")))


def check_signed_note(f):
    for case in f.doc["accept"]:
        text, sigs = log.parse_note(f.raw(case["note"]))
        f.same(case, (case["textBytes"], case["lines"]), (len(text.encode()), len(sigs)))
        for want, (name, key_id, sig) in zip(case["signatures"], sigs):
            f.same(case, want, {"name": name, "id": key_id.hex(), "bytes": len(sig)})
        f.verify(case)
    for case in f.doc["verify"]:
        f.verify(case)
    f.reject("note", log.parse_note)


def check_checkpoint(f):
    def read(case):
        origin, size, root, extensions = log.parse_checkpoint(f.text(case["text"]))
        return {"originBytes": len(origin.encode()), "size": str(size), "root": root.hex(), "extensionLines": len(extensions)}

    for case in f.doc["accept"]:
        f.accept(case, {n: case[n] for n in ("originBytes", "size", "root", "extensionLines")}, read, case)
    f.reject("text", lambda b: log.parse_checkpoint(b.decode("utf-8")))


def check_cosignature(f):
    keys = f.keys()
    for case in f.doc["message"]:
        k, t, text = keys[case["key"]], int(case["time"]), f.text(case["text"])
        f.same(case, case["message"], (log.cosigned(t, text) if k.kind == log.COSIGNATURE else log.cosigned_tree(k.name, t, text)).hex())
    for case in f.doc["lattice"]:
        seed, msg = bytes.fromhex(case["seed"]), bytes.fromhex(case["message"])
        pub, sig = mldsa.public(seed), mldsa.sign(seed, msg)
        f.same(case, (case["publicSha256"], case["signatureSha256"], True),
        (hashlib.sha256(pub).hexdigest(), hashlib.sha256(sig).hexdigest(), mldsa.verify(pub, msg, sig)))
    for case in f.doc["verify"]:
        f.verify(case)


class Witness:
    """What a witness remembers of its logs."""

    def __init__(self, f, spec):
        self.f, self.doc, self.seed, self.stored, self.latest = f, f.doc, bytes.fromhex(spec["seed"]), {}, {}
        self.key = log.parse_vkey(spec["vkey"])
        self.logs = {x["origin"]: [log.parse_vkey(f.text(x["vkey"]))] for x in f.doc["logs"]}

    def put(self, body, at):
        _, blank, note = body.partition(b"\n\n")
        text, origin = "", ""
        try:
            text = log.parse_note(note)[0]
            origin = text.split("\n", 1)[0]
        except log.Malformed:
            pass
        status, shows = witness.decide(self.logs, self.stored.get(origin, (0, log.EMPTY_ROOT)), body)
        out = {"status": status} | ({"evidence": shows} if shows else {})
        if status == 409:
            out |= {"contentType": witness.SIZE_TYPE, "answer": f"{self.stored.get(origin, (0,))[0]}\n"}
        if status == 200:
            at = max(at, self.latest.get(origin, 0))
            self.stored[origin], self.latest[origin] = log.parse_checkpoint(text)[1:3], at
            out["line"] = log.note_line(self.key, at.to_bytes(8, "big") + ed25519.sign(self.seed, log.cosigned(at, text)))
        return out


def check_add_checkpoint(f):
    spec = f.doc["witness"]
    f.same({"spec": "signed-note", "rule": "key of the witness"}, spec["vkey"],
    str(log.VKey(spec["name"], log.COSIGNATURE, ed25519.public(bytes.fromhex(spec["seed"])))))
    at = int(spec["time"])
    members = ("status", "contentType", "answer", "line", "evidence")
    for case in f.doc["cases"]:
        w, state = Witness(f, spec), f.doc["states"][case["state"]]
        if "request" in state:
            f.same(case, 200, w.put(f.raw(state["request"]), at)["status"])
            f.same(case, (int(state["size"]), bytes.fromhex(state["root"])), w.stored[state["origin"]])
        f.same(case, {n: case[n] for n in members if n in case}, w.put(f.raw(case["body"]), at))
    for case in f.doc["sequences"]:
        w, tokens, last = Witness(f, spec), case["requestsPerDay"], 0
        for step in case["steps"]:
            tokens = min(case["requestsPerDay"], tokens + case["requestsPerDay"] * (step["after"] - last) / 86400)
            last, before = step["after"], (dict(w.stored), dict(w.latest))
            got = w.put(f.raw(step["body"]), at + step["after"])
            if got["status"] in (200, 409, 422):  # the log signed it
                if tokens < 1:
                    got = {"status": 429, "retryAfter": str(round((1 - tokens) * 86400 / case["requestsPerDay"]))}
                    w.stored, w.latest = before
                else:
                    tokens -= 1
            f.same(case, {n: step[n] for n in members + ("retryAfter",) if n in step}, got)
    known = [log.parse_vkey(f.text(p)) for p in f.doc["answerKeys"]]
    for case in f.doc["answers"]:
        f.same(case, case["means"], witness.read_answer(case["status"], case["contentType"], f.raw(case["body"]), f.raw(f.doc["checkpoint"]), known))


def check_proof(f):
    leaf_hash = log.leaf_hash(f.doc["leaf"].encode())
    f.same({"spec": "RFC 6962", "rule": "leaf hash"}, f.doc["leafHash"], leaf_hash.hex())
    for member in ("accept", "notIncluded"):
        for case in f.doc[member]:
            b = f.raw(case["proof"])
            extra, index, hashes, note = tlog_proof.parse(b)
            f.same(case, b, tlog_proof.write(extra, index, hashes, note))
            f.same(case, (case["index"], case["hashes"], case["extraBytes"], case["size"]),
                   (str(index), len(hashes), -1 if extra is None else len(extra), str(log.parse_checkpoint(log.parse_note(note)[0])[1])))
            f.same(case, member == "accept", tlog_proof.included(b, leaf_hash))
    f.reject("proof", tlog_proof.parse)


def check_policy(f):
    def read(case):
        p = policy.Policy(f.raw(case["policy"]))
        out = {"logs": [(f"{k.name}+{k.id.hex()}", u) for k, u in p.logs], "witnesses": [(n, f"{k.name}+{k.id.hex()}", u) for n, k, u in p.witnesses],
               "groups": [(n, k, list(m)) for n, k, m in p.groups], "quorum": p.quorum}
        if "satisfied" in case:
            names = [n for n, _, _ in p.witnesses]
            out["satisfied"] = [list(x) for r in range(len(names) + 1) for x in itertools.combinations(names, r) if p.satisfied(x)]
        return out

    for case in f.doc["accept"]:
        want = {"logs": [(x["key"], f.raw(x["url"])) for x in case["logs"]],
        "witnesses": [(f.raw(x["name"]), x["key"], f.raw(x["url"])) for x in case["witnesses"]],
                "groups": [(f.raw(x["name"]), x["k"], list(map(f.raw, x["members"]))) for x in case["groups"]], "quorum": f.raw(case["quorum"])}
        if "satisfied" in case:
            want["satisfied"] = [list(map(f.raw, x)) for x in case["satisfied"]]
        f.accept(case, want, read, case)
    for case in f.doc["reject"]:
        try:
            policy.Policy(f.raw(case["policy"]))
            f.same(case, case["line"], "accepted")
        except policy.Bad as e:
            f.same(case, case["line"], e.line)
    for case in f.doc["judge"]:
        f.same(case, case["why"], policy.Policy(f.raw(case["policy"])).judge(f.raw(case["note"])))


def check_equivocation(f):
    keys = [log.parse_vkey(f.doc["key"])]
    for member in ("shown", "notShown"):
        for case in f.doc[member]:
            d = witness.parse_evidence(f.raw(case["document"]))
            f.same(case, (case["kind"], case["id"], member == "shown"), (d["kind"], witness.evidence_id(d), witness.shows(d, keys)))
            if member == "shown":
                f.same(case, case["conclusive"], d["kind"] != "unproven")
    for p in f.doc["sameId"]:
        f.same({"spec": "docs/spec/witness.md", "rule": "sameId"}, f.doc["shown"][0]["id"], witness.evidence_id(witness.parse_evidence(f.raw(p))))
    f.reject("document", witness.parse_evidence)


CHECKS = (check_verifier_key, check_signed_note, check_checkpoint, check_cosignature, check_add_checkpoint, check_proof, check_policy, check_equivocation)


def main():
    if len(sys.argv) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    done = bad = 0
    try:
        for check in CHECKS:
            f = File(check.__name__.removeprefix("check_"))
            check(f)
            done, bad = done + f.done, bad + f.bad
    except (OSError, KeyError, ValueError, log.Malformed) as e:
        print(f"cannot read the vectors: {e!r}", file=sys.stderr)
        return 2
    print(f"{done} values, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
