"""Pipelines in the simulator: where a role stands on a ring, and whose turn it is."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import cute, dsl
from tilewright.collective.pipeline import (
    OrderedSequenceBarrier,
    make_consumer_state,
    make_producer_state,
)
from tilewright.dsl import Constexpr, Int32


@cute.kernel
def walk_kernel(out: cute.Tensor, count: Int32, stages: Constexpr):
    one, many = make_producer_state(stages), make_consumer_state(stages)
    kept = many.clone()
    for _ in dsl.range(count):
        one.advance()
    many.skip(count)
    out[0], out[1] = one.index, one.phase
    out[2], out[3] = many.index, many.phase
    out[4], out[5] = kept.index, kept.phase


@cute.jit
def walk(out: cute.Tensor, count: Int32, stages: Constexpr):
    walk_kernel(out, count, stages).launch(grid=1, block=1)


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_skipping_is_advancing(stages: int) -> None:
    for count in range(4 * stages):
        out = np.full(6, -1, np.int32)
        walk(out, count, stages)
        index, turns = count % stages, count // stages % 2
        assert out.tolist() == [index, 1 - turns, index, turns, 0, 0]


@cute.kernel
def turns_kernel(out: cute.Tensor, rounds: Int32, groups: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    group = cute.arch.make_warp_uniform(tidx // 32)
    order = OrderedSequenceBarrier(1, groups, 32)
    order.start(group)
    for i in dsl.range(rounds):
        order.wait(group)
        if tidx % 32 == 0:
            # Only the group whose turn it is counts: no atomic is needed.
            out[i * groups + group] = out[groups * rounds]
            out[groups * rounds] = out[groups * rounds] + 1
        cute.arch.fence_acq_rel_cta()
        order.arrive(group)


@cute.jit
def take_turns(out: cute.Tensor, rounds: Int32, groups: Constexpr):
    turns_kernel(out, rounds, groups).launch(grid=1, block=32 * groups)


@pytest.mark.parametrize("groups", [2, 3])
def test_groups_take_turns(groups: int) -> None:
    out = np.zeros(4 * groups + 1, np.int32)
    take_turns(out, 4, groups)
    assert out.tolist() == list(range(4 * groups + 1))
