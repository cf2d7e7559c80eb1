"""The table of limits in `docs/sanitizer.md` says what was run, and when."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "codegen"))
sys.path.insert(0, str(Path(__file__).parent))
from machine_cases import CASES

ROOT = Path(__file__).resolve().parents[2]
MACHINE = "tests/gpu/test_machine_on_gpu.py"


def rows() -> list[list[str]]:
    text = (ROOT / "docs" / "sanitizer.md").read_text()
    table = text[text.index("| limit | test | last run |") :].split("\n\n")[0]
    lines = table.splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def files(cell: str) -> list[str]:
    found = re.findall(r"`(tests/[\w/]+\.py)`", cell)
    return [*found, *([MACHINE] if "machine" in cell.split() else [])]


def test_dates_are_those_of_the_stored_run() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "h200_gpu_tests.json").read_text())
    day = f"{result['meta']['time'][:10]}, {result['meta']['gpu']['name']}"
    for limit, test, when in rows():
        named = files(test)
        assert named, limit
        modules = {f.removesuffix(".py").replace("/", ".") for f in named}
        bad = [x["test"] for x in result["failed"] if any(x["test"].startswith(m) for m in modules)]
        ran = all(f in result["files"] for f in named) and not bad
        assert when == (day if ran else "not yet"), f"{limit}: say {day if ran else 'not yet'!r}"


def test_the_tests_that_are_named_exist() -> None:
    source = (ROOT / MACHINE).read_text()
    for limit, test, _ in rows():
        for file in files(test):
            assert (ROOT / file).is_file(), limit
        for name in re.findall(r"`(test_\w+)`", test):
            assert f"def {name}(" in source, limit
        for case in re.findall(r"\[([^\]]+)\]", test):
            beginning = case.removesuffix("...").strip()
            exact = not case.endswith("...")
            assert any(c == case if exact else c.startswith(beginning) for c in CASES), case


def test_every_case_is_in_the_table() -> None:
    patterns = [c for _, test, _ in rows() for c in re.findall(r"\[([^\]]+)\]", test)]
    for case in CASES:
        assert any(
            case.startswith(p.removesuffix("...").strip()) if p.endswith("...") else case == p
            for p in patterns
        ), case
