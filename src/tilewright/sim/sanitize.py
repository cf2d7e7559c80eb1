"""`with tilewright.sanitize():`: every launch inside runs in the simulator with all checks on.

>>> with sanitize() as seen:
...     pass
>>> seen.findings
()
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.sim.costs import Cost, merged
from tilewright.sim.findings import Finding
from tilewright.sim.options import Scope, SimOptions, using


class Sanitizer:
    """What the launches inside a `sanitize` block reported."""

    def __init__(self) -> None:
        self.reports: list[Any] = []

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in the order of the launches."""
        return tuple(f for report in self.reports for f in report.findings)

    @property
    def costs(self) -> tuple[Cost, ...]:
        """With `costs=True`: what wastes time, of all launches, the greatest waste first."""
        return merged(cost for report in self.reports for cost in report.costs)


@contextmanager
def sanitize(
    *,
    seed: int = 0,
    seeds: int = 1,
    check_global: bool = False,
    explore: int = 0,
    costs: bool = False,
    raise_on_findings: bool = True,
) -> Iterator[Sanitizer]:
    """Simulated launches inside are checked; the first with findings raises `SimulationError`.

    `seeds`: how many orders to try, from `seed` on; `explore`: how many to try systematically;
    `check_global`: races in global memory too; `costs`: bank conflicts, wasted sectors, needless
    barriers and narrow copies, in `.costs` afterwards.  With `raise_on_findings=False` look at
    `.findings` afterwards.  Launches that bring their own options keep them.
    """
    found = Sanitizer()
    options = SimOptions(
        seed=seed,
        runs=seeds,
        explore=explore,
        check_races=True,
        check_global=check_global,
        measure_costs=costs,
        raise_on_findings=raise_on_findings,
    )
    with using(Scope(options, found.reports)):
        yield found
