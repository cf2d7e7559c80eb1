"""Persistent matrix product: as many blocks as the GPU has processors, each walks over tiles of C.

Blocks start once instead of once per tile, and the compiler may load the next tile's operands while
it stores this one.  Tiles are taken in groups of rows: blocks that run at the same time read the
same rows of A and columns of B, which then come from the L2 cache.
"""

import numpy as np

import tilewright.tile as ct

TILE_M, TILE_N, TILE_K = 64, 64, 32
GROUP = 4
"""Rows of tiles in a group."""


def place(number, rows, columns, group):
    """Row and column of tile `number`, going down the rows of a group before its next column."""
    first = number // (group * columns) * group
    height = min(rows - first, group)
    inside = number % (group * columns)
    return first + inside % height, inside // height


@ct.kernel
def persistent_matmul_kernel(
    a, b, c, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int], group: ct.Constant[int]
):
    rows, columns = ct.num_tiles(c, 0, (m, n)), ct.num_tiles(c, 1, (m, n))
    steps = ct.num_tiles(a, 1, (m, k))
    for number in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        i, j = place(number, rows, columns, group)
        acc = ct.zeros((m, n), ct.float32)
        for step in range(steps):
            x = ct.load(a, (i, step), (m, k), padding_mode=ct.PaddingMode.ZERO)
            y = ct.load(b, (step, j), (k, n), padding_mode=ct.PaddingMode.ZERO)
            acc = ct.mma(x, y, acc)
        ct.store(c, (i, j), ct.astype(acc, c.dtype))


def persistent_matmul(a, b, c, processors=132, stream=None):
    """C = A B: (M, K) by (K, N)."""
    tiles = ct.cdiv(c.shape[0], TILE_M) * ct.cdiv(c.shape[1], TILE_N)
    arguments = (a, b, c, TILE_M, TILE_N, TILE_K, GROUP)
    ct.launch(stream, (min(processors, tiles),), persistent_matmul_kernel, arguments)


def case(rng):
    """The host function, its arguments, and for each output its exact value and largest error."""
    a = rng.standard_normal((400, 96)).astype(np.float16)
    b = rng.standard_normal((96, 200)).astype(np.float16)
    exact = np.float64(a) @ np.float64(b)
    # Float32 sums of K exact products in any order, then one rounding to float16.
    bound = a.shape[1] * 2.0**-24 * (np.abs(np.float64(a)) @ np.abs(np.float64(b)))
    bound += 2.0**-11 * (np.abs(exact) + bound)
    # Five blocks for 28 tiles: each block has several.
    return persistent_matmul, (a, b, np.empty(exact.shape, np.float16), 5), {2: (exact, bound)}


def main():
    run, arguments, expected = case(np.random.default_rng(0))
    run(*arguments)
    for at, (exact, bound) in expected.items():
        error = np.abs(arguments[at] - exact)
        assert np.all(error <= bound)
        print(f"C of {exact.shape} by {arguments[3]} blocks: largest error {error.max():.1e}")


if __name__ == "__main__":
    main()
