"""Numbers as Tile IR's text writes them, to bit patterns and back."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.errors import DTypeError
from tilewright.ir.tile_attrs import DenseAttr
from tilewright.ir.tile_types import NumberType, TileType, product
from tilewright.numeric.encode import decode, encode
from tilewright.tileir.source import MAX_DIGITS


def pattern(text: str, t: NumberType) -> int:
    """The bits of a number's text as an element of type `t`.

    Raises: DTypeError if the text is no number of that type, with Tile IR's words for the fault.

    >>> from tilewright.ir.tile_types import NUMBERS
    >>> pattern("-1", NUMBERS["i8"]), hex(pattern("1.5", NUMBERS["f32"]))
    (255, '0x3fc00000')
    """
    return _float_pattern(text, t) if t.is_float else _int_pattern(text, t)


def _int_pattern(text: str, t: NumberType) -> int:
    if t.name == "i1" and text in ("true", "false"):
        return int(text == "true")
    digits = text.removeprefix("-")
    if not digits.isdigit() and not digits.startswith("0x"):
        raise DTypeError("expected integer value")
    value = int(text, 16) if digits.startswith("0x") else int(text[:MAX_DIGITS])
    low = 0 if text.startswith("0x") else -(1 << (t.bits - 1))
    if not low <= value < 1 << t.bits:
        raise DTypeError("integer constant out of range for type")
    return value & ((1 << t.bits) - 1)


def _float_pattern(text: str, t: NumberType) -> int:
    digits = text.removeprefix("-")
    if digits.startswith("0x"):
        value = int(digits, 16)
        if value >> t.written_bits or text.startswith("-"):
            raise DTypeError("hexadecimal float constant out of range for type")
        return value << t.row.pad_bits
    if "." not in digits or not digits[0].isdigit():
        raise DTypeError("expected floating point value, with a decimal point")
    number = float(text)
    if t.name == "f8E8M0FNU":
        return _power_of_two(number, t)
    return int(encode(number, t.row))


def _power_of_two(number: float, t: NumberType) -> int:
    """e8m0 holds powers of two only: the nearest, as its own rounding modes are directed."""
    if not number > 0:
        raise DTypeError("float constant out of range for type")
    down = int(encode(number, t.row, "rz"))
    up = int(encode(number, t.row, "rp"))
    below, above = float(decode(down, t.row)), float(decode(up, t.row))
    return up if above - number < number - below else down


def number_text(bits: int, t: NumberType) -> str:
    """A bit pattern as text: decimal where that is exact on the way back, else hexadecimal.

    >>> from tilewright.ir.tile_types import NUMBERS
    >>> number_text(0x3F800000, NUMBERS["f32"]), number_text(0x7FC00000, NUMBERS["f32"])
    ('1.000000e+00', '0x7FC00000')
    """
    if t.name == "i1":
        return "true" if bits else "false"
    if not t.is_float:
        return str(bits - (1 << t.bits) if bits >> (t.bits - 1) else bits)
    value = float(decode(bits, t.row))
    if math.isfinite(value):
        short = f"{value:.6e}"
        for text in (short, _full(value)):
            if _float_pattern(text, t) == bits:
                return text
    return f"0x{bits >> t.row.pad_bits:0{(t.written_bits + 3) // 4}X}"


def _full(value: float) -> str:
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    point = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{point}e{exponent}" if exponent else point


def dense_text(value: DenseAttr) -> str:
    """The elements of a constant, nested by dimension; a splat as one number."""
    t = value.type
    assert isinstance(t, TileType), "a dense constant is a tile"
    assert isinstance(t.element, NumberType), "a dense constant holds numbers"
    texts = [number_text(bits, t.element) for bits in value.bits]
    if len(texts) == 1 and product(t.shape) != 1:
        return texts[0]
    return _nested(texts, t.shape)


def _nested(texts: Sequence[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return texts[0]
    step = len(texts) // shape[0]
    rows = [_nested(texts[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]
    return "[" + ", ".join(rows) + "]"
