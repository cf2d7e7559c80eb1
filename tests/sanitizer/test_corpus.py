"""Every planted fault is found at its line, and no corrected twin has a finding, over all seeds."""

from __future__ import annotations

from collections import Counter

import pytest
from corpus import CASES, Case

from tilewright.sim.findings import KINDS

TABLE = [pytest.param(case, id=name) for name, case in CASES.items()]


def summary(case: Case, seed: int, *, ok: bool = False) -> str:
    report = case.run(ok=ok, seed=seed)
    return "\n".join(map(str, report.findings)) or "no findings"


@pytest.mark.parametrize("case", TABLE)
def test_fault_is_found_at_its_line(case: Case, seeds: range) -> None:
    missed = [s for s in seeds if not case.found(case.run(ok=False, seed=s))]
    expected = f"{case.mechanism}: expected {case.kinds} at lines {sorted(case.lines())}"
    assert not missed, f"{expected}; missed with seeds {missed}:\n{summary(case, missed[0])}"


@pytest.mark.parametrize("case", TABLE)
def test_twin_has_no_finding(case: Case, seeds: range) -> None:
    for seed in seeds:
        report = case.run(ok=True, seed=seed)
        assert not report.findings, f"seed {seed}:\n{summary(case, seed, ok=True)}"


def test_the_corpus_is_large_enough_and_covers_every_kind() -> None:
    assert len(CASES) >= 60, "60 planted faults, each with its twin"
    mechanisms = Counter(case.mechanism for case in CASES.values())
    assert mechanisms.most_common(1)[0][1] == 1, "each fault comes from a mechanism of its own"
    kinds = {kind for case in CASES.values() for kind in case.kinds}
    assert kinds <= set(KINDS), f"kinds that do not exist: {kinds - set(KINDS)}"
    # The author of a kernel states an assertion; it is no fault of a class of its own.
    assert set(KINDS) - kinds <= {"assertion"}, f"kinds without a case: {set(KINDS) - kinds}"
