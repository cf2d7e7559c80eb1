"""Copy instructions: matrix loads and stores, cp.async and TMA, each through one PTX helper."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.cuda.emit_memory import shared_address
from tilewright.codegen.cuda.emitter import Emitter, emits
from tilewright.codegen.cuda.expr import Expr, call, literal
from tilewright.codegen.cuda.prelude import asm, function
from tilewright.ir.core import Op, Value
from tilewright.ir.ops import copy
from tilewright.numeric.dtypes import U64


def issue(em: Emitter, op: Op, helper: str, text: str, *args: Expr) -> None:
    """A statement that calls `helper`, which is `text`."""
    em.prelude.use(helper, text)
    em.statement(op, call(helper, *args).text + ";")


def numbered(template: str, count: int, first: int = 0) -> str:
    """`count` PTX operands: `%0, %1, ...`."""
    return ", ".join(template.format(first + i) for i in range(count))


@emits(copy.LdMatrix)
def ldmatrix(em: Emitter, op: copy.LdMatrix) -> None:
    helper = f"ldmatrix_x{op.num}" + ("_trans" if op.transpose else "")
    shape = f"m8n8.x{op.num}{'.trans' if op.transpose else ''}"
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(op.num))
    body = asm(
        f"ldmatrix.sync.aligned.{shape}.shared.b16 {{{numbered('%{}', op.num)}}}, [%{op.num}];",
        outputs,
        '"r"(row)',
    )
    text = function(f"void {helper}(void* dst, u32 row)", "u32* r = (u32*)dst;", body)
    target, row = em.place(op.dst).pointer(), shared_address(em, op.src)
    issue(em, op, helper, text, target, row)


@emits(copy.StMatrix)
def stmatrix(em: Emitter, op: copy.StMatrix) -> None:
    helper = f"stmatrix_x{op.num}" + ("_trans" if op.transpose else "")
    shape = f"m8n8.x{op.num}{'.trans' if op.transpose else ''}"
    inputs = ", ".join(['"r"(row)', *(f'"r"(r[{i}])' for i in range(op.num))])
    body = asm(
        f"stmatrix.sync.aligned.{shape}.shared.b16 [%0], {{{numbered('%{}', op.num, 1)}}};",
        "",
        inputs,
    )
    text = function(
        f"void {helper}(u32 row, const void* src)", "const u32* r = (const u32*)src;", body
    )
    row, source = shared_address(em, op.dst), em.place(op.src).pointer()
    issue(em, op, helper, text, row, source)


@emits(copy.CpAsync)
def cp_async(em: Emitter, op: copy.CpAsync) -> None:
    masked = bool(op.predicate)
    helper = f"cp_async{op.bytes}_{op.cache}" + ("_zfill" if masked else "")
    size = ", %2" if masked else ""
    body = asm(
        f"cp.async.{op.cache}.shared.global [%0], [%1], {op.bytes}{size};",
        "",
        '"r"(dst), "l"(src)' + (f', "r"(valid ? {op.bytes} : 0)' if masked else ""),
    )
    text = function(
        f"void {helper}(u32 dst, const void* src{', bool valid' if masked else ''})", body
    )
    args = [shared_address(em, op.dst), em.place(op.src).pointer()]
    issue(em, op, helper, text, *args, *(em.expr(p) for p in op.predicate))


def plain(em: Emitter, op: Op, helper: str, instruction: str) -> None:
    """An instruction without operands."""
    issue(em, op, helper, function(f"void {helper}()", asm(instruction)))


@emits(copy.CpAsyncCommit)
def cp_async_commit(em: Emitter, op: copy.CpAsyncCommit) -> None:
    plain(em, op, "cp_async_commit", "cp.async.commit_group;")


def counted(em: Emitter, op: Op, helper: str, instruction: str, pending: int) -> None:
    """An instruction that waits until `pending` groups are left."""
    body = asm(f"{instruction} %0;", "", '"n"(pending)')
    text = "template <int pending> " + function(f"void {helper}()", body)
    em.prelude.use(helper, text)
    em.statement(op, f"{helper}<{pending}>();")


@emits(copy.CpAsyncWait)
def cp_async_wait(em: Emitter, op: copy.CpAsyncWait) -> None:
    counted(em, op, "cp_async_wait", "cp.async.wait_group", op.pending)


@emits(copy.CpAsyncArrive)
def cp_async_arrive(em: Emitter, op: copy.CpAsyncArrive) -> None:
    body = asm("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];", "", '"r"(bar)')
    text = function("void cp_async_arrive(u32 bar)", body)
    issue(em, op, "cp_async_arrive", text, shared_address(em, op.barrier))


_AXES = ("x", "y", "z", "w", "v")
# createpolicy's encodings of the three plain policies (PTX ISA, "cache eviction priority").
_POLICY = {
    "evict_first": 0x12F0000000000000,
    "evict_last": 0x14F0000000000000,
    "evict_normal": 0x1000000000000000,
}


def tensor_map(em: Emitter, value: Value) -> Expr:
    """The address of a tensor map."""
    return Expr(f"&{em.expr(value).text}", 15)  # type: ignore[arg-type]


def coordinates(coords: Sequence[Value], first: int) -> tuple[str, str, str]:
    """Parameters, asm operands and PTX text of a box's corner."""
    axes = _AXES[: len(coords)]
    parameters = "".join(f", int {a}" for a in axes)
    inputs = "".join(f', "r"({a})' for a in axes)
    return parameters, inputs, f"{{{numbered('%{}', len(axes), first)}}}"


def _tma_load(em: Emitter, op: copy.TmaLoad | copy.TmaLoadMulticast, mask: Expr | None) -> None:
    rank = len(op.coords)
    parameters, inputs, corner = coordinates(op.coords, 3)
    helper = f"tma_load_{rank}d"
    word = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes"
    tail, after = "", 3 + rank
    extra: list[Expr] = []
    if mask is not None:
        helper, word = f"{helper}_multicast", f"{word}.multicast::cluster"
        tail, after = f", %{after}", after + 1
        parameters, inputs = f"{parameters}, u16 mask", f'{inputs}, "h"(mask)'
        extra.append(mask)
    if op.cache_hint:
        helper, word = f"{helper}_hint", f"{word}.L2::cache_hint"
        tail = f"{tail}, %{after}"
        parameters, inputs = f"{parameters}, u64 policy", f'{inputs}, "l"(policy)'
        extra.append(literal(_POLICY[op.cache_hint], U64))
    body = asm(
        f"{word} [%0], [%1, {corner}], [%2]{tail};", "", f'"r"(dst), "l"(map), "r"(bar){inputs}'
    )
    text = function(f"void {helper}(u32 dst, const TensorMap* map, u32 bar{parameters})", body)
    issue(
        em,
        op,
        helper,
        text,
        shared_address(em, op.dst),
        tensor_map(em, op.tensormap),
        shared_address(em, op.barrier),
        *(em.expr(c) for c in op.coords),
        *extra,
    )


@emits(copy.TmaLoad)
def tma_load(em: Emitter, op: copy.TmaLoad) -> None:
    _tma_load(em, op, None)


@emits(copy.TmaLoadMulticast)
def tma_load_multicast(em: Emitter, op: copy.TmaLoadMulticast) -> None:
    _tma_load(em, op, em.expr(op.mask))


@emits(copy.TmaStore)
def tma_store(em: Emitter, op: copy.TmaStore) -> None:
    rank = len(op.coords)
    parameters, inputs, corner = coordinates(op.coords, 2)
    helper = f"tma_store_{rank}d"
    word = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group"
    body = asm(f"{word} [%0, {corner}], [%1];", "", f'"l"(map), "r"(src){inputs}')
    text = function(f"void {helper}(const TensorMap* map, u32 src{parameters})", body)
    issue(
        em,
        op,
        helper,
        text,
        tensor_map(em, op.tensormap),
        shared_address(em, op.src),
        *(em.expr(c) for c in op.coords),
    )


@emits(copy.BulkCommit)
def bulk_commit(em: Emitter, op: copy.BulkCommit) -> None:
    plain(em, op, "tma_commit", "cp.async.bulk.commit_group;")


@emits(copy.BulkWait)
def bulk_wait(em: Emitter, op: copy.BulkWait) -> None:
    if op.read:
        counted(em, op, "tma_wait_read", "cp.async.bulk.wait_group.read", op.pending)
    else:
        counted(em, op, "tma_wait", "cp.async.bulk.wait_group", op.pending)


@emits(copy.PrefetchDescriptor)
def prefetch_descriptor(em: Emitter, op: copy.PrefetchDescriptor) -> None:
    body = asm("prefetch.tensormap [%0];", "", '"l"(map)')
    text = function("void prefetch_tensor_map(const TensorMap* map)", body)
    issue(em, op, "prefetch_tensor_map", text, tensor_map(em, op.tensormap))
