"""dtypes: the table against published limits, lookup, and what a row promises."""

import ast
import copy
import pickle
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import DTypeError
from tilewright.numeric import dtypes
from tilewright.numeric.dtypes import ALL_DTYPES, BOOL, E2M1, E4M3, E8M0, F16, F32, I4, TF32, dtype
from tilewright.numeric.encode import decode, encode

FLOATS = [d for d in ALL_DTYPES if d.is_float and d is not TF32]  # numpy has no tf32
INTEGERS = [d for d in ALL_DTYPES if d.is_integer]


def numpy_dtype(row):
    return np.dtype(getattr(ml_dtypes, row.numpy_name, row.numpy_name))


@pytest.mark.parametrize("row", FLOATS, ids=str)
def test_float_limits_are_those_of_numpy_and_ml_dtypes(row):
    info = ml_dtypes.finfo(numpy_dtype(row))
    assert (row.max, row.epsilon) == (float(info.max), float(info.eps))
    assert row.min == float(info.min)
    assert row.smallest_normal == float(info.smallest_normal)


@pytest.mark.parametrize("row", INTEGERS, ids=str)
def test_integer_limits_are_those_of_numpy_and_ml_dtypes(row):
    info = ml_dtypes.iinfo(numpy_dtype(row))
    assert (row.min, row.max, row.bits) == (int(info.min), int(info.max), info.bits)
    assert row.is_signed == (info.min < 0)


def test_tf32_is_f32_with_a_shorter_mantissa():
    assert (TF32.bits, TF32.storage_bits, TF32.width, TF32.pad_bits) == (32, 32, 32, 13)
    assert TF32.max == float.fromhex("0x1.ffcp127")
    assert TF32.smallest_normal == F32.smallest_normal
    assert TF32.epsilon == F16.epsilon


def test_specials():
    with_inf = {d.name for d in ALL_DTYPES if d.has_inf}
    with_nan = {d.name for d in ALL_DTYPES if d.has_nan}
    assert with_inf == {"f64", "f32", "tf32", "f16", "bf16", "e5m2"}
    assert with_nan == with_inf | {"e4m3", "e8m0"}


@pytest.mark.parametrize("row", ALL_DTYPES, ids=str)
def test_row_is_consistent(row):
    if row.is_float:
        fields = row.is_signed + row.exponent_bits + row.mantissa_bits + row.pad_bits
        assert fields == row.bits
        assert row.python_type is float
    else:
        assert row.exponent_bits == row.mantissa_bits == row.bias == row.pad_bits == 0
        assert row.smallest_normal == row.epsilon == 1
    assert getattr(dtypes, row.name.upper()) is row
    assert str(row) == row.name
    assert repr(row) == row.name.upper()


def test_bool_is_one_bit_in_a_byte():
    assert (BOOL.bits, BOOL.storage_bits, BOOL.min, BOOL.max) == (1, 8, 0, 1)
    assert BOOL.python_type is bool
    assert I4.python_type is int
    assert [BOOL.is_integer, BOOL.is_float, BOOL.is_signed] == [False] * 3


def test_bytes_for_rounds_up():
    assert [E2M1.bytes_for(n) for n in range(6)] == [0, 1, 1, 2, 2, 3]
    assert [d.bytes_for(3) for d in (E4M3, F16, TF32, BOOL)] == [3, 6, 12, 3]


def test_names_are_unique_and_found():
    names = [n for d in ALL_DTYPES for n in (d.name, d.cute_name, *d.aliases)]
    assert len(names) == len(set(names))
    for row in ALL_DTYPES:
        assert all(dtype(n) is row for n in (row.name, row.cute_name, *row.aliases, row))
        if row is not TF32:
            assert dtype(str(numpy_dtype(row))) is row


def test_row_survives_copy_and_pickle_as_itself():
    for row in ALL_DTYPES:
        assert copy.deepcopy(row) is copy.copy(row) is pickle.loads(pickle.dumps(row)) is row


def test_row_is_frozen():
    with pytest.raises(AttributeError):
        E8M0.bits = 9


def test_unknown_name_lists_near_ones():
    with pytest.raises(
        DTypeError, match=r"^dtype: 'f17' is not an element type; near names: .*f16"
    ):
        dtype("f17")


def test_unknown_name_with_no_near_one_lists_all():
    with pytest.raises(DTypeError, match=r"^dtype: 'zzz' is not .* known names: f64, f32, .*bool$"):
        dtype("zzz")


def test_a_python_type_is_no_name():
    with pytest.raises(DTypeError, match=r"^dtype: <class 'float'> is not an element type; near"):
        dtype(float)


def test_the_table_needs_no_numpy():
    tree = ast.parse(Path(dtypes.__file__).read_text())
    imports = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    assert "numpy" not in {a.name for n in imports for a in n.names}


def test_e5m3_is_tile_irs_alone() -> None:
    row = dtype("float8_e5m3fnu")
    assert row not in ALL_DTYPES
    assert (row.max, row.smallest_normal, row.min) == (114688.0, 2.0**-14, 0.0)
    assert [int(encode(v, row)) for v in (1.0, 114688.0, float("nan"))] == [0x78, 0xFE, 0xFF]
    codes = np.arange(255)
    assert (encode(decode(codes, row), row) == codes).all()
