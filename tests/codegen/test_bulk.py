"""Distributed shared memory, bulk copies and reductions: every form compiles for its machine."""

from __future__ import annotations

import pytest
from kernels import TENSOR_MAP, Kernel, gmem, scalar

from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.ir.core import Value
from tilewright.ir.ops import bulk, copy, memory, sync
from tilewright.runtime.sass import opcode_counts
from tilewright.runtime.toolchain import compile_cubin


def peers(k: Kernel, element: str = "f32") -> tuple[Value, Value, Value]:
    """A buffer, the same buffer of CTA 1, and the mbarrier of that CTA."""
    s = k.shared(element, 1024, 0, "s")
    bar = k.shared("u64", 1, 8192, "bar", align=8)
    one = k.u32(1)
    return s, k.v(memory.MapShared, s, one, name="peer"), k.v(memory.MapShared, bar, one)


def count(counts: dict[str, int], opcode: str) -> int:
    """Instructions of one opcode, whatever its modifiers."""
    return sum(n for op, n in counts.items() if op.split(".")[0] == opcode)


def compiled(k: Kernel, target: str = "sm_90a") -> tuple[str, dict[str, int]]:
    text = emit_cuda(k.done(), line_info=False)
    cubin = compile_cubin(text, k.func.name, target)
    assert cubin.stack_bytes == 0
    return text, opcode_counts(cubin.cubin)


def test_loads_and_stores_of_a_peer() -> None:
    k = Kernel("peer_access", x=gmem("f32"))
    k.func.cluster = (2, 1, 1)
    s, peer, _ = peers(k)
    k.do(sync.ClusterArrive)
    k.do(sync.ClusterWait)
    t = k.special("thread_idx", name="t")
    own = k.load(k.at(s, t))
    k.store(k.at(peer, t), own)
    k.store(k.at(k.x, 64), k.load(k.at(peer, 8), 4))
    k.do(memory.Copy, k.at(peer, 16), k.at(s, 32), bytes=16)
    k.do(memory.Atomic, k.at(peer, 48), own, kind="add", scope="cluster")
    k.do(sync.ClusterArrive)
    k.do(sync.ClusterWait)
    text, counts = compiled(k)
    assert "map_shared(s, 1u)" in text
    assert "peer[t] = " in text
    assert count(counts, "LD") >= 2, counts
    assert count(counts, "ST") >= 1, counts
    assert "atom.relaxed.cluster.shared::cluster.add.f32" in text


def test_a_read_of_shared_memory_stays_before_a_write_that_may_reach_it() -> None:
    k = Kernel("own_rank", x=gmem("f32"))
    s, peer, _ = peers(k)
    before = k.load(s, name="before")
    k.store(peer, k.const(1.0, "f32"))  # rank 1 may be this CTA
    k.store(k.x, before)
    k.store(k.at(k.x, 1), k.load(peer))
    text = emit_cuda(k.done(), line_info=False)
    assert text.index("const float before = s[0];") < text.index("peer[0] = 1.0f;")


def test_bulk_copies() -> None:
    k = Kernel("bulk_copies", x=gmem("f32"), y=gmem("f32"), bytes=scalar("u32"))
    k.func.cluster = (2, 1, 1)
    s, peer, remote = peers(k)
    own = k.shared("u64", 1, 8200, "full", align=8)
    k.do(bulk.BulkLoad, k.x, s, own, k.bytes)
    k.do(bulk.BulkLoadMulticast, k.x, s, own, k.bytes, k.const(3, "u16"))
    k.do(bulk.BulkSend, s, peer, remote, k.u32(4096))
    k.do(bulk.BulkStore, s, k.y, k.bytes)
    k.do(copy.BulkCommit)
    k.do(copy.BulkWait, pending=0)
    text, counts = compiled(k)
    assert "bulk_load(smem_u32(s), x, bytes, smem_u32(full));" in text
    assert "bulk_store(y, smem_u32(s), bytes);" in text
    assert "bulk_load_multicast(smem_u32(s), x, bytes, smem_u32(full), 3);" in text
    assert count(counts, "UBLKCP") == 4, counts


@pytest.mark.parametrize("kind", bulk.REDUCTIONS)
def test_reductions_of_every_type(kind: str) -> None:
    for element in bulk.REDUCIBLE[kind]:
        k = Kernel("bulk_reduction", y=gmem(element))
        s, _, _ = peers(k, element)
        k.do(bulk.BulkReduce, s, k.y, k.u32(64), kind=kind)
        k.do(copy.BulkCommit)
        k.do(copy.BulkWait, pending=0, read=False)
        text, counts = compiled(k)
        assert f"bulk_reduce_{kind}_{element}(y, smem_u32(s), 64" in text
        assert count(counts, "UBLKRED") == 1, counts


@pytest.mark.parametrize("kind", bulk.REDUCTIONS)
def test_tensor_reductions_of_every_rank(kind: str) -> None:
    k = Kernel("tensor_reduction", map=TENSOR_MAP, c=scalar("i32"))
    s, _, _ = peers(k)
    for rank in range(1, 6):
        k.do(bulk.TmaReduce, k.map, s, *[k.c] * rank, kind=kind)
    k.do(copy.BulkCommit)
    k.do(copy.BulkWait, pending=0)
    text, counts = compiled(k)
    assert f"tma_reduce_{kind}_2d(&map, smem_u32(s), c, c);" in text
    assert count(counts, "UTMAREDG") == 5, counts


@pytest.mark.parametrize(("element", "width"), [("f32", 1), ("f32", 2), ("f32", 4), ("bf16", 8)])
def test_asynchronous_stores_of_every_width(element: str, width: int) -> None:
    k = Kernel("store_async", x=gmem(element))
    k.func.cluster = (2, 1, 1)
    _, peer, remote = peers(k, element)
    r = k.registers(element, 8, "r")
    k.store(r, k.load(k.x, 8 if element == "bf16" else 4))
    value = k.v(memory.Gather, r, indices=tuple(range(width)))
    k.do(bulk.StoreAsync, peer, value, remote)
    text, counts = compiled(k)
    nbytes = width * (2 if element == "bf16" else 4)
    assert f"store_async{nbytes}(cluster_u32(" in text
    assert count(counts, "STAS") == 1, counts


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_arrival_of_cp_async(target: str) -> None:
    k = Kernel("cp_async_arrival", x=gmem("f32"))
    s = k.shared("f32", 64, 0, "s")
    bar = k.shared("u64", 1, 256, "bar", align=8)
    k.do(copy.CpAsync, k.x, s, bytes=16)
    k.do(copy.CpAsyncArrive, bar)
    text, _ = compiled(k, target)
    assert "cp_async_arrive(smem_u32(bar));" in text
