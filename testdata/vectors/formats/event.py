"""Event, record and leaf: docs/spec/event.md and docs/spec/record.md."""
import base64
import datetime
import hashlib
import re
import unicodedata

from . import canonical, ed25519
from .canonical import Number, Refused, token

SCHEMA = "counterfoil.event.v1"
PAYLOAD_TYPE = "application/vnd.counterfoil.event.v1+json"
MAX_EVENT, MAX_LEAF, MAX_ID, MAX_SIGNATURES, MAX_SIG, MAX_REVISION = 32 << 10, 65535, 255, 64, 8 << 10, 1024
MAX_CODES, MAX_MEMBERS = 16, 16
UNPARSED = "counterfoil.v1._._._.00"

LIFECYCLES = ("attempt", "outcome", "reversal", "reconciliation", "review")
KINDS = ("tool_action", "admission", "contract", "retrieval", "citation", "key", "policy", "ledger")
STATUSES = {
    "attempt": ("requested",),
    "outcome": ("succeeded", "failed", "not_started", "unknown"),
    "reversal": ("reversed", "failed", "unknown"),
    "reconciliation": ("confirmed_committed", "confirmed_absent", "contradicted", "still_unknown"),
}
DISPOSITIONS = ("continue", "re_admit", "quarantine", "retire")
VERDICTS = ("upheld", "disputed", "noted")
BOUNDARIES = {
    "attempt": "attempt_self_asserted_v1",
    "outcome": "outcome_self_asserted_v1",
    "reversal": "reversal_self_asserted_v1",
    "reconciliation": "reconciliation_derived_v1",
    "review": "review_opinion_v1",
}


class Bad(Exception):
    """A member was refused: JSON pointer and what was found."""

    def __init__(self, path, detail):
        super().__init__(f"{path or 'document'}: {detail}")
        self.path, self.detail = path, detail


def lp(x):
    return len(x).to_bytes(8, "big") + x


def parts(*texts):
    return b"".join(lp(t.encode("utf-8")) for t in texts)


# --- the parts of an event -------------------------------------------------

S, I = str, Number
TEXTS = {"*": S}
OPTIONAL = {"previous", "reasonCodes", "commitments", "tags", "refs", "statement", "traceId"}
SHAPE = {
    "schema": S, "ledger": S, "tenant": S, "attemptId": S, "revision": I, "previous": S, "lifecycle": S,
    "subject": {"kind": S, "id": S}, "occurredAt": S, "capturedAt": S,
    "source": {"runtimeId": S, "agentId": S, "invocationId": S, "protocol": S, "implementation": S, "eventId": S,
               "assurance": {"level": S, "status": S}},
    "traceId": S, "action": {"name": S, "effectKind": S, "effectMode": S}, "status": S, "reasonCodes": [S],
    "commitments": TEXTS, "tags": TEXTS, "refs": TEXTS, "claimBoundary": S,
    "statement": {"readback": {"source": S, "observed": S, "count": I},
                  "review": {"reviewer": S, "rubric": S,
                             "run": {"id": S, "trigger": S, "mode": S, "impact": S, "recheck": S, "causes": [S]}},
                  "contract": {"impact": S, "receipt": S, "admission": S, "artifact": S, "tools": S, "class": S, "server": S},
                  "gap": {"from": I, "to": I, "count": I}, "key": {"change": S, "keyId": S, "publicKey": S, "index": I},
                  "erasure": {"state": S, "attempts": [S]}, "hold": {"attempt": S, "subject": {"kind": S, "id": S}},
                  "retention": {"attempt": S, "class": S, "kind": S, "days": I}},
}


def fit(v, shape, path):
    """Types and member names; null is left for later, as an absent member."""
    if v is None:
        return
    if isinstance(shape, dict):
        if not isinstance(v, dict):
            raise Bad(path, "not an object")
        for name, x in v.items():
            if name not in shape and "*" not in shape:
                raise Bad(path + token(name), "unknown member")
            fit(x, shape.get(name, shape.get("*")), path + token(name))
    elif isinstance(shape, list):
        if not isinstance(v, list):
            raise Bad(path, "not an array")
        for i, x in enumerate(v):
            fit(x, shape[0], f"{path}/{i}")
    elif type(v) is not shape:
        raise Bad(path, "wrong type")


def hex64(prefix, s):
    return re.fullmatch(re.escape(prefix) + "[0-9a-f]{64}", s) is not None


def check_id(path, s):
    if not isinstance(s, str) or s == "":
        raise Bad(path, "missing or empty")
    if len(s.encode("utf-8")) > MAX_ID:
        raise Bad(path, "over 255 bytes")
    for c in s:
        if unicodedata.category(c) == "Cc" or canonical.noncharacter(ord(c)):
            raise Bad(path, "character U+%04X" % ord(c))


def check_origin(path, s):
    check_id(path, s)
    if "+" in s or any(c.isspace() or unicodedata.category(c) in ("Zs", "Zl", "Zp") for c in s):
        raise Bad(path, "space or plus sign")


def check_time(path, s):
    """RFC 3339, UTC, milliseconds, 24 bytes, a day and time that exist."""
    m = re.fullmatch(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})\.[0-9]{3}Z", s or "")
    try:
        if not m:
            raise ValueError("another spelling")
        year, *rest = map(int, m.groups())
        # Python has no year 0; the calendar of year 400 is the same.
        datetime.datetime(year or 400, *rest)
    except ValueError as e:
        raise Bad(path, str(e)) from None


def shard_of_attempt(s):
    return s[4:6] if re.fullmatch("att_[0-9a-f]{32}", s or "") else None


def scope(tenant, runtime, invocation):
    return hashlib.sha256(parts("counterfoil.scope.v1", tenant, runtime, invocation)).digest()


def boundary(lifecycle, kind):
    return "ledger_notice_v1" if kind == "ledger" else BOUNDARIES.get(lifecycle)


def statuses(lifecycle, kind):
    if lifecycle == "review":
        return DISPOSITIONS if kind in ("contract", "admission") else VERDICTS
    return STATUSES.get(lifecycle)


def check_members(e):
    """Every member by itself; null and absent are the same here."""
    get = lambda *path: _get(e, path)
    if get("schema") != SCHEMA:
        raise Bad("/schema", "not " + SCHEMA)
    check_origin("/ledger", get("ledger"))
    if not re.fullmatch("[a-z0-9-]{1,32}", get("tenant") or ""):
        raise Bad("/tenant", "not a tenant")
    shard = shard_of_attempt(get("attemptId"))
    if shard is None:
        raise Bad("/attemptId", "not an attempt id")
    revision = int(get("revision") or 0)
    if not 1 <= revision <= MAX_REVISION:
        raise Bad("/revision", "not 1 to 1024")
    previous = get("previous") or ""
    if (previous == "") != (revision == 1) or (previous and not hex64("sha256:", previous)):
        raise Bad("/previous", "absent at revision 1, a digest after it")
    lifecycle, kind = get("lifecycle"), get("subject", "kind")
    if (lifecycle == "attempt") != (revision == 1):
        raise Bad("/lifecycle", "an attempt is revision 1, and only that")
    if kind not in KINDS:
        raise Bad("/subject/kind", "unknown kind")
    if lifecycle not in LIFECYCLES:
        raise Bad("/lifecycle", "unknown lifecycle")
    if get("status") not in statuses(lifecycle, kind):
        raise Bad("/status", "not a status of this lifecycle")
    if get("claimBoundary") != boundary(lifecycle, kind):
        raise Bad("/claimBoundary", "not the code of this lifecycle and kind")
    check_time("/occurredAt", get("occurredAt"))
    check_time("/capturedAt", get("capturedAt"))
    if bool(get("source", "eventId")) != (lifecycle != "attempt"):
        raise Bad("/source/eventId", "absent in an attempt, present after it")
    for path in ("subject/id", "source/runtimeId", "source/agentId", "source/invocationId", "source/protocol",
                 "source/implementation", "source/eventId?", "source/assurance/level", "source/assurance/status", "traceId?",
                 "action/name", "action/effectKind", "action/effectMode"):
        v = get(*path.rstrip("?").split("/"))
        if v or not path.endswith("?"):
            check_id("/" + path.rstrip("?"), v)
    codes = get("reasonCodes") or []
    if len(codes) > MAX_CODES or len(set(codes)) != len(codes):
        raise Bad("/reasonCodes", "too many, or one twice")
    if not all(re.fullmatch("[a-z][a-z0-9_]{0,127}", c or "") for c in codes):
        raise Bad("/reasonCodes", "not lower_snake")
    if shard != scope(get("tenant"), get("source", "runtimeId"), get("source", "invocationId"))[:1].hex():
        raise Bad("/attemptId", "another shard than its scope")
    check_maps(e)
    check_statement(e, lifecycle, kind)


def _get(e, path):
    for name in path:
        e = (e or {}).get(name)
    return e


def check_maps(e):
    digest, tag = lambda v: hex64("sha256:", v), lambda v: hex64("hmac-sha256:", v)
    for name, ok in (("commitments", digest), ("tags", tag), ("refs", lambda v: digest(v) or hex64("evt_", v))):
        m = e.get(name) or {}
        if len(m) > MAX_MEMBERS:
            raise Bad("/" + name, "over 16 members")
        for key, v in m.items():
            if not re.fullmatch("[A-Za-z][A-Za-z0-9_]{0,63}", key):
                raise Bad("/" + name, "name is not letters, digits and _")
            if not ok(v or ""):
                raise Bad(f"/{name}/{key}", "not of the right form")


def check_statement(e, lifecycle, kind):
    want = {"reconciliation": "readback", "review": "review"}.get(lifecycle)
    st = e.get("statement")
    if lifecycle == "attempt" and kind == "ledger":
        want = "gap"
        for name in ("erasure", "hold", "retention"):
            if st is not None and st.get(name) is not None:
                want = name
    if lifecycle == "attempt" and kind == "key" and st is not None:
        want = "key"
    if lifecycle == "attempt" and kind == "contract" and st is not None:
        want = "contract"
    if {n for n, v in (st or {}).items() if v is not None} != ({want} if want else set()) or (want is None and st is not None):
        raise Bad("/statement", "does not fit lifecycle and kind")
    if want == "readback":
        r = st[want]
        check_id("/statement/readback/source", r.get("source"))
        if r.get("observed") not in ("present", "absent", "unreachable"):
            raise Bad("/statement/readback/observed", "not present, absent or unreachable")
        count = int(r.get("count") or 0)
        if count < 0 or (count and r["observed"] != "present"):
            raise Bad("/statement/readback/count", "at least 1, and only with present")
        if "count" in r and count == 0:
            raise Bad("/statement", "a count of 0 is another spelling of none")
    if want == "review":
        r = st[want]
        if not r.get("reviewer") and not r.get("rubric"):
            raise Bad("/statement/review", "neither reviewer nor rubric")
        for name in ("reviewer", "rubric"):
            if r.get(name):
                check_id("/statement/review/" + name, r[name])
        if r.get("run") is not None:
            check_run(e, r, kind)
    if want == "contract":
        check_contract(st[want])
    if want == "gap":
        a, b, n = (int(st[want].get(name) or 0) for name in ("from", "to", "count"))
        if a < 1 or b < a or not 1 <= n <= b - a + 1:
            raise Bad("/statement/gap", "not a range with that many missing")
    if want == "key":
        check_key_change(st[want])
    if want == "erasure":
        check_erasure(st[want])
    if want == "hold":
        check_hold(st[want])
    if want == "retention":
        check_retention(st[want])


IMPACTS = ("low", "standard", "privileged")
TRIGGERS = ("manual", "schedule", "policy_change", "impact_change", "verifier_change", "retention_change", "incident")


def check_run(e, review, kind):
    path, r = "/statement/review/run", review["run"]
    if not review.get("rubric"):
        raise Bad("/statement/review/rubric", "a run judges by a rubric")
    if kind not in ("contract", "admission"):
        raise Bad(path, "of contracts and admissions only")
    check_id(path + "/id", r.get("id"))
    for name, words in (("trigger", TRIGGERS), ("mode", ("report_only", "enforced")), ("impact", IMPACTS), ("recheck", ("pass", "fail", "unavailable"))):
        if r.get(name) not in words:
            raise Bad(f"{path}/{name}", "unknown word")
    causes = r.get("causes") or []
    if len(causes) > 8 or len(set(causes)) != len(causes) or not all(re.fullmatch("[a-z][a-z0-9_]{0,127}", c or "") for c in causes):
        raise Bad(path + "/causes", "too many, one twice, or not lower_snake")
    for name in ("receipt", "policy", "contract", "recheck"):
        if not hex64("sha256:", (e.get("refs") or {}).get(name) or ""):
            raise Bad("/refs/" + name, "no digest")
    if not e.get("reasonCodes"):
        raise Bad("/reasonCodes", "a review by a run says why")
    if "causes" in r and not causes:
        raise Bad("/statement", "an empty list is another spelling of none")


def check_contract(c):
    path = "/statement/contract"
    if c.get("impact") not in IMPACTS:
        raise Bad(path + "/impact", "unknown word")
    if not hex64("sha256:", c.get("receipt") or ""):
        raise Bad(path + "/receipt", "no digest")
    if c.get("admission") and not hex64("evt_", c["admission"]):
        raise Bad(path + "/admission", "no event id")
    for name in ("artifact", "tools"):
        if c.get(name) and not hex64("sha256:", c[name]):
            raise Bad(f"{path}/{name}", "no digest")
    for name in ("class", "server"):
        if c.get(name):
            check_id(f"{path}/{name}", c[name])
    if any(v == "" for v in c.values()):
        raise Bad("/statement", "an empty member is another spelling of none")


def is_attempt_id(v):
    return re.fullmatch("att_[0-9a-f]{32}", v or "") is not None


def check_erasure(x):
    path = "/statement/erasure"
    if x.get("state") not in ("redacted", "purged"):
        raise Bad(path + "/state", "not redacted or purged")
    ids = x.get("attempts") or []
    if not 1 <= len(ids) <= 256:
        raise Bad(path + "/attempts", "not 1 to 256")
    if not all(is_attempt_id(i) for i in ids):
        raise Bad(path + "/attempts", "no attempt id")
    if any(a >= b for a, b in zip(ids, ids[1:])):
        raise Bad(path + "/attempts", "not sorted, or one twice")


def check_hold(h):
    path = "/statement/hold"
    subject = h.get("subject")
    if bool(h.get("attempt")) == (subject is not None):
        raise Bad(path, "on an attempt or on a subject, one of the two")
    if subject is None:
        if not is_attempt_id(h["attempt"]):
            raise Bad(path + "/attempt", "no attempt id")
    else:
        if subject.get("kind") not in KINDS:
            raise Bad(path + "/subject/kind", "no subject kind")
        check_id(path + "/subject/id", subject.get("id"))
    if "attempt" in h and subject is not None or "subject" in h and subject is None:
        raise Bad("/statement", "an empty member is another spelling of none")


def check_retention(r):
    path = "/statement/retention"
    if not is_attempt_id(r.get("attempt")):
        raise Bad(path + "/attempt", "no attempt id")
    check_id(path + "/class", r.get("class"))
    if r.get("kind") not in ("security_evidence", "discovery_telemetry"):
        raise Bad(path + "/kind", "no kind of retention")
    if not 1 <= int(r.get("days") or 0) <= 36525:
        raise Bad(path + "/days", "not 1 to 36525")


def check_key_change(k):
    path = "/statement/key"
    if k.get("change") not in ("registered", "retired", "revoked", "disabled"):
        raise Bad(path + "/change", "not a change of a key")
    if not valid_key_id(k.get("keyId") or ""):
        raise Bad(path + "/keyId", "no key id")
    if k.get("index") is None:
        raise Bad("/statement", "no index")
    if not 0 <= int(k["index"]) < 2**53:
        raise Bad(path + "/index", "no leaf index")
    if (k["change"] == "registered") != bool(k.get("publicKey")):
        raise Bad(path + "/publicKey", "if the key is registered, and only then")
    if k.get("publicKey"):
        pub = strict_b64(k["publicKey"])
        if pub is None or k["keyId"] not in (key_id(pub), prehash_key_id(pub)):
            raise Bad(path + "/publicKey", "not the key of that id")
    elif "publicKey" in k:
        raise Bad("/statement", "an empty key is another spelling of none")


def parse_event(b):
    if len(b) > MAX_EVENT:
        raise Bad("", "over 32 KiB")
    try:
        e = canonical.parse(b, canonical.RESTRICTED)
    except Refused as r:
        raise Bad(r.path, r.reason) from None
    if not isinstance(e, dict):
        raise Bad("", "not an object")
    fit(e, SHAPE, "")
    check_members(e)
    if strip(e) != e or canonical.write(e).encode("utf-8") != b:
        raise Bad("", "not in canonical form")
    return e


def strip(v):
    """Without what is only another spelling of an absent member."""
    if not isinstance(v, dict):
        return v
    out = {k: strip(x) for k, x in v.items()}
    return {k: x for k, x in out.items() if x not in (None, "", [], {})}


def digest(event_bytes):
    return hashlib.sha256(event_bytes).hexdigest()


def subject(e):
    return f"counterfoil.v1.{e['tenant']}.{e['subject']['kind']}.{e['lifecycle']}.{shard_of_attempt(e['attemptId'])}"


# --- record and leaf -------------------------------------------------------


def strict_b64(s):
    """Standard base64 with padding, one spelling; None if it is not."""
    try:
        b = base64.b64decode(s, validate=True)
    except ValueError:
        return None
    return b if base64.b64encode(b).decode() == s else None


def key_id(pub):
    return "ed25519:" + hashlib.sha256(pub).hexdigest()


def prehash_key_id(pub):
    return "ed25519ph:" + hashlib.sha256(pub).hexdigest()


# The schemes of a public key, by the id that names it.
SCHEMES = ((key_id, ed25519.verify), (prehash_key_id, ed25519.verify_ph))


def valid_key_id(s):
    alg, colon, name = s.partition(":")
    if not colon or not re.fullmatch("[a-z0-9-]{1,32}", alg):
        return False
    if alg in ("ed25519", "ed25519ph"):
        return re.fullmatch("[0-9a-f]{64}", name) is not None
    return re.fullmatch(r'[!#-\[\]-~]{1,200}', name) is not None


def parse_signatures(b):
    """Canonical bytes of the array → [(keyId, signature bytes)]."""
    try:
        v = canonical.parse(b, canonical.Profile(MAX_LEAF, 32, False, False))
    except Refused as r:
        raise Bad(r.path, r.reason) from None
    fit(v, [{"keyId": S, "sig": S}], "")
    if not v or not 1 <= len(v) <= MAX_SIGNATURES:
        raise Bad("", "not 1 to 64 signatures")
    out = []
    for i, x in enumerate(v):
        x = x or {}
        if not valid_key_id(x.get("keyId") or ""):
            raise Bad(f"/{i}/keyId", "not algorithm:identifier")
        sig = strict_b64(x.get("sig") or "")
        if not sig or len(sig) > MAX_SIG:
            raise Bad(f"/{i}/sig", "not 1 to 8192 bytes of base64")
        out.append((x["keyId"], sig))
    if canonical.write(v).encode("utf-8") != b:
        raise Bad("", "not in canonical form")
    return out


def parse_record(event_bytes, signature_bytes):
    """The parts of a leaf, as a bundle carries them."""
    for path, read, b in (("/event", parse_event, event_bytes), ("/signatures", parse_signatures, signature_bytes)):
        try:
            v = read(b)
        except Bad as bad:
            raise Bad(path + bad.path, bad.detail) from None
        if path == "/event":
            e = v
    if len(leaf(event_bytes, signature_bytes)) > MAX_LEAF:
        raise Bad("", "leaf over 65535 bytes")
    return e, v


def leaf(event_bytes, signature_bytes):
    return b'{"event":' + event_bytes + b',"signatures":' + signature_bytes + b"}"


def write_signatures(sigs):
    return canonical.write([{"keyId": k, "sig": base64.b64encode(s).decode()} for k, s in sigs]).encode("utf-8")


def parse_leaf(b):
    """Leaf bytes → (event, event bytes, signatures)."""
    if len(b) > MAX_LEAF:
        raise Bad("", "over 65535 bytes")
    try:
        v = canonical.parse(b, canonical.Profile(MAX_LEAF, 33, False, False))
    except Refused as r:
        raise Bad(r.path, r.reason) from None
    if not isinstance(v, dict):
        raise Bad("", "not an object")
    for name in v:
        if name not in ("event", "signatures"):
            raise Bad(token(name), "unknown member")
    if set(v) != {"event", "signatures"}:
        raise Bad("", "not an event with signatures")
    # One spelling: the parts stand at fixed places, whatever they are.
    eb, sb = canonical.write(v["event"]).encode("utf-8"), canonical.write(v["signatures"]).encode("utf-8")
    e, sigs = parse_record(eb, sb)
    if leaf(eb, sb) != b:
        raise Bad("", "not in canonical form")
    return e, eb, sigs


def subject_of_leaf(b):
    try:
        return subject(parse_leaf(b)[0])
    except Bad:
        return UNPARSED


def pae(payload_type, payload):
    t = payload_type.encode("utf-8")
    return b"DSSEv1 %d %s %d %s" % (len(t), t, len(payload), payload)


def verify_with(pub, event_bytes, sigs):
    """Place of the first good signature of pub, −1 without one."""
    message = pae(PAYLOAD_TYPE, event_bytes)
    for i, (kid, sig) in enumerate(sigs):
        if any(kid == name(pub) and verify(pub, message, sig) for name, verify in SCHEMES):
            return i
    return -1
