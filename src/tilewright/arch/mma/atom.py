"""MmaAtom: one matrix multiply-accumulate instruction as one row of facts.

    D[m, n] = sum_k A[m, k] * B[n, k] + C[m, n]

The row says which thread holds which element of each operand, in which registers, and the PTX
text.  The emitter, the simulator's executor, the picture and the conformance test all read it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tilewright.arch.element import Element, RawElement
from tilewright.arch.target import Target
from tilewright.arch.thread_value import (
    is_broadcast,
    is_compact,
    num_threads,
    num_values,
    tv_table,
)
from tilewright.errors import DTypeError, LayoutError, Loc, TargetError
from tilewright.layout.int_tuple import flatten_tuple
from tilewright.layout.layout import Layout
from tilewright.numeric.dtypes import F32, F64, DType

Operand = Literal["A", "B", "C", "D"]
Major = Literal["K", "MN"]
Source = Literal["rmem", "smem", "tmem"]
MmaKind = Literal["fma", "dot", "mma", "quad_pair", "wgmma", "umma", "mfma"]
Operation = Literal["multiply", "xor_popc", "and_popc"]


@dataclass(frozen=True, slots=True)
class RegisterFile:
    """How one thread passes one operand to inline PTX.

    `count` registers of C type `ctype` under asm constraint `constraint`, `per_register` values in
    each, the lower-numbered value in the lower bits.  A shared-memory operand is one 64-bit matrix
    descriptor, with no values in it.
    """

    count: int
    ctype: str
    constraint: str
    per_register: int


DESCRIPTOR = RegisterFile(1, "unsigned long long", "l", 0)


@dataclass(frozen=True, slots=True, eq=False)
class MmaAtom:
    """One MMA instruction; rows are compared by identity.

    Shapes: `layout_a`, `layout_b`, `layout_c` map (thread, value) to ``m + k*M``, ``n + k*N`` and
            ``m + n*M``.  `thr_id` maps the thread mode to numbers in the group that executes the
            instruction together: one thread (fma, dot), the eight threads of a quad pair, a warp
            (mma), a warpgroup (wgmma), a wave of 64 lanes (mfma), or one or two CTAs (umma).
    Laws:   1 an operand's layout is a bijection onto its matrix, over threads or over CTAs
            2 except wgmma's in shared memory, which every thread sees whole: thread stride 0, and
              the value mode is a bijection onto the matrix
    Units:  `min_arch` is the first sm number that has it; `requires` is the feature of
            `arch.target` that decides (wgmma is not in sm_100a).  `ptx` is the mnemonic with all
            its qualifiers; empty where the generator does not write the instruction.
            `bits` is what one value of D, A, B and C takes, if not the width of its type (a 4-bit
            float in an 8-bit container).
            `sparsity` 2: of each pair or quad of A along K only half is stored; A's layout counts
            the zeros too.  `scale_vector`: that many elements along K share one `scale_type`.
    Raises: LayoutError if the row breaks a law.
    """

    name: str
    kind: MmaKind
    shape_mnk: tuple[int, int, int]
    d_type: Element
    a_type: Element
    b_type: Element
    c_type: Element
    thr_id: Layout
    layout_a: Layout
    layout_b: Layout
    layout_c: Layout
    min_arch: int
    ptx: str = ""
    a_source: Source = "rmem"
    b_source: Source = "rmem"
    c_source: Source = "rmem"
    a_major: Major = "K"
    b_major: Major = "K"
    requires: str = ""
    bits: tuple[int, ...] = ()
    operation: Operation = "multiply"
    saturate: bool = False
    sparsity: int = 1
    scale_vector: int = 0
    scale_type: Element | None = None

    def __post_init__(self) -> None:
        threads = math.prod(flatten_tuple(self.thr_id.shape))
        for which in ("A", "B", "C"):
            layout = self.layout(which)
            if num_threads(layout) != threads:
                raise LayoutError(
                    f"MMA atom {self.name}: layout of {which} is over {num_threads(layout)} "
                    f"threads, the atom has {threads}",
                    details={which: layout},
                )
            seen_whole = self.kind == "wgmma" and self.source(which) == "smem"
            if not _law_holds(layout, self.size(which), seen_whole):
                rows, cols = self.matrix_shape(which)
                raise LayoutError(
                    f"MMA atom {self.name}: layout of {which} is not a bijection onto "
                    f"its {rows}x{cols} matrix",
                    details={which: layout},
                )

    def __str__(self) -> str:
        return self.name

    @property
    def num_threads(self) -> int:
        """Threads that execute the instruction together."""
        return num_threads(self.layout_c)

    @property
    def has_emitter(self) -> bool:
        """Whether the generator writes the instruction, and the simulator executes it."""
        return bool(self.ptx)

    @property
    def d_dtype(self) -> DType:
        """The type of D's elements."""
        return self.dtype("D")

    @property
    def a_dtype(self) -> DType:
        """The type of A's elements."""
        return self.dtype("A")

    @property
    def b_dtype(self) -> DType:
        """The type of B's elements."""
        return self.dtype("B")

    @property
    def c_dtype(self) -> DType:
        """The type of C's elements."""
        return self.dtype("C")

    def element(self, which: Operand) -> Element:
        """The element type of an operand, which need not be a `DType`."""
        by_name = {"A": self.a_type, "B": self.b_type, "C": self.c_type, "D": self.d_type}
        return by_name[which]

    def dtype(self, which: Operand) -> DType:
        """The `DType` of an operand's elements.

        Raises: DTypeError if there is none.
        """
        element = self.element(which)
        if isinstance(element, RawElement):
            raise DTypeError(
                f"MMA atom {self.name}: operand {which} holds {element}, {element.bits} bits "
                "that no element type of the language describes",
                hint="element() tells its name and width",
            )
        return element

    @property
    def operand_bits(self) -> tuple[int, int, int, int]:
        """Bits that one value of D, A, B and C takes.

        A value of a sparse A stands for the zeros as well, so it takes half of its type's width.
        """
        if self.bits:
            d, a, b, c = self.bits
            return d, a, b, c
        a_bits = self.a_type.bits // self.sparsity
        return self.d_type.bits, a_bits, self.b_type.bits, self.c_type.bits

    def layout(self, which: Operand) -> Layout:
        """The thread-value layout of an operand; D's is C's."""
        return {"A": self.layout_a, "B": self.layout_b}.get(which, self.layout_c)

    def source(self, which: Operand) -> Source:
        """Where the instruction reads the operand, or writes D."""
        return {"A": self.a_source, "B": self.b_source}.get(which, self.c_source)

    def major(self, which: Operand) -> Major:
        """The direction in which a shared-memory operand is contiguous."""
        return self.a_major if which == "A" else self.b_major

    def matrix_shape(self, which: Operand) -> tuple[int, int]:
        """(M, K), (N, K) or (M, N)."""
        m, n, k = self.shape_mnk
        return {"A": (m, k), "B": (n, k)}.get(which, (m, n))

    def size(self, which: Operand) -> int:
        """Elements of the operand's matrix."""
        rows, cols = self.matrix_shape(which)
        return rows * cols

    def num_values(self, which: Operand) -> int:
        """Elements that each thread holds of a register operand (of a shared one: all)."""
        return num_values(self.layout(which))

    def registers(self, which: Operand) -> RegisterFile:
        """The registers that each thread passes for an operand.

        Raises: TargetError if the generator does not write the instruction.
        """
        self._require_emitter()
        if self.source(which) == "smem":
            return DESCRIPTOR
        return _register_file(self.dtype(which), self.num_values(which), self.kind)

    def available_on(self, target: Target) -> bool:
        """Whether the generator can write the instruction for `target`."""
        return self.has_emitter and (not self.requires or target.has(self.requires))

    def _require_emitter(self, loc: Loc | None = None) -> None:
        if not self.has_emitter:
            raise TargetError(
                f"MMA atom {self.name}: the code generator does not write this instruction; "
                "its row only says which thread holds what",
                loc=loc,
            )

    def check_target(self, target: Target, loc: Loc | None = None) -> None:
        """Raises: TargetError if the generator cannot write the instruction for `target`."""
        self._require_emitter(loc)
        if self.requires:
            target.require(self.requires, f"MMA atom {self.name}", loc)

    def instruction(
        self, d: Sequence[str], a: Sequence[str], b: Sequence[str], c: Sequence[str]
    ) -> str:
        """The PTX instruction on the given register names.

        For wgmma, `d` is updated in place and `c` is the one predicate that says whether to add it.

        Raises: LayoutError if the number of names is not that of the registers; TargetError if
        the generator does not write the instruction.
        """
        wgmma = self.kind == "wgmma"
        given: dict[Operand, Sequence[str]] = {"D": d, "A": a, "B": b, "C": c}
        for which, names in given.items():
            expected = 1 if wgmma and which == "C" else self.registers(which).count
            if len(names) != expected:
                raise LayoutError(
                    f"MMA atom {self.name}: operand {which} takes {expected} registers, "
                    f"got {len(names)} names"
                )
        if self.kind == "fma":
            return f"{self.ptx} {d[0]}, {a[0]}, {b[0]}, {c[0]};"
        if not wgmma:
            return f"{self.ptx} {_braced(d)}, {_braced(a)}, {_braced(b)}, {_braced(c)};"
        first = a[0] if self.a_source == "smem" else _braced(a)
        tail = "".join(f", {i}" for i in self.immediates())
        return f"{self.ptx} {_braced(d)}, {first}, {b[0]}, {c[0]}{tail};"

    def immediates(self) -> tuple[int, ...]:
        """wgmma's trailing constants: the signs of A and B, then a bit per operand that may be
        MN-major (16-bit types in shared memory).  Integer forms have none.

        Source: PTX ISA, `wgmma.mma_async`: imm-scale-a, imm-scale-b, imm-trans-a, imm-trans-b.
        """
        if self.kind != "wgmma" or self.a_dtype.is_integer:
            return ()
        if self.a_dtype.bits != 16:
            return (1, 1)
        trans_a = (int(self.a_major == "MN"),) if self.a_source == "smem" else ()
        return (1, 1, *trans_a, int(self.b_major == "MN"))


def _braced(names: Sequence[str]) -> str:
    return "{" + ", ".join(names) + "}"


@lru_cache(maxsize=1024)
def _law_holds(layout: Layout, size: int, seen_whole: bool) -> bool:
    if seen_whole:
        return is_broadcast(layout) and is_compact(layout.shape[1], layout.stride[1], size)
    return is_compact(layout.shape, layout.stride, size)


def _register_file(dtype: DType, values: int, kind: MmaKind) -> RegisterFile:
    if dtype is F64:
        return RegisterFile(values, "double", "d", 1)
    if dtype is F32:
        return RegisterFile(values, "float", "f", 1)
    if dtype.bits == 32:
        return RegisterFile(values, "int" if dtype.kind == "int" else "unsigned", "r", 1)
    if kind == "fma":
        return RegisterFile(values, "unsigned short", "h", 1)
    packed = 32 // dtype.bits
    return RegisterFile(values // packed, "unsigned", "r", packed)


@lru_cache(maxsize=1024)
def operand_map(atom: MmaAtom, which: Operand) -> tuple[tuple[tuple[int, int], ...], ...]:
    """``map[thread][value] == (row, column)``: A's (m, k), B's (n, k), C's and D's (m, n).

    A shared-memory operand gives every thread the same row, the whole matrix in colexicographic
    order.
    """
    rows, _ = atom.matrix_shape(which)
    known: dict[tuple[int, ...], tuple[tuple[int, int], ...]] = {}
    out = []
    for values in tv_table(atom.layout(which)):
        if values not in known:
            known[values] = tuple((v % rows, v // rows) for v in values)
        out.append(known[values])
    return tuple(out)
