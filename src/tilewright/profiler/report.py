"""Results as people and programs read them: CSV, the block of one run, the line of a whole sweep.

Columns and block follow CUTLASS's profiler, so that scripts made for it read ours.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tilewright.errors import TilewrightError
from tilewright.profiler.operations import config_facts
from tilewright.profiler.run import OURS, Result
from tilewright.profiler.sweep import Case

_GOOD = ("passed", "not_verified")
_WIDTH = 80


def arguments(case: Case) -> dict[str, str]:
    """Every argument of a case by its flag's name: typed again, they give the same run.

    >>> from tilewright.profiler.operations import Operation
    >>> op = Operation("simt_gemm", "f32", "f32", "row", "row", "row")
    >>> found = arguments(Case(1, op, "x", op.problem(8, 16, 32), None, 1.0, 0.0))
    >>> found["k"], found["A"], found["C"], found["D"], found["cta_m"]
    ('32', 'f32:row', 'void:row', 'f32:row', '')
    """
    problem, op = case.problem, case.operation
    return {
        "gemm_kind": "universal",
        "m": str(problem.m),
        "n": str(problem.n),
        "k": str(problem.k),
        "A": f"{op.ab}:{op.a_layout}",
        "B": f"{op.ab}:{op.b_layout}",
        "C": f"{op.d if problem.c else 'void'}:{op.d_layout}",
        "D": f"{op.d}:{op.d_layout}",
        "alpha": f"{case.alpha:g}",
        "beta": f"{case.beta:g}",
        "accum": problem.accumulator.name,
        **config_facts(case.config),
    }


def record(result: Result, tags: Sequence[tuple[str, str]] = ()) -> dict[str, str]:
    """One CSV row.  Runtime (ms), GB/s and GFLOPs are empty where nothing was timed or it is wrong.

    A simulated row ends in the simulator's totals, as `sim.instructions` and so on; which families
    of instructions there are differs between kernels, so those are left out.
    """
    problem = result.case.problem
    good = result.disposition in _GOOD
    row = dict(tags)
    row |= {
        "Problem": str(result.case.problem_id),
        "Provider": result.provider,
        "OperationKind": "gemm",
        "Operation": result.case.name,
        "Disposition": result.disposition,
        "Status": result.status,
        **arguments(result.case),
        "Bytes": str(problem.bytes),
        "Flops": str(problem.flops),
        "Flops/Byte": f"{problem.flops // problem.bytes if problem.bytes else 0}",
        "Runtime": _number(result.runtime_ms, 6),
        "GB/s": _number(result.gbytes if good else None, 2),
        "GFLOPs": _number(result.gflops if good else None, 2),
    }
    totals = {f"sim.{x}": str(n) for x, n in result.counters.items() if "." not in x}
    return row | totals


def write_csv(
    results: Iterable[Result], path: Path, tags: Sequence[tuple[str, str]], *, append: bool
) -> None:
    """Write the rows, or add them to a report that has the same columns.

    Raises: TilewrightError if the file cannot be written, or has other columns.
    """
    rows = [record(result, tags) for result in results]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    try:
        old = path.read_text() if append and path.exists() else ""
    except OSError as error:
        raise TilewrightError(f"--append: cannot read {path}: {error.strerror}") from error
    if old:
        header = next(csv.reader(io.StringIO(old)))
        if unknown := [name for name in columns if name not in header]:
            raise TilewrightError(
                f"--append: {path} has no column {', '.join(map(repr, unknown))}",
                hint="give the same --tags and backend as before, or another --output",
            )
        columns = header
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    if not old:
        writer.writeheader()
    writer.writerows(rows)
    require_writable(path)
    with path.open("a" if old else "w") as file:
        file.write(text.getvalue())


def require_writable(path: Path) -> None:
    """Make the directory of a report, and see that the report can be written: before hours of work.

    Raises: TilewrightError with the reason.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a"):
            return
    except OSError as error:
        raise TilewrightError(f"--output: cannot write {path}: {error.strerror}") from error


def block(result: Result) -> str:
    """One run as a block to read, in the order of CUTLASS's profiler."""
    problem = result.case.problem
    title = {"Problem ID": str(result.case.problem_id)}
    facts = {
        "Provider": result.provider,
        "OperationKind": "gemm",
        "Operation": result.case.name,
        "Status": result.status,
        "Verification": "ON" if result.verification else "OFF",
        "Disposition": result.disposition,
    }
    checks = {f"reference_{name}": str(check) for name, check in result.verification.items()}
    numbers = {
        "Bytes": f"{problem.bytes:,} bytes",
        "FLOPs": f"{problem.flops:,} flops",
        "FLOPs/Byte": f"{problem.flops // problem.bytes if problem.bytes else 0}",
    }
    if result.timing and result.gflops is not None and result.gbytes is not None:
        numbers |= {
            "Runtime": f"{result.runtime_ms:.4f} ms (spread {result.timing.spread:.1%})",
            "Memory": f"{result.gbytes:.1f} GiB/s",
            "Math": f"{result.gflops:.0f} GFLOP/s",
        }
    for peer, ratio in result.ratios.items():
        text = f"{ratio.median:.3f} of its speed (rounds {ratio.low:.3f} to {ratio.high:.3f})"
        numbers[f"Against {peer}"] = text
    parts = [_lines(title), _lines(facts), _lines(checks)]
    parts += [_flags(result.case), _lines(numbers)]
    if result.counters:
        parts.append(f"{'Simulated':>18}: in {result.wall_s:.2f} s on the CPU; no GPU time")
        parts.append(counter_table(result.counters))
    rule = "=" * _WIDTH
    return "\n".join([rule, *(part for part in parts if part), ""])


def counter_table(counters: Mapping[str, int]) -> str:
    """The simulator's counters, two to a line, totals before the families of instructions.

    >>> print(counter_table({"instructions.mma": 12, "flops": 2048, "instructions": 90}))
    flops                       2,048   instructions                   90
    instructions.mma               12
    """
    names = sorted(counters, key=lambda name: ("." in name, name))
    cells = [f"{name:<20}{counters[name]:>13,}" for name in names if counters[name]]
    return "\n".join("   ".join(cells[i : i + 2]).rstrip() for i in range(0, len(cells), 2))


def summary(results: Sequence[Result]) -> str:
    """The sweep in one line: how many, how they ended, the best, and what was verified."""
    ours = [result for result in results if result.provider.startswith(OURS)]
    ended = Counter(result.disposition for result in ours)
    parts = [
        f"{plural(len(ours), 'run')}: "
        + ", ".join(f"{n} {name}" for name, n in ended.most_common())
    ]
    timed = [r for r in ours if r.gflops is not None and r.disposition in _GOOD]
    if timed:
        best = max(timed, key=lambda result: result.gflops or 0.0)
        size = "x".join(str(getattr(best.case.problem, x)) for x in "mnk")
        parts.append(f"best {(best.gflops or 0) / 1e3:.1f} TFLOP/s, {best.case.name} at {size}")
    elif any(result.counters for result in ours):
        parts.append("no times (simulated)")
    done = [result for result in ours if result.verification]
    by = ", ".join(sorted({name for result in done for name in result.verification}))
    if done:
        parts.append(f"verified {ended['passed']} of {len(done)} by {by}")
    else:
        parts.append("nothing verified")
    return "; ".join(parts)


def plural(count: int, noun: str) -> str:
    """A count and its noun.

    >>> plural(1, "run"), plural(0, "run")
    ('1 run', '0 runs')
    """
    return f"{count} {noun}" + ("" if count == 1 else "s")


def sort_by_speed(results: Iterable[Result]) -> list[Result]:
    """Fastest first; what has no time comes last, in its order."""
    return sorted(results, key=lambda result: -(result.gflops or 0.0))


def _flags(case: Case) -> str:
    given = {name: text for name, text in arguments(case).items() if text and name != "gemm_kind"}
    words = [f"--{name}={text}" for name, text in given.items() if "void" not in text]
    lines, line = [], ""
    for word in words:
        if line and len(line) + len(word) >= _WIDTH - 20:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    lines.append(line)
    return f"{'Arguments':>18}: " + ("\n" + " " * 20).join(lines)


def _lines(facts: Mapping[str, str]) -> str:
    return "\n".join(f"{name:>18}: {text}" for name, text in facts.items())


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
