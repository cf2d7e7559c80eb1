"""GEMM, version 1: tiles in shared memory, 4x4 results in each thread's registers.

A block fetches a tile of A and of B once and multiplies it 64 times over; a thread takes four rows
and four columns from shared memory for 16 products.  Memory is no longer the limit, the ordinary
float units are.
"""

import numpy as np

from tilewright import cute, dsl
from tilewright.utils import SmemAllocator

TILE, TILE_K, THREADS = 64, 16, 256


@cute.kernel
def gemm_kernel(mA: cute.Tensor, mB: cute.Tensor, mD: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    gA = cute.local_tile(mA, (TILE, TILE_K), (bx, None))  # (BM, BK, k)
    gB = cute.local_tile(mB, (TILE, TILE_K), (by, None))  # (BN, BK, k)
    gD = cute.local_tile(mD, (TILE, TILE), (bx, by))  # (BM, BN)

    # One word of padding in each column: storing along K meets every bank once.
    column = cute.make_layout((TILE, TILE_K), stride=(1, TILE + 1))
    smem = SmemAllocator()
    sA = smem.allocate_tensor(dsl.Float32, column, 16, label="sA")
    sB = smem.allocate_tensor(dsl.Float32, column, 16, label="sB")

    loaders = cute.make_layout((THREADS // TILE_K, TILE_K), stride=(TILE_K, 1))
    tAgA, tAsA = (cute.local_partition(x, loaders, tidx) for x in (gA, sA))  # (4, 1, k), (4, 1)
    tBgB, tBsB = (cute.local_partition(x, loaders, tidx) for x in (gB, sB))

    # Thread (i, j) owns rows i, i+16, .. and columns j, j+16, ..
    i, j = tidx % 16, tidx // 16
    total = cute.make_rmem_tensor((4, 4), dsl.Float32)
    total.fill(0.0)
    for k_tile in dsl.range(cute.size(gA, mode=[2]), unroll=1):
        for x in dsl.range_constexpr(cute.size(tAsA)):
            tAsA[x] = tAgA[x, 0, k_tile].to(dsl.Float32)
            tBsB[x] = tBgB[x, 0, k_tile].to(dsl.Float32)
        cute.arch.sync_threads()
        for k in dsl.range_constexpr(TILE_K):
            for x in dsl.range_constexpr(4):
                for y in dsl.range_constexpr(4):
                    total[x, y] += sA[i + 16 * x, k] * sB[j + 16 * y, k]
        cute.arch.sync_threads()
    for x in dsl.range_constexpr(4):
        for y in dsl.range_constexpr(4):
            gD[i + 16 * x, j + 16 * y] = total[x, y].to(mD.element_type)


@cute.jit
def gemm(mA: cute.Tensor, mB: cute.Tensor, mD: cute.Tensor):
    """A (M,K), B (N,K), D (M,N): 16-bit, M and N multiples of 64, K of 16."""
    m, n = mD.shape
    gemm_kernel(mA, mB, mD).launch(grid=(m // TILE, n // TILE, 1), block=(THREADS, 1, 1))


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 64), (128, 64)))
    d = np.full((64, 128), np.nan, np.float16)
    gemm(a, b, d)
    assert (d == a.astype(np.float32) @ b.T.astype(np.float32)).all()
    print("v1, shared memory: exact")


if __name__ == "__main__":
    main()
