"""Vector add: each block of the grid adds one tile.

A kernel is written for one block, in terms of whole tiles; `ct.bid(0)` says which block this is.
The last tile reaches over the end: what it loads there is unspecified, what it stores is dropped.
"""

import numpy as np

import tilewright.tile as ct

TILE = 256


@ct.kernel
def vector_add_kernel(x, y, out, tile: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, i, ct.load(x, i, tile) + ct.load(y, i, tile))


def vector_add(x, y, out, stream=None):
    """out = x + y."""
    grid = (ct.cdiv(x.shape[0], TILE),)
    ct.launch(stream, grid, vector_add_kernel, (x, y, out, TILE))


def case(rng):
    """The host function, its arguments, and for each output its exact value and largest error."""
    x, y = rng.standard_normal((2, 1000)).astype(np.float32)
    return vector_add, (x, y, np.empty_like(x)), {2: (x + y, 0.0)}


def main():
    run, arguments, expected = case(np.random.default_rng(0))
    run(*arguments)
    for at, (exact, bound) in expected.items():
        assert np.all(np.abs(arguments[at] - exact) <= bound)
    print(f"x + y of {len(arguments[0])} elements: right")


if __name__ == "__main__":
    main()
