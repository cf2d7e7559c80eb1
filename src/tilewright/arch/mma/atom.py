"""MmaAtom: one matrix multiply-accumulate instruction as one row of facts.

    D[m, n] = sum_k A[m, k] * B[n, k] + C[m, n]

The row says which thread holds which element of each operand, in which registers, and the PTX
text.  The emitter, the simulator's executor, the picture and the conformance test all read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tilewright.arch.target import Target
from tilewright.arch.thread_value import (
    is_broadcast,
    is_compact,
    num_threads,
    num_values,
    tv_table,
)
from tilewright.errors import LayoutError, Loc
from tilewright.layout.int_tuple import flatten_tuple
from tilewright.layout.layout import Layout
from tilewright.numeric.dtypes import F32, F64, DType

Operand = Literal["A", "B", "C", "D"]
Major = Literal["K", "MN"]
Source = Literal["rmem", "smem"]
MmaKind = Literal["fma", "mma", "wgmma"]


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
            ``m + n*M``.  `thr_id` maps the thread mode to thread numbers in the group that
            executes the instruction together: 1 thread (fma), a warp (mma), a warpgroup (wgmma).
    Laws:   1 a register operand's layout is a bijection onto its matrix
            2 a shared-memory operand is seen whole by every thread: thread stride 0, and its value
              mode is a bijection onto the matrix
    Units:  `min_arch` is the first sm number that has it; `requires` is the feature of
            `arch.target` that decides (wgmma is not in sm_100a).  `ptx` is the mnemonic with all
            its qualifiers.
    Raises: LayoutError if the row breaks a law.
    """

    name: str
    kind: MmaKind
    shape_mnk: tuple[int, int, int]
    d_dtype: DType
    a_dtype: DType
    b_dtype: DType
    c_dtype: DType
    thr_id: Layout
    layout_a: Layout
    layout_b: Layout
    layout_c: Layout
    min_arch: int
    ptx: str
    a_source: Source = "rmem"
    b_source: Source = "rmem"
    a_major: Major = "K"
    b_major: Major = "K"
    requires: str = ""

    def __post_init__(self) -> None:
        threads = flatten_tuple(self.thr_id.shape)[0]
        for which in ("A", "B", "C"):
            layout = self.layout(which)
            if num_threads(layout) != threads:
                raise LayoutError(
                    f"MMA atom {self.name}: layout of {which} is over {num_threads(layout)} "
                    f"threads, the atom has {threads}",
                    details={which: layout},
                )
            if not _law_holds(layout, self.size(which), self.source(which)):
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

    def dtype(self, which: Operand) -> DType:
        """The element type of an operand."""
        by_name = {"A": self.a_dtype, "B": self.b_dtype, "C": self.c_dtype, "D": self.d_dtype}
        return by_name[which]

    def layout(self, which: Operand) -> Layout:
        """The thread-value layout of an operand; D's is C's."""
        return {"A": self.layout_a, "B": self.layout_b}.get(which, self.layout_c)

    def source(self, which: Operand) -> Source:
        """Where the instruction reads the operand."""
        return {"A": self.a_source, "B": self.b_source}.get(which, "rmem")

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
        """The registers that each thread passes for an operand."""
        if self.source(which) == "smem":
            return DESCRIPTOR
        return _register_file(self.dtype(which), self.num_values(which), self.kind)

    def available_on(self, target: Target) -> bool:
        """Whether `target` has the instruction."""
        return not self.requires or target.has(self.requires)

    def check_target(self, target: Target, loc: Loc | None = None) -> None:
        """Raises: TargetError if `target` does not have the instruction."""
        if self.requires:
            target.require(self.requires, f"MMA atom {self.name}", loc)

    def instruction(
        self, d: Sequence[str], a: Sequence[str], b: Sequence[str], c: Sequence[str]
    ) -> str:
        """The PTX instruction on the given register names.

        For wgmma, `d` is updated in place and `c` is the one predicate that says whether to add it.

        Raises: LayoutError if the number of names is not that of the registers.
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
def _law_holds(layout: Layout, size: int, source: Source) -> bool:
    if source == "smem":
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
