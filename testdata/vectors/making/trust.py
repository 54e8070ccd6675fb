"""trust.json"""
import copy
import json

from formats import ed25519, event, log, trust

from .common import ORIGIN, PUBLIC, SEEDS, attempt, b64, sign, text

LOG = str(log.VKey(ORIGIN, log.ED25519, PUBLIC["log"]))
W1 = str(log.VKey("witness.example/1", log.COSIGNATURE, PUBLIC["witness-1"]))
W2 = str(log.VKey("witness.example/2", log.COSIGNATURE, PUBLIC["witness-2"]))


def key(name, **validity):
    return {"keyId": event.key_id(PUBLIC[name]), "publicKey": b64(PUBLIC[name]), "fromIndex": 0} | validity


def prehash(name, **validity):
    return key(name, **validity) | {"keyId": event.prehash_key_id(PUBLIC[name])}


def document(**change):
    d = {"schemaVersion": trust.SCHEMA, "log": {"origin": ORIGIN, "vkey": LOG}, "eventKeys": [key("event-a")]}
    d.update(change)
    return {k: v for k, v in d.items() if v is not None}


def dump(d):
    return json.dumps(d, ensure_ascii=False)


ROTATED = [key("event-a", toIndex=100), key("event-b", fromIndex=100)]
ACCEPT = [
    ("log and one key", dump(document())),
    ("white space and order are free", json.dumps(dict(reversed(document().items())), indent=2) + "\n"),
    ("two witnesses, both asked", dump(document(witnesses=[{"vkey": W2}, {"vkey": W1}], quorum=2))),
    ("witnesses that nobody must ask", dump(document(witnesses=[{"vkey": W1}]))),
    ("quorum 0 written out", dump(document(quorum=0))),
    ("no witnesses written out", dump(document(witnesses=[]))),
    ("rotated at leaf 100", dump(document(eventKeys=ROTATED[::-1]))),
    ("rotated with an overlap", dump(document(eventKeys=[key("event-a", toIndex=150), key("event-b", fromIndex=100)]))),
    ("revoked before it was retired", dump(document(eventKeys=[key("event-a", toIndex=100, revokedFromIndex=50)]))),
    ("a key that was never valid", dump(document(eventKeys=[key("event-a", fromIndex=5, toIndex=5), key("event-b")]))),
    ("a key that signs by Ed25519ph", dump(document(eventKeys=[key("event-a"), prehash("event-b")]))),
    ("largest index", dump(document(eventKeys=[key("event-a", fromIndex=2**53 - 1)]))),
]


def change(path, value):
    d = copy.deepcopy(document(witnesses=[{"vkey": W1}], quorum=1))
    at = d
    for p in path[:-1]:
        at = at[p]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return dump(d)


REJECT = [
    ("empty", ""), ("not JSON", "log"), ("an array", "[]"), ("an empty object", "{}"),
    ("another schema", change(["schemaVersion"], "counterfoil.trust.v2")), ("no schema", change(["schemaVersion"], None)),
    ("unknown member", change(["comment"], "x")), ("unknown member of a key", change(["eventKeys", 0, "name"], "x")),
    ("a name twice", dump(document())[:-1] + ',"quorum":0,"quorum":0}'), ("null for an optional member", dump(document())[:-1] + ',"quorum":null}'),
    ("bytes behind it", dump(document()) + "{}"), ("no log", change(["log"], None)), ("no vkey", change(["log", "vkey"], None)),
    ("no origin", change(["log", "origin"], None)), ("origin of another log", change(["log", "origin"], "other.example")),
    ("log key of a witness's type", dump(document(log={"origin": ORIGIN, "vkey": str(log.VKey(ORIGIN, log.COSIGNATURE, PUBLIC["log"]))}))),
    ("verifier key with a wrong id", change(["log", "vkey"], LOG.replace(LOG.split("+")[1], "00000000"))),
    ("no event keys", change(["eventKeys"], None)), ("an empty list of event keys", change(["eventKeys"], [])),
    ("an event key without fromIndex", change(["eventKeys", 0, "fromIndex"], None)), ("an event key without its id", change(["eventKeys", 0, "keyId"], None)),
    ("an id that is not the key's own", change(["eventKeys", 0, "keyId"], event.key_id(PUBLIC["attacker"]))),
    ("a public key of 31 bytes", change(["eventKeys", 0, "publicKey"], b64(bytes(31)))), ("a public key without padding", change(["eventKeys", 0, "publicKey"], b64(PUBLIC["event-a"]).rstrip("="))),
    ("an event key twice", change(["eventKeys"], [key("event-a"), key("event-a", fromIndex=5)])),
    ("one public key in two schemes", change(["eventKeys"], [key("event-a"), prehash("event-a")])),
    ("an Ed25519ph id that is not the key's own", change(["eventKeys", 0, "keyId"], event.prehash_key_id(PUBLIC["attacker"]))),
    ("toIndex before fromIndex", change(["eventKeys", 0], key("event-a", fromIndex=5, toIndex=4))),
    ("revokedFromIndex before fromIndex", change(["eventKeys", 0], key("event-a", fromIndex=5, revokedFromIndex=4))),
    ("negative index", change(["eventKeys", 0, "fromIndex"], -1)), ("index as text", change(["eventKeys", 0, "fromIndex"], "0")),
    ("index with a fraction", change(["eventKeys", 0, "fromIndex"], 0.5)), ("index of 2^53", change(["eventKeys", 0, "fromIndex"], 2**53)),
    ("quorum beyond the witnesses", change(["quorum"], 2)), ("negative quorum", change(["quorum"], -1)),
    ("quorum without witnesses", dump(document(quorum=1))), ("a witness without a key", change(["witnesses", 0, "vkey"], None)),
    ("a witness key of a log's type", change(["witnesses"], [{"vkey": str(log.VKey("w", log.ED25519, PUBLIC["witness-1"]))}])),
    ("a witness twice", change(["witnesses"], [{"vkey": W1}, {"vkey": W1}])),
    ("one key under two names", change(["witnesses"], [{"vkey": W1}, {"vkey": str(log.VKey("witness.example/3", log.COSIGNATURE, PUBLIC["witness-1"]))}])),
    ("one name for two keys", change(["witnesses"], [{"vkey": W1}, {"vkey": str(log.VKey("witness.example/1", log.COSIGNATURE, PUBLIC["witness-2"]))}])),
    ("the log as its own witness", change(["witnesses"], [{"vkey": str(log.VKey("witness.example/1", log.COSIGNATURE, PUBLIC["log"]))}])),
    ("a witness with the log's name", change(["witnesses"], [{"vkey": str(log.VKey(ORIGIN, log.COSIGNATURE, PUBLIC["witness-1"]))}])),
]


def judgements():
    eb = text(attempt())
    a, b, x = sign(eb, "event-a"), sign(eb, "event-b"), sign(eb, "attacker")
    forged = [(a[0][0], x[0][1])]
    rotated, overlap = document(eventKeys=ROTATED), document(eventKeys=[key("event-a", toIndex=150), key("event-b", fromIndex=100)])
    revoked = document(eventKeys=[key("event-a", toIndex=100, revokedFromIndex=50), key("event-b", fromIndex=50)])
    digested = [(event.prehash_key_id(PUBLIC["event-b"]), ed25519.sign_ph(SEEDS["event-b"], event.pae(event.PAYLOAD_TYPE, eb)))]
    mixed = document(eventKeys=[key("event-a", toIndex=100), prehash("event-b", fromIndex=100)])
    for rule, doc, sigs, rows in [
        ("rotated to Ed25519ph: the old key", mixed, a, [(99, ""), (100, "key_retired")]),
        ("rotated to Ed25519ph: the new key", mixed, digested, [(99, "key_not_yet_valid"), (100, "")]),
        ("a pure signature under an Ed25519ph id", mixed, [(digested[0][0], b[0][1])], [(100, "bad_signature")]),
        ("an Ed25519ph signature under a pure id", overlap, [(b[0][0], digested[0][1])], [(120, "bad_signature")]),
        ("one key for ever", document(), a, [(0, ""), (2**53 - 1, "")]),
        ("a key that is not listed", document(), x, [(0, "unknown_key")]),
        ("a listed id over another signature", document(), forged, [(0, "bad_signature")]),
        ("rotated: the old key", rotated, a, [(0, ""), (99, ""), (100, "key_retired"), (150, "key_retired")]),
        ("rotated: the new key", rotated, b, [(99, "key_not_yet_valid"), (100, ""), (150, "")]),
        ("rotated with an overlap: the old key", overlap, a, [(149, ""), (150, "key_retired")]),
        ("both sign", overlap, a + b, [(0, ""), (120, ""), (160, "")]),
        ("revoked before it was retired", revoked, a, [(49, ""), (50, "key_revoked"), (100, "key_revoked")]),
        ("a bad signature does not hide a good one", document(), forged + x + a, [(0, "")]),
        ("a retired key beside an unknown one", rotated, x + a, [(100, "key_retired")]),
        ("a bad signature beside an unknown key", document(), x + forged, [(0, "bad_signature")]),
    ]:
        t = trust.Trust(dump(doc).encode())
        for index, want in rows:
            got = t.judge(eb, sigs, index)
            assert got == want, f"{rule} at {index}: {got} != {want}"
        yield {"rule": rule, "trust": t.canonical(), "leaf": event.leaf(eb, event.write_signatures(sigs)).decode(),
               "at": [{"leafIndex": i, "reason": w} for i, w in rows]}


def make():
    accept = []
    for rule, s in ACCEPT:
        t = trust.Trust(s.encode("utf-8"))
        again = trust.Trust(t.canonical().encode())
        assert again.canonical() == t.canonical()
        accept.append({"rule": rule, "text": s, "canonical": t.canonical(), "origin": t.origin, "quorum": t.quorum, "eventKeys": len(t.keys),
                       "witnesses": len(t.witnesses)})
    for rule, s in REJECT:
        try:
            trust.Trust(s.encode("utf-8"))
        except trust.Malformed:
            continue
        raise AssertionError(f"{rule}: accepted")
    return {
        "description": "Trust files. accept: a file as people write it, and its canonical form. reject: files that must be refused. judge: whether a "
                       "signature of the leaf counts at a leaf index under the trust file, reason empty if it does. Rules: docs/spec/trust.md.",
        "accept": accept, "reject": [{"rule": r, "text": s} for r, s in REJECT], "judge": list(judgements()),
    }
