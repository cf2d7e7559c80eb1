"""A Hopper GEMM of operands that TMA cannot take: they are copied first, to rows that it can.

A copy reads and writes an operand once; the product reads it once for each column or row of tiles.
So copying pays, unless there are few tiles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.arch.target import Target
from tilewright.library import cpasync_config, heuristics
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.problem import GemmProblem, Operand
from tilewright.library.sm90_refusal import sm90_refusal
from tilewright.library.status import with_swapped_operands
from tilewright.numeric.dtypes import DType
from tilewright.runtime.arrays import ArrayView

ROW_ELEMENTS = 64
"""A copied row begins at a multiple of 128 bytes: TMA reads whole lines of the L2."""
ALIGN = 128
"""Bytes: where a copy begins."""
COPY_START = 2500
"""Clocks of a copy before its first byte, as far as the launch before it does not hide them."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Where in the workspace a copied operand lies: `extent` along M or N, K, batches of its own.

    `shared`: one matrix serves all batches of the product.
    """

    dtype: DType
    major: str
    extent: int
    k: int
    batches: int
    shared: bool
    offset: int

    @property
    def pitch(self) -> int:
        run = self.k if self.major == "K" else self.extent
        return -(-run // ROW_ELEMENTS) * ROW_ELEMENTS

    @property
    def matrix(self) -> int:
        """Elements from one batch to the next."""
        return self.pitch * (self.extent if self.major == "K" else self.k)

    @property
    def bytes(self) -> int:
        return -(-2 * self.matrix * self.batches // ALIGN) * ALIGN

    def view(self, whole: ArrayView, batches: int) -> ArrayView:
        """(extent, K, batches) in the workspace."""
        strides = (self.pitch, 1) if self.major == "K" else (1, self.pitch)
        apart = 0 if self.shared or batches == 1 else self.matrix
        return replace(
            whole,
            pointer=whole.pointer + self.offset,
            shape=(self.extent, self.k, batches),
            strides=(*strides, apart),
            dtype=self.dtype.name,
            element_bits=16,
        )


@dataclass(frozen=True, slots=True)
class PaddedWorkspace:
    """The copies of one problem; none of it has to be cleared."""

    copies: tuple[Copy, ...]
    batches: int
    cleared: bool = False

    @property
    def bytes(self) -> int:
        return sum(copy.bytes for copy in self.copies)

    def parts(self, whole: ArrayView) -> tuple[ArrayView, ...]:
        """For each copy what is written, and what the product reads."""
        return tuple(
            copy.view(whole, batches)
            for copy in self.copies
            for batches in (copy.batches, self.batches)
        )


@dataclass(frozen=True, slots=True)
class PaddedGemmConfig:
    """Which operands are copied, "A", "B" or "AB" as the kernel sees them; and the product."""

    gemm: Sm90GemmConfig
    copies: str

    @property
    def tile_shape_mnk(self) -> tuple[int, int, int]:
        return self.gemm.tile_shape_mnk

    @property
    def num_stages(self) -> int:
        return self.gemm.num_stages

    @property
    def swap_operands(self) -> bool:
        return self.gemm.swap_operands

    @property
    def split_k(self) -> int:
        return self.gemm.split_k

    def workspace(self, seen: GemmProblem) -> PaddedWorkspace:
        """Of the problem as the kernel sees it."""
        return PaddedWorkspace(tuple(copies_of(seen, self.copies).values()), seen.batch)

    def __str__(self) -> str:
        return f"copies of {' and '.join(self.copies)}, {self.gemm}"


def copied_major(major: str) -> str:
    """The contiguous index of a copy: the operand's own, K where it has none."""
    return "K" if major == "strided" else major


def copies_of(seen: GemmProblem, names: str) -> dict[str, Copy]:
    """The copies of the operands named, one behind the other in the workspace."""
    found: dict[str, Copy] = {}
    offset = 0
    for operand, extent in ((seen.a, seen.m), (seen.b, seen.n)):
        if operand.name in names:
            shared = operand.batch_pitch == 0
            batches = 1 if shared else seen.batch
            major = copied_major(operand.major)
            copy = Copy(operand.dtype, major, extent, seen.k, batches, shared, offset)
            found[operand.name] = copy
            offset += copy.bytes
    return found


def needs_copy(operand: Operand) -> bool:
    """Whether TMA cannot take an operand as it lies."""
    return operand.major == "strided" or operand.align_bytes < 16


def as_copied(problem: GemmProblem, copies: str) -> GemmProblem:
    """The problem of the product, whose operands are the copies.

    >>> odd = GemmProblem.packed(100, 50, 33, ab="bf16", d="bf16")
    >>> as_copied(odd, "AB").a.pitch, odd.a.align_bytes
    (64, 2)
    """
    found = copies_of(problem, copies)

    def seen(operand: Operand) -> Operand:
        copy = found.get(operand.name)
        if copy is None:
            return operand
        apart = 0 if copy.shared else copy.matrix
        return Operand(operand.name, operand.dtype, copy.major, copy.pitch, batch_pitch=apart)

    return replace(problem, a=seen(problem.a), b=seen(problem.b))


def padded_refusal(problem: GemmProblem, target: Target, config: PaddedGemmConfig) -> str | None:
    """None, or why `sm90_padded_gemm` cannot run the problem."""
    if not isinstance(config, PaddedGemmConfig):
        return f"the config is a {type(config).__name__}, expected PaddedGemmConfig"
    if config.copies not in ("A", "B", "AB"):
        return f"copies is {config.copies!r}, expected 'A', 'B' or 'AB'"
    if config.gemm.shares_tiles and not config.gemm.in_cluster:
        return "the workspace is that of the copies: tiles may be shared by clusters only"
    seen = problem.transposed() if config.swap_operands else problem
    plain = replace(config.gemm, swap_operands=False)
    reason = sm90_refusal(as_copied(seen, config.copies), target, plain)
    return with_swapped_operands(reason) if reason and config.swap_operands else reason


def default_config(problem: GemmProblem, target: Target) -> PaddedGemmConfig:
    """Copies of what TMA cannot take, and the product that the cost model likes best.

    Where TMA can take all, who asks for this kernel gets two copies.

    >>> from tilewright.arch.target import target
    >>> odd = GemmProblem.packed(4096, 4096, 4098, ab="bf16", d="bf16", b_major="N")
    >>> print(default_config(odd, target("sm_90a")))
    copies of A, pingpong 128x128x64 5 stages
    """
    names = [x.name for x in problem.inputs if needs_copy(x)] or ["A", "B"]
    ranked = heuristics.rank(as_copied(problem, "".join(names)), target)
    configs = (p.config for p in ranked)
    gemm = next((c for c in configs if c.in_cluster or not c.shares_tiles), Sm90GemmConfig())
    if gemm.swap_operands:
        names = [{"A": "B", "B": "A"}[name] for name in reversed(names)]
    return PaddedGemmConfig(gemm, "".join(names))


def clocks(problem: GemmProblem, target: Target, config: PaddedGemmConfig) -> float:
    """What the model thinks: the product's clocks, and those of reading and writing the copies."""
    seen = problem.transposed() if config.swap_operands else problem
    moved = 2 * config.workspace(seen).bytes / heuristics.HBM_BYTES
    product = heuristics.predict(as_copied(seen, config.copies), target, config.gemm)
    return product.clocks + len(config.copies) * COPY_START + moved


def slower(problem: GemmProblem, target: Target, config: PaddedGemmConfig) -> str | None:
    """None, or the kernel without copies that the model likes better."""
    other = cpasync_config.default_config(problem, target)
    if cpasync_config.cpasync_refusal(problem, target, other) is not None:
        return None
    ours = clocks(problem, target, config)
    theirs = heuristics.LAUNCH + cpasync_config.clocks(problem, other)
    if ours <= theirs:
        return None
    return f"copying first takes {ours:,.0f} clocks by the model, cp.async {theirs:,.0f}"
