"""How our verdicts on NVIDIA's Tile IR cases compare: `python tests/tileir/report.py`.

The page goes to docs/tile_conformance.md; a test compares it with what this prints.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT.parent / "shared" / "conformance" / "tileir_cases.jsonl"
OPS = CASES.with_name("tileir_ops.json")

if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "src")]

from tilewright.tileir.check import check_text  # noqa: E402
from tilewright.tileir.verify import VerifyOptions  # noqa: E402

DIFFERENT = {
    "Bytecode/versioning/new_types.mlir#0": (
        "the reference tool stopped in an assertion of its own and gave no verdict; the text is "
        "valid, and its test expects it to be read"
    ),
    "Dialect/CudaTile/math_invalid.mlir#99": (
        "the test expects a reject with the message that we give, and tileirdisasm 13.5 gives it "
        "too; the build that made the reference verdicts lacked the check"
    ),
}
"""Where our verdict is not the recorded one, and why."""

BESIDE_THE_TOOL = (
    "`ftof` toward zero, up and down: 13.4 admits these modes for more pairs of types than the "
    "cases, which are 13.3's, allow. Text is held to 13.3, bytecode of version 13.4 to 13.4.",
    "The tool reads an entry whose parameter is no scalar tile from bytecode; no version's writer "
    "can write one, and our reader refuses it at its byte.",
    "A tile has at most 64 dimensions (every one beyond the 24th is 1), regions nest at most 64 "
    "deep, types and locations at most 100, and what they name expands to at most 4096 parts.",
)
"""Where NVIDIA's tileirdisasm 13.4 decides otherwise than we do."""

BYTECODE_ONLY = (
    "Bytecode/invalid_loc.mlir#0",
    "Bytecode/invalid_loc.mlir#2",
    "Bytecode/invalid_not_self_contained.mlir#0",
    "Bytecode/invalid_not_self_contained.mlir#1",
    "Bytecode/non_tileir_types.mlir#0",
    "Bytecode/oldVersionRejectionTest.mlir#0",
)
"""Valid as text, refused only when bytecode is written."""


@dataclass(frozen=True)
class Outcome:
    """`same_fault`: our message has the words that the test expects; None where it expects none."""

    accepted: bool
    same_verdict: bool
    same_fault: bool | None
    same_line: bool | None
    message: str


def load() -> list[dict[str, Any]]:
    """The cases; none where the file is missing."""
    if not CASES.exists():
        return []
    return [json.loads(line) for line in CASES.read_text().splitlines()]


def judge(case: dict[str, Any]) -> Outcome:
    """Our verdict on a case, beside the reference's."""
    flags = case.get("hints_flags") or []
    options = VerifyOptions(True, "-Wunsupported-hints" in flags, "-Werr-hints" in flags)
    report = check_text(case["text"], "<stdin>", options)
    message = report.diagnostics[0] if report.diagnostics else ""
    same = report.accepted == case["oracle_accepts"]
    expected = [e for e in case["expect"] if not report.accepted]
    if not expected:
        return Outcome(report.accepted, same, None, None, message)
    line = int(message.split(":")[1])
    reference = re.search(r":(\d+):\d+: error", case["oracle_error"])
    lines = {int(reference[1])} if reference else set()
    matches = [e for e in expected if e[1] in message]
    lines |= {e[0] for e in matches}
    return Outcome(report.accepted, same, bool(matches), line in lines, message)


def page() -> str:
    """The page of the docs."""
    cases = load()
    outcomes = {case["id"]: judge(case) for case in cases}
    verdicts = sum(o.same_verdict for o in outcomes.values())
    named = [o for o in outcomes.values() if o.same_fault is not None]
    lines = [
        "# Conformance of Tile IR text",
        "",
        "Made by `python tests/tileir/report.py > docs/tile_conformance.md`; a test compares.",
        "",
        "The cases are NVIDIA's own tests of the dialect and the examples of its op definitions, "
        "with the verdict of its tool (`tileir_cases.jsonl`). A case agrees when we accept what "
        "it accepts and reject what it rejects. Where a test says which message it expects, our "
        "message must have those words, on the line that the reference names.",
        "",
        f"**{verdicts} of {len(cases)} verdicts agree; "
        f"{sum(bool(o.same_fault) for o in named)} of {len(named)} messages name the expected "
        f"fault, {sum(bool(o.same_line) for o in named)} of them on its line.**",
        "",
        "| tests | cases | verdicts that agree | messages expected | that name the fault |",
        "|---|---|---|---|---|",
    ]
    groups: dict[str, list[Outcome]] = {}
    for case in cases:
        groups.setdefault(case["file"], []).append(outcomes[case["id"]])
    for name, found in sorted(groups.items()):
        wanted = [o for o in found if o.same_fault is not None]
        lines.append(
            f"| {name} | {len(found)} | {sum(o.same_verdict for o in found)} | {len(wanted)} | "
            f"{sum(bool(o.same_fault) for o in wanted)} |"
        )
    kinds = Counter(case["kind"] for case in cases)
    shown = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    lines += ["", f"Kinds of cases: {shown}.", "", "Verdicts that differ, and why:", ""]
    lines += [f"- `{name}`: {why}." for name, why in DIFFERENT.items()]
    lines += [
        "",
        "Beside the cases, a test changes every field of every operation of a module that uses all "
        "of Tile IR 13.4, one at a time, and asks NVIDIA's `tileirdisasm` 13.4 (extra `tileiras`): "
        "on the first 500 of them that are invalid, and on the valid ones between, both give one "
        "verdict. It accepts what we write in each version, and its text reads back as the same "
        "bytecode. Where it decides otherwise than we do:",
        "",
    ]
    lines += [f"- {difference}" for difference in BESIDE_THE_TOOL]
    lines += [
        "",
        "Tests of the bytecode writer, valid as text (`check` warns of what bytecode cannot hold):",
        "",
    ]
    lines += [f"- `{name}`" for name in BYTECODE_ONLY]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
