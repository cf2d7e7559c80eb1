"""Transpose: a tile is read at (i, j), transposed as a value, and written at (j, i).

No index of an element is computed: how a block's threads exchange a tile is the compiler's part.
"""

import numpy as np

import tilewright.tile as ct

TILE = 64


@ct.kernel
def transpose_kernel(x, out, tile: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (j, i), ct.transpose(ct.load(x, (i, j), (tile, tile))))


def transpose(x, out, stream=None):
    """out = x.T"""
    grid = (ct.cdiv(x.shape[0], TILE), ct.cdiv(x.shape[1], TILE))
    ct.launch(stream, grid, transpose_kernel, (x, out, TILE))


def case(rng):
    """The host function, its arguments, and for each output its exact value and largest error."""
    x = rng.standard_normal((300, 200)).astype(np.float16)
    return transpose, (x, np.empty_like(x.T, order="C")), {1: (x.T, 0.0)}


def main():
    run, arguments, expected = case(np.random.default_rng(0))
    run(*arguments)
    for at, (exact, bound) in expected.items():
        assert np.all(np.abs(arguments[at] - exact) <= bound)
    print(f"the transpose of {arguments[0].shape}: right")


if __name__ == "__main__":
    main()
