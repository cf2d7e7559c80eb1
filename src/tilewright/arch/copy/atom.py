"""CopyAtom: one copy instruction as one row of facts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from tilewright.arch.target import Target
from tilewright.arch.thread_value import num_threads, num_values
from tilewright.errors import LayoutError, Loc
from tilewright.layout.int_tuple import flatten_tuple
from tilewright.layout.layout import Layout

CopyKind = Literal["universal", "cp_async", "ldmatrix", "stmatrix", "tma_load", "tma_store"]


@dataclass(frozen=True, slots=True)
class CopyAtom:
    """One copy instruction.

    Shapes: `src_layout`, `dst_layout`, `ref_layout` map (thread, bit) to a bit of the data that
            the instruction moves: which bits a thread addresses or holds on either side.
            `ref_layout` is the side by whose threads and values a tiled copy is described.
    Units:  `access_bits` is what one thread's address covers: the access of a plain copy, one
            16-byte row of a matrix copy; 0 for TMA, whose box decides (see `sized`).
            `min_arch` is the sm number, `requires` a feature of `arch.target`.
    Laws:   1 the three layouts are over the threads of `thr_id`
            2 source and destination name the same bits, each thread of the register side its own
    PTX:    `ptx` has the operand names of the PTX ISA in braces, to be filled by ``str.format``;
            registers of matrix copies come as one ``{regs}``.
    Raises: LayoutError if the row breaks law 1.
    """

    name: str
    kind: CopyKind
    thr_id: Layout
    src_layout: Layout
    dst_layout: Layout
    ref_layout: Layout
    access_bits: int
    min_arch: int
    ptx: str
    num_matrices: int = 0
    transpose: bool = False
    cache: Literal["", "ca", "cg"] = ""
    zero_fill: bool = False
    multicast: bool = False
    requires: str = ""

    def __post_init__(self) -> None:
        threads = flatten_tuple(self.thr_id.shape)[0]
        for side in ("src", "dst", "ref"):
            layout = getattr(self, f"{side}_layout")
            if num_threads(layout) != threads:
                raise LayoutError(
                    f"copy atom {self.name}: layout of {side} is over {num_threads(layout)} "
                    f"threads, the atom has {threads}",
                    details={side: layout},
                )

    def __str__(self) -> str:
        return self.name

    @property
    def num_threads(self) -> int:
        """Threads that execute the instruction together."""
        return num_threads(self.ref_layout)

    @property
    def access_bytes(self) -> int:
        """What one thread's address covers, in bytes."""
        return self.access_bits // 8

    @property
    def ref_bits(self) -> int:
        """Bits per thread on the reference side: of the registers, for a matrix copy."""
        return num_values(self.ref_layout)

    @property
    def is_bulk(self) -> bool:
        """Whether the TMA engine does it, issued by one thread."""
        return self.kind in ("tma_load", "tma_store")

    def sized(self, bits: int) -> CopyAtom:
        """The TMA atom for boxes of `bits`: one thread moves them all.

        Raises: LayoutError if the atom's size is fixed.
        """
        if not self.is_bulk:
            raise LayoutError(
                f"copy atom {self.name}: always moves {self.ref_bits} bits per thread; only a TMA "
                f"atom can be sized, here to {bits}"
            )
        box = Layout((1, bits), (0, 1))
        return dataclasses.replace(self, src_layout=box, dst_layout=box, ref_layout=box)

    def available_on(self, target: Target) -> bool:
        """Whether `target` has the instruction."""
        return not self.requires or target.has(self.requires)

    def check_target(self, target: Target, loc: Loc | None = None) -> None:
        """Raises: TargetError if `target` does not have the instruction."""
        if self.requires:
            target.require(self.requires, f"copy atom {self.name}", loc)
