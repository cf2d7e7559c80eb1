"""What checking costs, and how the simulator compares with other CPU simulators of GPU kernels.

    python benchmarks/sanitizer.py --out benchmarks/results/sanitizer.json

Measures sm90_gemm with and without all checks, the same GEMM against a tiled matmul in Triton's
interpreter, a SIMT GEMM against numba's CUDA simulator, the schedules that an exploration saves,
and the corpus of planted faults; nothing here needs a GPU.  A rival that is not installed is
reported as missing, with what installs it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np

from tilewright import cute
from tilewright.dsl import Int32
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.gemm import prepare_gemm
from tilewright.profiler.machine import machine_facts
from tilewright.sim import explore
from tilewright.sim.dependence import Step, Trace
from tilewright.sim.options import SimOptions

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_OUT = ROOT / "benchmarks" / "results" / "sanitizer.json"


@dataclass(frozen=True)
class Row:
    """One figure: its values, and the target that the project sets."""

    name: str
    unit: str
    values: tuple[float, ...]
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def value(self) -> float:
        return statistics.median(self.values) if self.values else float("nan")

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without target or value."""
        if not self.values or (self.at_most is None and self.at_least is None):
            return None
        low = self.at_least is None or self.value >= self.at_least
        return low and (self.at_most is None or self.value <= self.at_most)


def seconds(run: Callable[[], object], repeats: int) -> tuple[float, ...]:
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return tuple(found)


# -- checks on and off -----------------------------------------------------------------------------


def measure_gemm(size: int, repeats: int) -> list[Row]:
    """sm90_gemm `size`^3, interleaved: plain, checked, checked, plain, ..."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size)).astype(ml_dtypes.bfloat16) for _ in range(2))
    prepared = prepare_gemm(a, b.T, kernel="sm90_gemm")
    prepared.run()  # capture and tables are not what is compared
    plain: list[float] = []
    checked: list[float] = []
    for _ in range(repeats):
        plain += seconds(lambda: prepared.run(options=SimOptions()), 1)
        checked += seconds(lambda: prepared.run(options=SimOptions(check_races=True)), 1)
    ratios = tuple(c / p for p, c in zip(plain, checked, strict=True))
    return [
        Row(f"sm90_gemm {size}^3, no checks", "s", tuple(plain)),
        Row(f"sm90_gemm {size}^3, all checks", "s", tuple(checked), at_most=30.0),
        Row(f"sm90_gemm {size}^3, checked / unchecked", "x", ratios, at_most=4.0),
    ]


# -- numba's simulator -----------------------------------------------------------------------------

NUMBA = """
import time
import numpy as np
from numba import cuda, float32

TILE, N = 16, 64

@cuda.jit
def gemm(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    acc = float32(0.0)
    for k in range(N // TILE):
        sa[ty, tx] = a[y, k * TILE + tx]
        sb[ty, tx] = b[k * TILE + ty, x]
        cuda.syncthreads()
        for i in range(TILE):
            acc += sa[ty, i] * sb[i, tx]
        cuda.syncthreads()
    c[y, x] = acc

a = np.random.default_rng(0).random((N, N), np.float32)
b = np.random.default_rng(1).random((N, N), np.float32)
c = np.zeros((N, N), np.float32)
start = time.perf_counter()
gemm[(N // TILE, N // TILE), (TILE, TILE)](a, b, c)
print(time.perf_counter() - start)
assert np.allclose(c, a @ b, atol=1e-3)
"""


def measure_numba(repeats: int, python: str) -> list[Row]:
    """A 64^3 SIMT GEMM through 16x16 shared-memory tiles, here and in numba's simulator."""
    ours = seconds(_simt_gemm(), repeats)
    rows = [Row("SIMT GEMM 64^3, ours, no checks", "s", ours)]
    theirs = []
    for _ in range(min(repeats, 2)):
        done = subprocess.run(
            [python, "-c", NUMBA],
            capture_output=True,
            text=True,
            env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        )
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["no message"])[-1]
            note = f"{why}; install numba, or name a Python that has it with --numba-python"
            return [*rows, Row("SIMT GEMM 64^3, numba / ours", "x", (), note=note)]
        theirs.append(float(done.stdout.split()[-1]))
    ratio = statistics.median(theirs) / statistics.median(ours)
    return [
        *rows,
        Row("SIMT GEMM 64^3, numba's simulator", "s", tuple(theirs)),
        Row("SIMT GEMM 64^3, numba / ours", "x", (ratio,), at_least=50.0),
    ]


def _simt_gemm() -> Callable[[], object]:
    rng = np.random.default_rng(0)
    a, b = (rng.random((64, 64), np.float32) for _ in range(2))
    prepared = prepare_gemm(a, b, kernel="simt_gemm")
    prepared.run()
    return lambda: prepared.run(options=SimOptions())


# -- Triton's interpreter --------------------------------------------------------------------------


def measure_triton(size: int, repeats: int, python: str) -> list[Row]:
    """`size`^3 in f16 by tiles of 128x128x64: sm90_gemm here, a tiled matmul in Triton's
    interpreter."""
    tile = 128, 128, 64
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size)).astype(np.float16) for _ in range(2))
    prepared = prepare_gemm(a, b, kernel="sm90_gemm", config=Sm90GemmConfig(tile, 3))
    prepared.run()
    name = f"tiled GEMM {size}^3"
    ours = seconds(lambda: prepared.run(options=SimOptions()), repeats)
    rows = [Row(f"{name}, ours, no checks", "s", ours)]
    words = [str(x) for x in (size, *tile, min(repeats, 3))]
    done = subprocess.run(
        [python, str(ROOT / "benchmarks" / "triton_interpreter.py"), *words],
        capture_output=True,
        text=True,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        note = f"{why}; install triton and torch, or name a Python that has them: --triton-python"
        return [*rows, Row(f"{name}, Triton / ours", "x", (), note=note)]
    theirs = tuple(float(word) for word in done.stdout.split())
    ratio = statistics.median(theirs) / statistics.median(ours)
    return [
        *rows,
        Row(f"{name}, Triton's interpreter", "s", theirs),
        Row(f"{name}, Triton / ours", "x", (ratio,), at_least=1.0),
    ]


# -- exploration -----------------------------------------------------------------------------------

WARPS, OWN = 2, 3


@cute.kernel
def tickets_kernel(counters: cute.Tensor) -> None:
    """Each warp takes tickets of its own, then one of a counter that all share."""
    tidx, _, _ = cute.arch.thread_idx()
    if tidx % 32 == 0:
        for _ in range(OWN):
            cute.arch.atomic_add(counters.iterator + 1 + tidx // 32, Int32(1))
        cute.arch.atomic_add(counters.iterator, Int32(1))


@cute.jit
def tickets(counters: cute.Tensor) -> None:
    tickets_kernel(counters).launch(grid=1, block=32 * WARPS)


def measure_exploration() -> list[Row]:
    """Schedules that are run, and all interleavings of the same steps: nothing then commutes."""
    options = SimOptions(check_races=True, explore=10_000)

    def schedules() -> float:
        counters = np.zeros(1 + WARPS, np.int32)
        report = cute.compile(tickets, counters).simulate(counters, options=options)
        assert report.complete, "the exploration ends"
        return float(report.runs)

    def all_before(trace: Trace, step: Step) -> range:
        del step
        return range(len(trace.steps) - 2, -1, -1)

    reduced = schedules()
    with (
        mock.patch.object(Trace, "dependent", all_before),
        mock.patch.object(explore, "commute", lambda *steps: not steps),
    ):
        every = schedules()
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((264, 264)).astype(np.float16) for _ in range(2))
    prepared = prepare_gemm(a, b, kernel="sm90_gemm", config=Sm90GemmConfig((128, 128, 64), 3))
    gemm = prepared.run(options=options)
    assert gemm is not None, "the arrays are not on a GPU"
    assert gemm.complete, "the exploration ends"
    return [
        Row("exploration: all interleavings of two warps", "", (every,)),
        Row("exploration: schedules of them that are run", "", (reduced,), at_most=2.0),
        Row("exploration: schedules of sm90_gemm 264^3, in all", "", (float(gemm.runs),)),
    ]


# -- the corpus ------------------------------------------------------------------------------------


def measure_corpus(seeds: int) -> list[Row]:
    """Planted faults that are found at their lines, and twins without a finding, per seed."""
    sys.path.insert(0, str(ROOT / "tests" / "sanitizer"))
    cases = importlib.import_module("corpus").CASES
    start = time.perf_counter()
    faults = [_is_found(case, seeds) for case in cases.values()]
    twins = [
        not any(case.run(ok=True, seed=seed).findings for seed in range(seeds))
        for case in cases.values()
    ]
    took = time.perf_counter() - start
    count = float(len(cases))
    return [
        Row("corpus: planted faults", "", (count,), at_least=60.0),
        Row(f"corpus: found at their line, {seeds} seeds", "", (float(sum(faults)),)),
        Row(f"corpus: twins without a finding, {seeds} seeds", "", (float(sum(twins)),)),
        Row("corpus: time per run", "ms", (took / (2 * count * seeds) * 1000,)),
    ]


def _is_found(case: Any, seeds: int) -> bool:
    return all(case.found(case.run(ok=False, seed=seed)) for seed in range(seeds))


def line(row: Row) -> str:
    if not row.values:
        return f"{row.name:<52}{'missing':>10}   {row.note}"
    target = ""
    if row.at_most is not None:
        target = f"target <= {row.at_most:g}"
    elif row.at_least is not None:
        target = f"target >= {row.at_least:g}"
    verdict = {None: "", True: "ok", False: "MISSED"}[row.met]
    return f"{row.name:<52}{row.value:>10.3f} {row.unit:<3} {target:<14} {verdict}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=512, help="of the checked GEMM")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--numba-python", default=sys.executable, help="a Python that has numba")
    parser.add_argument("--triton-python", default=sys.executable, help="a Python with triton")
    parser.add_argument("--seeds", type=int, default=3, help="of the corpus")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    args = parser.parse_args()
    rows: list[Row] = []
    for measure in (
        lambda: measure_gemm(args.size, args.repeats),
        lambda: measure_numba(args.repeats, args.numba_python),
        lambda: measure_triton(args.size, args.repeats, args.triton_python),
        measure_exploration,
        lambda: measure_corpus(args.seeds),
    ):
        found = measure()
        rows += found
        for row in found:
            print(line(row), flush=True)
    records = [{**asdict(row), "met": row.met} for row in rows]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({"meta": machine_facts(), "rows": records}, indent=1) + "\n")
    missed = sum(row.met is False for row in rows)
    print(f"{len(rows)} figures, {missed} beyond their targets; wrote {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
