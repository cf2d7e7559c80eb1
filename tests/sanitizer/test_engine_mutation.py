"""Every single barrier, wait, arrival, commit and fence of the library's kernels is needed.

Each is taken out in turn (waits are also weakened by one group); the detector has to object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tilewright.ir.core import Block, Func, Op
from tilewright.ir.ops import copy, mma, sync
from tilewright.library.gemm import prepare_gemm, random_operands
from tilewright.library.kernels.sm90_gemm import Sm90GemmConfig
from tilewright.library.problem import GemmProblem
from tilewright.sim import build
from tilewright.sim.options import SimOptions

WAITS = (copy.CpAsyncWait, copy.BulkWait, mma.WgmmaWait)
SINGLE = (
    *WAITS,
    *(sync.SyncThreads, sync.BarrierSync, sync.BarrierArrive, sync.SyncWarp, sync.MBarrierInit),
    *(sync.MBarrierArrive, sync.MBarrierArriveExpectTx, sync.MBarrierWait),
    *(sync.FenceMBarrierInit, sync.FenceProxyAsync, copy.CpAsyncCommit, copy.BulkCommit),
    *(mma.WgmmaFence, mma.WgmmaCommit),
)
EQUIVALENT = {
    ("sm80_gemm", "copy.cp_async_wait", 0): "the copies of the last steps are not read by anyone",
}
"""(kernel, operation, groups left pending): mutants that do the same as the kernel."""
SEEDS = 2


@dataclass(frozen=True)
class Mutant:
    """One change of a kernel: `apply` makes it and gives the function that takes it back."""

    op: Op
    what: str
    apply: Callable[[], Callable[[], None]]


def blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for region in op.regions:
            yield from blocks(region)


def mutants(func: Func) -> Iterator[Mutant]:
    for block in blocks(func.body):
        for op in block.ops:
            if isinstance(op, SINGLE):
                yield Mutant(op, "deleted", lambda b=block, o=op: _delete(b, o))
            if isinstance(op, WAITS):
                yield Mutant(op, "weakened", lambda o=op: _weaken(o))


def _delete(block: Block, op: Op) -> Callable[[], None]:
    before = block.ops
    block.ops = [o for o in before if o is not op]

    def restore() -> None:
        block.ops = before

    return restore


def _weaken(op: Any) -> Callable[[], None]:
    op.attrs["pending"] += 1

    def restore() -> None:
        op.attrs["pending"] -= 1

    return restore


def findings(prepared: Any, func: Func, seed: int) -> tuple[Any, ...]:
    build._CACHE.pop(id(func), None)
    options = SimOptions(check_races=True, seed=seed, raise_on_findings=False, max_steps=300_000)
    found: tuple[Any, ...] = prepared.compiled.simulate(
        *prepared.arguments, options=options
    ).findings
    build._CACHE.pop(id(func), None)
    return found


@pytest.mark.parametrize(
    ("kernel", "size", "dtype", "config"),
    [
        ("simt_gemm", (130, 70, 19), "f32", None),
        ("sm80_gemm", (136, 136, 200), "bf16", None),
        ("sm90_gemm", (264, 136, 264), "bf16", Sm90GemmConfig(
            tile_shape_mnk=(128, 64, 64), num_stages=3, store_boxes=1, max_ctas=2)),
    ],
)  # fmt: skip
def test_no_synchronisation_can_be_left_out(kernel, size, dtype, config):
    problem = GemmProblem.packed(*size, ab=dtype, d=dtype)
    a, b, c, out = random_operands(problem)
    prepared = prepare_gemm(a, b, c, out=out, kernel=kernel, config=config)
    (func,) = prepared.compiled.module.kernels.values()
    assert not findings(prepared, func, 0)
    survivors, tried = [], 0
    for mutant in list(mutants(func)):
        pending = mutant.op.attrs.get("pending", -1)
        if (kernel, mutant.op.name, pending) in EQUIVALENT:
            continue
        tried += 1
        restore = mutant.apply()
        try:
            if not all(findings(prepared, func, seed) for seed in range(SEEDS)):
                survivors.append(f"{mutant.op.name} {mutant.what} ({mutant.op.loc})")
        finally:
            restore()
    assert tried > 1
    assert not survivors, f"{len(survivors)} of {tried} mutants were not found"
    assert not findings(prepared, func, 0)
