"""What the arguments of one `tilewright profile` ask for: every case, before any is run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tilewright.arch.target import Target
from tilewright.errors import TilewrightError
from tilewright.library import registry
from tilewright.library.padded_config import PaddedGemmConfig
from tilewright.library.problem import GemmProblem
from tilewright.profiler.operations import (
    Operation,
    matches,
    nominal_name,
    operations,
    require_match,
)
from tilewright.profiler.values import OperandPattern

MAX_CASES = 100_000

_ANY = (OperandPattern(),)


@dataclass(frozen=True, slots=True)
class Sweep:
    """The arguments that are swept; their cartesian product, times the operations, is the work.

    `cta`, `cluster` and `stages` are laid over the config that the kernel would choose; empty
    leaves it.
    """

    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    a: tuple[OperandPattern, ...] = _ANY
    b: tuple[OperandPattern, ...] = _ANY
    c: tuple[OperandPattern, ...] = _ANY
    d: tuple[OperandPattern, ...] = _ANY
    accum: tuple[str, ...] = ("*",)
    alpha: tuple[float, ...] = (1.0,)
    beta: tuple[float, ...] = (0.0,)
    kernels: str = ""
    cta: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] = ((), (), ())
    cluster: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] = ((), (), ())
    stages: tuple[int, ...] = ()

    def filters(self) -> str:
        """The filter arguments that were given, as they would be typed."""
        given = {
            "kernels": self.kernels,
            **{
                name.upper(): _joined(patterns)
                for name, patterns in (("a", self.a), ("b", self.b), ("c", self.c), ("d", self.d))
                if patterns != _ANY
            },
            "accum": "" if "*" in self.accum else ",".join(self.accum),
            **{f"cta_{x}": _listed(sizes) for x, sizes in zip("mnk", self.cta, strict=True)},
            **{f"cluster_{x}": _listed(n) for x, n in zip("mnk", self.cluster, strict=True)},
            "stages": _listed(self.stages),
        }
        return " ".join(f"--{name}={text}" for name, text in given.items() if text) or "the target"


@dataclass(frozen=True, slots=True)
class Case:
    """One run: a problem, the operation that computes it, and its config.

    `problem_id` counts the problems from 1.  `reason` is empty, or why the kernel refuses.
    """

    problem_id: int
    operation: Operation
    name: str
    problem: GemmProblem
    config: Any
    alpha: float
    beta: float
    reason: str = ""


def select(sweep: Sweep, target: Target) -> tuple[Operation, ...]:
    """The operations whose types and layouts fit; `--kernels` is asked for each case's own name."""
    return tuple(
        op
        for op in operations(target)
        if _any_matches(sweep.a, op.ab, op.a_layout)
        and _any_matches(sweep.b, op.ab, op.b_layout)
        and _any_matches(sweep.c, op.d, op.d_layout)
        and _any_matches(sweep.d, op.d, op.d_layout)
        and ("*" in sweep.accum or "f32" in sweep.accum)
    )


def expand(sweep: Sweep, target: Target) -> tuple[Case, ...]:
    """Every case, problem by problem, best kernel first.

    Raises: TilewrightError if there is none, with the filter and the nearest names.
    """
    chosen = select(sweep, target)
    runs = math.prod(map(len, (sweep.m, sweep.n, sweep.k, sweep.alpha, sweep.beta))) * len(chosen)
    if runs > MAX_CASES:
        raise TilewrightError(
            f"the arguments ask for {runs:,} runs ({len(chosen)} operations for each problem), the "
            f"limit is {MAX_CASES:,}",
            hint="narrow them: fewer sizes, or --kernels, --A, --B, --C",
        )
    cases: list[Case] = []
    sizes = itertools.product(sweep.m, sweep.n, sweep.k, sweep.alpha, sweep.beta)
    for problem_id, (m, n, k, alpha, beta) in enumerate(sizes, 1):
        for op in chosen:
            problem = op.problem(m, n, k, with_c=beta != 0)
            for config in _configs(sweep, op, problem, target):
                name = op.name(config)
                if matches(name, sweep.kernels):
                    module = registry.KERNELS[op.kernel]
                    reason = module.can_implement(problem, target, config) or ""
                    cases.append(Case(problem_id, op, name, problem, config, alpha, beta, reason))
    known = [nominal_name(op, target) for op in operations(target)] if not cases else []
    require_match(len(cases), sweep.filters(), sweep.kernels, known)
    return tuple(cases)


def _configs(sweep: Sweep, op: Operation, problem: GemmProblem, target: Target) -> Iterator[Any]:
    """The kernel's own choice, and what the arguments make of it.

    A kernel without such a knob takes part only where the arguments name the value it has.
    """
    config = registry.KERNELS[op.kernel].default_config(problem, target)
    asked: dict[str, list[Any]] = {}
    if any(sweep.cta):
        asked["tile_shape_mnk"] = _over(sweep.cta, getattr(config, "tile_shape_mnk", (0, 0, 0)))
    if any(sweep.cluster):
        now = getattr(config, "cluster_shape_mnk", (1, 1, 1))
        asked["cluster_shape_mnk"] = _over(sweep.cluster, now)
    if sweep.stages:
        asked["num_stages"] = list(sweep.stages)
    for values in itertools.product(*asked.values()):
        changes = dict(zip(asked, values, strict=True))
        if (
            not hasattr(config, "cluster_shape_mnk")
            and changes.get("cluster_shape_mnk") == (1,) * 3
        ):
            del changes["cluster_shape_mnk"]
        if all(hasattr(config, name) for name in changes):
            yield _changed(config, changes) if changes else config


def _changed(config: Any, changes: dict[str, Any]) -> Any:
    """The config with other knobs; those of a product behind copies are the product's."""
    if isinstance(config, PaddedGemmConfig):
        return replace(config, gemm=replace(config.gemm, **changes))
    return replace(config, **changes)


def _over(asked: tuple[tuple[int, ...], ...], now: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Every (m, n, k) of the values asked for, with the present one where none is."""
    return list(itertools.product(*(a or (x,) for a, x in zip(asked, now, strict=True))))


def _any_matches(patterns: tuple[OperandPattern, ...], dtype: str, layout: str) -> bool:
    return any(pattern.matches(dtype, layout) for pattern in patterns)


def _listed(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))


def _joined(patterns: tuple[OperandPattern, ...]) -> str:
    return ",".join(map(str, patterns))
