"""What a cold compilation of each GEMM kernel costs: capture, passes, CUDA C++ text, NVRTC.

    PYTHONPATH=src python3 benchmarks/compile.py
    PYTHONPATH=src python3 benchmarks/compile.py --cases=400 --seed=7 --kernels=sm80_gemm --save=

Half of the configs are those that the heuristics consider, half are drawn as the fuzzer draws them,
in random layouts, with every epilogue; a kernel compiles whatever it says it can run.  The whole
of `compile_function` and `cubin` is timed, without the disk cache, and its steps inside of it.
`cpu` is the CPU time of this process, in which NVRTC works too: other processes disturb it less
than `wall`.  What is near the limit is compiled a few times, and the least time counts.  Needs
NVRTC, but no GPU.  Stored in `results/compile.json`; exits with 1 if a config is too slow, spills
registers, or gets a remark C75xx.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tilewright.arch.target import Target, target  # noqa: E402
from tilewright.compiler import build, program  # noqa: E402
from tilewright.errors import ToolchainError  # noqa: E402
from tilewright.library import cpasync_config, heuristics  # noqa: E402
from tilewright.library.gemm import prepare_gemm, random_operands  # noqa: E402
from tilewright.library.problem import GemmProblem  # noqa: E402
from tilewright.library.registry import KERNELS  # noqa: E402
from tilewright.numeric.dtypes import F32  # noqa: E402
from tilewright.profiler import gemm_fuzz  # noqa: E402
from tilewright.profiler.machine import machine_facts  # noqa: E402
from tilewright.runtime import toolchain  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "compile.json"
LIMIT_S = 2.0
AGAIN = 0.6
"""What took this part of the limit is compiled again, up to `TURNS` times in all."""
TURNS = 3
SHOWN = 10
EPILOGUES: dict[str, tuple[bool, bool, str]] = {
    "none": (False, False, ""),
    "bias": (False, True, ""),
    "C+bias": (True, True, ""),
    "relu": (False, False, "relu"),
    "gelu": (False, False, "gelu"),
    "gelu_tanh": (False, False, "gelu_tanh"),
    "silu": (False, False, "silu"),
    "C+bias+gelu": (True, True, "gelu"),
}
"""Whether there is a C, whether there is a bias, and the activation."""
SIZES = ((256, 256, 4096), (264, 248, 4128), (255, 257, 4097), (16, 512, 8192))
"""Aligned for everything; for TMA; for nothing; few rows."""
TRIES = 2000
"""Draws until a kernel takes one."""


@dataclass(frozen=True)
class Case:
    """What is compiled."""

    kernel: str
    config: Any
    problem: GemmProblem
    epilogue: str

    def __str__(self) -> str:
        majors = "".join((*self.problem.majors, self.problem.c.major if self.problem.c else ""))
        return f"{self.kernel} {majors} {self.problem} {self.epilogue}: {self.config!r}"


@dataclass
class Row:
    """What one compilation cost, in seconds, and what came out."""

    case: str
    kernel: str
    epilogue: str
    wall: float = 0.0
    cpu: float = 0.0
    steps: dict[str, float] = field(default_factory=dict)
    """CPU time of each step."""
    lines: int = 0
    registers: int = 0
    spills: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        return bool(self.cpu > LIMIT_S or self.spills or self.warnings)

    def __str__(self) -> str:
        steps = ", ".join(f"{name} {seconds:.2f}" for name, seconds in self.steps.items())
        spills = f", {self.spills} B of spills" * (self.spills > 0)
        return (
            f"{self.cpu:5.2f} s CPU, {self.wall:.2f} wall ({steps}; {self.lines} lines, "
            f"{self.registers} registers{spills}{' '.join(('', *self.warnings))})  {self.case}"
        )


def draw_problem(rng: random.Random, kernel: str, epilogue: str) -> GemmProblem:
    """A random problem with that epilogue, of types and layouts that some config can take."""
    with_c, bias, activation = EPILOGUES[epilogue]
    is_long = kernel == "sm90_long_k_gemm"
    majors = ("K", "K") if is_long else (rng.choice("KKM"), rng.choice("KKN"))
    problem = GemmProblem.packed(
        *((16, 16, 8192) if is_long else rng.choice(SIZES)),
        ab="f32" if kernel == "simt_gemm" else rng.choice(("bf16", "f16")),
        d="f32",
        a_major=majors[0],
        b_major=majors[1],
        d_major=rng.choice("NNM"),
        with_c=with_c,
    )
    d = replace(problem.d, dtype=rng.choice((problem.a.dtype,) * 4 + (F32,)))
    c = problem.c and replace(d, name="C")
    if c and rng.random() < 0.3:
        other = "M" if d.major == "N" else "N"
        c = replace(c, major=other, pitch=problem.m if other == "M" else problem.n)
    return replace(problem, d=d, c=c, bias=bias, activation=activation)


def draw_config(rng: random.Random, kernel: str, problem: GemmProblem, on: Target) -> Any:
    """A config that the heuristics consider, or one as the fuzzer draws it."""
    if rng.random() < 0.5:
        config = gemm_fuzz._draw_config(rng, kernel, rng.random() < 0.2, on)
        if kernel in ("sm80_gemm", "sm90_cpasync_gemm") and rng.random() < 0.8:
            # Most widths that the fuzzer draws do not fit most problems.
            seen = problem.transposed() if config.swap_operands else problem
            a, b = (cpasync_config.copy_bytes(seen, x) for x in seen.inputs)
            config = replace(config, a_bytes=min(a, config.a_bytes), b_bytes=min(b, config.b_bytes))
        return config
    modules = {"sm90_gemm": heuristics, "sm90_cpasync_gemm": cpasync_config}
    if kernel in modules:
        found = list(modules[kernel].candidates(problem, on))
        return rng.choice(found) if found else None
    return KERNELS[kernel].default_config(problem, on)


def draw_case(rng: random.Random, kernel: str, epilogue: str, on: Target) -> Case:
    """A case that the kernel says it can run.  Raises: LookupError if none is found."""
    for _ in range(TRIES):
        problem = draw_problem(rng, kernel, epilogue)
        config = draw_config(rng, kernel, problem, on)
        if config is not None and KERNELS[kernel].can_implement(problem, on, config) is None:
            return Case(kernel, config, problem, epilogue)
    raise LookupError(f"{kernel} with {epilogue}: no case in {TRIES} draws")


def draw_cases(
    count: int, seed: int, kernels: tuple[str, ...], epilogues: tuple[str, ...], on: Target
) -> Iterator[Case]:
    """About `count` cases, each once: every kernel with every epilogue, in turn."""
    rng, seen = random.Random(seed), set()
    for number in range(count):
        kernel = kernels[number % len(kernels)]
        case = draw_case(rng, kernel, epilogues[number // len(kernels) % len(epilogues)], on)
        if case not in seen:
            seen.add(case)
            yield case


def compile_case(case: Case, arch: str) -> Row:
    """Compiles it as a first call would, with nothing of it kept from before."""
    with_c, bias, _ = EPILOGUES[case.epilogue]
    a, b, c, out = random_operands(case.problem)
    row = Row(str(case), case.kernel, case.epilogue)

    def timed(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            start = time.process_time()
            result = call(*args, **named)
            spent = time.process_time() - start
            row.steps[name] = round(row.steps.get(name, 0.0) + spent, 4)
            if isinstance(result, toolchain.CompiledCubin):
                row.registers = max(row.registers, *result.registers.values())
                row.spills += result.spill_stores + result.spill_loads
                row.warnings += result.warnings
            elif isinstance(result, str):
                row.lines += result.count("\n")
            return result

        return run

    build._compiled.clear()
    with ExitStack() as stack:
        for module, function, name in (
            (build, "trace_host", "trace"),
            (build, "run_passes", "passes"),
            (program, "emit_cuda", "codegen"),
            (toolchain, "compile_unchecked", "nvrtc"),
        ):
            wrapped = timed(name, getattr(module, function))
            stack.enter_context(mock.patch.object(module, function, wrapped))
        wall, cpu = time.perf_counter(), time.process_time()
        prepared = prepare_gemm(
            a,
            b,
            c,
            beta=float(with_c),
            bias=out[..., 0, :].copy() if bias else None,
            activation=case.problem.activation,
            out=out,
            kernel=case.kernel,
            config=case.config,
            arch=arch,
        )
        assert prepared.compiled is not None, "the problem has elements"
        for kernel in prepared.compiled.module.kernels:
            try:
                prepared.compiled.cubin(kernel)
            except ToolchainError as error:
                if not (row.spills or row.warnings):
                    raise SystemExit(f"{case}: {error}") from error
        row.wall, row.cpu = time.perf_counter() - wall, time.process_time() - cpu
    row.wall, row.cpu = round(row.wall, 4), round(row.cpu, 4)
    return row


def measure(cases: list[Case], arch: str) -> list[Row]:
    """The rows, slowest first; what is near the limit gets the least of a few turns."""
    rows = [compile_case(case, arch) for case in cases]
    for _ in range(TURNS - 1):
        for n, case in enumerate(cases):
            if rows[n].cpu > AGAIN * LIMIT_S:
                rows[n] = min(rows[n], compile_case(case, arch), key=lambda row: row.cpu)
    return sorted(rows, key=lambda row: -row.cpu)


def summary(rows: list[Row]) -> dict[str, Any]:
    """Median and slowest CPU time, and what fails."""
    cpu = [row.cpu for row in rows]
    steps = {
        name: round(statistics.median(row.steps[name] for row in rows), 3)
        for name in ("trace", "passes", "codegen", "nvrtc")
    }
    return {
        "configs": len(rows),
        "median_s": round(statistics.median(cpu), 3),
        "slowest_s": round(max(cpu), 3),
        "slowest_wall_s": round(max(row.wall for row in rows), 3),
        "too_slow": sum(row.cpu > LIMIT_S for row in rows),
        "spill": sum(row.spills > 0 for row in rows),
        "warn": sum(bool(row.warnings) for row in rows),
        "median_steps_s": steps,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--kernels", default=",".join(KERNELS), help="of the library, by commas")
    parser.add_argument("--epilogues", default=",".join(EPILOGUES), help="by commas")
    parser.add_argument("--save", default=str(RESULTS), help="where to; empty for nowhere")
    args = parser.parse_args()
    os.environ["TILEWRIGHT_CACHE_ENABLED"] = "0"
    kernels, epilogues = (tuple(x.split(",")) for x in (args.kernels, args.epilogues))
    cases = list(draw_cases(args.cases, args.seed, kernels, epilogues, target(args.arch)))
    # The first compilation of a process also reads and rewrites the kernel's Python source.
    first = compile_case(cases[0], args.arch)
    rows = measure(cases, args.arch)
    by_kernel = {k: summary([r for r in rows if r.kernel == k]) for k in kernels}
    print(f"first of the process: {first}")
    for row in (r for r in rows if r.fails):
        print(f"FAILS {row}")
    print("slowest:")
    for row in rows[:SHOWN]:
        print(f"  {row}")
    for kernel, found in {**by_kernel, "all": summary(rows)}.items():
        print(f"{kernel}: {found}")
    if args.save:
        result = {
            "meta": machine_facts(),
            "limit_s": LIMIT_S,
            "seed": args.seed,
            "all": summary(rows),
            "kernels": by_kernel,
            "first_of_process": asdict(first),
            "rows": [asdict(row) for row in rows],
        }
        Path(args.save).write_text(json.dumps(result, indent=1) + "\n")
    return int(any(row.fails for row in rows))


if __name__ == "__main__":
    sys.exit(main())
