"""How a planted fault is written down.

A case is one kernel with a compile-time switch `ok`: False plants the fault, True is the corrected
twin.  So the two differ in exactly the lines that the switch guards, and nothing else.  The line
(or, of a race, the lines) that the report must name carries the comment ``# FAULT``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tilewright import cute
from tilewright.dsl import Constexpr
from tilewright.errors import Loc
from tilewright.sim.findings import Finding
from tilewright.sim.machine import Report
from tilewright.sim.options import SimOptions

MARK = "# FAULT"
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Shape:
    """How a kernel is launched."""

    grid: Any
    block: int
    cluster: int


@dataclass(frozen=True)
class Case:
    """One planted fault and its twin."""

    name: str
    kinds: tuple[str, ...]
    """Any of these is a right name for the fault; the first is the best one."""
    mechanism: str
    kernel: Any
    host: Any
    arrays: Sequence[Array]
    shape: Shape
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> str:
        return str(self.kernel.fn.__code__.co_filename)

    def lines(self) -> set[int]:
        """The numbers of the lines that carry the mark."""
        text, first = inspect.getsourcelines(self.kernel.fn)
        return {first + i for i, line in enumerate(text) if MARK in line}

    def run(self, *, ok: bool, seed: int) -> Report:
        """Simulates the twin (`ok`) or the fault, with fresh arrays."""
        arrays = tuple(fresh(a) for a in self.arrays)
        options = SimOptions(seed=seed, raise_on_findings=False, check_races=True, **self.options)
        compiled = cute.compile(self.host, self.kernel, arrays, ok, self.shape)
        return compiled.simulate(self.kernel, arrays, ok, self.shape, options=options)

    def found(self, report: Report) -> list[Finding]:
        """The findings of the right kind that name a marked line."""
        marked = self.lines()
        return [
            f
            for f in report.findings
            if f.kind in self.kinds and marked & {at.line for at in places(f, self.file)}
        ]


CASES: dict[str, Case] = {}


def places(finding: Finding, file: str) -> Iterator[Loc]:
    """Every place in `file` that a finding names: its own, its accesses', and their callers'."""
    for loc in (finding.loc, *(access.loc for access in finding.accesses)):
        if loc is not None:
            yield from (at for at in loc.chain() if at.file == file)


@cute.jit
def plain(kernel: Constexpr, arrays, ok: Constexpr, shape: Constexpr):
    """A host function that launches `kernel` on the arrays."""
    kernel(*arrays, ok).launch(grid=shape.grid, block=shape.block, cluster=(shape.cluster, 1, 1))


def case(
    *kinds: str,
    mechanism: str,
    arrays: Sequence[Array],
    grid: Any = 1,
    block: int = 64,
    cluster: int = 1,
    host: Any = plain,
    **options: Any,
) -> Callable[[Any], Any]:
    """Enters the decorated kernel into the table."""

    def enter(kernel: Any) -> Any:
        name = kernel.name
        assert name not in CASES, f"two cases are called {name}"
        shape = Shape(grid, block, cluster)
        made = Case(name, kinds, mechanism, kernel, host, tuple(arrays), shape, options)
        assert made.lines(), f"{name} has no line with {MARK}"
        CASES[name] = made
        return kernel

    return enter


def fresh(a: Array) -> Array:
    """A copy with the same strides: a slice stays a slice of something wider."""
    if a.flags.c_contiguous or not isinstance(a.base, np.ndarray):
        return a.copy()
    return as_strided(a.base.copy(), a.shape, a.strides)


def f32(*shape: int) -> Array:
    """0, 1, 2, ... as float32."""
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def i32(*shape: int) -> Array:
    """0, 1, 2, ... as int32."""
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
