"""Batched matrix product: the third dimension of the grid is the batch.

A tile has one batch entry, `(1, m, k)`; `ct.mma` multiplies such stacks of matrices as they are.
B is stored with K contiguous, as weights often are: `order` reads its tiles transposed.
"""

import ml_dtypes
import numpy as np

import tilewright.tile as ct

TILE_M, TILE_N, TILE_K = 64, 32, 32


@ct.kernel
def batched_matmul_kernel(a, b, c, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    i, j, batch = ct.bid(0), ct.bid(1), ct.bid(2)
    acc = ct.zeros((1, m, n), ct.float32)
    for step in range(ct.num_tiles(a, 2, (1, m, k))):
        x = ct.load(a, (batch, i, step), (1, m, k), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(
            b, (batch, step, j), (1, k, n), order=(0, 2, 1), padding_mode=ct.PaddingMode.ZERO
        )
        acc = ct.mma(x, y, acc)
    ct.store(c, (batch, i, j), ct.astype(acc, c.dtype))


def batched_matmul(a, b, c, stream=None):
    """C = A B^T for each entry of a batch: (L, M, K) by (L, N, K)."""
    batch, rows, columns = c.shape
    grid = (ct.cdiv(rows, TILE_M), ct.cdiv(columns, TILE_N), batch)
    ct.launch(stream, grid, batched_matmul_kernel, (a, b, c, TILE_M, TILE_N, TILE_K))


def case(rng):
    """The host function, its arguments, and for each output its exact value and largest error."""
    a = rng.standard_normal((3, 100, 80)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((3, 72, 80)).astype(ml_dtypes.bfloat16)
    x, y = a.astype(np.float64), b.astype(np.float64).transpose(0, 2, 1)
    exact = x @ y
    # Float32 sums of K exact products in any order.
    bound = a.shape[2] * 2.0**-24 * (np.abs(x) @ np.abs(y))
    return batched_matmul, (a, b, np.empty(exact.shape, np.float32)), {2: (exact, bound)}


def main():
    run, arguments, expected = case(np.random.default_rng(0))
    run(*arguments)
    for at, (exact, bound) in expected.items():
        error = np.abs(arguments[at] - exact)
        assert np.all(error <= bound)
        print(f"C of {exact.shape}: largest error {error.max():.1e}")


if __name__ == "__main__":
    main()
