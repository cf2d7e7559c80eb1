"""Kernels of users: ours give what NumPy says, and so do NVIDIA's files of the same kernels.

NVIDIA's package captures each kernel; its bytecode runs in our interpreter.  Both print the same.
"""

from __future__ import annotations

import copy
import importlib.util
import io
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import tilewright.tile as ct
from tilewright.tileir.bytecode.reader import read_bytecode
from tilewright.tileir.interpret.machine import interpret
from tilewright.tileir.verify import VerifyOptions, verify

NATIVE = importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.tile")
BOUND = {"rtol": 1e-4, "atol": 1e-4}
"""Between float32 in one order and in another, and of elementary functions of one ULP."""
TF32_BOUND = {"rtol": 2e-2, "atol": 2e-2}
"""Products of values that are rounded to 10 bits."""


def _loaded(front_end: ModuleType, name: str) -> list:
    """The cases, with their kernels made by one front end."""
    sys.modules["front_end"] = SimpleNamespace(ct=front_end)
    path = Path(__file__).with_name("kernels_of_users.py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    del sys.modules["front_end"]
    return module.CASES


CASES = _loaded(ct, "kernels_for_ours")
NAMES = [kernel.__name__ for kernel, *_ in CASES]


def _bound(name: str) -> dict:
    return TF32_BOUND if name in ("mm", "bmm", "persistent") else BOUND


def _ours(number: int) -> tuple:
    kernel, arguments, expected, grid, out = CASES[number]
    given = arguments()
    wanted = np.asarray(expected(*copy.deepcopy(given)))
    mine = copy.deepcopy(given)
    ct.launch(None, grid, kernel, mine)
    return given, wanted, mine[out]


@pytest.mark.parametrize("number", range(len(CASES)), ids=NAMES)
def test_a_kernel_gives_what_numpy_says(number):
    _, wanted, found = _ours(number)
    np.testing.assert_allclose(found, wanted, **_bound(NAMES[number]))


def _constraint(native, x):
    rows = native.compilation
    if isinstance(x, tuple):
        return rows.TupleConstraint([_constraint(native, item) for item in x])
    if isinstance(x, np.ndarray):
        strides = [s // x.itemsize for s in x.strides]
        name = "bool_" if x.dtype == np.bool_ else x.dtype.name
        return rows.ArrayConstraint(
            getattr(native, name),
            x.ndim,
            index_dtype=native.int32,
            stride_lower_bound_incl=0,
            alias_groups=(),
            may_alias_internally=False,
            stride_constant=[1 if s == 1 else None for s in strides],
            stride_divisible_by=1,
            base_addr_divisible_by=1,
        )
    return rows.ScalarConstraint(native.float32 if isinstance(x, float) else native.int32)


def _leaves(x):
    if isinstance(x, tuple):
        return [leaf for item in x for leaf in _leaves(item)]
    if isinstance(x, np.ndarray):
        return [x, *x.shape, *(s // x.itemsize for s in x.strides)]
    return [x]


@pytest.fixture(scope="module")
def native():
    """NVIDIA's package, and the cases with its kernels."""
    package = importlib.import_module("cuda.tile")
    return package, _loaded(package, "kernels_for_nvidia")


@pytest.mark.skipif(not NATIVE, reason="cuda.tile is not installed")
@pytest.mark.parametrize("number", range(len(CASES)), ids=NAMES)
def test_nvidias_file_of_a_kernel_gives_the_same(native, number, capsys):
    package, cases = native
    kernel, _, _, grid, out = cases[number]
    given, wanted, _ = _ours(number)
    printed = capsys.readouterr().out
    rows = package.compilation
    signature = rows.KernelSignature(
        [_constraint(package, x) for x in given], rows.CallingConvention.cutile_python_v2(), "k"
    )
    file = io.BytesIO()
    rows.export_kernel(
        kernel,
        [signature],
        file,
        gpu_code="sm_90",
        output_format="tileir_bytecode",
        bytecode_version="13.4",
    )
    module = read_bytecode(file.getvalue())
    verify(module, VerifyOptions(version=(13, 4)))
    theirs = copy.deepcopy(given)
    found = interpret(module, "k", (*grid, 1, 1)[:3], [leaf for x in theirs for leaf in _leaves(x)])
    np.testing.assert_allclose(theirs[out], wanted, **_bound(NAMES[number]))
    assert "".join(found.printed) == printed
