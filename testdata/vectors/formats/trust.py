"""Trust file: docs/spec/trust.md."""
import base64

from . import canonical, event, log
from .canonical import Number
from .event import strict_b64, verify_with

SCHEMA = "counterfoil.trust.v1"
MAX_FILE, MAX_KEYS, MAX_WITNESSES = 1 << 20, 1024, 64
PROFILE = canonical.Profile(MAX_FILE, 8, False, False)

S, I = str, Number
SHAPE = {"schemaVersion": S, "log": {"origin": S, "vkey": S}, "quorum": I, "witnesses": [{"vkey": S}],
         "eventKeys": [{"keyId": S, "publicKey": S, "fromIndex": I, "toIndex": I, "revokedFromIndex": I}]}


class Malformed(Exception):
    pass


class EventKey:
    """Valid for leaf i if from ≤ i, i < to and i < revoked, as far as they are set."""

    def __init__(self, j):
        need(j, "keyId", "publicKey", "fromIndex")
        self.id, self.public = j["keyId"], strict_b64(j["publicKey"])
        if not self.public or len(self.public) != 32 or self.id not in (event.key_id(self.public), event.prehash_key_id(self.public)):
            raise Malformed("event key: 32 bytes under their own id")
        self.first, self.to, self.revoked = (int(j[n]) if n in j else None for n in ("fromIndex", "toIndex", "revokedFromIndex"))
        if any(n is not None and n < self.first for n in (self.to, self.revoked)) or self.first < 0:
            raise Malformed("event key: an index before fromIndex")

    def invalid_at(self, i):
        if self.revoked is not None and i >= self.revoked:
            return "key_revoked"
        if self.to is not None and i >= self.to:
            return "key_retired"
        return "key_not_yet_valid" if i < self.first else ""


class Trust:
    def __init__(self, b):
        try:
            j = canonical.parse(b, PROFILE)
            no_null(j)
            event.fit(j, SHAPE, "")
            if not isinstance(j, dict) or j.get("schemaVersion") != SCHEMA:
                raise Malformed("schemaVersion")
            need(j, "log", "eventKeys")
            need(j["log"], "origin", "vkey")
            self.log = log.parse_vkey(j["log"]["vkey"])
            self.keys = [EventKey(k) for k in j["eventKeys"]]
            self.witnesses = []
            for w in j.get("witnesses", []):
                need(w, "vkey")
                self.witnesses.append(log.parse_vkey(w["vkey"]))
            self.quorum = int(j.get("quorum", 0))
        except (canonical.Refused, event.Bad, log.Malformed) as e:
            raise Malformed(str(e)) from None
        self.origin = self.log.name
        if j["log"]["origin"] != self.origin or self.log.kind not in (log.ED25519, log.MLDSA44):
            raise Malformed("log")
        if not 1 <= len(self.keys) <= MAX_KEYS or len({k.public for k in self.keys}) != len(self.keys):
            raise Malformed("eventKeys: 1 to 1024, none twice")
        if len(self.witnesses) > MAX_WITNESSES or any(w.kind not in (log.COSIGNATURE, log.MLDSA44) for w in self.witnesses):
            raise Malformed("witnesses")
        for names in ([k.public for k in [self.log] + self.witnesses], [k.name for k in [self.log] + self.witnesses]):
            if len(set(names)) != len(names):
                raise Malformed("a key or a name twice")
        if not 0 <= self.quorum <= len(self.witnesses):
            raise Malformed("quorum")

    def canonical(self):
        out = {"schemaVersion": SCHEMA, "log": {"origin": self.origin, "vkey": str(self.log)}, "eventKeys": []}
        for k in sorted(self.keys, key=lambda k: k.id):
            e = {"keyId": k.id, "publicKey": base64.b64encode(k.public).decode(), "fromIndex": k.first}
            out["eventKeys"].append(e | {n: v for n, v in (("toIndex", k.to), ("revokedFromIndex", k.revoked)) if v is not None})
        if self.witnesses:
            out["witnesses"] = [{"vkey": v} for v in sorted(map(str, self.witnesses))]
        if self.quorum:
            out["quorum"] = self.quorum
        return canonical.write(out)

    def judge(self, event_bytes, sigs, index):
        """"" if a signature counts at this leaf index, or why none does."""
        best = "unknown_key"
        for kid, sig in sigs:
            k = next((k for k in self.keys if k.id == kid), None)
            if k is None:
                continue
            if verify_with(k.public, event_bytes, [(kid, sig)]) < 0:
                best = "bad_signature" if best == "unknown_key" else best
                continue
            why = k.invalid_at(index)
            if why == "":
                return ""
            if best in ("unknown_key", "bad_signature"):
                best = why
        return best


def need(j, *names):
    if not all(n in j for n in names):
        raise Malformed("missing member")


def no_null(v):
    if v is None:
        raise Malformed("null")
    for x in v.values() if isinstance(v, dict) else v if isinstance(v, list) else ():
        no_null(x)
