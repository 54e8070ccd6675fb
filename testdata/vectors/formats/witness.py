"""What a witness answers: docs/spec/witness.md, after C2SP tlog-witness.

Requests, decisions, answers as a client reads them, equivocation documents.
"""
import calendar
import hashlib
import json
import re

from . import canonical, log
from .event import lp

MAX_REQUEST, MAX_HASHES, MAX_EVIDENCE = 512 << 10, 63, 2 << 20
SCHEMA = "counterfoil.equivocation.v1"
SIZE_TYPE = "text/x.tlog.size"


# --- request ---------------------------------------------------------------


def parse_request(b):
    """Body of add-checkpoint → (old size, proof, text, signatures)."""
    if len(b) > MAX_REQUEST:
        raise log.Malformed("over 512 KiB")
    head, blank, note = b.partition(b"\n\n")
    if not blank:
        raise log.Malformed("no empty line")
    try:
        first, *rest = head.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise log.Malformed("old size or proof") from None
    if not first.startswith("old "):
        raise log.Malformed("old size line")
    old = log.decimal(first[4:])
    if len(rest) > MAX_HASHES:
        raise log.Malformed("over 63 proof lines")
    proof = [log.hash_line(s) for s in rest]
    text, sigs = log.parse_note(note)
    log.parse_checkpoint(text)
    return old, proof, text, sigs


# --- consistency -----------------------------------------------------------


def power_of_two(n):
    return n & (n - 1) == 0


def roots(old, new, proof, old_root):
    """The two roots that a consistency proof leads to (RFC 9162, section
    2.1.4.2), for 0 < old < new; Malformed if it has another number of hashes."""
    path = [old_root] + proof if power_of_two(old) else list(proof)
    if not proof:
        raise log.Malformed("no proof")
    fn, sn = old - 1, new - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = path[0]
    for c in path[1:]:
        if sn == 0:
            raise log.Malformed("a hash too many")
        if fn & 1 or fn == sn:
            fr, sr = log.node_hash(c, fr), log.node_hash(c, sr)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = log.node_hash(sr, c)
        fn, sn = fn >> 1, sn >> 1
    if sn:
        raise log.Malformed("a hash too few")
    return fr, sr


def prove(old, hashes):
    """Consistency proof from the first old leaves to all (RFC 6962, 2.1.2)."""
    def sub(m, d, whole):
        if m == len(d):
            return [] if whole else [log.root(d)]
        k = log.split(len(d))
        if m <= k:
            return sub(m, d[:k], whole) + [log.root(d[k:])]
        return sub(m - k, d[k:], False) + [log.root(d[:k])]
    return sub(old, hashes, True) if 0 < old < len(hashes) else []


def compare(old, old_root, new, new_root, proof):
    """What two trees and a proof show, None if the one continues the other."""
    if old == new:
        return None if old_root == new_root and not proof else "same_size" if old_root != new_root else ""
    try:
        a, b = roots(old, new, proof, old_root)
    except log.Malformed:
        return "unproven"
    if b != new_root:
        return "unproven"
    return None if a == old_root else "rewritten"


# --- decision --------------------------------------------------------------


def decide(logs, stored, body):
    """(status, evidence or "") of a request. logs: origin → verifier keys.
    stored: size and root of the latest cosigned checkpoint, (0, …) if none."""
    if len(body) > MAX_REQUEST:
        return 413, ""
    try:
        old, proof, text, sigs = parse_request(body)
    except log.Malformed:
        return 400, ""
    origin, size, root, _ = log.parse_checkpoint(text)
    if origin not in logs:
        return 404, ""
    try:
        if not sum(log.signed_by(text, sigs, k) for k in logs[origin]):
            return 403, ""
    except log.NotVerified:
        return 403, ""
    if old > size:
        return 400, ""
    have, have_root = stored if stored[0] else (0, log.EMPTY_ROOT)
    shows = ""
    if size == 0 and root != log.EMPTY_ROOT:
        shows = "empty_root"
    elif size == have and root != have_root:
        shows = "same_size"
    if old != have:
        return 409, shows
    if shows:
        return 422, shows
    if old == 0:
        return (422 if proof else 200), ""
    shows = compare(old, have_root, size, root, proof)
    return (200, "") if shows is None else (422, shows)


# --- answer, as a client reads it ------------------------------------------


def read_answer(status, content_type, body, note, keys):
    """What an answer means: {"cosigned": …} with the times of the known keys
    that signed, {"size": …}, or {"refused": why}."""
    if status == 409 and content_type == SIZE_TYPE:
        try:
            if not body.endswith(b"\n"):
                raise log.Malformed("size")
            return {"size": str(log.decimal(body[:-1].decode("ascii")))}
        except (log.Malformed, UnicodeDecodeError):
            return {"refused": "not a size"}
    if status in (409, 422):
        return {"refused": "root or proof"}
    if status != 200:
        return {"refused": "status"}
    try:
        text, sigs = log.parse_note(note)
        both, lines = log.parse_note(note + body)
        if both != text or lines[:len(sigs)] != sigs or not body:
            return {"refused": "not signature lines"}
        new = lines[len(sigs):]
        times = {}
        for k in keys:
            if log.signed_by(text, new, k):
                times[k.name] = max(log.timestamp(s) for n, i, s in new if (n, i) == (k.name, k.id))
    except log.Malformed:
        return {"refused": "not signature lines"}
    except log.NotVerified:
        return {"refused": "a signature of a known key does not verify"}
    if not times:
        return {"refused": "no signature of a known key"}
    if 0 in times.values():
        return {"refused": "a time of 0"}
    return {"cosigned": {n: str(t) for n, t in times.items()}}


# --- equivocation document -------------------------------------------------


MEMBERS = {"schemaVersion", "kind", "origin", "cosigned", "offered", "proof", "observedAt", "witness"}
OPTIONAL = {"cosigned", "proof", "witness"}


def whole_time(s):
    m = re.fullmatch(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})\.[0-9]{3}Z", s)
    if not m:
        return False
    year, month, day, hour, minute, second = map(int, m.groups())
    leap = calendar.isleap(year)
    return 1 <= month <= 12 and 1 <= day <= (29 if leap and month == 2 else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]) \
        and hour < 24 and minute < 60 and second < 60


def parse_evidence(b):
    if len(b) > MAX_EVIDENCE:
        raise log.Malformed("over 2 MiB")
    b = b[:-1] if b.endswith(b"\n") else b
    try:
        d = json.loads(b.decode("utf-8"))
        again = canonical.write(d).encode("utf-8")
    except (ValueError, TypeError, KeyError, RecursionError, canonical.Refused):
        raise log.Malformed("not JSON") from None
    if not isinstance(d, dict) or again != b:
        raise log.Malformed("not canonical JSON of an object")
    if not MEMBERS - OPTIONAL <= set(d) <= MEMBERS or d["schemaVersion"] != SCHEMA:
        raise log.Malformed("members or schema")
    proof = d.get("proof", ["x"])
    if not isinstance(proof, list) or not proof or "" in (d.get("cosigned"), d.get("witness")):
        raise log.Malformed("an empty member")
    if not all(isinstance(x, str) for x in proof + [v for n, v in d.items() if n != "proof"]):
        raise log.Malformed("a member that is no text")
    if not whole_time(d["observedAt"]):
        raise log.Malformed("observedAt")
    if "witness" in d:
        log.parse_vkey(d["witness"])
    return d


def signed_checkpoint(note, origin, keys):
    text, sigs = log.parse_note(note.encode("utf-8"))
    found, size, root, _ = log.parse_checkpoint(text)
    if found != origin:
        raise log.NotVerified("another origin")
    if not sum(log.signed_by(text, sigs, k) for k in keys):
        raise log.NotVerified("not signed by the log")
    return size, root


def shows(d, keys):
    """Whether a parsed document shows what its kind says."""
    try:
        size, root = signed_checkpoint(d["offered"], d["origin"], keys)
        proof = [log.hash_line(s) for s in d.get("proof", [])]
        if len(proof) > MAX_HASHES:
            return False
        if d["kind"] == "empty_root":
            return size == 0 and root != log.EMPTY_ROOT and not proof
        have, have_root = signed_checkpoint(d.get("cosigned", ""), d["origin"], keys)
    except (log.Malformed, log.NotVerified):
        return False
    if d["kind"] == "same_size":
        return size == have and root != have_root and not proof
    return d["kind"] in ("rewritten", "unproven") and 0 < have < size and compare(have, have_root, size, root, proof) == d["kind"]


def evidence_id(d):
    """The id of a document; it leaves out who saw it, and when."""
    def text(member):
        note = d.get(member, "")
        try:
            return log.parse_note(note.encode("utf-8"))[0]
        except log.Malformed:
            return note
    parts = [SCHEMA, d["kind"], text("cosigned"), text("offered")] + (d.get("proof", []) if d["kind"] != "unproven" else [])
    return hashlib.sha256(b"".join(lp(p.encode("utf-8")) for p in parts)).hexdigest()
