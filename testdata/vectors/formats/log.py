"""The log's formats: docs/spec/log.md.

RFC 6962 tree, C2SP signed-note, verifier keys and checkpoints, tile paths.
"""
import base64
import hashlib
import re

from . import ed25519, mldsa
from .event import strict_b64

MAX_NOTE, MAX_NOTE_SIGS, MAX_NOTE_SIG, MAX_NAME = 1 << 20, 100, 8 << 10, 255
ED25519, COSIGNATURE, MLDSA44 = 0x01, 0x04, 0x06
EMPTY_ROOT = hashlib.sha256(b"").digest()


class Malformed(Exception):
    pass


class NotVerified(Exception):
    pass


# --- RFC 6962 tree ---------------------------------------------------------


def leaf_hash(leaf):
    return hashlib.sha256(b"\x00" + leaf).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def split(n):
    """The largest power of two below n."""
    return 1 << ((n - 1).bit_length() - 1)


def root(hashes):
    if not hashes:
        return EMPTY_ROOT
    if len(hashes) == 1:
        return hashes[0]
    k = split(len(hashes))
    return node_hash(root(hashes[:k]), root(hashes[k:]))


def prove(index, hashes):
    """Inclusion proof, the leaf's sibling first."""
    if len(hashes) == 1:
        return []
    k = split(len(hashes))
    if index < k:
        return prove(index, hashes[:k]) + [root(hashes[k:])]
    return prove(index - k, hashes[k:]) + [root(hashes[:k])]


def root_from_proof(index, size, hash_, proof):
    """The root that a proof leads to (RFC 9162, section 2.1.3.2), Malformed if
    it has another number of hashes than this place needs."""
    if index >= size:
        raise Malformed(f"leaf {index} is not in a tree of {size}")
    fn, sn = index, size - 1
    for p in proof:
        if sn == 0:
            raise Malformed("a hash too many")
        if fn & 1 or fn == sn:
            hash_ = node_hash(p, hash_)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            hash_ = node_hash(hash_, p)
        fn, sn = fn >> 1, sn >> 1
    if sn:
        raise Malformed("a hash too few")
    return hash_


# --- verifier keys ---------------------------------------------------------


def check_name(name):
    if not name or "+" in name or any(c.isspace() or c < " " for c in name):
        raise Malformed("key name")


class VKey:
    def __init__(self, name, kind, public):
        check_name(name)
        if len(name.encode("utf-8")) > MAX_NAME or "\x7f" in name:
            raise Malformed("key name over 255 bytes, or with U+007F")
        want = {ED25519: 32, COSIGNATURE: 32, MLDSA44: 1312}.get(kind)
        if want is None or len(public) != want:
            raise Malformed("key type or length")
        self.name, self.kind, self.public = name, kind, public
        self.id = hashlib.sha256(name.encode("utf-8") + b"\n" + bytes([kind]) + public).digest()[:4]

    def __str__(self):
        return f"{self.name}+{self.id.hex()}+{b64(bytes([self.kind]) + self.public)}"

    def verify(self, text, sig):
        if self.kind == ED25519:
            return ed25519.verify(self.public, text.encode("utf-8"), sig)
        t = timestamp(sig)
        if t >= 1 << 63:
            return False
        if self.kind == COSIGNATURE:
            return ed25519.verify(self.public, cosigned(t, text), sig[8:])
        try:
            return mldsa.verify(self.public, cosigned_tree(self.name, t, text), sig[8:])
        except Malformed:
            return False


def timestamp(sig):
    """The time that a cosignature states."""
    return int.from_bytes(sig[:8], "big")


def cosigned(timestamp, text):
    """What a cosignature of type 0x04 signs."""
    return b"cosignature/v1\ntime %d\n" % timestamp + text.encode("utf-8")


def cosigned_tree(name, timestamp, text):
    """What one of type 0x06 signs. The text must be a checkpoint."""
    origin, size, root_hash, _ = parse_checkpoint(text)
    short = [s.encode("utf-8") for s in (name, origin)]
    if len(short[1]) > MAX_NAME:
        raise Malformed("origin over 255 bytes")
    name, origin = (bytes([len(s)]) + s for s in short)
    return b"subtree/v1\n\0" + name + timestamp.to_bytes(8, "big") + origin + bytes(8) + size.to_bytes(8, "big") + root_hash


def b64(b):
    return base64.b64encode(b).decode()


def parse_vkey(s):
    parts = s.split("+", 2)
    if len(parts) != 3:
        raise Malformed("not name+id+base64")
    raw = strict_b64(parts[2])
    if not raw:
        raise Malformed("not base64")
    k = VKey(parts[0], raw[0], raw[1:])
    if str(k) != s:
        raise Malformed("the id is not the key's own")
    return k


# --- signed note -----------------------------------------------------------


def parse_note(b):
    """Bytes → (text, [(name, key id, signature)])."""
    if len(b) > MAX_NOTE:
        raise Malformed("over 1 MiB")
    try:
        s = b.decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed("invalid UTF-8") from None
    if re.search("[\x00-\x09\x0b-\x1f]", s):
        raise Malformed("control character")
    text, blank, lines = s.rpartition("\n\n")
    if not blank or not lines.endswith("\n"):
        raise Malformed("no blank line, or no newline at the end")
    sigs = []
    for line in lines[:-1].split("\n"):
        if not line.startswith("\u2014 ") or len(line[2:].split(" ", 1)) != 2:
            raise Malformed("signature line")
        name, encoded = line[2:].split(" ", 1)
        check_name(name)
        raw = strict_b64(encoded)
        if raw is None or not 5 <= len(raw) <= 4 + MAX_NOTE_SIG:
            raise Malformed("signature of a line")
        sigs.append((name, raw[:4], raw[4:]))
    if len(sigs) > MAX_NOTE_SIGS:
        raise Malformed("over 100 signatures")
    return text + "\n", sigs


def signed_by(text, sigs, key):
    """How many lines of key verify; NotVerified if one of them does not."""
    n = 0
    for name, key_id, sig in sigs:
        if (name, key_id) == (key.name, key.id):
            if not key.verify(text, sig):
                raise NotVerified(key.name)
            n += 1
    return n


def cosigned_at(text, sigs, key):
    """The largest time that the cosignatures of key state, 0 if none does;
    NotVerified if one does not verify."""
    signed_by(text, sigs, key)
    return max([timestamp(sig) for name, key_id, sig in sigs if (name, key_id) == (key.name, key.id)], default=0)


def note_line(key, sig):
    return "\u2014 %s %s\n" % (key.name, b64(key.id + sig))


# --- checkpoint ------------------------------------------------------------


def parse_checkpoint(text):
    """Text of a note → (origin, size, root, extension lines)."""
    if not text.endswith("\n"):
        raise Malformed("no newline at the end")
    lines = text[:-1].split("\n")
    if len(lines) < 3 or "" in (lines[0], *lines[3:]):
        raise Malformed("lines")
    size = decimal(lines[1])
    h = strict_b64(lines[2])
    if h is None or len(h) != 32:
        raise Malformed("root")
    return lines[0], size, h, lines[3:]


def decimal(s):
    """A number below 2^64 without leading zeros."""
    if not re.fullmatch("0|[1-9][0-9]{0,19}", s) or int(s) >= 1 << 64:
        raise Malformed("not a decimal number below 2^64 without leading zeros")
    return int(s)


def hash_line(s):
    """32 bytes in base64."""
    h = strict_b64(s)
    if h is None or len(h) != 32:
        raise Malformed("not 32 bytes in base64")
    return h


def checkpoint(origin, size, root_hash):
    return f"{origin}\n{size}\n{b64(root_hash)}\n"


# --- tile paths ------------------------------------------------------------


def groups(n):
    out = "%03d" % (n % 1000)
    while n >= 1000:
        n //= 1000
        out = "x%03d/" % (n % 1000) + out
    return out


def tile_path(level, n, width=256):
    return f"tile/{level}/{groups(n)}" + ("" if width == 256 else f".p/{width}")
