"""Policies: C2SP tlog-policy, read to the letter."""
import re

from . import log

MAX_POLICY, MAX_LOGS, MAX_WITNESSES, MAX_GROUPS = 1 << 20, 64, 64, 64


class Bad(Exception):
    """A policy was refused: line from 1, 0 is the policy as a whole."""

    def __init__(self, line, detail):
        super().__init__(f"line {line}: {detail}")
        self.line = line


class Policy:
    """Names are bytes. logs: (key, URL); witnesses: (name, key, URL); groups:
    (name, k, members)."""

    def __init__(self, b):
        self.logs, self.witnesses, self.groups, self.quorum = [], [], [], None
        self.defined, self.members = set(), set()
        if len(b) > MAX_POLICY:
            raise Bad(0, "over 1 MiB")
        *lines, rest = b.split(b"\n")
        for n, line in enumerate(lines + [rest] * bool(rest), 1):
            try:
                if n > len(lines):
                    raise log.Malformed("no newline at the end")
                self.line(line)
            except log.Malformed as e:
                raise Bad(n, e) from None
        if self.quorum is None:
            raise Bad(0, "no quorum line")

    def line(self, line):
        if re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", line):
            raise log.Malformed("control character")
        keyword, *items = [x for x in re.split(rb"[ \t]+", line) if x] or [b"#"]
        if keyword.startswith(b"#"):
            return
        read, least, most = {b"log": (self.log, 1, 2), b"witness": (self.witness, 2, 3), b"group": (self.group, 3, None),
                             b"quorum": (self.set_quorum, 1, 1)}.get(keyword, (None, 0, 0))
        if read is None or len(items) < least or most and len(items) > most:
            raise log.Malformed("unknown keyword or number of items")
        read(*items)

    @staticmethod
    def key(item, kinds, others):
        try:
            k = log.parse_vkey(item.decode("utf-8"))
        except UnicodeDecodeError:
            raise log.Malformed("verifier key") from None
        if k.kind not in kinds:
            raise log.Malformed("type of a verifier key")
        if any(k.public == o.public for o in others):
            raise log.Malformed("duplicate key")
        return k

    def define(self, name):
        if name == b"none" or name in self.defined:
            raise log.Malformed("name")
        self.defined.add(name)

    @staticmethod
    def room(have, most):
        if len(have) == most:
            raise log.Malformed("too many of a kind")

    def log(self, vkey, url=b""):
        k = self.key(vkey, (log.ED25519, log.MLDSA44), [k for k, _ in self.logs])
        self.room(self.logs, MAX_LOGS)
        self.logs.append((k, url))

    def witness(self, name, vkey, url=b""):
        k = self.key(vkey, (log.COSIGNATURE, log.MLDSA44), [k for _, k, _ in self.witnesses])
        self.room(self.witnesses, MAX_WITNESSES)
        self.define(name)
        self.witnesses.append((name, k, url))

    def group(self, name, k, *members):
        if k not in (b"all", b"any"):
            if not re.fullmatch(rb"[1-9][0-9]{0,17}", k) or int(k) > len(members):
                raise log.Malformed("k")
        for m in members:
            if m not in self.defined or m in self.members:
                raise log.Malformed("member")
            self.members.add(m)
        self.room(self.groups, MAX_GROUPS)
        self.define(name)
        self.groups.append((name, {b"all": len(members), b"any": 1}.get(k) or int(k), members))

    def set_quorum(self, name):
        if self.quorum is not None or name != b"none" and name not in self.defined:
            raise log.Malformed("quorum")
        self.quorum = name

    def satisfied(self, cosigned):
        """Whether the quorum is met if the witnesses of these names cosigned."""
        met = {b"none"} | {n for n, _, _ in self.witnesses if n in cosigned}
        for name, k, members in self.groups:
            if sum(m in met for m in members) >= k:
                met.add(name)
        return self.quorum in met

    def judge(self, note):
        """"" if the note is a valid checkpoint under the policy, or why not."""
        try:
            text, sigs = log.parse_note(note)
            origin, _, _, _ = log.parse_checkpoint(text)
        except log.Malformed:
            return "malformed"
        try:
            logs = [k for k, _ in self.logs if log.signed_by(text, sigs, k) and k.name == origin]
            cosigned = {n for n, k, _ in self.witnesses if log.cosigned_at(text, sigs, k)}
        except log.NotVerified:
            return "bad signature"
        if not logs:
            return "no log"
        return "" if self.satisfied(cosigned) else "no quorum"
