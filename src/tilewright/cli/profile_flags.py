"""The flags of `tilewright profile`, named as CUTLASS names them, and what they ask for."""

from __future__ import annotations

import argparse
import math

from tilewright.cli.arguments import Parser, add_boolean, value
from tilewright.errors import TilewrightError
from tilewright.profiler import values
from tilewright.profiler.run import PEER, RunOptions
from tilewright.profiler.sweep import Sweep
from tilewright.profiler.values import OperandPattern

EXAMPLES = (
    "tilewright profile --mode=enumerate --kernels=sm90*bf16",
    "tilewright profile --mode=dry_run --m=256:1024:256 --n=1024 --k=512 --A=f16:row --B=f16:col",
    "tilewright profile --m=64 --n=64 --k=32 --A=f16:row --B=f16:col --C=f16:row --accum=f32",
)
_DESCRIPTION = """\
Runs every kernel of the library whose name, element types and layouts fit, on every problem of
the sweep: verifies each result, then times it on a GPU, or counts instructions and bytes in the
simulator.  An argument that is left out does not narrow the choice.  Integers are lists and
ranges with both ends included (--m=16,32 --k=64:256:64); operands are type:layout, * is any."""
_SIMULATED_SIZE, _GPU_SIZE = (256,), (1024,)
_PROVIDERS = {"tilewright": "tilewright", PEER: PEER, "cublas": PEER}
_CHECKERS = {"host": "host", "device": "device"}


def parser() -> Parser:
    """The flags, named as CUTLASS names them."""
    made = Parser("profile", _DESCRIPTION, EXAMPLES)
    _add_selection(made)
    _add_run(made)
    _add_report(made)
    return made


def _add_selection(made: Parser) -> None:
    group = made.add_argument_group("what to run")
    add = group.add_argument
    add("--operation", default="Gemm", metavar="KIND", help="Gemm, the one there is")
    add(
        "--mode",
        default="profile",
        choices=("profile", "dry_run", "enumerate"),
        help="run, list the runs, or list the operations",
    )
    add(
        "--kernels",
        default="",
        metavar="FILTER",
        help="parts of operation names: a comma is or, * separates parts that follow each other",
    )
    for size in "mnk":
        add(
            f"--{size}",
            f"--problem-size::{size}",
            dest=size,
            type=value(values.sizes, f"--{size}"),
            metavar="INTS",
            help="default: 1024 on a GPU, 256 in the simulator",
        )
    for name in "ABCD":
        text = {
            "C": "type and layout of C and D, which are the same here",
            "D": "another way to say --C",
        }
        add(
            f"--{name}",
            type=value(_c_operands if name in "CD" else values.operands, f"--{name}"),
            default=(OperandPattern(),),
            metavar="TYPE:LAYOUT",
            help=text.get(name, f"element type and layout of {name}"),
        )
    add(
        "--accum",
        type=value(values.types, "--accum"),
        default=("*",),
        metavar="TYPES",
        help="accumulator: f32",
    )
    for name, default in (("alpha", (1.0,)), ("beta", (0.0,))):
        add(
            f"--{name}",
            type=value(values.numbers, f"--{name}"),
            default=default,
            metavar="NUMBERS",
            help=f"default: {default[0]:g}",
        )
    for name in ("cta", "cluster"):
        for size in "mnk":
            add(
                f"--{name}_{size}",
                type=value(values.counts, f"--{name}_{size}"),
                default=(),
                metavar="INTS",
                help="lay this over the config that the kernel would choose",
            )
    add(
        "--stages",
        type=value(values.counts, "--stages"),
        default=(),
        metavar="INTS",
        help="as --cta_m",
    )


def _add_run(made: Parser) -> None:
    group = made.add_argument_group("how to run it")
    add = group.add_argument
    add("--backend", default="auto", choices=("auto", "sim", "gpu"), help="default: GPU if usable")
    add("--arch", default="", metavar="SM", help="target of the simulator, such as sm_90a")
    add(
        "--providers",
        type=lambda text: values.choices(text, "--providers", _PROVIDERS),
        default=("tilewright",),
        metavar="LIST",
        help="tilewright; torch adds cuBLAS, interleaved with each kernel (GPU only)",
    )
    add_boolean(group, "--verification-enabled", True, "compare every element with the reference")
    add(
        "--verification-providers",
        type=lambda text: values.choices(text, "--verification-providers", _CHECKERS),
        default=(),
        metavar="LIST",
        help="host (NumPy) or device (torch), both in float64; default: device where it can be",
    )
    for flag, default, text in (
        ("--warmup-iterations", 10, "calls before timing"),
        ("--profiling-iterations", 100, "timed calls of each kernel; 0 does not time"),
        ("--min-iterations", 10, "timed calls at least, unless there are none"),
        ("--seed", 2026, "of the random inputs"),
    ):
        add(
            flag, type=value(_count, flag), default=default, metavar="N", help=f"{text} ({default})"
        )
    add(
        "--dist",
        type=value(values.distribution, "--dist"),
        default=values.Distribution(),
        metavar="DIST",
        help="inputs: gaussian,mean:0,stddev:1 (default), uniform,min:,max:,scale:, sequential,...",
    )


def _add_report(made: Parser) -> None:
    group = made.add_argument_group("report")
    add = group.add_argument
    add("--output", metavar="PATH", help="write PATH.gemm.csv")
    add_boolean(group, "--append", False, "add to the report that is there")
    add(
        "--tags",
        type=value(values.tags, "--tags"),
        default=(),
        metavar="COL:VAL,...",
        help="extra columns, first in the report",
    )
    add_boolean(
        group,
        "--sort-results-flops-per-sec",
        False,
        "fastest first",
        also=("--sort-results", "--sort"),
    )
    add_boolean(group, "--verbose", True, "print a block for every run, not one line")


def _c_operands(text: str, flag: str) -> tuple[OperandPattern, ...]:
    """Operands; `void`, CUTLASS's word for no C, leaves the type open."""
    return values.operands(text.replace("void", "*"), flag)


def _count(text: str, flag: str) -> int:
    found = values.sizes(text, flag)
    if len(found) != 1:
        raise TilewrightError(f"{flag}: {text!r}, expected one number")
    return found[0]


def sweep_of(args: argparse.Namespace, backend: str) -> Sweep:
    """What is to be swept."""
    size = _GPU_SIZE if backend == "gpu" else _SIMULATED_SIZE
    return Sweep(
        m=args.m or size,
        n=args.n or size,
        k=args.k or size,
        a=args.A,
        b=args.B,
        c=args.C,
        d=args.D,
        accum=args.accum,
        alpha=args.alpha,
        beta=args.beta,
        kernels=args.kernels,
        cta=(args.cta_m, args.cta_n, args.cta_k),
        cluster=(args.cluster_m, args.cluster_n, args.cluster_k),
        stages=args.stages,
    )


def run_options_of(args: argparse.Namespace) -> RunOptions:
    """How each case is to be run."""
    iterations = args.profiling_iterations
    if iterations:
        iterations = max(iterations, args.min_iterations)
    return RunOptions(
        seed=args.seed,
        distribution=args.dist,
        verify=args.verification_enabled,
        verification_providers=args.verification_providers,
        warmup=args.warmup_iterations,
        rounds=math.ceil(iterations / 2),
        peers=tuple(name for name in args.providers if name == PEER),
        arch=args.arch,
    )
