"""Distributed shared memory, bulk copies, reductions and cp.async arrivals on the GPU: exact.

The same kernels run in the simulator in `tests/lang/cute/test_bulk.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tilewright import cute

sys.path.insert(0, str(Path(__file__).parent.parent / "lang" / "cute"))
import kernels_cluster as kernels

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.gpu("sm_90a")

TURNS = 20
"""An order that goes wrong once in a while should have its chance."""


def whole(*shape: int, dtype: str = "float32") -> Any:
    """Small whole numbers: sums are exact."""
    return torch.randint(-8, 9, shape, device="cuda").to(getattr(torch, dtype))


def run(host: Any, *args: Any) -> None:
    cute.compile(host, *args).launch(*args)
    torch.cuda.synchronize()


def test_sum_over_a_cluster() -> None:
    blocks = 33 * kernels.CLUSTER
    for _ in range(TURNS):
        x, y = whole(blocks * kernels.THREADS), torch.full((blocks,), float("nan"), device="cuda")
        run(kernels.cluster_sum_host, x, y)
        sums = x.reshape(33, -1).sum(dim=1)
        assert torch.equal(y, sums.repeat_interleave(kernels.CLUSTER))


def test_loads_stores_and_atomics_of_a_peer() -> None:
    for _ in range(TURNS):
        x = whole(132 * 4 * kernels.THREADS)
        stored, loaded = torch.full_like(x, float("nan")), torch.full_like(x, float("nan"))
        count = torch.zeros(132, device="cuda", dtype=torch.int32)
        run(kernels.exchange_host, x, stored, loaded, count)
        swapped = x.reshape(66, 2, -1).flip(1).reshape(-1)
        assert torch.equal(stored, swapped)
        assert torch.equal(loaded, swapped)
        assert bool((count == kernels.THREADS).all())


def test_a_handshake_by_remote_arrivals() -> None:
    rounds, pairs = 50, 66
    for _ in range(TURNS):
        x = whole(rounds * pairs * 2 * 4 * kernels.THREADS)
        y = torch.full_like(x, float("nan"))
        run(kernels.handshake_host, x, y, rounds)
        parts = x.reshape(rounds, pairs, 2, -1)
        assert torch.equal(y, parts.flip(2).reshape(-1))


@pytest.mark.parametrize("by_bulk", [False, True])
def test_sending_to_the_next_block(by_bulk: bool) -> None:
    clusters = 33
    for _ in range(TURNS):
        x = whole(clusters * kernels.CLUSTER * 4 * kernels.THREADS)
        y = torch.full_like(x, float("nan"))
        run(kernels.send_host, x, y, by_bulk)
        parts = x.reshape(clusters, kernels.CLUSTER, -1)
        assert torch.equal(y, parts.roll(1, 1).reshape(-1))


def test_bulk_loads_into_all_blocks() -> None:
    x = whole(33 * kernels.CLUSTER * kernels.TILE)
    columns = kernels.CLUSTER * kernels.TILE
    y = torch.full((33 * kernels.CLUSTER, columns), float("nan"), device="cuda")
    run(kernels.multicast_host, x, y)
    assert torch.equal(y, x.reshape(33, -1).repeat_interleave(kernels.CLUSTER, dim=0))


def test_bulk_copies_there_and_back() -> None:
    x = whole(264 * kernels.TILE)
    y = torch.full_like(x, float("nan"))
    run(kernels.bulk_round_trip_host, x, y)
    assert torch.equal(y, 2 * x)


REDUCTIONS = {
    "add f32": (cute.ReductionOp.ADD, "float32"),
    "add f16": (cute.ReductionOp.ADD, "float16"),
    "add bf16": (cute.ReductionOp.ADD, "bfloat16"),
    "max bf16": (cute.ReductionOp.MAX, "bfloat16"),
    "min f16": (cute.ReductionOp.MIN, "float16"),
    "add i32": (cute.ReductionOp.ADD, "int32"),
    "min i32": (cute.ReductionOp.MIN, "int32"),
    "xor i32": (cute.ReductionOp.XOR, "int32"),
}


def reduced(kind: Any, x: Any, y: Any) -> Any:
    """The rows of x and y, combined."""
    rows = torch.cat([x, y[None]])
    if kind is cute.ReductionOp.ADD:
        return rows.double().sum(dim=0).to(y.dtype)
    if kind is cute.ReductionOp.XOR:
        total = rows[0]
        for row in rows[1:]:
            total = total ^ row
        return total
    return rows.amax(dim=0) if kind is cute.ReductionOp.MAX else rows.amin(dim=0)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_bulk_reductions(name: str) -> None:
    kind, dtype = REDUCTIONS[name]
    for _ in range(TURNS):
        # 8 rows: sums of whole numbers up to 72 are exact in bf16.
        x, y = whole(8, kernels.TILE, dtype=dtype), whole(kernels.TILE, dtype=dtype)
        expected = reduced(kind, x, y)
        run(kernels.bulk_reduce_host, x, y, kind)
        assert torch.equal(y, expected)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_tensor_reductions(name: str) -> None:
    """The tensor is smaller than the box: what is outside of it is left alone."""
    kind, dtype = REDUCTIONS[name]
    for _ in range(TURNS):
        x = whole(8, kernels.ROWS, kernels.COLUMNS, dtype=dtype)
        held = whole(kernels.ROWS, kernels.COLUMNS, dtype=dtype)
        y, before = held[:13, :24], held.clone()
        expected = before.clone()
        expected[:13, :24] = reduced(kind, x[:, :13, :24], before[:13, :24])
        run(kernels.tensor_reduce_host, x, y, kind)
        assert torch.equal(held, expected)


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_pipeline_of_cp_async(stages: int) -> None:
    tiles = 64
    for _ in range(TURNS):
        x = whole(tiles * 4 * kernels.THREADS)
        y = torch.full_like(x, float("nan"))
        run(kernels.copy_pipeline_host, x, y, tiles, stages)
        assert torch.equal(y, x + 1)
