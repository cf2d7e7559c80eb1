"""Tiles of an operand in shared memory: every element in its place, zeros outside of it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tilewright import cute
from tilewright.collective.tile_copy import TileCopy, fits, thread_layouts
from tilewright.dsl import Constexpr, Float16, Int32, range_constexpr
from tilewright.sim.options import SimOptions
from tilewright.utils import SmemAllocator

STAGES = 2


@cute.kernel
def copy_kernel(
    mX: cute.Tensor,  # (X, K)
    out: cute.Tensor,  # (BX, BK)
    tile: Int32,
    k_tile: Int32,
    shape: Constexpr,
    contiguous: Constexpr,
    nbytes: Constexpr,
    threads: Constexpr,
):
    tidx, _, _ = cute.arch.thread_idx()
    order = (1, 0, 2) if contiguous == 1 else (0, 1, 2)
    ring = cute.make_ordered_layout((*shape, STAGES), order)
    sX = SmemAllocator().allocate_tensor(Float16, ring, 128)
    copy = TileCopy(mX, sX, tile, shape, contiguous, nbytes, tidx, threads)
    copy.start(k_tile, 1)
    cute.arch.cp_async_commit_group()
    cute.arch.cp_async_wait_group(0)
    cute.arch.sync_threads()
    for i in range_constexpr(shape[0] * shape[1] // threads):
        at = i * threads + tidx
        row, column = at // shape[1], at % shape[1]
        out[row, column] = sX[row, column, 1]


@cute.jit
def copy_tile(
    mX: cute.Tensor,
    out: cute.Tensor,
    tile: Int32,
    k_tile: Int32,
    shape: Constexpr,
    contiguous: Constexpr,
    nbytes: Constexpr,
    threads: Constexpr,
):
    copy_kernel(mX, out, tile, k_tile, shape, contiguous, nbytes, threads).launch(
        grid=1, block=threads
    )


@pytest.mark.parametrize("threads", [32, 128])
@pytest.mark.parametrize("nbytes", [16, 8, 4, 2])
@pytest.mark.parametrize("contiguous", [0, 1])
def test_tiles_and_their_surroundings(contiguous: int, nbytes: int, threads: int) -> None:
    """A tile inside, tiles over the edges, and one beyond K."""
    shape, step = (64, 32), nbytes // 2
    x, k = 64 + 5 * step, 32 + 3 * step
    data = np.arange(1, x * k + 1).reshape(x, k) % 2039
    order: Any = "C" if contiguous == 1 else "F"
    matrix = np.array(data, np.float16, order=order)
    padded = np.zeros((128, 96), np.float16)
    padded[:x, :k] = data
    for tile, k_tile in itertools.product((0, 1), (0, 1, 2)):
        out = np.full(shape, np.nan, np.float16)
        arguments = (matrix, out, tile, k_tile, shape, contiguous, nbytes, threads)
        cute.compile(copy_tile, *arguments).simulate(
            *arguments, options=SimOptions(check_races=True, check_global=True)
        )
        wanted = padded[64 * tile : 64 * tile + 64, 32 * k_tile : 32 * k_tile + 32]
        assert (out == wanted).all()


SHAPES = ((32, 64), (96, 32), (128, 64), (192, 64), (256, 32))
SHARED = [(s, t) for s, t in itertools.product(SHAPES, (32, 128, 256)) if fits(s, t)]


def test_most_shapes_fit_most_threads() -> None:
    assert len(SHARED) == 14


@pytest.mark.parametrize(("shape", "threads"), SHARED)
@pytest.mark.parametrize("nbytes", [16, 8, 4, 2])
@pytest.mark.parametrize("contiguous", [0, 1])
def test_threads_and_values_divide_the_tile(
    shape: tuple[int, int], contiguous: int, nbytes: int, threads: int
) -> None:
    rows, values = thread_layouts(shape, contiguous, nbytes, threads)
    assert cute.size(rows) == threads
    assert cute.size(values) == max(nbytes // 2, 2)
    for mode in (0, 1):
        both = cute.size(rows, mode=[mode]) * cute.size(values, mode=[mode])
        assert shape[mode] % both == 0
