#!/usr/bin/env python3
"""Recompute every value of tool_result.json, and compare.

Python's standard library only. Exit status: 0 all equal, 1 a difference, 2 a
file cannot be read.
"""
import base64
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))

from formats import canonical, compare, tool_result  # noqa: E402
from formats.canonical import Refused  # noqa: E402
from formats.event import Bad  # noqa: E402

values = compare.Values()
same, load = values.same, compare.load


def path_of(run):
    try:
        run()
    except (Bad, Refused) as e:
        return e.path
    return "accepted"


def main():
    doc = load("tool_result.json")
    combinations = list(tool_result.COMBINATIONS)
    for i, c in enumerate(doc["accept"]):
        same(c["rule"], "accepted", path_of(lambda: tool_result.parse(c["document"].encode("utf-8"))))
        if i < len(combinations):
            same(c["rule"], c["document"], canonical.write(tool_result.document(combinations[i])))
    for c in doc["reject"]:
        got = path_of(lambda: tool_result.parse(base64.b64decode(c["documentBase64"], validate=True)))
        same(c["rule"], c.get("path", got if got != "accepted" else None), got)
    for s in doc["states"]:
        try:
            got = combinations.index(tool_result.of(s["state"], s["outcome"], s["reversal"], s["inDoubt"], s["told"]))
        except Bad:
            got = None
        same(str(s), s.get("combination"), got)
    return values.end()


if __name__ == "__main__":
    sys.exit(main())
