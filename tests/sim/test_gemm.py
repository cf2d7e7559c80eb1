"""Whole kernels, as the language would emit them: a warp-specialised Hopper GEMM and a SIMT one."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.arch.descriptor import encode
from tilewright.ir.ops import arith, copy, memory, mma, sync
from tilewright.numeric.convert import convert
from tilewright.numeric.dtypes import BF16, BOOL, F32, I32, U32, U64
from tilewright.sim.machine import SimOptions

BM, BN, BK, STAGES = 128, 256, 64, 3
ATOM = "SM90_64x256x16_F32BF16BF16_SS_KK"


def hopper_gemm(kit, steps, bug=""):
    """D = A B^T: one producer warpgroup, two consumers, a TMA ring, stmatrix and a TMA store."""
    k = kit(kit.tensormap(), kit.tensormap(), kit.tensormap(), names=["A", "B", "D"])
    k.max_threads = 384
    tma_a, tma_b, tma_d = k.args
    sa = k.shared(BF16, STAGES * BM * BK, 1024, "sA")
    sb = k.shared(BF16, STAGES * BN * BK, 1024, "sB")
    sd = k.shared(BF16, BM * BN, 1024, "sD")
    full, empty = k.shared(U64, STAGES, 8, "full"), k.shared(U64, STAGES, 8, "empty")
    t = k.tid()
    warp = k.v(sync.WarpUniform, k.div(t, 32))
    wg = k.v(sync.WarpUniform, k.div(t, 128))

    def init():
        for s in range(STAGES):
            k.do(sync.MBarrierInit, k.at(full, s), k.u32(1))
            k.do(sync.MBarrierInit, k.at(empty, s), k.u32(1 if bug == "empty count" else 2))
        k.do(sync.FenceMBarrierInit)

    k.if_(k.cmp("eq", t, 0), init)
    k.do(sync.SyncThreads)

    def turn(stage, phase):
        """The next slot of the ring."""
        after = k.add(stage, 1)
        wraps = k.cmp("eq", after, STAGES)
        flipped = k.v(arith.Xor, phase, k.c(1, I32))
        return k.v(arith.Select, wraps, k.c(0, I32), after), k.v(
            arith.Select, wraps, flipped, phase
        )

    def produce(i, stage, phase):
        k.do(sync.MBarrierWait, k.at(empty, stage), k.cast(phase, U32))
        bar = k.at(full, stage)
        size = (BM + BN) * BK * 2
        k.do(sync.MBarrierArriveExpectTx, bar, k.u32(size + (128 if bug == "tx bytes" else 0)))
        kk = k.mul(i, BK)
        k.do(
            copy.TmaLoad, tma_a, k.at(sa, k.mul(stage, BM * BK), 1024), bar, kk, k.mul(k.bid(0), BM)
        )
        k.do(
            copy.TmaLoad, tma_b, k.at(sb, k.mul(stage, BN * BK), 1024), bar, kk, k.mul(k.bid(1), BN)
        )
        return turn(stage, phase)

    def producer():
        k.do(sync.SetMaxRegister, count=40, increase=False)

        def one_warp():
            k.if_(
                k.v(sync.ElectOne),
                lambda: void(k.for_(0, steps, 1, produce, [k.c(0, I32), k.c(1, I32)])),
            )

        k.if_(k.cmp("eq", warp, 0), one_warp)

    consumer_wg = k.sub(wg, 1)
    lane0 = k.cmp("eq", k.mod(t, 128), 0)

    def descriptor(base):
        address = k.cast(k.v(memory.SharedAddress, base), U64)
        low = k.v(arith.Shr, k.v(arith.And, address, k.c(0x3FFFF, U64)), k.c(4, U64))
        return k.v(arith.Or, low, k.c(encode(0, 16, 1024, "128B"), U64))

    def consumer():
        k.do(sync.SetMaxRegister, count=232, increase=True)
        acc = k.registers(F32, 128, "acc")

        def consume(i, stage, phase, before):
            if bug != "no full wait":
                k.do(sync.MBarrierWait, k.at(full, stage), k.cast(phase, U32))
            offset = k.add(k.mul(stage, BM * BK), k.mul(consumer_wg, 64 * BK))
            a, b = (
                descriptor(k.at(sa, offset, 1024)),
                descriptor(k.at(sb, k.mul(stage, BN * BK), 1024)),
            )
            k.do(mma.WgmmaFence)
            for s in range(4):
                add = k.cmp("gt", i, 0) if s == 0 else k.c(True, BOOL)
                step = k.c(2 * s, U64)
                k.do(mma.Wgmma, acc, k.add(a, step), k.add(b, step), add, atom=ATOM)
            k.do(mma.WgmmaCommit)
            k.do(mma.WgmmaWait, pending=0 if bug == "wait 0" else 1)
            released = stage if bug == "early release" else before
            some = k.cmp("ge", k.add(i, 1), 1 if bug == "early release" else 2)
            k.if_(
                k.v(arith.And, some, lane0),
                lambda: k.do(sync.MBarrierArrive, k.at(empty, released)) and None,
            )
            return (*turn(stage, phase), stage)

        k.for_(0, steps, 1, consume, [k.c(0, I32), k.c(0, I32), k.c(0, I32)])
        k.do(mma.WgmmaWait, pending=0)
        lane = k.mod(t, 128)
        row = k.add(k.mul(consumer_wg, 64), k.add(k.mul(k.div(lane, 32), 16), k.mod(lane, 16)))
        half = k.mod(k.div(lane, 16), 2)
        out = k.registers(BF16, 8, "out")
        for j in range(16):
            v = k.v(memory.Gather, acc, indices=tuple(range(8 * j, 8 * j + 8)))
            k.do(memory.Store, out, k.cast(v, BF16))
            at = k.add(k.mul(row, BN), k.add(k.mul(half, 8), 16 * j))
            k.do(copy.StMatrix, out, k.at(sd, at, 8), num=4, transpose=False)
        k.do(sync.FenceProxyAsync)
        k.do(sync.BarrierSync, k.cast(wg, U32), k.u32(128))

        def store():
            base = k.at(sd, k.mul(consumer_wg, 64 * BN), 1024)
            row0 = k.add(k.mul(k.bid(0), BM), k.mul(consumer_wg, 64))
            k.do(copy.TmaStore, tma_d, base, k.mul(k.bid(1), BN), row0)
            k.do(copy.BulkCommit)
            k.do(copy.BulkWait, pending=0)

        k.if_(lane0, store)

    k.if_(k.cmp("eq", wg, 0), producer, consumer)
    return k


def void(_):
    return ()


def run_hopper(kit, tensor_map, m, n, kk, bug="", seed=0):
    rng = np.random.default_rng(0)
    a, b = (convert(rng.integers(-3, 4, (r, kk)).astype(np.float32), F32, BF16) for r in (m, n))
    d = convert(np.full((m, n), np.nan, np.float32), F32, BF16)
    k = hopper_gemm(kit, kk // BK, bug)
    maps = [
        tensor_map("bf16", k.map(a, "A"), (kk, m), (2 * kk,), (BK, BM), "128B"),
        tensor_map("bf16", k.map(b, "B"), (kk, n), (2 * kk,), (BK, BN), "128B"),
        tensor_map("bf16", k.map(d, "D"), (n, m), (2 * n,), (256, 64)),
    ]
    report = k.run(
        *maps,
        grid=(m // BM, n // BN),
        block=384,
        options=SimOptions(seed=seed, raise_on_findings=False),
    )
    want = convert((a.astype(np.float32) @ b.astype(np.float32).T), F32, BF16)
    return np.array_equal(d.astype(np.float32), want.astype(np.float32)), report


def test_hopper_gemm(kit, tensor_map):
    right, report = run_hopper(kit, tensor_map, 256, 256, 512)
    assert report.findings == ()
    assert right
    assert report.counters["flops"] == 2 * 256 * 256 * 512


@pytest.mark.parametrize("seed", range(3))
def test_hopper_gemm_under_other_orders(kit, tensor_map, seed):
    right, report = run_hopper(kit, tensor_map, 128, 256, 448, seed=seed + 1)
    assert right
    assert report.findings == ()


@pytest.mark.parametrize(
    ("bug", "kind"),
    [
        ("tx bytes", "deadlock"),
        ("no full wait", "uninitialised"),
        ("empty count", ""),
        ("early release", ""),
    ],
)
def test_hopper_gemm_with_a_bug(kit, tensor_map, bug, kind):
    """Each is a report or, for some order of the engines, a wrong result."""
    caught = []
    for seed in range(6):
        right, report = run_hopper(kit, tensor_map, 128, 256, 448, bug, seed)
        caught.append(bool(report.findings) or not right)
        if kind and report.findings:
            assert kind in [f.kind for f in report.findings]
    assert any(caught)


def test_deadlock_report_of_a_gemm_names_roles_and_barriers(kit, tensor_map):
    _, report = run_hopper(kit, tensor_map, 128, 256, 256, "tx bytes")
    (f,) = [f for f in report.findings if f.kind == "deadlock"]
    assert "block (0, 0, 0), warps 4-11: mbarrier.wait" in f.message
    assert "parity 0 of mbarrier full[0]" in f.message
    assert "128 transaction bytes are missing" in f.message
    assert "thread 0: mbarrier.wait" in f.message
    assert "mbarrier empty[0]" in f.message
    assert f.message.startswith("2 groups of threads can never go on")


def simt_gemm(kit, kk):
    """128x128 tile by 256 threads, 8x8 each, 8-deep slices of A and B in shared memory."""
    k = kit(kit.gmem(F32), kit.gmem(F32), kit.gmem(F32), names=["A", "B", "D"])
    a, b, d = k.args
    sa, sb = k.shared(F32, 8 * 128, label="sA"), k.shared(F32, 8 * 128, label="sB")
    acc, ra, rb = k.registers(F32, 64, "acc"), k.registers(F32, 8, "ra"), k.registers(F32, 8, "rb")
    t = k.tid()
    tx, ty = k.mod(t, 16), k.div(t, 16)
    for i in range(64):
        k.store(acc, i, k.c(0, F32))

    def slice_(s):
        k.do(sync.SyncThreads)
        row, col = k.div(t, 2), k.mul(k.mod(t, 2), 4)
        for src, dst in ((a, sa), (b, sb)):
            v = k.load(src, k.add(k.mul(row, kk), k.add(k.mul(s, 8), col)), count=4, divisor=4)
            for j in range(4):
                k.store(dst, k.add(k.mul(k.add(col, j), 128), row), k.v(arith.Extract, v, index=j))
        k.do(sync.SyncThreads)
        for j in range(8):
            for src, dst, who in ((sa, ra, ty), (sb, rb, tx)):
                for h in range(2):
                    v = k.load(src, k.add(k.mul(who, 8), j * 128 + 4 * h), count=4, divisor=4)
                    k.do(memory.Store, k.at(dst, 4 * h), v)
            for m in range(8):
                for n in range(8):
                    at = k.at(acc, 8 * m + n)
                    r = k.v(arith.Fma, k.load(ra, m), k.load(rb, n), k.v(memory.Load, at))
                    k.do(memory.Store, at, r)

    k.for_(0, kk // 8, 1, slice_)
    for m in range(8):
        for n in range(0, 8, 4):
            v = k.load(acc, 8 * m + n, count=4)
            at = k.add(k.mul(k.add(k.mul(ty, 8), m), 128), k.add(k.mul(tx, 8), n))
            k.do(memory.Store, k.at(d, at, 4), v)
    return k


def test_simt_gemm(kit):
    rng = np.random.default_rng(0)
    kk = 128
    a, b = (rng.integers(-3, 4, (128, kk)).astype(np.float32) for _ in range(2))
    d = np.full((128, 128), np.nan, np.float32)
    k = simt_gemm(kit, kk)
    report = k.run(a, b, d, block=256)
    np.testing.assert_array_equal(d, a @ b.T)
    assert report.findings == ()
