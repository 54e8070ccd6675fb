"""tlog/add_checkpoint.json"""
from formats import log, pieces, witness

from .common import ORIGIN, SEEDS, b64
from .tlog import (COSIGNATURE, DASH, FORK, KEYS, LEAVES, NOTE, OURS_WITNESS, TIME, TREE, WITNESS, forged, key, lattice_lines, line, note, raw_line, some_hash,
                   spare_bits, stretch, tree)

W = KEYS["witness-1"]
SPACED, LATTICE = "go.sum database tree", "pq.example/log"
LOGS = {ORIGIN: ("log", KEYS["log"]), SPACED: ("event-a", key("event-a", "sum.example", log.ED25519)), LATTICE: ("log-pq", key("log-pq", LATTICE, log.MLDSA44))}
KNOWN = {origin: [k] for origin, (_, k) in LOGS.items()}


def sign(text):
    name, k = LOGS[text.split("\n")[0]]
    return line(name, text, k=k)


def body(old, proof, *signed):
    """Request; without signature lines, the log's own."""
    text, *lines = signed
    return [f"old {old}\n" + "".join(b64(h) + "\n" for h in proof), "\n", text, "\n", lines or sign(text)]


def grow(old, new, leaves=LEAVES, prove_from=None, origin=ORIGIN, extension="", proof=None):
    at = old if prove_from is None else prove_from
    return body(old, witness.prove(at, leaves[:new]) if proof is None else proof, tree(new, leaves, origin, extension))


def far(old, new):
    """Two roots and a proof for sizes of which nobody has the leaves."""
    at = log.root(LEAVES[:3])
    for n in range(1, 65):
        proof = [some_hash(f"far {i}") for i in range(n)]
        try:
            a, b = witness.roots(old, new, proof, at)
            return log.checkpoint(ORIGIN, old, a), proof, log.checkpoint(ORIGIN, new, b)
        except log.Malformed:
            continue


FAR = {"2^62": far(2**62, 2**63), "2^63-2": far(2**63 - 2, 2**63 - 1), "2^63": far(2**63, 2**63 + 1), "1": far(1, 2**63)}
STATES = {"never": None, "7": tree(7), "8": tree(8), "empty": tree(0), "7 spaced": tree(7, origin=SPACED), "7 lattice": tree(7, origin=LATTICE)}
STATES |= {f"far {n}": old for n, (old, _, _) in FAR.items()}
G = pieces.raw(grow(7, 20)).decode()
P = witness.prove(7, LEAVES[:20])
L20, T20 = sign(tree(20)), tree(20)
FORGED_W = forged("witness-1", T20)


def swap(old, new):
    assert old in G, old
    return G.replace(old, new, 1)


def extended(text):
    return line("log", text)


# (spec, rule, state, body, status)
CASES = [
    (WITNESS, "first checkpoint, old size 0 and no proof", "never", grow(0, 7), 200), (WITNESS, "first checkpoint of size 0", "never", grow(0, 0), 200),
    (WITNESS, "first checkpoint of size 1", "never", grow(0, 1), 200), (WITNESS, "grown", "7", grow(7, 20), 200),
    (WITNESS, "grown by one", "7", grow(7, 8), 200),
    (WITNESS, "grown from a power of two", "8", grow(8, 20), 200), (WITNESS, "grown to a power of two", "7", grow(7, 64), 200),
    (WITNESS, "the same checkpoint again", "7", grow(7, 7), 200),
    (WITNESS, "grown from size 0", "empty", grow(0, 7), 200), (WITNESS, "size 0 again", "empty", grow(0, 0), 200),
    (NOTE, "lines of unknown keys before and behind", "7",
        body(7, P, T20, raw_line("x.example", b"\1\2\3\4", b"\0"), L20, raw_line(ORIGIN, b"\1\2\3\4", b"\0")), 200),
    (NOTE, "an unknown key with the log key's id", "7", body(7, P, T20, raw_line("x.example", KEYS["log"].id, b"\0"), L20), 200),
    (NOTE, "the log's line twice", "7", body(7, P, T20, L20, L20), 200),
    (WITNESS, "cosignatures of other witnesses", "7", body(7, P, T20, L20, line("witness-2", T20), line("witness-pq", T20)), 200),
    (WITNESS, "this witness's own line, forged: its key is none of the log's", "7", body(7, P, T20, L20, FORGED_W), 200),
    (NOTE, "16 lines, 15 of them of 5000 bytes", "7", body(7, P, T20, *[[DASH + "pq%02d " % i, stretch(1668, "AAAA"), "\n"] for i in range(15)], L20), 200),
    (OURS_WITNESS, "16 lines of 8 KiB", "7", body(7, P, T20, *[[DASH + "pq%02d " % i, stretch(2732, "AAAA"), "\n"] for i in range(16)], L20), 200),
    (OURS_WITNESS, "100 lines", "7", body(7, P, T20, stretch(99, raw_line("x.example", b"\1\2\3\4", b"\0" * 64)), L20), 200),
    (COSIGNATURE, "an extension line: the cosignature covers it", "7", grow(7, 20, extension="extension\n"), 200),
    (COSIGNATURE, "the same tree with another extension line", "7", grow(7, 7, extension="x\n"), 200),
    (WITNESS, "an origin with spaces, under a key of another name", "7 spaced", grow(7, 20, origin=SPACED), 200),
    (WITNESS, "a log that signs with ML-DSA-44", "7 lattice", grow(7, 20, origin=LATTICE), 200),
    (WITNESS, "first checkpoint of size 2^63", "never", body(0, [], log.checkpoint(ORIGIN, 2**63, bytes(32))), 200),
    (WITNESS, "first checkpoint of size 2^64-1", "never", body(0, [], log.checkpoint(ORIGIN, 2**64 - 1, bytes(32))), 200),
] + [(TREE, f"from {n}, {len(proof)} proof lines", f"far {n}", body(log.parse_checkpoint(old)[1], proof, new), 200) for n, (old, proof, new) in FAR.items()] + [
    # 400: syntax
    (WITNESS, "empty", "7", "", 400), (WITNESS, "old size line alone", "7", "old 7\n", 400), (WITNESS, "no checkpoint", "7", "old 7\n\n", 400),
    (WITNESS, "no old size line", "7", G[6:], 400), (WITNESS, "no old size line, no proof", "7", note(T20, L20), 400),
    (WITNESS, "no size", "7", swap("old 7\n", "old \n"), 400), (WITNESS, "no word old", "7", swap("old 7\n", "7\n"), 400),
    (WITNESS, "Old", "7", swap("old", "Old"), 400), (WITNESS, "two spaces", "7", swap("old 7", "old  7"), 400),
    (WITNESS, "a tab for the space", "7", swap("old 7", "old\t7"), 400), (WITNESS, "space behind the size", "7", swap("old 7", "old 7 "), 400),
    (WITNESS, "space before old", "7", " " + G, 400), (WITNESS, "old size 07", "7", swap("old 7", "old 07"), 400),
    (WITNESS, "old size 00", "never", pieces.raw(grow(0, 7)).decode().replace("old 0", "old 00"), 400),
    (WITNESS, "old size with a plus sign", "7", swap("old 7", "old +7"), 400), (WITNESS, "negative old size", "7", swap("old 7", "old -7"), 400),
    (WITNESS, "old size in hexadecimal", "7", swap("old 7", "old 0x7"), 400), (WITNESS, "old size with an underscore", "7", swap("old 7", "old 0_7"), 400),
    (WITNESS, "old size in Arabic digits", "7", swap("old 7", "old \u0667"), 400),
    (OURS_WITNESS, "old size 2^64", "7", swap("old 7", "old 18446744073709551616"), 400),
    (WITNESS, "old size 2^64+7", "7", swap("old 7", "old 18446744073709551623"), 400), (WITNESS, "CR LF everywhere", "7", G.replace("\n", "\r\n"), 400),
    (WITNESS, "CR behind the old size", "7", swap("old 7\n", "old 7\r\n"), 400),
    (WITNESS, "CR behind a proof line", "7", swap("=\n", "=\r\n"), 400), (WITNESS, "CR as the empty line", "7", swap("\n\n", "\n\r\n"), 400),
    (WITNESS, "a byte order mark", "7", "\ufeff" + G, 400),
    (WITNESS, "64 proof lines", "7", body(7, [bytes(32)] * 64, T20), 400),
    (WITNESS, "1000 proof lines", "7", ["old 7\n", stretch(1000, b64(bytes(32)) + "\n"), "\n", note(T20, L20)], 400),
    (WITNESS, "proof hash of 31 bytes", "7", body(7, [P[0][:-1]] + P[1:], T20), 400),
    (WITNESS, "proof hash of 33 bytes", "7", body(7, [P[0] + b"\0"] + P[1:], T20), 400), (WITNESS, "proof hash without padding", "7", swap("=\n", "\n"), 400),
    (WITNESS, "proof hash with bits behind its end", "7", swap(b64(P[0]), spare_bits(b64(P[0]))), 400),
    (WITNESS, "proof hash of the URL alphabet", "7", body(7, [b"\xff" * 32], T20)[0].replace("/", "_") + "\n" + note(T20, L20), 400),
    (WITNESS, "two proof hashes on a line", "7", swap(b64(P[0]) + "\n", b64(P[0])), 400), (WITNESS, "space behind a proof hash", "7", swap("=\n", "= \n"), 400),
    (WITNESS, "hexadecimal proof hash", "7", swap(b64(P[0]), P[0].hex()), 400),
    (WITNESS, "no empty line before the checkpoint", "7", swap("=\n\n", "=\n"), 400),
    (WITNESS, "an empty line more before the checkpoint", "7", swap("=\n\n", "=\n\n\n"), 400),
    (WITNESS, "an empty line within the proof", "7", swap("=\n", "=\n\n"), 400),
    (NOTE, "a checkpoint without signatures", "7", "old 7\n\n" + T20 + "\n", 400), (NOTE, "a checkpoint without a newline at its end", "7", G[:-1], 400),
    (NOTE, "a newline too many at the end", "7", G + "\n", 400),
    (NOTE, "a signature line with a hyphen", "7", swap("\u2014", "-"), 400),
    (NOTE, "bits behind the end of a signature", "7", body(7, P, T20, spare_bits(L20)), 400),
    (NOTE, "a control character in an unknown line", "7", body(7, P, T20, L20, DASH + "a\x01 AAAAAAE=\n"), 400),
    (NOTE, "invalid UTF-8 in an unknown line", "7", [G, b"\xe2\x80\x94 \xff AAAAAAE=\n"], 400),
    (OURS_WITNESS, "101 lines", "7", body(7, P, T20, stretch(100, raw_line("x.example", b"\1\2\3\4", b"\0" * 64)), L20), 400),
    (OURS_WITNESS, "1000 lines", "7", body(7, P, T20, stretch(1000, L20)), 400),
    (OURS_WITNESS, "a line of 8193 bytes", "7", body(7, P, T20, DASH + "a ", stretch(2732, "AAAA"), "AA==\n", L20), 400),
    ("tlog-checkpoint", "size 020", "7", body(7, P, T20.replace("\n20\n", "\n020\n"), L20), 400),
    ("tlog-checkpoint", "size +20", "7", body(7, P, T20.replace("\n20\n", "\n+20\n"), L20), 400),
    ("tlog-checkpoint", "root of 31 bytes", "7", body(7, P, f"{ORIGIN}\n20\n{b64(bytes(31))}\n"), 400),
    ("tlog-checkpoint", "root with bits behind its end", "7", body(7, P, f"{ORIGIN}\n20\n{spare_bits(b64(bytes(32)))}\n"), 400),
    ("tlog-checkpoint", "two lines", "7", body(7, P, f"{ORIGIN}\n20\n", L20), 400),
    ("tlog-checkpoint", "an empty extension line", "7", body(7, P, T20 + "\n", extended(T20 + "\n")), 400),
    ("tlog-checkpoint", "no origin", "7", body(7, P, T20[len(ORIGIN):], L20), 400),
    ("tlog-checkpoint", "a signed text that is no checkpoint", "7", body(7, P, "hello\n", line("log", "hello\n")), 400),
    (WITNESS, "old size above the checkpoint's", "7", grow(7, 5, proof=[]), 400),
    (WITNESS, "old size above the checkpoint's, and not the stored one", "7", grow(20, 8, proof=[]), 400),
    # 413
    (OURS_WITNESS, "a line of a megabyte", "7", [swap("old 7\n", "old 7\n")[:-1], stretch(1 << 20, "A"), "\n"], 413),
    (OURS_WITNESS, "a megabyte of newlines", "7", stretch(1 << 20, "\n"), 413),
    (OURS_WITNESS, "a megabyte of digits", "7", ["old 7", stretch(1 << 20, "0"), "\n"], 413),
    (OURS_WITNESS, "one byte over 512 KiB", "7", [G, stretch((512 << 10) + 1 - len(G.encode()), "x")], 413),
    (OURS_WITNESS, "512 KiB of something else", "7", stretch(512 << 10), 400),
    # 404, 403
    (WITNESS, "unknown origin", "7", body(7, P, tree(20, origin="stranger.example"), line("log", tree(20, origin="stranger.example"))), 404),
    (WITNESS, "unknown origin and no good signature", "7", body(7, P, tree(20, origin="stranger.example"), raw_line("x", b"\0\0\0\0", b"x")), 404),
    (WITNESS, "the name of a key that is no origin", "7 spaced",
        body(7, P, tree(20, origin="sum.example"), line("event-a", tree(20, origin="sum.example"), k=LOGS[SPACED][1])), 404),
    (WITNESS, "an origin in another case", "7", body(7, P, tree(20, origin=ORIGIN.upper()), L20), 404),
    (WITNESS, "an origin with a space behind it", "7", body(7, P, tree(20, origin=ORIGIN + " "), L20), 404),
    (WITNESS, "no line of a trusted key", "7", body(7, P, T20, raw_line("x.example", b"\1\2\3\4", b"\0")), 403),
    (WITNESS, "the log's name, another key", "7", body(7, P, T20, line("attacker", T20, k=key("attacker", ORIGIN, log.ED25519))), 403),
    (WITNESS, "signed by another log's key", "7", body(7, P, T20, line("event-a", T20, k=LOGS[SPACED][1])), 403),
    (WITNESS, "the log's key as a cosigner", "7", body(7, P, T20, line("log", T20, k=key("log", ORIGIN, log.COSIGNATURE))), 403),
    (WITNESS, "the witness alone signed", "7", body(7, P, T20, line("witness-1", T20)), 403),
    (WITNESS, "a line of the log's key does not verify", "7", body(7, P, T20, forged("log", T20)), 403),
    (WITNESS, "a good line does not excuse a bad one", "7", body(7, P, T20, L20, forged("log", T20)), 403),
    (WITNESS, "a bad line before the good one", "7", body(7, P, T20, forged("log", T20), L20), 403),
    (WITNESS, "size changed after signing", "7", body(7, P, T20.replace("\n20\n", "\n21\n"), L20), 403),
    (WITNESS, "extension added after signing", "7", body(7, P, T20 + "x\n", L20), 403),
    (WITNESS, "signature before old size above the checkpoint's", "7", body(9, [], tree(8), forged("log", tree(8))), 403),
    (WITNESS, "signature before a wrong old size", "7", body(3, [], T20, forged("log", T20)), 403),
    (WITNESS, "a bad line of type 0x06", "7 lattice", body(7, P, tree(20, origin=LATTICE), line("attacker-pq", tree(20, origin=LATTICE), k=LOGS[LATTICE][1])),
        403),
    # 409
    (WITNESS, "old size 0 to learn the size", "7", grow(0, 20), 409), (WITNESS, "old size behind", "7", grow(3, 20), 409),
    (WITNESS, "old size ahead", "7", grow(8, 20), 409), (WITNESS, "old size without a state", "never", grow(7, 20), 409),
    (WITNESS, "a smaller tree", "7", grow(3, 5), 409), (WITNESS, "an empty tree", "7", grow(0, 0), 409),
    (WITNESS, "wrong old size before a wrong proof", "7", grow(3, 20, proof=[bytes(32)]), 409), (WITNESS, "old size of size 0", "empty", grow(7, 20), 409),
    (WITNESS, "another root of the stored size, with a wrong old size", "7", grow(3, 7, FORK), 409),
    (WITNESS, "a stored size of 2^63", "far 2^63", grow(7, 20), 409),
    (WITNESS, "size 0 with another root, with a wrong old size", "7", body(0, [], log.checkpoint(ORIGIN, 0, bytes(32))), 409),
    # 422
    (WITNESS, "size 0 with another root than that of nothing", "never", body(0, [], log.checkpoint(ORIGIN, 0, bytes(32))), 422),
    (WITNESS, "size 0 with another root, after size 0", "empty", body(0, [], log.checkpoint(ORIGIN, 0, bytes(32))), 422),
    (WITNESS, "old size 0 with a proof", "never", grow(0, 20, proof=P), 422),
    (WITNESS, "old size 0 and size 0 with a proof", "never", grow(0, 0, proof=[bytes(32)]), 422),
    (WITNESS, "the stored size, another root", "7", grow(7, 7, FORK), 422),
    (WITNESS, "the stored size, another root, and a proof", "7", grow(7, 7, FORK, proof=P), 422),
    (WITNESS, "the stored size and root, and a proof", "7", grow(7, 7, proof=P), 422), (WITNESS, "no proof", "7", grow(7, 20, proof=[]), 422),
    (WITNESS, "a hash too many", "7", grow(7, 20, proof=P + [P[0]]), 422), (WITNESS, "a hash too few", "7", grow(7, 20, proof=P[:-1]), 422),
    (WITNESS, "hashes in the other order", "7", grow(7, 20, proof=P[::-1]), 422),
    (WITNESS, "one bit of a hash", "7", grow(7, 20, proof=[bytes([P[0][0] ^ 1]) + P[0][1:]] + P[1:]), 422),
    (WITNESS, "the proof from another size", "7", grow(7, 20, prove_from=6), 422),
    (WITNESS, "the proof to another size", "7", grow(7, 20, proof=witness.prove(7, LEAVES[:21])), 422),
    (WITNESS, "63 hashes", "7", grow(7, 20, proof=[bytes(32)] * 63), 422), (WITNESS, "another history, with its own proof", "7", grow(7, 20, FORK), 422),
    (WITNESS, "another history, with the proof of the signed one", "7", grow(7, 20, FORK, proof=P), 422),
    (WITNESS, "another history from a power of two", "8", grow(8, 20, FORK), 422),
    (WITNESS, "the first proof hash doubled", "8", grow(8, 20, proof=[log.root(LEAVES[:8])] + witness.prove(8, LEAVES[:20])), 422),
    (WITNESS, "an empty root on a grown tree", "7", body(7, P, log.checkpoint(ORIGIN, 20, log.EMPTY_ROOT)), 422),
]


def request_of(state):
    return None if state is None else body(0, [], state)


def answer(status, text, stored, at=TIME):
    """Body and type of an answer, as far as they are laid down."""
    if status == 200:
        return {"line": line("witness-1", text, at)}
    return {"contentType": witness.SIZE_TYPE, "answer": f"{stored[0]}\n"} if status == 409 else {}


def judge(items, stored, at=TIME):
    b = pieces.raw(items)
    status, shows = witness.decide(KNOWN, stored, b)
    out = {"status": status} | answer(status, b.partition(b"\n\n")[2].decode("utf-8", "replace").rpartition("\n\n")[0] + "\n" if status == 200 else "", stored,
    at)
    return out | ({"evidence": shows} if shows else {})


def stored_of(text):
    return (0, log.EMPTY_ROOT) if text is None else log.parse_checkpoint(text)[1:3]


SEQUENCES = [
    (WITNESS, "what one request changes the next one sees", 1000,
        [(0, grow(0, 7)), (0, grow(0, 7)), (0, grow(7, 20)), (0, grow(7, 21)), (0, grow(20, 21)), (0, grow(20, 21)), (0, grow(21, 21)), (0, grow(7, 8))]),
    (WITNESS, "a refused request changes nothing", 1000,
        [(0, grow(0, 7)), (0, grow(7, 20, FORK)), (0, grow(7, 7, FORK)), (0, grow(7, 20, proof=[])), (0, body(7, P, T20, forged("log", T20))),
        (0, grow(7, 20))]),
    (OURS_WITNESS, "times follow the clock and never go back", 1000, [(0, grow(0, 7)), (60, grow(7, 7)), (5, grow(7, 8)), (61, grow(8, 9))]),
]
LIMITED = (OURS_WITNESS, "2 requests a day: what the log signed counts, whatever the answer", 2,
           [(0, grow(0, 7), 200, 0), (0, body(7, P, T20, forged("log", T20)), 403, 0), (0, "old 7\n", 400, 0), (0, grow(3, 20), 409, 0),
           (0, grow(7, 20), 429, 43200), (43200, grow(7, 20), 200, 0), (43200, grow(20, 21), 429, 43200)])


def sequences():
    for spec, rule, qpd, steps in SEQUENCES:
        stored, latest, out = (0, log.EMPTY_ROOT), 0, []
        for after, items in steps:
            latest = max(latest, TIME + after)
            got = judge(items, stored, latest)
            if got["status"] == 200:
                stored = log.parse_checkpoint(pieces.raw(items).partition(b"\n\n")[2].decode().rpartition("\n\n")[0] + "\n")[1:3]
            out.append({"after": after, "body": pieces.write(items)} | got)
        yield {"spec": spec, "rule": rule, "requestsPerDay": qpd, "steps": out}
    spec, rule, qpd, steps = LIMITED
    stored, out = (0, log.EMPTY_ROOT), []
    for after, items, status, retry in steps:
        got = judge(items, stored, TIME + after)
        if status != 429:
            assert got["status"] == status, (rule, after)
            if status == 200:
                stored = log.parse_checkpoint(pieces.raw(items).partition(b"\n\n")[2].decode().rpartition("\n\n")[0] + "\n")[1:3]
        else:
            got = {"status": 429, "retryAfter": str(retry)}
        out.append({"after": after, "body": pieces.write(items)} | got)
    yield {"spec": spec, "rule": rule, "requestsPerDay": qpd, "steps": out}


N20, C1 = note(T20, L20), line("witness-1", T20)
SIZE = witness.SIZE_TYPE
# (spec, rule, status, content type, body, names of the known keys, what it means)
ANSWERS = [
    (WITNESS, "one cosignature", 200, "", C1, {"cosigned": {W.name: str(TIME)}}),
    (WITNESS, "the content type of 200 is free", 200, "application/octet-stream", C1, {"cosigned": {W.name: str(TIME)}}),
    (WITNESS, "cosignatures of two keys", 200, "", C1 + line("witness-pq", T20), {"cosigned": {W.name: str(TIME), KEYS["witness-pq"].name: str(TIME)}}),
    (WITNESS, "lines of unknown keys are ignored", 200, "", raw_line("x.example", b"\1\2\3\4", b"\0") + C1, {"cosigned": {W.name: str(TIME)}}),
    (WITNESS, "an unknown key under the witness's name", 200, "", raw_line(W.name, b"\1\2\3\4", b"\0") + C1, {"cosigned": {W.name: str(TIME)}}),
    (WITNESS, "only unknown keys", 200, "", raw_line("x.example", b"\1\2\3\4", b"\0"), {"refused": "no signature of a known key"}),
    (WITNESS, "the log's line alone", 200, "", L20, {"refused": "no signature of a known key"}),
    (NOTE, "a bad line of the witness", 200, "", FORGED_W, {"refused": "a signature of a known key does not verify"}),
    (NOTE, "a bad line of the witness beside a good one", 200, "", C1 + FORGED_W, {"refused": "a signature of a known key does not verify"}),
    (WITNESS, "a cosignature of another checkpoint", 200, "", line("witness-1", tree(7)), {"refused": "a signature of a known key does not verify"}),
    (WITNESS, "a time of 0", 200, "", line("witness-pq", T20, 0), {"refused": "a time of 0"}),
    (WITNESS, "nothing", 200, "", "", {"refused": "not signature lines"}), (WITNESS, "a newline", 200, "", "\n", {"refused": "not signature lines"}),
    (WITNESS, "no newline at the end", 200, "", C1[:-1], {"refused": "not signature lines"}),
    (WITNESS, "CR LF", 200, "", C1[:-1] + "\r\n", {"refused": "not signature lines"}),
    (WITNESS, "an empty line behind", 200, "", C1 + "\n", {"refused": "not signature lines"}),
    (WITNESS, "the whole note", 200, "", N20 + C1, {"refused": "not signature lines"}),
    (WITNESS, "words", 200, "text/plain", "OK\n", {"refused": "not signature lines"}),
    (WITNESS, "a text with a new body and lines", 200, "", "\nx\n\n" + C1, {"refused": "not signature lines"}),
    (OURS_WITNESS, "a megabyte", 200, "", stretch(1 << 20, "x"), {"refused": "not signature lines"}),
    (WITNESS, "a size", 409, SIZE, "7\n", {"size": "7"}), (WITNESS, "size 0", 409, SIZE, "0\n", {"size": "0"}),
    (WITNESS, "size 2^63", 409, SIZE, "9223372036854775808\n", {"size": "9223372036854775808"}),
    (WITNESS, "a size without newline", 409, SIZE, "7", {"refused": "not a size"}),
    (WITNESS, "size 07", 409, SIZE, "07\n", {"refused": "not a size"}), (WITNESS, "size +7", 409, SIZE, "+7\n", {"refused": "not a size"}),
    (WITNESS, "a size and CR LF", 409, SIZE, "7\r\n", {"refused": "not a size"}),
    (WITNESS, "a size and a second line", 409, SIZE, "7\n\n", {"refused": "not a size"}),
    (WITNESS, "an empty body of that type", 409, SIZE, "", {"refused": "not a size"}),
    (WITNESS, "size 2^64", 409, SIZE, "18446744073709551616\n", {"refused": "not a size"}),
    (WITNESS, "409 of another type: roots differ (v1.0.0)", 409, "text/plain; charset=utf-8", "7\n", {"refused": "root or proof"}),
    (WITNESS, "409 without a type", 409, "", "", {"refused": "root or proof"}),
    (WITNESS, "422", 422, "", "", {"refused": "root or proof"}), (WITNESS, "422 with a size", 422, SIZE, "7\n", {"refused": "root or proof"}),
    (WITNESS, "400", 400, "", "", {"refused": "status"}), (WITNESS, "403", 403, "", "", {"refused": "status"}),
    (WITNESS, "404", 404, "", "", {"refused": "status"}), (WITNESS, "429", 429, "", "", {"refused": "status"}),
    (WITNESS, "500 with a cosignature", 500, "", C1, {"refused": "status"}),
    (WITNESS, "202 with a cosignature", 202, "", C1, {"refused": "status"}),
]


def make():
    parts = lattice_lines({f"log-pq of {n}": sign(tree(n, origin=LATTICE)) for n in (7, 20)} | {"witness-pq": line("witness-pq", T20)})
    cases = []
    for spec, rule, state, items, status in CASES:
        got = judge(items, stored_of(STATES[state]))
        assert got["status"] == status, f"{rule}: {got['status']}, not {status}"
        cases.append({"spec": spec, "rule": rule, "state": state, "body": pieces.write(items, parts)} | got)
    known = [W, KEYS["witness-pq"]]
    for spec, rule, status, kind, items, want in ANSWERS:
        got = witness.read_answer(status, kind, pieces.raw(items), N20.encode(), known)
        assert got == want, f"{rule}: {got}"
    return {
        "description": "C2SP tlog-witness, add-checkpoint. A witness that knows the logs and is in a state (it answered the state's request before; never: none) "
                       "gets the body and gives the status. line is the whole body of a 200, cosigned at time; contentType and answer, the body, are exact where they stand; no "
                       "other answer has the content type of a 409. evidence is the kind of the equivocation document that the request gives cause to. A "
                       "refusal leaves the state as it was. sequences: requests one after the other, each so many seconds after time. answers: what a client "
                       "that knows the keys makes of an answer to the request for checkpoint: cosigned with the time of each key, size, or refused.",
        "parts": parts, "witness": {"name": W.name, "seed": SEEDS["witness-1"].hex(), "vkey": str(W), "time": str(TIME)},
        "logs": [{"origin": o, "vkey": pieces.write(str(k), parts)} for o, (_, k) in LOGS.items()],
        "states": {n: {"size": str(stored_of(x)[0]), "root": stored_of(x)[1].hex(),
        "origin": (x or ORIGIN + "\n").split("\n")[0]} | ({"request": pieces.write(request_of(x), parts)} if x else {})
                   for n, x in STATES.items()},
        "cases": cases, "sequences": list(sequences()),
        "answerKeys": [pieces.write(str(k), parts) for k in known], "checkpoint": pieces.write(N20, parts),
        "answers": [{"spec": p, "rule": r, "status": s, "contentType": t, "body": pieces.write(x, parts), "means": m} for p, r, s, t, x, m in ANSWERS],
    }
