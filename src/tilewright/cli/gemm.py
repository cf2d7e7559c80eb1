"""`tilewright gemm`: one matrix product, computed, verified and described."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

from tilewright.cli.arguments import Parser, add_boolean, value
from tilewright.errors import TilewrightError
from tilewright.library import registry
from tilewright.library.gemm import PreparedGemm, prepare_gemm, random_operands
from tilewright.library.problem import GemmProblem
from tilewright.library.reference import Verification
from tilewright.profiler import values
from tilewright.profiler.device import Framework, TorchDevice, choose_backend, open_framework
from tilewright.profiler.progress import Progress
from tilewright.profiler.report import counter_table
from tilewright.profiler.run import verify_on_device
from tilewright.profiler.timing import Timing, interleave
from tilewright.profiler.values import OperandPattern

EXAMPLES = (
    "tilewright gemm",
    "tilewright gemm --m=100 --n=72 --k=40 --A=f16:row --B=f16:row --kernel=simt_gemm",
    "tilewright gemm --m=64 --n=64 --k=32 --alpha=2 --beta=0.5 --arch=sm_80 --json",
)
_DESCRIPTION = """\
Computes D = alpha * A @ B + beta * C on random inputs (N(0,1)), compares every element of D with
a float64 reference, and says which kernel ran, with which config, and why better ones did not.
Without options: the Hopper kernel on 256x256x256 in bf16."""
_ROUNDS = 20
_MAJOR = {
    "A": {"row": "K", "column": "M"},
    "B": {"row": "N", "column": "K"},
    "D": {"row": "N", "column": "M"},
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything there is to say about the run."""

    prepared: PreparedGemm
    verification: Verification
    prepare_s: float
    run_s: float
    counters: dict[str, int]
    timing: Timing | None


def run(words: Sequence[str]) -> int:
    """The verb.  0: verified; 1: wrong."""
    args = _parser().parse(words)
    problem = _problem(args)
    backend = choose_backend(args.backend, args.arch)
    outcome = _run(problem, args, open_framework() if backend == "gpu" else None)
    if args.json:
        print(json.dumps(as_record(outcome), indent=1))
    else:
        print(as_text(outcome))
    return 0 if outcome.verification.passed else 1


def _parser() -> Parser:
    made = Parser("gemm", _DESCRIPTION, EXAMPLES)
    add = made.add_argument
    for size in "mnk":
        add(
            f"--{size}",
            type=value(_one_size, f"--{size}"),
            default=256,
            metavar="N",
            help="default: 256",
        )
    for name, default in (("A", "bf16:row"), ("B", "bf16:column"), ("C", ""), ("D", "")):
        add(
            f"--{name}",
            type=value(_one_operand, f"--{name}"),
            default=_one_operand(default, name) if default else None,
            metavar="TYPE:LAYOUT",
            help=f"default: {default}" if default else "default: A's type, row; C and D are alike",
        )
    add("--alpha", type=value(_one_number, "--alpha"), default=1.0, metavar="X", help="default: 1")
    add("--beta", type=value(_one_number, "--beta"), default=0.0, metavar="X", help="default: 0")
    add(
        "--kernel",
        default="",
        metavar="NAME",
        help=f"{', '.join(registry.KERNELS)}; default: the best that fits",
    )
    add("--backend", default="auto", choices=("auto", "sim", "gpu"), help="default: GPU if usable")
    add("--arch", default="", metavar="SM", help="target of the simulator, such as sm_80")
    add("--seed", type=value(_one_size, "--seed"), default=0, metavar="N", help="of the inputs")
    add("--source", metavar="FILE", help="write the generated CUDA C++ to FILE")
    add_boolean(made, "--json", False, "print one JSON object")
    return made


def _one_size(text: str, flag: str) -> int:
    found = values.sizes(text, flag)
    if len(found) != 1:
        raise TilewrightError(f"{flag}: {text!r}, expected one number", hint="profile sweeps many")
    return found[0]


def _one_number(text: str, flag: str) -> float:
    found = values.numbers(text, flag)
    if len(found) != 1:
        raise TilewrightError(f"{flag}: {text!r}, expected one number", hint="profile sweeps many")
    return found[0]


def _one_operand(text: str, flag: str) -> OperandPattern:
    found = values.operands(text, flag)
    if len(found) != 1 or found[0].dtype == "*":
        raise TilewrightError(f"{flag}: {text!r}, expected one type and layout, such as bf16:row")
    return found[0]


def _problem(args: argparse.Namespace) -> GemmProblem:
    """The problem that the flags describe.  Raises: TilewrightError where operands disagree."""
    a, b = args.A, args.B
    d = args.D or args.C or OperandPattern(a.dtype, "row")
    if a.dtype != b.dtype:
        raise TilewrightError(
            f"gemm: A is {a.dtype} and B is {b.dtype}, expected one element type",
            hint=f"--B={a.dtype}:{'column' if b.layout == '*' else b.layout}",
        )
    if args.C is not None and args.D is not None and args.C != args.D:
        raise TilewrightError(f"gemm: C is {args.C} and D is {args.D}, expected them to be alike")
    layout = {"A": a.layout, "B": b.layout, "D": d.layout}
    natural = {"A": "row", "B": "column", "D": "row"}
    major = {x: _MAJOR[x][natural[x] if layout[x] == "*" else layout[x]] for x in layout}
    return GemmProblem.packed(
        args.m,
        args.n,
        args.k,
        ab=a.dtype,
        d=d.dtype,
        a_major=major["A"],
        b_major=major["B"],
        d_major=major["D"],
        with_c=args.beta != 0,
    )


def _run(problem: GemmProblem, args: argparse.Namespace, framework: Framework | None) -> Outcome:
    operands: tuple[Any, ...] = random_operands(problem, args.seed)
    if framework is not None:
        rows = (problem.a.dtype, problem.b.dtype, problem.d.dtype, problem.d.dtype)
        operands = tuple(
            framework.upload(array, row) if array is not None else None
            for array, row in zip(operands, rows, strict=True)
        )
    a, b, c, out = operands
    with Progress("capturing and compiling"):
        start = time.perf_counter()
        prepared = prepare_gemm(
            a,
            b,
            c,
            alpha=args.alpha,
            beta=args.beta,
            out=out,
            kernel=args.kernel,
            backend="sim" if framework is None else "gpu",
            arch=args.arch,
        )
        prepare_s = time.perf_counter() - start
    if args.source:
        _write_source(prepared, Path(args.source))
    start = time.perf_counter()
    timing = None
    what = f"simulating {problem}" if framework is None else "running"
    with Progress(what):
        report = prepared.run()
        if framework is not None:
            framework.synchronize()
    run_s = time.perf_counter() - start
    with Progress("verifying"):
        verification = (
            verify_on_device(prepared, framework)
            if isinstance(framework, TorchDevice)
            else prepared.verify()
        )
    if framework is not None:
        calls = {"ours": prepared.bind()}
        timing = interleave(calls, framework, rounds=_ROUNDS)["ours"]
    counters = dict(report.counters) if report else {}
    return Outcome(prepared, verification, prepare_s, run_s, counters, timing)


def as_record(outcome: Outcome) -> dict[str, Any]:
    """The outcome as plain values, for `--json`."""
    plan, check = outcome.prepared.plan, outcome.verification
    problem = plan.problem
    config = _config_record(plan.config)
    record: dict[str, Any] = {
        "problem": str(problem),
        "m": problem.m,
        "n": problem.n,
        "k": problem.k,
        "alpha": outcome.prepared.alpha,
        "beta": outcome.prepared.beta,
        "backend": outcome.prepared.backend,
        "target": plan.target.name,
        "kernel": plan.kernel,
        "config": config,
        "passed_over": list(plan.passed_over),
        "verified": check.passed,
        "worst_of_bound": check.worst,
        "relative_error": check.relative,
        "prepare_s": outcome.prepare_s,
    }
    if outcome.timing:
        record["time_us"] = outcome.timing.median_us
        record["spread"] = outcome.timing.spread
        record["tflops"] = problem.flops / outcome.timing.median_us / 1e6
    else:
        record["simulation_s"] = outcome.run_s
        record["counters"] = outcome.counters
    return record


def _config_record(config: Any) -> Any:
    if is_dataclass(config) and not isinstance(config, type):
        return asdict(config)
    return str(config)


def as_text(outcome: Outcome) -> str:
    """The outcome as lines to read."""
    plan = outcome.prepared.plan
    where = "simulated " if outcome.prepared.backend == "sim" else ""
    lines = [
        f"{'problem':<13}{plan.problem}",
        f"{'kernel':<13}{plan.kernel} on {where}{plan.target.name}",
        f"{'config':<13}{plan.config}",
    ]
    lines += [f"{'passed over':<13}{reason}" for reason in plan.passed_over]
    lines.append(f"{'result':<13}{outcome.verification}")
    lines.append(f"{'prepared in':<13}{outcome.prepare_s:.2f} s")
    timing = outcome.timing
    if timing:
        tflops = plan.problem.flops / timing.median_us / 1e6
        lines.append(
            f"{'time':<13}{timing.median_us:.1f} us, {tflops:.1f} TFLOP/s "
            f"(median of {len(timing.rounds_us)} rounds, L2 swept, spread {timing.spread:.1%})"
        )
    elif outcome.counters:
        lines += [f"{'simulated in':<13}{outcome.run_s:.2f} s", counter_table(outcome.counters)]
    return "\n".join(lines)


def _write_source(prepared: PreparedGemm, path: Path) -> None:
    if prepared.compiled is None:
        raise TilewrightError("--source: the output is empty, so there is no kernel to write")
    compiled = prepared.compiled
    text = "\n".join(compiled.source(name) for name in compiled.module.kernels)
    try:
        path.write_text(text)
    except OSError as error:
        raise TilewrightError(f"--source: cannot write {path}: {error.strerror}") from error
