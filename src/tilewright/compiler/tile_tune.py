"""Choosing among configurations of a tile kernel by measuring each."""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tilewright.compiler.tile import launch
from tilewright.compiler.tile_gpu import compiler_timeout
from tilewright.lang.tile.errors import TileError
from tilewright.runtime import driver
from tilewright.runtime.device_buffer import device_buffers

T = TypeVar("T")
FLUSH_BYTES = 256 << 20
"""What is overwritten between runs: more than the L2 cache of any GPU."""
WARMUPS, MIN_RUNS, MAX_RUNS, BUDGET_S = 1, 3, 50, 0.5
"""Runs of a configuration: warm-ups, then runs until the budget is spent."""


@dataclass(frozen=True, kw_only=True)
class Measurement(Generic[T]):
    """How long a configuration takes.  Units: microseconds; the margin is a standard error."""

    config: T
    mean_us: float
    num_samples: int
    error_margin_us: float


@dataclass(frozen=True, kw_only=True)
class TuningResult(Generic[T]):
    """The measured configurations, fastest first, and why others failed."""

    best: Measurement[T]
    successes: Sequence[Measurement[T]]
    failures: Sequence[tuple[T, type[BaseException], str]]


def _finish() -> None:
    """Waits for the GPU, where there is one."""
    if driver.is_available():
        driver.synchronize()


def measure(run: Callable[[], None], between: Callable[[], None] = _finish) -> list[float]:
    """Times of `run` in microseconds, from its call until its work is done, without the first.

    `between` is called before each run and not timed.
    """
    for _ in range(WARMUPS):
        run()
    _finish()
    times: list[float] = []
    until = time.perf_counter() + BUDGET_S
    while len(times) < MIN_RUNS or (len(times) < MAX_RUNS and time.perf_counter() < until):
        between()
        begin = time.perf_counter()
        run()
        _finish()
        times.append((time.perf_counter() - begin) * 1e6)
    return times


def exhaustive_search(
    search_space: Sequence[T],
    stream: Any,
    grid_fn: Callable[[T], tuple[int, ...]],
    kernel: Any,
    args_fn: Callable[[T], tuple[Any, ...]],
    hints_fn: Callable[[T], dict[str, Any]] | None = None,
    *,
    quiet: bool = False,
    single_run_timeout_sec: float | None = None,
    flush_l2: bool = True,
) -> TuningResult[T]:
    """Runs every configuration and tells which is fastest.

    For each, `grid_fn` gives the grid, `args_fn` the arguments, `hints_fn` changed hints; `kernel`
    is a kernel, or a function from the configuration to one.  A configuration that raises a
    TileError is listed among the failures.  With `flush_l2`, a GPU's L2 cache is overwritten before
    every run.
    Raises: ValueError for an empty search space, or if every configuration fails.
    """
    if not search_space:
        raise ValueError("exhaustive_search: the search space is empty")
    found: list[Measurement[T]] = []
    failed: list[tuple[T, type[BaseException], str]] = []
    for config in search_space:
        try:
            times = _measured(
                config, stream, grid_fn, kernel, args_fn, hints_fn, single_run_timeout_sec, flush_l2
            )
        except (TileError, ArithmeticError, ValueError) as error:
            failed.append((config, type(error), str(error)))
            continue
        error_us = statistics.stdev(times) / len(times) ** 0.5 if len(times) > 1 else 0.0
        mean = statistics.fmean(times)
        found.append(
            Measurement(
                config=config, mean_us=mean, num_samples=len(times), error_margin_us=error_us
            )
        )
        if not quiet:
            sys.stderr.write(f"{config}: {mean:.1f} us\n")
    if not found:
        raise ValueError(
            f"exhaustive_search: all {len(failed)} configurations fail, the first with "
            f"{failed[0][1].__name__}: {failed[0][2]}"
        )
    found.sort(key=lambda m: m.mean_us)
    return TuningResult(best=found[0], successes=found, failures=failed)


def _measured(
    config: T,
    stream: Any,
    grid_fn: Callable[[T], tuple[int, ...]],
    kernel: Any,
    args_fn: Callable[[T], tuple[Any, ...]],
    hints_fn: Callable[[T], dict[str, Any]] | None,
    timeout: float | None,
    flush_l2: bool,
) -> list[float]:
    chosen = kernel if hasattr(kernel, "replace_hints") else kernel(config)
    if hints_fn is not None:
        chosen = chosen.replace_hints(**hints_fn(config))
    grid, args = grid_fn(config), args_fn(config)

    def run() -> None:
        launch(stream, grid, chosen, args)

    limit = contextlib.nullcontext() if timeout is None else compiler_timeout(timeout)
    with contextlib.ExitStack() as stack:
        stack.enter_context(limit)
        if not (flush_l2 and driver.is_available()):
            return measure(run)
        (spare,) = stack.enter_context(device_buffers([(FLUSH_BYTES, 0)]))

        def flush() -> None:
            spare.clear()
            driver.synchronize()

        return measure(run, flush)
