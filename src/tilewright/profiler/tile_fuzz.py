"""Hostile Tile IR: mutated bytecode and text must be read or refused, in bounded time and memory.

A case is a seed.  `draw_case` makes its file from a corpus of valid ones, `run_case` reads it,
verifies it and, where it is valid, prints it and writes it back:

    1  it is accepted, or refused with a VerifyError that names a place
    2  within SECONDS of CPU time
    3  with a peak of at most MEMORY + FACTOR times the file's size, counted by tracemalloc, or
       by the process's peak resident size where that has not grown so far since its beginning
"""

from __future__ import annotations

import random
import re
import signal
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from tilewright.errors import VerifyError
from tilewright.ir.core import Block
from tilewright.ir.ops.tile.module import Entry, GetGlobal, Global, Module
from tilewright.tileir.bytecode import encoding
from tilewright.tileir.bytecode.reader import read_bytecode
from tilewright.tileir.bytecode.writer import write_bytecode
from tilewright.tileir.printer import print_text
from tilewright.tileir.reader import parse
from tilewright.tileir.verify import bytecode_fault, verify

SECONDS = 2.0
MEMORY = 64 << 20
FACTOR = 20

_PLACE = re.compile(r"^f:(\d+:\d+| byte \d+): error: |^'")
_WORD = re.compile(r"[%@#!^]?[\w$.]+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`fault` is empty where the case kept to the rules.  Units: CPU seconds, bytes."""

    accepted: bool
    seconds: float
    peak: int
    fault: str = ""


class _TooLong(BaseException):
    """Raised by the timer; no handler of the code under test catches it."""


def entries(text: str) -> list[Block]:
    """Each entry of a text as a module of its own, with the globals that it uses."""
    found = []
    for top in parse(text).ops:
        assert isinstance(top, Module), "a corpus holds modules"
        for op in top.body.ops:
            if not isinstance(op, Entry):
                continue
            used = {inner.name_ for inner in op.body.walk() if isinstance(inner, GetGlobal)}
            body, block = Block(), Block()
            body.ops += [o for o in top.body.ops if isinstance(o, Global) and o.sym_name in used]
            body.ops.append(op)
            block.ops.append(Module((), {"sym_name": "kernels"}, [body]))
            found.append(block)
    return found


def corpus(blocks: Sequence[Block]) -> tuple[list[bytes], list[str]]:
    """The modules as bytecode, in every version that can say them, and as text."""
    files = []
    for block in blocks:
        for version in encoding.VERSIONS:
            try:
                files.append(write_bytecode(block, version))
            except VerifyError:
                continue  # newer than this version
    return files, [print_text(block) for block in blocks]


# --- mutations ----------------------------------------------------------------------------------

_NUMBERS = (b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\xff\xff\x7f", b"\xff" * 9 + b"\x01")


def mutated_bytes(files: Sequence[bytes], rng: random.Random) -> bytes:
    """A file with up to eight changes: bits, bytes, numbers, pieces of itself or of another.

    Half of the files have one byte changed by little, so that what they say is nearly valid.
    """
    data = bytearray(rng.choice(files))
    if rng.random() < 0.5:
        at = rng.randrange(len(data))
        data[at] = (data[at] + rng.choice((-2, -1, 1, 2, 3, 16))) % 256
        return bytes(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(8)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 2:
            data[at : at + rng.randrange(2)] = rng.choice(_NUMBERS)
        elif kind == 3:
            del data[at : at + rng.choice((1, 1, 2, 8, 1 << 20))]
        elif kind == 4:
            piece = data[at : at + rng.randrange(1, 64)]
            data[at:at] = piece * rng.choice((1, 2, 200))
        elif kind == 5:
            other = rng.choice(files)
            start = rng.randrange(len(other))
            data[at : at + rng.randrange(32)] = other[start : start + rng.randrange(64)]
        elif kind == 6:
            data[at:at] = rng.randbytes(rng.randrange(1, 16))
        elif at + 4 <= len(data):
            data[at : at + 4] = rng.randrange(1 << 32).to_bytes(4, "little")
    return bytes(data)


_NESTED = ("{ cuda_tile.loop ", "(", "[", "<", "tile<", "ptr<", "!cuda_tile.tile<", "loc(", "[[")
_EXTREMES = ("0", "-1", "3", "16777217", "9223372036854775808", "9" * 50, "9" * 6000, "1.0e999")


def mutated_text(texts: Sequence[str], rng: random.Random) -> str:
    """A text with up to four changes: words, lines, extreme numbers, deep nesting, any character.

    Half of the texts have one word replaced by a like one.
    """
    text = rng.choice(texts)
    if rng.random() < 0.5:
        words = list(_WORD.finditer(text))
        old = rng.choice(words)
        alike = [w.group() for w in words if _kind(w.group()) == _kind(old.group())]
        return text[: old.start()] + rng.choice(alike) + text[old.end() :]
    for _ in range(rng.choice((1, 1, 2, 4))):
        places = list(_WORD.finditer(text))
        if not places:
            return text
        place = rng.choice(places)
        start, end = place.span()
        kind = rng.randrange(8)
        if kind == 0:
            text = text[:start] + text[end:]
        elif kind == 1:
            text = text[:start] + rng.choice(places).group() + text[end:]
        elif kind == 2:
            text = text[:start] + rng.choice(_EXTREMES) + text[end:]
        elif kind == 3:
            text = text[:start] + rng.choice(_NESTED) * rng.choice((1, 40, 3000)) + text[end:]
        elif kind == 4:
            text = text[: rng.randrange(len(text))]
        elif kind == 5:
            lines = text.split("\n")
            row = rng.randrange(len(lines))
            lines[row : row + rng.randrange(2)] = [rng.choice(lines)] * rng.choice((1, 2, 300))
            text = "\n".join(lines)
        elif kind == 6:
            text = text[:start] + chr(rng.randrange(0x3000)) + text[start:]
        else:
            other = rng.choice(texts)
            at = rng.randrange(len(other))
            text = text[:start] + other[at : at + rng.randrange(400)] + text[start:]
    return text


def _kind(word: str) -> str:
    return "0" if word[0].isdigit() else "a" if word[0].isalpha() else word[0]


def draw_case(seed: int, files: Sequence[bytes], texts: Sequence[str]) -> bytes | str:
    """The file of a seed: bytecode if it is even, text if it is odd."""
    rng = random.Random(seed)
    return mutated_text(texts, rng) if seed % 2 else mutated_bytes(files, rng)


# --- running ------------------------------------------------------------------------------------


def run_case_in(data: bytes | str, at_start: int) -> Outcome:
    """`run_case` without the cost of tracemalloc, in a process that had `at_start` bytes at first.

    No case can have taken more than the process has grown in all.
    """
    outcome = run_case(data, trace=False)
    grown = resident_bytes()[1] - at_start
    if grown > MEMORY:  # in all: how much of it is this file's?
        return run_case(data)
    return replace(outcome, peak=max(grown, 0))


def resident_bytes() -> tuple[int, int]:
    """Resident size of this process, and its peak.  Source: proc(5), `/proc/self/status`."""
    lines = dict(row.split(":", 1) for row in Path("/proc/self/status").read_text().splitlines())
    now, peak = (int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return now, peak


def run_case(data: bytes | str, trace: bool = True) -> Outcome:
    """Reads, verifies, prints and writes a file, and says which rule it broke, if any."""
    size = len(data) if isinstance(data, bytes) else len(data.encode("utf-8", "surrogatepass"))
    before = signal.signal(signal.SIGVTALRM, _stop)
    if trace:
        tracemalloc.start()
    base, start = tracemalloc.get_traced_memory()[0], time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, 2 * SECONDS)
    accepted, fault = False, ""
    try:
        accepted, fault = _judge(data)
    except _TooLong:
        fault = "was stopped"
    except Exception as error:  # whatever it is: that is the finding
        fault = f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    seconds, peak = time.process_time() - start, tracemalloc.get_traced_memory()[1] - base
    if trace:
        tracemalloc.stop()
    if not fault and seconds > SECONDS:
        fault = f"took {seconds:.1f} s"
    if not fault and peak > MEMORY + FACTOR * size:
        fault = f"took {peak} bytes for a file of {size}"
    return Outcome(accepted, seconds, peak, fault)


def _stop(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise _TooLong


def _judge(data: bytes | str) -> tuple[bool, str]:
    try:
        block = parse(data, "f") if isinstance(data, str) else read_bytecode(data, "f")
    except VerifyError as error:
        located = _PLACE.match(error.message) or error.loc
        return False, "" if located else f"no place in {error.message!r}"
    try:
        verify(block)
    except VerifyError as error:
        return False, "" if error.loc or isinstance(data, bytes) else f"no place: {error.message}"
    text = print_text(block)
    if print_text(parse(text)) != text:
        return True, "what is printed prints differently when read"
    if bytecode_fault(block) is None and isinstance(data, bytes):
        again = write_bytecode(block, (13, 4))
        if print_text(read_bytecode(again)) != text:
            return True, "what is written reads differently"
    return True, ""
