"""tlog/checkpoint.json"""
from formats import log, pieces

from .common import ORIGIN, b64
from .tlog import CHECKPOINT, OURS_LOG, parse_checkpoint, refuse, spare_bits, stretch, tree

TEXT = tree(7)
ROOT = TEXT.split("\n")[2]


def sized(size):
    return f"{ORIGIN}\n{size}\n{ROOT}\n"


def rooted(s):
    return f"{ORIGIN}\n7\n{s}\n"


def named(origin):
    return f"{origin}\n7\n{ROOT}\n"


ACCEPT = [
    (CHECKPOINT, "seven leaves", TEXT),
    (CHECKPOINT, "the example of the specification", "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"),
    (CHECKPOINT, "size 0", log.checkpoint(ORIGIN, 0, log.EMPTY_ROOT)), (CHECKPOINT, "size 0 and a root that no empty tree has: form alone", sized(0)),
    (CHECKPOINT, "size 2^53+1", sized(2**53 + 1)), (CHECKPOINT, "size 2^63", sized(2**63)), (OURS_LOG, "size 2^64-1", sized(2**64 - 1)),
    (CHECKPOINT, "an origin that is no URL", named("x")), (CHECKPOINT, "an origin with a space", named("go.sum database tree")),
    (CHECKPOINT, "an origin of a space", named(" ")),
    (CHECKPOINT, "an origin with a plus sign", named("a+b")), (CHECKPOINT, "an origin of digits", named("7")),
    (CHECKPOINT, "an origin of other scripts", named("\u65e5\u672c\u8a9e")),
    (CHECKPOINT, "an origin that begins with a dash", named("\u2014 x")), (CHECKPOINT, "an origin of 256 bytes", named("n" * 256)),
    (CHECKPOINT, "a long origin", [stretch(1 << 16), "\n7\n" + ROOT + "\n"]),
    (CHECKPOINT, "an extension line", TEXT + "extension\n"), (CHECKPOINT, "two extension lines", TEXT + "extension\nanother one\n"),
    (CHECKPOINT, "an extension line of a space", TEXT + " \n"), (CHECKPOINT, "an extension line that looks like a size", TEXT + "007\n"),
    (CHECKPOINT, "an extension line that looks like a signature", TEXT + "\u2014 a AAAAAAE=\n"),
    (CHECKPOINT, "a thousand extension lines", [TEXT, stretch(1000, "x\n")]),
    (CHECKPOINT, "an extension line of 64 KiB", [TEXT, stretch(1 << 16), "\n"]),
]
REJECT = [
    (CHECKPOINT, "empty", ""), (CHECKPOINT, "one line", ORIGIN + "\n"), (CHECKPOINT, "two lines", f"{ORIGIN}\n7\n"),
    (CHECKPOINT, "no newline at the end", TEXT[:-1]),
    (CHECKPOINT, "an extension line without newline", TEXT + "x"), (CHECKPOINT, "empty origin", named("")), (CHECKPOINT, "empty size", sized("")),
    (CHECKPOINT, "empty root", rooted("")),
    (CHECKPOINT, "an empty line before the origin", "\n" + TEXT), (CHECKPOINT, "size 07", sized("07")), (CHECKPOINT, "size 007", sized("007")),
    (CHECKPOINT, "size 00", sized("00")),
    (CHECKPOINT, "plus sign", sized("+7")), (CHECKPOINT, "minus sign", sized("-7")), (CHECKPOINT, "minus 0", sized("-0")),
    (CHECKPOINT, "space before the size", sized(" 7")), (CHECKPOINT, "space behind the size", sized("7 ")),
    (CHECKPOINT, "hexadecimal", sized("0x7")), (CHECKPOINT, "exponent", sized("7e0")), (CHECKPOINT, "fraction", sized("7.0")),
    (CHECKPOINT, "underscore", sized("1_0")), (CHECKPOINT, "comma", sized("1,000")),
    (CHECKPOINT, "Arabic digits", sized("\u0667")), (CHECKPOINT, "full-width digits", sized("\uff17")), (CHECKPOINT, "CR behind the size", sized("7\r")),
    (CHECKPOINT, "a word", sized("seven")),
    (OURS_LOG, "size 2^64", sized(2**64)), (OURS_LOG, "size 2^64 and leading zeros", sized("0" + str(2**64))),
    (OURS_LOG, "a size of a megabyte", [ORIGIN + "\n1", stretch(1 << 20, "0"), "\n" + ROOT + "\n"]),
    (CHECKPOINT, "root of 31 bytes", rooted(b64(bytes(31)))), (CHECKPOINT, "root of 33 bytes", rooted(b64(bytes(33)))),
    (CHECKPOINT, "root of 64 bytes", rooted(b64(bytes(64)))), (CHECKPOINT, "root of 0 bytes", rooted("=")),
    (CHECKPOINT, "root without padding", rooted(ROOT.rstrip("="))), (CHECKPOINT, "padding too much", rooted(ROOT + "=")),
    (CHECKPOINT, "bits behind its end", rooted(spare_bits(ROOT))),
    (CHECKPOINT, "URL alphabet", rooted(b64(b"\xff" * 32).replace("/", "_"))), (CHECKPOINT, "hexadecimal root", rooted("00" * 32)),
    (CHECKPOINT, "space behind the root", rooted(ROOT + " ")),
    (CHECKPOINT, "space before the root", rooted(" " + ROOT)), (CHECKPOINT, "CR behind the root", rooted(ROOT + "\r")),
    (CHECKPOINT, "CR in the root", rooted(ROOT[:9] + "\r" + ROOT[9:])), (CHECKPOINT, "root over two lines", rooted(ROOT[:9] + "\n" + ROOT[9:])),
    (CHECKPOINT, "empty extension line", TEXT + "\n"), (CHECKPOINT, "two empty extension lines", TEXT + "\n\n"),
    (CHECKPOINT, "empty line before an extension", TEXT + "\nx\n"),
    (CHECKPOINT, "empty line between extensions", TEXT + "x\n\ny\n"), (CHECKPOINT, "empty line behind an extension", TEXT + "x\n\n"),
    (CHECKPOINT, "size and root swapped", f"{ORIGIN}\n{ROOT}\n7\n"),
    (CHECKPOINT, "no origin line", f"7\n{ROOT}\nx\n"),
]


def make():
    accept = []
    for spec, rule, items in ACCEPT:
        origin, size, root, extensions = parse_checkpoint(pieces.raw(items))
        assert (origin + f"\n{size}\n{b64(root)}\n" + "".join(x + "\n" for x in extensions)).encode() == pieces.raw(items)
        accept.append({"spec": spec, "rule": rule, "text": pieces.write(items), "originBytes": len(origin.encode()), "size": str(size), "root": root.hex(),
                       "extensionLines": len(extensions)})
    for _, rule, items in REJECT:
        refuse(rule, parse_checkpoint, items)
    return {
        "description": "Texts of C2SP tlog-checkpoint: what stands in a signed note before its blank line. accept: read, and written again byte for byte. "
                       "reject: no checkpoints. What a note cannot hold (control characters, invalid UTF-8) is in signed_note.json.",
        "accept": accept, "reject": [{"spec": p, "rule": r, "text": pieces.write(x)} for p, r, x in REJECT],
    }
