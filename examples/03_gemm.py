"""The library's three GEMMs on one problem, in the simulator, each verified."""

import numpy as np

import tilewright as tw
from tilewright.library.gemm import prepare_gemm

rng = np.random.default_rng(0)
a = rng.standard_normal((200, 96)).astype(np.float16)  # (M, K), K contiguous
b = rng.standard_normal((136, 96)).astype(np.float16).T  # (K, N), K contiguous

d = tw.gemm(a, b)  # the best kernel that fits: on Hopper, TMA and wgmma
print("D is", d.shape, d.dtype)

for kernel in ("sm90_gemm", "sm80_gemm", "simt_gemm"):
    prepared = prepare_gemm(a, b, kernel=kernel)
    report = prepared.run()
    result = prepared.verify()
    print(f"{kernel}: {report.counters['instructions']:>6} instructions; {result}")
    assert result.passed
