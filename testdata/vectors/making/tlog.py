"""What the vectors of tlog/ share: keys, signature lines, trees."""
import hashlib

from formats import ed25519, log, mldsa, pieces

from .common import ORIGIN, PUBLIC, SEEDS, b64

NOTE, CHECKPOINT, COSIGNATURE, WITNESS = "signed-note", "tlog-checkpoint", "tlog-cosignature", "tlog-witness"
PROOF, POLICY, TREE, LATTICE = "tlog-proof", "tlog-policy", "RFC 6962", "FIPS 204"
OURS_LOG, OURS_TRUST, OURS_WITNESS = "docs/spec/log.md", "docs/spec/trust.md", "docs/spec/witness.md"

# Seeds of ML-DSA-44 keys. They are public: never use them for anything.
LATTICE_SEEDS = {"log-pq": b"\x13" * 32, "witness-pq": b"\x14" * 32, "attacker-pq": b"\x16" * 32}
TIME = 1785196800
DASH = "\u2014 "


def key(name, label, kind):
    return log.VKey(label, kind, mldsa.public(LATTICE_SEEDS[name]) if kind == log.MLDSA44 else PUBLIC[name])


KEYS = {
    "log": key("log", ORIGIN, log.ED25519), "log-pq": key("log-pq", ORIGIN, log.MLDSA44),
    "witness-1": key("witness-1", "witness.example/1", log.COSIGNATURE), "witness-2": key("witness-2", "witness.example/2", log.COSIGNATURE),
    "witness-pq": key("witness-pq", "witness.example/pq", log.MLDSA44),
}


def signature(name, k, text, time=TIME):
    """Signature of the seed called name, as key k makes it."""
    if k.kind == log.ED25519:
        return ed25519.sign(SEEDS[name], text.encode("utf-8"))
    if k.kind == log.COSIGNATURE:
        return time.to_bytes(8, "big") + ed25519.sign(SEEDS[name], log.cosigned(time, text))
    return time.to_bytes(8, "big") + mldsa.sign(LATTICE_SEEDS[name], log.cosigned_tree(k.name, time, text))


def line(name, text, time=TIME, k=None):
    k = k or KEYS[name]
    return log.note_line(k, signature(name, k, text, time))


def forged(name, text, time=TIME):
    """A line with the key's name and id that another key made."""
    k = KEYS[name]
    return log.note_line(k, signature("attacker-pq" if k.kind == log.MLDSA44 else "attacker", k, text, time))


def raw_line(name, key_id, sig):
    return f"{DASH}{name} {b64(key_id + sig)}\n"


def note(text, *lines):
    return text + "\n" + "".join(lines)


def lattice_lines(lines):
    """Parts: the long lines, which stand in a file once."""
    return {f"line {n}": s for n, s in lines.items()}


def spare_bits(s):
    """Base64 with padding, with the lowest bit set that no byte has."""
    body = s.rstrip("=\n")
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    assert body != s and not digits.index(body[-1]) & 1
    return body[:-1] + digits[digits.index(body[-1]) | 1] + s[len(body):]


def stretch(n, fill="x"):
    return pieces.Repeat(fill, n)


# --- trees -----------------------------------------------------------------

LEAVES = [log.leaf_hash(b"leaf %d" % i) for i in range(64)]
FORK = [log.leaf_hash(b"leaf %d" % i) for i in range(5)] + [log.leaf_hash(b"other %d" % i) for i in range(5, 64)]


def tree(size, leaves=LEAVES, origin=ORIGIN, extension=""):
    return log.checkpoint(origin, size, log.root(leaves[:size])) + extension


def some_hash(label):
    return hashlib.sha256(str(label).encode()).digest()


# --- writing ---------------------------------------------------------------


def refuse(rule, parse, items, *errors):
    try:
        parse(pieces.raw(items))
    except errors or log.Malformed:
        return
    raise AssertionError(f"{rule}: accepted")


def text_of(parse):
    """parse, which takes a text, for bytes."""
    def run(b):
        try:
            s = b.decode("utf-8")
        except UnicodeDecodeError:
            raise log.Malformed("invalid UTF-8") from None
        return parse(s)
    return run


parse_vkey, parse_checkpoint = text_of(log.parse_vkey), text_of(log.parse_checkpoint)


def verdict(text, sigs, k):
    """What a verifier finds of one key."""
    try:
        n = log.signed_by(text, sigs, k)
    except log.NotVerified:
        return "bad"
    out = {"lines": n}
    if k.kind != log.ED25519 and n:
        out["time"] = str(log.cosigned_at(text, sigs, k))
    return out
