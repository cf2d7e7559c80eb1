"""Mixture of experts: each token goes to its K best experts; tokens are gathered, never copied.

The host sorts the (token, expert) pairs by expert and fills each expert's share up to whole tiles.
A block gathers its rows of the tokens by number, multiplies them with its tile's expert, scales
each row by the router's weight, and scatters the rows to their pair's place.  A second kernel adds
up each token's K rows.  Numbers beyond the end stand for no pair: gather gives zeros for
them and scatter drops them.
"""

import numpy as np

import tilewright.tile as ct

TILE_M, TILE_N, TILE_K = 16, 32, 32
TOP = 2
"""Experts of a token."""


@ct.kernel
def expert_matmul_kernel(
    tokens, experts, weights, pairs, expert_of_tile, out, top: ct.Constant[int],
    m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int],
):  # fmt: skip
    i, j = ct.bid(0), ct.bid(1)
    expert = ct.load(expert_of_tile, i, ())
    pair = ct.load(pairs, i, m)
    row = (pair // top)[:, None]
    acc = ct.zeros((m, n), ct.float32)
    for step in range(ct.num_tiles(tokens, 1, (m, k))):
        column = (step * k + ct.arange(k, dtype=ct.int32))[None, :]
        x = ct.gather(tokens, (row, column))
        y = ct.load(experts, (expert, step, j), (1, k, n), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(x, ct.reshape(y, (k, n)), acc)
    scaled = acc * ct.gather(weights, pair)[:, None]
    place = (j * n + ct.arange(n, dtype=ct.int32))[None, :]
    ct.scatter(out, (pair[:, None], place), scaled)


@ct.kernel
def combine_kernel(rows, out, top: ct.Constant[int], m: ct.Constant[int], n: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.sum(ct.load(rows, (i, 0, j), (m, top, n)), axis=1)
    ct.store(out, (i, j), ct.astype(total, out.dtype))


def sorted_pairs(chosen, experts):
    """Pairs `token * TOP + choice` by expert, each expert's filled up, and each tile's expert."""
    flat = chosen.reshape(-1)
    pairs, owners = [], []
    for expert in range(experts):
        mine = np.flatnonzero(flat == expert)
        tiles = -(-len(mine) // TILE_M)
        pairs.append(np.pad(mine, (0, tiles * TILE_M - len(mine)), constant_values=flat.size))
        owners += [expert] * tiles
    return np.concatenate(pairs).astype(np.int32), np.array(owners, np.int32)


def mixture_of_experts(tokens, experts, weights, pairs, expert_of_tile, rows, out, stream=None):
    """out[t] = sum over t's experts e of weights[t, e] * tokens[t] @ experts[e].

    `weights` is (tokens * TOP), `rows` (tokens * TOP, columns) room to work in.
    """
    columns = out.shape[1]
    grid = (len(expert_of_tile), ct.cdiv(columns, TILE_N))
    arguments = (tokens, experts, weights, pairs, expert_of_tile, rows, TOP)
    ct.launch(stream, grid, expert_matmul_kernel, (*arguments, TILE_M, TILE_N, TILE_K))
    grid = (ct.cdiv(len(tokens), TILE_M), ct.cdiv(columns, TILE_N))
    by_token = rows.reshape(len(tokens), TOP, columns)
    ct.launch(stream, grid, combine_kernel, (by_token, out, TOP, TILE_M, TILE_N))


def case(rng):
    """The host function, its arguments, and for each output its exact value and largest error."""
    count, depth, columns, experts = 50, 72, 40, 4
    tokens = rng.standard_normal((count, depth)).astype(np.float16)
    matrices = rng.standard_normal((experts, depth, columns)).astype(np.float16)
    router = rng.random((count, experts))
    chosen = np.argsort(-router, axis=1)[:, :TOP]
    weights = np.take_along_axis(router, chosen, 1).astype(np.float32)
    pairs, expert_of_tile = sorted_pairs(chosen, experts)
    rows = np.empty((count * TOP, columns), np.float32)
    out = np.empty((count, columns), np.float16)
    x, y = np.float64(tokens), np.float64(matrices)
    exact, size = (
        np.einsum("tk,td,tkdc->tc", np.float64(weights), f(x), f(y[chosen]))
        for f in (np.asarray, np.abs)
    )
    # Float32 sums in any order, then one rounding to float16.
    bound = (depth + TOP + 1) * 2.0**-24 * size
    bound += 2.0**-11 * (np.abs(exact) + bound)
    arguments = (tokens, matrices, weights.reshape(-1), pairs, expert_of_tile, rows, out)
    return mixture_of_experts, arguments, {6: (exact, bound)}


def main():
    run, arguments, expected = case(np.random.default_rng(0))
    run(*arguments)
    for at, (exact, bound) in expected.items():
        error = np.abs(arguments[at] - exact)
        assert np.all(error <= bound)
        print(f"out of {exact.shape}: largest error {error.max():.1e}")


if __name__ == "__main__":
    main()
