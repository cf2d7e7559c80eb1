"""The kernels that the library has, and which one fits a problem.

A kernel says itself what it can do: `can_implement(problem, target)` is None, or the reason why
not.  `plan` takes the first one, best first, that has no reason against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tilewright.arch.target import Target
from tilewright.errors import LaunchError
from tilewright.library.configs import CONSUMERS, WARPGROUP
from tilewright.library.kernels import simt_gemm, sm80_gemm, sm90_gemm
from tilewright.library.problem import GemmProblem


class GemmKernel(Protocol):
    """What a module of `library/kernels` offers."""

    NAME: str

    def default_config(self, problem: GemmProblem, target: Target) -> Any: ...

    def can_implement(self, problem: GemmProblem, target: Target, config: Any) -> str | None: ...

    def host(self, *args: Any) -> Any: ...


KERNELS: dict[str, Any] = {m.NAME: m for m in (sm90_gemm, sm80_gemm, simt_gemm)}
"""Best first."""


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
    def workspace_shape(self) -> tuple[int, int, int] | None:
        """(slots, parts, elements) of the partial sums of a split K; None without one.

        A slot is one consumer's share of a tile.
        """
        parts = getattr(self.config, "split_k", 1)
        if parts == 1:
            return None
        bm, bn, _ = self.config.tile_shape_mnk
        tiles = -(-self.seen.m // bm) * -(-self.seen.n // bn) * self.seen.batch
        return tiles * CONSUMERS, parts, self.config.accumulators * WARPGROUP

    def __str__(self) -> str:
        return f"{self.kernel} on {self.target.name}: {self.config}"


def plan(problem: GemmProblem, target: Target, kernel: str = "", config: Any = None) -> GemmPlan:
    """The plan for a problem: the named kernel, or the best one that fits.

    Raises: LaunchError if the kernel does not exist, or does not fit, with the reason.
    """
    if kernel and kernel not in KERNELS:
        raise LaunchError(f"kernel {kernel!r} does not exist, expected one of {', '.join(KERNELS)}")
    passed_over: list[str] = []
    for name in [kernel] if kernel else KERNELS:
        module = KERNELS[name]
        chosen = config if config is not None else module.default_config(problem, target)
        reason = module.can_implement(problem, target, chosen)
        if reason is None:
            return GemmPlan(problem, target, name, chosen, tuple(passed_over))
        passed_over.append(f"{name}: {reason}")
    raise LaunchError(
        f"{problem}: {'; '.join(passed_over)}",
        hint="leave the kernel open to get the best one that fits" if kernel else "",
    )
