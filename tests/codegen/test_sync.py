"""Barriers, fences, collectives, copy engines: every instruction compiles on its first machine."""

from __future__ import annotations

import itertools

import pytest
from kernels import TENSOR_MAP, Kernel, gmem, scalar

from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.ir.ops import copy, sync
from tilewright.runtime.sass import opcode_counts
from tilewright.runtime.toolchain import compile_cubin


def test_collectives_and_barriers_compile_for_sm80() -> None:
    k = Kernel("collectives", x=gmem("i32"), f=gmem("f64"), h=gmem("bf16"))
    lane = k.special("lane", name="lane")
    a = k.load(k.at(k.x, lane), name="a")
    for n, (mode, width) in enumerate(itertools.product(("idx", "up", "down", "bfly"), (32, 8))):
        moved = k.v(sync.WarpShuffle, a, k.u32(1), mode=mode, width=width)
        k.store(k.at(k.x, n), moved)
    k.store(k.f, k.v(sync.WarpShuffle, k.load(k.f), k.u32(3), mode="bfly"))
    k.store(k.h, k.v(sync.WarpShuffle, k.load(k.h), k.u32(3), mode="idx"))
    positive = k.cmp(a, "gt", k.i32(0), name="positive")
    for n, mode in enumerate(("any", "all", "ballot")):
        k.store(k.at(k.x, n + 20), k.cast(k.v(sync.WarpVote, positive, mode=mode), "i32"))
    k.store(k.at(k.x, 30), k.v(sync.WarpUniform, k.div(lane, k.i32(4))))
    for register in ("thread_idx", "block_idx", "block_dim", "grid_dim"):
        for axis in range(3):
            k.store(k.at(k.x, axis), k.special(register, axis))
    k.store(k.x, k.special("smid"))
    k.store(k.x, k.cast(k.special("clock"), "i32"))
    bar = k.shared("u64", 2, 0, "bar", align=8)
    k.do(sync.MBarrierInit, bar, k.u32(1))
    k.do(sync.MBarrierArrive, k.at(bar, 1))
    k.do(sync.SyncThreads)
    k.do(sync.SyncWarp)
    k.do(sync.SyncWarp, mask=0xFF)
    k.do(sync.BarrierSync, k.u32(1), k.u32(64))
    k.do(sync.BarrierArrive, k.u32(2), k.u32(64))
    for scope in ("cta", "gpu", "sys"):
        k.do(sync.FenceAcqRel, scope=scope)
    text = emit_cuda(k.done(), line_info=False)
    compile_cubin(text, "collectives", "sm_80")
    for phrase in (
        "__shfl_xor_sync(0xffffffffu, a, 1, 8)",
        "__syncwarp(255u);",
        "h[0] = __shfl_sync(0xffffffffu, h[0], 3);",
        "= __shfl_sync(0xffffffffu, lane >> 2, 0);",
        "x[0] = blockIdx.x;",
        "barrier_sync(1, 64);",
        "mbarrier_arrive(smem_u32(bar + 1));",
    ):
        assert phrase in text, phrase


def hopper_instructions() -> Kernel:
    """Everything that needs sm_90 but no wgmma."""
    i32 = scalar("i32")
    k = Kernel("hopper", x=gmem("i32"), map=TENSOR_MAP, mask=scalar("u16"), c=i32)
    bar = k.shared("u64", 1, 0, "bar", align=8)
    box = k.shared("bf16", 4096, 1024, "box")
    k.do(copy.PrefetchDescriptor, k.map)
    k.do(sync.FenceMBarrierInit)
    for rank in range(1, 6):
        coords = [k.c, *(k.i32(n) for n in range(rank - 1))]
        for hint in ("", "evict_first", "evict_last", "evict_normal"):
            k.do(copy.TmaLoad, k.map, box, bar, *coords, cache_hint=hint)
            k.do(copy.TmaLoadMulticast, k.map, box, bar, k.mask, *coords, cache_hint=hint)
        k.do(copy.TmaStore, k.map, box, *coords)
    k.do(copy.BulkCommit)
    k.do(copy.BulkWait, pending=1)
    k.do(copy.BulkWait, pending=0, read=False)
    k.do(sync.MBarrierArriveRemote, bar, k.u32(1))
    k.do(sync.MBarrierArriveExpectTx, bar, k.u32(128))
    k.do(sync.MBarrierExpectTx, bar, k.u32(128))
    k.do(sync.MBarrierWait, bar, k.u32(0))
    ready = k.v(sync.MBarrierTryWait, bar, k.u32(1), name="ready")
    k.store(k.x, k.cast(ready, "i32"))
    for space in ("shared", "all"):
        k.do(sync.FenceProxyAsync, space=space)
    k.do(sync.FenceAcqRel, scope="cluster")
    for relaxed in (False, True):
        k.do(sync.ClusterArrive, relaxed=relaxed)
        k.do(sync.ClusterWait)
    leader = k.v(sync.ElectOne, name="leader")
    k.branch(leader, lambda: k.store(k.at(k.x, 1), k.special("cluster_rank")))
    for register in ("cluster_dim", "block_in_cluster"):
        for axis in range(3):
            k.store(k.at(k.x, 2 + axis), k.special(register, axis))
    k.do(sync.GridDependencyWait)
    k.do(sync.GridDependencyLaunch)
    fragment = k.registers("bf16", 8, "fragment")
    for num, transpose in itertools.product((1, 2, 4), (False, True)):
        k.do(copy.LdMatrix, box, fragment, num=num, transpose=transpose)
        k.do(copy.StMatrix, fragment, box, num=num, transpose=transpose)
    k.func.cluster = (2, 1, 1)
    k.func.max_threads = 128
    return k


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_hopper_instructions_compile(target: str) -> None:
    text = emit_cuda(hopper_instructions().done(), line_info=False)
    compile_cubin(text, "hopper", target)
    for phrase in (
        "__cluster_dims__(2, 1, 1) __launch_bounds__(128, 1)",
        "  if (elect_one()) {",
        "tma_load_3d_multicast_hint(smem_u32(box), &map, smem_u32(bar), c, 0, 1, mask, "
        "0x14f0000000000000ull);",
        "tma_wait_read<1>();",
    ):
        assert phrase in text, phrase


def test_a_remote_arrival_does_not_fence_the_whole_gpu() -> None:
    k = Kernel("remote")
    bar = k.shared("u64", 1, 0, "bar", align=8)
    k.do(sync.MBarrierArriveRemote, bar, k.u32(1))
    k.func.cluster = (2, 1, 1)
    counts = opcode_counts(compile_cubin(emit_cuda(k.done()), "remote", "sm_90a").cubin)
    assert not [op for op in counts if op.startswith(("MEMBAR", "ERRBAR"))]


def test_register_budgets_compile_with_launch_bounds() -> None:
    k = Kernel("budget", x=gmem("i32"))
    k.func.max_threads = 256
    group = k.v(sync.WarpUniform, k.div(k.special("thread_idx"), k.i32(128)), name="group")
    k.branch(
        k.cmp(group, "eq", k.i32(0)),
        lambda: k.do(sync.SetMaxRegister, count=40, increase=False) and None,
        lambda: k.do(sync.SetMaxRegister, count=232, increase=True) and None,
    )
    k.store(k.at(k.x, k.special("thread_idx")), group)
    text = emit_cuda(k.done(), line_info=False)
    counts = opcode_counts(compile_cubin(text, "budget", "sm_90a").cubin)
    assert sum(n for op, n in counts.items() if op.startswith("USETMAXREG")) == 2


def test_cp_async_and_ldmatrix_compile_for_sm80() -> None:
    k = Kernel("ampere", x=gmem("f16"), ok=scalar("bool"))
    tile = k.shared("f16", 1024, 0, "tile")
    for size, cache in ((4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")):
        k.do(copy.CpAsync, k.x, tile, bytes=size, cache=cache)
        k.do(copy.CpAsync, k.x, tile, k.ok, bytes=size, cache=cache)
    k.do(copy.CpAsyncCommit)
    k.do(copy.CpAsyncWait, pending=0)
    fragment = k.registers("f16", 8, "fragment")
    for num, transpose in itertools.product((1, 2, 4), (False, True)):
        k.do(copy.LdMatrix, tile, fragment, num=num, transpose=transpose)
    k.store(k.x, k.load(k.at(fragment, 3)))
    text = emit_cuda(k.done(), line_info=False)
    cubin = compile_cubin(text, "ampere", "sm_80")
    assert cubin.stack_bytes == 0
    assert "cp_async16_cg_zfill(smem_u32(tile), x, ok);" in text
    assert "ldmatrix_x4_trans(fragment, smem_u32(tile));" in text


def test_a_read_stays_between_the_barriers_around_it() -> None:
    k = Kernel("between", x=gmem("f32"))
    tile = k.shared("f32", 64, 0, "tile")
    value = k.load(tile)
    k.do(sync.SyncThreads)
    k.store(k.x, value)
    text = emit_cuda(k.done(), line_info=False)
    assert "const float v0 = tile[0];\n  __syncthreads();\n  x[0] = v0;\n" in text
