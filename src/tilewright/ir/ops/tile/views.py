"""Tensor views and the views of their tiles: making them, asking their extents, access by tile."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.core import Constraint, Effect, operand, optional, result, results, variadic
from tilewright.ir.ops.tile.base import (
    INT0,
    INTS,
    NUMBERS_,
    POINTER0,
    TENSOR_VIEWS,
    TOKENS,
    VIEWS,
    TileOp,
    enum_attr,
    hints_attr,
    maybe,
    tile_type,
)
from tilewright.ir.ops.tile.memory import (
    LOAD_ORDERS,
    STORE_ORDERS,
    mode_fault,
    order_fault,
)
from tilewright.ir.tile_attrs import ATOMIC_MODE, MEMORY_ORDER, MEMORY_SCOPE
from tilewright.ir.tile_types import (
    GatherScatterViewType,
    NumberType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
    ViewType,
    spelled,
)
from tilewright.ir.types import Type


class MakeTensorView(TileOp):
    """A tensor at `base`; `dynamicShape` and `dynamicStrides` fill the type's `?` in order."""

    name = "cuda_tile.make_tensor_view"
    opcode = 0x43
    base = operand(POINTER0)
    dynamicShape = variadic(INT0)
    dynamicStrides = variadic(INT0)
    result = result(TENSOR_VIEWS)
    assembly = "@make_tensor_view"

    def check(self) -> str | None:
        view = self.result.type
        assert isinstance(view, TensorViewType), "a constraint admits only tensor views"
        pointer = tile_type(self.base.type).element
        assert isinstance(pointer, PointerType), "a constraint admits only pointers"
        if pointer.pointee != view.element:
            return (
                f"expected pointer to '{view.element}' to build tensor_view of this type, got "
                f"'{pointer.pointee}'"
            )
        if pointer.ptr_attr and not view.ptr_attr:
            return (
                f"tensor_view must preserve ptr_attr from base pointer "
                f"(#cuda_tile.ptr_attr<{pointer.ptr_attr}>)"
            )
        if view.ptr_attr and not pointer.ptr_attr:
            return "pointer base without ptr_attr cannot produce tensor_view with ptr_attr"
        for what, extents, given in (
            ("shape", view.shape, self.dynamicShape),
            ("stride", view.strides, self.dynamicStrides),
        ):
            wanted = sum(extent is None for extent in extents)
            if wanted != len(given):
                return f"expected {wanted} dynamic {what} operands, got {len(given)}"
        kinds = {v.type for v in (*self.dynamicShape, *self.dynamicStrides)}
        if len(kinds) > 1:
            shown = ", ".join(sorted(f"'{spelled(t)}'" for t in kinds))
            return f"expected all dynamic shape and stride operands to have one type, got {shown}"
        return None


class _MakeView(TileOp):
    tensor_view = operand(TENSOR_VIEWS)
    result = result(VIEWS)

    def check(self) -> str | None:
        view, given = self.result.type, self.tensor_view.type
        assert isinstance(view, ViewType), "a constraint admits only views"
        if view.view != given:
            return (
                f"expected the type of the provided tensor_view value ('{spelled(given)}') to be "
                f"the same as the view's tensor_view type ('{spelled(view.view)}')"
            )
        return None


def _only(kind: type[ViewType], title: str) -> Constraint:
    return Constraint(f"{title} view type", lambda t: isinstance(t, kind))


class MakePartitionView(_MakeView):
    """Disjoint tiles that cover the tensor."""

    result = result(_only(PartitionViewType, "partition"))
    name = "cuda_tile.make_partition_view"
    opcode = 0x42
    assembly = "tensor_view : @view(partition_view)"


class MakeStridedView(_MakeView):
    """Tiles that begin every so many elements."""

    result = result(_only(StridedViewType, "strided"))
    name = "cuda_tile.make_strided_view"
    opcode = 0x74
    since = (13, 3)
    assembly = "tensor_view : @view(strided_view)"


class MakeGatherScatterView(_MakeView):
    """Tiles whose positions along one dimension are given one by one."""

    result = result(_only(GatherScatterViewType, "gather/scatter"))
    name = "cuda_tile.make_gather_scatter_view"
    opcode = 0x73
    since = (13, 3)
    assembly = "tensor_view : @view(gather_scatter_view)"


class GetTensorShape(TileOp):
    """The tensor's extents.  Units: elements."""

    name = "cuda_tile.get_tensor_shape"
    opcode = 0x2F
    src = operand(TENSOR_VIEWS)
    shape = results(INT0)
    assembly = "src : @extents(tensor)"

    def check(self) -> str | None:
        view = self.src.type
        assert isinstance(view, TensorViewType), "a constraint admits only tensor views"
        if len(self.results) != view.rank:
            return f"expected {view.rank} results due to tensor rank, but got {len(self.results)}"
        return None


class GetIndexSpaceShape(TileOp):
    """How many tiles the view has along each tile dimension."""

    name = "cuda_tile.get_index_space_shape"
    opcode = 0x2D
    src = operand(VIEWS)
    shape = results(INT0)
    assembly = "src : @extents(view)"

    def check(self) -> str | None:
        view = self.src.type
        assert isinstance(view, ViewType), "a constraint admits only views"
        if len(self.results) != len(view.tile):
            return (
                f"expected {len(view.tile)} results due to view index space rank, but got "
                f"{len(self.results)}"
            )
        return None


def _index_fault(view: ViewType, index: Sequence[Type]) -> str | None:
    if len(index) != len(view.tile):
        return f"expected {len(view.tile)} index operands (based on view type), got {len(index)}"
    sparse = view.sparse_dim if isinstance(view, GatherScatterViewType) else -1
    first: Type | None = None
    number = 0
    for i, t in enumerate(index):
        tile = tile_type(t)
        if i == sparse:
            if tile.rank != 1:
                return f"expected gather/scatter index type to be a rank-1 tile, got '{spelled(t)}'"
            if tile.shape[0] != view.tile[i]:
                return (
                    f"expected gather/scatter index size ({tile.shape[0]}) to match tile shape at "
                    f"gather/scatter dimension {i} ({view.tile[i]})"
                )
            continue
        if tile.rank:
            return f"expected index type to be a scalar tile, got '{spelled(t)}'"
        if first is not None and t != first:
            return (
                f"expected index type {number} to be the same as other index types "
                f"('{spelled(first)}'), got '{spelled(t)}'"
            )
        first = first or t
        number += 1
    return None


def _inbounds_fault(view: ViewType, inbounds: tuple[bool, ...] | None) -> str | None:
    if inbounds and len(inbounds) != len(view.tile):
        return (
            f"inbounds size ({len(inbounds)}) must match the number of index dimensions "
            f"({len(view.tile)})"
        )
    return None


def _access_fault(
    view: Type, tile: Type, index: Sequence[Type], inbounds: tuple[bool, ...] | None
) -> str | None:
    assert isinstance(view, ViewType), "a constraint admits only views"
    if tile != view.loaded:
        return (
            f"expected tile type to be '{spelled(view.loaded)}' (based on view type), got "
            f"'{spelled(tile)}'"
        )
    return _index_fault(view, index) or _inbounds_fault(view, inbounds)


class LoadViewTko(TileOp):
    """The tile at `index`; elements outside the tensor are the view's padding value."""

    name = "cuda_tile.load_view_tko"
    opcode = 0x3E
    effect = Effect.READ
    memory_ordering_semantics = enum_attr(MEMORY_ORDER, "attribute")
    memory_scope = enum_attr(MEMORY_SCOPE, "strict_scope")
    optimization_hints = hints_attr()
    inbounds: maybe[tuple[bool, ...] | None] = maybe(tuple, (13, 4))
    view = operand(VIEWS)
    index = variadic(INTS)
    token = optional(TOKENS)
    tile = result(NUMBERS_)
    result_token = result(TOKENS)
    assembly = (
        "memory_ordering_semantics memory_scope view [[ index ]] @token optimization_hints "
        "@inbounds : type(view) @index_types -> type(tile) , type(result_token)"
    )

    def check(self) -> str | None:
        order, scope = self.memory_ordering_semantics, self.memory_scope
        return order_fault("load", order, scope, LOAD_ORDERS) or _access_fault(
            self.view.type, self.tile.type, self.types_of("index"), self.inbounds
        )


class StoreViewTko(TileOp):
    """Writes the tile at `index`; elements outside the tensor are dropped."""

    name = "cuda_tile.store_view_tko"
    opcode = 0x66
    effect = Effect.WRITE
    memory_ordering_semantics = enum_attr(MEMORY_ORDER, "attribute")
    memory_scope = enum_attr(MEMORY_SCOPE, "strict_scope")
    optimization_hints = hints_attr()
    inbounds: maybe[tuple[bool, ...] | None] = maybe(tuple, (13, 4))
    tile = operand(NUMBERS_)
    view = operand(VIEWS)
    index = variadic(INTS)
    token = optional(TOKENS)
    result_token = result(TOKENS)
    assembly = (
        "memory_ordering_semantics memory_scope tile , view [[ index ]] @token "
        "optimization_hints @inbounds : type(tile) , type(view) @index_types "
        "-> type(result_token)"
    )

    def check(self) -> str | None:
        order, scope = self.memory_ordering_semantics, self.memory_scope
        return order_fault("store", order, scope, STORE_ORDERS) or _access_fault(
            self.view.type, self.tile.type, self.types_of("index"), self.inbounds
        )


class AtomicRedViewTko(TileOp):
    """Combines a tile into memory element by element, without yielding what was there."""

    name = "cuda_tile.atomic_red_view_tko"
    opcode = 0x75
    since = (13, 3)
    effect = Effect.WRITE
    memory_ordering_semantics = enum_attr(MEMORY_ORDER, "keyword")
    memory_scope = enum_attr(MEMORY_SCOPE, "keyword")
    mode = enum_attr(ATOMIC_MODE, "keyword")
    view = operand(VIEWS)
    index = variadic(INTS)
    value = operand(NUMBERS_)
    token = optional(TOKENS)
    result_token = result(TOKENS)
    assembly = (
        "memory_ordering_semantics memory_scope view [[ index ]] , mode , value @token "
        ": type(value) , type(view) @index_types -> type(result_token)"
    )

    def check(self) -> str | None:
        if self.memory_ordering_semantics != "relaxed":
            return "only 'relaxed' memory ordering is supported for view-based atomic reductions"
        if self.memory_scope == "sys":
            return (
                "memory scope 'sys' is not supported for view-based atomic reductions; use "
                "'tl_blk' or 'device' for TMA compatibility"
            )
        if self.mode == "xchg":
            return "atomic_red_view_tko op cannot use xchg operation"
        view, value = self.view.type, tile_type(self.value.type)
        assert isinstance(view, ViewType), "a constraint admits only views"
        if isinstance(view, GatherScatterViewType):
            return "gather_scatter_view is not supported; use partition_view instead"
        if view.padding:
            return "views with padding_value are not supported for atomic reductions"
        return self._value_fault(view, value)

    def _value_fault(self, view: ViewType, value: TileType) -> str | None:
        element = view.view.element
        if len(self.index) != len(view.tile):
            return (
                f"expected {len(view.tile)} index operand(s) for view with tile rank "
                f"{len(view.tile)}, got {len(self.index)}"
            )
        if element != value.element:
            return (
                f"view element type ('{element}') must match value element type ('{value.element}')"
            )
        assert isinstance(element, NumberType), "a tensor view holds numbers"
        if fault := mode_fault(self.mode, element):
            return fault
        if view.tile != value.shape:
            shown = [", ".join(map(str, shape)) for shape in (view.tile, value.shape)]
            return (
                f"view tile shape {shown[0]} must match value shape {shown[1]} for element-wise "
                "atomic operations"
            )
        return _index_fault(view, self.types_of("index"))
