"""Matrix product: each block computes one tile of C, walking along K.

The accumulator is a float32 tile that the loop carries.  Padding with zeros makes the last step
along K right for any K; rows and columns beyond the end never reach C.
"""

import numpy as np

import tilewright.tile as ct

TILE_M, TILE_N, TILE_K = 64, 64, 32


@ct.kernel
def matmul_kernel(a, b, c, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((m, n), ct.float32)
    for step in range(ct.num_tiles(a, 1, (m, k))):
        x = ct.load(a, (i, step), (m, k), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (step, j), (k, n), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), ct.astype(acc, c.dtype))


def matmul(a, b, c, stream=None):
    """C = A B: (M, K) by (K, N)."""
    grid = (ct.cdiv(c.shape[0], TILE_M), ct.cdiv(c.shape[1], TILE_N))
    ct.launch(stream, grid, matmul_kernel, (a, b, c, TILE_M, TILE_N, TILE_K))


def case(rng):
    """The host function, its arguments, and for each output its exact value and largest error."""
    a = rng.standard_normal((200, 144)).astype(np.float16)
    b = rng.standard_normal((144, 130)).astype(np.float16)
    exact = np.float64(a) @ np.float64(b)
    # Float32 sums of K exact products in any order, then one rounding to float16.
    bound = a.shape[1] * 2.0**-24 * (np.abs(np.float64(a)) @ np.abs(np.float64(b)))
    bound += 2.0**-11 * (np.abs(exact) + bound)
    return matmul, (a, b, np.empty(exact.shape, np.float16)), {2: (exact, bound)}


def main():
    run, arguments, expected = case(np.random.default_rng(0))
    run(*arguments)
    for at, (exact, bound) in expected.items():
        error = np.abs(arguments[at] - exact)
        assert np.all(error <= bound)
        print(f"C of {exact.shape}: largest error {error.max():.1e}")


if __name__ == "__main__":
    main()
