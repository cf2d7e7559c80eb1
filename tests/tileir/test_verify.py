"""Rules that no text can break, as its reader already refuses: on operations that were changed."""

from __future__ import annotations

from pathlib import Path

import pytest
import tileir_invalid as invalid

from tilewright.errors import VerifyError
from tilewright.ir.ops.tile.base import ALL_FLOAT_NAMES
from tilewright.ir.ops.tile.convert import FToF
from tilewright.ir.ops.tile.shape import Constant
from tilewright.ir.tile_types import NUMBERS, TileType
from tilewright.profiler.tile_fuzz import entries
from tilewright.tileir.bytecode.reader import read_bytecode
from tilewright.tileir.bytecode.writer import write_bytecode
from tilewright.tileir.check import check_bytecode, check_text
from tilewright.tileir.printer import print_text
from tilewright.tileir.reader import parse
from tilewright.tileir.verify import VerifyOptions, verify

EVERY = entries(Path(__file__).with_name("every_operation.mlir").read_text())
CHANGES = {
    name: (write_bytecode(block, (13, 4)), change)
    for block in EVERY
    for name, change in invalid.changes(block)
}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cuda_tile.if: an argument more", "'cuda_tile.if' op region #"),
        ("cuda_tile.yield: missing", "expects its region to end in a terminator"),
        ("cuda_tile.yield: not the last", "must be the last operation in the parent block"),
        ("cuda_tile.addi: operand 0 is tile<4xi1>", "requires the same type for all operands"),
        ("cuda_tile.join_tokens: operand 0 is tile<8xi32>", "operand #0 must be variadic of cuda"),
        ("cuda_tile.alloca: alignment = 3", "alignment"),
        ("cuda_tile.load_view_tko: without the last index", "expected 2 index operands"),
        ("cuda_tile.loop: a result more", "operand types must correspond to the parent loop"),
        ("cuda_tile.permute: permutation = (0, 0, 0)", "permutation"),
    ],
)
def test_changed_operations_are_refused(name: str, message: str) -> None:
    data, change = CHANGES[name]
    block = invalid.changed(read_bytecode(data), change)
    with pytest.raises(VerifyError) as error:
        verify(block)
    assert message in error.value.message


def test_a_view_is_of_the_operations_own_kind() -> None:
    start = "cuda_tile.make_partition_view: result 0 is strided_view<"
    data, change = next(pair for name, pair in CHANGES.items() if name.startswith(start))
    with pytest.raises(VerifyError, match="result #0 must be partition view type, but got"):
        verify(invalid.changed(read_bytecode(data), change))


def test_a_constant_has_its_values_type() -> None:
    block = parse("entry @k() { %a = constant <i32: 1> : tile<8xi32> }")
    op = next(op for op in block.walk() if isinstance(op, Constant))
    op.result.type = TileType((8,), NUMBERS["f16"])
    with pytest.raises(VerifyError, match=r"all of \{value, result\} have same type"):
        verify(block)


def test_13_4_converts_in_more_rounding_modes() -> None:
    body = "%a = constant <f64: 1.0> : tile<8xf64> %b = ftof %a rounding<{}> : tile<8xf64> -> {}"
    late = VerifyOptions(version=(13, 4))
    for mode, out, admitted in (
        ("zero", "tile<8xf16>", True),
        ("positive_inf", "tile<8xf32>", True),
        ("positive_inf", "tile<8xf16>", False),
        ("negative_inf", "tile<8xf8E5M2>", False),
    ):
        text = f"entry @k() {{ {body.format(mode, out)} }}"
        assert not check_text(text).accepted
        assert check_text(text, "f", late).accepted == admitted
        data = write_bytecode(parse(text), (13, 4))
        assert check_bytecode(data).accepted == admitted


NEAREST_AWAY = {  # as NVIDIA's tileirdisasm 13.4 admits it
    "f16": "f8E4M3FN f8E5M2 f4E2M1FN",
    "bf16": "f8E4M3FN f8E5M2 f4E2M1FN fnv8E5M3FNU",
    "f32": "f16 bf16 tf32 f8E4M3FN f8E5M2 f4E2M1FN fnv8E5M3FNU",
    "f64": "f16 bf16 f32 tf32 f8E4M3FN f8E5M2 f8E8M0FNU f4E2M1FN fnv8E5M3FNU",
    "tf32": "f16 bf16 f32 f8E4M3FN f8E5M2 f4E2M1FN fnv8E5M3FNU",
}


@pytest.mark.parametrize("out", ALL_FLOAT_NAMES)
@pytest.mark.parametrize("source", ALL_FLOAT_NAMES)
def test_ties_go_away_from_zero_where_13_4_says(source: str, out: str) -> None:
    text = (
        f"entry @k() {{ %a = constant <f32: 1.0> : tile<8xf32> %b = ftof %a rounding<nearest_away> "
        f": tile<8xf32> -> tile<8x{out}> }}"
    )
    block = parse(text)
    op = next(op for op in block.walk() if isinstance(op, FToF))
    op.from_.type = TileType((8,), NUMBERS[source])
    assert (op.check_in((13, 4)) is None) == (source in NEAREST_AWAY.get(out, "").split())
    assert op.check_in((13, 3)) is not None


def test_a_rounding_mode_that_is_newer_than_the_file() -> None:
    text = (
        "entry @k() { %a = constant <f32: 1.0> : tile<8xf32> %b = ftof %a "
        "rounding<nearest_away> : tile<8xf32> -> tile<8xtf32> }"
    )
    data = write_bytecode(parse(text), (13, 4))
    assert check_bytecode(data).accepted
    assert print_text(read_bytecode(data)).count("rounding<nearest_away>") == 1
    with pytest.raises(VerifyError, match=r"requires bytecode version 13\.4\+, targeting 13\.3"):
        write_bytecode(parse(text), (13, 3))
    (found,) = check_bytecode(data[:9] + bytes([3]) + data[10:]).diagnostics
    assert "rounding nearest_away is newer than the file" in found
    (found,) = check_text(text.replace("nearest_away", "away")).diagnostics
    assert "one of: 'nearest_even', 'zero', 'negative_inf', 'positive_inf', got: 'away'" in found


def test_indices_that_gather_are_any_integers() -> None:
    view = "gather_scatter_view<tile=(8x4), tensor_view<64x64xf32, strides=[64,1]>, sparse_dim=0>"
    text = (
        "entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {{ %at = constant <{e}: 1> : {t} "
        "%v = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : "
        "tensor_view<64x64xf32, strides=[64,1]> "
        f"%g = make_gather_scatter_view %v : {view} "
        f"%x, %k = load_view_tko weak %g[%at, %n] : {view}, {{t}}, tile<i32> -> "
        "tile<8x4xf32>, token }}"
    )
    for e in ("i8", "i32", "i64"):
        assert check_text(text.format(e=e, t=f"tile<8x{e}>")).accepted
    for t, message in (
        ("tile<4xi32>", "expected gather/scatter index size (4) to match"),
        ("tile<8x1xi32>", "expected gather/scatter index type to be a rank-1 tile, got"),
    ):
        assert message in check_text(text.format(e="i32", t=t)).diagnostics[0]
