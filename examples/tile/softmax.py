"""Softmax of each row: one block has a whole row in its tile.

A row is as long as it likes, a tile a power of two: what lies beyond the row is padded with minus
infinity, which is never the maximum and adds exp(-inf) = 0 to the sum.
"""

import numpy as np

import tilewright.tile as ct


@ct.kernel
def softmax_kernel(x, out, width: ct.Constant[int]):
    row = ct.bid(0)
    t = ct.load(x, (row, 0), (1, width), padding_mode=ct.PaddingMode.NEG_INF)
    e = ct.exp(t - ct.max(t, axis=1, keepdims=True))
    ct.store(out, (row, 0), e / ct.sum(e, axis=1, keepdims=True))


def softmax(x, out, stream=None):
    """out[i] = exp(x[i] - max x[i]) / sum of the same."""
    rows, columns = x.shape
    width = 1 << (columns - 1).bit_length()
    ct.launch(stream, (rows,), softmax_kernel, (x, out, width))


def case(rng):
    """The host function, its arguments, and for each output its exact value and largest error."""
    x = (4 * rng.standard_normal((50, 300))).astype(np.float32)
    lifted = np.float64(x) - x.max(axis=1, keepdims=True)
    exact = np.exp(lifted) / np.exp(lifted).sum(axis=1, keepdims=True)
    # Relative: x - max is rounded once, exp has a few units in the last place, the sum of positive
    # numbers adds at most one rounding a step of a tree, the division one.
    bound = exact * (np.abs(lifted) + 20) * 2.0**-23
    return softmax, (x, np.empty_like(x)), {1: (exact, bound)}


def main():
    run, arguments, expected = case(np.random.default_rng(0))
    run(*arguments)
    for at, (exact, bound) in expected.items():
        error = np.abs(arguments[at] - exact)
        assert np.all(error <= bound)
        print(f"softmax of {exact.shape}: largest error {error.max():.1e}")


if __name__ == "__main__":
    main()
