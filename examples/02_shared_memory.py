"""A transpose through swizzled shared memory: a layout decides who meets in which bank."""

import numpy as np

from tilewright import cute, dsl
from tilewright.utils import SmemAllocator

TILE = 32


@cute.kernel
def transpose_kernel(src: cute.Tensor, dst: cute.Tensor):
    tx, ty, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    # Word (r, c) of the tile lies in bank (r ^ c): rows and columns are both free of conflicts.
    plain = cute.make_layout((TILE, TILE), stride=(TILE, 1))
    layout = cute.make_composed_layout(cute.make_swizzle(5, 0, 5), 0, plain)
    tile = SmemAllocator().allocate_tensor(dsl.Float32, layout, 128, label="tile")
    g_in = cute.local_tile(src, (TILE, TILE), (by, bx))
    g_out = cute.local_tile(dst, (TILE, TILE), (bx, by))
    for row in dsl.range_constexpr(0, TILE, 8):
        tile[ty + row, tx] = g_in[ty + row, tx]
    cute.arch.sync_threads()
    for row in dsl.range_constexpr(0, TILE, 8):
        g_out[ty + row, tx] = tile[tx, ty + row]


@cute.jit
def transpose(src: cute.Tensor, dst: cute.Tensor):
    m, n = src.shape
    transpose_kernel(src, dst).launch(grid=(n // TILE, m // TILE, 1), block=(TILE, 8, 1))


a = np.random.default_rng(0).standard_normal((96, 64)).astype(np.float32)
b = np.zeros((64, 96), np.float32)
transpose(a, b)
assert (b == a.T).all()
kernel = cute.compile(transpose, a, b).module.kernels["transpose_kernel"]
print("transposed 96x64, with", kernel.smem_bytes, "bytes of shared memory in each block")
