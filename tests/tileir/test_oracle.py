"""Our verdicts against NVIDIA's tileirdisasm on generated modules; skipped where it is missing.

The package nvidia-cuda-tileiras has the tool.  Texts are mutated; what still parses is written as
bytecode, verified or not, and both verifiers judge it.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sysconfig
from collections import Counter
from pathlib import Path

import pytest
import tileir_report as report

from tilewright.errors import VerifyError
from tilewright.ir.tile_types import NUMBERS
from tilewright.tileir.bytecode.writer import write_bytecode
from tilewright.tileir.reader import parse
from tilewright.tileir.verify import verify

_BESIDE = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin" / "tileirdisasm"
TOOL = str(_BESIDE) if _BESIDE.exists() else shutil.which("tileirdisasm")

TEXTS = [
    case["text"]
    for case in report.load()
    if case["oracle_accepts"]
    and "testing$func" not in case["text"]
    and "debuginfo" not in case["file"]
    and len(case["text"]) < 6000
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


@pytest.mark.skipif(TOOL is None or not TEXTS, reason="needs tileirdisasm and the Tile IR cases")
def test_verdicts_agree_on_generated_modules(tmp_path: Path) -> None:
    assert TOOL is not None, "checked by the mark"
    rng = random.Random(20261130)
    path = tmp_path / "k.tileirbc"
    seen: Counter[bool] = Counter()
    while seen[False] < 500:
        text = mutated(rng.choice(TEXTS), rng)
        try:
            block = parse(text)
            data = write_bytecode(block, (13, 4))
        except VerifyError:
            continue
        try:
            verify(block)
            problem = ""
        except VerifyError as error:
            problem = error.message
        path.write_bytes(data)
        done = subprocess.run([TOOL, str(path)], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == (not problem), f"{problem}\n{done.stderr}\n{text}"
        seen[not problem] += 1
