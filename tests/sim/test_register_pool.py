"""Blocks that share an SM share its registers: what `setmaxnreg` may take of them."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import cute
from tilewright.cute import arch
from tilewright.dsl import Constexpr, Float32
from tilewright.errors import SimulationError


@cute.kernel
def take_kernel(y, wanted: Constexpr):
    t = arch.thread_idx()[0]
    if t < 128:
        arch.setmaxregister_decrease(32)
    else:
        arch.setmaxregister_increase(wanted)
    y[t] = Float32(1.0)


@cute.jit
def take(y, wanted: Constexpr, blocks: Constexpr):
    take_kernel(y, wanted).launch(grid=1, block=256, min_blocks_per_mp=blocks)


@pytest.mark.parametrize(("blocks", "wanted"), [(2, 224), (3, 128), (4, 96)])
def test_what_the_producer_leaves_is_there(blocks: int, wanted: int) -> None:
    y = np.zeros(256, np.float32)
    take(y, wanted, blocks)
    assert (y == 1).all()
    with pytest.raises(SimulationError, match=f"{wanted + 8} registers per thread; the block has"):
        take(y, wanted + 8, blocks)


def test_a_block_that_has_all_of_them_cannot_take_more() -> None:
    with pytest.raises(SimulationError, match="increase the registers per thread from 256 to 232"):
        take(np.zeros(256, np.float32), 232, 1)
