"""log.json"""
import hashlib

from formats import ed25519, log

from .common import ORIGIN, PUBLIC, SEEDS, b64

# Leaves and roots of RFC 6962 reference implementations (certificate-transparency).
LEAVES = [bytes.fromhex(h) for h in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")]
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    4: "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    6: "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


def key(name, kind, label):
    return log.VKey(label, kind, PUBLIC[name])


def signed(text, *lines):
    return (text + "\n" + "".join(lines)).encode("utf-8")


def line(name, kind, label, text, timestamp=None):
    k = key(name, kind, label)
    if kind == log.ED25519:
        return log.note_line(k, ed25519.sign(SEEDS[name], text.encode("utf-8")))
    return log.note_line(k, timestamp.to_bytes(8, "big") + ed25519.sign(SEEDS[name], log.cosigned(timestamp, text)))


TEXT = log.checkpoint(ORIGIN, 7, bytes.fromhex(ROOTS[7]))
LOG = line("log", log.ED25519, ORIGIN, TEXT)
W1 = line("witness-1", log.COSIGNATURE, "witness.example/1", TEXT, 1785196800)
W2 = line("witness-2", log.COSIGNATURE, "witness.example/2", TEXT, 1785196801)


def trees():
    hashes = [log.leaf_hash(x) for x in LEAVES]
    out = []
    for size in range(9):
        assert log.root(hashes[:size]).hex() == ROOTS[size]
        out.append({"size": size, "root": ROOTS[size],
                    "proofs": [[h.hex() for h in log.prove(i, hashes[:size])] for i in range(size)]})
    return out


def proofs():
    """Proofs that must not lead to the root."""
    hashes = [log.leaf_hash(x) for x in LEAVES[:7]]
    root, p = log.root(hashes), log.prove(3, hashes)
    for rule, index, size, h, proof in [
        ("another index", 2, 7, hashes[3], p), ("the index of the sibling", 2, 7, hashes[2], p), ("index beyond the size", 7, 7, hashes[3], p),
        ("a smaller tree", 3, 4, hashes[3], p), ("a larger tree", 3, 9, hashes[3], p), ("a tree of no leaves", 0, 0, hashes[0], []),
        ("another leaf", 3, 7, hashes[4], p), ("a hash too many", 3, 7, hashes[3], p + [p[0]]), ("a hash too few", 3, 7, hashes[3], p[:-1]),
        ("no hashes", 3, 7, hashes[3], []), ("hashes in the other order", 3, 7, hashes[3], p[::-1]),
        ("one bit of a sibling", 3, 7, hashes[3], [p[0][:-1] + bytes([p[0][-1] ^ 1])] + p[1:]),
        ("a hash for a tree of one leaf", 0, 1, hashes[0], [hashes[1]]),
    ]:
        try:
            assert log.root_from_proof(index, size, h, proof) != root, rule
        except log.Malformed:
            pass
        yield {"rule": rule, "index": index, "size": size, "leafHash": h.hex(), "proof": [x.hex() for x in proof], "root": root.hex()}


CHECKPOINTS = [
    ("no leaves", log.checkpoint("example.com/log", 0, log.EMPTY_ROOT)),
    ("seven leaves", TEXT),
    ("largest size", log.checkpoint("example.com/log", 2**64 - 1, bytes(32))),
    ("an extension line", TEXT + "extension\n"),
    ("two extension lines", TEXT + "extension\nanother one\n"),
]
BAD_CHECKPOINTS = [
    ("empty", ""), ("no newline at the end", TEXT[:-1]), ("two lines", "example.com/log\n7\n"),
    ("empty origin", TEXT.replace(ORIGIN, "")), ("leading zero", TEXT.replace("\n7\n", "\n07\n")), ("plus sign", TEXT.replace("\n7\n", "\n+7\n")),
    ("minus sign", TEXT.replace("\n7\n", "\n-7\n")), ("space", TEXT.replace("\n7\n", "\n7 \n")), ("hexadecimal", TEXT.replace("\n7\n", "\n0x7\n")),
    ("digits of another script", TEXT.replace("\n7\n", "\n\u0667\n")), ("2^64", TEXT.replace("\n7\n", "\n18446744073709551616\n")),
    ("no size", TEXT.replace("\n7\n", "\n\n")), ("root of 31 bytes", "example.com/log\n7\n" + b64(bytes(31)) + "\n"),
    ("root of 33 bytes", "example.com/log\n7\n" + b64(bytes(33)) + "\n"), ("root without padding", TEXT.replace("=", "")),
    ("root of the URL alphabet", "example.com/log\n7\n" + b64(b"\xff" * 32).replace("/", "_") + "\n"),
    ("root with bits behind its end", "example.com/log\n7\n" + b64(bytes(32))[:-2] + "B=\n"), ("empty extension line", TEXT + "\n"),
    ("empty line before an extension", TEXT + "\nextension\n"),
]
NOTES = [
    ("log", signed(TEXT, LOG), ["log"]), ("log and two witnesses", signed(TEXT, LOG, W1, W2), ["log", "witness-1", "witness-2"]),
    ("witness first", signed(TEXT, W1, LOG), ["log", "witness-1"]),
    ("a line of an unknown key", signed(TEXT, "\u2014 other.example AAAAAAE=\n", LOG), ["log"]),
    ("a line of an unknown key under the log's name", signed(TEXT, "\u2014 " + ORIGIN + " AAAAAAE=\n", LOG), ["log"]),
    ("the same line twice", signed(TEXT, LOG, LOG), ["log"]), ("a text that is no checkpoint", signed("hello\n", line("log", log.ED25519, ORIGIN, "hello\n")), ["log"]),
    ("a text with blank lines", signed("a\n\nb\n", line("log", log.ED25519, ORIGIN, "a\n\nb\n")), ["log"]),
    ("a note that nobody known signed", signed(TEXT, line("attacker", log.ED25519, ORIGIN, TEXT)), []),
]
BAD_NOTES = [
    ("no signature", signed(TEXT)), ("no blank line", TEXT.encode() + LOG.encode()), ("no newline at the end", signed(TEXT, LOG)[:-1]),
    ("a line too many", signed(TEXT, LOG) + b"\n"), ("hyphen for the dash", signed(TEXT, LOG.replace("\u2014", "-"))),
    ("no space behind the dash", signed(TEXT, LOG.replace("\u2014 ", "\u2014"))), ("two spaces", signed(TEXT, LOG.replace("log ", "log  "))),
    ("no name", signed(TEXT, "\u2014 AAAAAAE=\n")), ("name with a plus sign", signed(TEXT, "\u2014 a+b AAAAAAE=\n")),
    ("name with a no-break space", signed(TEXT, "\u2014 a\u00a0b AAAAAAE=\n")), ("no base64", signed(TEXT, "\u2014 a ???\n")),
    ("base64 without padding", signed(TEXT, "\u2014 a AAAAAAE\n")), ("base64 with bits behind its end", signed(TEXT, "\u2014 a AAAAAAF=\n")),
    ("key id alone", signed(TEXT, "\u2014 a AAAAAA==\n")), ("carriage return", signed(TEXT, LOG).replace(b"\n7\n", b"\n7\r\n")),
    ("tab", signed(TEXT.replace("7", "\t7"), LOG)), ("byte 0xff", b"\xff" + signed(TEXT, LOG)), ("101 signatures", signed(TEXT, *[LOG] * 101)),
]

def broken(kind, label, name):
    """A line with the key's name and id, and a signature that is not its own."""
    k = key(name, kind, label)
    sig = ed25519.sign(SEEDS["attacker"], TEXT.encode("utf-8"))
    return log.note_line(k, sig if kind == log.ED25519 else (5).to_bytes(8, "big") + sig)


def make():
    keys = {"log": key("log", log.ED25519, ORIGIN), "witness-1": key("witness-1", log.COSIGNATURE, "witness.example/1"),
            "witness-2": key("witness-2", log.COSIGNATURE, "witness.example/2")}
    # The example of the signed-note specification.
    spec = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
    assert str(log.parse_vkey(spec)) == spec
    good = str(keys["log"])
    for rule, b, names in NOTES:
        text, sigs = log.parse_note(b)
        assert [n for n, k in keys.items() if log.signed_by(text, sigs, k)] == names, rule
    not_verified = []
    for rule, b in [
        ("text changed", signed(TEXT, LOG).replace(b"\n7\n", b"\n8\n")), ("origin changed", signed(TEXT.replace(ORIGIN, "ledger.example/lag"), LOG)),
        ("extension added", signed(TEXT + "x\n", LOG)), ("another signature", signed(TEXT, broken(log.ED25519, ORIGIN, "log"))),
        ("a good line does not excuse a bad one", signed(TEXT, LOG, broken(log.ED25519, ORIGIN, "log"))),
        ("a bad cosignature", signed(TEXT, LOG, broken(log.COSIGNATURE, "witness.example/1", "witness-1"))),
        ("a cosignature with another time", signed(TEXT, LOG, log.note_line(keys["witness-1"], (7).to_bytes(8, "big")
                                                                            + ed25519.sign(SEEDS["witness-1"], log.cosigned(8, TEXT))))),
        ("a cosignature without its time", signed(TEXT, LOG, log.note_line(keys["witness-1"], ed25519.sign(SEEDS["witness-1"], TEXT.encode())))),
        ("a cosignature with a time of 2^63", signed(TEXT, LOG, log.note_line(keys["witness-1"], (1 << 63).to_bytes(8, "big")
                                                                              + ed25519.sign(SEEDS["witness-1"], log.cosigned(1 << 63, TEXT))))),
        ("a plain signature of 63 bytes", signed(TEXT, log.note_line(keys["log"], ed25519.sign(SEEDS["log"], TEXT.encode())[:-1]))),
    ]:
        text, sigs = log.parse_note(b)
        try:
            for k in keys.values():
                log.signed_by(text, sigs, k)
            raise AssertionError(rule)
        except log.NotVerified:
            not_verified.append({"rule": rule, "noteBase64": b64(b)})
    bad_keys = [("empty", ""), ("two parts", "a+b"), ("upper-case id", good.replace(keys["log"].id.hex(), keys["log"].id.hex().upper())),
                ("another id", good.replace(keys["log"].id.hex(), "00000000")), ("short id", good.replace(keys["log"].id.hex(), keys["log"].id.hex()[:7])),
                ("another name", "x" + good), ("no name", good[len(ORIGIN):]), ("name with a space", "a b" + good[len(ORIGIN):]),
                ("a padding too many", good + "="), ("31 bytes", vkey_text("a", bytes([1]) + bytes(31))), ("33 bytes", vkey_text("a", bytes([1]) + bytes(33))),
                ("type 0x02", vkey_text("a", bytes([2]) + bytes(32))), ("type 0xff", vkey_text("a", bytes([255]) + bytes(32))), ("no key", "a+00000000+"),
                ("space behind it", good + " "), ("name of 256 bytes", vkey_text("n" * 256, bytes([1]) + PUBLIC["log"]))]
    for rule, s in bad_keys:
        refused(rule, log.parse_vkey, s)
    for rule, s in BAD_CHECKPOINTS:
        refused(rule, log.parse_checkpoint, s)
    for rule, b in BAD_NOTES:
        refused(rule, log.parse_note, b)
    return {
        "description": "The log. tree: RFC 6962 roots and inclusion proofs (leaf's sibling first) over the leaves, for every size and index. notInTree: "
                       "proofs that must not be accepted for the root. vkey, checkpoint, note: accept and must-reject sets; keys are the verifier keys "
                       "that the notes are checked under, signedBy names those that signed. notVerified: notes that parse and in which a known key's "
                       "line does not verify, so the whole note is refused. path: tile paths. Rules: docs/spec/log.md.",
        "leaves": [x.hex() for x in LEAVES], "tree": trees(), "notInTree": list(proofs()),
        "keys": {n: str(k) for n, k in keys.items()},
        "vkey": {"accept": [{"rule": "the example of the specification", "vkey": spec, "name": "example.com/foo", "id": "530d903a", "type": 1,
                             "public": log.parse_vkey(spec).public.hex()}]
                 + [{"rule": n, "vkey": str(k), "name": k.name, "id": k.id.hex(), "type": k.kind, "public": k.public.hex()} for n, k in keys.items()],
                 "reject": [{"rule": r, "vkey": s} for r, s in bad_keys]},
        "checkpoint": {"accept": [{"rule": r, "text": t, "origin": log.parse_checkpoint(t)[0], "size": str(log.parse_checkpoint(t)[1]),
                                   "root": log.parse_checkpoint(t)[2].hex()} for r, t in CHECKPOINTS],
                       "reject": [{"rule": r, "text": t} for r, t in BAD_CHECKPOINTS]},
        "note": {"accept": [{"rule": r, "noteBase64": b64(b), "text": log.parse_note(b)[0], "lines": len(log.parse_note(b)[1]), "signedBy": names}
                            for r, b, names in NOTES],
                 "reject": [{"rule": r, "noteBase64": b64(b)} for r, b in BAD_NOTES], "notVerified": not_verified},
        "path": [{"level": lv, "index": str(n), "width": w, "path": log.tile_path(lv, n, w)} for lv, n, w in (
            (0, 0, 256), (0, 0, 1), (0, 999, 256), (1, 1000, 255), (0, 1234067, 256), (2, 12345678901, 7), ("entries", 1234067, 256), ("entries", 0, 42))],
    }


def vkey_text(name, raw):
    return f"{name}+{hashlib.sha256(name.encode() + bytes([10]) + raw).hexdigest()[:8]}+{b64(raw)}"


def refused(rule, parse, x):
    try:
        parse(x)
    except log.Malformed:
        return
    raise AssertionError(f"{rule}: accepted")
