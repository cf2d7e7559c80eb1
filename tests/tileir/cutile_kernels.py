"""Kernels for NVIDIA's own compiler, whose files are then read and written byte for byte."""

# All kernels have one signature, and `assert_` is cuTile's word.
# ruff: noqa: ARG001, PT009

import cuda.tile as ct

N = 16


@ct.kernel
def add(a, b, c):
    i = ct.bid(0)
    ct.store(c, (i,), ct.load(a, (i,), (N,)) + ct.load(b, (i,), (N,)))


@ct.kernel(num_ctas=ct.ByTarget(sm_100=2, default=1), occupancy=2)
def matmul(a, b, c):
    acc = ct.zeros((N, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (N, N))):
        x = ct.load(a, (ct.bid(0), k), (N, N), padding_mode=ct.PaddingMode.ZERO, latency=3)
        y = ct.load(b, (k, ct.bid(1)), (N, N), allow_tma=False)
        acc = ct.mma(x.astype(ct.float16), y.astype(ct.float16), acc)
    ct.store(c, (ct.bid(0), ct.bid(1)), acc)


@ct.kernel
def softmax(a, b, c):
    x = ct.load(a, (ct.bid(0), 0), (1, 64))
    e = ct.exp(x - ct.max(x, 1, keepdims=True))
    ct.store(b, (ct.bid(0), 0), e / ct.sum(e, 1, keepdims=True))
    ct.store(c, (ct.bid(0), 0), ct.cumsum(x, 1))


@ct.kernel
def arg(a, b, c):
    x = ct.load(a, (ct.bid(0), 0), (4, 8))
    best = ct.argmax(x, 1, keepdims=True).astype(ct.float32)
    ct.store(b, (ct.bid(0), 0), best + ct.prod(x, 1, keepdims=True))
    ct.store(c, (ct.bid(0), 0), ct.where(x > 0.5, x, -x))


@ct.kernel
def scattered(a, b, c):
    i = ct.arange(N, dtype=ct.int32)
    x = ct.gather(a, (i, i), padding_value=1.0)
    ct.scatter(b, (i, 0), x)
    ct.atomic_add(c, (i, 0), x)


@ct.kernel
def said(a, b, c):
    x = ct.load(a, (0, 0), (4, 4))
    ct.printf("%f\n", x)
    ct.assert_(x > 0.0, "positive")
    print(f"bid {ct.bid(0)}")
    ct.store(b, (0, 0), x)


@ct.kernel
def wandering(a, b, c):
    total = ct.zeros((4,), ct.float32)
    i = 0
    while i < 100:
        if i > ct.bid(0):
            break
        x = ct.load(a, (i, 0), (1, 4)).reshape((4,))
        total = total + x if i % 2 == 0 else total * x
        i += 1
    if ct.bid(1) == 3:
        return
    ct.store(b, (0, 0), total.reshape((1, 4)))


@ct.kernel
def shapes(a, b, c):
    x = ct.load(a, (0, 0), (4, 8))
    y = ct.permute(x, (1, 0))
    z = ct.cat((y, y), 1)
    w = ct.extract(z, (0, 1), (8, 4)) + ct.broadcast_to(ct.full((8, 1), 2.0, ct.float32), (8, 4))
    ct.store(b, (0, 0), ct.transpose(w))


@ct.kernel
def functions(a, b, c):
    x = ct.load(a, (0, 0), (4, 8))
    y = ct.sqrt(x, rounding_mode=ct.RoundingMode.APPROX) + ct.tanh(x) * ct.sin(x) - ct.log2(x)
    y = ct.minimum(y, ct.floor(x)) + ct.pow(x, y) + ct.rsqrt(x, flush_to_zero=True)
    ct.store(b, (0, 0), ct.truediv(y, x, rounding_mode=ct.RoundingMode.APPROX))


@ct.kernel
def integers(a, b, c):
    x = ct.load(a, (0, 0), (4, 8)).astype(ct.int32)
    y = (x << 2 ^ x) // 3 % 7 & 0xFF | x >> 1
    z = y.astype(ct.uint8).astype(ct.int64) * -5
    ct.store(b, (0, 0), z.astype(ct.float32))


def _inner(x):
    return x * 2.0 + _innermost(x)


def _innermost(x):
    return ct.abs(x)


@ct.kernel
def calling(a, b, c):
    x = ct.load(a, (0, 0), (4, 8))
    ct.store(b, (0, 0), _inner(x))


@ct.kernel
def narrow(a, b, c):
    x = ct.load(a, (0, 0), (16, 16)).astype(ct.float8_e4m3fn)
    y = ct.load(b, (0, 0), (16, 16)).astype(ct.float8_e4m3fn)
    acc = ct.mma(x, y, ct.zeros((16, 16), ct.float32))
    ct.store(c, (0, 0), acc)


KERNELS = (
    *(add, matmul, softmax, arg, scattered, said, wandering),
    *(shapes, functions, integers, calling, narrow),
)
