"""Element types of tile programs: Tile IR's numbers, integers with a sign of their own."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from tilewright.ir.tile_types import NUMBERS, NumberType, PointerType, TileIrType
from tilewright.lang.tile.errors import (
    TileTypeError,
    TileUnsupportedFeatureError,
    TileValueError,
)


class Kind(enum.IntEnum):
    """The categories of promotion: the greater one wins."""

    BOOL = 0
    INT = 1
    FLOAT = 2
    RESTRICTED = 3
    """Floats without arithmetic: they are loaded, stored, converted and multiplied as matrices."""
    POINTER = 4


class DType:
    """An element type.  Inside a kernel, calling it converts a number: `ct.float32(3)`."""

    __slots__ = ("bitwidth", "kind", "name", "pointee", "signed", "tile_ir")

    def __init__(
        self,
        name: str,
        bitwidth: int,
        kind: Kind,
        tile_ir: str,
        signed: bool = True,
        pointee: DType | None = None,
    ) -> None:
        self.name = name
        self.bitwidth = bitwidth
        self.kind = kind
        self.tile_ir = tile_ir
        self.signed = signed
        self.pointee = pointee

    def __repr__(self) -> str:
        return f"<DType '{self.name}'>"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self.pointee is not None:
            return (foreign_pointer_dtype, (self.pointee,))
        return (dtype_named, (self.name,))

    def __call__(self, x: Any = 0, /) -> Any:
        raise TypeError(f"{self.name}({x!r}) makes a number of a kernel: it is not for host code")

    @property
    def is_float(self) -> bool:
        return self.kind in (Kind.FLOAT, Kind.RESTRICTED)

    @property
    def is_int(self) -> bool:
        return self.kind is Kind.INT

    @property
    def signedness(self) -> str:
        return "signed" if self.signed else "unsigned"

    @property
    def element(self) -> TileIrType:
        """The Tile IR element type."""
        if self.pointee is not None:
            return PointerType(self.pointee.element)
        number = NUMBERS.get(self.tile_ir)
        if number is None:
            raise TileUnsupportedFeatureError(f"{self.name} is not supported by this Tile IR")
        return number

    @property
    def number(self) -> NumberType:
        element = self.element
        assert isinstance(element, NumberType), f"{self.name} is a pointer, not a number"
        return element

    def int_range(self) -> tuple[int, int]:
        """The least and the greatest integer."""
        if self.signed:
            return -(1 << (self.bitwidth - 1)), (1 << (self.bitwidth - 1)) - 1
        return 0, (1 << self.bitwidth) - 1


bool_ = DType("bool_", 8, Kind.BOOL, "i1", signed=False)
uint8 = DType("uint8", 8, Kind.INT, "i8", signed=False)
uint16 = DType("uint16", 16, Kind.INT, "i16", signed=False)
uint32 = DType("uint32", 32, Kind.INT, "i32", signed=False)
uint64 = DType("uint64", 64, Kind.INT, "i64", signed=False)
int8 = DType("int8", 8, Kind.INT, "i8")
int16 = DType("int16", 16, Kind.INT, "i16")
int32 = DType("int32", 32, Kind.INT, "i32")
int64 = DType("int64", 64, Kind.INT, "i64")
float16 = DType("float16", 16, Kind.FLOAT, "f16")
bfloat16 = DType("bfloat16", 16, Kind.FLOAT, "bf16")
float32 = DType("float32", 32, Kind.FLOAT, "f32")
float64 = DType("float64", 64, Kind.FLOAT, "f64")
tfloat32 = DType("tfloat32", 32, Kind.RESTRICTED, "tf32")
float8_e4m3fn = DType("float8_e4m3fn", 8, Kind.RESTRICTED, "f8E4M3FN")
float8_e5m2 = DType("float8_e5m2", 8, Kind.RESTRICTED, "f8E5M2")
float8_e8m0fnu = DType("float8_e8m0fnu", 8, Kind.RESTRICTED, "f8E8M0FNU")
float8_e5m3fnu = DType("float8_e5m3fnu", 8, Kind.RESTRICTED, "fnv8E5M3FNU")
float4_e2m1fn = DType("float4_e2m1fn", 4, Kind.RESTRICTED, "f4E2M1FN")

DTYPES = (
    *(bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64),
    *(float16, bfloat16, float32, float64, tfloat32, float8_e4m3fn, float8_e5m2),
    *(float8_e8m0fnu, float8_e5m3fnu, float4_e2m1fn),
)
BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in DTYPES}
_FOREIGN = {**BY_NAME, "bool": bool_, "half": float16, "float": float32, "double": float64}

ROW_NAMES: dict[str, DType] = {
    **{f"i{bits}": BY_NAME[f"int{bits}"] for bits in (8, 16, 32, 64)},
    **{f"u{bits}": BY_NAME[f"uint{bits}"] for bits in (8, 16, 32, 64)},
    **{"bool": bool_, "f16": float16, "bf16": bfloat16, "f32": float32, "f64": float64},
    **{"tf32": tfloat32, "e4m3": float8_e4m3fn, "e5m2": float8_e5m2},
    **{"e8m0": float8_e8m0fnu, "e5m3": float8_e5m3fnu, "e2m1": float4_e2m1fn},
}
"""The names that `numeric.dtypes` gives the same types."""


def dtype_named(name: str) -> DType:
    """The element type of a name."""
    return BY_NAME[name]


_POINTERS: dict[DType, DType] = {}


def foreign_pointer_dtype(pointee_dtype: DType) -> DType:
    """The type of pointers to `pointee_dtype` that come from outside of tile code.

    >>> foreign_pointer_dtype(float32)
    <DType 'foreign_pointer[float32]'>
    """
    if pointee_dtype not in _POINTERS:
        _POINTERS[pointee_dtype] = DType(
            f"foreign_pointer[{pointee_dtype.name}]", 64, Kind.POINTER, "", pointee=pointee_dtype
        )
    return _POINTERS[pointee_dtype]


def find_dtype(obj: object) -> DType | None:
    """The element type that `obj` names: ours, or NumPy's, torch's, JAX's or ml_dtypes' own."""
    if isinstance(obj, DType):
        return obj
    module = type(obj).__module__.partition(".")[0]
    if module == "torch":
        return _FOREIGN.get(str(obj).removeprefix("torch.").removesuffix("_x2"))
    if isinstance(obj, type) and obj.__module__.partition(".")[0] in (
        *("numpy", "ml_dtypes", "jax"),
    ):
        return _FOREIGN.get(obj.__name__)
    if module in ("numpy", "jax", "ml_dtypes"):  # a dtype object: arrays have no name
        return _FOREIGN.get(str(getattr(obj, "name", "")))
    return None


def require_dtype(obj: object, what: str) -> DType:
    """Raises: TileTypeError if `obj` names no element type."""
    found = find_dtype(obj)
    if found is None:
        raise TileTypeError(f"{what}: expected a dtype such as ct.float32, got {obj!r}")
    return found


def dtype_of_constant(value: bool | int | float) -> DType:
    """The type that a Python number takes where nothing else decides.

    >>> dtype_of_constant(1), dtype_of_constant(1 << 40), dtype_of_constant(0.5)
    (<DType 'int32'>, <DType 'int64'>, <DType 'float32'>)
    """
    if isinstance(value, bool):
        return bool_
    if isinstance(value, float):
        return float32
    for dtype in (int32, int64, uint64):
        low, high = dtype.int_range()
        if low <= value <= high:
            return dtype
    raise TileValueError(f"the constant {value} fits no integer type of at most 64 bits")


def promote(a: DType, b: DType) -> DType:
    """The common type of two strictly typed operands.

    >>> promote(int32, int64), promote(int64, float16), promote(float16, float32)
    (<DType 'int64'>, <DType 'float16'>, <DType 'float32'>)
    """
    if a is b:
        return a
    if Kind.POINTER in (a.kind, b.kind):
        raise TileTypeError(f"pointers do not promote: {a} and {b}")
    if Kind.RESTRICTED in (a.kind, b.kind):
        raise TileTypeError(
            f"{a} and {b} do not promote to a common type, since one of them has no arithmetic",
            hint="convert one operand with ct.astype",
        )
    if a.kind != b.kind:
        return a if a.kind > b.kind else b
    low, high = sorted((a, b), key=lambda t: t.bitwidth)
    clash = low.bitwidth == high.bitwidth if a.is_float else a.signed != b.signed
    if clash:
        why = "" if a.is_float else ", which differ in sign"
        raise TileTypeError(
            f"{a} and {b} do not promote to a common type{why}",
            hint="convert one operand with ct.astype",
        )
    return high


def promote_constant(dtype: DType, value: bool | int | float) -> DType:
    """The common type of a typed operand and a Python number: the number adapts if it can."""
    loose = dtype_of_constant(value)
    kind = Kind.FLOAT if dtype.kind is Kind.RESTRICTED else dtype.kind
    if loose.kind != kind:
        return loose if loose.kind > kind else dtype
    if kind is Kind.INT:
        check_range(int(value), dtype)
    return dtype


def check_range(value: int, dtype: DType) -> None:
    """Raises: TileValueError if `value` is no `dtype`."""
    low, high = dtype.int_range()
    if not low <= value <= high:
        raise TileValueError(f"{value} is out of the range of {dtype}, [{low}, {high}]")


def implicit_fault(value: bool | int | float | None, source: DType, target: DType) -> str:
    """Why a value may not become `target` without a conversion; empty if it may.

    `value` is the Python number of a loosely typed constant, else None.
    """
    if value is None:
        try:
            common = promote(source, target)
        except TileTypeError:
            common = None
        return "" if common is target else f"{source} does not convert to {target} implicitly"
    if Kind.POINTER is target.kind:
        return f"{value} does not convert to a pointer"
    if target.kind is Kind.BOOL:
        if source.is_float or value not in (0, 1):
            return f"{value} does not convert to {target} implicitly"
    elif source.kind > target.kind:
        return f"{value} does not convert to {target} implicitly"
    return ""


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The common shape of operands; extents of 1 are repeated.

    >>> broadcast([(4, 1), (8,)])
    (4, 8)
    """
    rank = max((len(s) for s in shapes), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    out = []
    for extents in zip(*padded, strict=True):
        found = {e for e in extents if e != 1} or {1}
        if len(found) > 1:
            shown = " and ".join(map(str, shapes))
            raise TileTypeError(f"shapes {shown} do not broadcast to a common shape")
        out.append(found.pop())
    return tuple(out)


def broadcasts_to(source: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether repeating extents of 1 makes `source` a `target`."""
    pairs = zip(reversed(source), reversed(target), strict=False)
    return len(source) <= len(target) and all(s in (1, t) for s, t in pairs)
