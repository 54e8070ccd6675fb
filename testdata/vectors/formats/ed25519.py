"""Ed25519 (RFC 8032). Slow and not constant-time: for vectors, not for secrets."""
import hashlib

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def recover(y, sign):
    if y >= P:
        return None
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * ROOT % P
    if (x * x - x2) % P or (x == 0 and sign):
        return None
    return P - x if x & 1 != sign else x


def add(a, b):
    (x1, y1, z1, t1), (x2, y2, z2, t2) = a, b
    e, f = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    g, h = 2 * t1 * t2 * D % P, 2 * z1 * z2 % P
    i, j, k, m = f - e, h - g, h + g, f + e
    return i * j % P, k * m % P, j * k % P, i * m % P


def mul(n, a):
    out = (0, 1, 1, 0)
    while n:
        if n & 1:
            out = add(out, a)
        a, n = add(a, a), n >> 1
    return out


BY = 4 * pow(5, P - 2, P) % P
BX = recover(BY, 0)
BASE = (BX, BY, 1, BX * BY % P)


def encode(a):
    inv = pow(a[2], P - 2, P)
    x, y = a[0] * inv % P, a[1] * inv % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def decode(b):
    n = int.from_bytes(b, "little")
    y, sign = n & (2**255 - 1), n >> 255
    x = recover(y, sign)
    return None if x is None else (x, y, 1, x * y % P)


def num(b):
    return int.from_bytes(b, "little")


def expand(seed):
    h = hashlib.sha512(seed).digest()
    a = num(h[:32]) & (2**254 - 8) | 2**254
    return a, h[32:]


def public(seed):
    return encode(mul(expand(seed)[0], BASE))


# What goes before everything that Ed25519ph hashes: flag 1, an empty context.
PREHASHED = b"SigEd25519 no Ed25519 collisions" + bytes([1, 0])


def sign(seed, msg, dom=b""):
    a, prefix = expand(seed)
    pub = encode(mul(a, BASE))
    r = num(hashlib.sha512(dom + prefix + msg).digest()) % L
    rb = encode(mul(r, BASE))
    k = num(hashlib.sha512(dom + rb + pub + msg).digest()) % L
    return rb + ((r + k * a) % L).to_bytes(32, "little")


def sign_ph(seed, msg):
    return sign(seed, hashlib.sha512(msg).digest(), PREHASHED)


def verify(pub, msg, sig, dom=b""):
    if len(pub) != 32 or len(sig) != 64:
        return False
    a, s = decode(pub), num(sig[32:])
    if a is None or s >= L:
        return False
    k = num(hashlib.sha512(dom + sig[:32] + pub + msg).digest()) % L
    minus = (P - a[0], a[1], 1, (P - a[0]) * a[1] % P)
    return encode(add(mul(s, BASE), mul(k, minus))) == sig[:32]


def verify_ph(pub, msg, sig):
    return verify(pub, hashlib.sha512(msg).digest(), sig, PREHASHED)
