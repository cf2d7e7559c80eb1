"""CopyAtom: one copy instruction as one row of facts."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

from tilewright.arch.target import Target
from tilewright.arch.thread_value import num_threads, num_values
from tilewright.errors import LayoutError, Loc, TargetError
from tilewright.layout.int_tuple import flatten_tuple
from tilewright.layout.layout import Layout

CopyKind = Literal[
    "universal",
    "cp_async",
    "ldmatrix",
    "stmatrix",
    "tma_load",
    "tma_store",
    "tma_reduce",
    "bulk",
    "st_async",
    "streaming",
    "shuffle",
    "movmatrix",
    "tmem_load",
    "tmem_store",
    "tmem_copy",
]
_BULK = ("tma_load", "tma_store", "tma_reduce", "bulk")


@dataclass(frozen=True, slots=True)
class CopyAtom:
    """One copy instruction.

    Shapes: `src_layout`, `dst_layout`, `ref_layout` map (thread, bit) to a bit of the data that
            the instruction moves: which bits a thread addresses or holds on either side.
            `ref_layout` is the side by whose threads and values a tiled copy is described.
            The "threads" of a copy by the tensor engines are the CTAs that take part.
    Units:  `access_bits` is what one thread's address covers: the access of a plain copy, one
            16-byte row of a matrix copy; 0 for TMA, whose box decides (see `sized`).
            `min_arch` is the sm number, `requires` a feature of `arch.target`.
            `multiplicity`: places to which each source bit goes (tcgen05.cp into several lanes).
    Laws:   1 the three layouts are over the threads of `thr_id`
            2 source and destination name the same bits, each thread of the register side its own;
              only where `multiplicity` > 1 the source names each bit that many times, in the order
              of the destination's own numbers
    PTX:    `ptx` has the operand names of the PTX ISA in braces, to be filled by ``str.format``;
            registers of matrix copies come as one ``{regs}``.  Empty for plain copies, which are
            written in C++, and where the generator does not write the instruction.
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
    multiplicity: int = 1

    def __post_init__(self) -> None:
        threads = math.prod(flatten_tuple(self.thr_id.shape))
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
        return self.kind in _BULK

    @property
    def has_emitter(self) -> bool:
        """Whether the generator writes the instruction, and the simulator executes it."""
        return bool(self.ptx) or self.kind == "universal"

    def sized(self, bits: int) -> CopyAtom:
        """The TMA atom for boxes of `bits`: one thread moves them all, or each CTA of a pair.

        Raises: LayoutError if the atom's size is fixed.
        """
        if not self.is_bulk:
            raise LayoutError(
                f"copy atom {self.name}: always moves {self.ref_bits} bits per thread; only a TMA "
                f"atom can be sized, here to {bits}"
            )
        box = Layout((self.num_threads, bits), (bits if self.num_threads > 1 else 0, 1))
        return dataclasses.replace(self, src_layout=box, dst_layout=box, ref_layout=box)

    def available_on(self, target: Target) -> bool:
        """Whether the generator can write the instruction for `target`."""
        return self.has_emitter and (not self.requires or target.has(self.requires))

    def check_target(self, target: Target, loc: Loc | None = None) -> None:
        """Raises: TargetError if the generator cannot write the instruction for `target`."""
        if not self.has_emitter:
            raise TargetError(
                f"copy atom {self.name}: the code generator does not write this instruction; "
                "its row only says which thread moves what",
                loc=loc,
            )
        if self.requires:
            target.require(self.requires, f"copy atom {self.name}", loc)
