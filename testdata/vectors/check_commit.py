#!/usr/bin/env python3
"""Recompute every value of commit.json and compare.

Python's standard library only; shares no code with the ledger. Exit status: 0
all equal, 1 a difference, 2 the file cannot be read.

    python3 check_commit.py           compare
    python3 check_commit.py --fill    add the values that are absent, then compare

Byte strings are hex in the file; a member "…Utf8" gives the same bytes as text;
{"repeatHex": "61", "times": n} stands for a long value.
"""
import hashlib
import hmac
import json
import pathlib
import sys

PATH = pathlib.Path(__file__).with_name("commit.json")


def lp(x: bytes) -> bytes:
    return len(x).to_bytes(8, "big") + x


def join(*parts: bytes) -> bytes:
    return b"".join(lp(p) for p in parts)


def mac(key: bytes, *parts: bytes) -> bytes:
    return hmac.new(key, join(*parts), hashlib.sha256).digest()


def data(v, member):
    if member + "Utf8" in v:
        return v[member + "Utf8"].encode("utf-8")
    x = v[member]
    if isinstance(x, dict):
        return bytes.fromhex(x["repeatHex"]) * x["times"]
    return bytes.fromhex(x)


def commitment(v):
    return hashlib.sha256(join(b"counterfoil.commitment.v1", v["name"].encode(), data(v, "salt"), data(v, "value"))).hexdigest()


def salt(v):
    return mac(data(v, "attemptKey"), b"counterfoil.salt.v1", v["attemptId"].encode(), v["slot"].encode(), v["name"].encode()).hex()


def tag_key(v):
    return mac(data(v, "tenantKey"), b"counterfoil.tag-key.v1", data(v, "attemptKey")).hex()


def request_tag(v):
    return "hmac-sha256:" + mac(data(v, "tagKey"), b"counterfoil.tag.request.v1", data(v, "request")).hex()


def effect_tag(v):
    return "hmac-sha256:" + mac(data(v, "tagKey"), b"counterfoil.tag.effect.v1", data(v, "value")).hex()


def fingerprint(v):
    return "sha256:" + hashlib.sha256(join(b"counterfoil.key-fingerprint.v1", data(v, "key"))).hexdigest()


GROUPS = {
    "commitment": lambda v: "sha256:" + commitment(v),
    "salt": salt,
    "tagKey": tag_key,
    "requestTag": request_tag,
    "effectTag": effect_tag,
    "fingerprint": fingerprint,
}


def written(text: str, prefix: str) -> bool:
    rest = text[len(prefix):]
    return text.startswith(prefix) and len(rest) == 64 and all(c in "0123456789abcdef" for c in rest)


def main() -> int:
    fill = sys.argv[1:] == ["--fill"]
    try:
        doc = json.loads(PATH.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        print(f"cannot read {PATH.name}: {e}", file=sys.stderr)
        return 2
    bad = n = 0
    for group, compute in GROUPS.items():
        seen = {}
        for v in doc[group]:
            n += 1
            got = compute(v)
            if fill and "want" not in v:
                v["want"] = got
            if v.get("want") != got:
                bad += 1
                print(f"{group}: {v['rule']}: file says {v.get('want')}, computed {got}")
            if got in seen:
                bad += 1
                print(f"{group}: {v['rule']}: same value as {seen[got]}")
            seen[got] = v["rule"]
    for kind, prefix in (("digestText", "sha256:"), ("tagText", "hmac-sha256:")):
        for accept in (True, False):
            for v in doc[kind]["accept" if accept else "reject"]:
                n += 1
                if written(v["text"], prefix) != accept:
                    bad += 1
                    print(f"{kind}: {v['rule']}: {v['text']!r} is in the wrong list")
    if fill:
        PATH.write_text(json.dumps(doc, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{n} vectors, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
