#!/usr/bin/env python3
"""Write the vector files from the second implementation in formats/.

    python3 make_vectors.py            all
    python3 make_vectors.py event tlog/policy  some

Expected values never come from the ledger's own code. What is written here is
checked by check_formats.py and check_tlog.py, and against the ledger by internal/vectors.
"""
import importlib
import json
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).parent
FILES = ("canonical_json", "event", "leaf", "request", "lifecycle", "log", "trust", "bundle", "admission", "review", "tool_result", "lease",
         "tlog/verifier_key", "tlog/signed_note", "tlog/checkpoint", "tlog/cosignature", "tlog/add_checkpoint", "tlog/proof", "tlog/policy",
         "tlog/equivocation")


def main():
    for name in sys.argv[1:] or FILES:
        doc = importlib.import_module("making." + name.replace("/", "_")).make()
        (HERE / f"{name}.json").write_text(json.dumps(doc, indent=1, ensure_ascii=True) + "\n", encoding="ascii")
        print(f"{name}.json")


if __name__ == "__main__":
    main()
