"""A first kernel: one thread an element, captured from Python, run in the simulator."""

import numpy as np

from tilewright import cute, dsl


@cute.kernel
def axpy_kernel(x: cute.Tensor, y: cute.Tensor, alpha: dsl.Float32):
    block, thread = cute.arch.block_idx()[0], cute.arch.thread_idx()[0]
    i = block * cute.arch.block_dim()[0] + thread
    if i < x.shape[0]:
        y[i] = alpha * x[i] + y[i]


@cute.jit
def axpy(x: cute.Tensor, y: cute.Tensor, alpha: dsl.Float32):
    axpy_kernel(x, y, alpha).launch(grid=cute.ceil_div(x.shape[0], 128), block=128)


x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
axpy(x, y, 2.0)
assert (y == 2 * np.arange(1000) + 1).all()

# What the GPU would be given:
print(cute.compile(axpy, x, y, 2.0).source(line_info=False))
