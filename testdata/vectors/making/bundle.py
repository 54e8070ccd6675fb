"""bundle.json, and the bundles and trust files in bundle/"""
import copy
import json
import pathlib

from formats import bundle, canonical, ed25519, event, log, trust

from .common import ORIGIN, PUBLIC, SEEDS, TAG, attempt, b64, event_id, follow, sign, text
from .trust import W1, W2, document, key

DIR = pathlib.Path(__file__).parent.parent / "bundle"

# --- one log of seven leaves -----------------------------------------------
# leaf 0 garbage · 1 attempt · 2 attempt of another agent · 3 outcome · 4 outcome
# of the other · 5 reversal · 6 garbage

A = attempt()
O = follow(A, A, "outcome", "succeeded", "observation-1", tags={"request": TAG["c"], "result": TAG["d"]})
R = follow(O, A, "reversal", "reversed", "reversal-1", refs={"reverses": event_id(O)})
B = attempt(invocation="invocation-002", random="ffeeddccbbaa998877665544332211")
P = follow(B, B, "outcome", "failed", "observation-1", reasonCodes=["tool_error"])
PLACES = {1: A, 2: B, 3: O, 4: P, 5: R}


class Log:
    """Leaves, and the checkpoint over all of them."""

    def __init__(self, events=PLACES, size=7, signers=None, origin=ORIGIN):
        self.origin, self.size, self.events = origin, size, events
        signers = signers or {}
        self.sigs = {i: sign(text(e), *signers.get(i, ("event-a",))) for i, e in events.items()}
        self.leaves = [self.leaf(i) for i in range(size)]
        self.hashes = [log.leaf_hash(x) for x in self.leaves]

    def leaf(self, i):
        if i not in self.events:
            return b"foreign leaf %d" % i
        return event.leaf(text(self.events[i]), event.write_signatures(self.sigs[i]))

    def text(self, size=None, root=None):
        size = self.size if size is None else size
        return log.checkpoint(self.origin, size, log.root(self.hashes[:size]) if root is None else root)

    def note(self, t=None, key="log", witnesses=(), lines=()):
        t = self.text() if t is None else t
        out = [log.note_line(log.VKey(self.origin, log.ED25519, PUBLIC[key]), ed25519.sign(SEEDS[key], t.encode("utf-8")))]
        for n, time in witnesses:
            k = log.VKey("witness.example/" + n[-1], log.COSIGNATURE, PUBLIC[n])
            out.append(log.note_line(k, time.to_bytes(8, "big") + ed25519.sign(SEEDS[n], log.cosigned(time, t))))
        return t + "\n" + "".join(out) + "".join(lines)

    def entry(self, i, size=None):
        return bundle.entry(self.events[i], self.sigs[i], i, log.prove(i, self.hashes[:size or self.size]))

    def bundle(self, *places, note=None):
        return bundle.document([self.entry(i) for i in places], self.note() if note is None else note)


SEVEN = Log()
THREE = SEVEN.bundle(1, 3, 5)
TRUST = document()
WITNESSED = document(witnesses=[{"vkey": W1}, {"vkey": W2}], quorum=2)
TIMES = (("witness-1", 1785196800), ("witness-2", 1785196801))


def edit(d, path, value):
    """A copy with one member changed; None removes it."""
    d = copy.deepcopy(d)
    at = d
    for p in path[:-1]:
        at = at[p]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return d


def artifact(d, n, *path):
    at = d["entries"][n]["artifact"]
    for p in path:
        at = at[p]
    return at


def with_event(i, change, **more):
    """The log with the event at leaf i replaced, and its bundle of leaves 1, 3, 5."""
    events = dict(PLACES)
    events[i] = change
    return Log(events, **more)


def changed_bytes(old, new):
    return bundle.write(THREE).replace(old, new, 1)


def unsigned_change(n, path, value):
    """An event changed in the bundle alone, with the digest and id that follow from it."""
    d = edit(THREE, ["entries", n, "artifact", "receipt", *path], value)
    digest = event.digest(text(artifact(d, n, "receipt")))
    d["entries"][n]["artifact"]["commitment"]["digest"] = "sha256:" + digest
    d["entries"][n]["reference"]["eventId"] = "evt_" + digest
    return d


def cases():
    """rule, file name, bundle (dict or bytes), trust (dict or None), options, status, failures [(check, leaf)], only these"""
    ok = ("verified", [], True)
    one = Log({0: A}, size=1)
    yield ("one entry, the only leaf: an empty proof", "one_entry", one.bundle(0), TRUST, {}, *ok)
    yield ("three entries of an attempt, in a tree of seven with foreign leaves", "three_entries", THREE, TRUST, {}, *ok)
    yield ("two attempts", "two_attempts", SEVEN.bundle(1, 2, 3, 4, 5), TRUST, {}, *ok)
    yield ("a prefix of an attempt: an open one proves nothing, and is no fault", "open_attempt", SEVEN.bundle(1), TRUST, {}, *ok)
    yield ("witnesses cosigned, quorum met", "witnessed", SEVEN.bundle(1, 3, 5, note=SEVEN.note(witnesses=TIMES)), WITNESSED, {}, *ok)
    yield ("signed by others as well", "more_signers", Log(signers={1: ("attacker", "event-a"), 3: ("event-b", "event-a")}).bundle(1, 3, 5), TRUST, {}, *ok)
    rotated = document(eventKeys=[key("event-a", toIndex=3), key("event-b", fromIndex=3)])
    yield ("keys rotated at leaf 3", "rotated", Log(signers={3: ("event-b",), 4: ("event-b",), 5: ("event-b",)}).bundle(1, 3, 5), rotated, {}, *ok)
    yield ("unknown lines in the checkpoint", "unknown_lines", SEVEN.bundle(1, note=SEVEN.note(lines=["\u2014 other.example AAAAAAE=\n"])), TRUST, {}, *ok)
    yield ("as large as was asked for", "three_entries", THREE, TRUST, {"minSize": 7}, *ok)
    yield ("earlier events missing, as allowed", "partial", SEVEN.bundle(3, 5), TRUST, {"allowPartial": True}, *ok)
    yield ("under the newest checkpoint that is known", "three_entries", THREE, TRUST, {"newest": SEVEN.note()}, *ok)

    seen = SEVEN.bundle(1, 3, 5, note=SEVEN.note(witnesses=TIMES))
    oldest = TIMES[0][1]
    yield ("the quorum was met an hour ago, as is allowed", "witnessed", seen, WITNESSED, {"maxAge": 3600, "now": oldest + 3600}, *ok)
    yield ("cosigned five minutes ahead of the clock", "witnessed", seen, WITNESSED, {"maxAge": 3600, "now": oldest - 299}, *ok)

    judged = ("not_judged", [], True)
    yield ("an age is asked for, and no quorum that could tell it", "witnessed", seen, TRUST, {"maxAge": 3600, "now": oldest}, *judged)
    yield ("no trust file", "three_entries", THREE, None, {}, *judged)
    yield ("no bytes", "empty", b"", TRUST, {}, *judged)
    yield ("no entries", "no_entries", edit(edit(THREE, ["entries"], []), ["claimBoundaries"], {}), TRUST, {}, *judged)
    unlogged = bundle.document([bundle.entry(e, SEVEN.sigs[i], i) for i, e in ((1, A), (3, O))])
    yield ("no checkpoint: not logged", "unlogged", unlogged, TRUST, {}, *judged)
    yield ("no checkpoint, and signed by nobody known", "unlogged_attacker",
           bundle.document([bundle.entry(A, sign(text(A), "attacker"), 1)]), TRUST, {}, "failed", [("event_signature", 1)], True)

    def bad(rule, name, b, fails, only=True, options=None, file=TRUST):
        return (rule, name, b, file, options or {}, "failed", fails, only)

    # format
    yield bad("white space", "format_space", changed_bytes(b'{"checkpoint":', b'{ "checkpoint":'), [("format", None)], False)
    yield bad("line break at the end", "format_newline", bundle.write(THREE) + b"\n", [("format", None)], False)
    yield bad("cut short", "format_cut", bundle.write(THREE)[:2000], [("format", None)], False)
    yield bad("not JSON", "format_text", b"receipts", [("format", None)], False)
    yield bad("a key that travels with the bundle", "format_keys", edit(THREE, ["keys"], [b64(PUBLIC["event-a"])]), [("format", None)], False)
    yield bad("entries that carry a value", "format_value", edit(THREE, ["entries", 0, "artifact", "openings"], {"input": 1}), [("format", None)], False)
    yield bad("an escape for a plain character", "format_escape", changed_bytes(b"trace-001", b"\\u0074race-001"), [("format", None)], False)
    yield bad("a hash that is no base64", "format_hash", edit(THREE, ["entries", 0, "record", "inclusionProof", 0], "*" * 44), [("format", 1)])
    yield bad("a hash of 33 bytes", "format_hash33", edit(THREE, ["entries", 0, "record", "inclusionProof", 0], b64(bytes(33))), [("format", 1)])
    yield bad("signatures without padding", "format_signature", edit(THREE, ["entries", 0, "artifact", "commitment", "signatures", 0, "sig"], "AQ"),
              [("format", 1), ("inclusion", 1)])
    yield bad("an empty previous", "format_previous", edit(THREE, ["entries", 0, "reference", "previous"], ""), [("format", None)], False)
    yield bad("a claim boundary code beyond ASCII", "format_code", edit(THREE, ["claimBoundaries", "\u00e9"], "x"), [("format", None)], False)
    # schema
    yield bad("another schema, in another spelling", "schema_spelling", b'{ "schemaVersion": "counterfoil.bundle.v2" }', [("schema", None)], False)
    yield bad("a key id of another form", "schema_key_id", edit(THREE, ["entries", 0, "artifact", "commitment", "signatures", 0, "keyId"], "event-key-1"),
              [("schema", 1), ("event_signature", 1), ("inclusion", 1)])
    yield bad("another schema of the bundle", "schema_bundle", edit(THREE, ["schemaVersion"], "counterfoil.bundle.v2"), [("schema", None)], False)
    yield bad("an event that is not valid, signed and logged all the same", "schema_event", with_event(1, dict(A, status="succeeded")).bundle(1), [("schema", 1)], False)
    # checkpoint
    yield bad("a checkpoint that is no note", "checkpoint_text", edit(THREE, ["checkpoint"], "size 7"), [("checkpoint", None)])
    yield bad("a note that is no checkpoint", "checkpoint_note", edit(THREE, ["checkpoint"], SEVEN.note("hello\n")), [("checkpoint", None)])
    yield bad("size with a leading zero", "checkpoint_size", edit(THREE, ["checkpoint"], SEVEN.note(SEVEN.text().replace("\n7\n", "\n07\n"))), [("checkpoint", None)])
    # origin
    other = Log({i: dict(e, ledger="other.example/log") for i, e in {1: A}.items()}, size=2, origin="other.example/log")
    yield bad("a bundle of another log", "origin_log", other.bundle(1), [("origin", None), ("origin", 1), ("log_signature", None)])
    yield bad("an entry of another log", "origin_entry", edit(THREE, ["entries", 0, "record", "origin"], "other.example/log"), [("origin", 1)])
    foreign = with_event(1, dict(A, ledger="other.example/log"))
    yield bad("an event written for another log", "origin_event", edit(foreign.bundle(1), ["entries", 0, "record", "origin"], ORIGIN), [("origin", 1)])
    # log_signature
    yield bad("signed by another key under the log's name", "log_signature_attacker", SEVEN.bundle(1, 3, 5, note=SEVEN.note(key="attacker")), [("log_signature", None)])
    forged = SEVEN.note().replace(b64(log.VKey(ORIGIN, log.ED25519, PUBLIC["log"]).id + ed25519.sign(SEEDS["log"], SEVEN.text().encode())),
                                  b64(log.VKey(ORIGIN, log.ED25519, PUBLIC["log"]).id + ed25519.sign(SEEDS["attacker"], SEVEN.text().encode())))
    yield bad("another signature under the log's key id", "log_signature_forged", SEVEN.bundle(1, 3, 5, note=forged), [("log_signature", None)])
    yield bad("text changed after it was signed", "log_signature_text", edit(THREE, ["checkpoint"], SEVEN.note().replace("\n7\n", "\n8\n")),
              [("log_signature", None)], False)
    # witness_quorum
    yield bad("nobody cosigned", "witness_none", THREE, [("witness_quorum", None)], file=WITNESSED)
    yield bad("one of two cosigned", "witness_one", SEVEN.bundle(1, 3, 5, note=SEVEN.note(witnesses=TIMES[:1])), [("witness_quorum", None)], file=WITNESSED)
    yield bad("one cosigned twice", "witness_twice", SEVEN.bundle(1, 3, 5, note=SEVEN.note(witnesses=(TIMES[0], ("witness-1", 1785196900)))),
              [("witness_quorum", None)], file=WITNESSED)
    yield bad("a cosignature over another tree", "witness_other", SEVEN.bundle(1, 3, 5, note=SEVEN.note(
        witnesses=TIMES[:1], lines=[Log(size=6).note(witnesses=TIMES[1:]).splitlines(True)[-1]])), [("witness_quorum", None)], file=WITNESSED)
    yield bad("a cosignature that states no time", "witness_no_time", SEVEN.bundle(1, 3, 5, note=SEVEN.note(witnesses=(TIMES[0], ("witness-2", 0)))),
              [("witness_quorum", None)], file=WITNESSED)
    # freshness
    yield bad("the quorum was met longer ago than is allowed", "witnessed", seen, [("freshness", None)], file=WITNESSED, options={"maxAge": 3600, "now": oldest + 3601})
    yield bad("cosigned further ahead of the clock", "witnessed", seen, [("freshness", None)], file=WITNESSED, options={"maxAge": 3600, "now": oldest - 300})
    # entry_order
    swapped = dict(THREE, entries=[THREE["entries"][1], THREE["entries"][0], THREE["entries"][2]])
    yield bad("entries out of order", "entry_order", swapped, [("entry_order", 1)], False)
    yield bad("an entry twice", "entry_twice", dict(THREE, entries=[THREE["entries"][0]] + THREE["entries"]), [("entry_order", 1), ("lifecycle", 1)])
    # commitment_digest
    yield bad("another digest", "commitment_digest", edit(THREE, ["entries", 2, "artifact", "commitment", "digest"], "sha256:" + "0" * 64), [("commitment_digest", 5)])
    yield bad("an event changed after it was signed", "commitment_event", edit(THREE, ["entries", 2, "artifact", "receipt", "status"], "failed"),
              [("commitment_digest", 5), ("event_signature", 5), ("inclusion", 5)])
    # reference
    for name, value in (("eventId", event_id(A)), ("attemptId", B["attemptId"]), ("lifecycle", "review"), ("revision", 4), ("previous", "sha256:" + "0" * 64)):
        yield bad(f"a reference with another {name}", f"reference_{name}", edit(THREE, ["entries", 2, "reference", name], value), [("reference", 5)])
    yield bad("a reference without previous", "reference_no_previous", edit(THREE, ["entries", 2, "reference", "previous"], None), [("reference", 5)])
    # payload_type
    yield bad("another payload type", "payload_type", edit(THREE, ["entries", 0, "artifact", "commitment", "payloadType"], "application/json"), [("payload_type", 1)])
    # event_signature
    yield bad("signed by a key that nobody trusts", "event_signature_attacker", Log(signers={3: ("attacker",)}).bundle(1, 3, 5), [("event_signature", 3)])
    lied = Log()
    lied.sigs[3] = [(lied.sigs[3][0][0], ed25519.sign(SEEDS["attacker"], event.pae(event.PAYLOAD_TYPE, text(O))))]
    lied.leaves = [lied.leaf(i) for i in range(7)]
    lied.hashes = [log.leaf_hash(x) for x in lied.leaves]
    yield bad("a trusted key id over another signature", "event_signature_forged", lied.bundle(1, 3, 5), [("event_signature", 3)])
    yield bad("an event replaced, with digest and id that fit", "event_signature_replaced", unsigned_change(2, ["traceId"], "trace-002"),
              [("event_signature", 5), ("inclusion", 5), ("lifecycle", 5)], False)
    # key_validity
    yield bad("a key retired at leaf 5", "key_retired", THREE, [("key_validity", 5)], file=document(eventKeys=[key("event-a", toIndex=5)]))
    yield bad("a key revoked from leaf 3 on", "key_revoked", THREE, [("key_validity", 3), ("key_validity", 5)],
              file=document(eventKeys=[key("event-a", toIndex=100, revokedFromIndex=3)]))
    yield bad("a key valid from leaf 2 on", "key_not_yet", THREE, [("key_validity", 1)], file=document(eventKeys=[key("event-a", fromIndex=2)]))
    # leaf_index
    yield bad("a leaf index beyond the checkpoint", "leaf_index", edit(THREE, ["entries", 2, "record", "leafIndex"], 7), [("leaf_index", 7)])
    small = SEVEN.note(SEVEN.text(size=5))
    yield bad("an older checkpoint with entries of a newer tree", "leaf_index_old", edit(THREE, ["checkpoint"], small), [("leaf_index", 5)], False)
    # proof_length
    proof = artifact(THREE, 0) and THREE["entries"][0]["record"]["inclusionProof"]
    yield bad("a hash too many", "proof_long", edit(THREE, ["entries", 0, "record", "inclusionProof"], proof + [proof[0]]), [("proof_length", 1)])
    yield bad("a hash too few", "proof_short", edit(THREE, ["entries", 0, "record", "inclusionProof"], proof[:-1]), [("proof_length", 1)])
    yield bad("no proof", "proof_none", edit(THREE, ["entries", 0, "record", "inclusionProof"], None), [("proof_length", 1)])
    # inclusion
    yield bad("another sibling", "inclusion_sibling", edit(THREE, ["entries", 0, "record", "inclusionProof", 0], b64(bytes(32))), [("inclusion", 1)])
    yield bad("hashes in the other order", "inclusion_order", edit(THREE, ["entries", 0, "record", "inclusionProof"], proof[::-1]), [("inclusion", 1)])
    yield bad("the index of the sibling", "inclusion_index", edit(SEVEN.bundle(1), ["entries", 0, "record", "leafIndex"], 0), [("inclusion", 0)])
    yield bad("a tree that the log signed and that does not hold the leaves", "inclusion_root",
              edit(THREE, ["checkpoint"], SEVEN.note(SEVEN.text(root=bytes(32)))), [("inclusion", 1), ("inclusion", 3), ("inclusion", 5)])
    yield bad("a signature added after the leaf was logged", "inclusion_signature",
              edit(THREE, ["entries", 0, "artifact", "commitment", "signatures"], artifact(THREE, 0, "commitment", "signatures") * 2), [("inclusion", 1)])
    # chain
    yield bad("an event left out", "chain_missing", SEVEN.bundle(1, 5), [("chain", 5)])
    yield bad("the attempt left out", "chain_no_attempt", SEVEN.bundle(3, 5), [("chain", 3)])
    fork = with_event(5, dict(R, previous="sha256:" + "0" * 64))
    yield bad("an event that follows another one", "chain_previous", fork.bundle(1, 3, 5), [("chain", 5)])
    second = follow(A, A, "outcome", "failed", "observation-2")
    yield bad("two events of revision 2", "chain_fork", with_event(5, second).bundle(1, 3, 5), [("chain", 5)])
    # lifecycle
    unlawful = follow(O, A, "outcome", "failed", "observation-2")
    yield bad("a second outcome that corrects nothing, signed and logged", "lifecycle_outcome", with_event(5, unlawful).bundle(1, 3, 5), [("lifecycle", 5)])
    stated = follow(A, A, "reconciliation", "confirmed_committed", "read-1", statement={"readback": {"source": "bank", "observed": "absent"}})
    yield bad("a reconciliation whose status is not derived", "lifecycle_derived", with_event(3, stated).bundle(1, 3), [("lifecycle", 3)])
    agent = follow(A, A, "outcome", "succeeded", "observation-1")
    agent["source"] = dict(agent["source"], agentId="agent:other")
    yield bad("an outcome by another agent", "lifecycle_identity", with_event(3, agent).bundle(1, 3), [("lifecycle", 3)])
    yield bad("a leaf that was logged twice", "lifecycle_duplicate", with_event(6, O).bundle(1, 3, 5, 6), [("lifecycle", 6)])
    # claims
    code = A["claimBoundary"]
    yield bad("a claim boundary left out", "claims_missing", edit(THREE, ["claimBoundaries", code], None), [("claims", None)])
    yield bad("a claim boundary with a text of one's own", "claims_text", edit(THREE, ["claimBoundaries", code], "This proves that the payment arrived."), [("claims", None)])
    yield bad("a claim boundary of no entry", "claims_surplus", edit(THREE, ["claimBoundaries", "review_opinion_v1"], bundle.REGISTRY["review_opinion_v1"]), [("claims", None)])
    yield bad("a claim boundary of no registry", "claims_unknown", edit(THREE, ["claimBoundaries", "always_true_v1"], "It is true."), [("claims", None)])
    # completeness
    yield bad("smaller than what was asked for", "three_entries", THREE, [("completeness", None)], options={"minSize": 8})
    larger = Log(size=9)
    yield bad("a newer checkpoint is known", "three_entries", THREE, [("completeness", None)], options={"newest": larger.note()})
    yield bad("two trees of one size", "three_entries", THREE, [("completeness", None)], options={"newest": SEVEN.note(SEVEN.text(root=bytes(32)))})
    yield bad("a newest checkpoint that the log did not sign", "three_entries", THREE, [("completeness", None)], options={"newest": SEVEN.note(key="attacker")})


def make():
    DIR.mkdir(exist_ok=True)
    for old in DIR.glob("*.json"):
        old.unlink()
    out, files, trusts = [], {}, {}
    for rule, name, b, file, options, status, fails, only in cases():
        raw = b if isinstance(b, bytes) else bundle.write(b)
        file_name = f"bundle/{name}.bundle.json"
        assert files.setdefault(file_name, raw) == raw, f"{name}: two contents"
        case = {"rule": rule, "bundle": file_name}
        t = None
        if file is not None:
            tb = json.dumps(file, indent=2, ensure_ascii=True).encode("ascii") + b"\n"
            t = trust.Trust(tb)
            case["trust"] = trusts.setdefault(tb, f"bundle/trust_{len(trusts) + 1}.json")
        r = bundle.verify(raw, t, min_size=options.get("minSize", 0), newest=options["newest"].encode("utf-8") if "newest" in options else None,
                          allow_partial=options.get("allowPartial", False), max_age=options.get("maxAge"), now=options.get("now"))
        names = [n for n in bundle.CHECKS if any(n == f for f, _ in fails)]
        assert r.status == status and (r.names() == names if only else set(names) <= set(r.names())), f"{rule}: {r.status} {r.fails}"
        leaves = [f for f in fails if f[1] is not None]
        assert set(leaves) <= set(r.fails), f"{rule}: {r.fails}"
        case |= options | {"status": status}
        if fails:
            case["fails"] = [{"check": n} | ({} if leaf is None else {"leafIndex": leaf}) for n, leaf in fails]
            case["only"] = only
        out.append(case)
    for name, raw in files.items():
        (DIR.parent / name).write_bytes(raw)
    for raw, name in trusts.items():
        (DIR.parent / name).write_bytes(raw)
    missing = set(bundle.CHECKS) - {f["check"] for c in out for f in c.get("fails", [])} - {"trust"}
    assert not missing, f"no case for {missing}"
    assert canonical.check_canonical(files["bundle/three_entries.bundle.json"], canonical.Profile(1 << 20, 64, True, True))
    return {
        "description": "Bundles, the trust files to judge them by, options (minSize, newest: a signed checkpoint, allowPartial, maxAge and now in seconds), and what a verifier must "
                       "answer. status is verified, failed or not_judged; no trust means that no trust file is given. fails lists checks that fail, "
                       "with the leaf at which they do where that is given; only says that no other check fails. Every check name but trust has a "
                       "bundle that fails it. Rules: docs/spec/bundle.md.",
        "cases": out,
    }
