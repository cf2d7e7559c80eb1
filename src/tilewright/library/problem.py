"""The problem: what is to be computed, apart from how.

    D[M,N,L] = activation(alpha * A[M,K,L] * B[K,N,L] + beta * C[M,N,L] + bias[N])

`GemmProblem` is what selects a kernel: sizes, element types and majors.  It holds no pointers, so
it can be printed, hashed and stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from tilewright.errors import LaunchError
from tilewright.numeric.dtypes import DType, dtype

MAJORS = {"A": ("K", "M"), "B": ("K", "N"), "C": ("N", "M"), "D": ("N", "M")}
"""Which index each operand may have contiguous; the first is what tensor cores like best."""

_ROW_MAJOR = {"A": "K", "B": "N", "C": "N", "D": "N"}

_TRANSPOSED = {"A": "B", "B": "A", "C": "C", "D": "D"}
_OTHER = {"K": "K", "M": "N", "N": "M", "strided": "strided"}


class Majors(NamedTuple):
    """The contiguous index of A, B and D: K, or M or N."""

    a: str
    b: str
    d: str


@dataclass(frozen=True, slots=True)
class Operand:
    """Element type, contiguous index, and what divides the pitch and the base address.

    `pitch` is the distance in elements between neighbours along the other index, `batch_pitch`
    that between batches (0: one matrix for all), `base_align` the largest power of two (up to 16)
    that divides the byte address.
    """

    name: str
    dtype: DType
    major: str
    pitch: int
    base_align: int = 16
    batch_pitch: int = 0

    @property
    def pitch_bytes(self) -> int:
        return self.dtype.bytes_for(self.pitch)

    @property
    def align_bytes(self) -> int:
        """The largest power of two, up to 16, that every row start is a multiple of.

        >>> Operand("A", dtype("bf16"), "K", pitch=36).align_bytes
        8
        """
        pitches = self.pitch_bytes | self.dtype.bytes_for(self.batch_pitch)
        return min(self.base_align, 16, pitches & -pitches if pitches else 16)

    def transposed(self) -> Operand:
        """The operand that this one is in the transposed problem."""
        return replace(self, name=_TRANSPOSED[self.name], major=_OTHER[self.major])

    def __str__(self) -> str:
        return f"{self.dtype.name}:{'row' if self.major == _ROW_MAJOR[self.name] else 'column'}"


@dataclass(frozen=True, slots=True)
class GemmProblem:
    """One GEMM: sizes, operands, accumulator.  `c` is None when beta is 0: C is then never read.

    `batch` is L.  `bias` says whether a vector is added to every row (to every column in the
    transposed problem), `activation` what is applied at the end.

    >>> str(GemmProblem.packed(512, 256, 128, ab="bf16", d="bf16"))
    'gemm 512x256x128 A=bf16:row B=bf16:column D=bf16:row accum=f32'
    """

    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    d: Operand
    c: Operand | None
    accumulator: DType
    batch: int = 1
    bias: bool = False
    activation: str = ""

    @classmethod
    def packed(
        cls,
        m: int,
        n: int,
        k: int,
        *,
        ab: str | DType,
        d: str | DType,
        a_major: str = "K",
        b_major: str = "K",
        d_major: str = "N",
        with_c: bool = False,
        batch: int = 1,
    ) -> GemmProblem:
        """A problem whose operands are stored without gaps."""
        extent = {"A": m * k, "B": k * n, "C": m * n, "D": m * n}
        pitch = {"K": k, "M": m, "N": n}
        out, inp = dtype(d), dtype(ab)

        def operand(name: str, of: DType, major: str) -> Operand:
            if major not in MAJORS[name]:
                raise LaunchError(
                    f"{name}: major {major!r} does not exist, expected {' or '.join(MAJORS[name])}"
                )
            apart = extent[name] if batch > 1 else 0
            return Operand(name, of, major, pitch[major], batch_pitch=apart)

        return cls(
            m,
            n,
            k,
            operand("A", inp, a_major),
            operand("B", inp, b_major),
            operand("D", out, d_major),
            operand("C", out, d_major) if with_c else None,
            dtype("f32"),
            batch,
        )

    @property
    def majors(self) -> Majors:
        return Majors(self.a.major, self.b.major, self.d.major)

    @property
    def inputs(self) -> tuple[Operand, Operand]:
        """A and B."""
        return self.a, self.b

    def transposed(self) -> GemmProblem:
        """D^T = B^T A^T: the same elements of the same memory, with the operands exchanged."""
        return replace(
            self,
            m=self.n,
            n=self.m,
            a=self.b.transposed(),
            b=self.a.transposed(),
            c=self.c.transposed() if self.c else None,
            d=self.d.transposed(),
        )

    @property
    def flops(self) -> int:
        """Multiply-adds counted as two, plus two per element of D for alpha and beta."""
        return self.batch * (2 * self.m * self.n * self.k + 2 * self.m * self.n)

    @property
    def bytes(self) -> int:
        """The fewest bytes to move: each input read once, the output written once.

        An input that all batches share is read once.
        """
        sizes = {"A": self.m * self.k, "B": self.k * self.n, "C": self.m * self.n}
        sizes["D"] = sizes["C"]
        operands = (*self.inputs, self.d, *((self.c,) if self.c else ()))
        return sum(
            x.dtype.bytes_for(sizes[x.name]) * (self.batch if x.batch_pitch else 1)
            for x in operands
        )

    def __str__(self) -> str:
        c = f" C={self.c}" if self.c else ""
        batch = f"{self.batch}x" if self.batch != 1 else ""
        end = " +bias" * self.bias + (f" {self.activation}" if self.activation else "")
        return (
            f"gemm {batch}{self.m}x{self.n}x{self.k} A={self.a} B={self.b}{c} D={self.d} "
            f"accum={self.accumulator.name}{end}"
        )
