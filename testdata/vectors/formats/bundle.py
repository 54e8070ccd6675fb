"""Bundle and its verification: docs/spec/bundle.md."""
import base64
import json
import pathlib

from . import canonical, event, lifecycle, log
from .canonical import Number, Refused
from .event import Bad

SCHEMA = "counterfoil.bundle.v1"
MAX_BUNDLE, MAX_ENTRIES, MAX_HASHES, MAX_BOUNDARIES = 256 << 20, 100_000, 64, 64
CHECKS = ("trust", "format", "schema", "checkpoint", "origin", "log_signature", "witness_quorum", "freshness", "entry_order", "commitment_digest",
          "reference", "payload_type", "event_signature", "key_validity", "leaf_index", "proof_length", "inclusion", "chain", "lifecycle",
          "claims", "completeness")
REGISTRY = json.loads((pathlib.Path(__file__).parent.parent / "registries.json").read_text(encoding="utf-8"))["claimBoundaries"]

S, I = str, Number
SHAPE = {"schemaVersion": S, "checkpoint": S, "claimBoundaries": {"*": S}, "entries": [{
    "record": {"origin": S, "leafIndex": I, "inclusionProof": [S]},
    "reference": {"eventId": S, "attemptId": S, "lifecycle": S, "revision": I, "previous": S},
    "artifact": {"receipt": object, "commitment": {"digest": S, "payloadType": S, "signatures": object}}}]}


# --- writing ---------------------------------------------------------------


def entry(e, sigs, index, proof=None):
    """An entry for an event, its signatures, its place and, under a checkpoint, its proof."""
    d = event.digest(canonical.write(e).encode("utf-8"))
    record = {"origin": e["ledger"], "leafIndex": index}
    if proof is not None:
        record["inclusionProof"] = [base64.b64encode(h).decode() for h in proof]
    reference = {"eventId": "evt_" + d, "attemptId": e["attemptId"], "lifecycle": e["lifecycle"], "revision": e["revision"]}
    if "previous" in e:
        reference["previous"] = e["previous"]
    signatures = [{"keyId": k, "sig": base64.b64encode(s).decode()} for k, s in sigs]
    return {"record": record, "reference": reference,
            "artifact": {"receipt": e, "commitment": {"digest": "sha256:" + d, "payloadType": event.PAYLOAD_TYPE, "signatures": signatures}}}


def document(entries, checkpoint=None):
    d = {"schemaVersion": SCHEMA, "entries": entries,
         "claimBoundaries": {c: REGISTRY[c] for c in {x["artifact"]["receipt"]["claimBoundary"] for x in entries}}}
    if checkpoint is not None:
        d["checkpoint"] = checkpoint
    return d


def write(d):
    return canonical.write(d).encode("utf-8")


# --- reading ---------------------------------------------------------------


def fit(v, shape, path, optional=("checkpoint", "inclusionProof", "previous")):
    """Exactly these members, of these types; object stands for anything."""
    if shape is object:
        return
    if isinstance(shape, dict) and "*" not in shape and isinstance(v, dict):
        for name in shape:
            if name not in v and name not in optional:
                raise Bad(f"{path}/{name}", "missing")
        for name, x in v.items():
            if name not in shape:
                raise Bad(f"{path}/{name}", "unknown member")
            fit(x, shape[name], f"{path}/{name}")
    elif isinstance(shape, list) and isinstance(v, list):
        for i, x in enumerate(v):
            fit(x, shape[0], f"{path}/{i}")
    elif v is None:
        raise Bad(path, "null")
    else:
        event.fit(v, shape, path)


class OtherSchema(Bad):
    pass


def index(n):
    if not 0 <= int(n):
        raise Bad("", "negative index")
    return int(n)


# --- verification ----------------------------------------------------------


class Report:
    def __init__(self):
        self.status, self.fails, self.passed = None, [], set()

    def fail(self, name, leaf=None):
        self.fails.append((name, leaf))

    def names(self):
        return [n for n in CHECKS if any(n == f for f, _ in self.fails)]


def verify(raw, trust, min_size=0, newest=None, allow_partial=False, max_age=None, now=None):
    """trust is a trust.Trust, or None; max_age and now are in seconds."""
    r = Report()
    if trust is None or raw == b"":
        r.status = "not_judged"
        return r
    try:
        doc = read(raw)
    except (Refused, Bad) as e:
        r.fail("schema" if isinstance(e, OtherSchema) else "format")
        r.status = "failed"
        return r
    if not doc["entries"]:
        r.status = "not_judged"
        return r
    Verifier(r, trust, doc, allow_partial, min_size, newest, max_age, now).run()
    return r


def read(raw):
    if len(raw) > MAX_BUNDLE:
        raise Bad("", "over 256 MiB")
    doc = canonical.parse(raw, canonical.Profile(MAX_BUNDLE, 64, True, True))
    if isinstance(doc, dict) and type(doc.get("schemaVersion")) is str and doc["schemaVersion"] != SCHEMA:
        raise OtherSchema("/schemaVersion", "another schema")
    if not isinstance(doc, dict) or canonical.write(doc).encode("utf-8") != raw:
        raise Bad("", "not an object in canonical form")
    fit(doc, SHAPE, "")
    if len(doc["entries"]) > MAX_ENTRIES or len(doc["claimBoundaries"]) > MAX_BOUNDARIES:
        raise Bad("", "too many")
    if not all(c.isascii() for c in doc["claimBoundaries"]) or any(e["reference"].get("previous") == "" for e in doc["entries"]):
        raise Bad("", "a code that is not ASCII, or an empty previous")
    for e in doc["entries"]:
        rec, art = e["record"], e["artifact"]
        if index(rec["leafIndex"]) > canonical.MAX_SAFE or index(e["reference"]["revision"]) < 0:
            raise Bad("", "index")
        if not isinstance(art["receipt"], dict) or not isinstance(art["commitment"]["signatures"], list):
            raise Bad("", "receipt is an object, signatures an array")
        proof = rec.get("inclusionProof", [])
        if len(proof) > MAX_HASHES or not all(len(canonical.quote(h).encode("utf-8")) == 46 for h in proof):
            raise Bad("", "hashes")
    return doc


def signatures(v):
    """[(keyId, signature)] of an array of the right form, whatever the key ids are; None if it is not."""
    ok = 1 <= len(v) <= event.MAX_SIGNATURES and all(isinstance(x, dict) and set(x) == {"keyId", "sig"} for x in v)
    if not ok or not all(type(x["keyId"]) is str and type(x["sig"]) is str and event.strict_b64(x["sig"]) is not None for x in v):
        return None
    return [(x["keyId"], event.strict_b64(x["sig"])) for x in v]


class Verifier:
    def __init__(self, report, trust, doc, allow_partial, min_size, newest, max_age, now):
        self.r, self.trust, self.doc = report, trust, doc
        self.allow_partial, self.min_size, self.newest = allow_partial, min_size, newest
        self.max_age, self.now, self.unjudged = max_age, now, False
        self.last, self.codes, self.unread, self.seen, self.attempts = -1, set(), False, set(), {}
        self.size = self.root = None

    def run(self):
        self.checkpoint(self.doc.get("checkpoint"))
        for e in self.doc["entries"]:
            self.entry(e)
        self.claims()
        self.completeness()
        self.r.status = "failed" if self.r.fails else "not_judged" if self.size is None or self.unjudged else "verified"

    def checkpoint(self, note):
        if note is None:
            return
        try:
            text, sigs = log.parse_note(note.encode("utf-8"))
            origin, self.size, self.root, _ = log.parse_checkpoint(text)
        except log.Malformed:
            return self.r.fail("checkpoint")
        if origin != self.trust.origin:
            self.r.fail("origin")
        try:
            if log.signed_by(text, sigs, self.trust.log) == 0:
                self.r.fail("log_signature")
        except log.NotVerified:
            self.r.fail("log_signature")
        cosigned = []
        for w in self.trust.witnesses:
            try:
                n = log.signed_by(text, sigs, w)
            except log.NotVerified:
                self.r.fail("witness_quorum")
                return
            times = [int.from_bytes(s[:8], "big") for name, i, s in sigs if (name, i) == (w.name, w.id)]
            if n and max(times) > 0:
                cosigned.append(max(times))
        if len(cosigned) < self.trust.quorum:
            self.r.fail("witness_quorum")
        elif self.max_age is not None:
            self.freshness(cosigned)

    def freshness(self, times):
        """The time since which so many cosigned, without times that are more than five minutes ahead."""
        quorum = self.trust.quorum
        if quorum == 0:
            self.unjudged = True
            return
        times = sorted((t for t in times if t <= self.now + 300), reverse=True)
        if len(times) < quorum or self.now - times[quorum - 1] > self.max_age:
            self.r.fail("freshness")

    def entry(self, e):
        rec, ref, art = e["record"], e["reference"], e["artifact"]
        com = art["commitment"]
        i = int(rec["leafIndex"])
        fail = lambda name: self.r.fail(name, i)
        if i <= self.last:
            fail("entry_order")
        self.last = i
        # The document is canonical, so these are the bytes as they stand in it.
        eb, sb = (canonical.write(v).encode("utf-8") for v in (art["receipt"], com["signatures"]))
        ev = sigs = None
        try:
            ev = event.parse_event(eb)
            self.codes.add(ev["claimBoundary"])
        except Bad:
            self.unread = True
            try:
                canonical.check_canonical(eb, canonical.RESTRICTED)
                fail("schema")
            except Refused:
                fail("format")
        sigs = signatures(com["signatures"])
        if sigs is None:
            fail("format")
        elif ev:
            try:
                event.parse_record(eb, sb)
            except Bad:
                fail("schema")
        digest = event.digest(eb)
        intact = ev is not None and com["digest"] == "sha256:" + digest
        if com["digest"] != "sha256:" + digest:
            fail("commitment_digest")
        if com["payloadType"] != event.PAYLOAD_TYPE:
            fail("payload_type")
        declared = com["digest"][7:] if event.hex64("sha256:", com["digest"]) else digest
        self.reference(fail, ref, ev, digest, declared)
        if rec["origin"] != self.trust.origin or (ev and ev["ledger"] != self.trust.origin):
            fail("origin")
        if sigs:
            why = self.trust.judge(eb, sigs, i)
            if why:
                fail("event_signature" if why in ("unknown_key", "bad_signature") else "key_validity")
        self.place(fail, i, rec.get("inclusionProof"), event.leaf(eb, sb))
        self.chain(fail, ref, ev, eb, digest, declared, intact)

    def reference(self, fail, ref, ev, digest, declared):
        want = {"eventId": "evt_" + (declared if ref["eventId"] == "evt_" + declared else digest)}
        if ev:
            want |= {"attemptId": ev["attemptId"], "lifecycle": ev["lifecycle"], "revision": ev["revision"], "previous": ev.get("previous")}
        if any(ref.get(n) != v for n, v in want.items()):
            fail("reference")

    def place(self, fail, i, proof, leaf):
        if self.size is None:
            return
        if i >= self.size:
            return fail("leaf_index")
        # The length first: it follows from the place alone.
        if proof is None or len(proof) != proof_length(i, self.size):
            return fail("proof_length")
        hashes = [event.strict_b64(h) for h in proof]
        if any(h is None or len(h) != 32 for h in hashes):
            return fail("format")
        if log.root_from_proof(i, self.size, log.leaf_hash(leaf), hashes) != self.root:
            fail("inclusion")

    def chain(self, fail, ref, ev, eb, digest, declared, intact):
        src = ev or ref
        if event.shard_of_attempt(src["attemptId"]) is None:
            return
        if digest in self.seen:
            return fail("lifecycle")
        self.seen.add(digest)
        a = self.attempts.setdefault(src["attemptId"], {"revision": 0, "heads": (), "fold": lifecycle.Chain(), "unfolded": False})
        revision, follows = int(src["revision"]), src.get("previous", "") in a["heads"]
        if revision > a["revision"] + 1:
            a["unfolded"] = True
            if not self.allow_partial:
                fail("chain")
        elif revision == a["revision"] + 1:
            if revision > 1 and not follows:
                a["unfolded"] = True
                fail("chain")
        else:
            a["unfolded"] = True
            return fail("chain")
        if intact and not a["unfolded"]:
            if a["fold"].add(ev, eb):
                return fail("lifecycle")
        else:
            a["unfolded"] = True
        a["revision"], a["heads"] = revision, ("sha256:" + digest, "sha256:" + declared)

    def claims(self):
        given = self.doc["claimBoundaries"]
        for code in self.codes:
            if given.get(code) != REGISTRY[code]:
                self.r.fail("claims")
        for code, text in given.items():
            if code not in self.codes and not (self.unread and REGISTRY.get(code) == text):
                self.r.fail("claims")

    def completeness(self):
        if self.size is None:
            return
        if self.size < self.min_size:
            self.r.fail("completeness")
        if self.newest is not None:
            try:
                text, sigs = log.parse_note(self.newest)
                origin, size, root, _ = log.parse_checkpoint(text)
                ok = origin == self.trust.origin and log.signed_by(text, sigs, self.trust.log) > 0
                ok = ok and self.size >= size and (self.size > size or self.root == root)
            except (log.Malformed, log.NotVerified):
                ok = False
            if not ok:
                self.r.fail("completeness")


def proof_length(i, size):
    """The number of hashes that leaf i in a tree of that size needs."""
    inner = (i ^ (size - 1)).bit_length()
    return inner + bin(i >> inner).count("1")
