"""ML-DSA-44 (FIPS 204). Slow and not constant-time: for vectors, not for secrets.

Signing is the deterministic variant: the random input is 32 zero bytes.
"""
import functools
import hashlib

Q, D, TAU, GAMMA1, GAMMA2, K, L, ETA, OMEGA = 8380417, 13, 39, 1 << 17, 8380416 // 88, 4, 4, 2, 80
BETA, C_TILDE, N = TAU * ETA, 32, 256
PUBLIC_BYTES, SIGNATURE_BYTES = 1312, 2420


def shake(length, *parts):
    return hashlib.shake_256(b"".join(parts)).digest(length)


# --- polynomials -----------------------------------------------------------


ZETAS = [pow(1753, int(f"{i:08b}"[::-1], 2), Q) for i in range(N)]


def ntt(p):
    w, m, length = list(p), 0, 128
    while length:
        for start in range(0, N, 2 * length):
            m += 1
            z = ZETAS[m]
            for j in range(start, start + length):
                t = z * w[j + length] % Q
                w[j + length] = (w[j] - t) % Q
                w[j] = (w[j] + t) % Q
        length //= 2
    return w


def from_ntt(p):
    w, m, length = list(p), N, 1
    while length < N:
        for start in range(0, N, 2 * length):
            m -= 1
            z = Q - ZETAS[m]
            for j in range(start, start + length):
                t = w[j]
                w[j] = (t + w[j + length]) % Q
                w[j + length] = z * (t - w[j + length]) % Q
        length *= 2
    f = pow(N, Q - 2, Q)
    return [x * f % Q for x in w]


def plus(a, b):
    return [(x + y) % Q for x, y in zip(a, b)]


def minus(a, b):
    return [(x - y) % Q for x, y in zip(a, b)]


def times(a, b):
    return [x * y % Q for x, y in zip(a, b)]


def apply(matrix, vector):
    """Matrix times vector, both transformed."""
    return [functools.reduce(plus, map(times, row, vector)) for row in matrix]


def centred(x, m=Q):
    x %= m
    return x - m if x > m // 2 else x


def norm(vector):
    return max(abs(centred(x)) for p in vector for x in p)


# --- bits ------------------------------------------------------------------


def pack(p, bits):
    return sum(x << (bits * i) for i, x in enumerate(p)).to_bytes(32 * bits, "little")


def unpack(b, bits):
    n, mask = int.from_bytes(b, "little"), (1 << bits) - 1
    return [n >> (bits * i) & mask for i in range(N)]


def pieces(b, size):
    return [b[i:i + size] for i in range(0, len(b), size)]


def pack_hint(h):
    places, ends = [], []
    for p in h:
        places += [i for i, bit in enumerate(p) if bit]
        ends.append(len(places))
    return bytes(places + [0] * (OMEGA - len(places)) + ends)


def unpack_hint(b):
    """None unless it is the one spelling of a hint."""
    h, at = [], 0
    for end in b[OMEGA:]:
        places = list(b[at:end])
        if not at <= end <= OMEGA or places != sorted(set(places)):
            return None
        h.append([1 if i in places else 0 for i in range(N)])
        at = end
    return None if any(b[at:OMEGA]) else h


# --- sampling --------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def expand_a(rho):
    def entry(r, s):
        b, out, at = hashlib.shake_128(rho + bytes([s, r])).digest(6 * N), [], 0
        while len(out) < N:  # 512 candidates, of which one in a thousand fails
            x = int.from_bytes(b[at:at + 3], "little") & 0x7FFFFF
            at += 3
            if x < Q:
                out.append(x)
        return out
    return [[entry(r, s) for s in range(L)] for r in range(K)]


def expand_s(seed):
    def poly(r):
        b = shake(4 * N, seed, r.to_bytes(2, "little"))
        small = [x for byte in b for x in (byte & 15, byte >> 4) if x < 15]
        return [(ETA - x % 5) % Q for x in small[:N]]
    return [poly(r) for r in range(L)], [poly(L + r) for r in range(K)]


def in_ball(c_tilde):
    b, c, at = shake(1024, c_tilde), [0] * N, 8
    signs = int.from_bytes(b[:8], "little")
    for i in range(N - TAU, N):
        while b[at] > i:
            at += 1
        j = b[at]
        at += 1
        c[i], c[j] = c[j], (Q - 1 if signs & 1 else 1)
        signs >>= 1
    return c


# --- rounding --------------------------------------------------------------


def decompose(x):
    x %= Q
    low = centred(x, 2 * GAMMA2)
    return (0, low - 1) if x - low == Q - 1 else ((x - low) // (2 * GAMMA2), low)


def use_hint(bit, x):
    high, low = decompose(x)
    return high if not bit else (high + (1 if low > 0 else -1)) % 44


# --- the scheme ------------------------------------------------------------


def keys(seed):
    b = shake(128, seed, bytes([K, L]))
    rho, (s1, s2) = b[:32], expand_s(b[32:96])
    t = [plus(from_ntt(x), e) for x, e in zip(apply(expand_a(rho), list(map(ntt, s1))), s2)]
    low = [[centred(x, 1 << D) for x in p] for p in t]
    high = [[(x - y) >> D for x, y in zip(p, q)] for p, q in zip(t, low)]
    return rho + b"".join(pack(p, 10) for p in high), b[96:], s1, s2, low


@functools.lru_cache(maxsize=64)
def public(seed):
    return keys(seed)[0]


def message(msg, context):
    return bytes([0, len(context)]) + context + msg


def sign(seed, msg, context=b""):
    pub, key, s1, s2, t0 = keys(seed)
    a, s1, s2, t0 = expand_a(pub[:32]), list(map(ntt, s1)), list(map(ntt, s2)), list(map(ntt, t0))
    mu = shake(64, shake(64, pub), message(msg, context))
    seed2, kappa = shake(64, key, bytes(32), mu), 0
    while True:
        y = [[(GAMMA1 - x) % Q for x in unpack(shake(576, seed2, (kappa + r).to_bytes(2, "little")), 18)] for r in range(L)]
        kappa += L
        w = list(map(from_ntt, apply(a, list(map(ntt, y)))))
        c_tilde = shake(C_TILDE, mu, *[pack([decompose(x)[0] for x in p], 6) for p in w])
        c = ntt(in_ball(c_tilde))
        z = [plus(p, from_ntt(times(c, s))) for p, s in zip(y, s1)]
        rest = [minus(p, from_ntt(times(c, s))) for p, s in zip(w, s2)]
        if norm(z) >= GAMMA1 - BETA or norm([[decompose(x)[1] for x in p] for p in rest]) >= GAMMA2 - BETA:
            continue
        ct0 = [from_ntt(times(c, t)) for t in t0]
        h = [[int(decompose(x)[0] != decompose(x + y)[0]) for x, y in zip(p, q)] for p, q in zip(rest, ct0)]
        if norm(ct0) < GAMMA2 and sum(map(sum, h)) <= OMEGA:
            return c_tilde + b"".join(pack([GAMMA1 - centred(x) for x in p], 18) for p in z) + pack_hint(h)


def verify(pub, msg, sig, context=b""):
    if len(pub) != PUBLIC_BYTES or len(sig) != SIGNATURE_BYTES:
        return False
    c_tilde, h = sig[:C_TILDE], unpack_hint(sig[C_TILDE + 576 * L:])
    z = [[(GAMMA1 - x) % Q for x in unpack(p, 18)] for p in pieces(sig[C_TILDE:C_TILDE + 576 * L], 576)]
    if h is None or norm(z) >= GAMMA1 - BETA:
        return False
    mu = shake(64, shake(64, pub), message(msg, context))
    c = ntt(in_ball(c_tilde))
    t1 = [ntt([x << D for x in unpack(p, 10)]) for p in pieces(pub[32:], 320)]
    w = [from_ntt(minus(p, times(c, t))) for p, t in zip(apply(expand_a(pub[:32]), list(map(ntt, z))), t1)]
    high = [pack([use_hint(b, x) for b, x in zip(bits, p)], 6) for bits, p in zip(h, w)]
    return c_tilde == shake(C_TILDE, mu, *high)
