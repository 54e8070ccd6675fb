"""Counterfoil's formats, written from docs/spec with Python's standard library.

A second implementation: it shares no code with the ledger, makes the vectors
beside this folder and checks them. It is written to be read, not to be fast.

    canonical.py   canonical JSON: strict parser, profiles, writer
    ed25519.py     RFC 8032, sign and verify
    event.py       event, record, leaf, DSSE, subjects
    request.py     the request that sameness is decided on, and its tag
    lifecycle.py   the rules of an attempt
    log.py         RFC 6962 tree, signed note, verifier key, checkpoint, tile paths
    trust.py       trust file
    bundle.py      bundle and its verification
    schema.py      the JSON Schemas of docs/spec/schema
"""
