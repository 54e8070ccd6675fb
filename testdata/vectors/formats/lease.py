"""The record of which node signs: docs/spec/lease.md."""
import hashlib
import json
import re

from . import log
from .event import Bad

MAX_RECORD, MAX_CHECKPOINT, MAX_WITNESSED, MAX_ORIGIN, MAX_COUNT = 65536, 8192, 32768, 512, (1 << 53) - 1
EMPTY = hashlib.sha256(b"").digest()


def spell(r):
    """A record as a dict → the bytes of it. Notes and root are bytes."""
    out = {"version": 1, "origin": r["origin"], "epoch": r["epoch"], "node": r["node"], "instance": r["instance"], "beat": r["beat"],
           "guard": {"size": r["guard"][0], "root": log.b64(r["guard"][1])}}
    for name in ("checkpoint", "witnessed"):
        if r.get(name):
            out[name] = log.b64(r[name])
    return json.dumps(out, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def parse(data):
    """Bytes → the record as a dict; Bad for every other spelling."""
    if len(data) > MAX_RECORD:
        raise Bad("", "too long")
    try:
        d = json.loads(data.decode("utf-8"))
        r = {k: d[k] for k in ("origin", "epoch", "node", "instance", "beat")}
        r["guard"] = (d["guard"]["size"], log.hash_line(d["guard"]["root"]))
        for name in ("checkpoint", "witnessed"):
            if name in d:
                r[name] = log.strict_b64(d[name])
        again = spell(r)
    except (ValueError, KeyError, TypeError, AttributeError, log.Malformed) as e:
        raise Bad("", repr(e)) from None
    if again != data:
        raise Bad("", "another spelling")
    check(r)
    return r


def count(n, least):
    if type(n) is not int or not least <= n <= MAX_COUNT:
        raise Bad("", "not a count")


def check(r):
    if not 1 <= len(r["origin"].encode()) <= MAX_ORIGIN:
        raise Bad("", "origin")
    count(r["epoch"], 1)
    count(r["beat"], 1)
    if (r["node"], r["instance"]) != ("", "") and not (
            re.fullmatch("[A-Za-z0-9_-]{1,64}", r["node"]) and re.fullmatch("[0-9a-f]{32}", r["instance"])):
        raise Bad("", "holder")
    tree(r["guard"])
    of = r["guard"]
    for name, most in (("checkpoint", MAX_CHECKPOINT), ("witnessed", MAX_WITNESSED)):
        if not r.get(name):
            of = None
            continue
        if of is None:
            raise Bad("", "witnessed without checkpoint")
        of = within(r[name], r["origin"], most, of)


def tree(t):
    count(t[0], 0)
    if t[0] == 0 and t[1] != EMPTY:
        raise Bad("", "root of no leaves")


def within(note, origin, most, of):
    """The tree of a note, which may be a beginning of another."""
    if len(note) > most:
        raise Bad("", "note too long")
    try:
        text, _ = log.parse_note(note)
        name, size, root, extension = log.parse_checkpoint(text)
    except log.Malformed as e:
        raise Bad("", str(e)) from None
    tree((size, root))
    if name != origin or extension or size > of[0] or size == of[0] and root != of[1]:
        raise Bad("", "not a beginning")
    return size, root
