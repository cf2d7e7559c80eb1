"""ldmatrix, stmatrix, cp.async and the bulk tensor engine."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.ir.ops import arith, copy, memory, sync
from tilewright.numeric.dtypes import F32, I32, U16, U32, U64, dtype
from tilewright.sim.machine import SimOptions


def kinds(report):
    return [f.kind for f in report.findings]


# -- matrices -------------------------------------------------------------------------------------


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("num", [1, 2, 4])
def test_ldmatrix(kit, num, transpose):
    k = kit(kit.gmem(U16), kit.gmem(U16))
    x, o = k.args
    s = k.shared(U16, 2 * 32 * 8, label="rows")
    t = k.tid()
    k.do(memory.Copy, k.at(x, k.mul(t, 8), 8), k.at(s, k.mul(t, 8), 8), bytes=16)
    k.do(sync.SyncThreads)
    r = k.registers(U16, 8)
    k.do(copy.LdMatrix, k.at(s, k.mul(t, 8), 8), r, num=num, transpose=transpose)
    k.do(memory.Store, k.at(o, k.mul(t, 8), 8), k.load(r, 0, count=2 * num) if num == 4 else
         k.v(memory.Gather, r, indices=tuple(range(2 * num)) + (0,) * (8 - 2 * num)))  # fmt: skip
    a = np.arange(2 * 32 * 8, dtype=np.uint16).reshape(2, 4, 8, 8)
    got = np.zeros((2, 32, 8), np.uint16)
    k.run(a, got, block=64)
    for w in range(2):
        for lane in range(32):
            for i in range(num):
                m = a[w, i].T if transpose else a[w, i]
                pair = m[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2]
                np.testing.assert_array_equal(got[w, lane, 2 * i : 2 * i + 2], pair)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("num", [1, 2, 4])
def test_stmatrix_is_the_inverse_of_ldmatrix(kit, num, transpose):
    k = kit(kit.gmem(U16), kit.gmem(U16))
    x, o = k.args
    s, s2 = k.shared(U16, 32 * 8), k.shared(U16, 32 * 8)
    t = k.mul(k.tid(), 8)
    k.do(memory.Copy, k.at(x, t, 8), k.at(s, t, 8), bytes=16)
    k.do(memory.Copy, k.at(x, t, 8), k.at(s2, t, 8), bytes=16)
    r = k.registers(U16, 8)
    k.do(copy.LdMatrix, k.at(s, t, 8), r, num=num, transpose=transpose)
    k.do(copy.StMatrix, r, k.at(s2, t, 8), num=num, transpose=transpose)
    k.do(memory.Copy, k.at(s2, t, 8), k.at(o, t, 8), bytes=16)
    a = np.random.default_rng(0).integers(0, 65536, (32, 8), dtype=np.uint16)
    got = np.zeros_like(a)
    k.run(a, got)
    np.testing.assert_array_equal(got, a)


def test_ldmatrix_in_divergent_code(kit):
    k = kit()
    s, r = k.shared(U16, 32 * 8), k.registers(U16, 8)
    k.if_(k.cmp("lt", k.tid(), 8), lambda: k.do(copy.LdMatrix, s, r, num=1))
    assert "aligned_divergence" in kinds(k.run(quiet=True))


# -- cp.async -------------------------------------------------------------------------------------


def async_copy(kit, pending, commit_each=True):
    """Two copies in two groups; sums what is there after waiting for all but `pending`."""
    k = kit(kit.gmem(F32), kit.gmem(F32))
    x, o = k.args
    s = k.shared(F32, 2 * 32 * 4, label="stage")
    t = k.mul(k.tid(), 4)
    for i in range(2):
        inside = k.cmp("lt", k.tid(), 30)
        k.do(
            copy.CpAsync,
            k.at(x, k.add(t, i * 128), 4),
            k.at(s, k.add(t, i * 128), 4),
            inside,
            bytes=16,
        )
        if commit_each:
            k.do(copy.CpAsyncCommit)
    if not commit_each:
        k.do(copy.CpAsyncCommit)
    if pending is not None:
        k.do(copy.CpAsyncWait, pending=pending)
    v = k.v(
        arith.Add, k.load(s, t, count=4, divisor=4), k.load(s, k.add(t, 128), count=4, divisor=4)
    )
    k.do(memory.Store, k.at(o, t, 4), v)
    a = np.random.default_rng(0).standard_normal((2, 32, 4)).astype(np.float32)
    got = np.zeros((32, 4), np.float32)
    report = k.run(a, got, quiet=True)
    a[:, 30:] = 0
    return got, a.sum(axis=0, dtype=np.float32), report


@pytest.mark.parametrize("together", [False, True])
def test_cp_async(kit, together):
    got, want, report = async_copy(kit, 0, not together)
    assert report.findings == ()
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("pending", [1, None])
def test_cp_async_data_is_not_there_before_the_wait(kit, pending):
    report = async_copy(kit, pending)[2]
    assert set(kinds(report)) == {"uninitialised"}
    assert len(report.findings) == (1 if pending == 1 else 2)


def test_cp_async_groups_are_counted_by_thread(kit):
    """Half of the threads commit one group more before they all wait."""
    k = kit(kit.gmem(I32), kit.gmem(I32))
    x, o = k.args
    s = k.shared(I32, 64)
    t = k.tid()
    k.do(copy.CpAsync, k.at(x, t), k.at(s, t), bytes=4, cache="ca")
    k.do(copy.CpAsyncCommit)
    k.if_(k.cmp("lt", t, 16), lambda: k.do(copy.CpAsyncCommit))
    k.do(copy.CpAsyncWait, pending=1)
    k.if_(k.cmp("lt", t, 16), lambda: k.store(o, t, k.load(s, t)))
    k.do(copy.CpAsyncWait, pending=0)
    k.if_(k.cmp("ge", t, 16), lambda: k.store(o, t, k.load(s, t)))
    a, got = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    k.run(a, got)
    np.testing.assert_array_equal(got, a)


# -- TMA loads ------------------------------------------------------------------------------------


def swizzled(data, bits, start=0):
    """The bytes as TMA lays them out: XOR of address bits."""
    out = np.empty_like(data)
    a = start + np.arange(len(data))
    out[(a ^ ((a >> 7 & (1 << bits) - 1) << 4)) - start] = data
    return out


def load_box(
    kit, tensor, coords, nbytes, *, expect=None, wait=True, offset=0, buffers=None, seed=0
):
    k = kit(kit.tensormap(), kit.gmem(U32))
    m, o = k.args
    k.shared(U32, 1, 1024)
    s = k.shared(U32, (nbytes + offset) // 4, 1024, "box")
    bar = k.shared(U64, 1, 8, "full")
    first = k.cmp("eq", k.tid(), 0)

    def issue():
        k.do(sync.MBarrierInit, bar, k.u32(1))
        k.do(sync.FenceMBarrierInit)
        k.do(sync.MBarrierArriveExpectTx, bar, k.u32(nbytes if expect is None else expect))
        k.do(copy.TmaLoad, m, k.at(s, offset // 4), bar, *coords)

    k.if_(first, issue)
    k.do(sync.SyncThreads)
    if wait:
        k.do(sync.MBarrierWait, bar, k.u32(0))
    k.for_(k.tid(), nbytes // 4, 32, lambda i: k.store(o, i, k.load(s, k.add(i, offset // 4))))
    got = np.zeros(nbytes, np.uint8)
    if buffers is not None:
        k.memory = buffers
    report = k.run(tensor, got, options=SimOptions(seed=seed, raise_on_findings=False))
    return got, report


def tensor_2d(kit, tensor_map, dt, rows, cols, box, swizzle="none", pitch=None, **kw):
    t = dtype(dt)
    size = t.bits // 8
    pitch = pitch or cols * size
    k = kit()
    data = np.random.default_rng(0).integers(0, 255, (rows, pitch), dtype=np.uint8)
    base = k.map(data, "tensor")
    return data, tensor_map(dt, base, (cols, rows), (pitch,), box, swizzle, **kw), k.memory


@pytest.mark.parametrize(
    ("swizzle", "bits", "inner"), [("none", 0, 32), ("32B", 1, 16), ("64B", 2, 32), ("128B", 3, 64)]
)
def test_tma_load_swizzles(kit, tensor_map, swizzle, bits, inner):
    data, tensor, memory_ = tensor_2d(kit, tensor_map, "bf16", 40, 128, (inner, 16), swizzle)
    got, report = load_box(kit, tensor, (64, 8), inner * 2 * 16, buffers=memory_)
    assert report.findings == ()
    want = data[8:24, 128 : 128 + 2 * inner].reshape(-1)
    np.testing.assert_array_equal(got, swizzled(want, bits))
    assert report.counters["tma_loaded_bytes"] == len(want)


@pytest.mark.parametrize(
    ("dt", "inner", "at", "byte"), [("bf16", 32, 3, 6), ("bf16", 32, -5, -10), ("e4m3", 64, 24, 24)]
)
def test_tma_takes_whole_16_bytes_along_the_row(kit, tensor_map, dt, inner, at, byte):
    _, tensor, memory_ = tensor_2d(kit, tensor_map, dt, 40, 128, (inner, 16))
    _, report = load_box(kit, tensor, (at, 8), 1024, buffers=memory_, wait=False)
    assert report.findings[0].kind == "misaligned"
    assert report.findings[0].message == (
        f"the innermost coordinate of a TMA copy, {at}, is at byte {byte} of the row: expected a "
        "multiple of 16 bytes"
    )


@pytest.mark.parametrize("at", [(-32, 8), (32, -1)])
def test_a_tma_store_begins_inside(kit, tensor_map, at):
    _, tensor, memory_ = tensor_2d(kit, tensor_map, "bf16", 40, 128, (32, 16))
    report = store_box(kit, tensor, at, 1024, memory_)
    assert report.findings[0].kind == "misaligned"
    assert report.findings[0].message == (
        f"a TMA store to coordinates {at}: a box that is stored begins at 0 or beyond"
    )


def test_tma_load_fills_what_is_outside_and_counts_it(kit, tensor_map):
    data, tensor, memory_ = tensor_2d(kit, tensor_map, "e4m3", 10, 466, (128, 8), pitch=480)
    got, report = load_box(kit, tensor, (384, 6), 1024, buffers=memory_)
    assert report.findings == ()
    want = np.zeros((8, 128), np.uint8)
    want[:4, :82] = data[6:10, 384:466]  # exact to the element
    np.testing.assert_array_equal(got.reshape(8, 128), want)


def test_tma_load_with_negative_coordinates_and_nan(kit, tensor_map):
    data, tensor, memory_ = tensor_2d(kit, tensor_map, "f32", 8, 16, (8, 4), oob_nan=True)
    got, report = load_box(kit, tensor, (-4, -2), 128, buffers=memory_)
    assert report.findings == ()
    values = got.view(np.float32).reshape(4, 8)
    assert np.isnan(values[:2]).all()
    assert np.isnan(values[:, :4]).all()
    np.testing.assert_array_equal(got.reshape(4, 32)[2:, 16:], data[:2, :16])


def test_tma_load_of_three_dimensions(kit, tensor_map):
    k = kit()
    data = np.random.default_rng(0).integers(0, 2**16, (5, 6, 16), dtype=np.uint16)
    tensor = tensor_map("f16", k.map(data), (16, 6, 5), (32, 192), (8, 3, 2))
    got, report = load_box(kit, tensor, (8, 2, 3), 8 * 3 * 2 * 2, buffers=k.memory)
    assert report.findings == ()
    np.testing.assert_array_equal(got.view(np.uint16).reshape(2, 3, 8), data[3:5, 2:5, 8:16])


def test_a_missing_wait_shows_for_some_seed(kit, tensor_map):
    seen = set()
    for seed in range(8):
        _, tensor, memory_ = tensor_2d(kit, tensor_map, "bf16", 16, 64, (64, 8), "128B")
        for wait in (True, False):
            report = load_box(kit, tensor, (0, 0), 1024, wait=wait, buffers=memory_, seed=seed)[1]
            assert not (wait and report.findings)
            seen.update(kinds(report))
    assert seen == {"uninitialised", "in_flight"}


@pytest.mark.parametrize(
    ("expect", "found", "text"),
    [
        (1024, [], ""),
        (2048, ["deadlock"], "1024 transaction bytes are missing"),
        (512, ["barrier"], "expect_tx promises fewer bytes than the copies bring"),
    ],
)
def test_tma_transaction_bytes(kit, tensor_map, expect, found, text):
    _, tensor, memory_ = tensor_2d(kit, tensor_map, "bf16", 16, 64, (64, 8), "128B")
    _, report = load_box(kit, tensor, (0, 0), 1024, expect=expect, buffers=memory_)
    assert kinds(report) == found
    assert text in "".join(f.message for f in report.findings)


@pytest.mark.parametrize(
    ("swizzle", "offset", "text"),
    [
        ("none", 64, "is not a multiple of 128"),
        ("128B", 128, "is not a multiple of 1024"),
        ("none", 128, ""),
    ],
)
def test_tma_alignment(kit, tensor_map, swizzle, offset, text):
    _, tensor, memory_ = tensor_2d(kit, tensor_map, "bf16", 16, 64, (64, 8), swizzle)
    _, report = load_box(kit, tensor, (0, 0), 1024, offset=offset, buffers=memory_)
    assert kinds(report) == (["misaligned"] if text else [])
    assert text in "".join(f.message for f in report.findings)


def test_tma_descriptor_rules(kit, tensor_map):
    cases = [
        (
            {"box": (128, 8), "swizzle": "128B"},
            "row of 256 bytes is wider than the 128 bytes of its swizzle",
        ),
        ({"box": (4, 8)}, "row of 8 bytes is not a multiple of 16"),
        ({"box": (64, 8, 1)}, "2 coordinates for a tensor map of 2 dimensions"),
        ({"box": (64, 300)}, "each extent must be 1 to 256"),
    ]
    for change, text in cases:
        _, tensor, memory_ = tensor_2d(kit, tensor_map, "bf16", 16, 128, (64, 8))
        tensor = type(tensor)(**{**tensor.__dict__, **change})
        _, report = load_box(kit, tensor, (0, 0), 1024, buffers=memory_)
        assert kinds(report)[0] == "descriptor"
        assert text in report.findings[0].message


def test_tma_load_outside_the_buffer(kit, tensor_map):
    _, tensor, memory_ = tensor_2d(kit, tensor_map, "bf16", 16, 64, (64, 8))
    tensor = type(tensor)(**{**tensor.__dict__, "dims": (64, 20)})  # claims rows that do not exist
    _, report = load_box(kit, tensor, (0, 12), 1024, buffers=memory_)
    assert kinds(report) == ["out_of_bounds"]
    assert "behind the end of tensor (2048 bytes)" in report.findings[0].message


def test_multicast(kit, tensor_map):
    """Each CTA of two loads half of a tile into both."""
    k = kit(kit.tensormap(), kit.gmem(U32))
    m, o = k.args
    s = k.shared(U32, 512, 1024, "tile")
    bar = k.shared(U64, 1, 8, "full")
    rank = k.special("cluster_rank")
    first = k.cmp("eq", k.tid(), 0)

    def init():
        k.do(sync.MBarrierInit, bar, k.u32(1))
        k.do(sync.MBarrierArriveExpectTx, bar, k.u32(2048))

    k.if_(first, init)
    k.do(sync.ClusterArrive)
    k.do(sync.ClusterWait)
    k.if_(first, lambda: k.do(
        copy.TmaLoadMulticast, m, k.at(s, k.mul(rank, 256), 256), bar, k.c(3, U16), 0,
        k.mul(rank, 8)
    ))  # fmt: skip
    k.do(sync.MBarrierWait, bar, k.u32(0))
    k.for_(k.tid(), 512, 32, lambda i: k.store(o, k.add(k.mul(rank, 512), i), k.load(s, i)))
    k.do(sync.ClusterArrive)
    k.do(sync.ClusterWait)
    data = np.random.default_rng(0).integers(0, 2**16, (16, 64), dtype=np.uint16)
    tensor = tensor_map("bf16", k.map(data), (64, 16), (128,), (64, 8))
    got = np.zeros((2, 2048), np.uint8)
    k.run(tensor, got, grid=2, cluster=(2, 1, 1))
    for r in range(2):
        np.testing.assert_array_equal(got[r].view(np.uint16).reshape(16, 64), data)


# -- TMA stores -----------------------------------------------------------------------------------


def store_box(kit, tensor, coords, nbytes, memory_, *, wait=True, fill=True, reuse=False, seed=0):
    k = kit(kit.tensormap())
    (m,) = k.args
    s = k.shared(U32, nbytes // 4, 1024, "box")
    t = k.tid()
    if fill:
        k.for_(t, nbytes // 4, 32, lambda i: k.store(s, i, k.cast(k.add(i, 0x01010101), U32)))
    k.do(sync.FenceProxyAsync)
    k.do(sync.SyncThreads)

    def issue():
        k.do(copy.PrefetchDescriptor, m)
        k.do(copy.TmaStore, m, s, *coords)
        k.do(copy.BulkCommit)
        if wait:
            k.do(copy.BulkWait, pending=0, read=True)
        if reuse:
            k.for_(0, nbytes // 4, 1, lambda i: k.store(s, i, k.u32(0)))

    k.if_(k.cmp("eq", t, 0), issue)
    k.memory = memory_
    return k.run(tensor, options=SimOptions(seed=seed, raise_on_findings=False))


def pattern(nbytes):
    return (np.arange(nbytes // 4) + 0x01010101).astype(np.uint32).view(np.uint8)


@pytest.mark.parametrize(("swizzle", "bits"), [("none", 0), ("128B", 3)])
def test_tma_store(kit, tensor_map, swizzle, bits):
    data, tensor, memory_ = tensor_2d(kit, tensor_map, "bf16", 16, 128, (64, 8), swizzle)
    before = data.copy()
    report = store_box(kit, tensor, (64, 4), 1024, memory_)
    assert report.findings == ()
    before[4:12, 128:] = swizzled(pattern(1024), bits).reshape(8, 128)  # the XOR is its own inverse
    np.testing.assert_array_equal(data, before)
    assert report.counters["tma_stored_bytes"] == 1024


@pytest.mark.parametrize(("cols", "over"), [(464, 0), (465, 15), (466, 14), (471, 9), (479, 1)])
def test_tma_store_writes_the_last_unit_of_a_row_whole(kit, tensor_map, cols, over):
    """Measured on an H200 with int8, pitch 480."""
    data, tensor, memory_ = tensor_2d(kit, tensor_map, "i8", 8, cols, (128, 4), pitch=480)
    data[...] = 7
    report = store_box(kit, tensor, (384, 2), 512, memory_)
    assert report.findings == ()
    row = pattern(512).reshape(4, 128)
    written = cols - 384 + over
    np.testing.assert_array_equal(data[2:6, 384 : 384 + written], row[:, :written])
    assert (data[2:6, 384 + written :] == 7).all()
    assert (data[:2] == 7).all()
    assert (data[6:] == 7).all()


def test_tma_store_overrun_out_of_the_buffer(kit, tensor_map):
    k = kit()
    data = np.zeros(480 * 7 + 466, np.uint8)
    tensor = tensor_map("i8", k.map(data, "c"), (466, 8), (480,), (128, 4))
    report = store_box(kit, tensor, (384, 4), 512, k.memory)
    assert kinds(report) == ["out_of_bounds"]
    assert "a TMA store writes the last 16 bytes of a row whole" in report.findings[0].message


def test_tma_store_of_nothing_written(kit, tensor_map):
    _, tensor, memory_ = tensor_2d(kit, tensor_map, "bf16", 16, 64, (64, 8))
    report = store_box(kit, tensor, (0, 0), 1024, memory_, fill=False)
    assert kinds(report) == ["uninitialised"]


def test_exit_before_the_store_has_read(kit, tensor_map):
    _, tensor, memory_ = tensor_2d(kit, tensor_map, "bf16", 16, 64, (64, 8))
    report = store_box(kit, tensor, (0, 0), 1024, memory_, wait=False)
    assert kinds(report) == ["in_flight"]
    assert "exits before its bulk store has read shared memory" in report.findings[0].message


def test_reusing_the_source_without_wait_shows(kit, tensor_map):
    wrong = 0
    for seed in range(8):
        data, tensor, memory_ = tensor_2d(kit, tensor_map, "bf16", 16, 64, (64, 8))
        store_box(kit, tensor, (0, 0), 1024, memory_, wait=False, reuse=True, seed=seed)
        wrong += not np.array_equal(data[:8].reshape(-1), pattern(1024))
        data, tensor, memory_ = tensor_2d(kit, tensor_map, "bf16", 16, 64, (64, 8))
        store_box(kit, tensor, (0, 0), 1024, memory_, reuse=True, seed=seed)
        np.testing.assert_array_equal(data[:8].reshape(-1), pattern(1024))
    assert wrong
