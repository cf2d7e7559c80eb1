"""`tilewright profile`: CUTLASS's profiler in its own words, on a GPU or in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewright.arch.target import Target, target
from tilewright.cli.profile_flags import parser, run_options_of, sweep_of
from tilewright.compiler import default_target
from tilewright.errors import TilewrightError
from tilewright.profiler.device import Framework, choose_backend, open_framework
from tilewright.profiler.operations import (
    matches,
    nominal_name,
    operations,
    require_match,
)
from tilewright.profiler.progress import Progress
from tilewright.profiler.report import (
    block,
    plural,
    require_writable,
    sort_by_speed,
    summary,
    write_csv,
)
from tilewright.profiler.run import PEER, Result, RunOptions, not_run, run_case
from tilewright.profiler.sweep import Case, Sweep, expand, select

_BAD = ("failed", "incorrect", "not_run")


def run(words: Sequence[str]) -> int:
    """The verb.  0: all passed; 1: a result is wrong or a run failed."""
    args = parser().parse(words)
    _check_operation(args.operation)
    backend = choose_backend(args.backend, args.arch)
    on = target(args.arch) if args.arch else default_target("cuda:0" if backend == "gpu" else "cpu")
    sweep = sweep_of(args, backend)
    if args.mode == "enumerate":
        return _enumerate(sweep, on)
    cases = expand(sweep, on)
    print(_headline(cases, on, backend))
    if args.mode == "dry_run":
        for case in cases:
            print(_dry_line(case))
        return 0
    path = Path(f"{args.output}.gemm.csv") if args.output is not None else None
    if path is None and args.append:
        raise TilewrightError("profile: --append needs --output, the report to add to")
    if backend == "sim" and PEER in args.providers:
        raise TilewrightError("profile: --providers=torch compares times, which need a GPU")
    if path is not None:
        require_writable(path)
    framework = open_framework() if backend == "gpu" else None
    results = _profile(cases, run_options_of(args), framework, verbose=args.verbose)
    if args.sort_results_flops_per_sec:
        results = sort_by_speed(results)
    if path is not None:
        write_csv(results, path, args.tags, append=args.append)
        print(f"wrote {len(results)} rows to {path}")
    print(summary(results))
    return 1 if any(r.disposition in _BAD for r in results) else 0


def _check_operation(kind: str) -> None:
    if kind.lower() != "gemm":
        raise TilewrightError(f"profile: --operation={kind} is not in the library, expected Gemm")


def _enumerate(sweep: Sweep, on: Target) -> int:
    everything = [nominal_name(op, on) for op in operations(on)]
    names = [nominal_name(op, on) for op in select(sweep, on)]
    names = [name for name in names if matches(name, sweep.kernels)]
    require_match(len(names), sweep.filters(), sweep.kernels, everything)
    print("\n".join(names))
    print(f"{len(names)} of the {len(everything)} operations on {on.name}")
    return 0


def _headline(cases: Sequence[Case], on: Target, backend: str) -> str:
    problems = len({case.problem_id for case in cases})
    kernels = len({case.operation for case in cases})
    where = f"the {on.name} GPU" if backend == "gpu" else f"simulated {on.name}"
    return (
        f"{plural(len(cases), 'run')} on {where}: {plural(kernels, 'operation')}, "
        f"{plural(problems, 'problem')} "
        "(narrow with --kernels, --A, --B, --C)"
    )


def _dry_line(case: Case) -> str:
    size = "x".join(str(getattr(case.problem, x)) for x in "mnk")
    plain = (case.alpha, case.beta) == (1, 0)
    scale = "" if plain else f" alpha={case.alpha:g} beta={case.beta:g}"
    return f"{case.problem_id:>4}  {size:<18}{case.name}{scale}" + (
        f"  not supported: {case.reason}" if case.reason else ""
    )


def _profile(
    cases: Sequence[Case], options: RunOptions, framework: Framework | None, *, verbose: bool
) -> list[Result]:
    """Run the cases; when interrupted, the others count as not run and the report is still made."""
    found: list[Result] = []
    for index, case in enumerate(cases):
        try:
            with Progress(f"[{index + 1}/{len(cases)}] {case.name}"):
                results = run_case(case, options, framework)
        except KeyboardInterrupt:
            found += [not_run(later, framework) for later in cases[index:]]
            return found
        found += results
        for result in results:
            print(block(result) if verbose else _line(result), flush=True)
    return found


def _line(result: Result) -> str:
    speed = f"{result.runtime_ms:.4f} ms  {result.gflops:.0f} GFLOP/s" if result.timing else ""
    for peer, ratio in result.ratios.items():
        speed += f"  {ratio.median:.3f} of {peer}"
    status = "" if result.status == "success" else result.status
    size = "x".join(str(getattr(result.case.problem, x)) for x in "mnk")
    words = (f"{result.disposition:<13}", f"{size:<18}", result.provider, result.case.name)
    return "  ".join(word for word in (*words, speed, status) if word)
