"""NVIDIA's Tile IR cases: verdict, message and line; skipped where the file is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tileir_report as report

from tilewright.errors import VerifyError
from tilewright.ir.core import operand, optional, variadic
from tilewright.ir.ops.tile.base import flag
from tilewright.ir.ops.tile.registry import BY_OPCODE
from tilewright.tileir.printer import PrintOptions, print_text
from tilewright.tileir.reader import parse
from tilewright.tileir.verify import VerifyOptions, verify

CASES = report.load()
FILES = sorted({case["file"] for case in CASES})
PAGE = Path(__file__).resolve().parents[2] / "docs" / "tile_conformance.md"

needs_cases = pytest.mark.skipif(not CASES, reason=f"no Tile IR cases at {report.CASES}")


@needs_cases
@pytest.mark.parametrize("file", FILES or ["none"])
def test_verdicts_and_messages(file: str) -> None:
    wrong = []
    for case in CASES:
        if case["file"] != file:
            continue
        outcome = report.judge(case)
        if outcome.same_verdict == (case["id"] in report.DIFFERENT):
            wrong.append(f"{case['id']}: verdict {outcome.accepted}: {outcome.message}")
        if outcome.same_fault is False or outcome.same_line is False:
            wrong.append(f"{case['id']}: expected {case['expect']}, got {outcome.message}")
    assert not wrong, "\n".join(wrong)


@needs_cases
def test_the_page_in_the_docs_is_what_the_command_prints() -> None:
    assert PAGE.read_text() == report.page()


@needs_cases
@pytest.mark.parametrize(
    "options",
    [
        PrintOptions(),
        PrintOptions(locations=True),
        PrintOptions(prefix=True),
        PrintOptions(generic=True),
        PrintOptions(generic=True, locations=True),
    ],
    ids=str,
)
def test_print_parse_print_is_the_identity(options: PrintOptions) -> None:
    plain = PrintOptions(locations=options.locations)
    seen = 0
    for case in CASES:
        try:
            block = parse(case["text"])
            verify(block, VerifyOptions(testing=True))
        except VerifyError:
            continue
        text = print_text(block, options)
        again = parse(text)
        verify(again, VerifyOptions(testing=True))
        assert print_text(again, options) == text, case["id"]
        assert print_text(again, plain) == print_text(block, plain), case["id"]
        seen += 1
    assert seen > 50


@pytest.mark.skipif(not report.OPS.exists(), reason=f"no op table at {report.OPS}")
def test_declarations_are_nvidias_table() -> None:
    """Opcode, name, first version, operands and attributes in order; 13.5's are not ours yet."""
    later = {"arg_attrs", "res_attrs", "inbounds"}
    for row in json.loads(report.OPS.read_text()):
        if row["since"] == "13.5":
            continue
        kind = BY_OPCODE[row["opcode"]]
        assert kind.name == "cuda_tile." + row["mnemonic"].split("/")[0]
        assert ".".join(map(str, kind.since)) == row["since"]
        operands = [part for part in row["layout"] if part.startswith("O")]
        assert [part.split(":")[1].rstrip("_") for part in operands] == [
            group.label.rstrip("_") for group in kind.GROUPS
        ], kind.name
        for part, group in zip(operands, kind.GROUPS, strict=True):
            wanted = {"O?": optional, "O*": variadic}.get(part[:2], operand)
            assert isinstance(group, wanted), f"{kind.name} {group.label}"
        attrs = [part for part in row["layout"] if part.startswith("A[")]
        names = [part.split("]:")[1].split(", ")[-1] for part in attrs]
        ours = [n.rstrip("_") for n, a in kind.ATTRS.items() if not isinstance(a, flag)]
        missing = set(names) - set(ours)
        assert missing <= later, f"{kind.name} {missing}"
        assert [name for name in names if name in ours] == ours, kind.name
