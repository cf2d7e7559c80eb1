"""An array's memory, addressed by element offsets."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Value
from tilewright.lang.tile.atomics import exchange_elements, update_elements
from tilewright.lang.tile.convert import converted
from tilewright.lang.tile.dtypes import DType, uint64
from tilewright.lang.tile.elements import (
    Elements,
    custom_mask,
    load_elements,
    pointers_at,
    spread,
    store_elements,
)
from tilewright.lang.tile.enums import MemoryOrder, MemoryScope
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.require import tile_of
from tilewright.lang.tile.state import AliasSet, api
from tilewright.lang.tile.values import Array, described, method


class RawArrayMemory:
    """An array's memory, addressed by offsets from its first element.  Units: elements."""

    __slots__ = ("aliases", "base", "dtype_")

    def __init__(self, base: Value, dtype: DType, aliases: AliasSet) -> None:
        self.base = base
        self.dtype_ = dtype
        self.aliases = aliases

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.dtype_

    def _at(self, offset: Any, mask: Any, what: str) -> Elements:
        tile = tile_of(offset, f"{what}: offset")
        if not tile.dtype_.is_int:
            raise TileTypeError(f"{what}: offsets are integers, got {described(tile)}")
        pointers = pointers_at(self.base, self.dtype_, converted(tile, uint64))
        kept = custom_mask(mask, tile.shape_, what)
        return Elements(pointers, tile.shape_, kept, self.dtype_, self.aliases)

    @api
    def load_offset(
        self,
        offset: Any,
        /,
        *,
        mask: Any = None,
        padding_value: Any = None,
        latency: int | None = None,
    ) -> Any:
        """The elements at `offset`; where `mask` is false, `padding_value`."""
        where = self._at(offset, mask, "load_offset")
        padding = (
            None
            if padding_value is None
            else spread(padding_value, where, "load_offset: padding_value")
        )
        return load_elements(where, padding, latency)

    @api
    def store_offset(
        self, offset: Any, value: Any, /, *, mask: Any = None, latency: int | None = None
    ) -> None:
        """Writes the elements at `offset`, where `mask` is true."""
        where = self._at(offset, mask, "store_offset")
        store_elements(where, spread(value, where, "store_offset: value"), latency)

    @api
    def atomic_cas_offset(
        self,
        offset: Any,
        expected: Any,
        desired: Any,
        /,
        *,
        mask: Any = None,
        memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
        memory_scope: MemoryScope = MemoryScope.DEVICE,
    ) -> Any:
        """Writes `desired` where the element equals `expected`; the old elements."""
        where = self._at(offset, mask, "atomic_cas_offset")
        return exchange_elements(
            where, expected, desired, memory_order, memory_scope, "atomic_cas_offset"
        )

    def _rmw(self, name: str, offset: Any, update: Any, mask: Any, order: Any, scope: Any) -> Any:
        what = f"atomic_{name}_offset"
        return update_elements(name, self._at(offset, mask, what), update, order, scope, what)

    @api
    def atomic_xchg_offset(
        self,
        offset: Any,
        update: Any,
        /,
        *,
        mask: Any = None,
        memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
        memory_scope: MemoryScope = MemoryScope.DEVICE,
    ) -> Any:
        """Replaces the elements; the old elements."""
        return self._rmw("xchg", offset, update, mask, memory_order, memory_scope)

    @api
    def atomic_add_offset(
        self,
        offset: Any,
        update: Any,
        /,
        *,
        mask: Any = None,
        memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
        memory_scope: MemoryScope = MemoryScope.DEVICE,
    ) -> Any:
        """Adds to the elements; the old elements."""
        return self._rmw("add", offset, update, mask, memory_order, memory_scope)

    @api
    def atomic_max_offset(
        self,
        offset: Any,
        update: Any,
        /,
        *,
        mask: Any = None,
        memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
        memory_scope: MemoryScope = MemoryScope.DEVICE,
    ) -> Any:
        """Keeps the greater; the old elements."""
        return self._rmw("max", offset, update, mask, memory_order, memory_scope)

    @api
    def atomic_min_offset(
        self,
        offset: Any,
        update: Any,
        /,
        *,
        mask: Any = None,
        memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
        memory_scope: MemoryScope = MemoryScope.DEVICE,
    ) -> Any:
        """Keeps the lesser; the old elements."""
        return self._rmw("min", offset, update, mask, memory_order, memory_scope)

    @api
    def atomic_and_offset(
        self,
        offset: Any,
        update: Any,
        /,
        *,
        mask: Any = None,
        memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
        memory_scope: MemoryScope = MemoryScope.DEVICE,
    ) -> Any:
        """element & update; the old elements."""
        return self._rmw("and", offset, update, mask, memory_order, memory_scope)

    @api
    def atomic_or_offset(
        self,
        offset: Any,
        update: Any,
        /,
        *,
        mask: Any = None,
        memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
        memory_scope: MemoryScope = MemoryScope.DEVICE,
    ) -> Any:
        """element | update; the old elements."""
        return self._rmw("or", offset, update, mask, memory_order, memory_scope)

    @api
    def atomic_xor_offset(
        self,
        offset: Any,
        update: Any,
        /,
        *,
        mask: Any = None,
        memory_order: MemoryOrder = MemoryOrder.ACQ_REL,
        memory_scope: MemoryScope = MemoryScope.DEVICE,
    ) -> Any:
        """element ^ update; the old elements."""
        return self._rmw("xor", offset, update, mask, memory_order, memory_scope)


@method("get_raw_memory")
def get_raw_memory(array: Array) -> RawArrayMemory:
    """The array's memory without its shape."""
    return RawArrayMemory(array.base, array.dtype_, array.aliases)
