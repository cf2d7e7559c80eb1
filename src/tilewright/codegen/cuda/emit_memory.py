"""Pointers, allocation, loads, stores and plain copies.

Shared memory is one array, `smem`; each allocation is a typed pointer into it at a constant
offset.  Register arrays are C++ arrays, and pointers into them `array + constant`.
"""

from __future__ import annotations

from tilewright.codegen.cuda.analysis import access_of
from tilewright.codegen.cuda.emit_arith import define_vec
from tilewright.codegen.cuda.emitter import Emitter, emits
from tilewright.codegen.cuda.expr import (
    Access,
    Expr,
    call,
    name,
    number,
    pointer_cast,
    with_memory,
)
from tilewright.codegen.cuda.index_formula import Picked
from tilewright.codegen.cuda.operands import Place, Vec, array_vec, memory_vec
from tilewright.codegen.cuda.prelude import asm, function
from tilewright.codegen.cuda.spelling import alignment, ctype
from tilewright.errors import DTypeError, VerifyError
from tilewright.ir.core import Value
from tilewright.ir.ops import memory
from tilewright.ir.types import PtrType, Space
from tilewright.numeric.dtypes import DType, dtype


def pointer_type(value: Value) -> PtrType:
    t = value.type
    assert isinstance(t, PtrType), "constraint POINTER"
    return t


def shared_address(em: Emitter, value: Value) -> Expr:
    """The shared-window address of a pointer, as PTX instructions take it."""
    return call(em.prelude.use("smem_u32"), em.place(value).pointer())


@emits(memory.AllocShared)
def alloc_shared(em: Emitter, op: memory.AllocShared) -> None:
    if op.offset < 0:
        raise VerifyError(
            f"mem.alloc_shared {op.label!r} has no offset: the pass shared_layout has not run",
            loc=op.loc,
        )
    t = pointer_type(op.result)
    text = em.names.fresh(op.label or op.result.name or "buffer")
    where = f"smem + {op.offset}" if op.offset else "smem"
    target = f"({where})" if op.offset else where
    em.out.line(f"{ctype(t.dtype, op.loc)}* {text} = ({ctype(t.dtype)}*){target};")
    em.set(op.result, Place(name(text), None, t))


@emits(memory.AllocRegisters)
def alloc_registers(em: Emitter, op: memory.AllocRegisters) -> None:
    t = dtype(op.dtype)
    spelled = ctype(t, op.loc)
    text = em.names.fresh(op.label or op.result.name or "r")
    em.out.line(f"{alignment(t, op.count)}{spelled} {text}[{op.count}];")
    em.set(op.result, Place(name(text), None, pointer_type(op.result)))


@emits(memory.Offset)
def offset(em: Emitter, op: memory.Offset) -> None:
    base, index = em.place(op.base), em.expr(op.index)
    t = pointer_type(op.result)
    if base.index is None:
        place = Place(base.base, index, t, base.const)
    elif base.index.literal or t.space is not Space.GMEM:
        # No sum of offsets inside a block's memory overflows an int.
        total = Place(base.base, base.index, t).plus(index).binary
        assert total is not None, "a pointer with an offset is a sum"
        place = Place(base.base, total[2], t, base.const)
    else:
        place = Place(base.pointer(), index, t, base.const)
    em.define(op.result, place)


@emits(memory.CastPointer)
def cast_pointer(em: Emitter, op: memory.CastPointer) -> None:
    base, t = em.place(op.base), pointer_type(op.result)
    spelled = ctype(t.dtype, op.loc)
    if spelled == ctype(base.type.dtype):
        em.define(op.result, Place(base.base, base.index, t, base.const))
        return
    const = "const " if base.const else ""
    em.define(
        op.result, Place(pointer_cast(f"{const}{spelled}*", base.pointer()), None, t, base.const)
    )


@emits(memory.MapShared)
def map_shared(em: Emitter, op: memory.MapShared) -> None:
    # Loads and stores through the generic address are the same instructions as those of
    # shared::cluster (LD.E, ST.E).
    text = function(
        "void* map_shared(const void* p, u32 rank)",
        "u64 peer;",
        asm(
            "mapa.u64 %0, %1, %2;", '"=l"(peer)', '"l"(p), "r"(rank)', memory=False, volatile=False
        ),
        "return (void*)peer;",
    )
    t = pointer_type(op.result)
    mapped = call(em.prelude.use("map_shared", text), em.place(op.base).pointer(), em.expr(op.rank))
    em.define(op.result, Place(pointer_cast(f"{ctype(t.dtype, op.loc)}*", mapped), None, t))


def cluster_address(em: Emitter, value: Value) -> Expr:
    """The shared::cluster address of a pointer to distributed shared memory."""
    text = function(
        "u32 cluster_u32(const void* p)",
        "u32 address;",
        asm(
            "{\n.reg .u64 t;\ncvta.to.shared::cluster.u64 t, %1;\ncvt.u32.u64 %0, t;\n}",
            '"=r"(address)',
            '"l"(p)',
            memory=False,
            volatile=False,
        ),
        "return address;",
    )
    return call(em.prelude.use("cluster_u32", text), em.place(value).pointer())


@emits(memory.SharedAddress)
def address(em: Emitter, op: memory.SharedAddress) -> None:
    em.define(op.result, shared_address(em, op.base))


@emits(memory.GlobalAddress)
def global_address(em: Emitter, op: memory.GlobalAddress) -> None:
    em.define(op.result, pointer_cast("i64", em.place(op.base).pointer()))


@emits(memory.Load)
def load(em: Emitter, op: memory.Load) -> None:
    place, access = em.place(op.base), access_of(op.base)
    t = place.type
    if not op.count:
        em.define(op.result, with_memory(place.value(), frozenset((access,))))
    elif t.space is Space.RMEM:
        em.define(op.result, memory_vec(place, t.dtype, op.count, access))
    elif em.facts.uses.get(op.result, 0):
        array = em.array(t.dtype, op.count, op.result.name)
        size = t.dtype.bytes_for(op.count)
        em.out.line(f"{mover(em, size)}({array}, {place.pointer().text});")
        em.set(op.result, array_vec(array, t.dtype, op.count))


def mover(em: Emitter, size: int) -> str:
    """The helper that copies `size` bytes in one access."""
    return em.prelude.use(f"copy{size}")


@emits(memory.Store)
def store(em: Emitter, op: memory.Store) -> None:
    place, value = em.place(op.base), em.operand(op.value)
    write = access_of(op.base)
    if not isinstance(value, Vec):
        e = value.pointer() if isinstance(value, Place) else value
        em.statement(op, f"{place.value().text} = {e.short};")
        return
    if place.type.space is Space.RMEM:
        value = _apart(em, op.value, value, write)
        em.flush((write,))
        em.fill(place, value)
        return
    t = place.type.dtype
    size = t.bytes_for(value.count)
    source = value.place
    if value.count == 1:
        em.statement(op, f"{place.value().text} = {value.element(number(0)).short};")
        return
    if source is None or source.type.align % size or source.type.space is not Space.RMEM:
        held = em.constant(value, op.value.type, op.value.name)
        assert isinstance(held, Vec), "a vector is held in an array"
        source = held.place
        assert source is not None, "an array lies somewhere"
    em.statement(op, f"{mover(em, size)}({place.pointer().text}, {source.pointer().text});")


def _apart(em: Emitter, value: Value, vec: Vec, write: Access) -> Vec:
    """`vec`, copied first if writing it element by element would change elements still to come.

    Reading element `i` and writing it in place is fine; anything else of the same array is not.
    """
    clashes = [a for a in vec.memory if a.conflicts(write)]
    if all(vec.pointwise and a == write and a.offset is not None for a in clashes):
        return vec
    held = em.constant(vec, value.type, value.name)
    assert isinstance(held, Vec), "a vector is held in an array"
    return held


@emits(memory.Gather)
def gather(em: Emitter, op: memory.Gather) -> None:
    place, access = em.place(op.base), access_of(op.base)
    t, picked = place.type, Picked(op.indices)
    whole = memory_vec(place, t.dtype, len(op.indices), access)
    if op.indices == tuple(range(len(op.indices))):
        em.define(op.result, whole)
        return
    packed = whole.pair if picked.pairs else None
    define_vec(
        em,
        op.result,
        lambda i: whole.element(picked(i)),
        [whole],
        (lambda i: packed(picked(i))) if packed else None,
        symbolic=picked.symbolic,
        pointwise=False,
        free=True,
    )


@emits(memory.Scatter)
def scatter(em: Emitter, op: memory.Scatter) -> None:
    place, value = em.place(op.base), em.vec(op.value)
    write = access_of(op.base)
    in_order = op.indices == tuple(range(len(op.indices)))
    if in_order:
        value = _apart(em, op.value, value, write)
    elif any(a.conflicts(write) for a in value.memory):
        held = em.constant(value, op.value.type, op.value.name)
        assert isinstance(held, Vec), "a vector is held in an array"
        value = held
    em.flush((write,))
    em.fill(place, value, None if in_order else op.indices)


@emits(memory.Copy)
def copy(em: Emitter, op: memory.Copy) -> None:
    source, target = em.place(op.src), em.place(op.dst)
    predicate = em.expr(op.predicate[0]) if op.predicate else None
    guard = "" if predicate is None else f"if ({predicate.text}) "
    size = 8 * op.bytes // source.type.dtype.storage_bits
    loose = any(p.type.space is Space.RMEM and p.type.align % op.bytes for p in (source, target))
    if not loose:
        both = f"{target.pointer().text}, {source.pointer().text}"
        if size == 1:
            text = f"{target.value().text} = {source.value().text};"
            if ctype(source.type.dtype) == ctype(target.type.dtype):
                em.statement(op, guard + text)
                return
        em.statement(op, f"{guard}{mover(em, op.bytes)}({both});")
        return
    em.flush(em.facts.writes(op))
    # The registers start at an odd element: through an aligned array, which costs nothing.
    if guard:
        em.out.line(guard + "{")
    with em.scope(), em.out.indented():
        _copy_loose(em, source, target, size, op.bytes)
    if guard:
        em.out.line("}")


def _copy_loose(em: Emitter, source: Place, target: Place, count: int, size: int) -> None:
    t = source.type.dtype
    held = em.array(t, count)
    vec = array_vec(held, t, count)
    if source.type.space is Space.RMEM:
        em.fill(
            Place(name(held), None, PtrType(t, Space.RMEM, 16)), memory_vec(source, t, count, None)
        )
    else:
        em.out.line(f"{mover(em, size)}({held}, {source.pointer().text});")
    if target.type.space is Space.RMEM:
        em.fill(target, vec)
    else:
        em.out.line(f"{mover(em, size)}({target.pointer().text}, {held});")


_ATOMIC_SPACE = {Space.GMEM: "global", Space.SMEM: "shared", Space.DSMEM: "shared::cluster"}
_SUM = {"i32": "u32", "u32": "u32", "i64": "u64", "u64": "u64"}


@emits(memory.Atomic)
def atomic(em: Emitter, op: memory.Atomic) -> None:
    t = pointer_type(op.base)
    suffix = _atomic_type(op, t.dtype)
    space = _ATOMIC_SPACE[t.space]
    place = space.removeprefix("shared::")
    where, into = "u32 p", '"r"(p)'
    if t.space is Space.SMEM:
        pointer = shared_address(em, op.base)
    elif t.space is Space.DSMEM:
        pointer = cluster_address(em, op.base)
    else:
        pointer, where, into = em.place(op.base).pointer(), "const void* p", '"l"(p)'
    c = ctype(t.dtype)
    register = {"float": "f", "double": "d"}.get(c) or {16: "h", 32: "r", 64: "l"}[t.dtype.bits]
    helper = f"atomic_{op.kind}_{t.dtype.name}_{place}_{op.semantics}_{op.scope}"
    statement = asm(
        f"atom.{op.semantics}.{op.scope}.{space}.{op.kind}.{suffix} %0, [%1], %2;",
        f'"={register}"(old)',
        f'{into}, "{register}"(value)',
    )
    em.prelude.use(
        helper, function(f"{c} {helper}({where}, {c} value)", f"{c} old;", statement, "return old;")
    )
    em.effect_value(op, call(helper, pointer, em.expr(op.value)))


def _atomic_type(op: memory.Atomic, t: DType) -> str:
    kind = op.kind
    if kind == "add":
        known = {**_SUM, "f32": "f32", "f64": "f64", "f16": "noftz.f16", "bf16": "noftz.bf16"}
        suffix = known.get(t.name)
    elif kind in ("min", "max"):
        suffix = {"i32": "s32", "u32": "u32", "i64": "s64", "u64": "u64"}.get(t.name)
    else:
        whole = t.is_integer or kind == "exch"
        suffix = {32: "b32", 64: "b64"}.get(t.bits) if whole else None
    if suffix is None:
        raise DTypeError(
            f"mem.atomic {kind} on {t.name}: the hardware has no such instruction",
            loc=op.loc,
            hint="add takes f16 bf16 f32 f64 and 32- or 64-bit integers; min, max, and, or, xor "
            "take 32- or 64-bit integers; exch any type of 32 or 64 bits",
        )
    return suffix
