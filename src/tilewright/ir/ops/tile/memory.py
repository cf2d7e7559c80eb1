"""Memory through pointers and tokens: loads, stores, atomics, allocation, fences.

Operations named `_tko` are ordered by tokens alone, never by their place in the program: each may
take a token and yields one.  A weak access has no scope, every other has one.
"""

from __future__ import annotations

from typing import ClassVar

from tilewright.ir.core import Effect, attr, operand, optional, result, variadic
from tilewright.ir.ops.tile.base import (
    I1S,
    NUMBERS4,
    NUMBERS_,
    POINTER0,
    POINTERS,
    TILES,
    TOKENS,
    Rule,
    TileOp,
    Version,
    enum_attr,
    flag,
    hints_attr,
    int_attr,
    pointee_rule,
    same_shape,
    tile_type,
)
from tilewright.ir.tile_attrs import ATOMIC_MODE, MEMORY_ORDER, MEMORY_SCOPE
from tilewright.ir.tile_types import NumberType, PointerType
from tilewright.ir.types import Type

LOAD_ORDERS = ("weak", "relaxed", "acquire")
STORE_ORDERS = ("weak", "relaxed", "release")
ATOMIC_ORDERS = ("relaxed", "acquire", "release", "acq_rel")


def order_fault(op: str, order: str, scope: str | None, allowed: tuple[str, ...]) -> str | None:
    """What is wrong with a load's or store's ordering and scope."""
    if order not in allowed:
        listed = ", ".join(allowed[:-1]) + f", or {allowed[-1]}"
        return f"expect one of: {listed}, but got: {order}"
    if order == "weak" and scope is not None:
        return f"weak {op} must not have memory scope"
    if order != "weak" and scope is None:
        return f"memory scope is required for {order} {op}"
    return None


class MakeToken(TileOp):
    """A token that orders nothing yet."""

    name = "cuda_tile.make_token"
    opcode = 0x44
    result = result(TOKENS)
    assembly = ": type(result)"


class JoinTokens(TileOp):
    """A token that comes after all of `tokens`."""

    name = "cuda_tile.join_tokens"
    opcode = 0x3C
    tokens = variadic(TOKENS)
    result = result(TOKENS)
    assembly = "tokens : type(result)"
    alike = (("tokens", "result"),)

    def check(self) -> str | None:
        return None if len(self.tokens) >= 2 else "expect two or more tokens"


def _mask_rule(source: str) -> Rule:
    text = f"failed to verify that shape of 'mask' must match the shape of '{source}'"
    return Rule(text, same_shape(source, "mask").holds)


def _padding_holds(op: LoadPtrTko) -> bool:
    return op.paddingValue is None or op.paddingValue.type == op.result.type


class LoadPtrTko(TileOp):
    """The elements that `source` points to; where `mask` is false, `paddingValue` (or anything)."""

    name = "cuda_tile.load_ptr_tko"
    opcode = 0x3D
    effect = Effect.READ
    memory_ordering_semantics = enum_attr(MEMORY_ORDER, "keyword")
    memory_scope = enum_attr(MEMORY_SCOPE, "scope")
    optimization_hints = hints_attr()
    source = operand(POINTERS)
    mask = optional(I1S)
    paddingValue = optional(NUMBERS_)
    token = optional(TOKENS)
    result, result_token = result(NUMBERS4), result(TOKENS)
    assembly = (
        "memory_ordering_semantics memory_scope source [ , mask [ , paddingValue ] ] @token "
        "optimization_hints : type(source) [ , type(mask) [ , type(paddingValue) ] ] "
        "-> type(result) , type(result_token)"
    )
    rules = (
        pointee_rule("source", "result"),
        _mask_rule("source"),
        Rule(
            "failed to verify that type of 'paddingValue' must match the type of 'result'",
            _padding_holds,
        ),
    )

    def check(self) -> str | None:
        order, scope = self.memory_ordering_semantics, self.memory_scope
        return order_fault("load", order, scope, LOAD_ORDERS)


class StorePtrTko(TileOp):
    """Writes `value` to where `destination` points, where `mask` is true."""

    name = "cuda_tile.store_ptr_tko"
    opcode = 0x65
    effect = Effect.WRITE
    memory_ordering_semantics = enum_attr(MEMORY_ORDER, "keyword")
    memory_scope = enum_attr(MEMORY_SCOPE, "scope")
    optimization_hints = hints_attr()
    destination = operand(POINTERS)
    value = operand(NUMBERS_)
    mask = optional(I1S)
    token = optional(TOKENS)
    result_token = result(TOKENS)
    assembly = (
        "memory_ordering_semantics memory_scope destination , value [ , mask ] @token "
        "optimization_hints : type(destination) , type(value) [ , type(mask) ] "
        "-> type(result_token)"
    )
    rules = (pointee_rule("destination", "value"), _mask_rule("destination"))

    def check(self) -> str | None:
        order, scope = self.memory_ordering_semantics, self.memory_scope
        return order_fault("store", order, scope, STORE_ORDERS)


def _pointee(pointers: Type) -> NumberType:
    element = tile_type(pointers).element
    assert isinstance(element, PointerType), "a constraint admits only pointers"
    assert isinstance(element.pointee, NumberType), "a pointer points to numbers"
    return element.pointee


def mode_fault(mode: str, element: NumberType) -> str | None:
    """Which element types an atomic mode works on."""
    if mode == "addf":
        if element.name not in ("f16", "bf16", "f32", "f64"):
            return "'addf' works only with floats f16, bf16, f32, and f64"
    elif mode == "xchg":
        if element.name not in ("i32", "i64", "f32", "f64"):
            return "'xchg' works only with integers or float of 32 or 64 bitwidth"
    elif element.name not in ("i32", "i64"):
        return f"'{mode}' works only with integers i32 and i64"
    return None


class AtomicRMWTko(TileOp):
    """Combines `arg` into memory by `mode`; yields what was there before."""

    name = "cuda_tile.atomic_rmw_tko"
    opcode = 0x08
    effect = Effect.WRITE
    memory_ordering_semantics = enum_attr(MEMORY_ORDER, "keyword")
    memory_scope = enum_attr(MEMORY_SCOPE, "keyword")
    mode = enum_attr(ATOMIC_MODE, "keyword")
    pointers = operand(POINTERS)
    arg = operand(NUMBERS_)
    mask = optional(I1S)
    token = optional(TOKENS)
    result, result_token = result(NUMBERS_), result(TOKENS)
    assembly = (
        "memory_ordering_semantics memory_scope pointers , mode , arg [ , mask ] @token "
        ": type(pointers) , type(arg) [ , type(mask) ] -> type(result) , type(result_token)"
    )
    alike = (("arg", "result"),)
    rules = (same_shape("pointers", "arg", "mask"),)

    def check(self) -> str | None:
        order = self.memory_ordering_semantics
        if order not in ATOMIC_ORDERS:
            return f"memory ordering semantics must be one of: {', '.join(ATOMIC_ORDERS)}"
        pointee, element = _pointee(self.pointers.type), tile_type(self.arg.type).element
        if pointee != element:
            return (
                f"expected pointee type ('{pointee}') to match element type of 'arg' ('{element}')"
            )
        return mode_fault(self.mode, pointee)


class AtomicCASTko(TileOp):
    """Where memory equals `cmp` (bit for bit), writes `val`; yields what was there before."""

    name = "cuda_tile.atomic_cas_tko"
    opcode = 0x07
    effect = Effect.WRITE
    memory_ordering_semantics = enum_attr(MEMORY_ORDER, "keyword")
    memory_scope = enum_attr(MEMORY_SCOPE, "keyword")
    pointers = operand(POINTERS)
    cmp = operand(NUMBERS_)
    val = operand(NUMBERS_)
    mask = optional(I1S)
    token = optional(TOKENS)
    result, result_token = result(NUMBERS_), result(TOKENS)
    assembly = (
        "memory_ordering_semantics memory_scope pointers , cmp , val [ , mask ] @token "
        ": type(pointers) , type(cmp) [ , type(mask) ] -> type(result) , type(result_token)"
    )
    alike = (("cmp", "val", "result"),)
    rules = (
        same_shape("pointers", "cmp", "val", "result"),
        Rule(
            "failed to verify that all of {pointers, cmp, val, mask} have same shape",
            same_shape("pointers", "cmp", "val", "mask").holds,
        ),
    )

    def check(self) -> str | None:
        order = self.memory_ordering_semantics
        if order not in ATOMIC_ORDERS:
            return f"memory ordering semantics must be one of: {', '.join(ATOMIC_ORDERS)}"
        pointee, element = _pointee(self.pointers.type), tile_type(self.cmp.type).element
        if pointee != element:
            return (
                f"expected pointee type ('{pointee}') to match element type of 'cmp' ('{element}')"
            )
        if pointee.name not in ("i32", "i64", "f32", "f64"):
            return "expect only float or integer types with 32 or 64 bit"
        return None


class Alloca(TileOp):
    """Memory for `num_elem` elements, of this block or (`global`) of the whole grid."""

    name = "cuda_tile.alloca"
    opcode = 0x71
    since = (13, 3)
    effect = Effect.WRITE
    num_elem = int_attr(64, 0)
    alignment = int_attr(64, 0)
    global_ = flag("global")
    result = result(POINTER0)
    assembly = "'num_elem' = num_elem , 'alignment' = alignment global_ : type(result)"

    def check(self) -> str | None:
        element = _pointee(self.result.type)
        alignment, natural = self.alignment, max(element.bits // 8, 1)
        if alignment <= 0 or alignment & (alignment - 1):
            return f"'alignment' must be power of two, got {alignment}"
        if alignment < natural:
            return (
                f"'alignment' ({alignment}) must be at least the natural size ({natural} bytes) "
                f"for element type '{element}'"
            )
        return None


class GdcWaitTko(TileOp):
    """Waits for the grids that this one depends on."""

    name = "cuda_tile.gdc_wait_tko"
    opcode = 0x78
    since = (13, 4)
    effect = Effect.SYNC
    token = optional(TOKENS)
    result_token = result(TOKENS)
    assembly = "@token @attributes -> type(result_token)"


class GdcLaunchDependentsTko(TileOp):
    """Lets the grids that depend on this one start."""

    name = "cuda_tile.gdc_launch_dependents_tko"
    opcode = 0x77
    since = (13, 4)
    effect = Effect.SYNC
    token = optional(TOKENS)
    result_token = result(TOKENS)
    assembly = "@token @attributes -> type(result_token)"


class MemoryFenceAliasTko(TileOp):
    """Orders accesses to memory that is reached by more than one view of it."""

    name = "cuda_tile.memory_fence_alias_tko"
    opcode = 0x7A
    since = (13, 4)
    effect = Effect.SYNC
    token = operand(TOKENS)
    result_token = result(TOKENS)
    assembly = "token @attributes"
    alike = (("token", "result_token"),)


class PrintTko(TileOp):
    """Prints in C's printf format, one line per call and element."""

    name = "cuda_tile.print_tko"
    opcode = 0x55
    token_since: ClassVar[Version] = (13, 2)
    """The first version in which it takes a token and has one."""
    effect = Effect.WRITE
    str_ = attr(str)
    args = variadic(TILES)
    token = optional(TOKENS)
    result_token = result(TOKENS)
    assembly = "str_ [ , args ] @token @attributes [ : types(args) ] -> type(result_token)"

    def check(self) -> str | None:
        count = conversions(self.str_)
        if count is None:
            return "found unterminated format expression"
        if count != len(self.args):
            return f"incorrect number of operands: expected {count}, found {len(self.args)}"
        return None


_LETTERS = "diouxXeEfFgGaAcspn%"


def conversions(text: str) -> int | None:
    """How many values a printf format takes; None if a conversion has no end.

    >>> conversions("%+08.3f %% %lld"), conversions("100 %")
    (2, None)
    """
    count, at = 0, 0
    while (at := text.find("%", at)) >= 0:
        at += 1
        if text[at : at + 1] == "%":
            at += 1
            continue
        while at < len(text) and text[at] not in _LETTERS:
            at += 1
        if at == len(text):
            return None
        count += 1
        at += 1
    return count
