"""Proofs of one leaf: C2SP tlog-proof, read strictly (docs/spec/log.md)."""
from . import log
from .event import strict_b64

MAX_PROOF, MAX_HASHES = (1 << 20) + log.MAX_NOTE, 64
FIRST = "c2sp.org/tlog-proof@v1"


def parse(b):
    """Text → (extra or None, index, hashes, signed checkpoint)."""
    if len(b) > MAX_PROOF:
        raise log.Malformed("over 2 MiB")
    head, blank, note = b.partition(b"\n\n")
    if not blank:
        raise log.Malformed("no empty line")
    try:
        first, *lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise log.Malformed("not ASCII") from None
    if first != FIRST:
        raise log.Malformed("first line")
    extra = None
    if lines and lines[0].startswith("extra "):
        extra = strict_b64(lines.pop(0)[6:])
        if extra is None:
            raise log.Malformed("extra")
    if not lines or not lines[0].startswith("index "):
        raise log.Malformed("index line")
    index = log.decimal(lines[0][6:])
    if len(lines) > 1 + MAX_HASHES:
        raise log.Malformed("over 64 hashes")
    hashes = [log.hash_line(s) for s in lines[1:]]
    log.parse_checkpoint(log.parse_note(note)[0])
    return extra, index, hashes, note


def write(extra, index, hashes, note):
    lines = [FIRST] + ([] if extra is None else ["extra " + log.b64(extra)]) + [f"index {index}"] + [log.b64(h) for h in hashes]
    return "".join(s + "\n" for s in lines).encode() + b"\n" + note


def included(b, leaf_hash):
    """Whether the proof leads from the leaf to the root of its checkpoint."""
    _, index, hashes, note = parse(b)
    _, size, root, _ = log.parse_checkpoint(log.parse_note(note)[0])
    try:
        return log.root_from_proof(index, size, leaf_hash, hashes) == root
    except log.Malformed:
        return False
