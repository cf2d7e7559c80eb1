"""`mma.sync` at once, for all warps of the group together; wgmma through its pipe."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.arch.mma.atom import MmaAtom
from tilewright.arch.mma.registry import mma_atom
from tilewright.ir.core import Op
from tilewright.ir.ops import mma
from tilewright.numeric.dtypes import DType
from tilewright.sim.exec_sync import tell
from tilewright.sim.exec_warp import WARP, check_full
from tilewright.sim.group import Group
from tilewright.sim.inflight import Wgmma, WgmmaPipe
from tilewright.sim.registers import RegisterArray
from tilewright.sim.state import Wait
from tilewright.sim.step import Context, Step, executes
from tilewright.sim.tensor_cores import (
    WARPGROUP,
    drain,
    inverse,
    row_major,
    widened,
)
from tilewright.sim.values import Array, Val


def _typed(pointer: Val, t: DType) -> tuple[RegisterArray, int]:
    """The register array as elements of the operand's type."""
    array, at = pointer
    if type(at) is not int:
        raise ValueError("an operand is at a register index that differs by thread")
    if array.dtype is t:
        return array, at
    return array.view(t), at * array.bits // t.storage_bits


@executes(mma.Mma)
def mma_sync(op: mma.Mma, context: Context) -> Step:
    atom = mma_atom(op.atom)
    slots = context.slots((op.d, op.a, op.b, op.c))
    if atom.kind == "fma":
        return _fma(op, atom, slots)
    m, n, k = atom.shape_mnk
    d_type, a_type, b_type, c_type = (atom.dtype(w) for w in ("D", "A", "B", "C"))
    counts = tuple(atom.num_values(w) for w in ("A", "B", "C"))
    # Where the values of a warp's fragments stand, as matrices [m, k], [k, n] and [m, n].
    places = (
        inverse(atom.layout_a).reshape(k, m).T,
        inverse(atom.layout_b).reshape(k, n),
        inverse(atom.layout_c).reshape(n, m).T,
    )
    d_places = row_major(atom.layout_c, m).reshape(-1)
    integer = d_type.is_integer

    def matrices(g: Group, pointer: Val, which: int, t: DType) -> Array:
        array, at = _typed(pointer, t)
        held = array.read(g, at, counts[which], op).reshape(g.n // WARP, -1)
        return np.asarray(held.take(places[which], axis=1))

    def step(g: Group) -> None:
        check_full(g, op)
        if not g.full or g.n % WARP:
            return
        s = g.slots
        a = widened(matrices(g, s[slots[1]], 0, a_type), a_type)
        b = widened(matrices(g, s[slots[2]], 1, b_type), b_type)
        c = matrices(g, s[slots[3]], 2, c_type)
        product = np.matmul(a, b)
        total = product.astype(np.int64) + c if integer else product + c.astype(product.dtype)
        array, at = _typed(s[slots[0]], d_type)
        held = total.reshape(g.n // WARP, m * n).take(d_places, axis=1).reshape(g.n, -1)
        array.write(g, at, counts[2], held.astype(array.data.dtype), op)
        g.run.counters.flops += 2 * m * n * k * (g.n // WARP)

    return step


def _fma(op: mma.Mma, atom: MmaAtom, slots: tuple[int, ...]) -> Step:
    """One fused multiply-add in each thread."""

    def step(g: Group) -> None:
        s = g.slots
        d = _typed(s[slots[0]], atom.d_dtype)
        a, b = _typed(s[slots[1]], atom.a_dtype), _typed(s[slots[2]], atom.b_dtype)
        c = _typed(s[slots[3]], atom.c_dtype)
        x, y, z = (array.read_one(g, at, op) for array, at in (a, b, c))
        dt = d[0].data.dtype
        if dt.kind in "iu" or dt == np.float64:
            value = x * y + z
        else:
            value = (np.multiply(x, y, dtype=np.float64) + z).astype(dt)
        d[0].write_one(g, d[1], value, op)
        g.run.counters.flops += 2 * g.n

    return step


# -- wgmma ---------------------------------------------------------------------------------------


def _whole_warpgroups(g: Group, op: Op) -> bool:
    if g.n == WARPGROUP * len(g.warpgroups):
        return True
    g.report(
        "aligned_divergence",
        f"{op.name} is executed by {g.n} threads; all 128 threads of a warpgroup must execute it "
        "together",
        op,
        0,
    )
    return False


def _pipe(g: Group, warpgroup: int) -> WgmmaPipe:
    found = g.cta.pipes.get(warpgroup)
    if found is None:
        found = g.cta.pipes[warpgroup] = WgmmaPipe()
    return found


def _of_warpgroup(g: Group, op: Op, v: Val, i: int, what: str) -> Any:
    """The value of the i-th warpgroup of the group: all its threads should agree on it."""
    if type(v) is not np.ndarray:
        return v
    mine = v[i * WARPGROUP : (i + 1) * WARPGROUP] if v.shape[0] > 1 else v
    if (mine != mine[0]).any():
        g.report(
            "descriptor",
            f"the threads of a warpgroup pass different values as {what} of {op.name}",
            op,
            i * WARPGROUP,
        )
    return mine[0].item()


@executes(mma.Wgmma, mma.WgmmaRs)
def wgmma(op: Any, context: Context) -> Step:
    atom = mma_atom(op.atom)
    i_d, i_a, i_b, i_add = context.slots((op.d, op.a, op.b, op.accumulate))
    from_registers = isinstance(op, mma.WgmmaRs)
    count = atom.num_values("C")

    def step(g: Group) -> None:
        if not _whole_warpgroups(g, op):
            return
        s = g.slots
        d, d_at = _typed(s[i_d], atom.d_dtype)
        if not 0 <= d_at <= d.count - count:
            d.read(g, d_at, count, op)  # reports the index
            return
        for i, w in enumerate(g.warpgroups):
            if from_registers:
                a: Any = _typed(s[i_a], atom.a_dtype)
            else:
                a = int(_of_warpgroup(g, op, s[i_a], i, "a"))
            b = int(_of_warpgroup(g, op, s[i_b], i, "b"))
            add = bool(_of_warpgroup(g, op, s[i_add], i, "accumulate"))
            _issue(g, op, w, Wgmma(op, atom, d, d_at, a, b, add))

    return step


def _issue(g: Group, op: Op, warpgroup: int, entry: Wgmma) -> None:
    pipe = _pipe(g, warpgroup)
    dirty = any(state.dirty[warpgroup] & mask for state, mask, _ in entry.spans())
    if dirty or not pipe.fenced:
        why = "its registers were written since the last one" if dirty else "none came before"
        g.report("fence", f"{op.name} needs a wgmma.fence before it: {why}", op, 0)
        pipe.fenced = True
    pending = any(
        e.d.data is entry.d.data and e.d_at == entry.d_at
        for group in (*pipe.groups, pipe.open)
        for e in group
    )
    if entry.accumulate and not pending:
        _check_written(g, op, warpgroup, entry.d, entry.d_at, entry.atom.num_values("C"))
    if type(entry.a) is tuple:
        array, at = entry.a
        _check_written(g, op, warpgroup, array, at, entry.atom.num_values("A"))
    pipe.open.append(entry)
    if g.run.watch is not None:
        entry.events = g.run.watch.wgmma(g, warpgroup, entry)
    for state, mask, accumulator in entry.spans():
        (state.busy if accumulator else state.busy_sources)[warpgroup] |= mask
        state.any_busy = 1


def _check_written(
    g: Group, op: Op, warpgroup: int, array: RegisterArray, at: int, count: int
) -> None:
    lo, hi = array.span(at, count)
    rows = slice(warpgroup * WARPGROUP, (warpgroup + 1) * WARPGROUP)
    if g.run.options.check_uninitialised and not array.state.valid[rows, lo:hi].all():
        g.report(
            "uninitialised",
            f"{op.name} reads registers of {array.state.label or '(unnamed)'} that nothing has "
            "written",
            op,
            0,
            hint="pass accumulate=False to the first one",
        )


@executes(mma.WgmmaFence)
def wgmma_fence(op: mma.WgmmaFence, context: Context) -> Step:
    del context

    def step(g: Group) -> None:
        if not _whole_warpgroups(g, op):
            return
        for w in g.warpgroups:
            _pipe(g, w).fenced = True
            for array in g.cta.registers:
                if array is not None:
                    array.state.dirty[w] = 0

    return step


@executes(mma.WgmmaCommit)
def wgmma_commit(op: mma.WgmmaCommit, context: Context) -> Step:
    del context

    def step(g: Group) -> None:
        if not _whole_warpgroups(g, op):
            return
        for w in g.warpgroups:
            pipe = _pipe(g, w)
            pipe.groups.append(pipe.open)
            pipe.open = []

    return step


class PipeWait(Wait):
    """Lets others run before the groups drain, so that what they overwrite too early is seen."""

    def __init__(self, op: Op, g: Group, pending: int) -> None:
        super().__init__(op)
        self.pending = pending
        self.asked = int(g.run.random.random() < g.run.eager)

    def ready(self) -> bool:
        self.asked += 1
        return self.asked > 1

    def finish(self, g: Group, *, timed_out: bool) -> None:
        del timed_out
        memo: dict[Any, Array] = {}
        for w in g.warpgroups:
            drain(g, w, _pipe(g, w), self.pending, memo)
        tell(g, "wait", "wgmma", self.op)

    def describe(self) -> str:
        return "the tensor cores"


@executes(mma.WgmmaWait)
def wgmma_wait(op: mma.WgmmaWait, context: Context) -> Step:
    del context
    pending = op.pending

    def step(g: Group) -> Wait | None:
        if not _whole_warpgroups(g, op):
            return None
        return PipeWait(op, g, pending)

    return step
