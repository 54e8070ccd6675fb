"""Counting what a script recomputes, and showing what differs from the files."""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent.parent


class Values:
    """The values that were compared."""

    def __init__(self):
        self.done = self.bad = 0

    def same(self, what, want, got):
        """Compare a value of a file with the computed one."""
        self.done += 1
        if want != got:
            self.bad += 1
            print(f"{what}\n  file:     {str(want)[:300]}\n  computed: {str(got)[:300]}")

    def end(self):
        """Print the count; the exit status."""
        print(f"{self.done} values, {self.bad} wrong")
        return 1 if self.bad else 0


def load(name):
    """Read a file of vectors, or end with exit status 2."""
    try:
        return json.loads((HERE / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        print(e)
        sys.exit(2)
