"""Attention with online softmax: out = softmax(Q K^T / sqrt(d)) V, the scores never in memory.

A block has a tile of queries and walks over tiles of keys.  It keeps, per query, the largest score
`top` so far and the sum of exp(score - top); when a larger score comes, what was summed up before
is scaled down by exp(old top - new top).  A causal kernel stops at the diagonal, and masks only the
tiles that lie on it.  Powers of 2 are cheaper than exp, so the scores are in units of log2.
"""

import math

import numpy as np

import tilewright.tile as ct

TILE_Q, TILE_K = 64, 32


@ct.kernel
def attention_kernel(
    q, k, v, out, scale, m: ct.Constant[int], n: ct.Constant[int], d: ct.Constant[int],
    causal: ct.Constant[bool],
):  # fmt: skip
    i, head = ct.bid(0), ct.bid(1)
    zero = ct.PaddingMode.ZERO
    queries = ct.load(q, (head, i, 0), (1, m, d), padding_mode=zero)
    rows = i * m + ct.arange(m, dtype=ct.int32)[None, :, None]
    length = k.shape[1]
    steps = ct.cdiv(length, n)
    plain = length // n  # tiles of keys that need no mask
    if causal:
        steps = min(steps, ct.cdiv((i + 1) * m, n))
        plain = min(plain, i * m // n)
    top = ct.full((1, m, 1), -math.inf, ct.float32)
    total = ct.zeros((1, m, 1), ct.float32)
    acc = ct.zeros((1, m, d), ct.float32)
    for step in range(steps):
        keys = ct.load(k, (head, 0, step), (1, d, n), order=(0, 2, 1), padding_mode=zero)
        scores = ct.mma(queries, keys, ct.zeros((1, m, n), ct.float32)) * scale
        if step >= plain:
            columns = step * n + ct.arange(n, dtype=ct.int32)[None, None, :]
            visible = columns < length
            if causal:
                visible = visible & (columns <= rows)
            scores = ct.where(visible, scores, -math.inf)
        higher = ct.maximum(top, ct.max(scores, axis=2, keepdims=True))
        weights = ct.exp2(scores - higher)
        faded = ct.exp2(top - higher)
        total = total * faded + ct.sum(weights, axis=2, keepdims=True)
        values = ct.load(v, (head, step, 0), (1, n, d), padding_mode=zero)
        acc = ct.mma(ct.astype(weights, v.dtype), values, acc * faded)
        top = higher
    ct.store(out, (head, i, 0), ct.astype(acc / total, out.dtype))


def attention(q, k, v, out, causal, stream=None):
    """Q, K, V and out are (heads, length, d), with d a power of two."""
    heads, length, d = q.shape
    grid = (ct.cdiv(length, TILE_Q), heads)
    scale = math.log2(math.e) / math.sqrt(d)
    ct.launch(stream, grid, attention_kernel, (q, k, v, out, scale, TILE_Q, TILE_K, d, causal))


def both(q, k, v, out, causal_out, stream=None):
    """Every key for every query; and only the keys up to the query."""
    attention(q, k, v, out, False, stream)
    attention(q, k, v, causal_out, True, stream)


def exact_attention(q, k, v, causal):
    """The exact output, and how far from it a result may be."""
    q, k, v = np.float64(q), np.float64(k), np.float64(v)
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[2])
    if causal:
        scores[:, ~np.tri(q.shape[1], dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    # Weights are rounded to float16, as is the output; scores have errors of float32.
    return weights @ v, 2.0**-10 * (weights @ np.abs(v)) + 2.0**-11 * np.abs(weights @ v)


def case(rng):
    """The host function, its arguments, and for each output its exact value and largest error."""
    q, k, v = rng.standard_normal((3, 2, 150, 32)).astype(np.float16)
    outputs = np.empty_like(q), np.empty_like(q)
    expected = {3 + causal: exact_attention(q, k, v, bool(causal)) for causal in (0, 1)}
    return both, (q, k, v, *outputs), expected


def main():
    run, arguments, expected = case(np.random.default_rng(0))
    run(*arguments)
    for name, (at, (exact, bound)) in zip(("full", "causal"), expected.items(), strict=True):
        error = np.abs(arguments[at] - exact)
        assert np.all(error <= bound), name
        print(f"{name} attention of {exact.shape}: largest error {error.max():.1e}")


if __name__ == "__main__":
    main()
