"""tlog/verifier_key.json"""
import hashlib

from formats import log, mldsa, pieces

from .common import PUBLIC, b64
from .tlog import KEYS, LATTICE_SEEDS, NOTE, OURS_LOG, parse_vkey, refuse, spare_bits

# The example of the signed-note specification.
SPEC = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
GOOD = str(KEYS["log"])
NAME, ID, KEY = GOOD.split("+", 2)
RAW = bytes([1]) + PUBLIC["log"]


def vkey(name, raw, key_id=None):
    key_id = key_id or hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4]
    return f"{name}+{key_id.hex()}+{b64(raw)}"


def with_plus():
    """A key whose base64 holds a plus sign: the name and the id end at the first two."""
    for i in range(1000):
        k = vkey("example.com/log", bytes([1]) + hashlib.sha256(b"%d" % i).digest())
        if k.count("+") > 3:
            return k


ACCEPT = [
    (NOTE, "the example of the specification", SPEC), (NOTE, "type 0x01", GOOD), (NOTE, "type 0x04", str(KEYS["witness-1"])),
    (NOTE, "type 0x06, 1312 bytes", str(KEYS["log-pq"])), (NOTE, "plus signs in the base64", with_plus()),
    (NOTE, "one key and name under another type has another id", vkey(NAME, bytes([4]) + PUBLIC["log"])),
    (NOTE, "a name need not be a URL", vkey("x", RAW)), (NOTE, "a name of other scripts", vkey("\u65e5\u672c\u8a9e/\u00fc", RAW)),
    (NOTE, "U+200B is no space", vkey("a\u200bb", RAW)), (NOTE, "a name of 255 bytes", vkey("n" * 255, RAW)),
]
REJECT = [
    (NOTE, "empty", ""), (NOTE, "a name alone", NAME), (NOTE, "two parts", f"{NAME}+{ID}"), (NOTE, "no key", f"{NAME}+{ID}+"),
    (NOTE, "no name", f"+{ID}+{KEY}"), (NOTE, "no name, with the id of an empty name", vkey("", RAW)), (NOTE, "no id", f"{NAME}++{KEY}"),
    (NOTE, "plus in the name", vkey("a+b", RAW)), (NOTE, "space in the name", vkey("a b", RAW)), (NOTE, "U+00A0 in the name", vkey("a\u00a0b", RAW)),
    (NOTE, "U+2003 in the name", vkey("a\u2003b", RAW)), (NOTE, "U+3000 at the end of the name", vkey("a\u3000", RAW)),
    (NOTE, "U+0085 in the name", vkey("a\u0085b", RAW)), (NOTE, "U+1680 in the name", vkey("a\u1680b", RAW)), (NOTE, "tab in the name", vkey("a\tb", RAW)),
    (NOTE, "newline in the name", vkey("a\nb", RAW)),
    (NOTE, "U+0001 in the name", vkey("a\x01b", RAW)), (NOTE, "invalid UTF-8 in the name", [b"a\xff", vkey("ab", RAW)[2:]]),
    (OURS_LOG, "U+007F in the name", vkey("a\x7fb", RAW)), (OURS_LOG, "a name of 256 bytes", vkey("n" * 256, RAW)),
    (OURS_LOG, "a name of 255 characters and 256 bytes", vkey("n" * 254 + "\u00fc", RAW)),
    (NOTE, "another id", f"{NAME}+00000000+{KEY}"), (NOTE, "the id of another name", "x" + GOOD), (NOTE, "id in upper case", f"{NAME}+{ID.upper()}+{KEY}"),
    (NOTE, "id of 7 digits", f"{NAME}+{ID[1:]}+{KEY}"), (NOTE, "id of 9 digits", f"{NAME}+0{ID}+{KEY}"), (NOTE, "id with a sign", f"{NAME}+-{ID[1:]}+{KEY}"),
    (NOTE, "id over the key without its type", vkey(NAME, RAW, hashlib.sha256(NAME.encode() + b"\n" + RAW[1:]).digest()[:4])),
    (NOTE, "id over the name without a newline", vkey(NAME, RAW, hashlib.sha256(NAME.encode() + RAW).digest()[:4])),
    (NOTE, "id of the same key under type 0x01", f"{NAME}+{ID}+{b64(bytes([4]) + PUBLIC['log'])}"),
    (NOTE, "no padding", str(KEYS["log-pq"]).rstrip("=")),
    (NOTE, "padding too much", GOOD + "="), (NOTE, "URL alphabet", vkey("a", b"\x01" + b"\xff" * 32).replace("/", "_")),
    (NOTE, "newline behind it", GOOD + "\n"), (NOTE, "newline in the base64", f"{NAME}+{ID}+{KEY[:8]}\n{KEY[8:]}"),
    (NOTE, "carriage return in the base64", f"{NAME}+{ID}+{KEY[:8]}\r{KEY[8:]}"), (NOTE, "space before it", " " + GOOD), (NOTE, "space behind it", GOOD + " "),
    (NOTE, "31 bytes", vkey("a", RAW[:-1])), (NOTE, "33 bytes", vkey("a", RAW + b"\0")),
    (NOTE, "base64 with bits behind its end", spare_bits(str(KEYS["log-pq"]))),
    (NOTE, "ML-DSA-44 of 1311 bytes", vkey("a", bytes([6]) + mldsa.public(LATTICE_SEEDS["log-pq"])[:-1])),
    (NOTE, "ML-DSA-44 of 1313 bytes", vkey("a", bytes([6]) + mldsa.public(LATTICE_SEEDS["log-pq"]) + b"\0")),
    (NOTE, "an Ed25519 key as ML-DSA-44", vkey("a", bytes([6]) + PUBLIC["log"])),
    (NOTE, "an ML-DSA-44 key as Ed25519", vkey("a", bytes([1]) + mldsa.public(LATTICE_SEEDS["log-pq"]))),
    (NOTE, "type 0x00, not assigned", vkey("a", bytes([0]) + PUBLIC["log"])), (OURS_LOG, "type 0x02", vkey("a", bytes([2]) + PUBLIC["log"])),
    (NOTE, "type 0x03, reserved", vkey("a", bytes([3]) + PUBLIC["log"])), (OURS_LOG, "type 0x05", vkey("a", bytes([5]) + PUBLIC["log"])),
    (OURS_LOG, "type 0xff", vkey("a", bytes([255]) + PUBLIC["log"])), (OURS_LOG, "a megabyte", ["a+00000000+", pieces.Repeat("A", 1 << 20)]),
]


def make():
    parts = {"lattice key": b64(bytes([6]) + mldsa.public(LATTICE_SEEDS["log-pq"]))}
    accept = []
    for spec, rule, s in ACCEPT:
        k = log.parse_vkey(s)
        assert str(k) == s, rule
        accept.append({"spec": spec, "rule": rule, "vkey": pieces.write(s, parts), "name": k.name, "id": k.id.hex(), "type": k.kind,
                       "publicSha256": hashlib.sha256(k.public).hexdigest()})
    for _, rule, s in REJECT:
        refuse(rule, parse_vkey, s)
    return {
        "description": "Verifier keys of C2SP signed-note. accept: what is read, and written again byte for byte. reject: must be refused. spec names the "
                       "text that has the rule.",
        "parts": parts, "accept": accept, "reject": [{"spec": p, "rule": r, "vkey": pieces.write(s, parts)} for p, r, s in REJECT],
    }
