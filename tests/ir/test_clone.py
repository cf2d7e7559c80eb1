"""Copies of functions: equal, and with nothing in common."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.ir.clone import copy_func
from tilewright.ir.core import Block, Func, Op, Value
from tilewright.ir.printer import print_func
from tilewright.ir.verify import verify_func
from tilewright.library.gemm import prepare_gemm


def parts(func: Func) -> set[int]:
    """The identities of everything that a function is made of."""
    found: list[Block | Op | Value] = [func.body, *func.body.args]
    for op in func.body.walk():
        found += [op, *op.results, *op.regions]
        for inner in op.regions:
            found += inner.args
    return {id(x) for x in found}


@pytest.mark.parametrize("kernel", ["simt_gemm", "sm80_gemm", "sm90_gemm"])
def test_a_copy_is_equal_and_shares_nothing(kernel: str) -> None:
    a = np.ones((64, 64), np.float16)
    compiled = prepare_gemm(a, a.T, kernel=kernel, backend="sim").compiled
    assert compiled is not None
    for func in compiled.module.kernels.values():
        twin = copy_func(func)
        verify_func(twin)
        assert print_func(twin, locations=True) == print_func(func, locations=True)
        assert parts(twin).isdisjoint(parts(func))
        assert (twin.smem_bytes, twin.max_threads) == (func.smem_bytes, func.max_threads)
