"""The canonical request and its tag: docs/spec/commitments.md."""
import hashlib
import hmac

from . import canonical
from .event import lp

BEGIN = ("action", "expectedEffect", "keepBody", "occurredAt", "privateInput", "privateInputRaw", "source", "subject", "traceId")
APPEND = ("attemptId", "keepBody", "lifecycle", "occurredAt", "privateResult", "privateResultRaw", "readback", "reasonCodes",
          "refs", "reviewer", "rubric", "sourceEventId", "status")
# Members whose value is private: null, "", [] and {} are values like any other.
PRIVATE = ("privateInput", "expectedEffect", "privateResult")


def present(v):
    return v is not None and v is not False and v != "" and v != [] and v != {}


def canonical_request(kind, body):
    """Bytes as sent → canonical bytes. kind is "begin" or "append"."""
    sent = canonical.parse(body, canonical.Profile(24 << 20, 512, True, True))
    names = BEGIN if kind == "begin" else APPEND
    assert set(sent) <= set(names), "unknown member"
    out = {k: v for k, v in sent.items() if k in PRIVATE or present(v)}
    if kind == "begin" and "subject" not in out:
        out["subject"] = {"kind": "tool_action", "id": sent["action"]["name"]}
    if "readback" in out:
        rb = out["readback"]
        out["readback"] = {k: v for k, v in rb.items() if k == "value" or (present(v) and v != "0")}
    return canonical.write(out).encode("utf-8")


def mac(key, label, value):
    return hmac.new(key, lp(label) + lp(value), hashlib.sha256).digest()


def tag_key(tenant_key, attempt_key):
    return mac(tenant_key, b"counterfoil.tag-key.v1", attempt_key)


def request_tag(key, request):
    return "hmac-sha256:" + mac(key, b"counterfoil.tag.request.v1", request).hex()


def effect_tag(key, value):
    return "hmac-sha256:" + mac(key, b"counterfoil.tag.effect.v1", value).hex()


def commitment(name, salt, value):
    return "sha256:" + hashlib.sha256(lp(b"counterfoil.commitment.v1") + lp(name.encode()) + lp(salt) + lp(value)).hexdigest()


def salt(attempt_key, attempt_id, slot, name):
    msg = b"".join(lp(x.encode("utf-8")) for x in ("counterfoil.salt.v1", attempt_id, slot, name))
    return hmac.new(attempt_key, msg, hashlib.sha256).digest()
