"""What a module is made of: entries, globals, and the promises that `assume` makes."""

from __future__ import annotations

from tilewright.ir.core import Attribute, Effect, attr, operand, region, result
from tilewright.ir.ops.tile.base import (
    ANYTHING,
    I32_0,
    POINTER0,
    TileOp,
    dicts_attr,
    enum_attr,
    flag,
    hints_attr,
    int_attr,
    maybe,
)
from tilewright.ir.tile_attrs import (
    VISIBILITY,
    Bounded,
    DenseAttr,
    DivBy,
    SameElements,
    TypeAttr,
    predicate_name,
)
from tilewright.ir.tile_types import (
    FunctionType,
    NumberType,
    PointerType,
    TensorViewType,
    TileType,
    spelled,
)
from tilewright.ir.types import Type


class Module(TileOp):
    """Entries and globals."""

    name = "cuda_tile.module"
    opcode = 0x4B
    effect = Effect.CONTROL
    sym_name = attr(str)
    producer: maybe[str | None] = maybe(str, (13, 3))
    body = region()
    assembly = "@module"


class Entry(TileOp):
    """A kernel: parameters are scalars (numbers or pointers), results none."""

    name = "cuda_tile.entry"
    opcode = 0x16
    effect = Effect.CONTROL
    sym_name = attr(str)
    function_type: attr[TypeAttr] = attr(TypeAttr)
    arg_attrs = dicts_attr()
    res_attrs = dicts_attr()
    optimization_hints = hints_attr()
    body = region()
    assembly = "@function"

    def check(self) -> str | None:
        signature = self.function_type.type
        if problem := _function_fault(self):
            return problem
        assert isinstance(signature, FunctionType), "_function_fault refuses other types"
        if signature.outputs:
            return "entry op must not return values"
        if any(isinstance(t, TileType) and t.rank for t in signature.inputs):
            return "entry op must have scalar types (rank 0 tile)"
        return None


class TestingFunc(TileOp):
    """NVIDIA's function for tests: parameters and results of any type."""

    name = "cuda_tile.testing$func"
    effect = Effect.CONTROL
    testing = True
    sym_name = attr(str)
    function_type: attr[TypeAttr] = attr(TypeAttr)
    arg_attrs = dicts_attr()
    res_attrs = dicts_attr()
    body = region()
    assembly = "@function"

    def check(self) -> str | None:
        return _function_fault(self)


def _function_fault(op: Entry | TestingFunc) -> str | None:
    """What MLIR demands of every function: attributes and arguments that fit its type."""
    signature = op.function_type.type
    if not isinstance(signature, FunctionType):
        return "attribute 'function_type' failed to satisfy constraint: type attribute of function"
    for label, word, given, types in (
        ("arg_attrs", "argument", op.arg_attrs, signature.inputs),
        ("res_attrs", "result", op.res_attrs, signature.outputs),
    ):
        if given is not None and len(given) != len(types):
            return (
                f"expects {word} attribute array `{label}` to have the same number of elements as "
                f"the number of function {word}s, got {len(given)}, but expected {len(types)}"
            )
        if any("." not in name for names in given or () for name in names):
            return f"{word}s may only have dialect attributes"
    inside = [v.type for v in op.body.args]
    if len(inside) != len(signature.inputs):
        return (
            f"entry block must have {len(signature.inputs)} arguments to match function signature"
        )
    for number, (have, want) in enumerate(zip(inside, signature.inputs, strict=True)):
        if have != want:
            return (
                f"type of entry block argument #{number}('{spelled(have)}') must match the type "
                f"of the corresponding argument in function signature('{spelled(want)}')"
            )
    return None


class Global(TileOp):
    """Named memory of the module with its initial elements, one dimension."""

    name = "cuda_tile.global"
    opcode = 0x31
    effect = Effect.CONTROL
    sym_name = attr(str)
    value: attr[DenseAttr] = attr(DenseAttr)
    alignment = int_attr(64, 0)
    constant = flag(since=(13, 3))
    symbol_visibility = enum_attr(VISIBILITY, "keyword", "public", since=(13, 3))
    assembly = "@global"

    def check(self) -> str | None:
        t = self.value.type
        if not isinstance(t, TileType) or t.rank != 1:
            return "type must have rank 1"
        return None


class GetGlobal(TileOp):
    """The address of a global."""

    name = "cuda_tile.get_global"
    opcode = 0x2C
    name_ = attr(str)
    result = result(POINTER0)
    assembly = "@symbol(name_) : type(result)"


class GetTileBlockId(TileOp):
    """Which tile block of the grid this is."""

    name = "cuda_tile.get_tile_block_id"
    opcode = 0x30
    blockId_x = result(I32_0)
    blockId_y = result(I32_0)
    blockId_z = result(I32_0)
    assembly = ": type(blockId_x)"
    alike = (("blockId_x", "blockId_y", "blockId_z"),)


class GetNumTileBlocks(TileOp):
    """The extents of the grid."""

    name = "cuda_tile.get_num_tile_blocks"
    opcode = 0x2E
    gridSize_x = result(I32_0)
    gridSize_y = result(I32_0)
    gridSize_z = result(I32_0)
    assembly = ": type(gridSize_x)"
    alike = (("gridSize_x", "gridSize_y", "gridSize_z"),)


class Assume(TileOp):
    """`value`, with a promise about it.  A broken promise is UB."""

    name = "cuda_tile.assume"
    opcode = 0x06
    predicate: attr[Attribute] = attr(Attribute)
    value = operand(ANYTHING)
    result = result(ANYTHING)
    assembly = "@predicate , value : type(value)"
    alike = (("value", "result"),)

    def check(self) -> str | None:
        predicate, t = self.predicate, self.value.type
        if isinstance(predicate, DivBy):
            return _div_by_fault(predicate, t)
        if isinstance(predicate, SameElements):
            return _same_elements_fault(predicate, t)
        if isinstance(predicate, Bounded):
            return _bounded_fault(predicate, t)
        return "expected assume predicate attribute"


def _is_int(t: Type) -> bool:
    if not isinstance(t, TileType) or not isinstance(t.element, NumberType):
        return False
    return not t.element.is_float


def _is_pointer(t: Type) -> bool:
    return isinstance(t, TileType) and isinstance(t.element, PointerType)


def _div_by_fault(predicate: DivBy, t: Type) -> str | None:
    name = f"'{predicate_name(predicate)}'"
    if not (_is_int(t) or _is_pointer(t) or isinstance(t, TensorViewType)):
        return f"{name} is valid only for tile of integer/pointer or tensor_view values"
    if predicate.divisor <= 0 or predicate.divisor & (predicate.divisor - 1):
        return f"{name} divisor must be a power of 2, got {predicate.divisor}"
    if predicate.divisor > 1 << 62:
        return f"{name} divisor is too large"
    if predicate.every is None or predicate.along is None:
        return None
    if not isinstance(t, TileType):
        return f"{name} 'every'/'along' cannot be used if the constrained value is a tensor_view"
    if not 0 <= predicate.along < t.rank:
        return f"{name} every_dim ({predicate.along}) must be >= 0 and < tile rank ({t.rank})"
    if not 0 <= predicate.every <= t.shape[predicate.along]:
        return (
            f"{name} every ({predicate.every}) must not be negative, and at most the size of "
            f"dimension {predicate.along} ({t.shape[predicate.along]})"
        )
    return None


def _same_elements_fault(predicate: SameElements, t: Type) -> str | None:
    name = f"'{predicate_name(predicate)}'"
    if not isinstance(t, TileType) or not (_is_int(t) or _is_pointer(t)):
        return f"{name} is valid only for tile of integer/pointer values"
    if len(predicate.extents) != t.rank:
        return (
            f"expected number of values in {name} ({len(predicate.extents)}) to match rank of "
            f"constrained tile ({t.rank})"
        )
    for i, (extent, size) in enumerate(zip(predicate.extents, t.shape, strict=True)):
        if not 0 <= extent <= size:
            return (
                f"expected {name} value {i} to be within 0 and the size of the respective "
                f"dimension ({size})"
            )
    return None


def _bounded_fault(predicate: Bounded, t: Type) -> str | None:
    name = f"'{predicate_name(predicate)}'"
    if not _is_int(t) or not isinstance(t, TileType):
        return f"{name} is valid only for tile of integer values"
    assert isinstance(t.element, NumberType), "an integer is a number"
    low, high = -(1 << (t.element.bits - 1)), (1 << (t.element.bits - 1)) - 1
    for which, bound in (("lower", predicate.lower), ("upper", predicate.upper)):
        if bound is not None and not low <= bound <= high:
            return f"{name} expects {which} bound to be within [{low}, {high}]"
    lower, upper = predicate.lower, predicate.upper
    if lower is not None and upper is not None and lower > upper:
        return f"{name} expects lower bound to be less than or equal to upper bound"
    return None
