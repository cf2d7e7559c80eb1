"""Layer norm, forward and backward.

Forward: y = (x - mean) * rstd * w + b along each row, with mean and rstd kept for later.
Backward, with h = (x - mean) * rstd and g = dy * w:
    dx = rstd * (g - mean(g) - h * mean(g * h)),  dw = sum of dy * h,  db = sum of dy  over rows.
The sums over rows take two steps, so that they come out the same in every run: each block adds up
some rows, and a second kernel adds up the blocks' sums.
"""

import numpy as np

import tilewright.tile as ct

EPS = 1e-5
PARTS = 8
"""Blocks of the backward pass; each has the rows that are its number modulo this."""
ROWS, COLUMNS = 8, 64
"""Tile of the last sums."""


@ct.kernel
def forward_kernel(x, w, b, y, mean, rstd, eps, width: ct.Constant[int]):
    row, count = ct.bid(0), x.shape[1]
    t = ct.load(x, (row, 0), (1, width), padding_mode=ct.PaddingMode.ZERO)
    average = ct.sum(t, axis=1, keepdims=True) / count
    inside = ct.arange(width, dtype=ct.int32)[None, :] < count
    centred = ct.where(inside, t - average, 0.0)
    scale = ct.rsqrt(ct.sum(centred * centred, axis=1, keepdims=True) / count + eps)
    weight = ct.load(w, (0,), (width,))
    bias = ct.load(b, (0,), (width,))
    ct.store(y, (row, 0), centred * scale * weight + bias)
    ct.store(mean, (row,), ct.reshape(average, (1,)))
    ct.store(rstd, (row,), ct.reshape(scale, (1,)))


@ct.kernel
def backward_kernel(dy, x, w, mean, rstd, dx, dw_parts, db_parts, width: ct.Constant[int]):
    part, count = ct.bid(0), x.shape[1]
    zero = ct.PaddingMode.ZERO
    weight = ct.load(w, (0,), (width,), padding_mode=zero)[None, :]
    inside = ct.arange(width, dtype=ct.int32)[None, :] < count
    dw = ct.zeros((1, width), ct.float32)
    db = ct.zeros((1, width), ct.float32)
    for row in range(part, x.shape[0], ct.num_blocks(0)):
        scale = ct.load(rstd, (row,), (1,))[None, :]
        t = ct.load(x, (row, 0), (1, width), padding_mode=zero)
        h = ct.where(inside, (t - ct.load(mean, (row,), (1,))[None, :]) * scale, 0.0)
        d = ct.load(dy, (row, 0), (1, width), padding_mode=zero)
        g = d * weight
        along_h = ct.sum(g * h, axis=1, keepdims=True) / count
        ct.store(dx, (row, 0), scale * (g - ct.sum(g, axis=1, keepdims=True) / count - h * along_h))
        dw += d * h
        db += d
    ct.store(dw_parts, (part, 0), dw)
    ct.store(db_parts, (part, 0), db)


@ct.kernel
def sum_rows_kernel(parts, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    j = ct.bid(0)
    total = ct.zeros((columns,), ct.float32)
    for i in range(ct.num_tiles(parts, 0, (rows, columns))):
        t = ct.load(parts, (i, j), (rows, columns), padding_mode=ct.PaddingMode.ZERO)
        total += ct.sum(t, axis=0)
    ct.store(out, (j,), total)


def layer_norm(x, w, b, y, mean, rstd, stream=None):
    """y = layer norm of the rows of x, by w and b; mean and rstd are those of each row."""
    rows, columns = x.shape
    width = 1 << (columns - 1).bit_length()
    ct.launch(stream, (rows,), forward_kernel, (x, w, b, y, mean, rstd, EPS, width))


def layer_norm_backward(dy, x, w, mean, rstd, dx, dw, db, dw_parts, db_parts, stream=None):
    """The gradients for dy; the parts are (PARTS, columns) of room to work in."""
    columns = x.shape[1]
    width = 1 << (columns - 1).bit_length()
    arguments = (dy, x, w, mean, rstd, dx, dw_parts, db_parts, width)
    ct.launch(stream, (PARTS,), backward_kernel, arguments)
    for parts, out in ((dw_parts, dw), (db_parts, db)):
        grid = (ct.cdiv(columns, COLUMNS),)
        ct.launch(stream, grid, sum_rows_kernel, (parts, out, ROWS, COLUMNS))


def both(x, w, b, dy, y, mean, rstd, dx, dw, db, dw_parts, db_parts, stream=None):
    """Forward, then backward."""
    layer_norm(x, w, b, y, mean, rstd, stream)
    layer_norm_backward(dy, x, w, mean, rstd, dx, dw, db, dw_parts, db_parts, stream)


def case(rng):
    """The host function, its arguments, and for each output its exact value and largest error."""
    rows, columns = 30, 200
    x, dy = rng.standard_normal((2, rows, columns)).astype(np.float32)
    w, b = rng.standard_normal((2, columns)).astype(np.float32)
    outputs = [np.empty(s, np.float32) for s in ((rows, columns), rows, rows)]
    outputs += [np.empty(s, np.float32) for s in ((rows, columns), columns, columns)]
    parts = [np.empty((PARTS, columns), np.float32) for _ in range(2)]
    x64, dy64 = np.float64(x), np.float64(dy)
    mean = x64.mean(axis=1, keepdims=True)
    rstd = 1 / np.sqrt(x64.var(axis=1, keepdims=True) + EPS)
    h, g = (x64 - mean) * rstd, dy64 * w
    dx = rstd * (g - g.mean(axis=1, keepdims=True) - h * (g * h).mean(axis=1, keepdims=True))
    exact = (h * w + b, mean[:, 0], rstd[:, 0], dx, (dy64 * h).sum(axis=0), dy64.sum(axis=0))
    # Each element comes from sums of at most 256 numbers near 1, in any order.
    bounds = (2.0**-20 * (1 + np.abs(h * w) + np.abs(b)), 2.0**-20, 2.0**-18, 2.0**-17)
    bounds += (2.0**-18 * np.abs(dy64 * h).sum(axis=0), 2.0**-20 * np.abs(dy64).sum(axis=0))
    expected = dict(zip(range(4, 10), zip(exact, bounds, strict=True), strict=True))
    return both, (x, w, b, dy, *outputs, *parts), expected


def main():
    run, arguments, expected = case(np.random.default_rng(0))
    run(*arguments)
    for name, (at, (exact, bound)) in zip(
        ("y", "mean", "rstd", "dx", "dw", "db"), expected.items(), strict=True
    ):
        error = np.abs(arguments[at] - exact)
        assert np.all(error <= bound), name
        print(f"{name} of {exact.shape}: largest error {error.max():.1e}")


if __name__ == "__main__":
    main()
