"""The CuTe layout vectors, op by op: each passes, or is a difference that we list with its reason.

Without the vectors this file skips.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import report
from layout_vectors import DIFFERENT, VECTORS, adapter, by_op, load_runner, outcome

BY_OP = by_op()
PAGE = Path(__file__).resolve().parents[2] / "docs" / "layout_conformance.md"

pytestmark = pytest.mark.skipif(not BY_OP, reason=f"no conformance vectors at {VECTORS}")


@pytest.fixture(scope="module")
def runner() -> Any:
    return load_runner()


@pytest.fixture(scope="module")
def ours(runner: Any) -> dict[str, Any]:
    return adapter(runner)


@pytest.mark.parametrize("op", BY_OP or ["none"])
def test_op(op: str, runner: Any, ours: dict[str, Any]) -> None:
    wrong = []
    for vector in BY_OP[op]:
        ok, why = outcome(vector, runner, ours)
        known = DIFFERENT.get(vector["id"])
        if ok and known:
            wrong.append(f"{vector['id']}: passes now; take it off the list of differences")
        if not ok and not known:
            wrong.append(f"{vector['id']} {op}{vector['args']}: {why}")
    assert not wrong, "\n".join(wrong)


def test_the_list_of_differences_names_real_vectors() -> None:
    ids = {v["id"] for vectors in BY_OP.values() for v in vectors}
    assert set(DIFFERENT) <= ids


def test_the_page_in_the_docs_is_what_the_command_prints() -> None:
    made = report.page()
    assert PAGE.read_text() == made, report.__doc__
    assert "NOT LISTED" not in made
