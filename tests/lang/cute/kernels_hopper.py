"""A Hopper GEMM in every form that the atoms have, for `test_programs`."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.lang import cute
from tilewright.lang.arguments import Constexpr, const_expr
from tilewright.lang.cute.smem import SmemAllocator
from tilewright.lang.ranges import range_constexpr
from tilewright.lang.values import BFloat16, Float32, Int64

wg = cute.nvgpu.warpgroup
cpasync = cute.nvgpu.cpasync
warp = cute.nvgpu.warp


@dataclass(frozen=True)
class Config:
    tile: tuple[int, int, int] = (128, 64, 64)
    stages: int = 3
    a_major: str = "K"
    b_major: str = "K"
    swizzle: str = "SW128"
    cluster: int = 1
    a_in_registers: bool = False
    element: type = BFloat16

    @property
    def groups(self) -> int:
        return self.tile[0] // 64


@cute.kernel
def hopper(
    tma_a,
    mA,
    tma_b,
    mB,
    tma_c,
    mC,
    mma: cute.TiledMma,
    sA_layout,
    sB_layout,
    sC_layout,
    c: Constexpr,
):
    bm, bn, bk = c.tile
    tidx, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    rank = cute.arch.block_idx_in_cluster()
    group = cute.arch.make_warp_uniform(tidx // 128)
    smem = SmemAllocator()
    sA = smem.allocate_tensor(c.element, sA_layout, 1024, label="sA")  # (BM, BK, STAGE)
    sB = smem.allocate_tensor(c.element, sB_layout, 1024, label="sB")  # (BN, BK, STAGE)
    sC = smem.allocate_tensor(BFloat16, sC_layout, 1024, label="sC")  # (BM, BN)
    full = smem.allocate_array(Int64, c.stages, label="full")
    empty = smem.allocate_array(Int64, c.stages, label="empty")
    if tidx == 0:
        for i in range_constexpr(c.stages):
            cute.arch.mbarrier_init(full + i, 1)
            cute.arch.mbarrier_init(empty + i, c.groups * c.cluster)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    if const_expr(c.cluster > 1):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
    gA = cute.local_tile(mA, (bm, bk), (bx, None))  # (BM, BK, k)
    gB = cute.local_tile(mB, (bn, bk), (by, None))  # (BN, BK, k)
    blocks = cute.make_layout(c.cluster)
    tAsA, tAgA = cpasync.tma_partition(  # (TMA, STAGE), (TMA, k)
        tma_a, 0, cute.make_layout(1), cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2)
    )
    tBsB, tBgB = cpasync.tma_partition(
        tma_b, rank, blocks, cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2)
    )
    tiles = cute.size(gA, mode=[2])
    if group == c.groups:
        if cute.arch.make_warp_uniform(tidx // 32) == 4 * c.groups:
            with cute.arch.elect_one():
                for k in range(tiles):
                    stage, phase = k % c.stages, k // c.stages & 1
                    cute.arch.mbarrier_wait(empty + stage, phase ^ 1)
                    nbytes = (bm + bn) * bk * c.element.width // 8
                    cute.arch.mbarrier_arrive_and_expect_tx(full + stage, nbytes)
                    bar = full + stage
                    cute.copy(tma_a, tAgA[None, k], tAsA[None, stage], tma_bar_ptr=bar)
                    if const_expr(c.cluster > 1):
                        cute.copy(
                            tma_b,
                            tBgB[None, k],
                            tBsB[None, stage],
                            tma_bar_ptr=bar,
                            mcast_mask=(1 << c.cluster) - 1,
                        )
                    else:
                        cute.copy(tma_b, tBgB[None, k], tBsB[None, stage], tma_bar_ptr=bar)
    else:
        thread = tidx % 128
        thr = mma.get_slice(group * 128 + thread)
        tCsA = thr.partition_A(sA)  # (MMA, MMA_M, MMA_K, STAGE)
        rB = mma.make_fragment_B(thr.partition_B(sB))  # (MMA, MMA_N, MMA_K, STAGE)
        if const_expr(c.a_in_registers):
            rA = mma.make_fragment_A(tCsA[None, None, None, 0])
        else:
            rA = mma.make_fragment_A(tCsA)
        acc = mma.make_fragment_C(thr.partition_shape_C((bm, bn)))  # (MMA, MMA_M, MMA_N)
        mma.set(wg.Field.ACCUMULATE, False)
        for k in range(tiles):
            stage, phase = k % c.stages, k // c.stages & 1
            cute.arch.mbarrier_wait(full + stage, phase)
            if const_expr(c.a_in_registers):
                cute.autovec_copy(tCsA[None, None, None, stage], rA)
            wg.fence()
            for kk in range_constexpr(cute.size(rB, mode=[2])):
                if const_expr(c.a_in_registers):
                    cute.gemm(mma, acc, rA[None, None, kk], rB[None, None, kk, stage], acc)
                else:
                    a = rA[None, None, kk, stage]
                    cute.gemm(mma, acc, a, rB[None, None, kk, stage], acc)
                mma.set(wg.Field.ACCUMULATE, True)
            wg.commit_group()
            wg.wait_group(0)
            if thread < c.cluster:
                if const_expr(c.cluster > 1):
                    cute.arch.mbarrier_arrive(empty + stage, thread)
                else:
                    cute.arch.mbarrier_arrive(empty + stage)
        out = cute.make_fragment_like(acc, BFloat16)
        out.store(acc.load().to(BFloat16))
        store = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), BFloat16)
        tiled = cute.make_tiled_copy_C(store, mma)
        mine = group * 128 + thread
        cute.copy(tiled, tiled.retile(out), tiled.get_slice(mine).partition_D(sC))
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.barrier(barrier_id=1, number_of_threads=128 * c.groups)
        gC = cute.local_tile(mC, (bm, bn), (bx, by))
        tCsC, tCgC = cpasync.tma_partition(
            tma_c, 0, cute.make_layout(1), cute.group_modes(sC, 0, 2), cute.group_modes(gC, 0, 2)
        )
        if tidx == 0:
            cute.copy(tma_c, tCsC, tCgC)
            cute.arch.cp_async_bulk_commit_group()
            cute.arch.cp_async_bulk_wait_group(0, read=True)
    if const_expr(c.cluster > 1):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()


def staged(major: str, swizzle: str, shape, element):
    """A ring of tiles; the contiguous direction of each stays together."""
    kind = wg.SmemLayoutAtomKind[f"{major}_{swizzle}"]
    atom = wg.make_smem_layout_atom(kind, element)
    return cute.tile_to_shape(atom, shape, (0, 1, 2) if major == "K" else (1, 0, 2))


@cute.jit
def host(A: cute.Tensor, B: cute.Tensor, C: cute.Tensor, c: Constexpr):
    bm, bn, bk = c.tile
    source = wg.OperandSource.RMEM if c.a_in_registers else wg.OperandSource.SMEM
    if const_expr(c.element.width == 8):
        op = wg.MmaF8Op(c.element, c.element, Float32, (64, bn, 32), source)
    else:
        majors = wg.OperandMajorMode[c.a_major], wg.OperandMajorMode[c.b_major]
        op = wg.MmaF16BF16Op(c.element, Float32, (64, bn, 16), source, *majors)
    mma = cute.make_tiled_mma(op, (c.groups, 1, 1))
    sA = staged(c.a_major, c.swizzle, (bm, bk, c.stages), c.element)
    sB = staged(c.b_major, c.swizzle, (bn, bk, c.stages), c.element)
    kind = wg.SmemLayoutAtomKind.K_SW128
    sC = cute.tile_to_shape(wg.make_smem_layout_atom(kind, BFloat16), (bm, bn), (0, 1))
    load, store = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
    shared = cpasync.CopyBulkTensorTileG2SMulticastOp() if c.cluster > 1 else load
    one = (None, None, 0)
    tma_a, mA = cpasync.make_tiled_tma_atom(load, A, cute.slice_(sA, one), (bm, bk))
    tma_b, mB = cpasync.make_tiled_tma_atom(shared, B, cute.slice_(sB, one), (bn, bk), c.cluster)
    tma_c, mC = cpasync.make_tiled_tma_atom(store, C, sC, (bm, bn))
    m, n = C.shape
    hopper(tma_a, mA, tma_b, mB, tma_c, mC, mma, sA, sB, sC, c).launch(
        grid=(cute.ceil_div(m, bm), cute.ceil_div(n, bn), 1),
        block=(128 * (c.groups + 1), 1, 1),
        cluster=(c.cluster, 1, 1),
    )
