"""Our verdicts against NVIDIA's tileirdisasm; skipped where its package is not installed.

The tool reads bytecode and verifies it.  What we write it must accept; of generated modules with
one thing wrong both verifiers must say the same, where the tool gives a verdict at all.
"""

from __future__ import annotations

import itertools
import random
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import tileir_invalid as invalid
import tileir_report as report

from tilewright.errors import ToolchainError, VerifyError
from tilewright.ir.ops.tile.base import ALL_FLOAT_NAMES, IEEE
from tilewright.ir.tile_types import NUMBERS
from tilewright.profiler.tile_fuzz import entries
from tilewright.runtime.tileiras import find_tool
from tilewright.tileir.bytecode.encoding import VERSIONS
from tilewright.tileir.bytecode.reader import read_bytecode
from tilewright.tileir.bytecode.writer import write_bytecode
from tilewright.tileir.reader import parse
from tilewright.tileir.verify import VerifyOptions, verify

try:
    TOOL = str(find_tool("tileirdisasm"))
except ToolchainError:
    TOOL = ""
pytestmark = pytest.mark.skipif(
    not TOOL, reason="needs tileirdisasm, of the package nvidia-cuda-tileiras (extra `tileiras`)"
)

ACCEPTED, REFUSED = 0, 3
OPTIONS = VerifyOptions(version=(13, 4))
"""The tool is of version 13.4; the recorded verdicts on NVIDIA's cases are 13.3's."""
EVERY = Path(__file__).with_name("every_operation.mlir").read_text()
CASES = [
    case for case in report.load() if case["oracle_accepts"] and "testing$func" not in case["text"]
]
TEXTS = [
    case["text"] for case in CASES if "debuginfo" not in case["file"] and len(case["text"]) < 6000
]
WORDS = (
    tuple(NUMBERS),
    ("signed", "unsigned"),
    ("weak", "relaxed", "acquire", "release", "acq_rel"),
    ("tl_blk", "device", "sys"),
    ("zero", "nearest_even", "negative_inf", "positive_inf", "approx", "full"),
    ("none", "no_signed_wrap", "no_unsigned_wrap", "no_wrap"),
    ("add", "addf", "and", "or", "xor", "max", "min", "umax", "umin", "xchg"),
    ("absf", "negf", "sqrt", "exp", "exp2", "tanh", "rsqrt", "cos", "absi", "negi"),
    ("addf", "subf", "mulf", "divf", "maxf", "remf", "pow", "addi", "muli", "andi", "shli"),
    ("reshape", "broadcast", "bitcast", "exti", "trunci", "ftof", "ptr_to_ptr", "pack", "unpack"),
    ("yield", "break", "continue", "return"),
    ("nan", "pos_inf", "neg_inf", "neg_zero"),
)
_PLACES = re.compile(r"(?<![\w.])\d+(?=x|\b)|\b[A-Za-z_]\w*")


class Tool:
    """tileirdisasm, asked about bytecode."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "k.tileirbc"
        self.said = ""

    def verdict(self, data: bytes) -> int:
        """Its exit status: ACCEPTED or REFUSED; negative where it crashes."""
        self.path.write_bytes(data)
        done = subprocess.run([TOOL, str(self.path)], capture_output=True, text=True, check=False)
        self.said = done.stdout + done.stderr
        return done.returncode


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool(tmp_path)


def fault_of(data: bytes | str) -> str:
    """Why we refuse a module; empty if we do not."""
    try:
        verify(parse(data) if isinstance(data, str) else read_bytecode(data), OPTIONS)
    except VerifyError as error:
        return error.message
    return ""


def test_it_accepts_what_we_write_in_every_version(tool: Tool) -> None:
    blocks = [("every operation", block) for block in entries(EVERY)]
    blocks += [(case["id"], parse(case["text"])) for case in CASES]
    written: Counter[tuple[int, int]] = Counter()
    for name, block in blocks:
        for version in VERSIONS:
            try:
                data = write_bytecode(block, version)
            except VerifyError:
                continue  # newer than the version, or no bytecode at all
            assert tool.verdict(data) == ACCEPTED, f"{name} as {version}: {tool.said}"
            written[version] += 1
    assert len(written) == len(VERSIONS)
    assert min(written.values()) >= 8


def test_its_text_reads_as_the_same_bytecode(tool: Tool) -> None:
    for block in entries(EVERY):
        for op in block.walk():
            op.location = None
        data = write_bytecode(block, (13, 4))
        assert tool.verdict(data) == ACCEPTED, tool.said
        assert write_bytecode(parse(f"cuda_tile.module @m {{ {tool.said} }}"), (13, 4)) == data


def test_it_converts_with_the_modes_that_we_admit(tool: Tool) -> None:
    """ftof of every pair of float types, in every mode."""
    admitted: Counter[str] = Counter()
    for source, out, mode in itertools.product(ALL_FLOAT_NAMES, ALL_FLOAT_NAMES, IEEE):
        if source == out or (mode == "nearest_even" and out != "f8E8M0FNU"):
            continue  # the cases have these
        text = (
            f"entry @k() {{ %a = constant <{source}: 1.0> : tile<8x{source}> %b = ftof %a "
            f"rounding<{mode}> : tile<8x{source}> -> tile<8x{out}> }}"
        )
        problem = fault_of(text)
        data = write_bytecode(parse(text), (13, 4))
        assert (tool.verdict(data) == ACCEPTED) == (not problem), f"{text}\n{problem}\n{tool.said}"
        admitted[mode] += not problem
    assert admitted["zero"] > admitted["positive_inf"] > admitted["negative_inf"] > 0


def test_verdicts_agree_on_changed_operations(tool: Tool) -> None:
    """Every operation, field by field (`invalid.py`): 500 modules that are invalid."""
    bases = [write_bytecode(block, (13, 4)) for block in entries(EVERY)]
    changes = [invalid.changes(read_bytecode(data)) for data in bases]
    seen: Counter[str] = Counter()
    for i, j in invalid.shuffled([len(some) for some in changes], seed=20261130):
        name, change = changes[i][j]
        block = invalid.changed(read_bytecode(bases[i]), change)
        try:
            verify(block, OPTIONS)
            problem = ""
        except VerifyError as error:
            problem = error.message
        try:
            data = write_bytecode(block, (13, 4))
        except VerifyError:
            assert problem, f"{name}: valid, but not written"
            continue
        status = tool.verdict(data)
        if status not in (ACCEPTED, REFUSED):
            seen["the tool crashed"] += 1
            continue
        assert (status == ACCEPTED) == (not problem), f"{name}\n{problem}\n{tool.said}"
        seen["invalid" if problem else "valid"] += 1
        if seen["invalid"] == 500:
            break
    assert seen["invalid"] == 500
    assert seen["valid"] > 10


def mutated(text: str, rng: random.Random) -> str:
    """The text with one word or number replaced, perhaps everywhere in types."""
    places = list(_PLACES.finditer(text))
    for _ in range(30):
        place = rng.choice(places)
        word = place.group()
        if word.isdigit():
            new = str(rng.choice((0, 1, 2, 3, 4, 8, 16, 64, 256, 2 * int(word), 1 << 25)))
        else:
            new = next((rng.choice(ws) for ws in WORDS if word in ws), word)
        if new == word:
            continue
        if word in NUMBERS and rng.random() < 0.7:
            return re.sub(rf"(?<=[x<: ]){word}\b", new, text)
        return text[: place.start()] + new + text[place.end() :]
    return text


@pytest.mark.skipif(not TEXTS, reason=f"no Tile IR cases at {report.CASES}")
def test_verdicts_agree_on_changed_texts(tool: Tool) -> None:
    """NVIDIA's own valid cases, one word changed: 100 modules that are invalid."""
    rng = random.Random(20261130)
    seen: Counter[bool] = Counter()
    while seen[False] < 100:
        text = mutated(rng.choice(TEXTS), rng)
        try:
            data = write_bytecode(parse(text), (13, 4))
        except VerifyError:
            continue
        problem = fault_of(text)
        assert (tool.verdict(data) == ACCEPTED) == (not problem), f"{problem}\n{tool.said}\n{text}"
        seen[not problem] += 1
