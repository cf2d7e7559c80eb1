"""Loads and stores: tiles, elements, views, raw memory, lists; order of memory operations."""

import numpy as np
import pytest

import tilewright.tile as ct

RNG = np.random.default_rng(7)


def matrix(rows, columns, dtype=np.float32):
    return RNG.random((rows, columns)).astype(dtype)


@ct.kernel
def copy(x, y, m: ct.Constant[int], n: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, (i, j), ct.load(x, (i, j), (m, n)))


@pytest.mark.parametrize("shape", [(16, 16), (13, 27), (1, 5)])
def test_ragged_edges(run, shape):
    x = matrix(*shape)
    grid = (-(-shape[0] // 4), -(-shape[1] // 8))
    _, y, *_ = run(copy, grid, x, np.zeros(shape, np.float32), 4, 8)
    np.testing.assert_array_equal(x, y)


def test_strided_and_reversed_arrays(run):
    base = matrix(32, 32)
    x = base[::2, ::-1]
    y = np.zeros((32, 16), np.float32).T
    run(copy, (4, 4), x, y, 4, 8)
    np.testing.assert_array_equal(x, y)


@ct.kernel
def padded(x, out, mode: ct.Constant):
    ct.store(out, (0, 0), ct.load(x, (0, 0), (4, 4), padding_mode=mode))


@pytest.mark.parametrize(
    ("mode", "value"),
    [
        (ct.PaddingMode.ZERO, 0.0),
        ("NAN", np.nan),
        (ct.PaddingMode.POS_INF, np.inf),
        (ct.PaddingMode.NEG_INF, -np.inf),
    ],
)
def test_padding(run, mode, value):
    x, out = matrix(3, 2), np.zeros((4, 4), np.float32)
    run(padded, (1,), x, out, mode)
    np.testing.assert_array_equal(out[:3, :2], x)
    np.testing.assert_array_equal(out[3], np.full(4, value, np.float32))
    np.testing.assert_array_equal(out[:, 2:], np.full((4, 2), value, np.float32))


@ct.kernel
def ordered(x, out, rows, columns):
    t = ct.load(x, (0, 1), (4, 8), order="F")
    ct.store(out, (0, 1), t, order=(1, 0))
    ct.store(rows, 0, ct.num_tiles(x, 0, (4, 8), order="F"))
    ct.store(columns, 0, ct.num_tiles(x, 1, (4, 8), "F"))


def test_order_of_axes(run):
    x = matrix(16, 12)
    out = np.zeros_like(x)
    rows, columns = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(ordered, (1,), x, out, rows, columns)
    np.testing.assert_array_equal(out[8:, :4], x[8:, :4])
    assert not out[:8].any()
    assert (rows[0], columns[0]) == (3, 2)


@ct.kernel
def facts(x, out, k: ct.Constant[int]):
    ct.static_assert(x.ndim == 2 and x.dtype == ct.float32)
    ct.store(out, 0, x.shape[0])
    ct.store(out, 1, x.shape[1])
    ct.store(out, 2, x.strides[0])
    ct.store(out, 3, x.strides[1])
    ct.store(out, 4, ct.num_tiles(x, 0, (k, k)))
    ct.store(out, 5, ct.num_blocks(0) * 100 + ct.num_blocks(1) * 10 + ct.num_blocks(2))


def test_array_facts(run):
    _, out, _ = run(facts, (2, 3, 4), matrix(10, 6), np.zeros(6, np.int32), 4)
    np.testing.assert_array_equal(out, [10, 6, 6, 1, 3, 234])


@ct.kernel
def rows(x, index, out):
    i = ct.load(index, 0, 8)
    j = ct.arange(4, dtype=ct.int32)
    t = ct.gather(x, (i[:, None], j[None, :]), padding_value=-1)
    ct.store(out, (0, 0), t)
    u = ct.gather(x, (i[:, None], j[None, :]), mask=(j < 2)[None, :], padding_value=5)
    ct.store(out, (1, 0), u)


def test_gather_with_bounds_and_mask(run):
    x, index = matrix(6, 4), np.array([3, 0, 5, -1, 6, 2, 2, 100], np.int32)
    *_, out = run(rows, (1,), x, index, np.zeros((16, 4), np.float32))
    inside = (index >= 0) & (index < 6)
    wanted = np.where(inside[:, None], x[np.where(inside, index, 0)], -1)
    np.testing.assert_array_equal(out[:8], wanted)
    keep = inside[:, None] & (np.arange(4) < 2)
    np.testing.assert_array_equal(out[8:], np.where(keep, wanted, 5))


@ct.kernel
def scattered(y, index, values):
    i = ct.load(index, 0, 8)
    v = ct.load(values, 0, 8)
    ct.scatter(y, i, v)
    ct.scatter(y, i + 10, 7, mask=v > 0.5)


def test_scatter(run):
    index = np.array([1, 3, 0, 25, -2, 7, 5, 6], np.int32)
    values = RNG.random(8).astype(np.float32)
    y, *_ = run(scattered, (1,), np.zeros(20, np.float32), index, values)
    wanted = np.zeros(20, np.float32)
    for i, v in zip(index, values, strict=True):
        if 0 <= i < 20:
            wanted[i] = v
    for i, v in zip(index + 10, values, strict=True):
        if 0 <= i < 20 and v > 0.5:
            wanted[i] = 7
    np.testing.assert_array_equal(y, wanted)


@ct.kernel
def viewed(x, out, counts):
    tiles = x.tiled_view((2, 4), padding_mode=ct.PaddingMode.ZERO)
    ct.static_assert(tiles.tile_shape == (2, 4) and tiles.dtype == ct.float32)
    steps = x.tiled_view((2, 4), padding_mode="ZERO", traversal_steps=(1, 3))
    ct.static_assert(steps.traversal_steps == (1, 3))
    target = out.tiled_view((2, 4))
    for i in range(tiles.num_tiles(0)):
        target.store((i, 0), tiles.load((i, 1)))
        target.store((i, 1), steps.load((i, 1)))
    ct.store(counts, 0, tiles.num_tiles(0) * 10 + steps.num_tiles(1))


def test_tiled_views(run):
    x = matrix(5, 8)
    _, out, counts = run(viewed, (1,), x, np.zeros((6, 8), np.float32), np.zeros(1, np.int32))
    np.testing.assert_array_equal(out[:5, :4], x[:, 4:])
    pad = np.pad(x, ((0, 4), (0, 4)))
    for i in range(3):
        np.testing.assert_array_equal(out[2 * i : 2 * i + 2, 4:], pad[i : i + 2, 3:7])
    assert counts[0] == 33


@ct.kernel
def sliced(x, out, first, last):
    part = x.slice(0, first, last)
    ct.store(out, (0, 0), ct.load(part, (0, 0), (4, 4), padding_mode=ct.PaddingMode.ZERO))
    fixed = x.slice(axis=1, start=1, stop=3)
    ct.static_assert(fixed.shape[1] == 2)
    ct.store(out, (1, 0), ct.load(fixed, (0, 0), (4, 4), padding_mode=ct.PaddingMode.ZERO))


def test_slices(run):
    x = matrix(8, 4)
    _, out, *_ = run(sliced, (1,), x, np.zeros((8, 4), np.float32), 2, 5)
    np.testing.assert_array_equal(out[:3], x[2:5])
    assert not out[3].any()
    np.testing.assert_array_equal(out[4:, :2], x[:4, 1:3])
    assert not out[4:, 2:].any()


@ct.kernel
def raw(x, out):
    memory = x.get_raw_memory()
    offsets = ct.arange(8, dtype=ct.int32) * 2
    t = memory.load_offset(offsets, mask=offsets < 10, padding_value=-1)
    out.get_raw_memory().store_offset(offsets + 1, t)
    old = out.get_raw_memory().atomic_add_offset(offsets, t)
    ct.static_assert(memory.dtype == ct.float32 and old.shape == (8,))


def test_raw_memory(run):
    x = RNG.random(16).astype(np.float32)
    _, out = run(raw, (1,), x, np.zeros(16, np.float32))
    wanted = np.where(np.arange(8) * 2 < 10, x[::2], -1)
    np.testing.assert_array_equal(out[1::2], wanted)
    np.testing.assert_array_equal(out[::2], wanted)


@ct.kernel
def advanced(x, index, out):
    i = ct.load(index, 0, 4)
    t = ct.load_advanced_indexing(x, (i, ct.Slice(1, 4)), padding_mode=ct.PaddingMode.ZERO)
    ct.store_advanced_indexing(out, (i, ct.Slice(0, 4)), t * 2)


def test_rows_given_one_by_one(run):
    x, index = matrix(8, 6), np.array([5, 2, 7, 0], np.int32)
    *_, out = run(advanced, (1,), x, index, np.zeros((8, 4), np.float32))
    wanted = np.zeros((8, 4), np.float32)
    wanted[index] = x[index, 1:5] * 2
    np.testing.assert_array_equal(out, wanted)


@ct.kernel
def summed(arrays, out, n: ct.Constant[int]):
    acc = ct.zeros((n,), ct.float32)
    for i in range(len(arrays)):
        acc += ct.load(arrays[i], 0, n, padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, 0, acc)


def test_lists_of_arrays(run):
    arrays = [RNG.random(n).astype(np.float32) for n in (8, 5, 8)]
    _, out, _ = run(summed, (1,), arrays, np.zeros(8, np.float32), 8)
    wanted = sum(np.pad(a, (0, 8 - len(a))) for a in arrays)
    np.testing.assert_allclose(out, wanted, rtol=1e-6)


@ct.kernel
def foreign(x, out):
    p = x.foreign_pointer
    again = ct.Array.from_foreign(p, (4, 2), (2, 1))
    ct.store(out, (0, 0), ct.load(again, (0, 0), (4, 2)))


def test_foreign_pointers(run):
    x = RNG.random(8).astype(np.float32)
    _, out = run(foreign, (1,), x, np.zeros((4, 2), np.float32))
    np.testing.assert_array_equal(out, x.reshape(4, 2))


@ct.kernel
def in_place(x, n):
    for _ in range(n):
        t = ct.load(x, 0, 8)
        ct.store(x, 0, t * 2)
        u = ct.load(x, 1, 8)
        if n > 2:
            ct.store(x, 1, u + t)
        else:
            ct.store(x, 1, u)
    ct.store(x, 2, ct.load(x, 0, 8) + ct.load(x, 1, 8))


def test_loads_and_stores_of_one_array_stay_in_order(run):
    x = RNG.random(24).astype(np.float32)
    y = x.copy()
    run(in_place, (1,), x, 3, orders=6)
    for _ in range(3):
        t = y[:8].copy()
        y[:8] *= 2
        y[8:16] += t
    y[16:] = y[:8] + y[8:16]
    np.testing.assert_array_equal(x, y)


@ct.kernel
def handshake(data, flag, out):
    ct.store(data, 0, ct.full((8,), 3.0, ct.float32))
    ct.atomic_xchg(flag, 0, 1, memory_order=ct.MemoryOrder.RELEASE)
    seen = ct.atomic_cas(flag, 0, 1, 2, memory_order=ct.MemoryOrder.ACQUIRE)
    ct.store(out, 0, ct.load(data, 0, 8) + seen)


def test_release_and_acquire_order_other_arrays(run):
    data, flag = np.zeros(8, np.float32), np.zeros(1, np.int32)
    *_, out = run(handshake, (1,), data, flag, np.zeros(8, np.float32), orders=6)
    np.testing.assert_array_equal(out, np.full(8, 4.0, np.float32))
    assert flag[0] == 2


@ct.kernel
def hinted(x, y):
    t = ct.load(x, 0, 8, latency=3, allow_tma=False)
    ct.store(y, 0, t, latency=2)
    s = ct.load(y, 1, 8, memory_order="ACQUIRE", memory_scope=ct.MemoryScope.DEVICE)
    ct.store(y, 2, s, memory_order=ct.MemoryOrder.RELEASE, memory_scope="DEVICE")
    ct.store(y, 31, ct.assume_divisible_by(x.shape[0], 8))


def test_hints_and_memory_orders(run):
    x = RNG.random(8).astype(np.float32)
    y = np.concatenate([np.zeros(8), x, np.zeros(16)]).astype(np.float32)
    run(hinted, (1,), x, y)
    np.testing.assert_array_equal(y[:8], x)
    np.testing.assert_array_equal(y[16:24], x)
    assert y[31] == 8
