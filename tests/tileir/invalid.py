"""Modules with one thing wrong, or nearly: every operation, every field, values beside the right.

A change is made to one operation of a valid module that is read anew for it.  Some changes leave
the module valid; what counts is that two verifiers say the same of each.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tilewright.ir.core import Attribute, Block, Op, Value, optional, variadic
from tilewright.ir.ops.tile import control
from tilewright.ir.ops.tile.base import TileOp, enum_attr, flag, hints_attr, int_attr
from tilewright.ir.ops.tile.module import Entry, Global, Module
from tilewright.ir.ops.tile.shape import Constant
from tilewright.ir.tile_attrs import Bounded, DivBy, HintsAttr, SameElements, TypedAttr
from tilewright.ir.tile_types import (
    NUMBERS,
    TOKEN,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileIrType,
    TileType,
    ViewType,
    fault,
)

Change = Callable[[Block], None]
_ELEMENTS = ("i1", "i4", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")
_NARROW = ("tf32", "f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN", "fnv8E5M3FNU")
_INTEGERS = (-1, 0, 1, 2, 3, 7, 24, 128, 1 << 20)
_FORMATS = ("", "%d", "%f %f", "%d %d %d %d", "%s", "%%", "%", "%5.", "%lld %i", "%z")


def changes(block: Block) -> list[tuple[str, Change]]:
    """Every change that can be made to a module, named."""
    found: list[tuple[str, Change]] = []
    for number, op in enumerate(block.walk()):
        if isinstance(op, Module | Global):
            continue
        assert isinstance(op, TileOp), "the text holds Tile IR alone"
        for name, edit in _edits(op, _before(block, op)):
            found.append((f"{op.name}: {name}", partial(_apply, number, edit)))
    return found


def shuffled(counts: list[int], seed: int) -> list[tuple[int, int]]:
    """Every module's number with that of each of its changes, in an order of the seed's."""
    pairs = [(i, j) for i, count in enumerate(counts) for j in range(count)]
    random.Random(seed).shuffle(pairs)
    return pairs


Edit = Callable[[TileOp, Block, int], None]


def _apply(number: int, edit: Edit, block: Block) -> None:
    """Finds operation `number` in a module read anew, and changes it in its block."""
    op = next(op for i, op in enumerate(block.walk()) if i == number)
    assert isinstance(op, TileOp), "the text holds Tile IR alone"
    home = next(b for b in _blocks(block) if op in b.ops)
    edit(op, home, home.ops.index(op))


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for region in op.regions:
            yield from _blocks(region)


def _before(block: Block, wanted: Op) -> list[Value]:
    """The values that an operation may use."""
    for op in block.ops:
        if op is wanted:
            return []
        for region in op.regions:
            if any(wanted is inner for inner in region.walk()):
                own = [] if isinstance(op, Module) else list(region.args)
                for earlier in region.ops:
                    if earlier is wanted or any(
                        wanted is i for r in earlier.regions for i in r.walk()
                    ):
                        break
                    own += earlier.results
                return own + _before(region, wanted)
    return []


def _edits(op: TileOp, scope: list[Value]) -> Iterator[tuple[str, Edit]]:
    if not isinstance(op, Entry):
        yield from _result_edits(op)
        yield from _operand_edits(op, scope)
    for label, declared in op.ATTRS.items():
        for value in _attribute_values(label, declared, op.attrs[label]):
            yield f"{label} = {value}", partial(_set_attribute, label, value)
    yield from _region_edits(op)


# --- types --------------------------------------------------------------------------------------


def near(t: TileIrType) -> list[TileIrType]:
    """Types that differ from `t` in one thing."""
    found: list[TileIrType] = [TOKEN]
    if isinstance(t, TileType):
        found += [replace(t, element=NUMBERS[name]) for name in (*_ELEMENTS, *_NARROW)]
        found += [replace(t, element=PointerType(NUMBERS[name])) for name in ("f32", "i8")]
        if isinstance(t.element, PointerType):
            attributed = replace(t.element, ptr_attr="" if t.element.ptr_attr else "none")
            found.append(replace(t, element=attributed))
        found += [replace(t, shape=shape) for shape in _near_shapes(t.shape)]
    elif isinstance(t, TensorViewType):
        found += _near_tensors(t)
    elif isinstance(t, ViewType):
        found += _near_views(t)
    else:
        found = [TileType((), NUMBERS["i32"]), TileType((4,), NUMBERS["f32"])]
    return [other for other in found if other != t and not _deep_fault(other)]


def _deep_fault(t: TileIrType) -> str:
    """A type that is ill-formed in itself is refused by the reader, before any verifier."""
    inner = fault(t.view) if isinstance(t, ViewType) else ""
    return inner or fault(t)


def _near_shapes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    found = [(*shape, 1), (*shape, 2), (1, *shape), shape[::-1], shape[:-1], (1,) * len(shape)]
    for i, extent in enumerate(shape):
        found += [(*shape[:i], e, *shape[i + 1 :]) for e in (2 * extent, extent // 2)]
    return found


def _near_tensors(t: TensorViewType) -> list[TileIrType]:
    found: list[TileIrType] = [
        replace(t, element=NUMBERS["f16"]),
        replace(t, element=NUMBERS["i32"]),
        replace(t, shape=(*t.shape, 2), strides=(*t.strides, 1)),
        replace(t, shape=t.shape[1:], strides=t.strides[1:]),
        replace(t, ptr_attr="" if t.ptr_attr else "none"),
    ]
    for i in range(t.rank):
        for extent in (None, 1, 4):
            found.append(replace(t, shape=(*t.shape[:i], extent, *t.shape[i + 1 :])))
            found.append(replace(t, strides=(*t.strides[:i], extent, *t.strides[i + 1 :])))
    return found


def _near_views(t: ViewType) -> list[TileIrType]:
    tile, view, padding = t.tile, t.view, t.padding
    straight = tuple(range(len(tile)))
    found: list[TileIrType] = [
        PartitionViewType(tile, view, padding, straight),
        PartitionViewType(tile, view, padding, straight[::-1]),
        StridedViewType(tile, view, padding, tile, straight),
        StridedViewType(tile, view, padding, (1,) * len(tile), straight),
        *(GatherScatterViewType(tile, view, padding, d) for d in straight),
        *(replace(t, padding=p) for p in ("", "zero", "nan", "neg_inf")),
        *(replace(t, tile=shape) for shape in _near_shapes(tile)),
    ]
    found += [replace(t, view=v) for v in _near_tensors(view) if isinstance(v, TensorViewType)]
    return found


# --- results, operands, attributes, regions -----------------------------------------------------


def _result_edits(op: TileOp) -> Iterator[tuple[str, Edit]]:
    if isinstance(op, Constant):  # bytecode has one type for the value and the result
        return
    for i, value in enumerate(op.results):
        assert isinstance(value.type, TileIrType), "results have Tile IR types"
        for t in near(value.type):
            yield f"result {i} is {t}", partial(_set_result, i, t)
    if op.MORE_RESULTS is not None:
        yield "a result more", lambda o, _, __: _set_results(o, [*_types(o), NUMBERS_I32])
        if op.results:
            yield "a result less", lambda o, _, __: _set_results(o, _types(o)[:-1])


NUMBERS_I32 = TileType((), NUMBERS["i32"])


def _types(op: TileOp) -> list[Any]:
    return [v.type for v in op.results]


def _set_result(i: int, t: TileIrType, op: TileOp, home: Block, at: int) -> None:
    del home, at
    op.results[i].type = t


def _set_results(op: TileOp, types: list[Any]) -> None:
    kept = op.results[: len(types)]
    op.results = (*kept, *(Value(t, op) for t in types[len(kept) :]))


def _operand_edits(op: TileOp, scope: list[Value]) -> Iterator[tuple[str, Edit]]:
    kinds: dict[Any, int] = {}
    for index, value in enumerate(scope):
        kinds.setdefault(value.type, index)
    for i, value in enumerate(op.operands):
        for t, index in kinds.items():
            if t != value.type:
                yield f"operand {i} is {t}", partial(_set_operand, i, index)
    start = 0
    for g, group in enumerate(op.GROUPS):
        count = op.segments[g] if op.segments is not None else 1
        if isinstance(group, variadic) and op.segments is None:
            count = len(op.operands) - start
        if isinstance(group, variadic | optional) and count:
            yield f"without the last {group.label}", partial(_drop, g, start + count - 1)
        if isinstance(group, variadic) and count:
            yield f"the last {group.label} twice", partial(_double, g, start + count - 1)
        start += count


def _set_operand(i: int, index: int, op: TileOp, home: Block, at: int) -> None:
    del home, at
    found = _scope_of(op)[index]
    op.operands = (*op.operands[:i], found, *op.operands[i + 1 :])


_ROOTS: list[Block] = []


def _scope_of(op: TileOp) -> list[Value]:
    return _before(_ROOTS[-1], op)


def changed(block: Block, change: Change) -> Block:
    """The module with a change made to it."""
    _ROOTS.append(block)
    change(block)
    _ROOTS.pop()
    return block


def _resize(op: TileOp, g: int, by: int) -> None:
    if op.segments is not None:
        op.segments = tuple(n + by * (i == g) for i, n in enumerate(op.segments))


def _drop(g: int, i: int, op: TileOp, home: Block, at: int) -> None:
    del home, at
    op.operands = op.operands[:i] + op.operands[i + 1 :]
    _resize(op, g, -1)


def _double(g: int, i: int, op: TileOp, home: Block, at: int) -> None:
    del home, at
    op.operands = (*op.operands[: i + 1], op.operands[i], *op.operands[i + 1 :])
    _resize(op, g, 1)


def _attribute_values(label: str, declared: Any, value: Any) -> list[Any]:
    if isinstance(declared, enum_attr):
        found: list[Any] = [v for v in declared.table.values if v != value]
        return [*found, None] if "scope" in declared.style and value is not None else found
    if isinstance(declared, flag) or declared.kind is bool:
        return [not value]
    if isinstance(declared, hints_attr):
        return [_hints(k, v) for k, v in (("latency", 0), ("occupancy", 99), ("allow_tma", 3))]
    if isinstance(declared, int_attr):
        return [v for v in _INTEGERS if v != value]
    if label == "permutation":
        return [value[::-1], (0,) * len(value), (*value, 3), value[1:], (0, 1, 5), (-1, 0, 1)]
    if label == "inbounds":
        return [None] if value is None else [None, value[1:], (*value, True)]
    if label == "identities":
        numbers = [("0", "i32"), ("0.0", "f32"), ("0.0", "f16"), ("true", "i1")]
        others = [(TypedAttr(text, NUMBERS[name]), *value[1:]) for text, name in numbers]
        return [v for v in (*others, value[1:], (*value, value[0])) if v != value and v]
    if label == "str_":
        return list(_FORMATS)
    return _predicates() if declared.kind is Attribute else []


def _hints(key: str, value: int) -> HintsAttr:
    return HintsAttr((("sm_90", ((key, value),)),))


def _predicates() -> list[Attribute]:
    return [
        *(DivBy(d) for d in (0, 1, 3, 8, 1 << 62, 1 << 63)),
        *(DivBy(4, every, along) for every, along in ((0, 0), (2, 0), (2, 1), (3, 0), (16, 0))),
        *(DivBy(4, every, -1) for every in (-1, 1)),
        *(SameElements(extents) for extents in ((), (1,), (2,), (3,), (0,), (16,), (2, 2))),
        *(Bounded(lower, upper) for lower, upper in ((0, 5), (5, 0), (None, None), (-129, 200))),
    ]


def _set_attribute(label: str, value: Any, op: TileOp, home: Block, at: int) -> None:
    del home, at
    op.attrs[label] = value


def _region_edits(op: TileOp) -> Iterator[tuple[str, Edit]]:
    if op.terminator:
        for kind in (control.Yield, control.Continue, control.Break, control.Return):
            if not isinstance(op, kind):
                yield f"{kind.name} instead", partial(_replace, kind, True)
                yield f"{kind.name} instead, without values", partial(_replace, kind, False)
        yield "missing", lambda _, home, at: home.ops.pop(at)
        yield "not the last", lambda _, home, at: home.ops.insert(0, home.ops.pop(at))
    if isinstance(op, Entry):
        return
    for r, region in enumerate(op.regions):
        for i, value in enumerate(region.args):
            assert isinstance(value.type, TileIrType), "arguments have Tile IR types"
            for t in near(value.type)[::3]:
                yield f"argument {i} is {t}", partial(_set_argument, r, i, t)
        yield "an argument more", partial(_add_argument, r)
        yield "an empty region", lambda o, _, __, r=r: o.regions[r].ops.clear()


def _replace(kind: type[TileOp], values: bool, op: TileOp, home: Block, at: int) -> None:
    home.ops[at] = kind(op.operands if values else ())


def _set_argument(r: int, i: int, t: TileIrType, op: TileOp, home: Block, at: int) -> None:
    del home, at
    op.regions[r].args[i].type = t


def _add_argument(r: int, op: TileOp, home: Block, at: int) -> None:
    del home, at
    op.regions[r].args.append(Value(NUMBERS_I32, op.regions[r]))
