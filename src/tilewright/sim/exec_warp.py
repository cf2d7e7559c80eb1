"""What the lanes of a warp do together, and the registers that say who a thread is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir.core import Op
from tilewright.ir.ops import sync
from tilewright.sim.group import Group
from tilewright.sim.step import Context, Step, executes
from tilewright.sim.values import Array, narrow, spread

WARP = 32


def check_full(g: Group, op: Op) -> None:
    """Reports an instruction for whole warps that only some lanes of a warp execute."""
    if g.full:
        return
    warps, counts = np.unique(g.threads >> 5, return_counts=True)
    size = g.cta.size
    whole = np.minimum(WARP, size - WARP * warps)
    i = int(np.argmax(counts != whole))
    lane = int(np.searchsorted(g.threads, warps[i] * WARP))
    g.report(
        "aligned_divergence",
        f"{op.name} is executed by {counts[i]} of the {whole[i]} lanes of warp {warps[i]}; "
        "all lanes of a warp must execute it together",
        op,
        lane,
        hint="move it out of the divergent branch",
    )


@executes(sync.ElectOne)
def elect(op: sync.ElectOne, context: Context) -> Step:
    """The lowest lane of each warp that is in the group."""
    out = context.slot(op.result)

    def step(g: Group) -> None:
        check_full(g, op)
        if g.n == 1:
            g.slots[out] = True
            return
        warps = g.threads >> 5
        g.slots[out] = np.concatenate(([True], warps[1:] != warps[:-1]))

    return step


def _by_warp(v: Array, fill: Any = 0) -> Array:
    """[threads] as [warps, 32]; a last warp that is not whole is filled up."""
    missing = -len(v) % WARP
    if missing:
        v = np.concatenate((v, np.full(missing, fill, v.dtype)))
    return v.reshape(-1, WARP)


@executes(sync.WarpShuffle)
def shuffle(op: sync.WarpShuffle, context: Context) -> Step:
    ia, il, out = context.slot(op.a), context.slot(op.lane), context.slot(op.result)
    t, lane_type, mode, width = op.a.type, op.lane.type, op.mode, op.width
    lanes = np.arange(WARP)
    first = lanes // width * width

    def source(arg: Array) -> Array:
        """The lane each lane reads, within its segment of `width` lanes."""
        if mode == "idx":
            return np.asarray(first + arg % width)
        wanted = {"up": lanes - arg, "down": lanes + arg, "bfly": lanes ^ arg}[mode]
        # NOTE: a butterfly may leave its segment for a lower one (PTX ISA, shfl: only the upper
        # bound counts; an H200 does the same).
        outside = wanted >= first + width
        if mode == "up":
            outside = wanted < first
        return np.asarray(np.where(outside, lanes, wanted))

    def step(g: Group) -> None:
        check_full(g, op)
        a = g.slots[ia]
        if type(a) is not np.ndarray or not g.full:
            g.slots[out] = a
            return
        rows = _by_warp(spread(a, t, g.n))
        arg = g.slots[il]
        if type(arg) is np.ndarray:
            arg = _by_warp(spread(arg, lane_type, g.n).astype(np.int64))
        where = np.broadcast_to(source(arg), rows.shape)
        g.slots[out] = np.take_along_axis(rows, where, 1).reshape(-1)[: g.n]

    return step


@executes(sync.WarpVote)
def vote(op: sync.WarpVote, context: Context) -> Step:
    ia, out, mode = context.slot(op.a), context.slot(op.results[0]), op.mode
    bits = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
    of_rows: dict[str, Callable[[Array], Array]] = {
        "any": lambda rows: np.asarray(rows.any(axis=1)),
        "all": lambda rows: np.asarray(rows.all(axis=1)),
        "ballot": lambda rows: (rows * bits).sum(axis=1, dtype=np.uint32),
    }

    def step(g: Group) -> None:
        check_full(g, op)
        a = g.slots[ia]
        if type(a) is not np.ndarray and mode != "ballot":
            g.slots[out] = a
            return
        votes = np.array(np.broadcast_to(a, (g.n,)), np.bool_)
        if not g.full:
            g.slots[out] = _partial_vote(g, votes, mode)
            return
        per_warp = of_rows[mode](_by_warp(votes, mode == "all"))
        g.slots[out] = narrow(np.repeat(per_warp, WARP)[: g.n])

    return step


def _partial_vote(g: Group, votes: Array, mode: str) -> Array:
    """The vote among the lanes that are here."""
    warps = g.threads >> 5
    made: Array = np.zeros(g.n, np.uint32 if mode == "ballot" else np.bool_)
    for w in np.unique(warps):
        mine = warps == w
        if mode == "ballot":
            made[mine] = sum(1 << int(t & 31) for t in g.threads[mine & votes])
        else:
            made[mine] = votes[mine].any() if mode == "any" else votes[mine].all()
    return made


@executes(sync.WarpUniform)
def uniform(op: sync.WarpUniform, context: Context) -> Step:
    ia, out = context.slot(op.a), context.slot(op.result)

    def step(g: Group) -> None:
        check_full(g, op)
        a = g.slots[ia]
        if type(a) is not np.ndarray or not g.full:
            g.slots[out] = a
            return
        g.slots[out] = narrow(np.repeat(_by_warp(a)[:, 0], WARP)[: g.n])

    return step


# -- special registers ---------------------------------------------------------------------------


@executes(sync.Special)
def special(op: sync.Special, context: Context) -> Step:
    out = context.slot(op.result)
    plain = _PLAIN.get(op.register)
    read = plain or _WITH_AXIS[op.register](op.axis)

    def step(g: Group) -> None:
        g.slots[out] = read(g)

    return step


Read = Callable[[Group], Any]


def _thread_idx(axis: int) -> Read:
    def read(g: Group) -> Any:
        if g.run.block[axis] == 1:
            return 0
        return narrow(g.run.thread_idx[axis][g.rows])

    return read


def _smid(g: Group) -> int:
    """One SM runs everything."""
    del g
    return 0


# 'clock' grows, and that is all it promises: see `state.Run`.
_WITH_AXIS: dict[str, Callable[[int], Read]] = {
    "thread_idx": _thread_idx,
    "block_idx": lambda axis: lambda g: g.cta.index[axis],
    "block_dim": lambda axis: lambda g: g.run.block[axis],
    "grid_dim": lambda axis: lambda g: g.run.grid[axis],
    "cluster_dim": lambda axis: lambda g: g.run.cluster[axis],
    "block_in_cluster": lambda axis: lambda g: g.cta.inside[axis],
}
_PLAIN: dict[str, Read] = {
    "cluster_rank": lambda g: g.cta.rank,
    "lane": lambda g: narrow((g.threads & 31).astype(np.int32)),
    "smid": _smid,
    "clock": lambda g: g.run.clock(g),
}
