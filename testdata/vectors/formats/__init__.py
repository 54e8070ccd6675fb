"""Counterfoil's formats, written from docs/spec with Python's standard library.

A second implementation: it shares no code with the ledger, makes the vectors
beside this folder and checks them. It is written to be read, not to be fast.

    canonical.py   canonical JSON: strict parser, profiles, writer
    ed25519.py     RFC 8032, sign and verify
    event.py       event, record, leaf, DSSE, subjects
    request.py     the request that sameness is decided on, and its tag
    lifecycle.py   the rules of an attempt
    log.py         RFC 6962 tree, signed note, verifier key, checkpoint, cosignature, tile paths
    mldsa.py       FIPS 204, ML-DSA-44, sign and verify
    policy.py      tlog-policy
    tlog_proof.py  tlog-proof
    witness.py     tlog-witness: requests, decisions, answers; equivocation documents
    pieces.py      how bytes stand in the vectors of tlog/
    trust.py       trust file
    bundle.py      bundle and its verification
    schema.py      the JSON Schemas of docs/spec/schema
"""
