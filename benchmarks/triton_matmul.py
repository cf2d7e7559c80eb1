"""A matmul in Triton for few rows, as a rival: D[M,N] = A[M,K] * B[N,K]^T, both K-major.

One program for each tile of D, no split of K; `candidates` are tuned by the benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a, b, d, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.arange(0, BM)
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    row_inside = rows[:, None] < m
    at_a = a + rows[:, None] * k + depth[None, :]
    at_b = b + columns[None, :] * k + depth[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k, BK):
        total += tl.dot(tl.load(at_a, mask=row_inside, other=0.0), tl.load(at_b))
        at_a += BK
        at_b += BK
    tl.store(d + rows[:, None] * n + columns[None, :], total.to(d.dtype.element_ty), row_inside)


CONFIGS = (
    (32, 128, 4, 6),
    (32, 256, 4, 4),
    (64, 128, 4, 5),
    (64, 256, 8, 3),
    (128, 64, 4, 6),
    (128, 128, 8, 4),
)
"""(BN, BK, warps, stages)."""


def candidates(a: Any, b: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Named calls for A (M,K) and B (K,N), K contiguous in both; those that fit the problem.

    The first call of each compiles it.
    """
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty((m, n), device=a.device, dtype=a.dtype)
    rows = max(16, triton.next_power_of_2(m))
    for bn, bk, warps, stages in CONFIGS:
        if n % bn or k % bk or stages * (rows + bn) * bk * 2 > 220 * 1024:
            continue

        def call(bn: int = bn, bk: int = bk, warps: int = warps, stages: int = stages) -> object:
            return matmul_kernel[(n // bn,)](
                a, b, out, m, n, k, rows, bn, bk, num_warps=warps, num_stages=stages
            )

        yield f"Triton {rows}x{bn}x{bk} {warps} warps {stages} stages", call
