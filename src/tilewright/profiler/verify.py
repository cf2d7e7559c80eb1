"""The library's check of a result, done on the GPU: the same reference and bound, in float64.

At 8192 cubed the host takes a minute over its reference and a GPU a tenth of a second.  The work
goes by blocks of rows, so that memory stays bounded.  Only torch can be used: CuPy has no bf16.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright.library.reference import Verification
from tilewright.numeric.dtypes import DType

BLOCK_ELEMENTS = 1 << 25
"""Elements of the output that are compared at a time: 256 MiB in float64."""


def verify_with_torch(
    torch: Any,
    out: Any,
    a: Any,
    b: Any,
    c: Any,
    alpha: float,
    beta: float,
    dtype: DType,
) -> Verification:
    """Compares every element of `out` with `alpha * a @ b + beta * c`, as `verify_gemm` does.

    Shapes: a (M,K), b (K,N), c (M,N) or None, out (M,N): torch tensors of one device.
    The bound is `(K + 4) * 2^-23 * (sum of magnitudes) + ulp/2 * |reference|`.
    """
    m, n = out.shape
    if m == 0 or n == 0:
        return Verification(True, 0.0, 0.0, (), "nothing to compare: the output is empty")
    half_ulp = float(dtype.epsilon) / 2
    tiny = float(dtype.smallest_normal) * half_ulp
    b64 = b.double()
    worst, where, line = -1.0, (0, 0), ""
    error2 = norm2 = 0.0
    rows = max(BLOCK_ELEMENTS // n, 1)
    for first in range(0, m, rows):
        part = slice(first, first + rows)
        a64 = a[part].double()
        reference, size = alpha * (a64 @ b64), abs(alpha) * (a64.abs() @ b64.abs())
        if c is not None and beta != 0:
            reference += beta * c[part].double()
            size += (beta * c[part].double()).abs()
        got = out[part].double()
        bound = (a.shape[1] + 4) * 2.0**-23 * size + half_ulp * 1.01 * reference.abs() + tiny
        error = (got - reference).abs()
        ratio = torch.where(torch.isfinite(error), error / bound, math.inf)
        ratio = torch.where(~torch.isfinite(reference) & (got == reference), 0.0, ratio)
        ratio = torch.where(torch.isnan(reference) & torch.isnan(got), 0.0, ratio)
        at = int(ratio.argmax())
        i, j = divmod(at, n)
        if float(ratio[i, j]) > worst:
            worst, where = float(ratio[i, j]), (first + i, j)
            line = f"{float(got[i, j])!r}, expected {float(reference[i, j])!r}"
            line += f" +- {float(bound[i, j]):.3g}"
        finite = torch.isfinite(error)
        error2 += float((torch.where(finite, error, 0.0) ** 2).sum())
        norm2 += float((torch.where(torch.isfinite(reference), reference, 0.0) ** 2).sum())
    relative = math.sqrt(error2) / (math.sqrt(norm2) or 1.0)
    passed = worst <= 1.0
    message = (
        f"verified: every element within the bound (worst {worst:.2f} of it), "
        f"relative error {relative:.2e}"
        if passed
        else f"WRONG: element ({where[0]}, {where[1]}) is {line}; relative error {relative:.2e}"
    )
    return Verification(passed, worst, relative, where, message)
