"""Bulk copies and reductions, and asynchronous stores to other CTAs, through one helper each."""

from __future__ import annotations

from tilewright.codegen.cuda.emit_copy import coordinates, issue, tensor_map
from tilewright.codegen.cuda.emit_memory import cluster_address, pointer_type, shared_address
from tilewright.codegen.cuda.emitter import Emitter, emits
from tilewright.codegen.cuda.operands import Vec
from tilewright.codegen.cuda.prelude import asm, function
from tilewright.ir.ops import bulk

_COUNTED = "mbarrier::complete_tx::bytes"


@emits(bulk.BulkLoad)
def bulk_load(em: Emitter, op: bulk.BulkLoad) -> None:
    body = asm(
        f"cp.async.bulk.shared::cluster.global.{_COUNTED} [%0], [%1], %2, [%3];",
        "",
        '"r"(dst), "l"(src), "r"(bytes), "r"(bar)',
    )
    text = function("void bulk_load(u32 dst, const void* src, u32 bytes, u32 bar)", body)
    dst, src = shared_address(em, op.dst), em.place(op.src).pointer()
    size, barrier = em.expr(op.bytes), shared_address(em, op.barrier)
    issue(em, op, "bulk_load", text, dst, src, size, barrier)


@emits(bulk.BulkLoadMulticast)
def bulk_load_multicast(em: Emitter, op: bulk.BulkLoadMulticast) -> None:
    body = asm(
        f"cp.async.bulk.shared::cluster.global.{_COUNTED}.multicast::cluster "
        "[%0], [%1], %2, [%3], %4;",
        "",
        '"r"(dst), "l"(src), "r"(bytes), "r"(bar), "h"(mask)',
    )
    helper = "bulk_load_multicast"
    text = function(f"void {helper}(u32 dst, const void* src, u32 bytes, u32 bar, u16 mask)", body)
    dst, src = shared_address(em, op.dst), em.place(op.src).pointer()
    size, barrier = em.expr(op.bytes), shared_address(em, op.barrier)
    issue(em, op, helper, text, dst, src, size, barrier, em.expr(op.mask))


@emits(bulk.BulkStore)
def bulk_store(em: Emitter, op: bulk.BulkStore) -> None:
    body = asm(
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;",
        "",
        '"l"(dst), "r"(src), "r"(bytes)',
    )
    text = function("void bulk_store(void* dst, u32 src, u32 bytes)", body)
    dst, src = em.place(op.dst).pointer(), shared_address(em, op.src)
    issue(em, op, "bulk_store", text, dst, src, em.expr(op.bytes))


_BITWISE = ("and", "or", "xor")
_PTX_TYPE = {"i32": "s32", "i64": "s64"}


def reduction_type(kind: str, name: str) -> str:
    """The type of a reduction as PTX writes it.

    >>> [reduction_type(*x) for x in (("add", "bf16"), ("add", "i64"), ("max", "i32"))]
    ['noftz.bf16', 'u64', 's32']
    """
    if kind in _BITWISE:
        return "b64" if name in ("i64", "u64") else "b32"
    if kind == "add" and name in ("f16", "bf16"):
        return f"noftz.{name}"
    if kind == "add" and name == "i64":
        return "u64"  # two's complement: the same sum
    return _PTX_TYPE.get(name, name)


@emits(bulk.BulkReduce)
def bulk_reduce(em: Emitter, op: bulk.BulkReduce) -> None:
    element = pointer_type(op.src).dtype.name
    helper = f"bulk_reduce_{op.kind}_{element}"
    body = asm(
        f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op.kind}."
        f"{reduction_type(op.kind, element)} [%0], [%1], %2;",
        "",
        '"l"(dst), "r"(src), "r"(bytes)',
    )
    text = function(f"void {helper}(void* dst, u32 src, u32 bytes)", body)
    dst, src = em.place(op.dst).pointer(), shared_address(em, op.src)
    issue(em, op, helper, text, dst, src, em.expr(op.bytes))


@emits(bulk.BulkSend)
def bulk_send(em: Emitter, op: bulk.BulkSend) -> None:
    body = asm(
        f"cp.async.bulk.shared::cluster.shared::cta.{_COUNTED} [%0], [%1], %2, [%3];",
        "",
        '"r"(dst), "r"(src), "r"(bytes), "r"(bar)',
    )
    text = function("void bulk_send(u32 dst, u32 src, u32 bytes, u32 bar)", body)
    dst, src = cluster_address(em, op.dst), shared_address(em, op.src)
    size, barrier = em.expr(op.bytes), cluster_address(em, op.barrier)
    issue(em, op, "bulk_send", text, dst, src, size, barrier)


_SHAPE = {4: ("", 1), 8: (".v2", 2), 16: (".v4", 4)}


@emits(bulk.StoreAsync)
def store_async(em: Emitter, op: bulk.StoreAsync) -> None:
    shape, words = _SHAPE[op.size]
    helper = f"store_async{op.size}"
    listed = ", ".join(f"%{1 + i}" for i in range(words))
    value = f"{{{listed}}}" if words > 1 else listed
    inputs = "".join(f', "r"(w[{i}])' for i in range(words))
    body = asm(
        f"st.async.weak.shared::cluster.{_COUNTED}{shape}.b32 [%0], {value}, [%{1 + words}];",
        "",
        f'"r"(dst){inputs}, "r"(bar)',
    )
    text = function(
        f"void {helper}(u32 dst, const void* src, u32 bar)", "const u32* w = (const u32*)src;", body
    )
    held = em.constant(em.vec(op.value), op.value.type, op.value.name)
    assert isinstance(held, Vec), "a vector is held in an array"
    assert held.place is not None, "an array lies somewhere"
    dst, barrier = cluster_address(em, op.dst), cluster_address(em, op.barrier)
    issue(em, op, helper, text, dst, held.place.pointer(), barrier)


@emits(bulk.TmaReduce)
def tma_reduce(em: Emitter, op: bulk.TmaReduce) -> None:
    rank = len(op.coords)
    parameters, inputs, corner = coordinates(op.coords, 2)
    helper = f"tma_reduce_{op.kind}_{rank}d"
    word = (
        f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op.kind}.tile.bulk_group "
        f"[%0, {corner}], [%1];"
    )
    text = function(
        f"void {helper}(const TensorMap* map, u32 src{parameters})",
        asm(word, "", f'"l"(map), "r"(src){inputs}'),
    )
    corner_at = [em.expr(c) for c in op.coords]
    source = shared_address(em, op.src)
    issue(em, op, helper, text, tensor_map(em, op.tensormap), source, *corner_at)
