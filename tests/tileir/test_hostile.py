"""Files made to do harm: refused at a place, or read, in bounded time and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tilewright.errors import VerifyError
from tilewright.ir.core import Block
from tilewright.ir.tile_attrs import HintsAttr
from tilewright.profiler.tile_fuzz import MEMORY, SECONDS, corpus, draw_case, entries, run_case
from tilewright.tileir.bytecode import encoding as e
from tilewright.tileir.bytecode.reader import read_bytecode
from tilewright.tileir.bytecode.writer import write_bytecode
from tilewright.tileir.check import check_bytecode, check_text
from tilewright.tileir.printer import PrintOptions, print_text
from tilewright.tileir.reader import parse
from tilewright.tileir.verify import verify

EVERY = Path(__file__).with_name("every_operation.mlir").read_text()
HEAD = "cuda_tile.module @m { entry @k(%n: tile<i32>, %c: tile<i1>) {\n"
RETURN = e.varint(0x5C) + b"\0\0"
n = e.varint


def test_every_operation_is_valid_and_comes_back() -> None:
    block = parse(EVERY)
    verify(block)
    shown = print_text(block, PrintOptions(locations=True))
    assert print_text(parse(shown), PrintOptions(locations=True)) == shown
    again = read_bytecode(write_bytecode(block, (13, 4)))
    verify(again)
    assert [op.name for op in again.walk()] == [op.name for op in block.walk()]


@pytest.mark.parametrize("first", range(0, 1000, 250))
def test_mutated_files_break_no_rule(first: int) -> None:
    files, texts = corpus(entries(EVERY))
    for seed in range(first, first + 250):
        outcome = run_case(draw_case(seed, files, texts))
        assert not outcome.fault, f"seed {seed}: {outcome.fault}"


def test_a_broken_rule_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.profiler.tile_fuzz.verify", lambda _: 1 // 0)
    assert run_case(EVERY).fault == "ZeroDivisionError: integer division or modulo by zero"
    monkeypatch.setattr("tilewright.profiler.tile_fuzz.verify", lambda _: bytearray(MEMORY * 2))
    assert "bytes for a file of" in run_case(EVERY).fault
    monkeypatch.setattr("tilewright.profiler.tile_fuzz.SECONDS", SECONDS / 100)
    monkeypatch.setattr("tilewright.profiler.tile_fuzz.verify", _hang)
    assert run_case(EVERY).fault == "was stopped"


def _hang(_: Block) -> None:
    while True:
        pass


def test_a_file_cut_at_any_byte_is_refused_at_a_byte() -> None:
    data = write_bytecode(entries(EVERY)[0], (13, 3))
    assert check_bytecode(data).accepted
    for end in range(len(data)):
        report = check_bytecode(data[:end], "f")
        assert not report.accepted, end
        assert report.diagnostics[0].startswith("f: byte "), report.diagnostics[0]


# --- text ---------------------------------------------------------------------------------------


def _doubling(first: str, line: str, last: str) -> str:
    return first + "".join(line.format(i=i, j=i + 1) for i in range(60)) + last


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            _doubling("#a0 = 1 : i32\n", "#a{j} = [#a{i}, #a{i}]\n", ""),
            ":9:1: error: alias #a8: expands to more than 4096 parts",
        ),
        (
            _doubling('#a0 = loc("f":1:1)\n', "#a{j} = loc(callsite(#a{i} at #a{i}))\n", ""),
            "error: alias #a10: expands to more than 4096 parts",
        ),
        (
            _doubling("!a0 = i32\n", "!a{j} = (!a{i}, !a{i}) -> ()\n", ""),
            "error: alias !a8: expands to more than 4096 parts",
        ),
        (
            '#a0 = loc("f":1:1)\n'
            + "".join(f"#a{i + 1} = loc(callsite(#a{i} at unknown))\n" for i in range(5000)),
            "error: alias #a100: nested deeper than 100",
        ),
        ("#a = " + "[" * 200_000, "error: nested too deeply"),
        (HEAD + "%x = addi %n, %n : tile<i32> loc(" + "fused[" * 3000, "error: nested too deeply"),
        (HEAD + "loop {" * 5000, "regions nest deeper than 64"),
        (HEAD + f"%x = iota : tile<{'1x' * 200_000}i32>", "at most 64 dimensions, got 200000"),
        (HEAD + f"%x = iota : tile<{'2x' * 60}i32>", "tile would exceed the maximum of 16777216"),
        (HEAD + 'assert %c, "' + "a\\" * 300_000, "unexpected character"),
        (HEAD + "%x:1000000000 = loop : tile<i32> {} } }", "1000000000 to bind"),
    ],
    ids=lambda v: v[:40] if isinstance(v, str) else "",
)
def test_hostile_texts_are_refused_at_a_place(text: str, message: str) -> None:
    assert not run_case(text).fault
    assert message in check_text(text, "f").diagnostics[0]


@pytest.mark.parametrize(
    "text",
    [
        "//\n" * 100_000 + HEAD + "} }",
        HEAD + 'assert %c, "' + "\\\\" * 100_000 + '" : tile<i1> } }',
        HEAD + "".join(f"%v{i} = addi %n, %n : tile<i32>\n" for i in range(1500)) + "} }",
        HEAD
        + "".join(f"%v{i} = addi %n, %n : tile<i32>\n" for i in range(500))
        + "if %c { }\n" * 800
        + "} }",
        "cuda_tile.module @m {"
        + "".join(f"global @g{i} <i32: [1]> : tile<1xi32>\n" for i in range(400))
        + "entry @k() {"
        + "".join(f"%v{i} = get_global @g{i} : tile<ptr<i32>>\n" for i in range(400))
        + "} }",
    ],
    ids=["comments", "backslashes", "operations", "regions", "globals"],
)
def test_long_texts_cost_little(text: str) -> None:
    outcome = run_case(text)
    assert outcome.accepted
    assert not outcome.fault


# --- bytecode -----------------------------------------------------------------------------------


def _table(items: Sequence[bytes], width: int) -> bytes:
    out = bytearray(n(len(items)))
    out += e.padded(out, width)
    at = 0
    for item in items:
        out += at.to_bytes(width, "little")
        at += len(item)
    return bytes(out) + b"".join(items)


def _file(
    types: Sequence[bytes],
    functions: bytes,
    debug: bytes | None = None,
    constants: Sequence[bytes] | None = None,
) -> bytes:
    out = bytearray(e.MAGIC + b"\x0d\x04\0\0")
    sections = [(e.FUNC, 8, functions), (e.TYPE, 4, _table(types, 4))]
    sections.append((e.STRING, 4, _table([b"k"], 4)))
    if debug is not None:
        sections.append((e.DEBUG, 8, debug))
    if constants is not None:
        sections.append((e.CONSTANT, 8, _table(constants, 8)))
    for number, alignment, payload in sections:
        out += bytes([number | 0x80]) + n(len(payload)) + n(alignment)
        out += e.padded(out, alignment) + payload
    return bytes(out) + b"\0"


def _entry(signature: int, body: bytes) -> bytes:
    return n(1) + n(0) + n(signature) + bytes([e.F_KERNEL]) + n(1) + n(len(body)) + body


def _debug(attributes: Sequence[bytes], last: int) -> bytes:
    """Locations of one function and its one operation: the attribute `last`."""
    out = bytearray(n(1) + b"\xcb" * 3 + bytes(4) + n(2))
    out += e.padded(out, 8) + 2 * last.to_bytes(8, "little")
    return bytes(out) + _table(attributes, 4)


NOTHING = n(e.FUNCTION) + n(0) + n(0)
FILE, UNIT = n(e.D_FILE) + n(0) + n(0), n(e.D_UNIT) + n(1)
SUBPROGRAM = n(e.D_SUBPROGRAM) + n(1) + n(3) + n(0) + n(0) + n(2) + n(4)


def _blocks(count: int) -> list[bytes]:
    return [n(e.D_BLOCK) + n(3 + i) + n(1) + n(1) + n(1) for i in range(count)]


def _call_sites(count: int) -> list[bytes]:
    place = n(e.D_LOC) + n(3) + n(0) + n(1) + n(1)
    return [place, *(n(e.D_CALL_SITE) + n(4 + i) + n(4 + i) for i in range(count))]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_file([n(e.FUNCTION) + n(1) + n(0) + n(0)], _entry(0, RETURN)), "defined by itself"),
        (
            _file([n(e.TILE) + n(1) + n(0), n(e.TILE) + n(0) + n(0)], _entry(0, RETURN)),
            "defined by itself",
        ),
        (
            _file(
                [b"\3", *(n(e.FUNCTION) + n(2) + n(i) * 2 + n(0) for i in range(40))],
                _entry(40, RETURN),
            ),
            "expands to more than 4096 parts",
        ),
        (
            _file([n(e.FUNCTION) + n(1) + n(i + 1) + n(0) for i in range(3000)], _entry(0, RETURN)),
            "nested deeper than 100",
        ),
        (
            _file([NOTHING], _entry(0, RETURN), _debug([n(e.D_CALL_SITE) + n(9) + n(9)], 1)),
            "there is no debug attribute",
        ),
        (
            _file([NOTHING], _entry(0, RETURN), _debug([n(e.D_CALL_SITE) + n(1) + n(1)], 1)),
            "defined by itself",
        ),
        (
            _file(
                [NOTHING],
                _entry(0, RETURN),
                _debug([FILE, UNIT, SUBPROGRAM, *_call_sites(60)], 64),
            ),
            "expands to more than 4096 parts",
        ),
        (
            _file(
                [NOTHING],
                _entry(0, RETURN),
                _debug([FILE, UNIT, SUBPROGRAM, *_blocks(2000)], 2003),
            ),
            "nested deeper than 100",
        ),
        (
            _file([NOTHING], _entry(0, (n(0x41) + b"\0\0\1\1\0\1") * 5000)),
            "regions nest deeper than 64",
        ),
        (_file([NOTHING], _entry(0, RETURN), _debug([FILE], 1)), "a DIFile, expected a location"),
        (
            _file([NOTHING], _entry(0, RETURN), _debug([FILE, n(e.D_CALL_SITE) + n(1) * 2], 2)),
            "a DIFile, expected a location",
        ),
        (
            _file([b"\3", n(e.FUNCTION) + n(1) + n(0) + n(0)], _entry(1, RETURN)),
            "parameter 0 of an entry is i32, expected a scalar tile",
        ),
        (_file([NOTHING], n(1 << 40)), "the number of functions: 1099511627776, more than"),
        (_file([NOTHING], _entry(0, n(0x3C) + n(1) + n(0) + n(1 << 63))), "bytes left hold"),
        (_file([NOTHING, b"\3"], _entry(0, n(0x3D) + n(1) * 2 + n(1 << 63))), "the flags of"),
    ],
    ids=[
        *("type in itself", "types in a circle", "types that double", "a chain of types"),
        *("one debug attribute", "location in itself", "locations that double", "deep scopes"),
        *("deep regions", "a file as location", "a file as call site", "a number as parameter"),
        *("functions", "operands", "flags"),
    ],
)
def test_hostile_bytecode_is_refused_at_its_byte(data: bytes, message: str) -> None:
    assert not run_case(data).fault
    report = check_bytecode(data, "f")
    assert not report.accepted
    assert report.diagnostics[0].startswith("f: byte ")
    assert message in report.diagnostics[0]


def test_a_hint_is_given_once() -> None:
    block = parse("entry @k() optimization_hints=<sm_90 = {occupancy = 2}> { }")
    twice = (("occupancy", 1), ("occupancy", 2))
    for hints in ((("sm_90", twice),), (("sm_90", twice[:1]), ("sm_90", twice[1:]))):
        block.ops[0].attrs["optimization_hints"] = HintsAttr(hints)
        report = check_bytecode(write_bytecode(block), "f")
        assert "a hint of sm_90 is given twice" in report.diagnostics[0]


def test_a_constant_is_decoded_once_for_all_that_use_it() -> None:
    count = 1 << 18
    constant = n(count) + bytes(i % 251 for i in range(count))
    types = [NOTHING, n(e.TILE) + n(2) + n(1) + count.to_bytes(8, "little"), b"\1"]
    data = _file(types, _entry(0, b"\x10\1\0" * 300 + RETURN), constants=[constant])
    block = read_bytecode(data)
    values = {id(op.attrs["value"].bits) for op in block.walk() if "value" in op.attrs}
    assert len(values) == 1


def test_a_callers_own_depth_is_no_traceback() -> None:
    """What nests as deep as allowed, read from deep inside a program."""
    body = (n(0x41) + b"\0\0\1\1\0\1") * 60
    data = _file([NOTHING], _entry(0, body))

    def deeper(depth: int, read: Callable[[], object]) -> object:
        return deeper(depth - 1, read) if depth else read()

    with pytest.raises(VerifyError, match="nested too deeply"):
        deeper(750, lambda: read_bytecode(data))
