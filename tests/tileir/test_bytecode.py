"""Bytecode: what is written reads back, what a version lacks is refused, hostile files are too."""

from __future__ import annotations

import base64
import json
import re

import pytest
import tileir_report as report

from tilewright.errors import VerifyError
from tilewright.ir.core import Block
from tilewright.ir.ops.tile.module import Entry, Global, Module
from tilewright.ir.ops.tile.registry import BY_OPCODE
from tilewright.ir.ops.tile.versions import needed_version
from tilewright.tileir.bytecode.encoding import VERSIONS
from tilewright.tileir.bytecode.reader import read_bytecode, read_bytecode_file
from tilewright.tileir.bytecode.writer import flag_fields, write_bytecode
from tilewright.tileir.check import check_bytecode, load_text
from tilewright.tileir.printer import PrintOptions, print_text
from tilewright.tileir.reader import parse
from tilewright.tileir.verify import VerifyOptions, verify

# Written by NVIDIA's package cuda-tile 1.7.0, version 13.3: constant, addf, reduce, store, print,
# with debug information.
NVIDIA_FILE = base64.b64decode(
    "f1RpbGVJUgANAwAAgkYIywECBwYBCwEECgIFAQECBgEBAzMQAwACAwEBAgJYAQgAAQICAAEDAQECCAgCRQgBBAVtAAEG"
    "ZQkAAAAEVQEJAQcBAQVcAACEFQjLy8vLy8vLAcvLy8vLy8sAAAAAAAAAAAQAAMA/g4YBCMvLy8vLy8sBy8vLAAAAAAnL"
    "y8vLy8vLBAAAAAAAAAAFAAAAAAAAAAUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAABcvLywAAAAADAAAABQAAAAwAAAARAAAAAgABAQEFAQECAgICBAMDAQEEAwMDBYVLBMvLywrLy8sAAAAA"
    "AQAAAAIAAAADAAAADgAAABAAAAATAAAAFgAAABsAAAAeAAAAAAMHDQIBCAAAAAAAAAAMAg0EAA0BABACBQYADQIAEYFV"
    "BMvLCMvLywAAAAAEAAAACAAAAAkAAAASAAAAFwAAACUAAAAuAAAAay5weS9zcmNrL3NyYy9rLnB5c21fOTBudW1fY3Rh"
    "X2luX2NnYW9jY3VwYW5jeSVkCgA="
)
NVIDIA_TEXT = """\
#file0 = #cuda_tile.di_file<"k.py" in "/src">
#unit0 = #cuda_tile.di_compile_unit<file = #file0>
#subprogram0 = #cuda_tile.di_subprogram<file = #file0, line = 1, name = "k", linkageName = "k", \
compileUnit = #unit0, scopeLine = 2>
#loc0 = #cuda_tile.di_loc<loc("/src/k.py":3:5) in #subprogram0>
#loc1 = #cuda_tile.di_loc<loc("/src/k.py":1:1) in #subprogram0>
cuda_tile.module @kernels {
  entry @k(%0: tile<ptr<f32>>, %1: tile<i32>) \
optimization_hints=<sm_90 = {num_cta_in_cga = 2, occupancy = 3}> {
    %2 = constant <f32: 1.500000e+00> : tile<8xf32> loc(#loc0)
    %3 = addf %2, %2 rounding<zero> flush_to_zero : tile<8xf32> loc(#loc0)
    %7 = reduce %3 dim=0 identities=[0.000000e+00 : f32] : tile<8xf32> -> tile<f32> \
(%4: tile<f32>, %5: tile<f32>) {
      %6 = maxf %4, %5 propagate_nan : tile<f32>
      yield %6 : tile<f32>
    }
    %8 = store_ptr_tko weak %0, %7 : tile<ptr<f32>>, tile<f32> -> token
    %9 = print_tko "%d\\0A", %1 token = %8 : tile<i32> -> token
    return
  } loc(#loc1)
}
"""


def modules() -> list[tuple[str, Block]]:
    """The cases that can be written as bytecode."""
    found = []
    for case in report.load():
        try:
            block = parse(case["text"])
            verify(block)
            write_bytecode(block, (13, 4))
        except VerifyError:
            continue
        found.append((case["id"], block))
    return found


MODULES = modules()
needs_cases = pytest.mark.skipif(not MODULES, reason=f"no Tile IR cases at {report.CASES}")


def test_a_file_of_nvidias_package_reads() -> None:
    block = read_bytecode(NVIDIA_FILE)
    verify(block)
    assert print_text(block, PrintOptions(locations=True)) == NVIDIA_TEXT
    assert print_text(read_bytecode(write_bytecode(block)), PrintOptions(locations=True)) == (
        NVIDIA_TEXT
    )


def test_a_file_of_nvidias_package_is_written_byte_for_byte() -> None:
    block, version, layout = read_bytecode_file(NVIDIA_FILE)
    assert version == (13, 3)
    assert write_bytecode(block, version, layout) == NVIDIA_FILE


@needs_cases
@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_written_files_read_back_and_write_the_same(version: tuple[int, int]) -> None:
    written = 0
    for name, block in MODULES:
        try:
            data = write_bytecode(block, version)
        except VerifyError:
            continue  # test_what_a_version_cannot_say_is_refused is about these
        again = read_bytecode(data)
        verify(again)
        assert write_bytecode(again, version) == data, name
        written += 1
    assert written > 40


@needs_cases
def test_reading_keeps_everything_but_names() -> None:
    def nameless(block: Block) -> str:
        text = print_text(block, PrintOptions(generic=True))
        return re.sub(r'sym_name = "\w+"(, producer = "[^"]*")?}> \(\{\n', "", text, count=1)

    for name, block in MODULES:
        again = read_bytecode(write_bytecode(block, (13, 4)))
        for op in block.walk():
            for value in (*op.results, *(v for region in op.regions for v in region.args)):
                value.name = ""
        ours, theirs = nameless(block), nameless(again)
        if "optimization_hints<>" not in print_text(block, PrintOptions(generic=True)):
            assert theirs == ours, name


@pytest.mark.skipif(not report.OPS.exists(), reason=f"no op table at {report.OPS}")
def test_flag_bits_are_nvidias() -> None:
    for row in json.loads(report.OPS.read_text()):
        kind = BY_OPCODE.get(row["opcode"])
        if kind is None or not row["flags"] or issubclass(kind, Entry | Global | Module):
            continue
        names = re.findall(r"(?:bool\()?([A-Za-z_]\w*)(?: is not None|\))", row["flags"])
        assert [label for label, _ in flag_fields(kind)] == names, kind.name


def _module(body: str) -> Block:
    return load_text(f"entry @k(%a: tile<f32>, %i: tile<i32>) {{ {body} }}")


@pytest.mark.parametrize(
    ("body", "version", "message"),
    [
        (
            "%b = atan2 %a, %a : tile<f32>",
            (13, 1),
            "operation 'cuda_tile.atan2' requires bytecode version 13.2+, targeting 13.1",
        ),
        (
            "%b = negi %i overflow<no_signed_wrap> : tile<i32>",
            (13, 1),
            "attribute 'overflow' requires bytecode version 13.2+, targeting 13.1",
        ),
        (
            "%b = exp %a rounding<approx> : tile<f32>",
            (13, 2),
            "attribute 'rounding_mode' requires bytecode version 13.3+, targeting 13.2",
        ),
        (
            "%b = ftoi %a signed saturating : tile<f32> -> tile<i32>",
            (13, 3),
            "'saturating' of 'cuda_tile.ftoi' requires bytecode version 13.4+, targeting 13.3",
        ),
        (
            '%k = print_tko "x" -> token\n%l = print_tko "y" token = %k -> token',
            (13, 1),
            "'token' of 'cuda_tile.print_tko' requires bytecode version 13.2+, targeting 13.1",
        ),
        (
            "%b = trunci %i : tile<i32> -> tile<i4>",
            (13, 2),
            "type 'i4' requires bytecode version 13.3+, targeting 13.2",
        ),
    ],
)
def test_what_a_version_cannot_say_is_refused(
    body: str, version: tuple[int, int], message: str
) -> None:
    block = _module(body)
    with pytest.raises(VerifyError) as error:
        write_bytecode(block, version)
    assert error.value.message == message
    assert error.value.loc is not None
    assert error.value.loc.line == 1 + message.startswith("'token'")
    verify(read_bytecode(write_bytecode(block, (13, 4))))


def _first_written(block: Block) -> tuple[int, int]:
    for version in VERSIONS:
        try:
            write_bytecode(block, version)
        except VerifyError:
            continue
        return version
    raise AssertionError("13.4 can say everything")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("entry @k(%a: tile<f32>) { %b = addf %a, %a : tile<f32> }", (13, 1)),
        ("entry @k(%a: tile<f32>) { %b = atan2 %a, %a : tile<f32> }", (13, 2)),
        ("entry @k(%p: tile<ptr<f8E8M0FNU>>) { }", (13, 2)),
        ('entry @k() { %t = print_tko "x" -> token }', (13, 1)),
        (
            'entry @k() { %t = print_tko "x" -> token\n%u = join_tokens %t, %t : token }',
            (13, 2),
        ),
        ("global constant @g <f32: 1.0> : tile<1xf32>", (13, 3)),
        ("global @g <f4E2M1FN: 1.0> : tile<2xf4E2M1FN>", (13, 3)),
        ('cuda_tile.module @m attributes {producer = "p"} { }', (13, 3)),
        (
            "entry @k(%p: tile<ptr<f32>>) { %v = make_tensor_view %p, shape = [8], strides = [1] : "
            "tensor_view<8xf32, strides=[1]>\n%w = make_strided_view %v : "
            "strided_view<tile=(4), traversal_strides=[2], tensor_view<8xf32, strides=[1]>> }",
            (13, 3),
        ),
        ("entry @k(%p: tile<ptr<f32, <none>>>) { }", (13, 4)),
        (
            "entry @k(%p: tile<ptr<f32>>, %i: tile<i32>) { "
            "%v = make_tensor_view %p, shape = [8], strides = [1] : "
            "tensor_view<8xf32, strides=[1]>\n%w = make_partition_view %v : "
            "partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>\n"
            "%x, %t = load_view_tko weak %w[%i] inbounds = [true] : "
            "partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>, tile<i32> -> "
            "tile<4xf32>, token }",
            (13, 4),
        ),
        (
            "entry @k(%a: tile<f32>) { %b = ftof %a rounding<zero> : tile<f32> -> tile<f16> }",
            (13, 4),
        ),
    ],
)
def test_the_version_that_a_module_needs_is_the_first_that_writes_it(
    text: str, version: tuple[int, int]
) -> None:
    block = parse(text)
    verify(block, VerifyOptions(version=(13, 4)))
    assert needed_version(block) == version
    assert _first_written(block) == version


@needs_cases
def test_the_needed_version_of_every_case_is_the_first_that_writes_it() -> None:
    for name, block in MODULES:
        assert needed_version(block) == _first_written(block), name


def test_what_bytecode_cannot_hold_is_refused() -> None:
    for text, message in (
        ('cuda_tile.module @m { entry @k() { "o.p"() : () -> () } }', "only ops from the"),
        ("cuda_tile.module @m { } cuda_tile.module @n { }", "holds one module, got 2"),
        ("cuda_tile.iota : tile<8xi32>", "'cuda_tile.iota' op cannot stand in a bytecode module"),
        ("entry @k(%t: token) { }", "unsupported type in bytecode for entry argument #0"),
    ):
        with pytest.raises(VerifyError, match=re.escape(message)):
            write_bytecode(load_text(text))
    with pytest.raises(VerifyError, match=r"version \(14, 0\) is unknown, expected one of 13\.1"):
        write_bytecode(load_text("entry @k() { }"), (14, 0))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "byte 0: error: not Tile IR bytecode"),
        (NVIDIA_FILE[:8], "byte 8: error: the version needs 1 bytes, 0 are left"),
        (NVIDIA_FILE[:9] + b"\x09" + NVIDIA_FILE[10:], "version 13.9 is not known"),
        (NVIDIA_FILE[:-1], "a section's number needs 1 bytes, 0 are left"),
        (NVIDIA_FILE + b"x", "1 bytes after the end of the bytecode"),
        (NVIDIA_FILE[:12] + b"\x00", "the string section is missing"),
        (NVIDIA_FILE[:12] + b"\x09\x00\x00", "section 9 is not known"),
        (NVIDIA_FILE[:12] + b"\x06\x00\x06\x00\x00", "section 6 is there twice"),
        (NVIDIA_FILE[:12] + b"\x06" + b"\xff" * 11, "a section's length is longer than 64 bits"),
        (NVIDIA_FILE[:12] + b"\x06\xff\xff\x03", "section 6 needs 65535 bytes, 0 are left"),
    ],
)
def test_broken_files_are_refused_at_their_byte(data: bytes, message: str) -> None:
    found = check_bytecode(data, "f")
    assert not found.accepted
    assert message in found.diagnostics[0]
