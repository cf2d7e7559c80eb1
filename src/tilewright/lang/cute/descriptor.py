"""Tensors of wgmma matrix descriptors: what an instruction takes for an operand in shared memory.

The 64 bits of a descriptor are constants except the start address in the low word.  So a tensor of
descriptors is a low word, made once where the fragment is made, and a layout in units of 16 bytes:
stepping K, M or the stage adds a small number.
"""

from __future__ import annotations

from typing import Any, Literal

from tilewright.arch.descriptor import ADDRESS_MASK, UNIT_BYTES, descriptor_of
from tilewright.arch.mma.atom import MmaAtom
from tilewright.arch.swizzle_mode import SWIZZLE_MODES, SwizzleMode
from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.ir.core import Value
from tilewright.ir.ops import arith, memory
from tilewright.lang import trace
from tilewright.lang.cute.facts import divisor, ones
from tilewright.lang.cute.pointer import AddressSpace, Pointer, split_terms, sum_terms
from tilewright.lang.cute.tensor import Tensor
from tilewright.lang.values import Uint32, Uint64, describe, numeric_of
from tilewright.layout.int_tuple import transform_leaf
from tilewright.layout.layout import Layout, make_layout
from tilewright.layout.modes import size
from tilewright.layout.swizzle import ComposedLayout
from tilewright.numeric.dtypes import DType


class Descriptor:
    """One matrix descriptor.

    Units:  `low` is the low word without `static`, both in units of 16 bytes where they count
            addresses; `bits` the constant 64 bits.
    """

    __slots__ = ("bits", "element", "low", "static")
    __tw_immutable__ = True

    def __init__(self, low: Any, static: int, bits: int, element: DType) -> None:
        self.low, self.static, self.bits, self.element = low, static, bits, element

    @property
    def dtype(self) -> Any:
        """The numeric class of the elements described."""
        return numeric_of(self.element)

    def __add__(self, offset: Any) -> Descriptor:
        """The descriptor `offset` units of 16 bytes further on."""
        number, terms = split_terms(offset)
        moving, low = sum_terms(terms), self.low
        if moving is not None:
            low = low + Uint32(moving)
        return Descriptor(low, self.static + number, self.bits, self.element)

    def encoded(self) -> Value:
        """The 64 bits, as u64."""
        low = (self.low + self.static).ir_value()
        wide = trace.value(arith.Cast, low, dtype="u64")
        return trace.value(arith.Or, wide, Uint64(self.bits).ir_value())

    def __tw_values__(self) -> list[Value]:
        return [self.low.ir_value()]

    def __tw_with_values__(self, values: list[Value]) -> Descriptor:
        return Descriptor(Uint32(values[0]), self.static, self.bits, self.element)

    def __str__(self) -> str:
        return f"smem_desc<{self.element}>"


def swizzle_mode_of(p: Pointer) -> SwizzleMode:
    """The hardware's name for the swizzle of a pointer.

    Raises: LayoutError if the hardware has none like it.
    """
    for mode in SWIZZLE_MODES:
        if (p.swizzle is None and mode.bits == 0) or p.swizzle == mode.on_bytes:
            return mode
    raise LayoutError(
        f"TMA and wgmma have no swizzle {p.swizzle} of bytes; they have "
        + ", ".join(f"{m.name} {m.on_bytes}" for m in SWIZZLE_MODES if m.bits),
        loc=trace.loc(),
        hint="make the layout with warpgroup.make_smem_layout_atom and cute.tile_to_shape",
    )


def make_descriptor_tensor(x: Any, row: MmaAtom, which: Literal["A", "B"]) -> Tensor:
    """Descriptors for a partition of shared memory: (1, rest0, rest1, ..).

    Raises: TypeMismatchError unless `x` is a partition of a shared-memory tensor of the
            instruction's element type; LayoutError if no descriptor describes its layout.
    """
    p = _pointer(x, row, which)
    values, mode = x.layout[0], swizzle_mode_of(p)
    element = row.dtype(which)
    nbytes = element.storage_bits // 8
    extents = (size(values, [0]), size(values, [1])) if len(values) == 2 else ()
    if extents != row.matrix_shape(which):
        raise TypeMismatchError(
            f"make_fragment_{which}: expected a partition, ((rows, K), ..), got {x.layout}",
            loc=trace.loc(),
            hint=f"pass thr_mma.partition_{which}(tensor)",
        )
    seen = values if mode.bits == 0 else ComposedLayout(mode.on_elements(element), 0, values)
    found = descriptor_of(seen, row.major(which), element)
    rest = [x.layout[i] for i in range(1, len(x.layout))]
    _check_start(p, mode, rest, nbytes, which)
    low = _low_word(p, found.leading_bytes // UNIT_BYTES << 16)
    high = found.encode() & ~((1 << 32) - 1)
    start = Descriptor(low, p.static * nbytes // UNIT_BYTES, high, element)
    units = make_layout(Layout(1, 0), *[_in_units(r, nbytes, which) for r in rest])
    return Tensor(start, units)


def _pointer(x: Any, row: MmaAtom, which: Literal["A", "B"]) -> Pointer:
    if not isinstance(x, Tensor):
        raise TypeMismatchError(
            f"make_fragment_{which}: {row.name} reads {which} from shared memory, expected its "
            f"partition, got {describe(x)}",
            loc=trace.loc(),
            hint=f"pass thr_mma.partition_{which}(tensor)",
        )
    p = x.iterator
    if not isinstance(p, Pointer) or p.memspace is not AddressSpace.smem:
        raise TypeMismatchError(
            f"make_fragment_{which}: {row.name} reads {which} from shared memory, got {x}",
            loc=trace.loc(),
        )
    wanted = row.dtype(which)
    if p.element is not wanted and {p.element.name, wanted.name} != {"f32", "tf32"}:
        raise TypeMismatchError(
            f"make_fragment_{which}: {row.name} takes {wanted} for {which}, the tensor holds "
            f"{p.element}",
            loc=trace.loc(),
        )
    return p


def _in_units(layout: Layout, nbytes: int, which: str) -> Layout:
    def scaled(d: Any) -> int:
        if type(d) is not int or d * nbytes % UNIT_BYTES:
            raise LayoutError(
                f"make_fragment_{which}: stride {d} is not a compile-time multiple of 16 bytes",
                details={"layout": layout},
                loc=trace.loc(),
            )
        return d * nbytes // UNIT_BYTES

    return Layout(layout.shape, transform_leaf(scaled, layout.stride))


def _check_start(
    p: Pointer, mode: SwizzleMode, rest: list[Layout], nbytes: int, which: str
) -> None:
    """Raises: LayoutError unless every operand starts in the first row of the swizzle pattern."""
    start = p.static * nbytes
    dynamic = 0 if p.low is None else ones(p.low)
    ok = start % UNIT_BYTES == 0 and (p.low is None or divisor(p.low) * nbytes % UNIT_BYTES == 0)
    if mode.bits and ok:
        ok = dynamic >= 0 and dynamic * nbytes < mode.span_bytes
        reach = [0]
        for layout in rest:
            steps = {layout(i) * nbytes % mode.repeat_bytes for i in range(size(layout))}
            reach = [a + b for a in reach for b in steps]
        begin = start + max(dynamic, 0) * nbytes
        ok = ok and all((begin + r) % mode.repeat_bytes < mode.span_bytes for r in reach)
    if not ok:
        raise LayoutError(
            f"make_fragment_{which}: an operand may only start in the first row of the "
            f"{mode.name} swizzle pattern, at a multiple of 16 bytes",
            details={"pointer": p, "rest": ", ".join(map(str, rest))},
            loc=trace.loc(),
            hint="slice the tile at multiples of 8 rows",
        )


def _low_word(p: Pointer, leading: int) -> Any:
    """The low word of the descriptor of a pointer's run-time part."""
    base = p.base
    if p.low is not None:
        base = trace.value(memory.Offset, base, p.low.ir_value(), divisor=max(divisor(p.low), 1))
    address = Uint32(trace.value(memory.SharedAddress, base))
    return ((address & ADDRESS_MASK) >> 4) | leading if leading else (address & ADDRESS_MASK) >> 4
