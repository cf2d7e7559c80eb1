"""Block-scaled matrix product: fp8 operands with one power of two per 32 elements along K.

Small floats have little range; a shared scale gives each block of 32 its own (the OCP's MX
formats).  A scale is one byte s that stands for 2^(s - 127), the type e8m0.

`scaled_kernel` uses `ct.mma_scaled`, for GPUs with the type e8m0, sm_100 and later; for sm_90,
tileiras answers "unsupported type 'f8E8M0FNU'".
`portable_kernel` computes the same from the bytes on any GPU with fp8 (sm_90 and later): the
product of one block of K at a time, multiplied by the outer product of the two scales.
"""

import ml_dtypes
import numpy as np

import tilewright.tile as ct

TILE_M, TILE_N, TILE_K = 64, 64, 64
BLOCK = 32
"""Elements along K with one scale."""


@ct.kernel
def scaled_kernel(
    a, a_scale, b, b_scale, c,
    m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int], block: ct.Constant[int],
):  # fmt: skip
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((m, n), ct.float32)
    for step in range(ct.num_tiles(a, 1, (m, k))):
        x, y = ct.load(a, (i, step), (m, k)), ct.load(b, (step, j), (k, n))
        x_scale = ct.load(a_scale, (i, step), (m, k // block))
        y_scale = ct.load(b_scale, (step, j), (k // block, n))
        acc = ct.mma_scaled(x, x_scale, y, y_scale, acc)
    ct.store(c, (i, j), acc)


def power(scale):
    """2^(s - 127) of the bytes s."""
    return ct.exp2(ct.astype(scale, ct.float32) - 127)


@ct.kernel
def portable_kernel(
    a, a_scale, b, b_scale, c, m: ct.Constant[int], n: ct.Constant[int], block: ct.Constant[int]
):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((m, n), ct.float32)
    for step in range(ct.num_tiles(a, 1, (m, block))):
        x, y = ct.load(a, (i, step), (m, block)), ct.load(b, (step, j), (block, n))
        x_scale = power(ct.load(a_scale, (i, step), (m, 1)))
        y_scale = power(ct.load(b_scale, (step, j), (1, n)))
        acc += ct.mma(x, y, ct.zeros((m, n), ct.float32)) * (x_scale * y_scale)
    ct.store(c, (i, j), acc)


def block_scaled_matmul(a, a_scale, b, b_scale, c, portable=True, stream=None):
    """C = (A * a_scale) (B * b_scale): (M, K) by (K, N), scales (M, K / 32) and (K / 32, N).

    Scales are bytes, or e8m0 if not `portable`; extents are whole tiles.
    """
    grid = (ct.cdiv(c.shape[0], TILE_M), ct.cdiv(c.shape[1], TILE_N))
    arguments = (a, a_scale, b, b_scale, c, TILE_M, TILE_N)
    if portable:
        ct.launch(stream, grid, portable_kernel, (*arguments, BLOCK))
    else:
        ct.launch(stream, grid, scaled_kernel, (*arguments, TILE_K, BLOCK))


def quantized(x, axis):
    """fp8 elements and scales of float32 numbers; each block's greatest lies in [128, 256)."""
    blocks = np.moveaxis(x, axis, -1).reshape(-1, BLOCK)
    exponent = np.floor(np.log2(np.abs(blocks).max(axis=1))) - 7
    elements = (blocks * 2.0 ** -exponent[:, None]).astype(ml_dtypes.float8_e4m3fn)
    scales = (exponent + 127).astype(np.uint8)
    shape = np.moveaxis(x, axis, -1).shape
    elements = np.moveaxis(elements.reshape(shape), -1, axis)
    return np.ascontiguousarray(elements), np.ascontiguousarray(
        np.moveaxis(scales.reshape(*shape[:-1], -1), -1, axis)
    )


def case(rng, portable=True):
    """The host function, its arguments, and for each output its exact value and largest error."""
    rows, columns, depth = 128, 64, 192
    spread = 2.0 ** rng.integers(-8, 8, (rows, depth))
    a, a_scale = quantized((spread * rng.standard_normal((rows, depth))).astype(np.float32), 1)
    b, b_scale = quantized(rng.standard_normal((depth, columns)).astype(np.float32), 0)
    x = np.float64(a) * np.repeat(2.0 ** (np.float64(a_scale) - 127), BLOCK, axis=1)
    y = np.float64(b) * np.repeat(2.0 ** (np.float64(b_scale) - 127), BLOCK, axis=0)
    # Hopper keeps about 14 bits of a sum of fp8 products.
    bound = 2.0**-10 * (np.abs(x) @ np.abs(y))
    if not portable:
        a_scale, b_scale = (s.view(ml_dtypes.float8_e8m0fnu) for s in (a_scale, b_scale))
    arguments = (a, a_scale, b, b_scale, np.empty((rows, columns), np.float32), portable)
    return block_scaled_matmul, arguments, {4: (x @ y, bound)}


def main():
    for portable in (True, False):
        run, arguments, expected = case(np.random.default_rng(0), portable)
        run(*arguments)
        for at, (exact, bound) in expected.items():
            error = np.abs(arguments[at] - exact)
            assert np.all(error <= bound)
            name = "portable_kernel" if portable else "scaled_kernel"
            print(f"C of {exact.shape} by {name}: largest error {error.max():.1e}")


if __name__ == "__main__":
    main()
