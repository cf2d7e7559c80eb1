"""Targets: one row per GPU architecture that we generate code for, with its limits.

A limit is what a kernel may use, not what a data sheet advertises.  Sources: CUDA C++ Programming
Guide, "Compute Capabilities"; PTX ISA, "Target ISA Notes" of each instruction; the SM counts and
the 227 KiB of shared memory were read off an H200.

>>> h200 = target("sm_90a")
>>> h200.smem_per_block, h200.sm_count, h200.has("wgmma"), target("sm_80").has("wgmma")
(232448, 132, True, False)
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import Loc, TargetError

_KIB = 1024

# What an architecture adds to the one before it in the family.
_SM80 = frozenset({"cp_async", "ldmatrix", "mma", "bf16", "tf32", "mbarrier", "mma_f64"})
_SM89 = _SM80 | {"mma_fp8"}
_HOPPER = {"tma", "cluster", "dsmem", "stmatrix", "setmaxnreg", "mma_f64_m16", "pdl"}
_SM90A = _SM89 | _HOPPER | {"wgmma"}
# Blackwell's tensor cores are driven by tcgen05; it has no wgmma.
_SM100A = _SM89 | _HOPPER | {"tcgen05"}

FEATURES: frozenset[str] = _SM90A | _SM100A
"""Every name that `Target.has` knows."""


@dataclass(frozen=True, slots=True)
class Target:
    """One GPU architecture.

    Units:  shared memory in bytes, per block and per SM; `smem_per_block` is the most that a
            kernel may ask for (above 48 KiB by opting in).  Registers have 32 bits.
            `max_cluster` is the portable limit, in blocks; 1 where there are no clusters.
            `sm_count` is that of `device`, the reference card.
    """

    name: str
    sm: int
    smem_per_block: int
    smem_per_sm: int
    max_threads_per_sm: int
    max_cluster: int
    device: str
    sm_count: int
    features: frozenset[str]
    registers_per_sm: int = 65536
    max_registers_per_thread: int = 255
    max_threads_per_block: int = 1024
    max_blocks_per_sm: int = 32
    named_barriers: int = 16
    warp_size: int = 32

    def __str__(self) -> str:
        return self.name

    def has(self, feature: str) -> bool:
        """Whether the architecture has `feature`, one of `FEATURES`.

        Raises: TargetError if there is no such feature anywhere, so that a misspelt name is not no.
        """
        if feature not in FEATURES:
            known = ", ".join(sorted(FEATURES))
            raise TargetError(f"target: {feature!r} is not a feature; known: {known}")
        return feature in self.features

    def require(self, feature: str, what: str, loc: Loc | None = None) -> None:
        """Raises: TargetError, in the name of `what`, if the architecture lacks `feature`."""
        if self.has(feature):
            return
        having = [row.name for row in ALL_TARGETS if feature in row.features]
        raise TargetError(
            f"{what}: needs {feature}, which {self.name} does not have",
            details={f"targets with {feature}": ", ".join(having)},
            loc=loc,
        )


# Columns: name, sm, shared memory per block and per SM, threads per SM, cluster, card and its SMs.
# fmt: off
SM80 = Target("sm_80", 80, 163 * _KIB, 164 * _KIB, 2048, 1, "A100", 108, _SM80)
SM86 = Target("sm_86", 86, 99 * _KIB, 100 * _KIB, 1536, 1, "A40", 84, _SM80, max_blocks_per_sm=16)
SM89 = Target("sm_89", 89, 99 * _KIB, 100 * _KIB, 1536, 1, "L40S", 142, _SM89, max_blocks_per_sm=24)
SM90A = Target("sm_90a", 90, 227 * _KIB, 228 * _KIB, 2048, 8, "H200", 132, _SM90A)
SM100A = Target("sm_100a", 100, 227 * _KIB, 228 * _KIB, 2048, 8, "B200", 148, _SM100A)
# fmt: on

ALL_TARGETS: tuple[Target, ...] = (SM80, SM86, SM89, SM90A, SM100A)
_BY_NAME = {row.name: row for row in ALL_TARGETS}
# wgmma, tcgen05 and setmaxnreg exist only in the architecture-specific ("a") variants of an
# instruction set, and a cubin of a variant runs on every card of that number: so that is meant.
_BY_NAME |= {row.name.removesuffix("a"): row for row in ALL_TARGETS}


def target(name: str | Target) -> Target:
    """The row called `name`; `sm_90` and `sm_100` mean their "a" variants.

    Raises: TargetError if we do not generate code for that architecture.

    >>> target("sm_90").name
    'sm_90a'
    """
    if isinstance(name, Target):
        return name
    row = _BY_NAME.get(name) if isinstance(name, str) else None
    if row is None:
        known = ", ".join(t.name for t in ALL_TARGETS)
        raise TargetError(f"target: {name!r} is not a known architecture; known: {known}")
    return row
