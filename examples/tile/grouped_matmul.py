"""Grouped matrix product: several products of different sizes in one launch.

A kernel may take lists of arrays.  Blocks count through the tiles of all products in turn: block b
takes tiles b, b + blocks, ...  While the next tile lies beyond the product at hand, the count goes
on to the next product.
"""

import numpy as np

import tilewright.tile as ct

TILE_M, TILE_N, TILE_K = 32, 32, 32


@ct.kernel
def grouped_matmul_kernel(a, b, c, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    number = ct.bid(0)
    passed = 0  # tiles of the products before
    for group in range(len(a)):
        columns = ct.num_tiles(c[group], 1, (m, n))
        tiles = ct.num_tiles(c[group], 0, (m, n)) * columns
        while number < passed + tiles:
            i, j = (number - passed) // columns, (number - passed) % columns
            acc = ct.zeros((m, n), ct.float32)
            for step in range(ct.num_tiles(a[group], 1, (m, k))):
                x = ct.load(a[group], (i, step), (m, k), padding_mode=ct.PaddingMode.ZERO)
                y = ct.load(b[group], (step, j), (k, n), padding_mode=ct.PaddingMode.ZERO)
                acc = ct.mma(x, y, acc)
            ct.store(c[group], (i, j), acc)
            number += ct.num_blocks(0)
        passed += tiles


def grouped_matmul(a, b, c, processors=132, stream=None):
    """C[g] = A[g] B[g] for every group g."""
    ct.launch(stream, (processors,), grouped_matmul_kernel, (a, b, c, TILE_M, TILE_N, TILE_K))


def case(rng):
    """The host function, its arguments, and for each output its exact value and largest error."""
    sizes = ((100, 48, 64), (32, 80, 128), (70, 33, 40))
    a = [rng.standard_normal((m, k)).astype(np.float16) for m, n, k in sizes]
    b = [rng.standard_normal((k, n)).astype(np.float16) for m, n, k in sizes]
    c = [np.empty((m, n), np.float32) for m, n, k in sizes]
    exact = [np.float64(x) @ np.float64(y) for x, y in zip(a, b, strict=True)]
    # Float32 sums of K exact products in any order.
    bounds = [
        len(y) * 2.0**-24 * (np.abs(np.float64(x)) @ np.abs(np.float64(y)))
        for x, y in zip(a, b, strict=True)
    ]
    return grouped_matmul, (a, b, c, 6), {2: (exact, bounds)}


def main():
    run, arguments, expected = case(np.random.default_rng(0))
    run(*arguments)
    for at, (exact, bounds) in expected.items():
        for found, wanted, bound in zip(arguments[at], exact, bounds, strict=True):
            error = np.abs(found - wanted)
            assert np.all(error <= bound)
            print(f"C of {wanted.shape}: largest error {error.max():.1e}")


if __name__ == "__main__":
    main()
