"""A race that a GPU may hide for years: the sanitizer names both accesses and what is missing."""

import numpy as np

import tilewright as tw
from tilewright import cute, dsl
from tilewright.utils import SmemAllocator


@cute.kernel
def reverse_kernel(x: cute.Tensor, fixed: dsl.Constexpr):
    tidx = cute.arch.thread_idx()[0]
    buffer = SmemAllocator().allocate_tensor(dsl.Float32, cute.make_layout(64), 16, label="buffer")
    buffer[tidx] = x[tidx]
    if dsl.const_expr(fixed):
        cute.arch.sync_threads()  # without it, the other warp may not have written yet
    x[tidx] = buffer[63 - tidx]


@cute.jit
def reverse(x: cute.Tensor, fixed: dsl.Constexpr):
    reverse_kernel(x, fixed).launch(grid=1, block=64)


with tw.sanitize(raise_on_findings=False) as checked:
    reverse(np.arange(64, dtype=np.float32), False)
print(checked.findings[0])
assert checked.findings[0].kind == "race"

with tw.sanitize() as checked:
    x = np.arange(64, dtype=np.float32)
    reverse(x, True)
assert not checked.findings
assert (x == np.arange(64)[::-1]).all()
