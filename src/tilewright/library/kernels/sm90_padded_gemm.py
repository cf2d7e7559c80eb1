"""Hopper GEMM of operands that TMA cannot take: copies to rows that begin at 16 bytes, then TMA.

    A', B' = A, B with padded rows        D[M,N,L] = epilogue(A'[M,K,L] * B'[N,K,L]^T)

The copies lie in the workspace, and are made anew in every launch.  The product is `sm90_gemm`;
each kernel starts while the one before it ends (programmatic dependent launch).
"""

from __future__ import annotations

from typing import Any

from tilewright import cute, dsl
from tilewright.arch.target import Target
from tilewright.collective.scheduler import batch_count
from tilewright.dsl import Constexpr, const_expr, range_constexpr
from tilewright.library import padded_config
from tilewright.library.kernels import sm90_gemm
from tilewright.library.padded_config import PaddedGemmConfig, copied_major, padded_refusal
from tilewright.library.problem import GemmProblem, Majors

NAME = "sm90_padded_gemm"

WARPS, WARP = 8, 32
"""Each warp of a block copies a row of its own."""
UNROLL = 32
"""Elements of a row that each lane has on their way."""


@cute.kernel
def copy_rows_kernel(
    mX: cute.Tensor,  # (X, K, L), anywhere
    mY: cute.Tensor,  # (X, K, L), of as many batches as X has of its own
    k_major: Constexpr,
) -> None:
    cute.arch.griddepcontrol_wait()
    cute.arch.griddepcontrol_launch_dependents()
    tidx, _, _ = cute.arch.thread_idx()
    lane = tidx % WARP
    extent, k, _ = mY.shape
    rows, run = (extent, k) if const_expr(k_major) else (k, extent)
    number = cute.arch.block_idx()[0] * WARPS + tidx // WARP
    row, batch = number % rows, number // rows
    if batch < batch_count(mY):
        source = mX[row, None, batch] if const_expr(k_major) else mX[None, row, batch]
        goal = mY[row, None, batch] if const_expr(k_major) else mY[None, row, batch]
        some = cute.make_rmem_tensor((UNROLL,), mX.element_type)
        for first in dsl.range(lane, run, WARP * UNROLL, unroll=1):
            for i in range_constexpr(UNROLL):
                if first + i * WARP < run:
                    some[i] = source[first + i * WARP]
            for i in range_constexpr(UNROLL):
                if first + i * WARP < run:
                    goal[first + i * WARP] = some[i]


@cute.jit
def copy_rows(mX: cute.Tensor, mY: cute.Tensor, k_major: Constexpr) -> None:
    """Launches a warp for each row."""
    extent, k, _ = mY.shape
    rows = (extent if const_expr(k_major) else k) * batch_count(mY)
    copy_rows_kernel(mX, mY, k_major).launch(
        grid=(cute.ceil_div(rows, WARPS), 1, 1), block=(WARPS * WARP, 1, 1), use_pdl=True
    )


@cute.jit
def host(
    mA: cute.Tensor,  # (M, K, L)
    mB: cute.Tensor,  # (N, K, L)
    mD: cute.Tensor,  # (M, N, L)
    tensors: Any,  # what the epilogue loads, each (M, N, L)
    scalars: Any,
    workspace: Any,  # for each copy: what is written, what the product reads
    majors: Constexpr,  # the contiguous index of A, B, D
    tree: Constexpr,
    config: Constexpr,
) -> None:
    """Launches the copies, then the product."""
    operands = [mA, mB]
    own = [copied_major(major) for major in (majors.a, majors.b)]
    for number, name in enumerate(config.copies):
        at = "AB".index(name)
        copy_rows(operands[at], workspace[2 * number], own[at] == "K")
        operands[at] = workspace[2 * number + 1]
    sm90_gemm.host(
        *operands, mD, tensors, scalars, (), Majors(own[0], own[1], majors.d), tree, config.gemm
    )


def default_config(problem: GemmProblem, target: Target) -> PaddedGemmConfig:
    """Copies of what TMA cannot take, and the product that the cost model likes best."""
    return padded_config.default_config(problem, target)


def can_implement(problem: GemmProblem, target: Target, config: PaddedGemmConfig) -> str | None:
    """None, or why this kernel cannot run the problem."""
    return padded_refusal(problem, target, config)


def passed_over(problem: GemmProblem, target: Target, config: PaddedGemmConfig) -> str | None:
    """None, or why another kernel is likely faster."""
    return padded_config.slower(problem, target, config)
