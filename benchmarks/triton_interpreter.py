"""A tiled matmul in Triton's interpreter; `sanitizer.py` runs it in a process of its own.

    TRITON_INTERPRET=1 python benchmarks/triton_interpreter.py SIZE BM BN BK REPEATS

Prints the seconds of each run behind a first one; the result is compared with torch's.
"""

from __future__ import annotations

import sys
import time

import torch
import triton
import triton.language as tl


@triton.jit
def matmul(  # type: ignore[no-untyped-def]
    a, b, d, size, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, size, BK):
        inside = first + k < size
        x = tl.load(
            a + m[:, None] * size + (first + k)[None, :],
            mask=(m < size)[:, None] & inside[None, :],
            other=0.0,
        )
        y = tl.load(
            b + (first + k)[:, None] * size + n[None, :],
            mask=inside[:, None] & (n < size)[None, :],
            other=0.0,
        )
        acc += tl.dot(x, y)
    where = d + m[:, None] * size + n[None, :]
    tl.store(where, acc.to(tl.float16), mask=(m < size)[:, None] & (n < size)[None, :])


def main(size: int, bm: int, bn: int, bk: int, repeats: int) -> None:
    torch.manual_seed(0)
    a, b = (torch.randn(size, size).to(torch.float16) for _ in range(2))
    d = torch.zeros(size, size, dtype=torch.float16)
    grid = (triton.cdiv(size, bm), triton.cdiv(size, bn))
    for run in range(repeats + 1):
        start = time.perf_counter()
        matmul[grid](a, b, d, size, BM=bm, BN=bn, BK=bk)
        if run:
            print(time.perf_counter() - start)
    wanted = a.float() @ b.float()
    assert torch.allclose(d.float(), wanted, rtol=1e-2, atol=1e-1), "Triton's result is wrong"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
