"""Which integers are known not to be negative."""

from __future__ import annotations

from kernels import Kernel, gmem, scalar

from tilewright.codegen.cuda.ranges import NonNegative
from tilewright.ir.ops import arith


def test_indices_and_their_sums_are_not_negative() -> None:
    k = Kernel("k", out=gmem("i32"), n=scalar("i32"), u=scalar("u16"))
    thread = k.special("thread_idx")
    good = [
        k.add(k.mul(thread, k.i32(4)), k.special("lane")),
        k.mod(k.n, k.i32(7)),
        k.v(arith.Max, k.n, k.i32(0)),
        k.v(arith.And, k.n, k.i32(15)),
        k.cast(k.u, "i32"),
        k.cast(thread, "i64"),
    ]
    bad = [
        k.n,
        k.sub(thread, k.i32(1)),
        k.v(arith.Min, thread, k.n),
        k.cast(k.cast(k.n, "u32"), "i32"),
        k.v(arith.Neg, thread),
    ]
    for v in (*good, *bad):
        k.store(k.out, v)
    known = NonNegative(k.done())
    assert [known(v) for v in good] == [True] * len(good)
    assert [known(v) for v in bad] == [False] * len(bad)


def test_carried_values_are_invariants_or_taken_back() -> None:
    k = Kernel("k", out=gmem("i32"), n=scalar("i32"))
    zeros = [k.i32(0)] * 4
    with k.loop(k.special("block_idx"), k.n, k.special("grid_dim"), inits=zeros) as loop:
        up, down, _follows, _mixed = loop.args
        loop.end(
            k.add(up, k.i32(1)),
            k.sub(down, k.i32(1)),
            down,  # negative one turn later
            k.v(arith.Select, k.cmp(up, "lt", k.n), up, loop.iv),
        )
    known = NonNegative(k.done())
    assert [known(v) for v in (loop.iv, *loop.args)] == [True, True, False, False, True]
    assert [known(v) for v in loop.results] == [True, False, False, True]


def test_falling_loops_and_branches() -> None:
    k = Kernel("k", out=gmem("i32"), n=scalar("i32"))
    with k.loop(k.i32(9), k.n, k.i32(-1)) as falling:
        k.store(k.out, falling.iv)
    (either,) = k.branch(k.cmp(k.n, "lt", k.i32(3)), lambda: [k.i32(1)], lambda: [k.i32(2)])
    (maybe,) = k.branch(k.cmp(k.n, "lt", k.i32(3)), lambda: [k.i32(1)], lambda: [k.n])
    (halved,) = k.whilst(
        [k.i32(64)],
        ["x"],
        lambda x: (k.cmp(x, "gt", k.n), [x]),
        lambda x: [k.div(x, k.i32(2))],
    )
    known = NonNegative(k.done())
    values = (falling.iv, either, maybe, halved)
    assert [known(v) for v in values] == [False, True, False, True]
