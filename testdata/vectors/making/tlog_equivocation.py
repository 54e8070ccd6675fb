"""tlog/equivocation.json"""
import json

from formats import canonical, log, pieces, witness

from .common import ORIGIN, b64
from .tlog import FORK, KEYS, LEAVES, OURS_WITNESS, forged, line, note, raw_line, some_hash, tree

W = str(KEYS["witness-1"])


def signed(text, *more):
    return note(text, line("log", text), *more)


def cosigned(size, leaves=LEAVES):
    text = tree(size, leaves)
    return signed(text, line("witness-1", text))


def doc(kind, had, offered, proof=None, **change):
    d = {"schemaVersion": witness.SCHEMA, "kind": kind, "origin": ORIGIN, "cosigned": had, "offered": offered, "observedAt": "2026-07-28T00:00:00.000Z",
    "witness": W}
    if proof:
        d["proof"] = [b64(h) for h in proof]
    d.update(change)
    return {k: v for k, v in d.items() if v is not None}


def dump(d):
    return canonical.write(d)


FP = witness.prove(7, FORK[:20])
SAME = doc("same_size", cosigned(7), signed(tree(7, FORK)))
REWRITTEN = doc("rewritten", cosigned(7), signed(tree(20, FORK)), FP)
EMPTY = doc("empty_root", None, signed(log.checkpoint(ORIGIN, 0, bytes(32))))
UNPROVEN = doc("unproven", cosigned(7), signed(tree(20)), [bytes(32)])

SHOWN = [
    ("two roots of one size", SAME),
    ("two roots of one size, one with an extension line", doc("same_size", cosigned(7), signed(tree(7, FORK, extension="x\n")))),
    ("two roots of size 1", doc("same_size", cosigned(1), signed(log.checkpoint(ORIGIN, 1, bytes(32))))),
    ("two roots of size 2^63", doc("same_size", signed(log.checkpoint(ORIGIN, 2**63, bytes(32))), signed(log.checkpoint(ORIGIN, 2**63, some_hash("x"))))),
    ("two roots of size 0", doc("same_size", signed(log.checkpoint(ORIGIN, 0, log.EMPTY_ROOT)), signed(log.checkpoint(ORIGIN, 0, bytes(32))))),
    ("a larger tree that does not hold the smaller one", REWRITTEN), ("an empty tree with another root", EMPTY),
    ("an empty tree with another root, and a checkpoint that says nothing", EMPTY | {"cosigned": cosigned(7)}),
    ("an empty tree with another root, and a member cosigned of no note", EMPTY | {"cosigned": "x"}),
    ("a proof that leads nowhere", UNPROVEN), ("no proof", doc("unproven", cosigned(7), signed(tree(20)))),
    ("a hash too many", doc("unproven", cosigned(7), signed(tree(20)), witness.prove(7, LEAVES[:20]) + [bytes(32)])),
    ("a fork from a power of two", doc("unproven", cosigned(8), signed(tree(20, FORK)), witness.prove(8, FORK[:20]))),
    ("without the witness's line", doc("same_size", signed(tree(7)), signed(tree(7, FORK)))),
    ("lines of strangers",
        doc("same_size", signed(tree(7), raw_line("x.example", b"\0\0\0\0", b"x")), signed(tree(7, FORK), raw_line("y.example", b"\0\0\0\0", b"x")))),
    ("an auditor's, who has no witness key", {k: v for k, v in SAME.items() if k != "witness"}),
    ("a witness of type 0x06", SAME | {"witness": str(KEYS["witness-pq"])}), ("29 February of a leap year", SAME | {"observedAt": "2028-02-29T23:59:59.999Z"}),
    ("63 hashes", doc("unproven", cosigned(7), signed(tree(20)), [bytes(32)] * 63)),
]
ONE_ROOT = signed(tree(7, extension="x\n"))
NOT_SHOWN = [
    ("one root of one size", SAME | {"offered": ONE_ROOT}), ("the same checkpoint twice", SAME | {"offered": cosigned(7)}),
    ("two sizes as two roots of one size", SAME | {"offered": signed(tree(20))}), ("same_size with a proof", SAME | {"proof": [b64(bytes(32))]}),
    ("same_size without cosigned", doc("same_size", None, signed(tree(7, FORK)))),
    ("a proof that connects the two as rewritten", doc("rewritten", cosigned(7), signed(tree(20)), witness.prove(7, LEAVES[:20]))),
    ("a proof that connects the two as unproven", doc("unproven", cosigned(7), signed(tree(20)), witness.prove(7, LEAVES[:20]))),
    ("a bad proof as rewritten", UNPROVEN | {"kind": "rewritten"}), ("a rewritten tree as unproven", REWRITTEN | {"kind": "unproven"}),
    ("no proof as rewritten", doc("rewritten", cosigned(7), signed(tree(20, FORK)))),
    ("a fork from a power of two as rewritten", doc("rewritten", cosigned(8), signed(tree(20, FORK)), witness.prove(8, FORK[:20]))),
    ("rewritten with trees swapped", doc("rewritten", signed(tree(20, FORK)), cosigned(7), FP)),
    ("two roots of one size as rewritten", SAME | {"kind": "rewritten"}), ("two roots of one size as unproven", SAME | {"kind": "unproven"}),
    ("unproven from an empty tree", doc("unproven", signed(tree(0)), signed(tree(20)), [bytes(32)])),
    ("64 hashes", doc("unproven", cosigned(7), signed(tree(20)), [bytes(32)] * 64)),
    ("a hash of 31 bytes", REWRITTEN | {"proof": [b64(h) for h in FP[:-1]] + [b64(bytes(31))]}),
    ("a hash without padding", REWRITTEN | {"proof": [b64(FP[0]).rstrip("=")] + [b64(h) for h in FP[1:]]}),
    ("a hash too many", REWRITTEN | {"proof": [b64(h) for h in FP + [bytes(32)]]}),
    ("an empty tree with its root", EMPTY | {"offered": signed(tree(0))}), ("a tree of one leaf as an empty one", EMPTY | {"offered": signed(tree(1))}),
    ("empty_root with a proof", EMPTY | {"proof": [b64(bytes(32))]}),
    ("an unknown kind", SAME | {"kind": "other"}), ("no kind", SAME | {"kind": ""}), ("a kind in capitals", SAME | {"kind": "SAME_SIZE"}),
    ("another origin in the document", SAME | {"origin": "other.example"}), ("no origin in the document", SAME | {"origin": ""}),
    ("a checkpoint of another log", SAME | {"offered": signed(tree(7, FORK, origin="other.example"))}),
    ("offered is not signed by the log", SAME | {"offered": note(tree(7, FORK), raw_line("x.example", b"\0\0\0\0", b"x"))}),
    ("offered has a forged line", SAME | {"offered": note(tree(7, FORK), forged("log", tree(7, FORK)))}),
    ("offered has a good line and a forged one", SAME | {"offered": signed(tree(7, FORK), forged("log", tree(7, FORK)))}),
    ("cosigned is signed by the witness alone", SAME | {"cosigned": note(tree(7), line("witness-1", tree(7)))}),
    ("cosigned was changed after signing", SAME | {"cosigned": cosigned(7).replace("\n7\n", "\n8\n")}),
    ("offered is no note", SAME | {"offered": "x"}), ("offered is empty", SAME | {"offered": ""}),
    ("offered is no checkpoint", SAME | {"offered": signed("hello\n")}), ("cosigned is no note", SAME | {"cosigned": "x"}),
    ("CR LF in a note", SAME | {"offered": SAME["offered"].replace("\n", "\r\n")}),
]
GOOD = dump(SAME)


def without(member):
    return dump({k: v for k, v in SAME.items() if k != member})


REJECT = [
    ("empty", ""), ("a newline", "\n"), ("null", "null"), ("an array", "[]"), ("an empty object", "{}"), ("a word", "x"),
    ("another schema", dump(SAME | {"schemaVersion": "counterfoil.equivocation.v2"})), ("no schema", without("schemaVersion")), ("no kind", without("kind")),
    ("no origin", without("origin")), ("no offered", without("offered")),
    ("no observedAt", without("observedAt")), ("an unknown member", dump(SAME | {"note": "x"})), ("a member in another case", GOOD.replace('"kind"', '"Kind"')),
    ("a member twice", GOOD[:-1] + ',"witness":' + json.dumps(W) + "}"),
    ("members in another order", json.dumps(dict(reversed(json.loads(GOOD).items())), separators=(",", ":"), ensure_ascii=False)),
    ("white space", json.dumps(json.loads(GOOD), ensure_ascii=False)), ("escapes that are not needed", GOOD.replace("\u2014", "\\u2014")),
    ("a slash with a backslash", GOOD.replace("/", "\\/", 1)), ("a newline before it", "\n" + GOOD), ("two newlines behind it", GOOD + "\n\n"),
    ("CR LF behind it", GOOD + "\r\n"), ("a blank behind it", GOOD + " "), ("a byte order mark", "\ufeff" + GOOD), ("something behind it", GOOD + "{}"),
    ("cut short", GOOD[:-1]),
    ("an empty cosigned", dump(SAME | {"cosigned": ""})), ("an empty proof", dump(SAME | {"proof": []})),
    ("a proof that is a text", dump(SAME | {"proof": "x"})),
    ("null for cosigned", GOOD.replace('"cosigned":' + json.dumps(SAME["cosigned"], ensure_ascii=False), '"cosigned":null')),
    ("a number for origin", dump(SAME | {"origin": 7})), ("a number in the proof", dump(SAME | {"proof": [7]})),
    ("invalid UTF-8", [GOOD[:-1].rpartition('"')[0], b"\xff", '"}']), ("half a surrogate pair", GOOD.replace(ORIGIN, ORIGIN + "\\ud800")),
    ("a time without milliseconds", dump(SAME | {"observedAt": "2026-07-28T00:00:00Z"})),
    ("a time with an offset", dump(SAME | {"observedAt": "2026-07-28T00:00:00.000+00:00"})),
    ("a time with microseconds", dump(SAME | {"observedAt": "2026-07-28T00:00:00.000000Z"})),
    ("a time with a comma", dump(SAME | {"observedAt": "2026-07-28T00:00:00,000Z"})), ("30 February", dump(SAME | {"observedAt": "2026-02-30T00:00:00.000Z"})),
    ("29 February of another year", dump(SAME | {"observedAt": "2026-02-29T00:00:00.000Z"})),
    ("hour 24", dump(SAME | {"observedAt": "2026-07-28T24:00:00.000Z"})), ("second 60", dump(SAME | {"observedAt": "2026-07-28T23:59:60.000Z"})),
    ("an empty time", dump(SAME | {"observedAt": ""})),
    ("a witness key with a wrong id", dump(SAME | {"witness": W.replace(W.split("+")[1], "00000000")})), ("an empty witness key", dump(SAME | {"witness": ""})),
    ("over 2 MiB", [GOOD[:-1] + ',"x":"', pieces.Repeat("x", 2 << 20), '"}']), ("a deep array", [pieces.Repeat("[", 100000)]),
]


def make():
    key = KEYS["log"]
    shown, not_shown = [], []
    for cases, out, want in (SHOWN, shown, True), (NOT_SHOWN, not_shown, False):
        for rule, d in cases:
            b = dump(d).encode()
            parsed = witness.parse_evidence(b)
            assert witness.parse_evidence(b + b"\n") == parsed == json.loads(b) and witness.shows(parsed, [key]) == want, rule
            out.append({"spec": OURS_WITNESS, "rule": rule, "document": pieces.write([dump(d)]), "kind": d["kind"], "id": witness.evidence_id(d)})
    for c in shown:
        c["conclusive"] = c["kind"] != "unproven"
    for rule, items in REJECT:
        try:
            witness.parse_evidence(pieces.raw(items))
        except log.Malformed:
            continue
        raise AssertionError(f"{rule}: accepted")
    moved = dump(SAME | {"observedAt": "2027-01-01T00:00:00.000Z", "witness": str(KEYS["witness-2"])})
    return {
        "description": "Equivocation documents, counterfoil.equivocation.v1. shown: read, written again byte for byte, and what the kind says is shown under key; "
                       "conclusive: it convicts the log. notShown: read, but not shown. reject: no documents. id names what is shown, whoever saw it and when: sameId are "
                       "documents with the id of the first of shown.",
        "key": str(key), "shown": shown, "notShown": not_shown, "sameId": [pieces.write([moved]), pieces.write([GOOD, "\n"])],
        "reject": [{"spec": OURS_WITNESS, "rule": r, "document": pieces.write(x)} for r, x in REJECT],
    }
