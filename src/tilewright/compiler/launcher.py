"""Who runs a simulated launch: the simulator itself, or a tool that stands in between.

>>> from tilewright.sim.machine import Report
>>> with launching_with(lambda launch, memory, options: Report({}, (), ["seen"])):
...     pass
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tilewright.sim.machine import Launch, Report, simulate
from tilewright.sim.memory import GlobalMemory
from tilewright.sim.options import SimOptions

Launcher = Callable[[Launch, GlobalMemory, SimOptions | None], Report]
"""`options` are those that the caller of the launch asked for, if any."""

_LAUNCHER: ContextVar[Launcher] = ContextVar("tilewright_launcher", default=simulate)


def launch(what: Launch, memory: GlobalMemory, options: SimOptions | None) -> Report:
    """Runs one launch, by the launcher of the innermost `launching_with`."""
    return _LAUNCHER.get()(what, memory, options)


@contextmanager
def launching_with(launcher: Launcher) -> Iterator[None]:
    """Every simulated launch of a compiled program inside goes through `launcher`."""
    token = _LAUNCHER.set(launcher)
    try:
        yield
    finally:
        _LAUNCHER.reset(token)
