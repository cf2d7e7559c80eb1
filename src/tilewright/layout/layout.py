"""Layout: a function from coordinates to offsets, written ``shape:stride``, and how to make one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.errors import LayoutError
from tilewright.layout.basis import ScaledBasis
from tilewright.layout.coord import (
    at_path,
    checked_shape,
    compact_col_major,
    compact_order,
    compact_row_major,
    dot,
    has_underscore,
    idx2crd,
    make_basis_like,
)
from tilewright.layout.int_tuple import (
    Coord,
    IntTuple,
    Shape,
    Stride,
    all_static,
    flatten_tuple,
    fmt,
    leaves,
    normalise,
    product,
    same,
    transform_leaf,
    unflatten,
    wrap,
)
from tilewright.layout.leaf import is_static
from tilewright.layout.static import inner, offset


class Layout:
    """``L(c) = sum(c_i * d_i)`` over the leaves of the natural coordinate of ``c``.

    Shapes: `shape` and `stride` are congruent; without `stride` compact column-major.
    Units:  offsets in elements; with basis strides, coordinates.
    Raises: LayoutError if the profiles differ, or a static extent is not at least 1.

    Static and immutable: hashable, and equal iff same profile and provably equal leaves.

    >>> L = Layout((4, (2, 3)), (6, (3, 1)))
    >>> print(L, L(5), L((1, 1)), L((1, (1, 0))), L[1])
    (4,(2,3)):(6,(3,1)) 9 9 9 (2,3):(3,1)
    """

    __slots__ = ("is_static", "shape", "stride")

    shape: Shape
    stride: Stride
    is_static: bool

    def __init__(self, shape: Shape, stride: Stride | None = None) -> None:
        if stride is None:
            if not (static := _plain(shape, shape)):
                shape = checked_shape(shape)
                static = all_static(shape)
            stride = compact_col_major(shape)
        elif _plain(shape, stride):
            static = True
        else:
            shape, stride = checked_shape(shape), normalise(stride, "stride")
            _check_congruent(shape, stride)
            static = all_static(shape) and all_static(stride)
        _set_shape(self, shape)
        _set_stride(self, stride)
        _set_static(self, static)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Layout is immutable: cannot set {name!r}")

    def __call__(self, *coord: Coord) -> Any:
        """Offset of a coordinate: an index, a flat or hierarchical coordinate.

        Raises: LayoutError if the coordinate does not fit, or holds a wildcard (slicing has an
        offset too: `slice_and_offset`).
        """
        c = coord[0] if len(coord) == 1 else coord
        if self.is_static:
            try:
                if type(c) is tuple:
                    return inner(c, self.shape, self.stride)
                if type(c) is int and c >= 0:
                    return offset(c, self.shape, self.stride)
            except TypeError:  # basis strides, run-time values, wildcards, or a misfit
                return self._general_offset(c)
        return self._general_offset(c)

    def _general_offset(self, c: Coord) -> Any:
        if has_underscore(c):
            raise LayoutError(
                f"layout {self} called with the wildcard coordinate {fmt(c)}",
                hint="slice_and_offset(coord, layout) gives the sublayout and its offset",
            )
        return dot(c, self.shape, self.stride)

    def __getitem__(self, mode: int | tuple[int, ...] | list[int]) -> Layout:
        """The layout of one mode, or of the mode at a path; negative counts from the end."""
        path = [mode] if isinstance(mode, int) else list(mode)
        if path and path[0] < 0:
            path[0] += len(self)
        if path == [0] and type(self.shape) is not tuple:
            return self
        return trusted(
            at_path(self.shape, path), at_path(self.stride, path), self.is_static or None
        )

    def __len__(self) -> int:
        return len(wrap(self.shape))

    def __iter__(self) -> Iterator[Layout]:
        """The layouts of the modes; a scalar layout is its own only mode."""
        static = self.is_static or None
        pairs = zip(wrap(self.shape), wrap(self.stride), strict=True)
        return (trusted(s, d, static) for s, d in pairs)

    def get_hier_coord(self, index: Any) -> Coord:
        """The natural coordinate whose offset is `index`: ``L(L.get_hier_coord(L(i))) == L(i)``.

        Raises: LayoutError unless the strides nest, each a multiple of the extent before it.
        """
        if self.is_static:
            _check_nested(self)
        return idx2crd(index, self.shape, self.stride)

    def get_flat_coord(self, index: Any) -> Coord:
        """The coordinate whose offset is `index`, one index per top-level mode.

        >>> Layout((8, (2, 2)), (4, (2, 1))).get_flat_coord(5)
        (1, 2)
        """
        crd = self.get_hier_coord(index)
        if type(self.shape) is not tuple:
            return crd
        trio = zip(crd, self.shape, strict=True)
        return tuple(dot(c, s, compact_col_major(s)) for c, s in trio)

    def get_1d_coord(self, index: Any) -> Any:
        """The linear index whose offset is `index`: ``L(L.get_1d_coord(L(i))) == L(i)``."""
        return dot(self.get_hier_coord(index), self.shape, compact_col_major(self.shape))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Layout)
            and same(self.shape, other.shape)
            and same(self.stride, other.stride)
        )

    def __hash__(self) -> int:
        if self.is_static:
            return hash((self.shape, self.stride))
        # Run-time leaves that are provably equal may be different objects: they count alike.
        both = (*leaves(self.shape), *leaves(self.stride))
        return hash(tuple(x if is_static(x) else None for x in both))

    def __reduce__(self) -> tuple[type[Layout], tuple[Shape, Stride]]:
        return Layout, (self.shape, self.stride)

    def __repr__(self) -> str:
        return f"Layout({self.shape!r}, {self.stride!r})"

    def __str__(self) -> str:
        return f"{fmt(self.shape)}:{fmt(self.stride)}"


# Slot descriptors write past the immutability guard; this is the fast path of every constructor.
_set_shape = Layout.__dict__["shape"].__set__
_set_stride = Layout.__dict__["stride"].__set__
_set_static = Layout.__dict__["is_static"].__set__


def trusted(shape: Shape, stride: Stride, static: bool | None = None) -> Layout:
    """A Layout of parts already known to be congruent and clean (internal fast path)."""
    layout = Layout.__new__(Layout)
    _set_shape(layout, shape)
    _set_stride(layout, stride)
    if static is None:
        static = _plain(shape, stride) or (all_static(shape) and all_static(stride))
    _set_static(layout, static)
    return layout


def _plain(shape: Any, stride: Any) -> bool:
    """True iff congruent and all leaves are ints, extents >= 1: nothing left to check."""
    if type(shape) is int:
        return type(stride) is int and shape > 0
    if type(shape) is not tuple or type(stride) is not tuple or len(shape) != len(stride):
        return False
    for s, d in zip(shape, stride, strict=True):
        if type(s) is int:
            if type(d) is not int or s < 1:
                return False
        elif not _plain(s, d):
            return False
    return True


def _check_congruent(shape: Shape, stride: Stride, path: tuple[int, ...] = ()) -> None:
    nested = type(shape) is tuple
    if nested != (type(stride) is tuple) or (nested and len(shape) != len(stride)):
        where = f" at mode {fmt(path)}" if path else ""
        raise LayoutError(
            f"Layout: shape and stride have different profiles{where}: "
            f"{fmt(shape)} against {fmt(stride)}"
        )
    if nested:
        for i, (s, d) in enumerate(zip(shape, stride, strict=True)):
            _check_congruent(s, d, (*path, i))


def _check_nested(layout: Layout) -> None:
    reach = 1
    for d, s in sorted(zip(flatten_tuple(layout.stride), leaves(layout.shape), strict=True)):
        if s == 1 or d == 0:
            continue
        if isinstance(d, ScaledBasis) or d < 0 or d % reach != 0:
            raise LayoutError(
                f"get_hier_coord: the strides of {layout} do not nest: stride {d} is not a "
                f"multiple of the extent {reach} before it"
            )
        reach = d * s


def make_layout(*parts: Any, stride: Stride | None = None) -> Layout:
    """``shape:stride`` from a shape, or the concatenation of layouts, one mode each.

    Raises: LayoutError if layouts are mixed with shapes, or given a stride.

    >>> print(make_layout((4, 8)), make_layout((4, 8), stride=(8, 1)))
    (4,8):(1,4) (4,8):(8,1)
    >>> print(make_layout(Layout(3), Layout((2, 2), (6, 0))))
    (3,(2,2)):(1,(6,0))
    """
    if parts and all(isinstance(p, Layout) for p in parts):
        if stride is not None:
            raise LayoutError("make_layout: layouts bring their own strides; `stride` is not used")
        static = all(p.is_static for p in parts)
        shapes, strides = (tuple(p.shape for p in parts), tuple(p.stride for p in parts))
        return trusted(shapes, strides, static)
    if any(isinstance(p, Layout) for p in parts):
        raise LayoutError(
            f"make_layout: expected one shape, or layouts; got {', '.join(fmt(p) for p in parts)}"
        )
    if len(parts) == 2 and stride is None:
        return Layout(parts[0], parts[1])
    if len(parts) != 1:
        raise LayoutError(f"make_layout: expected one shape, or layouts; got {len(parts)} values")
    return Layout(parts[0], stride)


def make_layout_right(shape: Shape) -> Layout:
    """Compact row-major: the last leaf varies fastest.

    >>> print(make_layout_right((4, 8)))
    (4,8):(8,1)
    """
    clean = checked_shape(shape)
    return trusted(clean, compact_row_major(clean))


def make_ordered_layout(shape: Shape, order: IntTuple) -> Layout:
    """Compact; the mode of smallest `order` varies fastest, ties from the left.

    Raises: LayoutError unless `order` is weakly congruent to `shape`.

    >>> print(make_ordered_layout((3, 5), order=(1, 0)))
    (3,5):(5,1)
    """
    clean = checked_shape(shape)
    return trusted(clean, compact_order(clean, normalise(order, "order")))


def make_identity_layout(shape: Shape) -> Layout:
    """``L(c) == c``: basis strides, the coordinates of the shape themselves.

    >>> L = make_identity_layout((4, (2, 3)))
    >>> print(L, L(9))
    (4,(2,3)):(1@0,(1@0@1,1@1@1)) (1, (0, 1))
    """
    clean = checked_shape(shape)
    return trusted(clean, make_basis_like(clean))


def make_layout_like(layout: Any) -> Layout:
    """Compact over the shape of `layout`, modes in the sequence of its strides; stride 0 stays 0.

    A composed layout counts by its outer layout.

    >>> print(make_layout_like(Layout((4, 4, 4), (8, 0, 1))))
    (4,4,4):(4,0,1)
    """
    while not isinstance(layout, Layout):
        layout = layout.outer
    flat, steps = flatten_tuple(layout.shape), flatten_tuple(layout.stride)
    sizes = tuple(1 if type(d) is int and d == 0 else s for s, d in zip(flat, steps, strict=True))
    order = tuple(abs(d) if type(d) is int else d for d in steps)
    return trusted(layout.shape, unflatten(compact_order(sizes, order), layout.shape))


def make_fragment_like(layout: Any) -> Layout:
    """Compact like `layout`, but mode 0 (one instruction's values) packed first.

    Stride-0 leaves of mode 0 stay 0; those of later modes get registers of their own.
    Units:  the layout of a register array of the same shape.

    >>> print(make_fragment_like(Layout((2, (4, 6)), (64, (6, 1)))))
    (2,(4,6)):(1,(12,2))
    """
    while not isinstance(layout, Layout):
        layout = layout.outer
    shape, stride = layout.shape, layout.stride
    if type(shape) is not tuple or len(shape) < 2:
        return trusted(shape, _packed(shape, stride))
    head = _packed(shape[0], stride[0])
    used = product(_nonzero_shape(shape[0], stride[0]))
    order = transform_leaf(lambda d: abs(d) if type(d) is int else d, stride[1:])
    return trusted(shape, (head, *compact_order(shape[1:], order, used)))


def _packed(shape: Shape, stride: Stride) -> Stride:
    """Compact column-major strides, stride-0 modes staying 0."""
    kept = _nonzero_shape(shape, stride)
    return _keep_zeros(compact_col_major(kept), stride)


def _nonzero_shape(shape: Shape, stride: Stride) -> Shape:
    if type(shape) is tuple:
        return tuple(_nonzero_shape(s, d) for s, d in zip(shape, stride, strict=True))
    return 1 if type(stride) is int and stride == 0 else shape


def _keep_zeros(fresh: Stride, old: Stride) -> Stride:
    if type(old) is tuple:
        return tuple(_keep_zeros(f, o) for f, o in zip(fresh, old, strict=True))
    return 0 if type(old) is int and old == 0 else fresh
