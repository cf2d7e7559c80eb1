"""Reads the elements of dense constants."""

from __future__ import annotations

from tilewright.errors import DTypeError
from tilewright.ir.tile_attrs import DenseAttr
from tilewright.ir.tile_types import NumberType, TileType, product
from tilewright.tileir.literals import pattern
from tilewright.tileir.source import Cursor

Elements = tuple[tuple[int, ...], list[int]]


def elements(cursor: Cursor, element: NumberType) -> Elements:
    """The shape and the bit patterns of `[[1, 2], [3, 4]]`, or of one number."""
    if not cursor.accept("["):
        return (), [_number(cursor, element)]
    rows: list[tuple[int, ...]] = []
    bits: list[int] = []
    while not cursor.is_next("]") or rows:
        shape, inner = elements(cursor, element)
        rows.append(shape)
        bits += inner
        if not cursor.accept(","):
            break
    cursor.expect("]")
    if len(set(rows)) > 1:
        raise cursor.error("tensor literal is invalid; ranks are not consistent between elements")
    return (len(rows), *(rows[0] if rows else ())), bits


def _number(cursor: Cursor, element: NumberType) -> int:
    start = cursor.peek()
    sign = "-" if cursor.accept("-") else ""
    token = cursor.peek()
    if token.kind not in ("int", "float", "word"):
        raise cursor.error("expected integer value")
    cursor.next()
    try:
        return pattern(sign + token.text, element)
    except DTypeError as problem:
        raise cursor.error(problem.message, start.at) from None


def dense(cursor: Cursor, found: Elements, t: TileType, at: int) -> DenseAttr:
    """The constant of type `t` with these elements; equal elements become one."""
    shape, bits = found
    if shape and shape != t.shape:
        raise cursor.error(
            f"inferred shape of elements literal ({list(shape)}) does not match type "
            f"({list(t.shape)})",
            at,
        )
    if len(bits) == product(t.shape) and len(set(bits)) == 1:
        bits = bits[:1]
    return DenseAttr(t, tuple(bits))
