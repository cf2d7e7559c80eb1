"""`tilewright check kernel.py`: runs a kernel file in the simulator with every check on."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tilewright.cli.arguments import Parser, add_boolean, value
from tilewright.errors import LaunchError, SimulationError, TilewrightError
from tilewright.profiler import values
from tilewright.profiler.check_report import as_record, as_text
from tilewright.profiler.checker import Checker, Policy, checking
from tilewright.profiler.cost_report import cost_records, costs_text
from tilewright.profiler.recorded import side_by_side
from tilewright.profiler.roofline import roofline_text
from tilewright.profiler.suppressions import parse
from tilewright.profiler.timeline import record_timeline
from tilewright.profiler.timeline_files import write_timeline
from tilewright.runtime import driver
from tilewright.sim.options import SimOptions

EXAMPLES = (
    "tilewright check examples/02_shared_memory.py",
    "tilewright check examples/02_shared_memory.py --seeds=10 --global --roofline",
    "tilewright check examples/02_shared_memory.py --explore=20 --json",
)
_DESCRIPTION = """\
Runs the launches of a Python file in the simulator, on this machine's CPU, and reports races,
deadlocks, broken protocols and bad accesses with their source lines.  The launches are those that
the file makes when it is imported, then those of its functions named check_*; a file that has
neither is run by calling its main().  Exit status: 0 nothing found, 1 findings, 2 bad input."""
EXPLORE = 200
STEPS_PER_SECOND = 200_000
"""About as many instructions of whole groups as the simulator executes: bounds an endless loop."""
WRONG, BAD_INPUT = 1, 2


def run(words: Sequence[str]) -> int:
    """The verb.  0: no findings; 1: findings; 2: the file cannot be checked."""
    args = _parser().parse(words)
    path = Path(args.file)
    if not path.is_file():
        raise TilewrightError(f"check: {args.file} is not a file", hint="name a Python file")
    if args.record:
        _check_record(args)
    checker = Checker(_policy(args), keep=1 if args.timeline else 0)
    quiet = contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext()
    with quiet, checking(checker):
        stopped = _run_all(path, checker)
    if not checker.launches and not stopped:
        raise TilewrightError(
            f"check: {args.file} launches nothing",
            hint="launch at module level, in functions named check_*, or in main()",
        )
    if args.timeline:
        with contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext():
            _draw(checker, Path(args.timeline), record=args.record)
    _show(args, checker, stopped)
    if any(one.findings for one in checker.launches):
        return WRONG
    if any(one.refused for one in checker.launches):
        return BAD_INPUT
    if stopped.startswith("AssertionError"):
        return 0 if _is_cut(checker) else WRONG
    return BAD_INPUT if stopped else 0


def _is_cut(checker: Checker) -> bool:
    """Whether blocks were left out on request: the file's own assertions then mean nothing."""
    return any(one.whole_grid != (0, 0, 0) for one in checker.launches)


def _show(args: argparse.Namespace, checker: Checker, stopped: str) -> None:
    if args.json:
        record = {"file": args.file, **as_record(checker.launches), "stopped": stopped or None}
        if args.costs:
            for made, one in zip(record["launches"], checker.launches, strict=True):
                made |= cost_records(one)
        print(json.dumps(record, indent=1))
        return
    print(as_text(checker.launches, f"tilewright check {args.file}"))
    for one in checker.launches:
        if one.report is not None and args.roofline:
            print(roofline_text(one.kernel, one.report.counters))
        if one.report is not None and args.costs:
            print(costs_text(one))
    if stopped:
        why = " (blocks were left out, so its results are not whole)" if _is_cut(checker) else ""
        print(f"{args.file} stopped: {stopped}{why}")


def _parser() -> Parser:
    made = Parser("check", _DESCRIPTION, EXAMPLES)
    add = made.add_argument
    add("file", metavar="kernel.py", help="the file with the launches")
    count = value(_count, "--seed")
    add("--seed", type=count, default=0, metavar="N", help="the first order to try (default: 0)")
    add(
        "--seeds",
        type=value(_positive, "--seeds"),
        default=3,
        metavar="N",
        help="how many orders to try of each launch, up to the first with findings (default: 3)",
    )
    add(
        "--explore",
        nargs="?",
        const=EXPLORE,
        default=0,
        type=value(_positive, "--explore"),
        metavar="N",
        help=f"try up to N schedules systematically instead (default: {EXPLORE})",
    )
    add_boolean(made, "--races", True, "check for races and the rules of barriers and proxies")
    add("--no-races", dest="races", action="store_false", help="bounds and barriers only, faster")
    add_boolean(made, "--global", False, "check global memory for races as well")
    add("--ctas", type=value(_positive, "--ctas"), metavar="N", help="run at most N blocks")
    add("--grid", type=value(_grid, "--grid"), metavar="X[,Y[,Z]]", help="run this grid instead")
    add(
        "--limit",
        type=value(_seconds, "--limit"),
        default=300.0,
        metavar="S",
        help="refuse a launch that would take more seconds (default: 300)",
    )
    add(
        "--allow",
        action="append",
        default=[],
        metavar="KIND@PLACE: REASON",
        help="allow a finding, and say why; PLACE is a function, file or file:line",
    )
    add("--timeline", metavar="FILE", help="model the first launch's time: FILE.json or FILE.svg")
    add_boolean(made, "--record", False, "record the same on this machine's GPU, side by side")
    add_boolean(made, "--roofline", False, "print bytes and FLOPs of each memory level")
    add_boolean(made, "--costs", False, "print what wastes time, by line, and registers")
    add_boolean(made, "--json", False, "print one JSON object")
    return made


def _count(text: str, flag: str) -> int:
    found = values.sizes(text, flag)
    if len(found) != 1:
        raise TilewrightError(f"{flag}: {text!r}, expected one number")
    return found[0]


def _positive(text: str, flag: str) -> int:
    found = _count(text, flag)
    if found < 1:
        raise TilewrightError(f"{flag}: {text!r}, expected 1 or more")
    return found


def _seconds(text: str, flag: str) -> float:
    found = values.numbers(text, flag)
    if len(found) != 1 or found[0] <= 0:
        raise TilewrightError(f"{flag}: {text!r}, expected a positive number of seconds")
    return float(found[0])


def _grid(text: str, flag: str) -> tuple[int, int, int]:
    parts = [_positive(part, flag) for part in text.split(",")]
    if len(parts) > 3:
        raise TilewrightError(f"{flag}: {text!r}, expected one to three extents, as in 4,2")
    x, y, z = (*parts, 1, 1)[:3]
    return x, y, z


def _policy(args: argparse.Namespace) -> Policy:
    options = SimOptions(
        seed=args.seed,
        runs=1 if args.explore else args.seeds,
        explore=args.explore,
        check_races=args.races,
        check_global=getattr(args, "global"),
        measure_costs=args.costs,
        raise_on_findings=False,
        max_steps=max(int(args.limit * STEPS_PER_SECOND), 100_000),
    )
    allow = tuple(parse(text) for text in args.allow)
    return Policy(options, args.limit, args.grid, args.ctas, allow)


def _run_all(path: Path, checker: Checker) -> str:
    """Runs the file; why it stopped early, or ''.

    Raises: TilewrightError where it stopped before its first launch: there is nothing to report.
    """
    try:
        return _run_file(path)
    except TilewrightError as error:
        if not checker.launches:
            raise
        return "" if checker.launches[-1].refused is error else str(error)


# -- the user's file -------------------------------------------------------------------------------


def _run_file(path: Path) -> str:
    """Runs the file's launches; why it stopped early, or ''.

    Errors of ours other than findings and refusals go on to the caller: bad input.
    """
    try:
        with _importable(path):
            module = _import(path)
            for function in _entries(module):
                function()
    except SimulationError as error:  # a launch outside of a compiled program
        return f"{type(error).__name__}: {error}"
    except TilewrightError:
        raise
    except SystemExit as end:
        return "" if not end.code else f"SystemExit: {end.code}"
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        where = f" (line {frames[-1].lineno})" if frames else ""
        return f"{type(error).__name__}: {error}{where}"
    return ""


@contextlib.contextmanager
def _importable(path: Path) -> Iterator[None]:
    """The file's folder is on the path, and its arguments are its own name, as for a script."""
    before_path, before_argv = sys.path[:], sys.argv
    sys.path.insert(0, str(path.parent.resolve()))
    sys.argv = [str(path)]
    try:
        yield
    finally:
        sys.path[:], sys.argv = before_path, before_argv


def _import(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise LaunchError(f"check: {path} is not a Python file", hint="its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _entries(module: ModuleType) -> Sequence[Callable[[], Any]]:
    """The functions to call after the import: check_*, else main."""
    own = {
        name: f
        for name, f in vars(module).items()
        if inspect.isfunction(f) and f.__module__ == module.__name__
    }
    checks = [f for name, f in own.items() if name.startswith("check_")]
    chosen = checks or [f for name, f in own.items() if name == "main"]
    for f in chosen:
        needed = [p for p in inspect.signature(f).parameters.values() if p.default is p.empty]
        if needed:
            raise LaunchError(
                f"check: {f.__name__} needs the argument {needed[0].name}; functions that are "
                "checked take none"
            )
    return chosen


def _check_record(args: argparse.Namespace) -> None:
    if not args.timeline:
        raise TilewrightError("--record: nothing to draw", hint="add --timeline=FILE.svg")
    found = driver.is_available()
    if not found:
        raise TilewrightError(
            f"--record: no usable GPU: {found.reason}",
            hint="without --record, the timeline is modelled only",
        )


def _draw(checker: Checker, path: Path, *, record: bool) -> None:
    if path.suffix not in (".json", ".svg"):
        raise TilewrightError(
            f"--timeline: {path} ends in {path.suffix or 'nothing'}, expected .json or .svg"
        )
    for launch, memory, before in checker.kept:
        memory.restore(before)
        if record:
            print(side_by_side(launch, memory, path).text)
        else:
            write_timeline(record_timeline(launch, memory), path)
