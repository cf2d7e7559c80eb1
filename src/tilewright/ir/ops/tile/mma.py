"""Matrix products: 2-D, or 3-D with a batch dimension in front."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.core import operand, result
from tilewright.ir.ops.tile.base import (
    Rule,
    TileOp,
    flag,
    same_element,
    same_rank,
    signedness,
    tile_of,
    tile_type,
)
from tilewright.ir.tile_types import TileType

_OPERAND = tile_of(
    "f16", "bf16", "f32", "f64", "tf32", "f8E4M3FN", "f8E5M2", title="mmaf operand tile type"
)
_RESULT = tile_of("f16", "f32", "f64", title="mmaf acc/result tile type")
_INT_OPERAND = tile_of("i8", title="mmai operand tile type")
_INT_RESULT = tile_of("i32", title="mmai acc/result tile type")
_SCALED = tile_of("f8E4M3FN", "f8E5M2", "f4E2M1FN", title="mmaf_scaled operand tile type")
_SCALED_RESULT = tile_of("f32", title="mmaf_scaled acc/result tile type")
_SCALE = tile_of("f8E8M0FNU", "f8E4M3FN", "fnv8E5M3FNU", title="mmaf_scaled scale tile type")

ACCUMULATORS = {
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "f32": ("f32",),
    "tf32": ("f32",),
    "f64": ("f64",),
    "f8E4M3FN": ("f16", "f32"),
    "f8E5M2": ("f16", "f32"),
}
"""The accumulator types of each operand type of mmaf."""

SCALE_BLOCKS = {
    ("f8E4M3FN", "f8E8M0FNU"): (32,),
    ("f8E5M2", "f8E8M0FNU"): (32,),
    ("f4E2M1FN", "f8E8M0FNU"): (16, 32),
    ("f4E2M1FN", "f8E4M3FN"): (16,),
    ("f4E2M1FN", "fnv8E5M3FNU"): (16, 32),
}
"""(operand, scale) -> how many elements along K may share one scale."""

_Named = tuple[str, TileType]


def _must_match(a: _Named, i: int, b: _Named, j: int) -> str | None:
    (name_a, tile_a), (name_b, tile_b) = a, b
    if tile_a.shape[i] == tile_b.shape[j]:
        return None
    shown = [f"({', '.join(map(str, t.shape))})" for t in (tile_a, tile_b)]
    return (
        f"shape error: dim {i} of {name_a} ({tile_a.shape[i]}) and dim {j} of {name_b} "
        f"({tile_b.shape[j]}) must match, but got {name_a} shape {shown[0]} and {name_b} shape "
        f"{shown[1]}"
    )


def _product_fault(lhs: TileType, rhs: TileType, acc: TileType) -> str | None:
    """Whether (B,) M K times (B,) K N gives (B,) M N."""
    if lhs.rank not in (2, 3):
        return f"expect tiles of rank 2, or 3 with a batch dimension, but got rank {lhs.rank}"
    a, b, c = ("lhs", lhs), ("rhs", rhs), ("acc", acc)
    batch = lhs.rank - 2
    pairs = [(a, 0, b, 0), (a, 0, c, 0)] if batch else []
    pairs += [
        (a, batch + 1, b, batch),
        (a, batch, c, batch),
        (b, batch + 1, c, batch + 1),
    ]
    return next(filter(None, (_must_match(*pair) for pair in pairs)), None)


class MmaF(TileOp):
    """lhs @ rhs + acc."""

    name = "cuda_tile.mmaf"
    opcode = 0x49
    lhs = operand(_OPERAND)
    rhs = operand(_OPERAND)
    acc = operand(_RESULT)
    result = result(_RESULT)
    fast_acc = flag(since=(13, 3))
    assembly = "lhs , rhs , acc fast_acc : type(lhs) , type(rhs) , type(acc)"
    alike = (("acc", "result"),)
    rules = (same_element("lhs", "rhs"), same_rank("lhs", "rhs", "acc"))

    def check(self) -> str | None:
        lhs, rhs, acc = (tile_type(v.type) for v in self.operands)
        wanted = ACCUMULATORS[str(lhs.element)]
        if str(acc.element) not in wanted:
            shown = ", ".join(f"'{name}'" for name in wanted)
            return (
                f"unsupported combination of element types. Input type '{lhs.element}' expects "
                f"accumulator/result type to be one of {{{shown}}}, but got '{acc.element}'"
            )
        return _product_fault(lhs, rhs, acc)


class MmaI(TileOp):
    """lhs @ rhs + acc, each operand read as its own signedness says."""

    name = "cuda_tile.mmai"
    opcode = 0x4A
    signedness_lhs = signedness()
    signedness_rhs = signedness()
    lhs = operand(_INT_OPERAND)
    rhs = operand(_INT_OPERAND)
    acc = operand(_INT_RESULT)
    result = result(_INT_RESULT)
    assembly = "lhs , rhs , acc signedness_lhs signedness_rhs : type(lhs) , type(rhs) , type(acc)"
    alike = (("acc", "result"),)
    rules = (same_rank("lhs", "rhs", "acc"),)

    def check(self) -> str | None:
        lhs, rhs, acc = (tile_type(v.type) for v in self.operands)
        return _product_fault(lhs, rhs, acc)


def _scales_alike(op: MmaFScaled) -> bool:
    return tile_type(op.lhs_scale.type).element == tile_type(op.rhs_scale.type).element


class MmaFScaled(TileOp):
    """(lhs * lhs_scale) @ (rhs * rhs_scale) + acc, one scale per block of elements along K."""

    name = "cuda_tile.mmaf_scaled"
    opcode = 0x72
    since = (13, 3)
    lhs = operand(_SCALED)
    rhs = operand(_SCALED)
    acc = operand(_SCALED_RESULT)
    lhs_scale = operand(_SCALE)
    rhs_scale = operand(_SCALE)
    result = result(_SCALED_RESULT)
    assembly = (
        "lhs , rhs , acc , lhs_scale , rhs_scale : type(lhs) , type(rhs) , type(acc) , "
        "type(lhs_scale) , type(rhs_scale)"
    )
    alike = (("acc", "result"),)
    rules = (
        same_element("lhs", "rhs"),
        Rule(
            "failed to verify that all of {lhs_scale, rhs_scale} have the same element type",
            _scales_alike,
        ),
        same_rank("lhs", "rhs", "acc", "lhs_scale", "rhs_scale"),
    )

    def check(self) -> str | None:
        tiles = [tile_type(v.type) for v in self.operands]
        lhs, rhs, acc, lhs_scale, _ = tiles
        element, scale = str(lhs.element), str(lhs_scale.element)
        if (element, scale) not in SCALE_BLOCKS:
            return (
                f"unsupported combination of element types. Scale type '{scale}' expects lhs and "
                f"rhs element types to be 'f4E2M1FN', but got '{element}'"
            )
        return (
            _product_fault(lhs, rhs, acc)
            or _scale_shape_fault(tiles)
            or _block_fault(lhs, lhs_scale, element, scale)
        )


def _scale_shape_fault(tiles: Sequence[TileType]) -> str | None:
    lhs, rhs, _, lhs_scale, rhs_scale = tiles
    a, b = ("lhs", lhs), ("rhs", rhs)
    scale_a, scale_b = ("lhs_scale", lhs_scale), ("rhs_scale", rhs_scale)
    batch = lhs.rank - 2
    pairs = [(a, 0, scale_a, 0), (b, 0, scale_b, 0)] if batch else []
    pairs += [
        (a, batch, scale_a, batch),
        (b, batch + 1, scale_b, batch + 1),
        (scale_a, batch + 1, scale_b, batch),
    ]
    return next(filter(None, (_must_match(*pair) for pair in pairs)), None)


def _block_fault(lhs: TileType, scale: TileType, element: str, kind: str) -> str | None:
    block, rest = divmod(lhs.shape[-1], scale.shape[-1])
    allowed = SCALE_BLOCKS[element, kind]
    if not rest and block in allowed:
        return None
    if element == "f4E2M1FN":
        what = f"{element} element type with {kind} scales"
    else:
        what = f"{element[:2]} element type"
    return (
        f"shape error: {what} requires block scale factor of lhs_scale and rhs_scale to be "
        f"{' or '.join(map(str, allowed))}, but got {block}"
    )
