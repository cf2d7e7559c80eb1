"""The layout algebra for tensors and layouts alike: a tensor keeps its iterator.

Argument orders are CuTe DSL's (`slice_(src, coord)`, `repeat_like(value, target)`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.errors import TypeMismatchError
from tilewright.lang import trace
from tilewright.lang.cute.located import located
from tilewright.lang.cute.pointer import row_of, static_int
from tilewright.lang.cute.tensor import Tensor, advance, plain
from tilewright.lang.values import Uint16, describe
from tilewright.layout import compose, divide, int_tuple, inverse, modes, multiply, recast
from tilewright.layout import coord as coords
from tilewright.layout import layout as layouts
from tilewright.layout.basis import ScaledBasis
from tilewright.layout.complement import complement as layout_complement
from tilewright.layout.layout import Layout
from tilewright.layout.swizzle import ComposedLayout, Swizzle

_LAYOUTS = (Layout, ComposedLayout)


def _on_layout(x: Any, fn: Callable[[Any], Any]) -> Any:
    """`fn` of a layout or tuple, or of a tensor's layout."""
    return Tensor(x.iterator, fn(x.layout)) if isinstance(x, Tensor) else fn(x)


def _tensor(x: Any, what: str) -> Tensor:
    if isinstance(x, Tensor):
        return x
    raise TypeMismatchError(
        f"{what}: expected a Tensor, got {describe(x)}",
        loc=trace.loc(),
        hint="a layout has no origin to move; use zipped_divide and slice_ on layouts",
    )


# Making layouts.


@located
def make_layout(*parts: Any, stride: Any = None) -> Layout:
    """``shape:stride`` from a shape (compact column-major without `stride`), or layouts joined."""
    if parts and all(isinstance(p, Layout) for p in parts):
        return layouts.make_layout(*parts)
    first = parts[0] if len(parts) == 1 else ()
    if isinstance(first, tuple) and first and all(isinstance(p, Layout) for p in first):
        return layouts.make_layout(*first)
    return layouts.make_layout(*(plain(p) for p in parts), stride=plain(stride))


@located
def make_ordered_layout(shape: Any, order: Any) -> Layout:
    """Compact layout; the mode of smallest `order` varies fastest."""
    return layouts.make_ordered_layout(plain(shape), plain(order))


@located
def make_identity_layout(shape: Any) -> Layout:
    """``L(c) == c``."""
    return layouts.make_identity_layout(plain(shape))


@located
def make_swizzle(b: int, m: int, s: int) -> Swizzle:
    """``Sw<b,m,s>``: b bits at m are XORed with those s higher.

    >>> print(make_swizzle(3, 3, 3))
    Sw<3,3,3>
    """
    return Swizzle(b, m, s)


@located
def make_composed_layout(inner: Any, offset: Any, outer: Any) -> ComposedLayout:
    """``inner o offset o outer``; a Swizzle counts in the elements of `outer`."""
    return ComposedLayout(inner, plain(offset), outer)


@located
def tile_to_shape(atom: Any, trg_shape: Any, order: Any = None) -> Any:
    """`atom` repeated until it covers `trg_shape`, the copies in the sequence `order`."""
    return multiply.tile_to_shape(atom, plain(trg_shape), plain(order))


# Questions.


@located
def size(x: Any, mode: Any = None) -> Any:
    """Number of elements; of a tiled copy or MMA, of its threads."""
    if isinstance(x, int):
        return x
    own = getattr(x, "num_threads", None)
    if own is not None:
        return own
    return modes.size(x, plain(mode))


@located
def shape(x: Any, mode: Any = None) -> Any:
    """The shape of a tensor or layout; a tuple is its own."""
    return modes.shape(x, plain(mode))


@located
def rank(x: Any, mode: Any = None) -> int:
    """Number of top-level modes."""
    return modes.rank(x, plain(mode))


@located
def depth(x: Any, mode: Any = None) -> int:
    """Levels of nesting."""
    return modes.depth(x, plain(mode))


@located
def cosize(x: Any, mode: Any = None) -> Any:
    """Elements of the smallest buffer that holds every offset."""
    return modes.cosize(x.layout if isinstance(x, Tensor) else x, plain(mode))


def size_in_bytes(dtype: Any, layout: Any) -> Any:
    """Bytes of the smallest buffer that holds `layout` with elements of `dtype`."""
    count = cosize(layout)
    bits = row_of(dtype).storage_bits
    return -(-count * bits // 8) if isinstance(count, int) else count * bits // 8


def is_static(x: Any) -> bool:
    """Whether `x` holds no run-time value."""
    return modes.is_static(x.layout if isinstance(x, Tensor) else plain(x))


@located
def elem_less(a: Any, b: Any) -> Any:
    """Every element of coordinate `a` is less than its partner in `b`: in bounds."""
    return int_tuple.elem_less(plain(a), plain(getattr(b, "shape", b)))


@located
def crd2idx(coord: Any, layout_or_shape: Any) -> Any:
    """The offset of a coordinate in a layout, or its index in a shape.

    Raises: TypeMismatchError if the arguments are swapped; LayoutError if they do not fit.
    """
    if isinstance(coord, (*_LAYOUTS, Tensor)):
        raise TypeMismatchError(
            f"crd2idx: expected crd2idx(coord, layout), got {describe(coord)} as coord",
            loc=trace.loc(),
            hint="swap the arguments",
        )
    target = layout_or_shape.layout if isinstance(layout_or_shape, Tensor) else layout_or_shape
    if isinstance(target, ComposedLayout):
        return target(plain(coord))
    return coords.crd2idx(plain(coord), target if isinstance(target, Layout) else plain(target))


@located
def idx2crd(idx: Any, shape: Any) -> Any:
    """The coordinate of an index in a shape."""
    return coords.idx2crd(plain(idx), plain(getattr(shape, "shape", shape)))


@located
def ceil_div(a: Any, b: Any) -> Any:
    """How many pieces of `b` cover `a`; tuples mode by mode.

    >>> ceil_div(100, 32), ceil_div((100, 64), (32, 64))
    (4, (4, 1))
    """
    return divide.ceil_div(plain(a), b if isinstance(b, _LAYOUTS) else plain(b))


@located
def round_up(a: Any, b: Any) -> Any:
    """The smallest multiple of `b` that is not less than `a`; tuples mode by mode."""
    return int_tuple.round_up(plain(a), plain(b))


@located
def right_inverse(x: Any) -> Any:
    """The largest R with ``x(R(i)) == i``."""
    return inverse.right_inverse(_layout(x, "right_inverse"))


@located
def left_inverse(x: Any) -> Any:
    """R with ``R(x(i)) == i`` for injective x."""
    return inverse.left_inverse(_layout(x, "left_inverse"))


@located
def complement(x: Any, cotarget: Any = None) -> Layout:
    """The layout of the offsets that `x` leaves uncovered."""
    return layout_complement(_layout(x, "complement"), plain(cotarget))


def _layout(x: Any, what: str) -> Any:
    if isinstance(x, _LAYOUTS):
        return x
    raise TypeMismatchError(
        f"{what}: expected a layout, got {describe(x)}",
        loc=trace.loc(),
        hint="make_layout(shape) turns a shape into a layout",
    )


# Changing modes.


@located
def select(x: Any, mode: Any) -> Any:
    """The top-level modes named, in that order."""
    return _on_layout(x, lambda t: modes.select(t, mode))


@located
def get(x: Any, mode: Any) -> Any:
    """One mode of a layout or tensor, or element of a tuple."""
    return _on_layout(x, lambda t: modes.get(t, mode))


@located
def group_modes(x: Any, begin: int, end: int = -1) -> Any:
    """Modes [begin, end) wrapped into one; `end` -1 is the rank."""
    stop = rank(x) if end == -1 else end
    return _on_layout(x, lambda t: modes.group_modes(t, begin, stop))


@located
def append(x: Any, elem: Any, up_to_rank: int | None = None) -> Any:
    """`x` with one more mode, or padded with `elem` up to a rank."""
    return _on_layout(x, lambda t: modes.append(t, elem, up_to_rank))


@located
def prepend(x: Any, elem: Any, up_to_rank: int | None = None) -> Any:
    """`x` with one more mode in front, or padded with `elem` up to a rank."""
    return _on_layout(x, lambda t: modes.prepend(t, elem, up_to_rank))


def append_ones(x: Any, up_to_rank: int | None = None) -> Any:
    """`x` with modes of size 1 appended."""
    return append(x, Layout(1, 0) if not isinstance(x, tuple) else 1, up_to_rank)


@located
def flatten(x: Any) -> Any:
    """All leaves as top-level modes."""
    return _on_layout(x, modes.flatten)


@located
def coalesce(x: Any, target_profile: Any = None) -> Any:
    """The simplest layout of the same function; under a profile, mode by mode."""
    return _on_layout(x, lambda t: modes.coalesce(t, target_profile))


def filter_zeros(x: Any, target_profile: Any = None) -> Any:
    """Every stride-0 mode shrunk to size 1 (a profile changes nothing here: it acts on leaves)."""
    del target_profile
    return _on_layout(x, modes.filter_zeros)


def filter(x: Any, target_profile: Any = None) -> Any:
    """Every distinct element once."""
    return _on_layout(x, lambda t: modes.filter(t, target_profile))


def repeat_like(value: Any, target: Any) -> Any:
    """`value` at every leaf of the profile of `target`."""
    return int_tuple.repeat_like(target, value)


@located
def slice_(src: Any, coord: Any) -> Any:
    """The modes under the wildcards of `coord`; of a tensor, with the offset it starts at."""
    if isinstance(src, Tensor):
        return src[coord]
    return modes.slice_(plain(coord), src)


@located
def domain_offset(coord: Any, tensor: Any) -> Tensor:
    """The tensor with its origin moved to `coord`; its shape stays."""
    t = _tensor(tensor, "domain_offset")
    layout, offset = modes.domain_offset(plain(coord), t.layout)
    return Tensor(advance(t.iterator, offset), layout)


# Composition, division, product.


@located
def composition(lhs: Any, rhs: Any) -> Any:
    """``R(c) = lhs(rhs(c))``."""
    tiler = rhs if isinstance(rhs, (*_LAYOUTS, Swizzle)) else plain(rhs)
    return _on_layout(lhs, lambda t: compose.composition(t, tiler))


@located
def logical_divide(target: Any, tiler: Any) -> Any:
    """Every mode as (tile, rest)."""
    return _on_layout(target, lambda t: divide.logical_divide(t, plain(tiler)))


@located
def zipped_divide(target: Any, tiler: Any) -> Any:
    """((tile0, tile1, ..), (rest0, rest1, ..))."""
    return _on_layout(target, lambda t: divide.zipped_divide(t, plain(tiler)))


@located
def tiled_divide(target: Any, tiler: Any) -> Any:
    """((tile0, tile1, ..), rest0, rest1, ..)."""
    return _on_layout(target, lambda t: divide.tiled_divide(t, plain(tiler)))


@located
def flat_divide(target: Any, tiler: Any) -> Any:
    """(tile0, tile1, .., rest0, rest1, ..)."""
    return _on_layout(target, lambda t: divide.flat_divide(t, plain(tiler)))


@located
def logical_product(block: Any, tiler: Any) -> Any:
    """``(block, block* o tiler)``."""
    return multiply.logical_product(block, plain(tiler))


@located
def zipped_product(block: Any, tiler: Any) -> Any:
    return multiply.zipped_product(block, plain(tiler))


@located
def tiled_product(block: Any, tiler: Any) -> Any:
    return multiply.tiled_product(block, plain(tiler))


@located
def flat_product(block: Any, tiler: Any) -> Any:
    return multiply.flat_product(block, plain(tiler))


@located
def recast_layout(new_type_bits: int, old_type_bits: int, src_layout: Any) -> Any:
    """The layout of the same memory in elements of another width."""
    return recast.recast_layout(new_type_bits, old_type_bits, src_layout)


@located
def local_tile(input: Any, tiler: Any, coord: Any, proj: Any = None) -> Tensor:
    """The tile of a tensor at tile-coordinate `coord`; None keeps all tiles along that mode.

    Shapes: (M,K) by (128,64) at (m, None): (128, 64, K/64).  `proj` = (1, None, 1) takes modes M
            and K of an (M,N,K) tiler.
    """
    t = _tensor(input, "local_tile")
    layout, offset = divide.local_tile(t.layout, plain(tiler), plain(coord), proj)
    return Tensor(advance(t.iterator, offset), layout)


@located
def local_partition(target: Any, tiler: Any, index: Any, proj: Any = None) -> Tensor:
    """The elements of thread `index`, threads laid out by `tiler`, repeated over the tensor."""
    t = _tensor(target, "local_partition")
    layout, offset = divide.local_partition(t.layout, tiler, plain(index), proj)
    return Tensor(advance(t.iterator, offset), layout)


@located
def make_layout_image_mask(lay: Any, coord: Any, mode: int) -> Any:
    """One bit for each CTA of a cluster layout along `mode` from `coord`: a multicast mask."""
    at = tuple(0 if i == mode else c for i, c in enumerate(plain(coord)))
    along = lay[mode]
    bits = 0
    for i in range(modes.size(along)):
        bits |= 1 << along(i)
    base = lay(at)
    number = static_int(base)
    return Uint16(bits << number) if number is not None else Uint16(bits << base)


def basis_value(x: Any) -> Any:
    """The scale of a basis vector, or the number itself."""
    return x.basis_value if isinstance(x, ScaledBasis) else x


def basis_get(basis: ScaledBasis, t: Any) -> Any:
    """The element of `t` on the axis of `basis`."""
    return coords.at_path(t, basis.path)
