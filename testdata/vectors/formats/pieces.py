"""Bytes in the vectors of tlog/: a list of pieces, joined.

    "text"                          its UTF-8 bytes
    {"base64": "…"}                 bytes that are no text
    {"repeat": "text", "times": n}  the text n times
    {"use": "name"}                 the text of that name in the file's "parts"
"""
import base64
import re


class Repeat:
    def __init__(self, text, times):
        self.text, self.times = text, times


def flat(items):
    return [y for x in items for y in flat(x)] if isinstance(items, (list, tuple)) else [items]


def raw(items):
    """Items of a maker (str, bytes, Repeat, lists of them) → bytes."""
    out = b""
    for x in flat(items):
        out += x if isinstance(x, bytes) else (x.text * x.times if isinstance(x, Repeat) else x).encode("utf-8")
    return out


def write(items, parts=None):
    """Items of a maker → pieces."""
    out = []
    for x in flat(items):
        if isinstance(x, Repeat):
            out.append({"repeat": x.text, "times": x.times})
            continue
        if isinstance(x, bytes):
            try:
                x = x.decode("utf-8")
            except UnicodeDecodeError:
                out.append({"base64": base64.b64encode(x).decode()})
                continue
        names = {text: name for name, text in (parts or {}).items()}
        for piece in re.split("(" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + ")", x) if names else [x]:
            if piece in names:
                out.append({"use": names[piece]})
            elif piece and out and isinstance(out[-1], str):
                out[-1] += piece
            elif piece:
                out.append(piece)
    return out


def read(pieces, parts=None):
    """Pieces → bytes."""
    out = []
    for x in pieces:
        if isinstance(x, str):
            out.append(x.encode("utf-8"))
        elif "base64" in x:
            out.append(base64.b64decode(x["base64"], validate=True))
        elif "use" in x:
            out.append(parts[x["use"]].encode("utf-8"))
        else:
            out.append((x["repeat"] * x["times"]).encode("utf-8"))
    return b"".join(out)
