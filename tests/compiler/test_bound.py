"""A host function that runs again computes what a fresh run does, and no more than it must."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilewright import cute, dsl
from tilewright.compiler import compile_function
from tilewright.compiler.arguments import read_arguments
from tilewright.compiler.bound import BoundProgram
from tilewright.compiler.host import HostRun, LaunchRecord, TensorMapFields, evaluate_host
from tilewright.library.gemm import prepare_gemm


@cute.kernel
def scale_kernel(x: cute.Tensor, y: cute.Tensor, factor: dsl.Float32, n: dsl.Int32) -> None:
    i = cute.arch.block_idx()[0] * 32 + cute.arch.thread_idx()[0]
    if i < n:
        y[i] = x[i] * factor


@cute.jit
def scale(x: cute.Tensor, y: cute.Tensor, factor: dsl.Float32, n: dsl.Int32) -> None:
    """Two launches; the second one's size is found by a loop and a branch."""
    scale_kernel(x, y, factor, n).launch(grid=cute.ceil_div(n, 32), block=32)
    half = n
    for _ in dsl.range(n, unroll=1):
        if half > 64:
            half = half // 2
    scale_kernel(y, x, factor, half).launch(grid=cute.ceil_div(half, 32), block=32)


def program() -> tuple[Any, list[Any]]:
    x, y = np.zeros(256, np.float32), np.zeros(256, np.float32)
    compiled = compile_function(scale, x, y, 2.0, 256)
    bound = scale.signature.bind((x, y, 2.0, 256), {})
    return compiled.module.host, read_arguments(scale.signature, bound).leaves


HOST, LEAVES = program()


@given(st.lists(st.tuples(st.integers(0, len(LEAVES) - 1), st.integers(0, 300)), max_size=6))
def test_an_update_is_a_fresh_run(changes: list[tuple[int, int]]) -> None:
    run, leaves = HostRun(HOST, LEAVES), list(LEAVES)
    assert run.records == evaluate_host(HOST, LEAVES)
    for at, value in changes:
        leaves = list(leaves)
        leaves[at] = type(leaves[at])(value)
        assert run.update(leaves) == evaluate_host(HOST, leaves)


def gemm_host() -> tuple[Any, list[Any], Any]:
    rows = np.zeros((136, 64), np.float16)
    prepared = prepare_gemm(rows, rows.T, kernel="sm90_gemm")
    assert prepared.compiled is not None
    compiled = prepared.compiled
    taken = read_arguments(compiled.signature, compiled.signature.bind(prepared.arguments, {}))
    return compiled.module.host, taken.leaves, sorted(taken.arrays)


def test_only_what_depends_on_an_address_is_computed_again() -> None:
    host, leaves, addresses = gemm_host()
    run = HostRun(host, leaves)
    (before,) = run.records
    maps = [a for a in before.args if isinstance(a, TensorMapFields)]
    moved = list(leaves)
    moved[addresses[0]] += 4096
    (after,) = run.update(moved)
    others = [a for a in after.args if isinstance(a, TensorMapFields)]
    assert [x is y for x, y in zip(maps, others, strict=True)].count(False) == 1
    changed = next(y for x, y in zip(maps, others, strict=True) if x is not y)
    assert changed.base == leaves[addresses[0]] + 4096
    assert [after] == evaluate_host(host, moved)
    assert len(run._dependents) == 1
    assert len(next(iter(run._dependents.values()))) < len(run._ops) / 2


class Params:
    def __init__(self) -> None:
        self.filled: list[tuple[Any, ...]] = []

    def fill(self, values: Any) -> None:
        self.filled.append(tuple(values))


class Launch:
    def __init__(self, record: LaunchRecord) -> None:
        self.record, self.params, self.count = record, Params(), 0

    def __call__(self) -> None:
        self.count += 1


def bound() -> tuple[BoundProgram, list[Launch]]:
    made: list[Launch] = []

    def make(record: LaunchRecord) -> Any:
        made.append(Launch(record))
        return made[-1]

    return BoundProgram(HOST, LEAVES, make), made


def test_a_call_only_launches() -> None:
    run, made = bound()
    run()
    run()
    assert [x.count for x in made] == [2, 2]
    assert [x.params.filled for x in made] == [[], []]


def test_other_values_refill_and_another_grid_makes_a_new_launch() -> None:
    run, made = bound()
    same = run.launches
    at = LEAVES.index(2.0)
    leaves = [*LEAVES[:at], 3.0, *LEAVES[at + 1 :]]
    run.update(leaves)
    assert run.launches == same
    assert [len(x.params.filled) for x in made] == [1, 1]
    assert 3.0 in made[0].params.filled[0]
    run.update(leaves)
    assert [len(x.params.filled) for x in made] == [1, 1]  # nothing changed
    smaller = [*leaves[: at + 1], 100]
    run.update(smaller)
    assert len(made) == 3
    assert run.launches == (made[2], made[1])  # 64 in both cases: the second launch stays
    assert made[2].record.grid == (4, 1, 1)
    run.update([*leaves[: at + 1], 0])  # an empty grid is no launch
    assert run.launches == ()
    run()
    run.update(smaller)
    assert [x.record.grid for x in made[3:]] == [(4, 1, 1), (2, 1, 1)]


def test_gemm_problems_share_one_program() -> None:
    """Sizes are arguments: an update may change them."""
    host, leaves, _ = gemm_host()
    sizes = [i for i, x in enumerate(leaves) if x == 136]
    assert sizes
    larger = [272 if i in sizes else x for i, x in enumerate(leaves)]
    run = HostRun(host, leaves)
    assert run.update(larger) == evaluate_host(host, larger)
