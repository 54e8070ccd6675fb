"""Canonical JSON: docs/spec/event.md, section "Canonical JSON"."""
import re
import sys
from decimal import Decimal, InvalidOperation

MAX_SAFE = 2**53 - 1
sys.setrecursionlimit(max(sys.getrecursionlimit(), 10000))  # 512 levels, a few frames each


class Refused(Exception):
    """A document was refused: reason code, JSON pointer, what was found."""

    def __init__(self, reason, path="", detail=""):
        super().__init__(f"{path or 'document'}: {reason}: {detail}")
        self.reason, self.path, self.detail = reason, path, detail


class Profile:
    def __init__(self, max_bytes, max_depth, floats, noncharacters):
        self.max_bytes, self.max_depth = max_bytes, max_depth
        self.floats, self.noncharacters = floats, noncharacters


RESTRICTED = Profile(32 << 10, 32, floats=False, noncharacters=False)
PRIVATE = Profile(16 << 20, 512, floats=True, noncharacters=True)
PROFILES = {"restricted": RESTRICTED, "private": PRIVATE}

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
SPACE = " \t\n\r"
ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def noncharacter(c):
    return c & 0xFFFE == 0xFFFE or 0xFDD0 <= c <= 0xFDEF


def token(name):
    """One reference token of a JSON pointer (RFC 6901)."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


class Number(str):
    """A number as it was written."""


class Parser:
    """RFC 8259, and nothing beside it. Objects become dicts, numbers Number."""

    def __init__(self, text, profile):
        self.s, self.i, self.p = text, 0, profile

    def fail(self, path, detail, reason="invalid_json"):
        raise Refused(reason, path, f"{detail} at character {self.i}")

    def space(self):
        while self.i < len(self.s) and self.s[self.i] in SPACE:
            self.i += 1

    def peek(self):
        return self.s[self.i] if self.i < len(self.s) else ""

    def document(self):
        self.space()
        v = self.value("", 0)
        self.space()
        if self.i < len(self.s):
            self.fail("", "bytes after the value")
        return v

    def value(self, path, depth):
        c = self.peek()
        if c and c in "{[":
            if depth == self.p.max_depth:
                raise Refused("too_deep", "", f"over {depth} levels")
            return self.object(path, depth) if c == "{" else self.array(path, depth)
        if c == '"':
            return self.string(path)
        for word, v in (("true", True), ("false", False), ("null", None)):
            if self.s.startswith(word, self.i):
                self.i += len(word)
                return v
        m = NUMBER.match(self.s, self.i)
        if not m:
            self.fail(path, "no value")
        self.i = m.end()
        self.number(m, path)
        return Number(m[0])

    def object(self, path, depth):
        out = {}
        self.i += 1
        self.space()
        while self.peek() != "}":
            if out:
                if self.peek() != ",":
                    self.fail(path, "expected , or }")
                self.i += 1
                self.space()
            if self.peek() != '"':
                self.fail(path, "expected a name")
            name = self.string(path, name=True)
            here = path + token(name)
            if not self.p.noncharacters and any(noncharacter(ord(c)) for c in name):
                raise Refused("noncharacter", here, "in a name")
            if name in out:
                raise Refused("duplicate_member", here, "name twice")
            self.space()
            if self.peek() != ":":
                self.fail(here, "expected :")
            self.i += 1
            self.space()
            out[name] = self.value(here, depth + 1)
            self.space()
        self.i += 1
        return out

    def array(self, path, depth):
        out = []
        self.i += 1
        self.space()
        while self.peek() != "]":
            if out:
                if self.peek() != ",":
                    self.fail(path, "expected , or ]")
                self.i += 1
                self.space()
            out.append(self.value(f"{path}/{len(out)}", depth + 1))
            self.space()
        self.i += 1
        return out

    def string(self, path, name=False):
        out = []
        self.i += 1
        while True:
            c = self.peek()
            self.i += 1
            if c == '"':
                break
            if c == "" or c < " ":
                self.fail(path, "string without an end, or a control character in it")
            if c != "\\":
                out.append(c)
                continue
            e = self.peek()
            self.i += 1
            if e in ESCAPES and e:
                out.append(ESCAPES[e])
            elif e == "u":
                out.append(self.unicode(path))
            else:
                self.fail(path, "unknown escape")
        s = "".join(out)
        if not name and not self.p.noncharacters and any(noncharacter(ord(c)) for c in s):
            raise Refused("noncharacter", path, "in a string")
        return s

    def unicode(self, path):
        def four():
            h = self.s[self.i : self.i + 4]
            if not re.fullmatch("[0-9a-fA-F]{4}", h):
                self.fail(path, "\\u needs four hex digits")
            self.i += 4
            return int(h, 16)

        c = four()
        if 0xDC00 <= c <= 0xDFFF:
            self.fail(path, "lone low surrogate", "invalid_utf8")
        if not 0xD800 <= c <= 0xDBFF:
            return chr(c)
        if not self.s.startswith("\\u", self.i):
            self.fail(path, "lone high surrogate", "invalid_utf8")
        self.i += 2
        low = four()
        if not 0xDC00 <= low <= 0xDFFF:
            self.fail(path, "lone high surrogate", "invalid_utf8")
        return chr(0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00))

    def number(self, m, path):
        lit = m[0]
        if m[1] is None and m[2] is None:
            if lit == "-0" and not self.p.floats:
                raise Refused("negative_zero", path, lit)
            if len(lit) > 17 or abs(int(lit)) > MAX_SAFE:
                raise Refused("integer_too_large", path, lit[:40])
            return
        if not self.p.floats:
            raise Refused("float_not_allowed", path, lit[:40])
        f = float(lit)
        try:
            exact = f not in (float("inf"), float("-inf")) and Decimal(lit) == Decimal(repr(f))
        except InvalidOperation:  # an exponent beyond anything: 0e… is zero, the rest is not exact
            exact = f == 0 and not re.search("[1-9]", re.split("[eE]", lit)[0])
        if not exact:
            raise Refused("number_not_exact", path, lit[:40])
        if MAX_SAFE < abs(f) < 1e21:
            raise Refused("integer_too_large", path, lit[:40])


def parse(src, profile):
    """Bytes → value, or Refused."""
    if len(src) > profile.max_bytes:
        raise Refused("too_large", "", f"{len(src)} bytes")
    try:
        text = src.decode("utf-8")
    except UnicodeDecodeError as e:
        raise Refused("invalid_utf8", "", str(e)) from None
    return Parser(text, profile).document()


def number(lit):
    """RFC 8785, section 3.2.2.3: a number as ECMAScript writes its double."""
    if not re.search("[.eE]", lit):
        return "0" if lit == "-0" else lit
    f = float(lit)
    if f == 0:
        return "0"
    sign, digits, exp = Decimal(repr(f)).as_tuple()
    d = "".join(map(str, digits))
    exp += len(d) - len(d.rstrip("0"))
    d = d.rstrip("0")
    n = len(d) + exp  # the value is 0.d × 10^n
    if len(d) <= n <= 21:
        out = d + "0" * (n - len(d))
    elif 0 < n <= 21:
        out = d[:n] + "." + d[n:]
    elif -6 < n <= 0:
        out = "0." + "0" * -n + d
    else:
        e = n - 1
        out = d[0] + ("." + d[1:] if len(d) > 1 else "") + "e" + ("+" if e > 0 else "-") + str(abs(e))
    return ("-" if sign else "") + out


def quote(s):
    out = []
    for c in s:
        out.append(SHORT[c] if c in SHORT else "\\u%04x" % ord(c) if c < " " else c)
    return '"' + "".join(out) + '"'


def write(v):
    """Value → canonical text."""
    if v is True or v is False or v is None:
        return {True: "true", False: "false", None: "null"}[v]
    if isinstance(v, Number):
        return number(v)
    if isinstance(v, int):
        return str(v)
    if isinstance(v, str):
        return quote(v)
    if isinstance(v, list):
        return "[" + ",".join(map(write, v)) + "]"
    names = sorted(v, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join(quote(n) + ":" + write(v[n]) for n in names) + "}"


def canonical(src, profile):
    return write(parse(src, profile)).encode("utf-8")


def check_canonical(src, profile):
    v = parse(src, profile)
    if write(v).encode("utf-8") != src:
        raise Refused("not_canonical", "", "another spelling")
    return v
