"""tlog/proof.json"""
from formats import event, log, pieces, tlog_proof

from .common import ORIGIN, attempt, b64, sign, text
from .tlog import CHECKPOINT, KEYS, NOTE, OURS_LOG, PROOF, TREE, lattice_lines, line, note, raw_line, refuse, some_hash, spare_bits, stretch

EVENT = text(attempt())
LEAF = event.leaf(EVENT, event.write_signatures(sign(EVENT, "event-a")))
LEAF_HASH = log.leaf_hash(LEAF)
LEAVES = [log.leaf_hash(b"leaf %d" % i) for i in range(4)] + [LEAF_HASH] + [log.leaf_hash(b"leaf %d" % i) for i in range(5, 64)]
AT = 4


def cosigned(size, leaves=LEAVES, extension=""):
    t = log.checkpoint(ORIGIN, size, log.root(leaves[:size])) + extension
    return note(t, line("log", t))


def head(index=AT, hashes=(), extra=None):
    return f"{tlog_proof.FIRST}\n" + ("" if extra is None else f"extra {extra}\n") + f"index {index}\n" + "".join(b64(h) + "\n" for h in hashes) + "\n"


def proof(size, extra=None, index=AT, leaves=LEAVES):
    return head(index, log.prove(index, leaves[:size]), extra) + cosigned(size, leaves)


def deep():
    """The first leaf of a tree of 2^64-1: 64 hashes."""
    hashes = [some_hash(f"deep {i}") for i in range(64)]
    t = log.checkpoint(ORIGIN, 2**64 - 1, log.root_from_proof(0, 2**64 - 1, LEAF_HASH, hashes))
    return head(0, hashes) + note(t, line("log", t))


GOOD = proof(7)
H = log.prove(AT, LEAVES[:7])
NOTE7 = cosigned(7)
TEXT7 = NOTE7.partition("\n\n")[0] + "\n"
ONE = head(0) + cosigned(1, [LEAF_HASH])

ACCEPT = [
    (PROOF, "no extra", GOOD), (PROOF, "extra", proof(7, "c29tZXRoaW5n")), (PROOF, "extra with padding", proof(7, "YQ==")),
    (PROOF, "extra of no bytes, as some writers have it", proof(7, "")), (PROOF, "extra that looks like lines", proof(7, b64(b"\nindex 5\n\n"))),
    (OURS_LOG, "extra of a megabyte", [tlog_proof.FIRST + "\nextra ", stretch(349000, "AAAA"), GOOD[len(tlog_proof.FIRST):]]),
    (PROOF, "index 0", proof(7, index=0, leaves=[LEAF_HASH] + LEAVES[1:])), (TREE, "the last leaf of a tree that is no power of two", proof(5)),
    (TREE, "a tree of one leaf: no hashes", ONE),
    (TREE, "a tree of one leaf, with extra", head(0, extra="YQ==") + cosigned(1, [LEAF_HASH])), (TREE, "a tree of 64 leaves", proof(64)),
    (TREE, "64 hashes", deep()),
    (CHECKPOINT, "a checkpoint with extension lines", head(AT, H) + cosigned(7, extension="extension\nanother\n")),
    (PROOF, "a checkpoint with cosignatures of both types", head(AT, H) + NOTE7 + line("witness-1", TEXT7) + line("witness-pq", TEXT7)),
    (NOTE, "an unknown line first", head(AT, H) + note(TEXT7, raw_line("x.example", b"\1\2\3\4", b"\0"), line("log", TEXT7))),
]


def swap(old, new):
    assert old in GOOD, old
    return GOOD.replace(old, new, 1)


NOT_INCLUDED = [
    (TREE, "another index", head(5, H) + NOTE7), (TREE, "index equal to the size", head(7, H) + NOTE7), (TREE, "index beyond the size", head(2**63, H) + NOTE7),
    (TREE, "index 2^64-1", head(2**64 - 1, H) + NOTE7),
    (TREE, "a hash too many", head(AT, H + [H[0]]) + NOTE7), (TREE, "a hash too few", head(AT, H[:-1]) + NOTE7), (TREE, "no hashes", head(AT) + NOTE7),
    (TREE, "the root's child first", head(AT, H[::-1]) + NOTE7),
    (TREE, "one bit of a hash", head(AT, [bytes([H[0][0] ^ 1]) + H[0][1:]] + H[1:]) + NOTE7),
    (TREE, "the proof for another size", head(AT, log.prove(AT, LEAVES[:8])) + NOTE7),
    (TREE, "a hash in a tree of one leaf", head(0, [H[0]]) + cosigned(1, [LEAF_HASH])),
    (TREE, "a tree of no leaves", head(0) + note(log.checkpoint(ORIGIN, 0, log.EMPTY_ROOT), line("log", log.checkpoint(ORIGIN, 0, log.EMPTY_ROOT)))),
    (TREE, "64 hashes for seven leaves", head(AT, [bytes(32)] * 64) + NOTE7),
    (TREE, "the leaf hash as the first hash", head(AT, [LEAF_HASH] + H[1:]) + NOTE7),
]
FIRST = tlog_proof.FIRST
REJECT = [
    (PROOF, "empty", ""), (PROOF, "first line alone", FIRST + "\n"), (PROOF, "version 2", swap("@v1", "@v2")),
    (PROOF, "version 1 with a zero", swap("@v1", "@v01")), (PROOF, "another case", swap("tlog-proof", "TLOG-PROOF")),
    (PROOF, "space behind the first line", swap("@v1", "@v1 ")), (PROOF, "space before the first line", " " + GOOD),
    (PROOF, "a byte order mark", "\ufeff" + GOOD), (PROOF, "an empty line first", "\n" + GOOD), (PROOF, "no first line", GOOD[len(FIRST) + 1:]),
    (PROOF, "no index line", swap(f"index {AT}\n", "")), (PROOF, "no index line, extra", swap(f"index {AT}\n", "extra YQ==\n")),
    (PROOF, "index twice", swap(f"index {AT}\n", f"index {AT}\nindex {AT}\n")), (PROOF, "extra twice", swap("index", "extra YQ==\nextra YQ==\nindex")),
    (PROOF, "extra behind index", swap(f"index {AT}\n", f"index {AT}\nextra YQ==\n")), (PROOF, "an empty line behind the first", swap("index", "\nindex")),
    (PROOF, "an unknown line", swap("index", "note x\nindex")),
    (PROOF, "Index", swap("index", "Index")), (PROOF, "no number", swap(f"index {AT}", "index ")), (PROOF, "no space and number", swap(f"index {AT}", "index")),
    (PROOF, "two spaces", swap("index ", "index  ")), (PROOF, "a tab for the space", swap("index ", "index\t")),
    (PROOF, "space behind the index", swap(f"index {AT}", f"index {AT} ")), (PROOF, "index 04", swap("index 4", "index 04")),
    (PROOF, "index 00", ONE.replace("index 0", "index 00")), (PROOF, "plus sign", swap("index 4", "index +4")),
    (PROOF, "minus sign", swap("index 4", "index -4")),
    (PROOF, "hexadecimal", swap("index 4", "index 0x4")), (PROOF, "Arabic digit", swap("index 4", "index \u0664")),
    (OURS_LOG, "index 2^64", swap("index 4", "index 18446744073709551616")),
    (OURS_LOG, "index of a megabyte", [FIRST + "\nindex 4", stretch(1 << 20, "0"), GOOD[len(FIRST) + 8:]]),
    (PROOF, "CR LF everywhere", GOOD.replace("\n", "\r\n")),
    (PROOF, "CR LF before the checkpoint", GOOD.partition("\n\n")[0].replace("\n", "\r\n") + "\r\n\r\n" + NOTE7),
    (PROOF, "CR behind the index", swap("index 4\n", "index 4\r\n")), (PROOF, "CR behind a hash", swap("=\n", "=\r\n")),
    (PROOF, "CR within a hash", swap(b64(H[0]), b64(H[0])[:9] + "\r" + b64(H[0])[9:])),
    (PROOF, "extra without padding", proof(7, "YQ")), (PROOF, "extra with bits behind its end", proof(7, "YR==")),
    (PROOF, "extra of the URL alphabet", proof(7, "____")), (PROOF, "extra with CR", proof(7, "YQ==\r")),
    (PROOF, "extra over two lines", proof(7, "YWJj\nYWJj")), (PROOF, "extra with a space", proof(7, "YWJj YWJj")),
    (PROOF, "extra of no base64", proof(7, "?")), (PROOF, "extra without space", swap("index", "extra\nindex")),
    (PROOF, "hash of 31 bytes", head(AT, [H[0][:-1]] + H[1:]) + NOTE7), (PROOF, "hash of 33 bytes", head(AT, [H[0] + b"\0"] + H[1:]) + NOTE7),
    (PROOF, "hash without padding", swap("=\n", "\n")), (PROOF, "hash with bits behind its end", swap(b64(H[0]), spare_bits(b64(H[0])))),
    (PROOF, "hash of the URL alphabet", head(AT, [b"\xff" * 32]).replace("/w", "_w").replace("//", "__") + NOTE7),
    (PROOF, "hash in hexadecimal", swap(b64(H[0]), H[0].hex())), (PROOF, "space behind a hash", swap("=\n", "= \n")),
    (PROOF, "two hashes on a line", swap(b64(H[0]) + "\n", b64(H[0]))),
    (OURS_LOG, "65 hashes", head(AT, [bytes(32)] * 65) + NOTE7),
    (OURS_LOG, "20000 hashes", [FIRST + "\nindex 4\n", stretch(20000, b64(bytes(32)) + "\n"), "\n" + NOTE7]),
    (PROOF, "no empty line before the checkpoint", swap("=\n\n", "=\n")), (PROOF, "an empty line within the hashes", swap("=\n", "=\n\n")),
    (PROOF, "two empty lines before the checkpoint", swap("=\n\n", "=\n\n\n")), (PROOF, "no checkpoint", head(AT, H)),
    (PROOF, "an unsigned checkpoint", head(AT, H) + TEXT7), (NOTE, "a checkpoint without signatures", head(AT, H) + TEXT7 + "\n"),
    (NOTE, "no newline at the end", GOOD[:-1]),
    (NOTE, "a newline too many at the end", GOOD + "\n"), (NOTE, "a signature line with a hyphen", GOOD.replace("\u2014", "-")),
    (NOTE, "invalid UTF-8 in a signature line", [GOOD, b"\xe2\x80\x94 \xff AAAAAAE=\n"]), (NOTE, "text behind the signatures", GOOD + "x\n"),
    (CHECKPOINT, "size 07", GOOD.replace("\n7\n", "\n07\n")),
    (CHECKPOINT, "an empty extension line", head(AT, H) + note(TEXT7 + "\n", line("log", TEXT7 + "\n"))),
    (CHECKPOINT, "a signed text that is no checkpoint", head(AT, H) + note("hello\n", line("log", "hello\n"))),
    (OURS_LOG, "over 2 MiB", [FIRST + "\nextra ", stretch(1 << 19, "AAAA"), GOOD[len(FIRST):]]),
]


def make():
    parts = lattice_lines({"witness-pq": line("witness-pq", TEXT7)})
    accept, outside = [], []
    for cases, out, want in (ACCEPT, accept, True), (NOT_INCLUDED, outside, False):
        for spec, rule, items in cases:
            b = pieces.raw(items)
            extra, index, hashes, checkpoint = tlog_proof.parse(b)
            assert tlog_proof.write(extra, index, hashes, checkpoint) == b and tlog_proof.included(b, LEAF_HASH) == want, rule
            out.append({"spec": spec, "rule": rule, "proof": pieces.write(items, parts), "index": str(index), "hashes": len(hashes),
                        "extraBytes": -1 if extra is None else len(extra), "size": str(log.parse_checkpoint(log.parse_note(checkpoint)[0])[1])})
    for _, rule, items in REJECT:
        refuse(rule, tlog_proof.parse, items)
    return {
        "description": "C2SP tlog-proof. accept: read, written again byte for byte, and the leaf is in the tree of the checkpoint. notIncluded: read, but the leaf is "
                       "not shown to be in the tree. reject: no proofs. extraBytes is -1 without an extra line. leaf is the leaf of all cases, a record; the checkpoints "
                       "are signed by key.",
        "parts": parts, "leaf": LEAF.decode(), "leafHash": LEAF_HASH.hex(), "key": str(KEYS["log"]), "accept": accept, "notIncluded": outside,
        "reject": [{"spec": p, "rule": r, "proof": pieces.write(x, parts)} for p, r, x in REJECT],
    }
