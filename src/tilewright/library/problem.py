"""The problem: what is to be computed, apart from how.

    D[M,N] = alpha * A[M,K] * B[K,N] + beta * C[M,N]

`GemmProblem` is what selects a kernel: sizes, element types and majors.  It holds no pointers, so
it can be printed, hashed and stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import LaunchError
from tilewright.numeric.dtypes import DType, dtype

MAJORS = {"A": ("K", "M"), "B": ("K", "N"), "C": ("N", "M"), "D": ("N", "M")}
"""Which index each operand may have contiguous; the first is what tensor cores like best."""

_ROW_MAJOR = {"A": "K", "B": "N", "C": "N", "D": "N"}


@dataclass(frozen=True, slots=True)
class Operand:
    """Element type, contiguous index, and what divides the pitch and the base address.

    `pitch` is the distance in elements between neighbours along the other index, `base_align` the
    largest power of two (up to 16) that divides the byte address.
    """

    name: str
    dtype: DType
    major: str
    pitch: int
    base_align: int = 16

    @property
    def pitch_bytes(self) -> int:
        return self.dtype.bytes_for(self.pitch)

    @property
    def align_bytes(self) -> int:
        """The largest power of two, up to 16, that every row start is a multiple of.

        >>> Operand("A", dtype("bf16"), "K", pitch=36).align_bytes
        8
        """
        pitch = self.pitch_bytes
        return min(self.base_align, 16, pitch & -pitch if pitch else 16)

    def __str__(self) -> str:
        return f"{self.dtype.name}:{'row' if self.major == _ROW_MAJOR[self.name] else 'column'}"


@dataclass(frozen=True, slots=True)
class GemmProblem:
    """One GEMM: sizes, operands, accumulator.  `c` is None when beta is 0: C is then never read.

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
    ) -> GemmProblem:
        """A problem whose operands are stored without gaps."""
        pitch = {"K": k, "M": m, "N": n}
        out, inp = dtype(d), dtype(ab)

        def operand(name: str, of: DType, major: str) -> Operand:
            if major not in MAJORS[name]:
                raise LaunchError(
                    f"{name}: major {major!r} does not exist, expected {' or '.join(MAJORS[name])}"
                )
            return Operand(name, of, major, pitch[major])

        return cls(
            m,
            n,
            k,
            operand("A", inp, a_major),
            operand("B", inp, b_major),
            operand("D", out, d_major),
            operand("C", out, d_major) if with_c else None,
            dtype("f32"),
        )

    @property
    def flops(self) -> int:
        """Multiply-adds counted as two, plus two per element of D for alpha and beta."""
        return 2 * self.m * self.n * self.k + 2 * self.m * self.n

    @property
    def bytes(self) -> int:
        """The fewest bytes to move: each input read once, the output written once."""
        c = self.c.dtype.bytes_for(self.m * self.n) if self.c else 0
        return (
            self.a.dtype.bytes_for(self.m * self.k)
            + self.b.dtype.bytes_for(self.k * self.n)
            + self.d.dtype.bytes_for(self.m * self.n)
            + c
        )

    def __str__(self) -> str:
        c = f" C={self.c}" if self.c else ""
        return (
            f"gemm {self.m}x{self.n}x{self.k} A={self.a} B={self.b}{c} D={self.d} "
            f"accum={self.accumulator.name}"
        )
