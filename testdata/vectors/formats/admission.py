"""Admission records: docs/spec/admission.md."""
import hashlib
import json

from . import canonical, ed25519, event

RECORD = canonical.Profile(256 << 10, 32, floats=False, noncharacters=False)
ENTRY = canonical.Profile(1 << 20, 64, floats=True, noncharacters=True)
RECEIPT_TYPE = "application/vnd.counterfoil.archive-receipt.v1+json"
KINDS = {"bytes": "bytes", "pinned_deployment": "deployment", "attested_release": "release", "not_byte_pinnable": "statement"}

PREFIX, SUFFIX = "https://static.modelcontextprotocol.io/schemas/", "/server.schema.json"
SNAKE_VERSION = "2025-07-09"
VERSIONS = (SNAKE_VERSION, "2025-09-16", "2025-09-29", "2025-10-11", "2025-10-17", "2025-12-11")
SPELLINGS = {
    "entry": {"website_url": "websiteUrl"},
    "package": {"registry_type": "registryType", "registry_base_url": "registryBaseUrl", "file_sha256": "fileSha256",
                "runtime_hint": "runtimeHint", "runtime_arguments": "runtimeArguments", "package_arguments": "packageArguments",
                "environment_variables": "environmentVariables"},
    "input": {"is_required": "isRequired", "is_secret": "isSecret", "is_repeated": "isRepeated", "value_hint": "valueHint"},
}


def sha(b):
    return "sha256:" + hashlib.sha256(b).hexdigest()


def write(v):
    """Canonical bytes of a value without floats."""
    return canonical.write(v).encode("utf-8")


def name(record):
    return sha(write(record))


def set_digest(digests):
    s = sorted(set(digests))
    if len(s) < 2:
        return "".join(s)
    return sha(write(s))


def evidence(used, **more):
    """An evidence bundle with its three digests."""
    e = {"schema": "counterfoil.evidence-bundle.v1", **more}
    if used:
        e["used"] = used
        summary = [{k: f[k] for k in ("evidence", "payload", "predicateType", "signer", "signedAt", "provenance") if k in f} for f in used]
        e["signatureBundle"] = set_digest(f["evidence"] for f in used)
        e["provenanceSummary"] = sha(write(summary))
        attestation = set_digest(f["payload"] for f in used if "payload" in f)
        if attestation:
            e["attestation"] = attestation
    return e


def span(snapshot, binding, bundle, decision, retention):
    """The spanning set of four records; snapshot and binding may be None."""
    records = {"evidence_bundle": name(bundle), "policy_decision": name(decision)}
    if snapshot is not None:
        records["registry_snapshot"] = name(snapshot)
    if binding is not None:
        records["artifact_binding"] = name(binding)
    s = snapshot or {"registry": "", "raw": {"digest": ""}, "namespace": {"method": "none", "result": "not_captured"}}
    digests = ((binding or {}).get("bytes") or {}).get("digests")
    return {
        "registry_snapshot": {
            "registry": s["registry"], "server_name": s.get("serverName", ""), "metadata_digest": s["raw"]["digest"],
            "namespace_auth": s["namespace"]["method"] + ":" + s["namespace"]["result"],
        },
        "evidence_bundle": {
            "artifact_digest": "sha256:" + digests["sha256"] if digests else "",
            "signature_bundle_digest": bundle.get("signatureBundle", ""), "attestation_digest": bundle.get("attestation", ""),
            "provenance_summary_digest": bundle.get("provenanceSummary", ""),
        },
        "policy_decision": {
            "policy_digest": decision["policy"]["digest"], "decision": decision["decision"], "reason_codes": decision["reasonCodes"],
            "verifier_version": ",".join(v["id"] + "/" + v["version"] for v in decision.get("verifiers", [])) or "none",
        },
        "retention_class": retention,
        "records": records,
    }


def externals(snapshot, binding, bundle, decision):
    out = set()
    if snapshot is not None:
        out.add(("registry_entry", snapshot["raw"]["digest"], snapshot["registry"]))
    if binding is not None and "bytes" in binding:
        out.add(("artifact", "sha256:" + binding["bytes"]["digests"]["sha256"], binding["locator"]))
    for f in bundle.get("used", []) + bundle.get("others", []):
        out.add(("evidence", f["evidence"], f["locator"]))
    for v in decision.get("verifiers", []):
        for m in v.get("trust", []):
            out.add(("trust_material", m["digest"], m["name"]))
    return [{"class": c, "digest": d, "locator": where} for c, d, where in sorted(out)]


def receipt(records, retention, at, refers=None):
    s = span(*records, retention)
    r = {"schema": "counterfoil.archive-receipt.v1", "kind": "admission", "spanningSet": name(s), "records": s["records"],
         "retentionClass": retention, "externals": externals(*records), "claimBoundary": "archive_receipt_v1", "receivedAt": at}
    if refers:
        r.update(kind="backfill", refers=refers)
    return r


def pae(payload):
    t = RECEIPT_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(t), t, len(payload), payload)


def seal(r, seed):
    import base64
    payload = write(r)
    sigs = [] if seed is None else [{"keyId": event.key_id(ed25519.public(seed)),
                                     "sig": base64.b64encode(ed25519.sign(seed, pae(payload))).decode()}]
    return b'{"receipt":' + payload + b',"signatures":' + write(sigs) + b"}"


def wrong_spelling(entry, snake):
    """Whether a member stands in the spelling of another schema version."""
    def bad(v, where):
        if not isinstance(v, dict):
            return False
        pairs = SPELLINGS[where]
        return any(k in v for k in (pairs.values() if snake else pairs.keys()))

    def items(v, *keys):
        for k in keys:
            x = v.get(k) if isinstance(v, dict) else None
            if isinstance(x, list):
                yield from x

    if bad(entry, "entry"):
        return True
    for p in items(entry, "packages"):
        lists = ("runtimeArguments", "packageArguments", "environmentVariables",
                 "runtime_arguments", "package_arguments", "environment_variables")
        transport = p.get("transport") if isinstance(p, dict) else None
        if bad(p, "package") or any(bad(i, "input") for i in items(p, *lists)) or any(bad(h, "input") for h in items(transport, "headers")):
            return True
    return any(bad(h, "input") for r in items(entry, "remotes") for h in items(r, "headers"))


def normalise(entry):
    """The normalised form, and what refuses the entry: (form, code)."""
    schema = entry.get("$schema", "")
    version = schema[len(PREFIX):-len(SUFFIX)] if schema.startswith(PREFIX) and schema.endswith(SUFFIX) else ""
    if version not in VERSIONS:
        return None, "schema_version_unsupported"
    snake = version == SNAKE_VERSION
    if wrong_spelling(entry, snake):
        return None, "registry_entry_invalid" if snake else "registry_entry_snake_case"

    def pick(v, *names):
        return {n: v[n] for n in names if v.get(n)}

    def field(p, snake_name):
        return p.get(snake_name if snake else SPELLINGS["package"][snake_name])

    out = {"schemaVersion": version, "name": entry["name"], "version": entry["version"]}
    if "repository" in entry:
        out["repository"] = pick(entry["repository"], "url", "source", "id", "subfolder")
    packages = []
    for p in entry.get("packages", []):
        q = {"registryType": field(p, "registry_type"), "registryBaseUrl": field(p, "registry_base_url"),
             "fileSha256": field(p, "file_sha256"), "identifier": p["identifier"], "version": p.get("version"),
             "transport": pick(p["transport"], "type", "url")}
        packages.append({k: v for k, v in q.items() if v})
    if packages:
        out["packages"] = packages
    remotes = [pick(r, "type", "url") for r in entry.get("remotes", [])]
    if remotes:
        out["remotes"] = remotes
    return out, None


def entry_digests(raw):
    """What a snapshot says of an entry that is read, or the code that refuses it."""
    try:
        canonical_bytes = canonical.canonical(raw, ENTRY)
    except canonical.Refused as e:
        return {"code": "registry_entry_duplicate_member" if e.reason == "duplicate_member" else
                "registry_entry_too_large" if e.reason == "too_large" else "registry_entry_invalid_json"}
    form, code = normalise(json.loads(raw))
    if code:
        return {"code": code}
    return {"raw": sha(raw), "canonical": sha(canonical_bytes), "normalised": name(form)}
