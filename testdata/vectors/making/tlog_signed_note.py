"""tlog/signed_note.json"""
from formats import log, pieces

from .common import ORIGIN
from .tlog import (DASH, KEYS, NOTE, OURS_LOG, TIME, forged, key, lattice_lines, line, note, raw_line, refuse, signature, some_hash, spare_bits, stretch, tree,
                   verdict)

TEXT = tree(7)
LINES = {n: line(n, TEXT) for n in KEYS}
LOG, PQ, W1, W2, WPQ = (LINES[n] for n in ("log", "log-pq", "witness-1", "witness-2", "witness-pq"))
UNKNOWN = raw_line("other.example", b"\1\2\3\4", b"\0")
GOOD = note(TEXT, LOG)


def tail(encoded):
    return note(TEXT, DASH + "a " + encoded + "\n")


def unknown(n, size=64):
    return [raw_line("other.example/%d" % i, some_hash(i)[:4], (some_hash(i) * (size // 32 + 1))[:size]) for i in range(n)]


# (spec, rule, note, names of the known keys)
ACCEPT = [
    (NOTE, "one signature", GOOD, ["log"]), (NOTE, "the text need not be a checkpoint", note("hello\n", line("log", "hello\n")), ["log"]),
    (NOTE, "a text of one newline", note("\n", line("log", "\n")), ["log"]),
    (NOTE, "blank lines in the text", note("a\n\nb\n", line("log", "a\n\nb\n")), ["log"]),
    (NOTE, "two blank lines: the last one divides", note("a\n\n", line("log", "a\n\n")), ["log"]),
    (NOTE, "a signature line in the text", note("a\n\n" + LOG, line("log", "a\n\n" + LOG)), ["log"]),
    (NOTE, "U+007F and U+2028 in the text", note("a\x7f\u2028b\n", line("log", "a\x7f\u2028b\n")), ["log"]),
    (NOTE, "all kinds of keys", note(TEXT, LOG, PQ, W1, W2, WPQ), list(KEYS)),
    (NOTE, "the order of lines is free", note(TEXT, WPQ, W2, LOG), ["log", "witness-2", "witness-pq"]),
    (NOTE, "an unknown key is ignored", note(TEXT, UNKNOWN, LOG, UNKNOWN), ["log"]),
    (NOTE, "an unknown key under a known name", note(TEXT, raw_line(ORIGIN, b"\1\2\3\4", b"\0" * 64), LOG), ["log"]),
    (NOTE, "an unknown key with a known id", note(TEXT, raw_line("other.example", KEYS["log"].id, b"\0" * 64), LOG), ["log"]),
    (NOTE, "a known id under a name in another case", note(TEXT, raw_line(ORIGIN.upper(), KEYS["log"].id, b"\0" * 64), LOG), ["log"]),
    (NOTE, "a name that only looks the same", note(TEXT, raw_line(ORIGIN.replace("e", "\u0435"), KEYS["log"].id, b"\0" * 64), LOG), ["log"]),
    (NOTE, "one key as two types has two ids", note(TEXT, log.note_line(key("log", ORIGIN, log.COSIGNATURE), b"\0" * 72), LOG), ["log"]),
    (NOTE, "two cosignatures of one key: the later time counts", note(TEXT, LOG, W1, line("witness-1", TEXT, 7)), ["log", "witness-1"]),
    (NOTE, "the same line twice", note(TEXT, LOG, LOG), ["log"]), (NOTE, "no known key", note(TEXT, UNKNOWN), ["log"]),
    (NOTE, "a known key that did not sign", note(TEXT, LOG), ["log", "witness-1"]),
    (NOTE, "a signature of one byte of an unknown key", note(TEXT, raw_line("a", b"\0\0\0\0", b"x"), LOG), ["log"]),
    (NOTE, "a name of other scripts", note(TEXT, raw_line("\u65e5\u672c\u8a9e", b"\0\0\0\0", b"x"), LOG), ["log"]),
    (NOTE, "a name with U+200B, which is no space", note(TEXT, raw_line("a\u200bb", b"\0\0\0\0", b"x"), LOG), ["log"]),
    (NOTE, "a name with U+007F", note(TEXT, raw_line("a\x7fb", b"\0\0\0\0", b"x"), LOG), ["log"]),
    (NOTE, "a name of an em dash", note(TEXT, raw_line("\u2014", b"\0\0\0\0", b"x"), LOG), ["log"]),
    (NOTE, "16 signatures", note(TEXT, *unknown(15), LOG), ["log"]),
    (NOTE, "16 signatures of 5000 bytes", [TEXT, "\n", *[[DASH + "pq%02d " % i, stretch(5004 // 3, "AAAA"), "\n"] for i in range(15)], LOG], ["log"]),
    (OURS_LOG, "100 signatures", [TEXT + "\n", stretch(99, UNKNOWN), LOG], ["log"]),
    (OURS_LOG, "a signature of 8192 bytes", [TEXT, "\n" + DASH + "a ", stretch(2732, "AAAA"), "\n", LOG], ["log"]),
    (OURS_LOG, "a text of nearly 1 MiB", [stretch((1 << 20) - 100), "\n\n", UNKNOWN], ["log"]),
]
REJECT = [
    (NOTE, "empty", ""), (NOTE, "a newline", "\n"), (NOTE, "two newlines", "\n\n"), (NOTE, "no signature", note(TEXT)), (NOTE, "no blank line", TEXT + LOG),
    (NOTE, "no text", "\n" + LOG), (NOTE, "signature line alone", LOG), (NOTE, "text without its newline", TEXT[:-1] + "\n" + LOG),
    (NOTE, "no newline at the end", GOOD[:-1]), (NOTE, "a blank line behind the signatures", GOOD + "\n"),
    (NOTE, "a text line behind the signatures", GOOD + "x\n"),
    (NOTE, "a blank line between signatures", note(TEXT, LOG, "\n", "x\n")), (NOTE, "CR LF everywhere", GOOD.replace("\n", "\r\n")),
    (NOTE, "CR in the text", note(TEXT.replace("7\n", "7\r\n"), LOG)), (NOTE, "CR LF behind a signature", GOOD[:-1] + "\r\n"),
    (NOTE, "CR as blank line", TEXT + "\r\n" + LOG),
    (NOTE, "tab in the text", note("\t" + TEXT, LOG)), (NOTE, "U+0000 in the text", note("\0" + TEXT, LOG)),
    (NOTE, "U+001F in the text", note("\x1f" + TEXT, LOG)),
    (NOTE, "U+000B in a name", note(TEXT, DASH + "a\x0bb AAAAAAE=\n")), (NOTE, "invalid UTF-8 in the text", [b"\xff", GOOD]),
    (NOTE, "an overlong newline", [b"a\xc0\x8ab\n\n", LOG]),
    (NOTE, "a surrogate in UTF-8", [b"\xed\xa0\x80", GOOD]), (NOTE, "a dash cut short", [TEXT + "\n", b"\xe2\x80", " a AAAAAAE=\n"]),
    (NOTE, "U+002D for U+2014", note(TEXT, LOG.replace("\u2014", "-"))), (NOTE, "U+2013 for U+2014", note(TEXT, LOG.replace("\u2014", "\u2013"))),
    (NOTE, "U+2015 for U+2014", note(TEXT, LOG.replace("\u2014", "\u2015"))), (NOTE, "two hyphens for U+2014", note(TEXT, LOG.replace("\u2014", "--"))),
    (NOTE, "the dash twice", note(TEXT, "\u2014" + LOG)), (NOTE, "a byte order mark before the dash", note(TEXT, "\ufeff" + LOG)),
    (NOTE, "space before the dash", note(TEXT, " " + LOG)), (NOTE, "no space behind the dash", note(TEXT, LOG.replace(DASH, "\u2014"))),
    (NOTE, "U+00A0 behind the dash", note(TEXT, LOG.replace(DASH, "\u2014\u00a0"))),
    (NOTE, "two spaces behind the dash", note(TEXT, LOG.replace(DASH, DASH + " "))),
    (NOTE, "two spaces before the signature", note(TEXT, DASH + "a  AAAAAAE=\n")), (NOTE, "space behind the signature", note(TEXT, DASH + "a AAAAAAE= \n")),
    (NOTE, "a fourth item", note(TEXT, DASH + "a AAAAAAE= b\n")), (NOTE, "no signature behind the name", note(TEXT, DASH + "a\n")),
    (NOTE, "nothing behind the dash", note(TEXT, DASH + "\n")), (NOTE, "no name", note(TEXT, DASH + " AAAAAAE=\n")),
    (NOTE, "plus in the name", note(TEXT, DASH + "a+b AAAAAAE=\n")),
    (NOTE, "U+00A0 in the name", note(TEXT, DASH + "a\u00a0b AAAAAAE=\n")), (NOTE, "U+2003 in the name", note(TEXT, DASH + "a\u2003b AAAAAAE=\n")),
    (NOTE, "U+0085 in the name", note(TEXT, DASH + "a\u0085b AAAAAAE=\n")), (NOTE, "U+3000 in the name", note(TEXT, DASH + "a\u3000b AAAAAAE=\n")),
    (NOTE, "no base64", tail("????")), (NOTE, "empty base64", tail("")), (NOTE, "base64 without padding", tail("AAAAAAE")),
    (NOTE, "padding too much", tail("AAAAAAE==")),
    (NOTE, "padding in the middle", tail("AAAA====AAAA")), (NOTE, "two encodings in a row", tail("AAAAAAE=AAAAAAE=")),
    (NOTE, "base64 with bits behind its end", tail(spare_bits("AAAAAAE="))),
    (NOTE, "bits behind the end of a known key's signature", note(TEXT, spare_bits(LOG))),
    (NOTE, "URL alphabet", tail("AAAAAA__")), (NOTE, "a newline in the base64", note(TEXT, LOG[:-9] + "\n" + LOG[-9:])),
    (NOTE, "key id alone", tail("AAAAAA==")),
    (NOTE, "3 bytes", tail("AAAA")), (NOTE, "the base64 of nothing but padding", tail("====")),
    (OURS_LOG, "101 signatures", [TEXT + "\n", stretch(100, UNKNOWN), LOG]), (OURS_LOG, "1000 signature lines", [TEXT + "\n", stretch(1000, LOG)]),
    (OURS_LOG, "a signature of 8193 bytes", [TEXT + "\n" + DASH + "a ", stretch(2732, "AAAA"), "AA==\n", LOG]),
    (OURS_LOG, "a signature line of a megabyte", [TEXT + "\n" + DASH + "a ", stretch(1 << 18, "AAAA"), "\n", LOG]),
    (OURS_LOG, "a name of a megabyte", [TEXT + "\n" + DASH, stretch(1 << 20), " AAAAAAE=\n", LOG]), (OURS_LOG, "over 1 MiB", [stretch(1 << 20), "\n\n", LOG]),
    (NOTE, "a megabyte of newlines", stretch(1 << 20, "\n")), (NOTE, "a megabyte of dashes", [TEXT + "\n", stretch(1 << 18, "\u2014"), "\n"]),
]
VERIFY = [
    (NOTE, "text changed", note(TEXT.replace("\n7\n", "\n8\n"), LOG), ["log"]), (NOTE, "a line added to the text", note(TEXT + "x\n", LOG), ["log"]),
    (NOTE, "known name and id, signature of another key", note(TEXT, forged("log", TEXT)), ["log"]),
    (NOTE, "a good line does not excuse a bad one", note(TEXT, LOG, forged("log", TEXT)), ["log"]),
    (NOTE, "a bad line before the good one", note(TEXT, forged("log", TEXT), LOG), ["log"]),
    (NOTE, "a bad line of one key, good lines of others", note(TEXT, LOG, forged("witness-1", TEXT), W2), ["log", "witness-1", "witness-2"]),
    (NOTE, "a bad line of type 0x06", note(TEXT, LOG, forged("witness-pq", TEXT)), ["log", "witness-pq"]),
    (NOTE, "a bad line as the 16th", note(TEXT, *unknown(14), LOG, forged("witness-1", TEXT)), ["log", "witness-1"]),
    (NOTE, "the signature of the text with its blank line", note(TEXT, log.note_line(KEYS["log"], signature("log", KEYS["log"], TEXT + "\n"))), ["log"]),
    (NOTE, "the signature of the text without its newline", note(TEXT, log.note_line(KEYS["log"], signature("log", KEYS["log"], TEXT[:-1]))), ["log"]),
    (NOTE, "a plain signature of 63 bytes", note(TEXT, log.note_line(KEYS["log"], signature("log", KEYS["log"], TEXT)[:-1])), ["log"]),
    (NOTE, "a plain signature of 65 bytes", note(TEXT, log.note_line(KEYS["log"], signature("log", KEYS["log"], TEXT) + b"\0")), ["log"]),
    (NOTE, "a signature of one byte under a known key", note(TEXT, log.note_line(KEYS["log"], b"\0")), ["log"]),
    (NOTE, "a cosignature under the id of type 0x01", note(TEXT, log.note_line(KEYS["log"], TIME.to_bytes(8, "big") + signature("log", KEYS["log"], TEXT))),
        ["log"]),
    (NOTE, "blank line within: another text was signed", note("a\n\nb\n", line("log", "a\n")), ["log"]),
]


def judge(items, names):
    text, sigs = log.parse_note(pieces.raw(items))
    return {n: verdict(text, sigs, KEYS[n]) for n in names}


def make():
    parts = lattice_lines({n: LINES[n] for n in ("log-pq", "witness-pq")})
    accept, verify = [], []
    for spec, rule, items, names in ACCEPT:
        text, sigs = log.parse_note(pieces.raw(items))
        got = judge(items, names)
        assert "bad" not in got.values(), rule
        case = {"spec": spec, "rule": rule, "note": pieces.write(items, parts), "textBytes": len(text.encode()),
                "signatures": [{"name": n, "id": i.hex(), "bytes": len(s)} for n, i, s in sigs] if len(sigs) < 50 else [], "lines": len(sigs), "verify": got}
        accept.append(case)
    for spec, rule, items, names in VERIFY:
        got = judge(items, names)
        assert list(got.values()).count("bad") == 1, rule
        verify.append({"spec": spec, "rule": rule, "note": pieces.write(items, parts), "verify": got})
    for _, rule, items in REJECT:
        refuse(rule, log.parse_note, items)
    return {
        "description": "C2SP signed-note. accept: notes that are read, and written again byte for byte; textBytes is the length of the text, signatures the "
                       "lines in their order (left out where there are many). verify, of accept and of its own: what each named key finds, the number of its "
                       "lines and the largest time of its cosignatures, or bad if a line with its name and id does not verify: the note is then refused as a "
                       "whole. reject: no notes. Bounds named by docs/spec/log.md are ours; the specification asks for at least 16 signatures.",
        "parts": parts, "keys": {n: pieces.write(str(k)) for n, k in KEYS.items()}, "accept": accept, "verify": verify,
        "reject": [{"spec": p, "rule": r, "note": pieces.write(x, parts)} for p, r, x in REJECT],
    }
