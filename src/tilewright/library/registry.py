"""The kernels that the library has, and which one fits a problem.

A kernel says itself what it can do: `can_implement(problem, target)` is None, or the reason why
not.  `plan` takes the first one, best first, that has no reason against it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Protocol

from tilewright.arch.target import Target
from tilewright.library.kernels import (
    simt_gemm,
    sm80_gemm,
    sm90_cpasync_gemm,
    sm90_gemm,
    sm90_long_k_gemm,
    sm90_padded_gemm,
)
from tilewright.library.problem import GemmProblem
from tilewright.library.status import ProblemError, Refusal, StatusCode
from tilewright.runtime.arrays import ArrayView


class Workspace(Protocol):
    """What a kernel keeps in global memory while it runs; `cleared`: it must be 0 before."""

    @property
    def cleared(self) -> bool: ...

    @property
    def bytes(self) -> int: ...

    def parts(self, whole: ArrayView) -> tuple[ArrayView, ...]:
        """What the kernel's host function takes of it; `whole` is f32."""


class GemmKernel(Protocol):
    """What a module of `library/kernels` offers."""

    NAME: str

    def default_config(self, problem: GemmProblem, target: Target) -> Any: ...

    def can_implement(self, problem: GemmProblem, target: Target, config: Any) -> str | None: ...

    def host(self, *args: Any) -> Any: ...


KERNELS: dict[str, Any] = {
    m.NAME: m
    for m in (
        *(sm90_long_k_gemm, sm90_gemm, sm90_padded_gemm, sm90_cpasync_gemm),
        *(sm80_gemm, simt_gemm),
    )
}
"""Best first: the first one takes the few problems that it is made for, the last one takes all.

`passed_over` of a kernel that has it says where another one is likely faster.
"""

MOST = 2**31 - 2**16
"""Tiles, and elements along an index: what 32 bits hold, and a step beyond it too."""
PLANS = 1024
"""Plans that are remembered: a cost model is not asked twice about the same problem."""


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """Problem, kernel and config, chosen before anything is launched.

    `passed_over` says for each better kernel why it does not fit.
    """

    problem: GemmProblem
    target: Target
    kernel: str
    config: Any
    passed_over: tuple[str, ...]

    @property
    def swapped(self) -> bool:
        """Whether the kernel computes the transposed problem."""
        return bool(getattr(self.config, "swap_operands", False))

    @property
    def seen(self) -> GemmProblem:
        """The problem as the kernel sees it."""
        return self.problem.transposed() if self.swapped else self.problem

    @property
    def workspace_shape(self) -> Workspace | None:
        """The workspace of shared tiles or of copies; None where there are none."""
        workspace = getattr(self.config, "workspace", None)
        return workspace(self.seen) if workspace else None

    @property
    def workspace_bytes(self) -> int:
        shape = self.workspace_shape
        return shape.bytes if shape else 0

    def __str__(self) -> str:
        return f"{self.kernel} on {self.target.name}: {self.config}"


def too_large(problem: GemmProblem, config: Any) -> Refusal | None:
    """None, or what of the problem does not fit the 32 bits that kernels count in.

    Addresses have 64 bits, so that operands may have any number of elements.
    """
    sizes = {"M": problem.m, "N": problem.n, "K": problem.k, "L": problem.batch}
    for name, size in sizes.items():
        if size > MOST:
            text = f"{name} = {size:,}: a kernel counts {name} in 32 bits"
            return Refusal(text, StatusCode.INVALID_PROBLEM, name, f"at most {MOST:,}", f"{size:,}")
    m, n, _ = config.tile_shape_mnk
    swapped = getattr(config, "swap_operands", False)
    # A cluster's blocks all have a number, also where its tiles lie outside of D.
    seen = problem.transposed() if swapped else problem
    along_m, along_n = getattr(config, "cluster_shape_mn", (1, 1))
    tiles = -(-seen.m // (m * along_m)) * -(-seen.n // (n * along_n)) * along_m * along_n
    tiles *= problem.batch * getattr(config, "split_k", 1)
    if tiles > MOST:
        m, n = (n, m) if swapped else (m, n)
        text = f"{tiles:,} tiles of {m}x{n}: a kernel counts them in 32 bits"
        return Refusal(text, StatusCode.INVALID_PROBLEM, "D", f"at most {MOST:,}", f"{tiles:,}")
    return None


@functools.lru_cache(maxsize=PLANS)
def plan(problem: GemmProblem, target: Target, kernel: str = "", config: Any = None) -> GemmPlan:
    """The plan for a problem: the named kernel, or the best one that fits.

    Raises: ProblemError (a LaunchError) if the kernel does not exist, or does not fit, with the
            reason: operand, needed, actual.
    """
    if kernel and kernel not in KERNELS:
        raise ProblemError(
            f"kernel {kernel!r} does not exist, expected one of {', '.join(KERNELS)}",
            StatusCode.NOT_SUPPORTED,
        )
    reason: str | None = None
    passed_over: list[str] = []
    for name in [kernel] if kernel else KERNELS:
        module = KERNELS[name]
        chosen = config if config is not None else module.default_config(problem, target)
        reason = module.can_implement(problem, target, chosen) or too_large(problem, chosen)
        if reason is None and not kernel and hasattr(module, "passed_over"):
            reason = module.passed_over(problem, target, chosen)
        if reason is None:
            return GemmPlan(problem, target, name, chosen, tuple(passed_over))
        passed_over.append(f"{name}: {reason}")
    # What the last kernel lacks is what counts: it is the one that takes most.
    why = reason if isinstance(reason, Refusal) else Refusal(str(reason))
    raise ProblemError(
        f"{problem}: {'; '.join(passed_over)}",
        why.code,
        why.operand,
        why.needed,
        why.actual,
        hint="leave the kernel open to get the best one that fits" if kernel else "",
    )
