"""Checks every simulated launch of a test run: ``pytest -p tilewright.profiler.pytest_plugin``.

A launch with findings raises SimulationError in its test, as faults that the plain simulator
sees always do.  A test may allow a finding, and must say why::

    @pytest.mark.tilewright_allow("race@histogram: only the order of the bins differs")

So may the project, in its pytest configuration::

    tilewright_allow =
        race@reduce.py: every thread writes the same value
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tilewright.errors import TilewrightError
from tilewright.profiler.checker import Checker, Policy, checking
from tilewright.profiler.suppressions import Suppression, parse
from tilewright.sim.options import SimOptions

ALLOW = "tilewright_allow"
MARKER = f"{ALLOW}(suppression): allow findings of the test's launches, 'kind@place: reason'"


@dataclass(slots=True)
class Tally:
    """What the launches of a run came to; `allowed` are lines of the summary."""

    launches: int = 0
    findings: int = 0
    allowed: list[str] = field(default_factory=list)

    def add(self, checker: Checker) -> None:
        self.launches += len(checker.launches)
        self.findings += sum(len(one.findings) for one in checker.launches)
        self.allowed += [
            f"{finding.kind} at {finding.loc or 'no line'}: {reason}"
            for one in checker.launches
            for finding, reason in one.suppressed
        ]


_TALLY = pytest.StashKey[Tally]()
_OUTPUT = "tilewright"
"""Where a worker of pytest-xdist leaves its tally for the process that prints the summary."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tilewright", "checking of GPU kernels in the simulator")
    group.addoption(
        "--tilewright-seeds",
        type=int,
        default=1,
        metavar="N",
        help="orders to try of each launch, up to the first with findings (default: 1)",
    )
    group.addoption(
        "--tilewright-seed", type=int, default=0, metavar="N", help="the first order to try"
    )
    group.addoption(
        "--tilewright-global",
        action="store_true",
        help="check global memory for races as well",
    )
    parser.addini(ALLOW, "findings that are allowed: kind@place: reason", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    config.stash[_TALLY] = Tally()
    if config.getoption("--tilewright-seeds") < 1:
        raise pytest.UsageError("--tilewright-seeds: expected 1 or more")
    _suppressions(config.getini(ALLOW))


def _suppressions(lines: list[str]) -> tuple[Suppression, ...]:
    try:
        return tuple(parse(line) for line in lines)
    except TilewrightError as error:
        raise pytest.UsageError(str(error)) from error


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Launches of the test go through a checker."""
    config = item.config
    marked = [line for marker in item.iter_markers(ALLOW) for line in marker.args]
    options = SimOptions(
        seed=config.getoption("--tilewright-seed"),
        runs=config.getoption("--tilewright-seeds"),
        check_races=True,
        check_global=config.getoption("--tilewright-global"),
        raise_on_findings=False,
    )
    allow = _suppressions([*config.getini(ALLOW), *marked])
    with checking(Checker(Policy(options, allow=allow, raises=True))) as checker:
        try:
            return (yield)
        finally:
            config.stash[_TALLY].add(checker)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands its tally over, as plain values."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        tally = session.config.stash[_TALLY]
        output[_OUTPUT] = [tally.launches, tally.findings, tally.allowed]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker has ended: its launches count here.  One that crashed has told nothing."""
    launches, findings, allowed = getattr(node, "workeroutput", {}).get(_OUTPUT, (0, 0, []))
    tally = node.config.stash[_TALLY]
    tally.launches += launches
    tally.findings += findings
    tally.allowed += allowed


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """One line: how many launches were checked, and what was allowed."""
    tally = config.stash[_TALLY]
    plural = "" if tally.launches == 1 else "es"
    terminalreporter.write_line(
        f"tilewright: {tally.launches} launch{plural} checked, {tally.findings} findings"
    )
    for line in tally.allowed:
        terminalreporter.write_line(f"  allowed {line}")
