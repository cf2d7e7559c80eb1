"""GEMM, version 0: one thread for each element of D.

    D[m,n] = sum over k of A[m,k] * B[n,k]

Every product fetches two numbers from memory again: a GPU spends its time on waiting for them.
"""

import numpy as np

from tilewright import cute, dsl

BLOCK = (16, 16)


@cute.kernel
def gemm_kernel(mA: cute.Tensor, mB: cute.Tensor, mD: cute.Tensor):
    tx, ty, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    m, n = bx * BLOCK[0] + tx, by * BLOCK[1] + ty
    total = dsl.Float32(0.0)
    for k in range(mA.shape[1]):
        total += mA[m, k].to(dsl.Float32) * mB[n, k].to(dsl.Float32)
    mD[m, n] = total.to(mD.element_type)


@cute.jit
def gemm(mA: cute.Tensor, mB: cute.Tensor, mD: cute.Tensor):
    """A (M,K), B (N,K), D (M,N): 16-bit, M and N multiples of 16."""
    m, n = mD.shape
    gemm_kernel(mA, mB, mD).launch(grid=(m // BLOCK[0], n // BLOCK[1], 1), block=(*BLOCK, 1))


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 64), (128, 64)))
    d = np.full((64, 128), np.nan, np.float16)
    gemm(a, b, d)
    assert (d == a.astype(np.float32) @ b.T.astype(np.float32)).all()
    print("v0, naive: exact")


if __name__ == "__main__":
    main()
