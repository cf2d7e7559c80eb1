"""Loads, stores, register arrays, copies, atomics; and every way to get them wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import LaunchError, ResourceError, SimulationError
from tilewright.ir.ops import arith, memory, sync
from tilewright.numeric.convert import convert
from tilewright.numeric.dtypes import BF16, BOOL, F32, I8, I32, I64, U8, U32
from tilewright.sim.machine import GlobalMemory, SimOptions

QUIET = SimOptions(raise_on_findings=False)


def kinds(report):
    return [f.kind for f in report.findings]


def test_vector_loads_of_every_size(kit):
    for dt, count in ((F32, 4), (BF16, 8), (I8, 16), (I64, 2), (U8, 2)):
        k = kit(kit.gmem(dt), kit.gmem(dt))
        x, o = k.args
        t = k.mul(k.tid(), count)
        k.do(memory.Store, k.at(o, t, count), k.load(x, t, count=count, divisor=count))
        a = np.random.default_rng(0).integers(0, 255, 64 * 16, dtype=np.uint8)
        b = np.zeros_like(a)
        k.run(a, b, block=64 * 16 // (dt.bits // 8 * count))
        np.testing.assert_array_equal(a, b)


def test_shared_memory_transpose(kit):
    k = kit(kit.gmem(F32), kit.gmem(F32))
    x, o = k.args
    s = k.shared(F32, 16 * 17, label="tile")
    i, j = k.tid(0), k.tid(1)
    k.store(s, k.add(k.mul(j, 17), i), k.load(x, k.add(k.mul(j, 16), i)))
    k.do(sync.SyncThreads)
    k.store(o, k.add(k.mul(j, 16), i), k.load(s, k.add(k.mul(i, 17), j)))
    a = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    b = np.zeros_like(a)
    report = k.run(a, b, block=(16, 16))
    np.testing.assert_array_equal(b, a.T)
    assert report.counters["shared_written_bytes"] == 1024
    assert report.counters["global_read_bytes"] == 1024


def test_shared_memory_belongs_to_one_block(kit):
    k = kit(kit.gmem(I32))
    (o,) = k.args
    s = k.shared(I32, 1)
    k.if_(k.cmp("eq", k.tid(), 0), lambda: k.store(s, 0, k.bid()))
    k.do(sync.SyncThreads)
    k.store(o, k.add(k.mul(k.bid(), 32), k.tid()), k.load(s))
    got = np.zeros(96, np.int32)
    k.run(got, grid=3)
    np.testing.assert_array_equal(got, np.arange(96) // 32)


def test_register_arrays(kit):
    k = kit(kit.gmem(F32), kit.gmem(F32))
    x, o = k.args
    r = k.registers(F32, 8, "acc")
    t = k.tid()
    for i in range(8):
        k.store(r, i, k.load(x, k.add(k.mul(t, 8), i)))
    v = k.v(memory.Gather, r, indices=(7, 6, 0, 1))
    k.do(memory.Scatter, r, v, indices=(0, 1, 6, 7))
    k.do(memory.Store, k.at(o, k.mul(t, 8), 8), k.load(r, 0, count=4))
    k.do(memory.Store, k.at(o, k.add(k.mul(t, 8), 4), 4), k.load(r, 4, count=4))
    a = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float32)
    b = np.zeros_like(a)
    k.run(a, b)
    want = a.copy()
    want[:, [0, 1, 6, 7]] = a[:, [7, 6, 0, 1]]
    np.testing.assert_array_equal(b, want)


@pytest.mark.parametrize("warps", [1, 2])
def test_gather_and_scatter_in_any_order(kit, warps):
    k = kit(kit.gmem(F32), kit.gmem(F32))
    x, o = k.args
    r = k.registers(F32, 8, "acc")
    t = k.mul(k.tid(), 8)

    def work():
        for i in (0, 4):
            k.do(memory.Store, k.at(r, i), k.load(x, k.add(t, i), count=4, divisor=4))
        v = k.v(memory.Gather, r, indices=(7, 0, 5, 0))
        k.do(memory.Scatter, r, v, indices=(1, 3, 5, 6))
        k.do(memory.Scatter, r, v, indices=(2, 0, 4, 2))  # the last of two stays
        for i in (0, 4):
            k.do(memory.Store, k.at(o, k.add(t, i), 4), k.load(r, i, count=4))

    k.if_(k.cmp("eq", k.mod(k.tid(), warps), 0), work)  # threads that are not consecutive
    a = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float32)
    b = np.zeros_like(a)
    k.run(a, b)
    want = a.copy()
    want[:, [1, 3, 5, 6]] = a[:, [7, 0, 5, 0]]
    want[:, [0, 4, 2]] = a[:, [0, 5, 0]]
    want[np.arange(32) % warps != 0] = 0
    np.testing.assert_array_equal(b, want)


def test_gather_outside_the_array(kit):
    k = kit()
    r = k.registers(F32, 4, "acc")
    k.do(memory.Store, r, k.v(arith.Splat, k.c(0, F32), count=4))
    v = k.v(memory.Gather, r, indices=(3, 1, 4))
    k.do(memory.Scatter, r, v, indices=(3, 1, 5))
    report = k.run(quiet=True)
    assert kinds(report) == ["register_index"] * 2
    assert "index 4 of register array acc, which has 4 elements" in report.findings[0].message


def test_register_views_of_other_types(kit):
    k = kit(kit.gmem(U32))
    (o,) = k.args
    r = k.registers(BF16, 4)
    for i in range(4):
        k.store(r, i, k.c(float(i + 1), BF16))
    wide = k.v(memory.CastPointer, k.at(r, 2), dtype="u32", align=4)
    k.store(o, k.tid(), k.load(wide))
    got = np.zeros(32, np.uint32)
    k.run(got)
    bits = convert(np.float32([3, 4]), F32, BF16).view(np.uint32)[0]
    assert (got == bits).all()


def test_dynamic_register_index(kit):
    k = kit(kit.gmem(I32), kit.scalar(I32))
    o, n = k.args
    r = k.registers(I32, 4, "table")
    k.for_(0, 4, 1, lambda i: k.store(r, i, k.mul(i, 10)))
    k.store(o, k.tid(), k.load(r, k.mod(k.add(k.tid(), n), 4)))
    got = np.zeros(32, np.int32)
    k.run(got, 1)
    np.testing.assert_array_equal(got, (np.arange(32) + 1) % 4 * 10)


def test_copies_between_all_memories(kit):
    k = kit(kit.gmem(BF16), kit.gmem(BF16))
    x, o = k.args
    s, r = k.shared(BF16, 32 * 8), k.registers(BF16, 8)
    t = k.mul(k.tid(), 8)
    at = lambda p: k.at(p, t, 8)  # noqa: E731
    k.do(memory.Copy, at(x), at(s), bytes=16)
    k.do(memory.Copy, at(s), r, bytes=16)
    k.do(memory.Copy, r, at(o), k.cmp("lt", k.tid(), 30), bytes=16)
    a = np.random.default_rng(0).integers(0, 2**16, (32, 8), dtype=np.uint16)
    b = np.zeros_like(a)
    k.run(a, b)
    np.testing.assert_array_equal(b[:30], a[:30])
    assert (b[30:] == 0).all()


def test_predicated_copy_does_not_touch_memory(kit):
    k = kit(kit.gmem(F32), kit.gmem(F32))
    x, o = k.args
    inside = k.cmp("lt", k.tid(), 5)
    k.do(memory.Copy, k.at(x, k.tid()), k.at(o, k.tid()), inside, bytes=4)
    a, b = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    k.run(a, b)
    np.testing.assert_array_equal(a, b)


def test_atomics(kit):
    k = kit(kit.gmem(I32), kit.gmem(I32))
    counter, o = k.args
    old = k.v(memory.Atomic, counter, k.c(2, I32), kind="add")
    k.v(memory.Atomic, k.at(counter, 1), k.tid(), kind="max")
    k.v(memory.Atomic, k.at(counter, k.add(2, k.mod(k.tid(), 2))), k.tid(), kind="exch")
    k.store(o, k.tid(), old)
    c, got = np.int32([5, 0, 0, 0]), np.zeros(32, np.int32)
    k.run(c, got)
    assert c.tolist() == [69, 31, 30, 31]
    assert sorted(got.tolist()) == list(range(5, 69, 2))


def test_bools_in_memory(kit):
    k = kit(kit.gmem(BOOL), kit.gmem(I32))
    x, o = k.args
    k.store(o, k.tid(), k.cast(k.load(x, k.tid()), I32))
    a = np.uint8([0, 1, 2, 255] * 8)
    got = np.zeros(32, np.int32)
    k.run(a, got)
    np.testing.assert_array_equal(got, (a != 0).astype(int))


# -- findings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shift", "found"), [(0, []), (1, ["out_of_bounds"]), (-1, ["out_of_bounds"])]
)
def test_global_out_of_bounds(kit, shift, found):
    k = kit(kit.gmem(F32), kit.gmem(F32))
    x, o = k.args
    k.store(o, k.tid(), k.load(x, k.add(k.tid(), shift)))
    a, b = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    report = k.run(a, b, quiet=True)
    assert kinds(report) == found
    if shift == 1:
        (f,) = report.findings
        assert "0 bytes behind the end of arg0 (128 bytes)" in f.message
        assert f.agent.endswith("thread 31 (warp 0, lane 31)")
        assert "test_exec_memory.py" in str(f)
        np.testing.assert_array_equal(b[:31], a[1:])  # the other lanes go on
    if shift == -1:
        assert "4 bytes before the start of arg0" in report.findings[0].message


@pytest.mark.parametrize(("size", "found"), [(64, []), (60, ["out_of_bounds"])])
def test_shared_out_of_bounds(kit, size, found):
    k = kit()
    s = k.shared(F32, size, label="s")
    k.store(s, k.add(k.tid(), 32), k.c(1, F32))
    report = k.run(quiet=True)
    assert kinds(report) == found
    if found:
        assert "byte 240 of the block's 240 bytes of shared memory" in report.findings[0].message


@pytest.mark.parametrize(("step", "found"), [(2, []), (1, ["misaligned"])])
def test_misaligned(kit, step, found):
    k = kit(kit.gmem(F32))
    (x,) = k.args
    k.load(x, k.mul(k.tid(), step), count=2, divisor=2)  # claims a divisor that may be wrong
    report = k.run(np.zeros(64, np.float32), quiet=True)
    assert kinds(report) == found
    if found:
        assert "8 bytes are read at address" in report.findings[0].message
        assert report.findings[0].count == 16


@pytest.mark.parametrize(("limit", "found"), [(32, []), (31, ["uninitialised"])])
def test_uninitialised_shared_memory(kit, limit, found):
    k = kit()
    s = k.shared(F32, 32, label="tile")
    k.if_(k.cmp("lt", k.tid(), limit), lambda: k.store(s, k.tid(), k.c(1, F32)))
    k.load(s, k.tid())
    report = k.run(quiet=True)
    assert kinds(report) == found
    if found:
        assert "4 bytes of shared memory at tile[31] are read" in report.findings[0].message
        assert k.run(options=SimOptions(check_uninitialised=False)).findings == ()


@pytest.mark.parametrize(("limit", "found"), [(32, []), (31, ["uninitialised"])])
def test_uninitialised_registers(kit, limit, found):
    k = kit()
    r = k.registers(F32, 4, "acc")
    k.if_(k.cmp("lt", k.tid(), limit), lambda: k.store(r, 2, k.c(1, F32)))
    k.load(r, 2)
    report = k.run(quiet=True)
    assert kinds(report) == found
    if found:
        assert "element 2 of register array acc is read before" in report.findings[0].message


def test_an_allocation_in_a_loop_starts_undefined_each_time(kit):
    k = kit()

    def body(i):
        r = k.registers(F32, 1, "fresh")
        k.if_(k.cmp("eq", i, 0), lambda: k.store(r, 0, k.c(1, F32)))
        k.load(r, 0)

    k.for_(0, 2, 1, body)
    assert kinds(k.run(quiet=True)) == ["uninitialised"]


@pytest.mark.parametrize(("top", "found"), [(4, []), (5, ["register_index"])])
def test_register_index(kit, top, found):
    k = kit()
    r = k.registers(I32, 4, "table")
    k.for_(0, top, 1, lambda i: k.store(r, i, i))
    report = k.run(quiet=True)
    assert kinds(report) == found
    k = kit()
    r = k.registers(I32, 4, "table")
    k.store(r, k.mod(k.tid(), top), 1)
    report = k.run(quiet=True)
    assert kinds(report) == found
    if found:
        assert "index 4 of register array table, which has 4 elements" in report.findings[0].message


def test_errors_carry_all_findings(kit):
    k = kit(kit.gmem(F32))
    (x,) = k.args
    k.load(x, 100)
    k.load(x, -100)
    with pytest.raises(
        SimulationError, match=r"simulate kernel: out_of_bounds: .*\(and 1 more\)"
    ) as e:
        k.run(np.zeros(4, np.float32))
    assert [f.loc.line for f in e.value.findings] == sorted(f.loc.line for f in e.value.findings)
    assert len(e.value.findings) == 2


def test_only_so_many_findings_are_kept(kit):
    k = kit(kit.gmem(F32))
    (x,) = k.args
    for i in range(5):
        k.load(x, 100 + i)
    options = SimOptions(raise_on_findings=False, max_findings=3)
    assert len(k.run(np.zeros(4, np.float32), options=options).findings) == 3


# -- the launch -----------------------------------------------------------------------------------


def test_addresses_keep_their_alignment():
    m = GlobalMemory()
    a = m.map(np.zeros(10, np.uint8), "a", 0x12345)
    b = m.map(np.zeros(10, np.uint8), "b", 0x12345)
    assert a % 4096 == b % 4096 == 0x345
    assert b > a + 10 + 4096


def test_map_wants_bytes():
    with pytest.raises(LaunchError, match="map x: got float32 with 2 dimensions"):
        GlobalMemory().map(np.zeros((2, 2), np.float32), "x", 0)


@pytest.mark.parametrize(
    ("kw", "error", "text"),
    [
        ({"block": 2000}, LaunchError, r"has 2000 threads, expected 1 to 1024"),
        ({"grid": 3, "cluster": (2, 1, 1)}, LaunchError, "is not a multiple of cluster"),
        ({"smem_bytes": 300_000}, ResourceError, "300,000 bytes .* may use 232,448"),
    ],
)  # fmt: skip
def test_launches_that_do_not_fit(kit, kw, error, text):
    with pytest.raises(error, match=text):
        kit().run(**kw)


def test_arguments_must_fit(kit):
    k = kit(kit.gmem(F32))
    with pytest.raises(
        LaunchError, match="argument 0 is the address 0x4, expected a multiple of 16"
    ):
        k.run(4)
    k = kit(kit.tensormap())
    with pytest.raises(LaunchError, match="argument 0 is 4, expected tensormap"):
        k.run(4)
    k = kit(kit.gmem(F32))
    k.max_threads = 64
    with pytest.raises(LaunchError, match="the kernel was made for at most 64"):
        k.run(np.zeros(4, np.float32), block=128)
