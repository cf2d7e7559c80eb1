"""The types of the tile vocabulary: NVIDIA's Tile IR types, printed as Tile IR prints them.

    i32  bf16  f8E4M3FN                 numbers
    ptr<f32>                            address in global memory
    tile<128x64xf16>  tile<i32>         static power-of-two shape; no dimensions: a scalar
    tensor_view<?x16xf32, strides=[?,1]>
    partition_view<tile=(4x2), tensor_view<...>>, strided_view<...>, gather_scatter_view<...>
    token                               orders memory operations, is no value

`fault(type)` says what is wrong with a type, as Tile IR's own verifier does; types are values,
so an ill-formed one can be built, looked at and refused.

>>> str(TileType((2, 4), PointerType(NUMBERS["f32"])))
'tile<2x4xptr<f32>>'
>>> fault(TileType((3, 4), NUMBERS["i8"]))
'all dimensions must be powers of two, got 3, 4'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.numeric.dtypes import (
    BF16,
    BOOL,
    E2M1,
    E4M3,
    E5M2,
    E5M3,
    E8M0,
    F16,
    F32,
    F64,
    I4,
    I8,
    I16,
    I32,
    I64,
    TF32,
    DType,
)

MAX_ELEMENTS = 16_777_216
MAX_RANK = 64
"""More than any tile needs, as every dimension beyond the 24th is 1; NumPy's own limit."""
PTR_ATTRS = ("none",)
"""What can be said of a pointer and of the tensor_view made of it."""
PTR_ATTR_SINCE = (13, 4)
PADDINGS = ("zero", "neg_zero", "nan", "pos_inf", "neg_inf")
DIALECT = "cuda_tile"


class TileIrType:
    """Base of the tile vocabulary's types."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class NumberType(TileIrType):
    """An element type.  Integers carry no sign: operations say how they read them.

    `row` holds the format's facts; `since` is the first Tile IR version that has the type.
    """

    name: str
    row: DType
    since: tuple[int, int] = (13, 1)

    @property
    def bits(self) -> int:
        return self.row.bits

    @property
    def is_float(self) -> bool:
        return self.row.is_float

    @property
    def written_bits(self) -> int:
        """The width of a pattern in files: tf32's 19 bits without its padding."""
        return self.row.bits - self.row.pad_bits

    def __str__(self) -> str:
        return self.name


_NUMBERS = (
    NumberType("i1", BOOL),
    NumberType("i8", I8),
    NumberType("i16", I16),
    NumberType("i32", I32),
    NumberType("i64", I64),
    NumberType("f16", F16),
    NumberType("bf16", BF16),
    NumberType("f32", F32),
    NumberType("f64", F64),
    NumberType("tf32", TF32),
    NumberType("f8E4M3FN", E4M3),
    NumberType("f8E5M2", E5M2),
    NumberType("f8E8M0FNU", E8M0, (13, 2)),
    NumberType("f4E2M1FN", E2M1, (13, 3)),
    NumberType("fnv8E5M3FNU", E5M3, (13, 4)),
    NumberType("i4", I4, (13, 3)),
)
NUMBERS = {number.name: number for number in _NUMBERS}


@dataclass(frozen=True, slots=True)
class PointerType(TileIrType):
    """Address in global memory of elements of `pointee`.

    `ptr_attr` is one of `PTR_ATTRS`, or empty: not given.
    """

    pointee: TileIrType
    ptr_attr: str = ""

    def __str__(self) -> str:
        attr = f", <{self.ptr_attr}>" if self.ptr_attr else ""
        return f"ptr<{self.pointee}{attr}>"


@dataclass(frozen=True, slots=True)
class TileType(TileIrType):
    """`element`s (numbers or pointers) in a box of static shape."""

    shape: tuple[int, ...]
    element: TileIrType

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return product(self.shape)

    def __str__(self) -> str:
        return "tile<" + "".join(f"{d}x" for d in self.shape) + f"{self.element}>"


@dataclass(frozen=True, slots=True)
class TensorViewType(TileIrType):
    """A tensor in memory.  Units: shape and strides in elements; None is known at run time only."""

    element: TileIrType
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    ptr_attr: str = ""

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        dims = "".join(f"{_dim(d)}x" for d in self.shape)
        strides = f", strides=[{','.join(map(_dim, self.strides))}]" if self.strides else ""
        attr = f", #{DIALECT}.ptr_attr<{self.ptr_attr}>" if self.ptr_attr else ""
        return f"tensor_view<{dims}{self.element}{strides}{attr}>"


@dataclass(frozen=True, slots=True)
class ViewType(TileIrType):
    """Base of the views that hand out tiles of a tensor.

    `dim_map[i]` is the tensor dimension that tile dimension `i` runs along; `padding` fills what
    lies outside the tensor (empty: unspecified).
    """

    since: ClassVar[tuple[int, int]] = (13, 1)
    tile: tuple[int, ...]
    view: TensorViewType
    padding: str = ""

    @property
    def loaded(self) -> TileType:
        """The type of one tile."""
        return TileType(self.tile, self.view.element)

    def _padding(self) -> str:
        return f", padding_value = {self.padding}" if self.padding else ""


@dataclass(frozen=True, slots=True)
class PartitionViewType(ViewType):
    """Disjoint tiles that cover the tensor."""

    dim_map: tuple[int, ...] = ()

    def __str__(self) -> str:
        return (
            f"partition_view<tile=({_box(self.tile)}){self._padding()}, {self.view}"
            f"{_dim_map(self.dim_map)}>"
        )


@dataclass(frozen=True, slots=True)
class StridedViewType(ViewType):
    """Tiles whose origins are `steps` elements apart: they may overlap or leave gaps."""

    since: ClassVar[tuple[int, int]] = (13, 3)
    steps: tuple[int, ...] = ()
    dim_map: tuple[int, ...] = ()

    def __str__(self) -> str:
        steps = ",".join(map(str, self.steps))
        return (
            f"strided_view<tile=({_box(self.tile)}), traversal_strides=[{steps}]"
            f"{self._padding()}, {self.view}{_dim_map(self.dim_map)}>"
        )


@dataclass(frozen=True, slots=True)
class GatherScatterViewType(ViewType):
    """Tiles whose positions along `sparse_dim` are given one by one."""

    since: ClassVar[tuple[int, int]] = (13, 3)
    sparse_dim: int = 0

    def __str__(self) -> str:
        return (
            f"gather_scatter_view<tile=({_box(self.tile)}){self._padding()}, {self.view}, "
            f"sparse_dim={self.sparse_dim}>"
        )


@dataclass(frozen=True, slots=True)
class TokenType(TileIrType):
    def __str__(self) -> str:
        return "token"


@dataclass(frozen=True, slots=True)
class FunctionType(TileIrType):
    """What a function takes and yields."""

    inputs: tuple[TileIrType, ...]
    outputs: tuple[TileIrType, ...]

    def __str__(self) -> str:
        outputs = ", ".join(map(spelled, self.outputs))
        if len(self.outputs) != 1 or isinstance(self.outputs[0], FunctionType):
            outputs = f"({outputs})"
        return f"({', '.join(map(spelled, self.inputs))}) -> {outputs}"


@dataclass(frozen=True, slots=True)
class ForeignType(TileIrType):
    """A type of another dialect: kept as it was written, never looked into."""

    text: str

    def __str__(self) -> str:
        return self.text


TOKEN = TokenType()


def product(shape: Sequence[int]) -> int:
    """The number of elements of a box; of one beyond 2^63 elements, only that it is."""
    total = 1
    for extent in shape:
        total *= extent
        if total >> 63 > 0:
            break
    return total


def spelled(t: object) -> str:
    """A type as it is written outside Tile IR's own syntax: `!cuda_tile.tile<i32>`, but `f32`."""
    return str(t) if isinstance(t, NumberType | ForeignType | FunctionType) else f"!{DIALECT}.{t}"


def _dim(extent: int | None) -> str:
    return "?" if extent is None else str(extent)


def _box(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _dim_map(dim_map: tuple[int, ...]) -> str:
    if dim_map == tuple(range(len(dim_map))):
        return ""
    return f", dim_map=[{', '.join(map(str, dim_map))}]"


_ANY_NUMBER = (
    "f16 or bf16 or f32 or tf32 or f64 or f8E4M3FN or f8E5M2 or f8E8M0FNU or f4E2M1FN or "
    "i1 or i8 or i16 or i32 or i64"
)


def fault(t: TileIrType) -> str:
    """What is wrong with a type whose parts are well formed; empty if nothing is."""
    if isinstance(t, PointerType):
        if not isinstance(t.pointee, NumberType) or t.pointee.name == "i4":
            return f"failed to verify 'pointeeType': {_ANY_NUMBER}"
    elif isinstance(t, TileType):
        return _tile_fault(t)
    elif isinstance(t, TensorViewType):
        return _tensor_view_fault(t)
    elif isinstance(t, ViewType):
        return _view_fault(t)
    return ""


def _tile_fault(t: TileType) -> str:
    if not isinstance(t.element, NumberType | PointerType):
        return f"failed to verify 'elementType': {_ANY_NUMBER} or Pointer type or i4"
    if t.rank > MAX_RANK:
        return f"a tile has at most {MAX_RANK} dimensions, got {t.rank}"
    shown = ", ".join(map(str, t.shape))
    if any(extent <= 0 for extent in t.shape):
        return f"all dimensions must be positive constants, got {shown}"
    if any(extent & (extent - 1) for extent in t.shape):
        return f"all dimensions must be powers of two, got {shown}"
    if t.size > MAX_ELEMENTS:
        return f"tile would exceed the maximum of {MAX_ELEMENTS} elements, got {t.size}"
    if isinstance(t.element, PointerType) and str(t.element.pointee) == "f4E2M1FN" and t.shape:
        return "tiles of ptr<f4E2M1FN> must have rank 0; use an f4 tile view for memory accesses"
    if str(t.element) == "f4E2M1FN" and t.size % 2:
        return "F4E2M1FN tiles must have an even number of elements"
    return ""


def _tensor_view_fault(t: TensorViewType) -> str:
    if not isinstance(t.element, NumberType) or t.element.name == "i4":
        return f"failed to verify 'elementType': {_ANY_NUMBER}"
    if len(t.shape) != len(t.strides):
        return (
            "expected shape and stride to be of same rank but got shape of rank "
            f"{len(t.shape)} and stride of rank {len(t.strides)}"
        )
    for what, extents in (("dimensions", t.shape), ("strides", t.strides)):
        if any(extent is not None and extent <= 0 for extent in extents):
            shown = ", ".join(map(_dim, extents))
            return f"{what} must have strictly positive constant sizes but got [{shown}]"
    if t.element.bits == 4 and not _packs(t):
        return (
            f"a tensor_view of {t.element} needs a dimension of stride 1 and even size, since two "
            "elements share a byte"
        )
    return ""


def _packs(t: TensorViewType) -> bool:
    units = [d for d, stride in zip(t.shape, t.strides, strict=True) if stride == 1]
    return any(d is None or d % 2 == 0 for d in units)


def _view_fault(t: ViewType) -> str:
    if not t.tile:
        return "0-dimension tile shape is not supported"
    for i, extent in enumerate(t.tile):
        if not 0 < extent < 2**31:
            return (
                f"tile dimension {i} exceeds i32 limitations (got {extent}, expected strictly "
                f"positive and less than or equal to {2**31 - 1})"
            )
    if any(extent & (extent - 1) for extent in t.tile):
        return (
            "tile shape dimensions must have power of two length but got "
            f"[{', '.join(map(str, t.tile))}]"
        )
    if product(t.tile) > MAX_ELEMENTS:
        return f"tile would exceed the maximum of {MAX_ELEMENTS} elements, got {product(t.tile)}"
    problem = ""
    if isinstance(t, GatherScatterViewType):
        if not 0 <= t.sparse_dim < len(t.tile):
            problem = (
                "gather dimension is outside of tensor view dimensions, expected strictly less "
                f"than {len(t.tile)}, got {t.sparse_dim}"
            )
    elif isinstance(t, PartitionViewType | StridedViewType):
        problem = _dim_map_fault(t, t.dim_map)
    return (
        (_steps_fault(t) if isinstance(t, StridedViewType) else "")
        or _rank_fault(t)
        or problem
        or _padding_fault(t)
    )


def _steps_fault(t: StridedViewType) -> str:
    if len(t.steps) != len(t.tile):
        return f"expected {len(t.tile)} traversal strides, got {len(t.steps)}"
    if any(step <= 0 for step in t.steps):
        shown = ", ".join(map(str, t.steps))
        return f"traversal strides must be strictly positive but got [{shown}]"
    return ""


def _rank_fault(t: ViewType) -> str:
    if len(t.tile) == t.view.rank:
        return ""
    return (
        "expected tensor_view rank and tile rank to match, got tensor_view of rank "
        f"{t.view.rank} and tiles of rank {len(t.tile)}"
    )


def _dim_map_fault(t: ViewType, dim_map: tuple[int, ...]) -> str:
    if len(dim_map) != len(t.tile):
        return (
            f"expected dim_map to map exactly all {len(t.tile)} dimensions of the tile, got "
            f"{len(dim_map)} mappings"
        )
    seen: dict[int, int] = {}
    for i, target in enumerate(dim_map):
        if target < 0:
            return f"target dimension must not be negative, got {target}"
        if target >= t.view.rank:
            return (
                "target dimension is outside of tensor view dimensions, expected strictly less "
                f"than {t.view.rank}, got {target}"
            )
        if target in seen:
            return (
                f"target dimension {target} mapped at least twice (for tile dimensions "
                f"{seen[target]} and {i})"
            )
        seen[target] = i
    return ""


def _padding_fault(t: ViewType) -> str:
    element = t.view.element
    if t.padding in ("", "zero") or (isinstance(element, NumberType) and element.is_float):
        return ""
    return (
        f"padding_value {t.padding} can only be used with floating point element types, got "
        f"'{element}'"
    )
