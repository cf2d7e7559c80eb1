"""Element types: their table, promotion, and the names that other libraries give them."""

import importlib.util
import itertools
import pickle

import ml_dtypes
import numpy as np
import pytest

import tilewright.tile as ct
from tilewright.compiler.tile import module_of
from tilewright.lang.tile.dtypes import (
    DTYPES,
    Kind,
    dtype_of_constant,
    find_dtype,
    foreign_pointer_dtype,
    promote,
    promote_constant,
)
from tilewright.tile import compilation

NATIVE = importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.tile")
PAIRS = list(itertools.product(DTYPES, repeat=2))


def outcome(function, *args):
    """The common type's name, or that there is none."""
    try:
        return function(*args).name
    except ct.TileError:
        return "refused"


@pytest.mark.parametrize("a", DTYPES, ids=str)
def test_promotion_is_symmetric_and_widens(a):
    assert promote(a, a) is a
    for b in DTYPES:
        common = outcome(promote, a, b)
        assert common == outcome(promote, b, a)
        if common == "refused":
            continue
        dtype = getattr(ct, common)
        assert dtype.kind == max(a.kind, b.kind)
        assert dtype in (a, b)
        assert outcome(promote, dtype, a) == common


def test_the_table_of_promotion():
    table = {
        (ct.bool_, ct.int8): "int8",
        (ct.int8, ct.int64): "int64",
        (ct.uint8, ct.uint32): "uint32",
        (ct.int32, ct.uint32): "refused",
        (ct.uint8, ct.int64): "refused",
        (ct.int64, ct.float16): "float16",
        (ct.float16, ct.bfloat16): "refused",
        (ct.bfloat16, ct.float32): "float32",
        (ct.float32, ct.float64): "float64",
        (ct.float32, ct.tfloat32): "refused",
        (ct.float8_e4m3fn, ct.float16): "refused",
    }
    for (a, b), wanted in table.items():
        assert outcome(promote, a, b) == wanted, (a, b)


def test_constants_adapt():
    assert promote_constant(ct.int8, 100) is ct.int8
    assert promote_constant(ct.float16, 100) is ct.float16
    assert promote_constant(ct.float16, 0.1) is ct.float16
    assert promote_constant(ct.int8, 0.5) is ct.float32
    assert promote_constant(ct.bool_, 1) is ct.int32
    assert [dtype_of_constant(x).name for x in (True, 1, 2**31, 2**63, 0.5)] == [
        *("bool_", "int32", "int64", "uint64", "float32"),
    ]
    with pytest.raises(ct.TileValueError, match="128 is out of the range of int8"):
        promote_constant(ct.int8, 128)
    with pytest.raises(ct.TileValueError, match="fits no integer type"):
        dtype_of_constant(2**64)


def test_names_of_other_libraries():
    assert find_dtype(np.float32) is find_dtype(np.dtype("float32")) is ct.float32
    assert find_dtype(np.bool_) is ct.bool_
    assert find_dtype(ml_dtypes.bfloat16) is find_dtype(np.dtype(ml_dtypes.bfloat16)) is ct.bfloat16
    assert find_dtype(ml_dtypes.float8_e4m3fn) is ct.float8_e4m3fn
    assert find_dtype(np.zeros(3)) is find_dtype(np.float32(3)) is find_dtype("float32") is None


def test_types_are_unique_and_survive_pickling():
    for dtype in (*DTYPES, foreign_pointer_dtype(ct.float32)):
        assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert foreign_pointer_dtype(ct.int8) is foreign_pointer_dtype(ct.int8)
    assert repr(ct.float16) == "<DType 'float16'>"
    assert ct.int16.int_range() == (-32768, 32767)
    assert sum(t.kind is Kind.RESTRICTED for t in DTYPES) == 6


@ct.kernel
def newest(x):
    t = ct.load(x, 0, 16)
    ct.store(x, 0, t.astype(ct.float8_e5m3fnu).astype(ct.float32))


def test_types_that_a_version_or_a_gpu_lacks():
    array = compilation.ArrayConstraint(
        ct.float32,
        1,
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
    )
    signature = compilation.KernelSignature(
        [array], compilation.CallingConvention.cutile_python_v1(), "newest"
    )
    with pytest.raises(ct.TileUnsupportedFeatureError, match=r"float8_e5m3fnu needs Tile IR 13\.4"):
        module_of(newest, [signature])
    module_of(newest, [signature], version=(13, 4))
    with pytest.raises(ct.TileUnsupportedFeatureError, match="float8_e5m3fnu needs sm_107"):
        module_of(newest, [signature], version=(13, 4), target="sm_90")


@pytest.mark.skipif(not NATIVE, reason="cuda.tile is not installed")
def test_promotion_is_that_of_cuda_tile():
    theirs = importlib.import_module("cuda.tile")
    rule = importlib.import_module("cuda.tile._datatype").promote_dtypes
    for a, b in PAIRS:
        try:
            wanted = rule(getattr(theirs, a.name), getattr(theirs, b.name)).name
        except theirs.TileTypeError:
            wanted = "refused"
        assert outcome(promote, a, b) == wanted, (a, b)
