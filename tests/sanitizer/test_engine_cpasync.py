"""A GEMM whose producers use cp.async and arrive without waiting: right, and every edge needed."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from corpus.tensor_cores import K, M, N, fragments, multiply, operands
from engine_checks import expect

from tilewright import cute, dsl
from tilewright.cute.nvgpu import cpasync, warpgroup
from tilewright.dsl import BFloat16, Constexpr, const_expr, range_constexpr
from tilewright.sim.options import SimOptions
from tilewright.utils import SmemAllocator

arch = cute.arch
STAGES, TILES = 2, 4


@cute.jit
def rows(atom, x, s, k, stage, rows_in_all: Constexpr):
    """16 bytes at a time, row after row: tile k of x into a stage."""
    t = arch.thread_idx()[0]
    vectors = K // 8
    for i in range_constexpr(-(-rows_in_all * vectors // 128)):
        at = i * 128 + t
        if at < rows_in_all * vectors:
            source = cute.local_tile(x, (1, 8), (at // vectors, k * vectors + at % vectors))
            target = cute.local_tile(s[None, None, stage], (1, 8), (at // vectors, at % vectors))
            cute.copy(atom, source[0, None], target[0, None])  # FAULT


@cute.kernel
def ring_kernel(a: cute.Tensor, b: cute.Tensor, d: cute.Tensor, bug: Constexpr):
    t = arch.thread_idx()[0]
    smem = SmemAllocator()
    sA, sB = operands(STAGES)
    full = smem.allocate_array(dsl.Int64, STAGES, label="full")
    empty = smem.allocate_array(dsl.Int64, STAGES, label="empty")
    if t == 0:
        for i in range_constexpr(STAGES):
            arch.mbarrier_init(full + i, 128)
            arch.mbarrier_init(empty + i, 128)
    arch.sync_threads()
    if t < 128:
        atom = cute.make_copy_atom(cpasync.CopyG2SOp(), BFloat16, num_bits_per_copy=128)
        for k in dsl.range(TILES):
            if const_expr(bug != "no empty"):
                arch.mbarrier_wait(empty + k % STAGES, (k // STAGES & 1) ^ 1)
            rows(atom, a, sA, k, k % STAGES, M)
            rows(atom, b, sB, k, k % STAGES, N)
            if const_expr(bug == "plain arrival"):
                arch.mbarrier_arrive(full + k % STAGES)
            else:
                arch.cp_async_mbarrier_arrive_noinc(full + k % STAGES)
    else:
        mma, rA, rB, acc = fragments(sA, sB)
        acc.fill(0.0)
        for k in dsl.range(TILES):
            if const_expr(bug == "fence first"):
                arch.fence_proxy("async.shared")
            arch.mbarrier_wait(full + k % STAGES, k // STAGES & 1)
            if const_expr(bug not in ("no fence", "fence first")):
                arch.fence_proxy("async.shared")
            multiply(mma, acc, rA, rB, k % STAGES, fresh=False)  # FAULT
            if const_expr(bug == "early release"):
                arch.mbarrier_arrive(empty + k % STAGES)
            warpgroup.wait_group(0)
            if const_expr(bug != "early release"):
                arch.mbarrier_arrive(empty + k % STAGES)
        consumer_write(mma, acc, d)


@cute.jit
def consumer_write(mma, acc, d):
    mine = mma.get_slice(arch.thread_idx()[0] - 128).partition_C(cute.local_tile(d, (M, N), (0, 0)))
    cute.autovec_copy(acc, mine)


@cute.jit
def ring(a: cute.Tensor, b: cute.Tensor, d: cute.Tensor, bug: Constexpr):
    ring_kernel(a, b, d, bug).launch(grid=1, block=256)


def arrays():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (n, TILES * K)).astype(ml_dtypes.bfloat16) for n in (M, N))
    return a, b, np.zeros((M, N), np.float32)


def test_the_ring_is_right():
    a, b, d = arrays()
    cute.compile(ring, a, b, d, "").simulate(a, b, d, "", options=SimOptions(check_races=True))
    np.testing.assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize(
    ("bug", "kind"),
    [
        ("no fence", "proxy_fence"),
        ("fence first", "proxy_fence"),
        ("no empty", "race"),
        ("early release", "race"),
        ("plain arrival", "race"),
    ],
)
def test_every_edge_is_needed(bug: str, kind: str):
    expect(ring, arrays(), bug, kind)
