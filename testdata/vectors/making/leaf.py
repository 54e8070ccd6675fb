"""leaf.json"""
from formats import ed25519, event, log

from .common import ORIGIN, PUBLIC, SEEDS, attempt, b64, event_id, follow, sign, text

OTHER = ("eip712:0xabc", b"\x01\x02")  # a signature of another kind, which readers carry along


def leaf_of(e, sigs):
    return event.leaf(text(e), event.write_signatures(sigs))


def make():
    a = attempt()
    o = follow(a, a, "outcome", "unknown", "observation-1", reasonCodes=["timeout"])
    eb = text(a)
    good, second, forged = sign(eb, "event-a"), sign(eb, "event-b"), sign(eb, "attacker")
    renamed = [(good[0][0], forged[0][1])]  # the attacker's signature under the trusted id
    other_type = sign(eb, "event-a", payload_type="application/json")
    other_event = sign(text(o), "event-a")
    bare = [(good[0][0], ed25519.sign(SEEDS["event-a"], eb))]
    pae = event.pae(event.PAYLOAD_TYPE, eb)
    digested = [(event.prehash_key_id(PUBLIC["event-b"]), ed25519.sign_ph(SEEDS["event-b"], pae))]
    swapped = [(event.prehash_key_id(PUBLIC["event-b"]), second[0][1]), (second[0][0], digested[0][1])]

    accept = []
    for rule, e, sigs in [
        ("one signature", a, good),
        ("an outcome", o, other_event),
        ("two signers", a, good + second),
        ("a signature of another kind is carried along", a, [OTHER] + good),
        ("a bad signature does not hide a good one", a, renamed + [OTHER] + good),
        ("the same key twice", a, good + good),
        ("64 signatures", a, [OTHER] * 63 + good),
        ("no signature verifies: a record all the same", a, renamed),
        ("signed over another payload type", a, other_type),
        ("signed over another event", a, other_event),
        ("signed over the bare event instead of its encoding", a, bare),
        ("signed by a key that nobody trusts", a, forged),
        ("signed by Ed25519ph", a, digested),
        ("two signers in two schemes", a, good + digested),
        ("a signature of each scheme under the other's key id", a, swapped),
        ("a notice of the ledger", attempt(subject={"kind": "ledger", "id": ORIGIN}, statement={"gap": {"from": 7, "to": 12, "count": 4}}), None),
    ]:
        sigs = sigs or sign(text(e), "event-a")
        leaf = leaf_of(e, sigs)
        event.parse_leaf(leaf)
        accept.append({
            "rule": rule, "leaf": leaf.decode(), "leafHash": log.leaf_hash(leaf).hex(), "eventId": event_id(e), "subject": event.subject(e),
            "pae": event.pae(event.PAYLOAD_TYPE, text(e)).hex(),
            "signatures": [{"keyId": k, "sig": s.hex()} for k, s in sigs],
            # Place of the first signature that verifies under each key, −1 for none.
            "verifies": {n: event.verify_with(PUBLIC[n], text(e), sigs) for n in ("event-a", "event-b", "attacker")},
        })

    whole = leaf_of(a, good)
    reject = []
    for rule, raw, path in [
        ("no bytes", b"", None),
        ("an empty object", b"{}", ""),
        ("the event alone", eb, None),
        ("no signatures", b'{"event":' + eb + b"}", ""),
        ("an empty array of signatures", event.leaf(eb, b"[]"), "/signatures"),
        ("65 signatures", leaf_of(a, [OTHER] * 65), "/signatures"),
        ("unknown member", whole[:-1] + b',"x":1}', "/x"),
        ("leaf index inside", whole[:-1] + b',"leafIndex":0}', "/leafIndex"),
        ("members in the other order", b'{"signatures":' + event.write_signatures(good) + b',"event":' + eb + b"}", None),
        ("white space", whole.replace(b'{"event":', b'{ "event":'), None),
        ("white space in the event", whole.replace(b'"lifecycle":', b'"lifecycle": '), None),
        ("line break at the end", whole + b"\n", None),
        ("an event that is not canonical", whole.replace(b"trace-001", b"\\u0074race-001"), None),
        ("an event that is not valid", whole.replace(b'"status":"requested"', b'"status":"succeeded"'), "/event/status"),
        ("an event with an unknown member", whole.replace(b'"tenant"', b'"surplus":1,"tenant"'), "/event/surplus"),
        ("an event of revision 2 without previous", whole.replace(b'"revision":1', b'"revision":2'), "/event/previous"),
        ("signature with an unknown member", event.leaf(eb, event.write_signatures(good).replace(b'{"keyId"', b'{"alg":"none","keyId"')), "/signatures/0/alg"),
        ("signature without a key id", event.leaf(eb, b'[{"sig":"AQI="}]'), "/signatures/0/keyId"),
        ("key id without an algorithm", leaf_of(a, [("abc", b"\x01")]), "/signatures/0/keyId"),
        ("key id with an upper-case algorithm", leaf_of(a, [("RSA:abc", b"\x01")]), "/signatures/0/keyId"),
        ("key id with a space", leaf_of(a, [("rsa:a b", b"\x01")]), "/signatures/0/keyId"),
        ("key id beyond ASCII", leaf_of(a, [("rsa:\u00e9", b"\x01")]), "/signatures/0/keyId"),
        ("ed25519 key id of 63 digits", leaf_of(a, [(good[0][0][:-1], good[0][1])]), "/signatures/0/keyId"),
        ("ed25519 key id in upper case", leaf_of(a, [("ed25519:" + good[0][0][8:].upper(), good[0][1])]), "/signatures/0/keyId"),
        ("ed25519ph key id of 63 digits", leaf_of(a, [(digested[0][0][:-1], digested[0][1])]), "/signatures/0/keyId"),
        ("algorithm of 33 bytes", leaf_of(a, [("a" * 33 + ":x", b"\x01")]), "/signatures/0/keyId"),
        ("identifier of 201 bytes", leaf_of(a, [("a:" + "x" * 201, b"\x01")]), "/signatures/0/keyId"),
        ("empty signature", leaf_of(a, [("a:x", b"")]), "/signatures/0/sig"),
        ("signature of 8,193 bytes", leaf_of(a, [("a:x", b"\x00" * 8193)]), "/signatures/0/sig"),
        ("base64 without padding", event.leaf(eb, b'[{"keyId":"a:x","sig":"AQ"}]'), "/signatures/0/sig"),
        ("base64 with bits behind its end", event.leaf(eb, b'[{"keyId":"a:x","sig":"AR=="}]'), "/signatures/0/sig"),
        ("base64 of the URL alphabet", event.leaf(eb, b'[{"keyId":"a:x","sig":"-_8="}]'), "/signatures/0/sig"),
        ("base64 with a line break", event.leaf(eb, b'[{"keyId":"a:x","sig":"AQ\\n=="}]'), None),
        ("signature as number", event.leaf(eb, b'[{"keyId":"a:x","sig":1}]'), "/signatures/0/sig"),
        ("signatures as object", event.leaf(eb, b'{"keyId":"a:x","sig":"AQ=="}'), "/signatures"),
        ("65,536 bytes", padded(a, 65536), ""),
        ("bytes of another format", b"\x00\x01\x02", None),
    ]:
        try:
            event.parse_leaf(raw)
            raise AssertionError(f"{rule}: accepted")
        except event.Bad as bad:
            assert path in (None, bad.path), f"{rule}: {bad.path} != {path}"
        reject.append({"rule": rule, "leafBase64": b64(raw)} | ({} if path is None else {"path": path}))

    assert event.pae("text/plain", b"hello") == b"DSSEv1 10 text/plain 5 hello"
    limit = padded(a, 65535)
    event.parse_leaf(limit)
    return {
        "description": "Leaves. keys: Ed25519 seeds that are public, so never use them. pae: DSSE pre-authentication encodings. accept: the "
                       "canonical text of the leaf, RFC 6962 leaf hash, the encoding that is signed, and for each key the place of its first "
                       "good signature, -1 for none. reject: leaf as base64, with the JSON pointer of the fault where it is given. largest: a "
                       "leaf of 65,535 bytes. Rules: docs/spec/record.md.",
        "keys": [{"name": n, "seed": s.hex(), "publicKey": PUBLIC[n].hex(), "keyId": event.key_id(PUBLIC[n])} for n, s in SEEDS.items()],
        "pae": [{"rule": r, "payloadType": t, "payload": p, "pae": event.pae(t, p.encode("utf-8")).decode()} for r, t, p in (
            ("the example of DSSE", "http://example.com/HelloWorld", "hello world"),
            ("plain", "text/plain", "hello"),
            ("no payload", "text/plain", ""),
            ("lengths count bytes", "text/plain", "\u00e9\U0001f600"),
            ("spaces and digits in the payload", "a b", "1 x 2"))],
        "accept": accept, "reject": reject,
        "largest": {"rule": "65,535 bytes", "leafBase64": b64(limit), "leafHash": log.leaf_hash(limit).hex(), "eventId": event_id(a)},
    }


def padded(e, size):
    """A leaf of exactly size bytes, by signatures that mean nothing."""
    sigs = sign(text(e), "event-a") + [("pad:%d" % i, b"\x00" * 768) for i in range(60)]
    for n in range(200):
        for last in range(1, 8192, 3):
            short = size - len(leaf_of(e, sigs + [("pad:" + "x" * (n + 1), b"\x00" * last)]))
            if short == 0:
                return leaf_of(e, sigs + [("pad:" + "x" * (n + 1), b"\x00" * last)])
            if short < 0:
                break
    raise AssertionError(f"no leaf of {size} bytes")
