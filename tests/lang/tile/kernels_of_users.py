"""Kernels as users write them, for both front ends: the module is loaded once with each.

`front_end` gives `ct`; a case is (kernel, its arguments, what NumPy says of the last one).
"""

# Kernels show what the language admits, so style rules of Python do not hold for them.
# ruff: noqa: ARG001, ARG005, E731, RUF005, RUF021, SIM108, SIM201

import math
from dataclasses import dataclass, replace

import numpy as np
from front_end import ct

RNG = np.random.default_rng(1)
CASES = []


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*shape, low=-50, high=50):
    return RNG.integers(low, high, shape).astype(np.int32)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def case(arguments, expected, grid=(1,), out=-1):
    """Registers a kernel: what it is called with, and what argument `out` is then."""

    def register(kernel):
        CASES.append((kernel, arguments, expected, grid, out))
        return kernel

    return register


@case(
    lambda: [floats(10, 12), zeros(4, 8)],
    lambda a, o: np.pad(a[2:6, 6:12], ((0, 0), (0, 2)), constant_values=np.inf),
)
@ct.kernel
def tv_steps(a, o):
    tv = a.tiled_view((4, 8), padding_mode=ct.PaddingMode.POS_INF, traversal_steps=(2, 6))
    ot = o.tiled_view((4, 8))
    ot.store((0, 0), tv.load((1, 1)))


@case(lambda: [floats(10, 12), zeros(4, dtype=np.int32)], lambda a, o: [2, 2, 3, 6])
@ct.kernel
def tv_num(a, o):
    tv = a.tiled_view((8, 8))
    tv2 = a.tiled_view((8, 8), traversal_steps=(4, 2))
    o2 = o.tiled_view(1)
    o2.store(0, ct.full((1,), tv.num_tiles(0), ct.int32))
    o2.store(1, ct.full((1,), tv.num_tiles(1), ct.int32))
    o2.store(2, ct.full((1,), tv2.num_tiles(0), ct.int32))
    o2.store(3, ct.full((1,), tv2.num_tiles(1), ct.int32))


@case(
    lambda: [ints(16), zeros(16, dtype=np.int32)], lambda a, o: np.maximum.accumulate(a[::-1])[::-1]
)
@ct.kernel
def scan_rev(a, o):
    x = ct.load(a, 0, 16)
    ct.store(o, 0, ct.scan(x, 0, lambda p, q: max(p, q), -(2**31), reverse=True))


@case(
    lambda: [floats(8, 4), zeros(8), zeros(8, dtype=np.int32)],
    lambda a, o, p: a.argmax(1).astype(np.int32),
)
@ct.kernel
def reduce_tuple(a, o, p):
    x = ct.load(a, (0, 0), (8, 4))
    idx = ct.broadcast_to(ct.arange(4, dtype=ct.int32)[None, :], (8, 4))

    def better(v0, i0, v1, i1):
        take = v0 > v1
        return ct.where(take, v0, v1), ct.where(take, i0, i1)

    m, at = ct.reduce((x, idx), 1, better, (-math.inf, 0))
    ct.store(o, 0, m)
    ct.store(p, 0, at)


@case(lambda: [floats(4, 16), zeros(4)], lambda a, o: (a * a).sum(1))
@ct.kernel
def reduce_closure(a, o):
    x = ct.load(a, (0, 0), (4, 16))
    sq = lambda t: t * t
    total = ct.reduce(sq(x), axis=-1, func=lambda u, v: u + v, identity=0.0)
    ct.store(o, 0, total)


@case(
    lambda: [ints(64, low=0, high=8), zeros(8, dtype=np.int32)],
    lambda a, o: np.bincount(a, minlength=8),
    grid=(4,),
)
@ct.kernel
def histogram(a, o):
    x = ct.load(a, ct.bid(0), 16)
    ct.atomic_add(o, x, 1)


@case(
    lambda: [ints(64, low=0, high=8), zeros(8, dtype=np.int32)],
    lambda a, o: np.bincount(a, minlength=8),
    grid=(4,),
)
@ct.kernel
def cas_add(a, o):
    x = ct.load(a, ct.bid(0), 16)
    for k in range(8):
        n = ct.sum(ct.where(x == k, 1, 0))
        old = ct.gather(o, k)
        done = False
        while not done:
            seen = ct.atomic_cas(o, k, old, old + n)
            done = seen == old
            old = seen


@dataclass(frozen=True)
class Cfg:
    m: int
    n: int
    scale: float = 2.0

    def area(self):
        return self.m * self.n

    @property
    def half(self):
        return self.scale / 2


@case(lambda: [floats(4, 8), zeros(4, 8)], lambda a, o: a * 2 + 33)
@ct.kernel
def dataclasses_(a, o):
    c = Cfg(4, 8)
    d = replace(c, scale=3.0)
    x = ct.load(a, (0, 0), (c.m, c.n))
    ct.store(o, (0, 0), x * c.scale + c.area() + (d.scale - c.scale))


@case(
    lambda: [floats(32), zeros(32)],
    lambda a, o: np.r_[np.zeros(8), a[8:16] * 2, a[16:24], a[24:]],
    grid=(4,),
)
@ct.kernel
def early(a, o):
    b = ct.bid(0)
    if b == 0:
        return
    x = ct.load(a, b, 8)
    if b == 1:
        ct.store(o, b, x * 2)
        return
    ct.store(o, b, x)


@case(lambda: [floats(16), zeros(16)], lambda a, o: (a + 1) * 3 - 1)
@ct.kernel
def nested(a, o):
    k = 3

    def outer(x, fn=lambda v: v):
        def inner(y, *more, **kw):
            for m in ct.static_iter(more):
                y = y * m
            return y - kw["sub"]

        return inner(fn(x), k, sub=1)

    ct.store(o, 0, outer(ct.load(a, 0, 16), lambda v: v + 1))


@case(lambda: [ints(8), zeros(8, dtype=np.int32)], lambda a, o: a + 16)
@ct.kernel
def tuples(a, o):
    t = (1, (2, 3), "x")
    p, (q, r), _ = t
    u = t + (10,)
    s = u[-1]
    ct.static_assert(len(u) == 4 and u[2] == "x")
    y, rest = ct.load(a, 0, 8), (p, q, r, s)
    for v in ct.static_iter(rest):
        y += v
    ct.store(o, 0, y)


@case(lambda: [ints(8), zeros(8, dtype=np.int32)], lambda a, o: a.clip(-10, 10))
@ct.kernel
def ternary(a, o):
    x = ct.load(a, 0, 8)
    lim = 10 if ct.bid(0) == 0 else 5
    ct.store(o, 0, ct.minimum(ct.maximum(x, -lim), lim))


@case(
    lambda: [ints(8, low=0), zeros(8, dtype=np.int32)], lambda a, o: ((a << 2) ^ 5) & ~a | (a >> 1)
)
@ct.kernel
def bits(a, o):
    x = ct.load(a, 0, 8)
    ct.store(o, 0, ((x << 2) ^ 5) & ~x | (x >> 1))


@case(
    lambda: [ints(16, low=-9, high=9), np.full(16, 4, np.int32), zeros(2, 16, dtype=np.int32)],
    lambda a, b, o: np.stack([a // b, a % b]),
)
@ct.kernel
def divmods(a, b, o):
    q, r = divmod(ct.load(a, 0, 16), ct.load(b, 0, 16))
    ct.store(o, (0, 0), ct.reshape(q, (1, 16)))
    ct.store(o, (1, 0), r[None, :])


@case(
    lambda: [floats(64, 32), floats(32, 16), zeros(64, 16)],
    lambda a, b, o: (
        a.astype(np.float16).astype(np.float32) @ b.astype(np.float16).astype(np.float32)
    ),
)
@ct.kernel
def mm(a, b, o):
    x = ct.load(a, (0, 0), (64, 32)).astype(ct.float16)
    y = ct.load(b, (0, 0), (32, 16)).astype(ct.float16)
    ct.store(o, (0, 0), (x @ y).astype(ct.float32))


@case(lambda: [floats(2, 8, 16), floats(2, 16, 8), zeros(2, 8, 8)], lambda a, b, o: a @ b)
@ct.kernel
def bmm(a, b, o):
    acc = ct.full((2, 8, 8), 0.0, ct.float32)
    x = ct.load(a, (0, 0, 0), (2, 8, 16)).astype(ct.tfloat32)
    y = ct.load(b, (0, 0, 0), (2, 16, 8)).astype(ct.tfloat32)
    ct.store(o, (0, 0, 0), ct.mma(x, y, acc))


@case(lambda: [floats(8, 8), zeros(8, 8)], lambda a, o: a.T)
@ct.kernel
def orderf(a, o):
    ct.store(o, (0, 0), ct.load(a, (0, 0), (8, 8), order="F"))


@case(
    lambda: [floats(4, 6, 8), zeros(8, 4, 8)],
    lambda a, o: np.pad(a, ((0, 0), (0, 2), (0, 0))).transpose(2, 0, 1),
    out=1,
)
@ct.kernel
def order3(a, o):
    ct.store(
        o,
        (0, 0, 0),
        ct.load(a, (0, 0, 0), (8, 4, 8), order=(2, 0, 1), padding_mode=ct.PaddingMode.ZERO),
    )


@case(lambda: [floats(20), zeros(16)], lambda a, o: a[4:20])
@ct.kernel
def slices(a, o):
    s = a.slice(0, 4, a.shape[0])
    ct.store(o, 0, ct.load(s, 0, 16))


@case(
    lambda: [floats(10, 10), ints(8, low=0, high=10), zeros(8, 8)],
    lambda a, ix, o: a[ix][:, :8],
)
@ct.kernel
def gathers(a, ix, o):
    r = ct.load(ix, 0, 8)
    c = ct.arange(8, dtype=ct.int32)
    ct.scatter(
        o, (ct.arange(8, dtype=ct.int32)[:, None], c), ct.gather(a, (r[:, None], c[None, :]))
    )


@case(lambda: [floats(10), zeros(16)], lambda a, o: np.r_[a[1:10], [-1.0] * 7])
@ct.kernel
def gather_pad(a, o):
    j = ct.arange(16, dtype=ct.int32) + 1
    ct.store(o, 0, ct.gather(a, j, padding_value=-1.0))


@case(lambda: [floats(16), zeros(16)], lambda a, o: np.where(np.arange(16) % 2 == 0, a, 9))
@ct.kernel
def gather_mask(a, o):
    j = ct.arange(16, dtype=ct.int32)
    ct.store(o, 0, ct.gather(a, j, mask=j % 2 == 0, padding_value=9))


@case(lambda: [ints(16), np.zeros(16, np.int64)], lambda a, o: a.astype(np.int64) * 3)
@ct.kernel
def i64(a, o):
    ct.store(o, 0, ct.load(a, 0, 16).astype(ct.int64) * 3)


@case(lambda: [floats(16), zeros(16, dtype=np.int32)], lambda a, o: a.view(np.int32))
@ct.kernel
def bitcasts(a, o):
    ct.store(o, 0, ct.bitcast(ct.load(a, 0, 16), ct.int32))


@case(lambda: [floats(4, 4), zeros(4, 8)], lambda a, o: np.concatenate([a, a * 2], 1))
@ct.kernel
def cats(a, o):
    x = ct.load(a, (0, 0), (4, 4))
    ct.store(o, (0, 0), ct.cat((x, x * 2), 1))


@case(lambda: [floats(8, 8), zeros(4, 4)], lambda a, o: a[4:, :4])
@ct.kernel
def extracts(a, o):
    x = ct.load(a, (0, 0), (8, 8))
    ct.store(o, (0, 0), x.extract((1, 0), (4, 4)))


@case(
    lambda: [floats(16), zeros(16)],
    lambda a, o: (
        np.exp(a) + np.sin(a) * np.sqrt(abs(a)) - np.tanh(a) + np.floor(a) + np.log2(abs(a) + 1)
    ),
)
@ct.kernel
def maths(a, o):
    x = ct.load(a, 0, 16)
    ct.store(
        o,
        0,
        ct.exp(x) + ct.sin(x) * ct.sqrt(abs(x)) - ct.tanh(x) + ct.floor(x) + ct.log2(ct.abs(x) + 1),
    )


@case(lambda: [ints(16, low=1), zeros(16)], lambda a, o: a / 3)
@ct.kernel
def intdiv(a, o):
    ct.store(o, 0, ct.load(a, 0, 16) / 3)


@case(lambda: [floats(16), zeros(16)], lambda a, o: a**3)
@ct.kernel
def powers(a, o):
    ct.store(o, 0, ct.load(a, 0, 16) ** 3)


@case(lambda: [ints(16), np.zeros(16, np.int8)], lambda a, o: a.astype(np.int8))
@ct.kernel
def narrow(a, o):
    ct.store(o, 0, ct.load(a, 0, 16).astype(ct.int8))


@case(
    lambda: [ints(4), zeros(4, dtype=np.int32)],
    lambda a, o: [6, 6, 3, 10],
)
@ct.kernel
def loops(a, o):
    s = 0
    for k in range(0, 5, 2):
        s += k
    t = 0
    n = ct.num_blocks(0) + 3
    for k in range(n):
        t = t + k
        if t > 2:
            pass
    w = 0
    while True:
        w = w + 1
        if w % 3 == 0:
            break
    z = 10
    ct.scatter(o, 0, s)
    ct.scatter(o, 1, t)
    ct.scatter(o, 2, w)
    ct.scatter(o, 3, z)


@case(lambda: [(floats(8), 3), zeros(8)], lambda t, o: t[0] * 3)
@ct.kernel
def tuple_arg(t: tuple, o):
    ct.store(o, 0, ct.load(t[0], 0, 8) * t[1])


@case(lambda: [floats(16), zeros(16), 2.5, 3], lambda a, o, s, n: a * 2.5 + 3, out=1)
@ct.kernel
def scalars(a, o, s, n):
    ct.store(o, 0, ct.load(a, 0, 16) * s + n)


@case(
    lambda: [floats(4, 8), zeros(4, 8)],
    lambda a, o: (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5),
)
@ct.kernel
def lnorm(a, o):
    x = ct.load(a, (0, 0), (4, 8))
    m = ct.sum(x, axis=1, keepdims=True) / 8
    d = x - m
    ct.store(o, (0, 0), d * ct.rsqrt(ct.sum(d * d, 1, keepdims=True) / 8 + 1e-5))


@case(lambda: [floats(4, 8), zeros(8)], lambda a, o: a.min(0))
@ct.kernel
def red_axis0(a, o):
    ct.store(o, 0, ct.min(ct.load(a, (0, 0), (4, 8)), 0))


@case(lambda: [floats(4, 8), zeros(1)], lambda a, o: [a.sum()])
@ct.kernel
def red_all(a, o):
    x = ct.load(a, (0, 0), (4, 8))
    ct.scatter(o, 0, ct.sum(x))


@case(lambda: [floats(4, 8), zeros(1)], lambda a, o: [a.max()])
@ct.kernel
def red_axes(a, o):
    x = ct.load(a, (0, 0), (4, 8))
    ct.scatter(o, 0, ct.max(x, axis=(0, 1)).item())


@case(lambda: [floats(16), zeros(16)], lambda a, o: np.cumsum(a))
@ct.kernel
def csum(a, o):
    ct.store(o, 0, ct.cumsum(ct.load(a, 0, 16), axis=0))


@case(lambda: [ints(16), zeros(16, dtype=np.int32)], lambda a, o: a + 6)
@ct.kernel
def statics(a, o):
    n = ct.static_eval(len([1, 2, 3]) * 2)
    ct.static_assert(n == 6, "n")
    ct.store(o, 0, ct.load(a, 0, ct.static_eval(2**4)) + n)


def fact(n):
    if n <= 1:
        return 1
    return n * fact(n - 1)


@case(lambda: [ints(8), zeros(8, dtype=np.int32)], lambda a, o: a * 120)
@ct.kernel
def recursion(a, o):
    ct.store(o, 0, ct.load(a, 0, 8) * fact(5))


@case(lambda: [ints(8), zeros(8, dtype=np.int32)], lambda a, o: a)
@ct.kernel
def prints(a, o):
    x = ct.load(a, 0, 8)
    print(f"bid={ct.bid(0)} x={x} sum={ct.sum(x):5d}", "and", (1, x.shape), sep="|", end="!\n")
    ct.store(o, 0, x)


@case(
    lambda: [np.arange(8, dtype=np.uint8), np.zeros(8, np.uint8)],
    lambda a, o: (a - 1).astype(np.uint8),
)
@ct.kernel
def unsigned(a, o):
    ct.store(o, 0, ct.load(a, 0, 8) - 1)


@case(lambda: [floats(8).astype(np.float16), zeros(8)], lambda a, o: a.astype(np.float32) + 1)
@ct.kernel
def promote(a, o):
    x = ct.load(a, 0, 8)
    y = ct.ones(8, ct.float32)
    ct.store(o, 0, x + y)


@case(
    lambda: [np.array([True, False] * 4), floats(8), zeros(8)], lambda m, a, o: np.where(m, a, -a)
)
@ct.kernel
def bools(m, a, o):
    b = ct.load(m, 0, 8)
    x = ct.load(a, 0, 8)
    ct.store(o, 0, ct.where(b, x, -x))


@case(lambda: [floats(8), zeros(8)], lambda a, o: np.where((a > 0) & (a < 1) | ~(a > -1), a, 0))
@ct.kernel
def logic(a, o):
    x = ct.load(a, 0, 8)
    ct.store(o, 0, ct.where((x > 0) & (x < 1) | ~(x > -1), x, 0.0))


@case(lambda: [floats(8), zeros(8), 5], lambda a, o, n: a * 2, out=1)
@ct.kernel
def shortcircuit(a, o, n):
    x = ct.load(a, 0, 8)
    if n > 3 and n < 10 or not n == 5:
        x = x * 2
    ct.store(o, 0, x)


@case(lambda: [floats(8), zeros(8), 5], lambda a, o, n: a * 2, out=1)
@ct.kernel
def chained(a, o, n):
    x = ct.load(a, 0, 8)
    if 3 < n <= 5:
        x = x * 2
    ct.store(o, 0, x)


@case(lambda: [floats(16), zeros(16)], lambda a, o: a * 6)
@ct.kernel
def comp(a, o):
    ts = tuple(ct.load(a, 0, 16) * k for k in ct.static_iter(range(4)))
    s = ts[0]
    for t in ct.static_iter(ts[1:]):
        s = s + t
    ct.store(o, 0, s)


@case(lambda: [floats(8), zeros(8)], lambda a, o: a * 2)
@ct.kernel
def methods(a, o):
    x = ct.load(a, 0, 8)
    ct.store(
        o, 0, x.reshape((2, 4)).transpose().permute((1, 0)).reshape((-1,)).astype(ct.float32) * 2
    )


@case(lambda: [ints(8), zeros(8, dtype=np.int32)], lambda a, o: np.maximum(a, 3))
@ct.kernel
def builtin_max(a, o):
    ct.store(o, 0, max(ct.load(a, 0, 8), 3))


@case(lambda: [floats(8), zeros(8)], lambda a, o: a + np.float32(math.pi))
@ct.kernel
def pi(a, o):
    ct.store(o, 0, ct.load(a, 0, 8) + math.pi)


G = 4


@case(lambda: [ints(8, low=0, high=3), zeros(8, dtype=np.int32)], lambda a, o: a)
@ct.kernel
def rawmem(a, o):
    m = a.get_raw_memory()
    r = o.get_raw_memory()
    j = ct.arange(8, dtype=ct.int32)
    r.store_offset(j, m.load_offset(j))


@case(lambda: [ints(8), np.full(8, 100, np.int32)], lambda a, o: np.minimum(a, 100))
@ct.kernel
def tvatom(a, o):
    o.tiled_view(8).atomic_store_min(0, ct.load(a, 0, 8))


@case(lambda: [floats(16), zeros(16)], lambda a, o: a * 3, grid=(2,))
@ct.kernel
def while_cond(a, o):
    j = ct.bid(0)
    acc = ct.zeros(8, ct.float32)
    n = 0
    x = ct.load(a, j, 8)
    while n < 3:
        acc = acc + x
        n += 1
    ct.store(o, j, acc)


@case(
    lambda: [np.arange(32, dtype=np.uint8), np.zeros(8, np.uint32)], lambda a, o: a.view(np.uint32)
)
@ct.kernel
def unpack(a, o):
    ct.store(o, 0, ct.unpack_from_bytes(ct.load(a, 0, 32), ct.uint32))


@case(lambda: [floats(8), zeros(8)], lambda a, o: a)
@ct.kernel
def hints(a, o):
    ct.store(o, 0, ct.load(a, 0, 8, latency=4, allow_tma=False), latency=2)


@case(
    lambda: [ints(16), zeros(16, dtype=np.int32)],
    lambda a, o: np.cumprod(np.full(16, 2, np.int32))[::-1],
)
@ct.kernel
def cprod(a, o):
    ct.store(o, 0, ct.cumprod(ct.full((16,), 2, ct.int32), reverse=True))


@case(lambda: [zeros(16, dtype=np.int32), 7], lambda o, n: [12] + [0] * 15, out=0)
@ct.kernel
def continuing(o, n):
    s = 0
    for k in range(n):
        if k % 2 == 1:
            continue
        s = s + k
    ct.scatter(o, 0, s)


@case(lambda: [zeros(16, dtype=np.int32), 7], lambda o, n: [27] + [0] * 15, out=0)
@ct.kernel
def nested_break(o, n):
    r = -1
    for a in range(9):
        for b in range(9):
            if a * b == 14 and r == -1:
                r = a * 10 + b
                break
        if r != -1:
            break
    ct.scatter(o, 0, r)


def collatz(n):
    c = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        c += 1
        if c > 1000:
            return -1
    return c


@case(lambda: [zeros(16, dtype=np.int32), 27], lambda o, n: [111] + [0] * 15, out=0)
@ct.kernel
def collatz_steps(o, n):
    ct.scatter(o, 0, collatz(n))


def gcd(a, b):
    while b != 0:
        a, b = b, a % b
    return a


@case(lambda: [zeros(16, dtype=np.int32), 84, 36], lambda o, a, b: [12] + [0] * 15, out=0)
@ct.kernel
def common_divisor(o, a, b):
    ct.scatter(o, 0, gcd(a, b))


@case(lambda: [zeros(16, dtype=np.int32), 5], lambda o, n: [1, 1, 2, 3, 5] + [0] * 11, out=0)
@ct.kernel
def fibonacci(o, n):
    a, b = 0, 1
    for k in range(n):
        ct.scatter(o, k, b)
        a, b = b, a + b


@case(lambda: [zeros(16, dtype=np.int32), 3], lambda o, n: [1] + [0] * 15, out=0)
@ct.kernel
def deep_branches(o, n):
    v = 0
    if n > 0:
        if n > 1:
            if n > 2:
                v = 1
            else:
                v = 2
        else:
            v = 3
    else:
        return
    ct.scatter(o, 0, v)


def leaving(n):
    for a in range(3):
        while True:
            if a == n:
                return a * 100
            if a < n:
                break
            return -5
    return 7


@case(lambda: [zeros(4, dtype=np.int32), 1], lambda o, n: [100, -5, 7, 0], out=0)
@ct.kernel
def returns_out_of_loops(o, n):
    ct.scatter(o, 0, leaving(n))
    ct.scatter(o, 1, leaving(n - 2))
    ct.scatter(o, 2, leaving(n + 9))


@case(lambda: [zeros(4, dtype=np.int32), 1], lambda o, n: [6, 3, 0, 0], out=0)
@ct.kernel
def static_in_dyn(o, n):
    s = 0
    for k in range(3):
        for j in ct.static_iter((1, 2)):
            if j == 2:
                s = s + k
            else:
                s = s + ct.static_eval(j * 0 + 1)
    ct.scatter(o, 0, s)
    ct.scatter(o, 1, n + 2)


@case(
    lambda: [floats(8, 16), zeros(8, 16)],
    lambda a, o: (
        np.exp(a - a.max(1, keepdims=True))
        / np.exp(a - a.max(1, keepdims=True)).sum(1, keepdims=True)
    ),
)
@ct.kernel
def online_softmax(a, o):
    m = ct.full((8, 1), -math.inf, ct.float32)
    total = ct.zeros((8, 1), ct.float32)
    for k in range(ct.num_tiles(a, 1, (8, 4))):
        x = ct.load(a, (0, k), (8, 4))
        mn = ct.maximum(m, ct.max(x, axis=1, keepdims=True))
        total = total * ct.exp(m - mn) + ct.sum(ct.exp(x - mn), axis=1, keepdims=True)
        m = mn
    for k in range(ct.num_tiles(a, 1, (8, 4))):
        x = ct.load(a, (0, k), (8, 4))
        ct.store(o, (0, k), ct.exp(x - m) / total)


@case(lambda: [floats(64, 48), floats(48, 32), zeros(64, 32)], lambda a, b, o: a @ b, grid=(3,))
@ct.kernel
def persistent(a, b, o):
    nm = ct.cdiv(a.shape[0], 16)
    nn = ct.cdiv(b.shape[1], 16)
    for t in range(ct.bid(0), nm * nn, ct.num_blocks(0)):
        mi = t // nn
        ni = t % nn
        acc = ct.zeros((16, 16), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 16)):
            acc = ct.mma(
                ct.load(a, (mi, k), (16, 16)).astype(ct.tfloat32),
                ct.load(b, (k, ni), (16, 16)).astype(ct.tfloat32),
                acc,
            )
        ct.store(o, (mi, ni), acc)


def swizzle(t, nm, nn, g):
    per = g * nn
    gid = t // per
    first = gid * g
    size = min(nm - first, g)
    return first + (t % per) % size, (t % per) // size


@case(lambda: [zeros(5, 4, dtype=np.int32)], lambda o: np.array([[1] * 4] * 5), grid=(20,))
@ct.kernel
def swizzled(o):
    r, c = swizzle(ct.bid(0), 5, 4, 2)
    ct.atomic_add(o, (r, c), 1)


@case(lambda: [ints(16, low=0, high=100), zeros(16, dtype=np.int32)], lambda a, o: np.sort(a))
@ct.kernel
def ranksort(a, o):
    x = ct.load(a, 0, 16)
    j = ct.arange(16, dtype=ct.int32)
    lt = (x[None, :] < x[:, None]) | ((x[None, :] == x[:, None]) & (j[None, :] < j[:, None]))
    ct.scatter(o, ct.sum(ct.where(lt, 1, 0), axis=1), x)


@case(lambda: [floats(3, 5, 7), zeros(4, 8, 8)], lambda a, o: np.pad(a, ((0, 1), (0, 3), (0, 1))))
@ct.kernel
def pad3(a, o):
    ct.store(o, (0, 0, 0), ct.load(a, (0, 0, 0), (4, 8, 8), padding_mode=ct.PaddingMode.ZERO))


@case(lambda: [np.asfortranarray(floats(8, 4)), zeros(8, 4)], lambda a, o: a)
@ct.kernel
def fortran(a, o):
    ct.store(o, (0, 0), ct.load(a, (0, 0), (8, 4)))


@case(lambda: [floats(8, 16)[:, ::2], zeros(8, 8)], lambda a, o: a)
@ct.kernel
def strided(a, o):
    ct.store(o, (0, 0), ct.load(a, (0, 0), (8, 8)))


@case(lambda: [floats(8)[::-1], zeros(8)], lambda a, o: a)
@ct.kernel
def negstride(a, o):
    ct.store(o, 0, ct.load(a, 0, 8))


@case(lambda: [zeros(2, 3, 4, dtype=np.int32)], lambda o: np.ones((2, 3, 4)), grid=(2, 3, 4))
@ct.kernel
def grid3(o):
    ct.scatter(o, (ct.bid(0), ct.bid(1), ct.bid(2)), ct.num_blocks(0) // 2)
