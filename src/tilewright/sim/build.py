"""Builds the program of a kernel, once per function.

Every SSA value has a slot.  Constants are written into the slots beforehand and cost no step; the
results of a loop share the slots of its carried values.
"""

from __future__ import annotations

from weakref import finalize

from tilewright.errors import VerifyError
from tilewright.ir.core import Block, Func, Value, count_uses
from tilewright.ir.ops import arith, bulk, control, copy, memory, mma, sync
from tilewright.sim import (
    exec_arith,
    exec_bulk,
    exec_copy,
    exec_memory,
    exec_mma,
    exec_order,
    exec_record,
    exec_sync,
    exec_warp,
)
from tilewright.sim.exec_control import FLATTEN, Flattener
from tilewright.sim.program import Program
from tilewright.sim.step import EXECUTORS, Context
from tilewright.sim.values import Val

FAMILIES = (
    *(exec_arith, exec_bulk, exec_copy, exec_memory, exec_mma, exec_order, exec_record),
    *(exec_sync, exec_warp),
)
"""The modules whose import fills `EXECUTORS`."""

_VISIBLE = (
    *(sync.SyncThreads, sync.BarrierSync, sync.BarrierArrive, sync.ClusterArrive),
    *(sync.ClusterWait, sync.MBarrierArrive, sync.MBarrierArriveRemote, sync.MBarrierExpectTx),
    *(sync.MBarrierArriveExpectTx, sync.MBarrierWait, sync.MBarrierTryWait, memory.Atomic),
    *(copy.TmaLoad, copy.TmaLoadMulticast, copy.TmaStore, copy.BulkWait, copy.CpAsyncWait),
    *(copy.CpAsyncArrive, bulk.BulkLoad, bulk.BulkStore, bulk.BulkReduce, bulk.BulkSend),
    *(bulk.BulkLoadMulticast, bulk.StoreAsync, bulk.TmaReduce, mma.WgmmaWait, control.Return),
)
_WHOLE_WARPGROUPS = (mma.Wgmma, mma.WgmmaRs, mma.WgmmaFence, sync.SetMaxRegister)

_CACHE: dict[int, Program] = {}
"""By the identity of a live `Func`, which is not hashable."""


def program_of(func: Func) -> Program:
    """The program of a kernel, built at the first call and kept as long as the kernel lives."""
    key = id(func)
    found = _CACHE.get(key)
    if found is None or found.body is not func.body:
        found = _CACHE[key] = _build(func)
        finalize(func, _CACHE.pop, key, None)
    return found


def _build(func: Func) -> Program:
    slots, template = _assign_slots(func.body)
    ops = list(func.body.walk())
    tracks = any(isinstance(op, mma.Wgmma | mma.WgmmaRs) for op in ops)
    context = Context(slots, count_uses(func.body), tracks)
    flat = Flattener(context)
    _flatten(func.body, flat)
    return Program(
        func_name=func.name,
        body=func.body,
        steps=flat.steps,
        ops=flat.ops,
        template=template,
        args=[slots[v] for v in func.args],
        arg_types=[v.type for v in func.args],
        register_arrays=context.register_arrays,
        allocations=[op for op in ops if isinstance(op, memory.AllocShared)],
        waits_for_copies=any(isinstance(op, copy.CpAsyncWait) for op in ops),
        visible=[isinstance(op, _VISIBLE) for op in flat.ops],
        unit=128 if any(isinstance(op, _WHOLE_WARPGROUPS) for op in ops) else 32,
    )


def _assign_slots(body: Block) -> tuple[dict[Value, int], list[Val]]:
    slots: dict[Value, int] = {}
    template: list[Val] = []

    def place(values: list[Value] | tuple[Value, ...], like: tuple[int, ...] = ()) -> None:
        for i, v in enumerate(values):
            slots[v] = like[i] if like else len(template)
            if not like:
                template.append(None)

    def visit(block: Block) -> None:
        place(block.args)
        for op in block.ops:
            for inner in op.regions:
                visit(inner)
            shared: tuple[int, ...] = ()
            if isinstance(op, control.For):
                shared = tuple(slots[v] for v in op.body.args[1:])
            elif isinstance(op, control.While):
                shared = tuple(slots[v] for v in op.body.args)
            place(op.results, shared)
            if isinstance(op, arith.Constant):
                template[slots[op.result]] = exec_arith.constant(op)

    visit(body)
    return slots, template


def _flatten(block: Block, flat: Flattener) -> None:
    for op in block.ops:
        if isinstance(op, arith.Constant):
            continue
        flatten = FLATTEN.get(type(op))
        if flatten is not None:
            flatten(op, flat, _flatten)
            continue
        executor = EXECUTORS.get(type(op))
        if executor is None:
            raise VerifyError(
                f"simulate: there is no executor for {op.name}; the simulator runs the operations "
                "of kernels, not those of host functions",
                loc=op.loc,
            )
        flat.emit(executor(op, flat.context), op)
