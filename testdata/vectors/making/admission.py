"""admission.json"""
import copy
import json

from formats import admission

from .common import DIGEST, PUBLIC, SEEDS, b64

AT = "2026-11-30T12:00:00.000Z"
ENTRY = {
    "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
    "name": "io.github.sigstore/sigstore", "description": "A package with real provenance.", "version": "2.0.0",
    "repository": {"url": "https://github.com/sigstore/sigstore-js", "source": "github"},
    "packages": [{"registryType": "npm", "identifier": "sigstore", "version": "2.0.0", "transport": {"type": "stdio"}}],
}
REMOTE = {k: v for k, v in ENTRY.items() if k != "packages"} | {"remotes": [{"type": "streamable-http", "url": "https://mcp.example/mcp"}]}
OLD = {
    "$schema": "https://static.modelcontextprotocol.io/schemas/2025-07-09/server.schema.json",
    "name": "io.github.example/old", "description": "An old entry.", "version": "0.1.0", "website_url": "https://example.org",
    "packages": [{"registry_type": "mcpb", "identifier": "https://github.com/example/old/releases/old.mcpb", "version": "0.1.0",
                  "file_sha256": "8" * 64, "transport": {"type": "stdio"}, "environment_variables": [{"name": "KEY", "is_secret": True}]}],
}


def raw(entry, indent=None):
    return json.dumps(entry, indent=indent, ensure_ascii=False)


def snapshot(entry, **change):
    text = raw(entry).encode()
    form, _ = admission.normalise(entry)
    d = admission.entry_digests(text)
    s = {"schema": "counterfoil.registry-snapshot.v1", "registry": "file:server.json", "serverName": form["name"], "serverVersion": form["version"],
         "raw": {"digest": d["raw"], "size": len(text)}, "canonical": d["canonical"], "normaliser": "counterfoil.entry.v1",
         "normalised": d["normalised"], "entry": form, "namespace": {"method": "registry_asserted", "result": "asserted"}, "capturedAt": AT}
    s.update(change)
    return s


REFUSED = {"schema": "counterfoil.registry-snapshot.v1", "registry": "https://registry.example", "raw": {"digest": DIGEST["e"], "size": 10485760},
           "normaliser": "counterfoil.entry.v1", "namespace": {"method": "registry_asserted", "result": "asserted"},
           "refused": {"code": "registry_entry_too_large", "detail": "10485760 bytes, limit 1048576"}, "capturedAt": AT}
BYTES = {"schema": "counterfoil.artifact-binding.v1", "kind": "bytes", "packageType": "npm", "identifier": "sigstore", "version": "2.0.0",
         "transport": "stdio", "locator": "https://npm.example/sigstore/-/sigstore-2.0.0.tgz", "retrievedAt": AT,
         "bytes": {"digests": {"sha256": "2" * 64, "sha512": "3" * 128}, "size": 37200, "mediaType": "application/gzip"}}
STATEMENT = {"schema": "counterfoil.artifact-binding.v1", "kind": "not_byte_pinnable", "packageType": "remote", "identifier": "https://mcp.example/mcp",
             "transport": "streamable-http", "locator": "https://mcp.example/mcp", "retrievedAt": AT,
             "statement": {"reason": "the vendor does not publish what runs", "statedBy": "platform security"}}
DEPLOYMENT = {k: v for k, v in STATEMENT.items() if k != "statement"} | {
    "kind": "pinned_deployment", "deployment": {"toolContract": DIGEST["a"], "tlsKey": DIGEST["b"], "discovery": DIGEST["c"]}}
RELEASE = {k: v for k, v in STATEMENT.items() if k != "statement"} | {
    "kind": "attested_release", "release": {"release": "2026.11", "attestation": DIGEST["d"]}}


def finding(c, **change):
    f = {"evidence": DIGEST[c], "locator": f"provenance-{c}.json", "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
         "verifier": "sigstore", "state": "verified", "payload": DIGEST[c], "predicateType": "https://slsa.dev/provenance/v1",
         "subjects": [{"name": "pkg:npm/sigstore@2.0.0", "digests": {"sha512": "3" * 128}}],
         "signer": {"issuer": "https://token.actions.githubusercontent.com",
                    "identity": "https://github.com/sigstore/sigstore-js/.github/workflows/release.yml@refs/heads/main",
                    "sourceRepository": "https://github.com/sigstore/sigstore-js"},
         "signedAt": "2023-08-18T16:05:35.000Z", "provenance": {"builderId": "https://github.com/actions/runner/github-hosted"}}
    f.update(change)
    return {k: v for k, v in f.items() if v is not None}


SIGNATURE = finding("9", payload=None, predicateType=None, subjects=None, provenance=None, signer={"keyId": "mcpb:example"}, signedAt=None, verifier="mcpb")


def decision(bundle, snap, bind, verdict, codes, **change):
    d = {"schema": "counterfoil.policy-decision.v1", "policy": {"id": "example", "version": "1", "digest": DIGEST["6"]}, "class": "privileged",
         "impact": "privileged", "evidence": admission.name(bundle), "decision": verdict, "reasonCodes": codes, "decidedAt": AT,
         "verdicts": [{"gate": "discovery", "id": "entry", "result": "pass"}], "attestationRequired": True,
         "verifiers": [{"id": "mcpb", "version": "1"}, {"id": "sigstore", "version": "1.3.0", "trust": [{"name": "trusted_root", "digest": DIGEST["5"]}]}]}
    if snap is not None:
        d["snapshot"] = admission.name(snap)
    if bind is not None:
        d["binding"] = admission.name(bind)
    d.update(change)
    return {k: v for k, v in d.items() if v is not None}


ADMIT = ["namespace_authenticated", "artifact_digest_bound", "attestation_policy_pass"]


def case(rule, snap, bind, used, verdict, codes, retention="security-evidence-400d", refers=None, seed="event-a", others=(), absent=(), **change):
    more = {}
    if bind is not None:
        more["binding"] = admission.name(bind)
    if others:
        more["others"] = list(others)
    if absent:
        more["absent"] = list(absent)
    bundle = admission.evidence(used, **more)
    d = decision(bundle, snap, bind, verdict, codes, **change)
    records = (snap, bind, bundle, d)
    s = admission.span(*records, retention)
    r = admission.receipt(records, retention, AT, refers)
    out = {"rule": rule}
    for name, record in zip(("snapshot", "binding", "evidence", "decision"), records):
        if record is not None:
            out[name] = {"canonical": admission.write(record).decode(), "digest": admission.name(record)}
    out["spanningSet"] = {"canonical": admission.write(s).decode(), "digest": admission.name(s)}
    out["receipt"] = {"canonical": admission.write(r).decode(), "digest": admission.name(r)}
    out["sealed"] = admission.seal(r, SEEDS[seed] if seed else None).decode()
    return out


def failed(gate, name, *codes):
    return {"verdicts": [{"gate": gate, "id": name, "result": "fail", "codes": list(codes)}]}


def sets():
    snap = snapshot(ENTRY)
    dns = {"method": "dns", "result": "pass", "checked": [{"id": "namespace_dns", "state": "pass"}]}
    return [
        case("admit by provenance", snap, BYTES, [finding("4")], "admit", ADMIT),
        case("two attestations are one set digest", snap, BYTES, [finding("7"), finding("4")][::-1], "admit", ADMIT),
        case("one payload in two files", snap, BYTES, [finding("4"), finding("7", payload=DIGEST["4"])], "admit", ADMIT),
        case("a plain signature beside an attestation", snap, BYTES, [finding("4"), SIGNATURE], "admit", ADMIT),
        case("a class that demands no attestation", snap, BYTES, [], "admit", ADMIT, absent=["attestation", "signature"], impact="low",
             attestationRequired=None, verifiers=None, **{"class": "light"}),
        case("namespace proven by DNS, metadata of the registry", snapshot(ENTRY, registry="https://registry.modelcontextprotocol.io", namespace=dns,
             response={"digest": DIGEST["8"], "status": "active"}), BYTES, [finding("4")], "admit", ADMIT),
        case("a statement instead of bytes", snapshot(REMOTE), STATEMENT, [], "admit",
             ["namespace_authenticated", "artifact_statement_accepted", "attestation_policy_pass"], absent=["attestation", "signature"],
             attestationRequired=None, impact="low"),
        case("a deployment", snapshot(REMOTE), DEPLOYMENT, [], "admit",
             ["namespace_authenticated", "artifact_identity_bound", "attestation_policy_pass"], attestationRequired=None, impact="standard"),
        case("a release", snapshot(REMOTE), RELEASE, [], "admit",
             ["namespace_authenticated", "artifact_identity_bound", "attestation_policy_pass"], attestationRequired=None, impact="standard"),
        case("quarantine keeps what it had", snap, BYTES, [], "quarantine", ["evidence_gap", "attestation_tampered"],
             others=[finding("4", state="failed", code="attestation_tampered", detail="payload edited")],
             missing=[{"evidence": "attestation:provenance", "class": "privileged", "requiredBy": "attestation:provenance", "detail": "an attestation"}],
             **failed("evidence", "attestation:provenance", "evidence_gap", "attestation_tampered")),
        case("no artifact", snap, None, [], "quarantine", ["missing_artifact_binding", "artifact_unresolved"],
             **failed("artifact", "binding", "missing_artifact_binding", "artifact_unresolved")),
        case("an entry that was refused", REFUSED, None, [], "reject", ["registry_entry_too_large"], verifiers=None,
             **failed("discovery", "entry", "registry_entry_too_large")),
        case("no entry at all", None, None, [], "quarantine", ["registry_entry_unavailable"],
             **failed("discovery", "entry", "registry_entry_unavailable")),
        case("a class that the policy does not have", snap, BYTES, [], "quarantine", ["policy_no_match"], impact=None, attestationRequired=None,
             **failed("policy", "class", "policy_no_match")),
        case("backfill", snap, BYTES, [], "admit", ADMIT, refers="contract:docs-helper@3", absent=["attestation", "signature"],
             attestationRequired=None, impact="low"),
        case("unsigned, where no signer is configured", snap, BYTES, [finding("4")], "admit", ADMIT, seed=None),
        case("another retention class", snap, BYTES, [finding("4")], "admit", ADMIT, retention="security-evidence-7y"),
    ]


def without(record, *path):
    d = copy.deepcopy(record)
    at = d
    for p in path[:-1]:
        at = at[p]
    del at[path[-1]]
    return d


def changed(record, value, *path):
    d = copy.deepcopy(record)
    at = d
    for p in path[:-1]:
        at = at[p]
    at[path[-1]] = value
    return d


def rejects():
    snap, bundle = snapshot(ENTRY), admission.evidence([finding("4")], binding=admission.name(BYTES))
    d = decision(bundle, snap, BYTES, "admit", ADMIT)
    r = admission.receipt((snap, BYTES, bundle, d), "security-evidence-400d", AT)
    cases = [
        ("snapshot", "no registry", without(snap, "registry"), "/registry"),
        ("snapshot", "no server name", without(snap, "serverName"), "/serverName"),
        ("snapshot", "no metadata digest", without(snap, "raw", "digest"), "/raw/digest"),
        ("snapshot", "no namespace authentication", without(snap, "namespace"), "/namespace/method"),
        ("snapshot", "the registry's word is no pass", changed(snap, "pass", "namespace", "result"), "/namespace/result"),
        ("snapshot", "normalised digest of another entry", changed(snap, DIGEST["a"], "normalised"), "/normalised"),
        ("snapshot", "upper-case hex", changed(snap, snap["canonical"].upper().replace("SHA256", "sha256"), "canonical"), "/canonical"),
        ("snapshot", "time without milliseconds", changed(snap, "2026-11-30T12:00:00Z", "capturedAt"), "/capturedAt"),
        ("snapshot", "another schema", changed(snap, "counterfoil.registry-snapshot.v2", "schema"), "/schema"),
        ("snapshot", "refused, with an entry", snap | {"refused": REFUSED["refused"]}, "/refused"),
        ("binding", "no package type", without(BYTES, "packageType"), "/packageType"),
        ("binding", "no locator", without(BYTES, "locator"), "/locator"),
        ("binding", "no digest", without(BYTES, "bytes", "digests", "sha256"), "/bytes/digests/sha256"),
        ("binding", "a version in place of a digest", changed(BYTES, "2.0.0", "bytes", "digests", "sha256"), "/bytes/digests/sha256"),
        ("binding", "no retrieval time", without(BYTES, "retrievedAt"), "/retrievedAt"),
        ("binding", "kind without its member", without(BYTES, "bytes"), "/bytes"),
        ("binding", "member of another kind", BYTES | {"statement": STATEMENT["statement"]}, "/statement"),
        ("binding", "an algorithm that binds nothing", changed(BYTES, "4" * 40, "bytes", "digests", "sha1"), "/bytes/digests"),
        ("evidence", "attestation of something else", changed(bundle, DIGEST["a"], "attestation"), "/attestation"),
        ("evidence", "no attestation though one is used", without(bundle, "attestation"), "/attestation"),
        ("evidence", "a failed finding is used", changed(bundle, "failed", "used", 0, "state"), "/used/0/code"),
        ("evidence", "nobody signed", without(bundle, "used", 0, "signer"), "/used/0/signer"),
        ("decision", "allow is no decision", changed(d, "allow", "decision"), "/decision"),
        ("decision", "no reason codes", changed(d, [], "reasonCodes"), "/reasonCodes"),
        ("decision", "a code in another spelling", changed(d, ["namespace-authenticated"], "reasonCodes"), "/reasonCodes/0"),
        ("decision", "an admit for a bad reason", changed(d, ["evidence_gap"], "reasonCodes"), "/reasonCodes/0"),
        ("decision", "no policy digest", without(d, "policy", "digest"), "/policy/digest"),
        ("decision", "no verifier version", without(d, "verifiers", 0, "version"), "/verifiers/0/version"),
        ("decision", "a failed verdict in an admit", changed(d, {"gate": "policy", "id": "rule:x", "result": "fail", "codes": ["policy_rule_failed"]},
         "verdicts", 0), "/verdicts/0/result"),
        ("receipt", "no retention class", without(r, "retentionClass"), "/retentionClass"),
        ("receipt", "no time", without(r, "receivedAt"), "/receivedAt"),
        ("receipt", "a stronger claim", changed(r, "safe_v1", "claimBoundary"), "/claimBoundary"),
        ("receipt", "externals out of order", changed(r, r["externals"][::-1], "externals"), "/externals/1"),
        ("receipt", "a backfill of nothing", changed(r, "backfill", "kind"), "/refers"),
    ]
    out = [{"record": record, "rule": rule, "input": admission.write(v).decode(), "path": path} for record, rule, v, path in cases]
    for record, v in (("snapshot", snap), ("binding", BYTES), ("evidence", bundle), ("decision", d), ("receipt", r)):
        text = admission.write(v).decode()
        out += [
            {"record": record, "rule": "white space", "input": text.replace(":", ": ", 1)},
            {"record": record, "rule": "unknown member", "input": '{"aaa":1,' + text[1:]},
            {"record": record, "rule": "members out of order", "input": json.dumps(dict(reversed(v.items())), separators=(",", ":"))},
            {"record": record, "rule": "an empty member written out", "input": admission.write(v | {"zzz": None}).decode()},
        ]
    return out


def entries():
    cases = [
        ("current schema", raw(ENTRY)), ("layout changes the raw digest alone", raw(ENTRY, 2)), ("a remote", raw(REMOTE)),
        ("oldest schema, in snake_case", raw(OLD)),
        ("floats in _meta", raw(ENTRY | {"_meta": {"io.example/score": 0.5}})),
        ("publishers spell as they like", raw(ENTRY | {"_meta": {"io.example/x": {"registry_type": 1}}})),
        ("snake_case under the current schema", raw(changed(ENTRY, "x", "packages", 0, "file_sha256"))),
        ("snake_case of a secret", raw(changed(ENTRY, [{"name": "K", "is_secret": True}], "packages", 0, "environmentVariables"))),
        ("camelCase under the oldest schema", raw(changed(OLD, "x", "packages", 0, "fileSha256"))),
        ("unknown schema version", raw(ENTRY).replace("2025-12-11", "2026-05-01")),
        ("no schema", raw(without(ENTRY, "$schema"))),
        ("a member twice", raw(ENTRY).replace('"name":', '"name": "io.github.mallory/x", "name":', 1)),
        ("a member twice, once in escapes", raw(ENTRY).replace('"name":', '"n\\u0061me": "io.github.mallory/x", "name":', 1)),
        ("trailing bytes", raw(ENTRY) + "{}"),
    ]
    return [{"rule": rule, "input": text} | admission.entry_digests(text.encode()) for rule, text in cases]


POLICY = {
    "schema": "counterfoil.policy.v1", "id": "vector", "version": "1", "description": "Überall gilt: \u00e4 \U0001f600.",
    "retention": {"kept-30d": {"kind": "security_evidence", "days": 30}},
    "classes": {"low": {"impact": "low", "readsSecrets": False,
                        "minimum": {"namespace": ["registry_asserted", "dns"], "bindings": ["bytes"], "attestations": "none"},
                        "quarantine": {"calls": "refuse", "retries": 0, "reviewWithinHours": 72}, "retention": "kept-30d"}},
    "rules": [{"id": "named", "classes": ["all"], "require": 'server.name.startsWith("io.github.")'}],
}
POLICY_YAML = '''# Comments and layout do not count.
schema: counterfoil.policy.v1
id: vector
version: "1"
description: "\\u00dcberall gilt: \u00e4 \\U0001F600."
rules:
  - id: named
    classes: [all]
    require: >-
      server.name.startsWith("io.github.")
retention: {kept-30d: {days: 30, kind: security_evidence}}
classes:
  low:
    impact: low
    readsSecrets: false
    minimum:
      namespace:
        - registry_asserted
        - 'dns'
      bindings: [bytes]
      attestations: none
    quarantine: {calls: refuse, retries: 0, reviewWithinHours: 72}
    retention: kept-30d
'''


def make():
    return {
        "description": "Records, spanning sets, receipts, registry entries and policies of docs/spec/admission.md and docs/policy.md. "
                       "The seed of the key is public.",
        "publicKey": b64(PUBLIC["event-a"]),
        "setDigest": [{"rule": rule, "digests": ds, "digest": admission.set_digest(ds)} for rule, ds in (
            ("none", []), ("one is itself", [DIGEST["a"]]), ("twice is once", [DIGEST["a"], DIGEST["a"]]),
            ("sorted", [DIGEST["b"], DIGEST["a"]]), ("three", [DIGEST["c"], DIGEST["a"], DIGEST["b"]]))],
        "sets": sets(), "reject": rejects(), "entries": entries(),
        "policies": [{"rule": "canonical form of a policy", "yaml": POLICY_YAML, "canonical": admission.write(POLICY).decode(), "digest": admission.name(POLICY)}],
    }
