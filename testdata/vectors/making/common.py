"""What the vectors share: fixed seeds, and events to start from."""
import base64
import copy

from formats import canonical, ed25519, event

# Seeds of Ed25519 keys. They are public: never use them for anything.
SEEDS = {"event-a": b"\x01" * 32, "event-b": b"\x02" * 32, "log": b"\x03" * 32,
         "witness-1": b"\x04" * 32, "witness-2": b"\x05" * 32, "attacker": b"\x06" * 32}
PUBLIC = {name: ed25519.public(seed) for name, seed in SEEDS.items()}
ORIGIN = "ledger.example/log"

TAG = {c: "hmac-sha256:" + c * 64 for c in "abcdef0123456789"}
DIGEST = {c: "sha256:" + c * 64 for c in "abcdef0123456789"}


def b64(b):
    return base64.b64encode(b).decode()


def attempt(invocation="invocation-001", random="00112233445566778899aabbccddee", **change):
    """An attempt event as a dict; members of change replace whole members."""
    e = {
        "schema": event.SCHEMA, "ledger": ORIGIN, "tenant": "default", "revision": 1, "lifecycle": "attempt",
        "subject": {"kind": "tool_action", "id": "external_tool_call"},
        "occurredAt": "2026-07-28T00:00:00.000Z", "capturedAt": "2026-07-28T00:00:00.120Z",
        "source": {"runtimeId": "runtime:any", "agentId": "agent:any", "invocationId": invocation, "protocol": "mcp",
                   "implementation": "external-agent-runtime", "assurance": {"level": "self_asserted", "status": "unverified"}},
        "traceId": "trace-001",
        "action": {"name": "external_tool_call", "effectKind": "org.example/declared-effect", "effectMode": "one_time"},
        "status": "requested", "commitments": {"input": DIGEST["a"]}, "tags": {"request": TAG["b"]},
    }
    e.update(change)
    e = {k: v for k, v in e.items() if v is not None}
    e.setdefault("claimBoundary", event.boundary(e["lifecycle"], e["subject"]["kind"]))
    shard = event.scope(e["tenant"], e["source"]["runtimeId"], e["source"]["invocationId"])[:1].hex()
    e.setdefault("attemptId", "att_" + shard + random)
    return e


def follow(before, first, lifecycle, status, source_event, **change):
    """The event after before, in the attempt that first began."""
    e = copy.deepcopy(first)
    for name in ("commitments", "tags", "reasonCodes", "refs", "statement"):
        e.pop(name, None)
    e.update(revision=before["revision"] + 1, previous="sha256:" + event.digest(text(before)), lifecycle=lifecycle, status=status,
             tags={"request": TAG["c"]}, claimBoundary=event.boundary(lifecycle, first["subject"]["kind"]),
             occurredAt="2026-07-28T00:00:%02d.000Z" % (before["revision"] + 1),
             capturedAt="2026-07-28T00:00:%02d.120Z" % (before["revision"] + 1))
    e["source"]["eventId"] = source_event
    e.update(change)
    return {k: v for k, v in e.items() if v is not None}


def text(e):
    """Canonical bytes."""
    return canonical.write(e).encode("utf-8")


def event_id(e):
    return "evt_" + event.digest(text(e))


def sign(event_bytes, *names, payload_type=event.PAYLOAD_TYPE):
    return [(event.key_id(PUBLIC[n]), ed25519.sign(SEEDS[n], event.pae(payload_type, event_bytes))) for n in names]
