"""What the stack costs on a machine without a GPU: import, capture, compile, cache, simulate.

    PYTHONPATH=src python3 benchmarks/skeleton_cpu.py [--repeats=N] [--only=WORDS] [--out=FILE]

Each figure comes from fresh processes, one after the other, since all but the first call in a
process may be served from memory.  A figure that misses its target is reported as a miss; the
exit status says only whether everything could be measured and was right.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilewright.library.gemm import PreparedGemm, prepare_gemm, random_operands
from tilewright.library.problem import GemmProblem
from tilewright.profiler.machine import machine_facts
from tilewright.runtime import cache, toolchain

DEFAULT_OUT = Path(__file__).parent / "results" / "cpu_skeleton.json"
TARGET = "sm_90a"


@dataclass(frozen=True)
class Row:
    """One figure: the median of `values`, and the limit that it is to stay below, if it has one."""

    name: str
    unit: str
    target: float | None
    values: tuple[float, ...] = ()
    failure: str = ""

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def met(self) -> bool:
        return not self.failure and (self.target is None or self.value <= self.target)


def prepared_gemm(size: int) -> PreparedGemm:
    """The Hopper kernel on `size` cubed in bf16, captured."""
    problem = GemmProblem.packed(size, size, size, ab="bf16", d="bf16")
    a, b, _, out = random_operands(problem, seed=time.time_ns() % 2**32)
    return prepare_gemm(a, b, out=out, kernel="sm90_gemm", backend="sim", arch=TARGET)


def child_text() -> dict[str, float]:
    """Capture, passes, and the CUDA C++ text; the library is loaded already."""
    start = time.perf_counter()
    sources = cuda_sources(prepared_gemm(256))
    seconds = time.perf_counter() - start
    return {"text": seconds, "bytes": float(sum(map(len, sources.values())))}


def child_compile() -> dict[str, float]:
    """NVRTC alone, nothing cached."""
    sources = cuda_sources(prepared_gemm(256))
    toolchain.nvrtc_version()  # loads the library
    start = time.perf_counter()
    for name, text in sources.items():
        toolchain.compile_cubin(text, name, TARGET)
    return {"nvrtc": time.perf_counter() - start}


def child_cached() -> dict[str, float]:
    """The cubin, by way of the disk cache."""
    sources = cuda_sources(prepared_gemm(256))
    start = time.perf_counter()
    for name, text in sources.items():
        cache.compile_cached(text, name, TARGET)
    seconds = time.perf_counter() - start
    return {"compilations": float(cache.stats.compilations), "cached": seconds}


def child_simulate(size: int) -> dict[str, float]:
    """Capture, simulate and verify."""
    start = time.perf_counter()
    prepared = prepared_gemm(size)
    prepared.run()
    check = prepared.verify()
    seconds = time.perf_counter() - start
    if not check.passed:
        raise RuntimeError(check.message)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"simulate": seconds, "rss": peak / 1e9}


def cuda_sources(prepared: PreparedGemm) -> dict[str, str]:
    """Kernel -> CUDA C++ text."""
    compiled = prepared.compiled
    assert compiled is not None, "the output is not empty"
    return {name: compiled.source(name) for name in compiled.module.kernels}


CHILDREN: dict[str, Callable[[], dict[str, float]]] = {
    "text": child_text,
    "compile": child_compile,
    "cached": child_cached,
    "simulate256": lambda: child_simulate(256),
    "simulate512": lambda: child_simulate(512),
}


def run_child(name: str, **environment: str) -> dict[str, float]:
    """What a child measures in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, f"--child={name}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def time_python(*words: str) -> tuple[float, float]:
    """Wall and CPU seconds of `python words`."""
    start, used = time.perf_counter(), children_cpu()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start, children_cpu() - used


def children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure_import(repeats: int) -> list[Row]:
    loaded = [time_python("-c", "import tilewright") for _ in range(repeats)]
    bare = [time_python("-c", "") for _ in range(repeats)]
    shown = [time_python("-m", "tilewright", "--help") for _ in range(repeats)]
    wall, cpu = (
        tuple(max(x[at] - y[at], 0.0) for x, y in zip(loaded, bare, strict=True)) for at in (0, 1)
    )
    return [
        Row("import tilewright", "s", 0.25, wall),
        Row("import tilewright, CPU time", "s", None, cpu),
        Row("tilewright --help, whole process", "s", None, tuple(x[0] for x in shown)),
    ]


def measure_text(repeats: int) -> list[Row]:
    found = [run_child("text")["text"] for _ in range(repeats)]
    return [Row("sm90_gemm: capture, passes, CUDA text", "s", 0.4, tuple(found))]


def measure_compile(repeats: int) -> list[Row]:
    flags = {"TILEWRIGHT_CACHE_ENABLED": "0"}
    found = [run_child("compile", **flags)["nvrtc"] for _ in range(repeats)]
    return [Row("sm90_gemm: NVRTC, no cache", "s", 1.5, tuple(found))]


def measure_cache(repeats: int) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="tilewright-bench-") as folder:
        first = run_child("cached", TILEWRIGHT_CACHE_DIR=folder)
        if first["compilations"] < 1:
            raise RuntimeError("the first process compiled nothing: the cache was not empty")
        later = [run_child("cached", TILEWRIGHT_CACHE_DIR=folder) for _ in range(repeats)]
    counts = tuple(found["compilations"] for found in later)
    times = tuple(found["cached"] for found in later)
    return [
        Row("second process: compilations", "", 0, counts),
        Row("second process: cubin from disk", "s", None, times),
    ]


def measure_simulator(repeats: int) -> list[Row]:
    small = [run_child("simulate256") for _ in range(min(repeats, 3))]
    large = run_child("simulate512")
    return [
        Row(
            "sm90_gemm 256^3: capture, simulate, verify",
            "s",
            5,
            tuple(x["simulate"] for x in small),
        ),
        Row("sm90_gemm 512^3: capture, simulate, verify", "s", 20, (large["simulate"],)),
        Row("sm90_gemm 512^3: peak memory", "GB", 1.5, (large["rss"],)),
    ]


MEASURES: dict[str, Callable[[int], list[Row]]] = {
    "import": measure_import,
    "text": measure_text,
    "compile": measure_compile,
    "cache": measure_cache,
    "simulate": measure_simulator,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="processes for each figure")
    parser.add_argument("--only", default="", help=f"some of {','.join(MEASURES)}")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(CHILDREN[args.child]()))
        return 0
    wanted = args.only.split(",") if args.only else list(MEASURES)
    if unknown := [name for name in wanted if name not in MEASURES]:
        parser.error(f"--only: {unknown[0]!r}, expected some of {', '.join(MEASURES)}")
    rows: list[Row] = []
    for name in wanted:
        try:
            found = MEASURES[name](args.repeats)
        except Exception as error:  # one figure must not cost the others
            found = [Row(name, "", 0, failure=f"{type(error).__name__}: {error}")]
        rows += found
        for row in found:
            print(line(row), flush=True)
    facts = {**machine_facts(), "repeats": args.repeats}
    records = [record(row) for row in rows]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({"meta": facts, "rows": records}, indent=1) + "\n")
    missed = sum(not row.met for row in rows)
    print(f"{len(rows)} figures, {missed} beyond their targets; wrote {args.out}")
    return 1 if any(row.failure for row in rows) else 0


def record(row: Row) -> dict[str, Any]:
    facts = {"value": row.value} if row.values else {}
    return {**asdict(row), **facts, "met": row.met}


def line(row: Row) -> str:
    if row.failure:
        return f"{row.name:<46}FAILED: {row.failure}"
    low, high = min(row.values), max(row.values)
    verdict = "ok" if row.met else "MISSED"
    target = "" if row.target is None else f"target {row.target:g}"
    return (
        f"{row.name:<46}{row.value:>8.3f} {row.unit:<3}{target:<13}{verdict if target else '':<8}"
        f"({low:.3f} to {high:.3f}, {len(row.values)} processes)"
    )


if __name__ == "__main__":
    sys.exit(main())
