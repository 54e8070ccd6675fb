"""tlog/cosignature.json"""
import hashlib

from formats import ed25519, log, mldsa, pieces

from .common import ORIGIN, SEEDS
from .tlog import (CHECKPOINT, COSIGNATURE, KEYS, LATTICE, LATTICE_SEEDS, OURS_LOG, TIME, line, note, signature, tree, verdict)

TEXT = tree(7)
EXTENDED = TEXT + "extension\n"
W, PQ = KEYS["witness-1"], KEYS["witness-pq"]
LONG = "n" * 255


def ed(msg, time=TIME, k=W):
    return log.note_line(k, time.to_bytes(8, "big") + ed25519.sign(SEEDS["witness-1"], msg))


def pq(msg, time=TIME, k=PQ, context=b"", change=None):
    sig = bytearray(mldsa.sign(LATTICE_SEEDS["witness-pq"], msg, context))
    for at, value in change or []:
        sig[at] = value
    return log.note_line(k, time.to_bytes(8, "big") + bytes(sig))


def subtree(name=PQ.name, time=TIME, origin=ORIGIN, start=0, end=7, root=None, label=b"subtree/v1\n\0"):
    name, origin = name.encode(), origin.encode()
    return (label + bytes([len(name)]) + name + time.to_bytes(8, "big") + bytes([len(origin) & 255]) + origin + start.to_bytes(8, "big") + end.to_bytes(8,
    "big")
            + (root or log.parse_checkpoint(TEXT)[2]))


def swapped(s):
    """An Ed25519 signature with S + L for S."""
    sig = log.parse_note(note(TEXT, s).encode())[1][0][2]
    return log.note_line(W, sig[:40] + (int.from_bytes(sig[40:], "little") + ed25519.L).to_bytes(32, "little"))


GOOD_ED, GOOD_PQ = line("witness-1", TEXT), line("witness-pq", TEXT)
RAW = b"cosignature/v1\ntime %d\n" % TIME + TEXT.encode()
HINT = 32 + 576 * 4  # where the hint begins

# (spec, rule, key, text, line)
ACCEPT = [
    (COSIGNATURE, "type 0x04", "witness-1", TEXT, GOOD_ED), (COSIGNATURE, "type 0x06", "witness-pq", TEXT, GOOD_PQ),
    (COSIGNATURE, "a log's signature of type 0x06", "log-pq", TEXT, line("log-pq", TEXT)),
    (COSIGNATURE, "0x04 covers extension lines", "witness-1", EXTENDED, line("witness-1", EXTENDED)),
    (COSIGNATURE, "0x06 does not cover extension lines", "witness-pq", EXTENDED, GOOD_PQ),
    (COSIGNATURE, "0x06 made with extension lines, verified without", "witness-pq", TEXT, line("witness-pq", EXTENDED)),
    (COSIGNATURE, "0x04, time 1", "witness-1", TEXT, line("witness-1", TEXT, 1)),
    (COSIGNATURE, "0x04, time 2^63-1", "witness-1", TEXT, line("witness-1", TEXT, 2**63 - 1)),
    (COSIGNATURE, "0x06, time 2^63-1", "witness-pq", TEXT, line("witness-pq", TEXT, 2**63 - 1)),
    (COSIGNATURE, "0x06, time 0: valid, and says nothing about the largest tree", "witness-pq", TEXT, line("witness-pq", TEXT, 0)),
    (OURS_LOG, "0x04, time 0: counts towards no quorum", "witness-1", TEXT, line("witness-1", TEXT, 0)),
    (COSIGNATURE, "0x04 over an empty tree", "witness-1", tree(0), line("witness-1", tree(0))),
    (COSIGNATURE, "0x06 over an empty tree", "witness-pq", tree(0), line("witness-pq", tree(0))),
    (COSIGNATURE, "0x06, size 2^64-1", "witness-pq", log.checkpoint(ORIGIN, 2**64 - 1, bytes(32)),
        line("witness-pq", log.checkpoint(ORIGIN, 2**64 - 1, bytes(32)))),
    (COSIGNATURE, "0x06, origin of 255 bytes", "witness-pq", log.checkpoint(LONG, 7, bytes(32)), line("witness-pq", log.checkpoint(LONG, 7, bytes(32)))),
    (CHECKPOINT, "0x04, origin of 256 bytes", "witness-1", log.checkpoint(LONG + "n", 7, bytes(32)),
        line("witness-1", log.checkpoint(LONG + "n", 7, bytes(32)))),
    (CHECKPOINT, "an origin with a space", "witness-pq", log.checkpoint("a b", 7, bytes(32)), line("witness-pq", log.checkpoint("a b", 7, bytes(32)))),
]
REJECT = [
    (COSIGNATURE, "0x04: another size", "witness-1", tree(8), GOOD_ED),
    (COSIGNATURE, "0x06: another size", "witness-pq", TEXT.replace("\n7\n", "\n8\n"), GOOD_PQ),
    (COSIGNATURE, "0x04: another origin", "witness-1", tree(7, origin="x"), GOOD_ED),
    (COSIGNATURE, "0x06: another origin", "witness-pq", tree(7, origin="x"), GOOD_PQ),
    (COSIGNATURE, "0x06: another root", "witness-pq", log.checkpoint(ORIGIN, 7, bytes(32)), GOOD_PQ),
    (COSIGNATURE, "0x04: an extension line that was not signed", "witness-1", EXTENDED, GOOD_ED),
    (COSIGNATURE, "0x04: an extension line that was signed and is gone", "witness-1", TEXT, line("witness-1", EXTENDED)),
    (COSIGNATURE, "0x04: another time", "witness-1", TEXT, ed(log.cosigned(TIME, TEXT), TIME + 1)),
    (COSIGNATURE, "0x06: another time", "witness-pq", TEXT, pq(subtree(), TIME + 1)),
    (COSIGNATURE, "0x04: time 2^63", "witness-1", TEXT, line("witness-1", TEXT, 2**63)),
    (COSIGNATURE, "0x06: time 2^63", "witness-pq", TEXT, line("witness-pq", TEXT, 2**63)),
    (COSIGNATURE, "0x04: time 2^64-1", "witness-1", TEXT, line("witness-1", TEXT, 2**64 - 1)),
    (COSIGNATURE, "0x04: time little-endian", "witness-1", TEXT, log.note_line(W, TIME.to_bytes(8, "little") + ed25519.sign(SEEDS["witness-1"], RAW))),
    (COSIGNATURE, "0x04: header of another version", "witness-1", TEXT, ed(RAW.replace(b"v1", b"v2"))),
    (COSIGNATURE, "0x04: no header", "witness-1", TEXT, ed(RAW[15:])),
    (COSIGNATURE, "0x04: time with a leading zero in the message", "witness-1", TEXT, ed(RAW.replace(b"time ", b"time 0"))),
    (COSIGNATURE, "0x04: the plain text was signed", "witness-1", TEXT, ed(TEXT.encode())),
    (COSIGNATURE, "0x04: no time before the signature", "witness-1", TEXT, log.note_line(W, ed25519.sign(SEEDS["witness-1"], RAW))),
    (COSIGNATURE, "0x04: 71 bytes", "witness-1", TEXT, log.note_line(W, signature("witness-1", W, TEXT)[:-1])),
    (COSIGNATURE, "0x04: 73 bytes", "witness-1", TEXT, log.note_line(W, signature("witness-1", W, TEXT) + b"\0")),
    (COSIGNATURE, "0x04: 8 bytes", "witness-1", TEXT, log.note_line(W, TIME.to_bytes(8, "big"))),
    (COSIGNATURE, "0x04: 7 bytes", "witness-1", TEXT, log.note_line(W, bytes(7))),
    ("RFC 8032", "0x04: S not below the group's order", "witness-1", TEXT, swapped(GOOD_ED)),
    (COSIGNATURE, "0x06: the message of type 0x04", "witness-pq", TEXT, pq(RAW)),
    (COSIGNATURE, "0x06: the plain text was signed", "witness-pq", TEXT, pq(TEXT.encode())),
    (COSIGNATURE, "0x06: the name of another cosigner", "witness-pq", TEXT, pq(subtree(name="witness.example/pr"))),
    (COSIGNATURE, "0x06: a subtree that does not begin at 0", "witness-pq", TEXT, pq(subtree(start=4, time=0), 0)),
    (COSIGNATURE, "0x06: a subtree that ends before the size", "witness-pq", TEXT, pq(subtree(end=6))),
    (COSIGNATURE, "0x06: label without U+0000", "witness-pq", TEXT, pq(subtree(label=b"subtree/v1\n"))),
    (COSIGNATURE, "0x06: label of another version", "witness-pq", TEXT, pq(subtree(label=b"subtree/v2\n\0"))),
    (COSIGNATURE, "0x06: a context", "witness-pq", TEXT, pq(subtree(), context=b"subtree/v1")),
    (COSIGNATURE, "0x06: no time before the signature", "witness-pq", TEXT, log.note_line(PQ, signature("witness-pq", PQ, TEXT)[8:])),
    (COSIGNATURE, "0x06: 2427 bytes", "witness-pq", TEXT, log.note_line(PQ, signature("witness-pq", PQ, TEXT)[:-1])),
    (COSIGNATURE, "0x06: 2429 bytes", "witness-pq", TEXT, log.note_line(PQ, signature("witness-pq", PQ, TEXT) + b"\0")),
    (COSIGNATURE, "0x06: 8 bytes", "witness-pq", TEXT, log.note_line(PQ, TIME.to_bytes(8, "big"))),
    (COSIGNATURE, "0x06: an Ed25519 signature", "witness-pq", TEXT, ed(RAW, k=PQ)),
    (COSIGNATURE, "0x06: a text that is no checkpoint", "witness-pq", "hello\n", GOOD_PQ),
    (COSIGNATURE, "0x06: a size with a leading zero", "witness-pq", TEXT.replace("\n7\n", "\n07\n"), GOOD_PQ),
    (COSIGNATURE, "0x06: an origin of 256 bytes, its length taken modulo 256", "witness-pq", log.checkpoint(LONG + "n", 7, bytes(32)),
        pq(subtree(origin=LONG + "n", root=bytes(32)))),
    (LATTICE, "0x06: one bit of the challenge", "witness-pq", TEXT, pq(subtree(), change=[(0, mldsa.sign(LATTICE_SEEDS["witness-pq"], subtree())[0] ^ 1)])),
    (LATTICE, "0x06: one bit of the response", "witness-pq", TEXT, pq(subtree(), change=[(500, mldsa.sign(LATTICE_SEEDS["witness-pq"], subtree())[500] ^ 1)])),
    (LATTICE, "0x06: a response that is too large", "witness-pq", TEXT, pq(subtree(), change=[(32, 0), (33, 0), (34, 0)])),
    (LATTICE, "0x06: a hint with a place after its last", "witness-pq", TEXT, pq(subtree(), change=[(HINT + 79, 255)])),
    (LATTICE, "0x06: hints that end before they begin", "witness-pq", TEXT, pq(subtree(), change=[(HINT + 80, 81)])),
]


def make():
    def case(spec, rule, name, text, line_):
        both = note(text, line_)
        got = verdict(*log.parse_note(both.encode()), KEYS[name])
        return {"spec": spec, "rule": rule, "note": pieces.write(both, parts), "verify": {name: got}}

    parts = {"line witness-pq": GOOD_PQ}
    accept, reject = [case(*c) for c in ACCEPT], [case(*c) for c in REJECT]
    for c, bad in [(c, False) for c in accept] + [(c, True) for c in reject]:
        assert (list(c["verify"].values()) == ["bad"]) == bad, c["rule"]
    messages = [{"spec": COSIGNATURE, "rule": f"type 0x{k.kind:02x}, {what}", "key": n, "time": str(t), "text": pieces.write(x),
                 "message": (log.cosigned(t, x) if k.kind == log.COSIGNATURE else log.cosigned_tree(k.name, t, x)).hex()}
                for n, k in (("witness-1", W), ("witness-pq", PQ)) for what, t,
                x in (("no extension lines", TIME, TEXT), ("extension lines", TIME, EXTENDED), ("no leaves", 2**63 - 1, tree(0)))]
    lattice = []
    for name, seed in LATTICE_SEEDS.items():
        msg = ("message of " + name).encode()
        lattice.append({"spec": LATTICE, "rule": "key and deterministic signature, " + name, "seed": seed.hex(),
        "publicSha256": hashlib.sha256(mldsa.public(seed)).hexdigest(),
                        "message": msg.hex(), "signatureSha256": hashlib.sha256(mldsa.sign(seed, msg)).hexdigest()})
    return {
        "description": "C2SP tlog-cosignature. message: what a cosigner signs, hex. verify: notes of one line; the key finds its line and its time, or bad. lattice: "
                       "ML-DSA-44 keys and signatures without randomness, of a public seed. The signatures of type 0x06 here are made without randomness too; "
                       "a verifier cannot tell.",
        "parts": parts, "keys": {n: pieces.write(str(k)) for n, k in KEYS.items()}, "message": messages, "lattice": lattice, "verify": accept + reject,
    }
