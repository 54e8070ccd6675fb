"""tlog/policy.json"""
import itertools

from formats import ed25519, log, pieces, policy

from .common import ORIGIN
from .tlog import KEYS, NOTE, OURS_TRUST, POLICY, forged, key, lattice_lines, line, note, raw_line, some_hash, stretch, tree

L, LPQ, W1, W2, WPQ = (str(KEYS[n]) for n in ("log", "log-pq", "witness-1", "witness-2", "witness-pq"))
TWO = f"witness a {W1}\nwitness b {W2}\n"
THREE = TWO + f"witness c {WPQ}\n"


def some_key(i, kind):
    return str(log.VKey("key.example/%d" % i, kind, ed25519.public(some_hash(f"key {i}"))))


def many(n, word, kind):
    return "".join(f"{word} {some_key(i, kind)}\n" if word == "log" else f"{word} w{i} {some_key(i, kind)}\n" for i in range(n))


MANY = many(32, "log", log.ED25519) + many(32, "witness", log.COSIGNATURE) + "".join(f"group g{i} any w{i}\n" for i in range(32)) + "quorum g31\n"
X = "".join(f"witness X{i} {some_key(i, log.COSIGNATURE)}\n" for i in (1, 2, 3)) + "group X-witnesses 2 X1 X2 X3\n\n"
Y = "".join(f"witness Y{i} {some_key(i, log.COSIGNATURE)}\n" for i in (4, 5, 6)) + "group Y-witnesses any Y4 Y5 Y6\n\n"
ACCEPT = [
    (POLICY, "the quorum alone", "quorum none\n"), (POLICY, "a log and no witnesses", f"log {L}\nquorum none\n"),
    (POLICY, "a log with a URL", f"log {L} https://ledger.example/log/\nquorum none\n"),
    (POLICY, "two logs", f"log {L}\nlog {some_key(1, log.ED25519)}\nquorum none\n"), (POLICY, "one witness", f"log {L}\nwitness a {W1}\nquorum a\n"),
    (POLICY, "a witness with a URL", f"witness a {W1} https://witness.example/\nquorum a\n"),
    (POLICY, "witnesses that the quorum does not ask", f"{TWO}quorum none\n"), (POLICY, "any", TWO + "group g any a b\nquorum g\n"),
    (POLICY, "all", TWO + "group g all a b\nquorum g\n"), (POLICY, "2 of 3", THREE + "group g 2 a b c\nquorum g\n"),
    (POLICY, "a group of one", TWO + "group g 1 a\nquorum g\n"),
    (POLICY, "groups of groups: the example of the specification", f"log {L}\n\n{X}{Y}group X-and-Y all X-witnesses Y-witnesses\nquorum X-and-Y\n"),
    (POLICY, "a group that nobody uses", THREE + "group g all a b\nquorum c\n"),
    (POLICY, "a witness that is member and quorum", TWO + "group g all a b\nquorum a\n"),
    (POLICY, "keys of type 0x06", f"log {LPQ}\nwitness c {WPQ}\nquorum c\n"),
    (POLICY, "the order of lines is free", f"witness a {W1}\nquorum a\nlog {L}\nwitness b {W2}\n"),
    (POLICY, "definitions behind the quorum", TWO + f"quorum a\nwitness c {WPQ}\ngroup g all c b\n"),
    (POLICY, "tabs and runs of blanks", f"\t log\t \t{L} \t\n \tquorum\tnone\t \n"),
    (POLICY, "empty lines and lines of blanks", f"\n \n\t\n\nlog {L}\n\n \t \nquorum none\n\n"),
    (POLICY, "comments", f"# first\n#\n \t# behind blanks\n#log x\nlog {L}\n## \u00fc \u2003\nquorum none\n#last\n"),
    (POLICY, "an opaque comment", [b"# \x80\xff\nquorum none\n"]), (POLICY, "'#' as a URL is no comment", f"log {L} #\nquorum none\n"),
    (POLICY, "'#' in names", f"witness #a {W1}\nwitness b#c {W2}\ngroup #g all #a b#c\nquorum #g\n"),
    (POLICY, "names like keywords", f"witness all {W1}\nwitness log {W2}\nwitness 2 {WPQ}\ngroup any 2 all log 2\nquorum any\n"),
    (POLICY, "a group called quorum, and one called group", TWO + "group quorum any a\ngroup group any b\nquorum quorum\n"),
    (POLICY, "names like None and NONE", f"witness None {W1}\nwitness NONE {W2}\ngroup nonesuch all None NONE\nquorum nonesuch\n"),
    (POLICY, "Unicode spaces are part of a name", f"witness a\u00a0b {W1}\nwitness a\u2003b {W2}\ngroup \u3000 all a\u00a0b a\u2003b\nquorum \u3000\n"),
    (POLICY, "K and the Kelvin sign are two names", f"witness K {W1}\nwitness \u212a {W2}\ngroup g all K \u212a\nquorum g\n"),
    (POLICY, "two normal forms are two names", f"witness \u00e9 {W1}\nwitness e\u0301 {W2}\nquorum \u00e9\n"),
    (POLICY, "two cases are two names", f"witness w {W1}\nwitness W {W2}\nquorum W\n"),
    (POLICY, "a name that is no UTF-8", [f"witness ", b"\xff\x80", f" {W1}\nquorum ", b"\xff\x80", "\n"]),
    (POLICY, "a URL that is no UTF-8", [f"log {L} ", b"\xff", "\nquorum none\n"]),
    (POLICY, "a name like its key", f"witness {KEYS['witness-1'].name} {W1}\nquorum {KEYS['witness-1'].name}\n"),
    (POLICY, "a name of plus signs", f"witness a+b {W1}\nquorum a+b\n"),
    (POLICY, "a key that is of a log and of a witness", f"log {L}\nwitness a {key('log', 'witness.example/a', log.COSIGNATURE)}\nquorum a\n"),
    (POLICY, "two witnesses under one key name",
        f"witness a {W1}\nwitness b {key('witness-2', 'witness.example/1', log.COSIGNATURE)}\ngroup g all a b\nquorum g\n"),
    (POLICY, "two logs of one origin", f"log {L}\nlog {key('attacker', ORIGIN, log.ED25519)}\nquorum none\n"), (POLICY, "32 logs, witnesses and groups", MANY),
    (OURS_TRUST, "64 witnesses", many(64, "witness", log.COSIGNATURE) + "quorum w63\n"),
    (OURS_TRUST, "64 logs", many(64, "log", log.ED25519) + "quorum none\n"),
    (POLICY, "a comment of half a megabyte", ["#", stretch(1 << 19), "\nquorum none\n"]), (POLICY, "many empty lines", [stretch(1000, "\n"), "quorum none\n"]),
]
REJECT = [
    (POLICY, "empty", "", 0), (POLICY, "a comment alone", "# quorum none\n", 0), (POLICY, "no quorum", f"log {L}\n{TWO}", 0),
    (POLICY, "two quorum lines", "quorum none\nquorum none\n", 2), (POLICY, "two quorum lines that differ", TWO + "quorum a\nquorum b\n", 4),
    (POLICY, "quorum without a name", "quorum\n", 1), (POLICY, "quorum of two names", TWO + "quorum a b\n", 3),
    (POLICY, "quorum of an undefined name", "quorum a\n", 1), (POLICY, "quorum before its definition", f"quorum a\nwitness a {W1}\n", 1),
    (POLICY, "quorum of a log", f"log {L}\nquorum {ORIGIN}\n", 2),
    (POLICY, "quorum of a key name that is no name", f"witness a {W1}\nquorum witness.example/1\n", 2),
    (POLICY, "quorum None", "quorum None\n", 1), (POLICY, "quorum all", TWO + "quorum all\n", 3), (POLICY, "quorum 2", TWO + "quorum 2\n", 3),
    (POLICY, "no newline at the end", f"log {L}\nquorum none", 2), (POLICY, "a comment without newline at the end", "quorum none\n# x", 2),
    (POLICY, "a blank without newline at the end", "quorum none\n ", 2),
    (POLICY, "a comment behind items", "quorum none # nobody\n", 1),
    (POLICY, "a comment behind a log's URL", f"log {L} https://x.example # x\nquorum none\n", 1),
    (POLICY, "a comment behind a name", f"witness a {W1}\nquorum a#\n", 2), (POLICY, "CR LF", f"log {L}\r\nquorum none\r\n", 1),
    (POLICY, "CR in an empty line", "\r\nquorum none\n", 1), (POLICY, "CR in a comment", "# x\r\nquorum none\n", 1),
    (POLICY, "CR at the end of the last line", f"log {L}\nquorum none\r\n", 2), (POLICY, "CR for newline", f"log {L}\rquorum none\n", 1),
    (POLICY, "U+0000", "quorum none\n\0\n", 2), (POLICY, "vertical tab as a blank", "quorum\x0bnone\n", 1), (POLICY, "form feed", "quorum none\x0c\n", 1),
    (POLICY, "U+001B in a comment", "# \x1b[2J\nquorum none\n", 1), (POLICY, "U+007F in a comment", "quorum none\n# \x7f\n", 2),
    (POLICY, "U+007F in a name", f"witness a\x7f {W1}\nquorum none\n", 1), (POLICY, "U+00A0 as a blank", f"log\u00a0{L}\nquorum none\n", 1),
    (POLICY, "U+2003 as a blank", "quorum\u2003none\n", 1), (POLICY, "U+0085 as a line end", "quorum none\u0085\n", 1),
    (POLICY, "U+3000 before a keyword", "\u3000quorum none\n", 1), (POLICY, "a byte order mark", "\ufeffquorum none\n", 1),
    (POLICY, "an unknown keyword", "quorum none\nmirror x\n", 2), (POLICY, "a keyword in capitals", "QUORUM none\n", 1),
    (POLICY, "a keyword in a quote", "'quorum' none\n", 1), (POLICY, "log without a key", "log\nquorum none\n", 1),
    (POLICY, "log with too many items", f"log {L} a b\nquorum none\n", 1), (POLICY, "log with a name like a witness", f"log a {L}\nquorum none\n", 1),
    (POLICY, "witness without a key", "witness a\nquorum none\n", 1), (POLICY, "witness without a name", f"witness {W1}\nquorum none\n", 1),
    (POLICY, "witness with too many items", f"witness a {W1} b c\nquorum none\n", 1),
    (POLICY, "witness with key and name swapped", f"witness {W1} a\nquorum none\n", 1),
    (POLICY, "a log key with a wrong id", f"log {L.replace(L.split('+')[1], '00000000')}\nquorum none\n", 1),
    (POLICY, "a witness key without padding", f"witness a {WPQ[:-1]}\nquorum none\n", 1),
    (POLICY, "a key that is no UTF-8", [b"log \xff", f"{L[1:]}\nquorum none\n"], 1),
    (OURS_TRUST, "a log key of type 0x04", f"log {key('log', ORIGIN, log.COSIGNATURE)}\nquorum none\n", 1),
    (POLICY, "a witness key of type 0x01", f"witness a {key('witness-1', 'witness.example/1', log.ED25519)}\nquorum none\n", 1),
    (POLICY, "a log twice", f"log {L}\nlog {L}\nquorum none\n", 2), (POLICY, "a log twice with other URLs", f"log {L} a\nlog {L} b\nquorum none\n", 2),
    (POLICY, "one key as two logs", f"log {L}\nlog {key('log', 'other.example', log.ED25519)}\nquorum none\n", 2),
    (POLICY, "a witness twice", f"witness a {W1}\nwitness b {W1}\nquorum none\n", 2),
    (POLICY, "one key as two witnesses", f"witness a {W1}\nwitness b {key('witness-1', 'witness.example/3', log.COSIGNATURE)}\nquorum none\n", 2),
    (POLICY, "one ML-DSA-44 key as two witnesses", f"witness a {WPQ}\nwitness b {key('witness-pq', 'witness.example/3', log.MLDSA44)}\nquorum none\n", 2),
    (POLICY, "one name for two witnesses", f"witness a {W1}\nwitness a {W2}\nquorum none\n", 2),
    (POLICY, "one name for a witness and a group", TWO + "group a any b\nquorum none\n", 3),
    (POLICY, "one name for a group and a witness", f"witness a {W1}\ngroup b any a\nwitness b {W2}\nquorum none\n", 3),
    (POLICY, "one name for two groups", TWO + "group g any a\ngroup g any b\nquorum g\n", 4),
    (POLICY, "a witness called none", f"witness none {W1}\nquorum none\n", 1), (POLICY, "a group called none", TWO + "group none any a\nquorum none\n", 3),
    (POLICY, "none as a member", TWO + "group g any a none\nquorum g\n", 3), (POLICY, "a group of itself", TWO + "group g any g\nquorum g\n", 3),
    (POLICY, "an undefined member", TWO + "group g any a x\nquorum g\n", 3),
    (POLICY, "a member defined later", f"witness a {W1}\ngroup g any a b\nwitness b {W2}\nquorum g\n", 2),
    (POLICY, "a log as a member", f"log {L}\ngroup g any {ORIGIN}\nquorum g\n", 2), (POLICY, "a member twice in a group", TWO + "group g 2 a a\nquorum g\n", 3),
    (POLICY, "a member of two groups", TWO + "group g any a\ngroup h any a b\nquorum h\n", 4),
    (POLICY, "a group in two groups", THREE + "group g any a\ngroup h any g b\ngroup i any g c\nquorum i\n", 6),
    (POLICY, "a group without members", TWO + "group g any\nquorum g\n", 3), (POLICY, "a group without a rule", TWO + "group g\nquorum g\n", 3),
    (POLICY, "a group with neither", TWO + "group\nquorum none\n", 3), (POLICY, "k = 0", TWO + "group g 0 a b\nquorum g\n", 3),
    (POLICY, "k > n", TWO + "group g 3 a b\nquorum g\n", 3), (POLICY, "k of 2^64+1", TWO + "group g 18446744073709551617 a b\nquorum g\n", 3),
    (POLICY, "negative k", TWO + "group g -1 a b\nquorum g\n", 3),
    (OURS_TRUST, "k with a plus sign", TWO + "group g +1 a b\nquorum g\n", 3), (OURS_TRUST, "k = 01", TWO + "group g 01 a b\nquorum g\n", 3),
    (POLICY, "k in hexadecimal", TWO + "group g 0x1 a b\nquorum g\n", 3), (POLICY, "k in Arabic digits", TWO + "group g \u0661 a b\nquorum g\n", 3),
    (POLICY, "ALL", TWO + "group g ALL a b\nquorum g\n", 3), (POLICY, "a fraction", TWO + "group g 1/2 a b\nquorum g\n", 3),
    (POLICY, "the first wrong line is named", "bogus\nquorum\n", 1), (POLICY, "lines are counted with empty ones and comments", "\n# x\n \nquorum x\n", 4),
    (OURS_TRUST, "65 witnesses", many(65, "witness", log.COSIGNATURE) + "quorum none\n", 65),
    (OURS_TRUST, "65 logs", many(65, "log", log.ED25519) + "quorum none\n", 65),
    (OURS_TRUST, "65 groups", many(64, "witness", log.COSIGNATURE) + "".join(f"group g{i} any w{i}\n" for i in range(64)) + "group h any g0\nquorum none\n",
        129), (OURS_TRUST, "over 1 MiB", ["quorum none\n#", stretch(1 << 20), "\n"], 0),
]

T = tree(7)
S = {n: line(n, T) for n in KEYS}
OTHER = key("attacker", "other.example", log.ED25519)
TWO_LOGS = f"log {L}\nlog {OTHER}\n"
TO = tree(7, origin="other.example")
ASK = f"log {L}\n{THREE}group g 2 a b c\nquorum g\n"
ALL3 = note(T, S["log"], S["witness-1"], S["witness-2"], S["witness-pq"])
JUDGE = [
    (POLICY, "signed by the log, no quorum asked", f"log {L}\nquorum none\n", note(T, S["log"]), ""), (POLICY, "2 of 3 with all", ASK, ALL3, ""),
    (POLICY, "2 of 3 with two", ASK, note(T, S["log"], S["witness-pq"], S["witness-1"]), ""),
    (POLICY, "2 of 3 with one", ASK, note(T, S["log"], S["witness-2"]), "no quorum"),
    (POLICY, "2 of 3 with one twice", ASK, note(T, S["log"], S["witness-2"], S["witness-2"]), "no quorum"),
    (POLICY, "2 of 3 with one twice at two times", ASK, note(T, S["log"], S["witness-2"], line("witness-2", T, 7)), "no quorum"),
    (POLICY, "2 of 3 without the log", ASK, note(T, S["witness-1"], S["witness-2"]), "no log"),
    (NOTE, "2 of 3, and a bad line of the third", ASK, note(T, S["log"], S["witness-1"], S["witness-2"], forged("witness-pq", T)), "bad signature"),
    (NOTE, "a bad line of a witness that the quorum does not ask", f"log {L}\n{TWO}quorum a\n", note(T, S["log"], S["witness-1"], forged("witness-2", T)),
        "bad signature"),
    (NOTE, "strangers' lines", ASK, note(T, raw_line("witness.example/1", b"\0\1\2\3", b"x"), S["log"], S["witness-1"], S["witness-2"]), ""),
    (POLICY, "either of two logs: the first", TWO_LOGS + "quorum none\n", note(T, S["log"]), ""),
    (POLICY, "either of two logs: the second", TWO_LOGS + "quorum none\n", note(TO, line("attacker", TO, k=OTHER)), ""),
    (POLICY, "a listed log's key under another log's origin", TWO_LOGS + "quorum none\n",
        note(TO, S["log"].replace(S["log"].split(" ")[2], line("log", TO).split(" ")[2])), "no log"),
    (POLICY, "a listed log that signs for another listed log's origin", TWO_LOGS + "quorum none\n", note(T, line("attacker", T, k=OTHER)), "no log"),
    (POLICY, "a log with a key of type 0x06", f"log {LPQ}\nquorum none\n", note(T, S["log-pq"]), ""),
    (POLICY, "no logs listed", "quorum none\n", note(T, S["log"]), "no log"),
    (OURS_TRUST, "a cosignature with time 0 counts towards no quorum", f"log {L}\n{THREE}quorum c\n", note(T, S["log"], line("witness-pq", T, 0)), "no quorum"),
    (POLICY, "a witness's name is not that of its key", f"log {L}\nwitness witness.example/2 {W1}\nquorum witness.example/2\n",
        note(T, S["log"], S["witness-1"]), ""),
    (POLICY, "no checkpoint", f"log {L}\nquorum none\n", note("hello\n", line("log", "hello\n")), "malformed"),
    (POLICY, "no note", f"log {L}\nquorum none\n", T, "malformed"),
]


def name(b):
    return pieces.write([b])


def make():
    parts = {n: s for n, s in (("log-pq", LPQ), ("witness-pq", WPQ))} | lattice_lines({n: S[n] for n in ("log-pq", "witness-pq")})
    accept = []
    for spec, rule, items in ACCEPT:
        p = policy.Policy(pieces.raw(items))
        case = {"spec": spec, "rule": rule, "policy": pieces.write(items, parts),
        "logs": [{"key": f"{k.name}+{k.id.hex()}", "url": name(u)} for k, u in p.logs],
                "witnesses": [{"name": name(n), "key": f"{k.name}+{k.id.hex()}", "url": name(u)} for n, k, u in p.witnesses],
                "groups": [{"name": name(n), "k": k, "members": [name(m) for m in ms]} for n, k, ms in p.groups], "quorum": name(p.quorum)}
        if len(p.witnesses) <= 3 or "example of the spec" in rule:
            names = [n for n, _, _ in p.witnesses]
            case["satisfied"] = [[name(n) for n in some] for r in range(len(names) + 1) for some in itertools.combinations(names, r) if p.satisfied(some)]
        accept.append(case)
    for _, rule, items, at in REJECT:
        try:
            policy.Policy(pieces.raw(items))
        except policy.Bad as e:
            assert e.line == at, f"{rule}: line {e.line}"
            continue
        raise AssertionError(f"{rule}: accepted")
    for _, rule, p, n, why in JUDGE:
        got = policy.Policy(p.encode()).judge(n.encode())
        assert got == why, f"{rule}: {got}"
    return {
        "description": "C2SP tlog-policy. accept: what is read; key is the name and id of a verifier key, k of all and any the number that they stand for; satisfied, "
                       "where it stands, are all sets of witnesses whose cosignatures meet the quorum. reject: line is the line that is refused, from 1; 0 is the "
                       "policy as a whole. judge: whether a note is a valid checkpoint under a policy; why is empty if it is.",
        "parts": parts, "accept": accept, "reject": [{"spec": s, "rule": r, "policy": pieces.write(x, parts), "line": at} for s, r, x, at in REJECT],
        "judge": [{"spec": s, "rule": r, "policy": pieces.write(p, parts), "note": pieces.write(n, parts), "why": why} for s, r, p, n, why in JUDGE],
    }
