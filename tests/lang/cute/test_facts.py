"""Divisors and possible bits: what they claim holds for every input that is tried."""

import random

import pytest
from traced import addresses, kernel

from tilewright.errors import TypeMismatchError
from tilewright.ir.types import ScalarType
from tilewright.lang.cute import arch
from tilewright.lang.cute.facts import assume, divisor, ones
from tilewright.lang.values import Int32, Int64, Uint32

EXPRESSIONS = [
    lambda t, _k: t * 8,
    lambda t, _k: t % 16 * 64 + t // 16 % 2 * 8,
    lambda t, _k: (t // 32) * 1024 + (t & 7),
    lambda _t, k: k * 24,
    lambda _t, k: k * 16 + 32,
    lambda _t, k: (k << 3) - 8,
    lambda t, _k: (t % 8) ^ (t % 32 // 4),
    lambda t, k: Int64(t) * k * 4,
    lambda t, _k: (t * 12) // 4,
    lambda t, _k: t % 5 * 3,
    lambda t, _k: Uint32(t) >> 2,
    lambda t, _k: (t % 128 + t % 32) * 2,
    lambda t, _k: arch.make_warp_uniform(t // 32) * 6,
]


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)))
def test_claims_hold(number: int) -> None:
    rng = random.Random(number)
    with kernel() as made:
        t = arch.thread_idx()[0]
        k = made.number("k", divby=2)
        x = EXPRESSIONS[number](t, k)
        by, mask = divisor(x), ones(x)
        value = x.ir_value()
    for _ in range(200):
        inputs = {"thread_idx": rng.randrange(1024), "k": rng.randrange(0, 5000) * 2}
        found = addresses(made, inputs)[value]
        assert found % by == 0 if by else found == 0
        assert mask == -1 or found & ~mask == 0, (found, mask)


def test_useful_claims() -> None:
    with kernel() as made:
        t, k = arch.thread_idx()[0], made.number("k", divby=8)
        assert divisor(t * 64 + 128) == 64
        assert divisor(k * 3) == 24
        assert divisor(k) == 8
        assert divisor(Int64(k) * 2 + 4) == 4
        assert ones(t % 8 * 64 + t // 8 % 2 * 8) == 0b111001000
        assert ones(arch.lane_idx()) == 31
        assert ones(made.number("n")) == -1
        assert ones(t // 32) == 31


def test_assume_is_checked_at_compile_time() -> None:
    assert assume(64, divby=16) == 64
    with pytest.raises(TypeMismatchError, match=r"assume: 60 is not a multiple of 16"):
        assume(60, divby=16)
    with pytest.raises(TypeMismatchError, match=r"assume: expected an integer, got float 1.5"):
        assume(1.5, divby=2)


def test_facts_reach_the_kernel_with_its_arguments() -> None:
    """A stride that the host knows to be a multiple of 8 is one in the kernel too."""
    with kernel(kind="host") as host:
        n = host.number("n", "i64", divby=8)
        t = host.gmem("bf16", (64, 64))
        t.layout = type(t.layout)((64, 64), (n, 1))
        with kernel() as inner:
            values = [inner.argument(v.type) for v in t.__tw_values__()]
            twin = t.__tw_with_values__(values)
            assert divisor(twin.stride[0]) == 8
            # Inside one function nothing is handed on: a loop may change what it carries.
            again = twin.__tw_with_values__([inner.argument(v.type) for v in values])
            assert divisor(again.stride[0]) == 1


def test_unused_scalar_type() -> None:
    with kernel() as made:
        flag = made.argument(ScalarType(Int32.dtype), "f")
        assert divisor(Int32(flag)) == 1
