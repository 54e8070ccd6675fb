"""lease.json: the record of which node signs, docs/spec/lease.md."""
from formats import ed25519, lease, log
from formats.event import Bad

from .common import ORIGIN, PUBLIC, SEEDS, b64

LEAVES = [log.leaf_hash(b"leaf %d" % i) for i in range(12)]
OTHER = LEAVES[:5] + [log.leaf_hash(b"another leaf")] + LEAVES[6:]
KEY = log.VKey(ORIGIN, 1, PUBLIC["log"])


def tree(size, leaves=LEAVES):
    return size, log.root(leaves[:size]) if size else lease.EMPTY


def sign(text):
    return (text + "\n" + log.note_line(KEY, ed25519.sign(SEEDS["log"], text.encode()))).encode()


def note(size, leaves=LEAVES, origin=ORIGIN):
    return sign(log.checkpoint(origin, *tree(size, leaves)))


def record(**change):
    r = {"origin": ORIGIN, "epoch": 7, "node": "node-a", "instance": "0f" * 16, "beat": 12, "guard": tree(9),
         "checkpoint": note(9), "witnessed": note(5)}
    r.update(change)
    return r


def accepted():
    yield "nobody holds the lease, nothing is published", record(node="", instance="", guard=tree(0), checkpoint=None, witnessed=None, epoch=1, beat=1)
    yield "reserved and not published", record(checkpoint=None, witnessed=None)
    yield "published is a beginning of what is reserved", record(checkpoint=note(8), witnessed=None)
    yield "all members", record()
    yield "the tree of no leaves is published", record(guard=tree(3), checkpoint=note(0), witnessed=note(0))
    yield "the largest counts and the longest name", record(epoch=lease.MAX_COUNT, beat=lease.MAX_COUNT, node="n" * 64)


def rejected():
    good = lease.spell(record()).decode()

    def change(old, new):
        assert old in good, old
        return good.replace(old, new, 1).encode()
    yield "no document", b""
    yield "no line feed at the end", good[:-1].encode()
    yield "two documents", (good + good).encode()
    yield "a blank", change(":7,", ": 7,")
    yield "another version", change('"version":1', '"version":2')
    yield "no version", change('"version":1,', "")
    yield "a member that does not exist", change('"beat"', '"more":1,"beat"')
    yield "a member twice", change('"beat"', '"epoch":7,"beat"')
    yield "another order", change('"epoch":7,"node":"node-a"', '"node":"node-a","epoch":7')
    yield "an escape that is not needed", change("node-a", "node-\\u0061")
    yield "a count with a fraction", change('"beat":12', '"beat":12.0')
    yield "a count as a string", change('"beat":12', '"beat":"12"')
    yield "an empty note", change('"witnessed":"' + b64(note(5)) + '"', '"witnessed":""')
    yield "base64 without padding", change('="},"checkpoint"', '"},"checkpoint"')
    yield "too long", b" " * lease.MAX_RECORD + good.encode()
    for rule, r in (
            ("no origin", record(origin="", checkpoint=None, witnessed=None)),
            ("epoch 0", record(epoch=0)),
            ("beat 0", record(beat=0)),
            ("an epoch over 2^53-1", record(epoch=lease.MAX_COUNT + 1)),
            ("a node without instance", record(instance="")),
            ("an instance without node", record(node="")),
            ("a node name with a blank", record(node="node a")),
            ("a node name of 65 bytes", record(node="n" * 65)),
            ("an instance in capitals", record(instance="0F" * 16)),
            ("an instance of 30 digits", record(instance="0f" * 15)),
            ("no leaves with a root", record(guard=(0, LEAVES[0]), checkpoint=None, witnessed=None)),
            ("published beyond what is reserved", record(checkpoint=note(10))),
            ("published is another tree of the reserved size", record(checkpoint=note(9, OTHER))),
            ("published by another log", record(checkpoint=note(9, origin="ledger.example/other"))),
            ("published with an extension line", record(checkpoint=sign(log.checkpoint(ORIGIN, *tree(9)) + "more\n"))),
            ("published is no note", record(checkpoint=b"text\n")),
            ("cosigned and not published", record(checkpoint=None)),
            ("cosigned beyond what is published", record(checkpoint=note(5), witnessed=note(9))),
            ("cosigned is another tree of the published size", record(witnessed=note(9, OTHER)))):
        yield rule, lease.spell(r)


def make():
    accept, reject = [], []
    for rule, r in accepted():
        data = lease.spell(r)
        assert lease.parse(data) == {k: v for k, v in r.items() if v is not None}, rule
        accept.append({"rule": rule, "record": data.decode()})
    for rule, data in rejected():
        try:
            lease.parse(data)
        except Bad:
            case = {"rule": rule, "recordBase64": b64(data.lstrip(b" "))}
            if len(data) > lease.MAX_RECORD:
                case["blanks"] = lease.MAX_RECORD
            reject.append(case)
        else:
            raise AssertionError(rule)
    return {"description": "Records of which node signs. blanks is how many spaces stand before a record. Rules: docs/spec/lease.md.", "accept": accept, "reject": reject}
