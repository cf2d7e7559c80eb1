"""The Hopper main loop: TMA fills a ring of shared-memory stages, wgmma empties it.

    producer   wait empty -> announce bytes -> TMA A, TMA B          (for every k tile)
    consumer   wait full -> wgmma steps -> wait for the group before -> release its stage

The producer is one thread; a consumer is a warpgroup.  Each of A and B has K contiguous, or its
other index.  The schedule (who multiplies which rows of which tile) is the caller's.
"""

from __future__ import annotations

from typing import Any

from tilewright.collective.multicast import Multicast
from tilewright.collective.pipeline import PipelineState, PipelineTmaAsync
from tilewright.lang import cute
from tilewright.lang.cute import nvgpu
from tilewright.lang.ranges import range_, range_constexpr
from tilewright.lang.values import Float32, Int32

cpasync, warpgroup = nvgpu.cpasync, nvgpu.warpgroup


def stage_layout(element: Any, rows: int, k: int, stages: int, major: str) -> Any:
    """(ROWS, K, STAGE): an operand's ring.  `major` is K, or M or N where that is contiguous.

    With K contiguous a row of 64 elements is one 128-byte swizzle span, else 64 rows are.
    """
    kinds = warpgroup.SmemLayoutAtomKind
    if major == "K":
        atom = warpgroup.make_smem_layout_atom(kinds.K_SW128, element)
        return cute.tile_to_shape(atom, (rows, k, stages), order=(0, 1, 2))
    # The widest swizzle whose atoms fill the tile: 64, 32 or 16 rows of 2 bytes.
    atoms = {64: kinds.MN_SW128, 32: kinds.MN_SW64, 16: kinds.MN_SW32}
    kind = next(kind for width, kind in atoms.items() if rows % width == 0)
    atom = warpgroup.make_smem_layout_atom(kind, element)
    return cute.tile_to_shape(atom, (rows, k, stages), order=(1, 0, 2))


def wgmma_op(element: Any, columns: int, a_major: str = "K", b_major: str = "K") -> Any:
    """64 x `columns` x 16 on the tensor cores, both operands in shared memory."""
    modes = warpgroup.OperandMajorMode
    return warpgroup.MmaF16BF16Op(
        element,
        Float32,
        (64, columns, 16),
        warpgroup.OperandSource.SMEM,
        modes.K if a_major == "K" else modes.MN,
        modes.K if b_major == "K" else modes.MN,
    )


def make_load_atom(mX: Any, layout: Any, tile: tuple[int, int], blocks: int) -> tuple[Any, Any]:
    """On the host: the TMA load of one stage of an operand, shared by `blocks`; its coordinates."""
    many = cpasync.CopyBulkTensorTileG2SMulticastOp
    op = many() if blocks > 1 else cpasync.CopyBulkTensorTileG2SOp()
    return cpasync.make_tiled_tma_atom(op, mX, cute.slice_(layout, (None, None, 0)), tile, blocks)


class TmaProducer:
    """The thread that fills the ring with tiles of A (M,K,L) and B (N,K,L)."""

    def __init__(
        self,
        tma_a: Any,
        mA: Any,
        sA: Any,
        tma_b: Any,
        mB: Any,
        sB: Any,
        pipe: PipelineTmaAsync,
        tile_shape_mnk: tuple[int, int, int],
        multicast: Multicast | None = None,
    ) -> None:
        bm, bn, bk = tile_shape_mnk
        self.tma_a, self.tma_b, self.pipe = tma_a, tma_b, pipe
        # Which blocks a load goes to, and which part of a stage this block loads for them.
        cast = multicast or Multicast((1, 1), 0)
        self.a_blocks, self.b_blocks = cast.mask_a(), cast.mask_b()
        row, column = cute.make_layout(cast.shape[1]), cute.make_layout(cast.shape[0])
        gA = cute.local_tile(mA, (bm, bk), (None, None, None))  # (BM, BK, m, k, L)
        gB = cute.local_tile(mB, (bn, bk), (None, None, None))  # (BN, BK, n, k, L)
        self.sA, self.gA = cpasync.tma_partition(  # (TMA, STAGE), (TMA, m, k, L)
            tma_a, cast.n, row, cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2)
        )
        self.sB, self.gB = cpasync.tma_partition(  # (TMA, STAGE), (TMA, n, k, L)
            tma_b, cast.m, column, cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2)
        )

    @cute.jit
    def fill(
        self, state: PipelineState, tile: Any, k_first: Any, k_tiles: Any, fresh: bool = False
    ) -> None:
        """Loads `k_tiles` k tiles from `k_first` on, for one output tile; into `fresh` stages."""
        for k in range_(k_tiles, unroll=1):
            full = self.pipe.producer_acquire(state, fresh)
            a = self.gA[None, tile.m, k_first + k, tile.batch]
            b = self.gB[None, tile.n, k_first + k, tile.batch]
            sA, sB = self.sA[None, state.index], self.sB[None, state.index]
            cute.copy(self.tma_a, a, sA, tma_bar_ptr=full, mcast_mask=self.a_blocks)
            cute.copy(self.tma_b, b, sB, tma_bar_ptr=full, mcast_mask=self.b_blocks)
            state.advance()


class WgmmaConsumer:
    """A warpgroup that multiplies `rows` rows of each stage's A, from `part * rows` on, with B.

    `acc` (MMA, MMA_M, MMA_N) are its accumulators, which it overwrites with each tile.
    """

    def __init__(
        self,
        sA: Any,
        sB: Any,
        pipe: PipelineTmaAsync,
        tiled_mma: Any,
        rows: int,
        part: Any,
        first_lane: Any,
    ) -> None:
        self.pipe, self.tiled_mma, self.first_lane = pipe, tiled_mma, first_lane
        columns, bk = cute.size(sB, mode=[0]), cute.size(sA, mode=[1])
        own_A = cute.local_tile(sA, (rows, bk), (part, 0, None))  # (ROWS, BK, STAGE)
        thr_mma = tiled_mma.get_slice(0)
        self.rA = tiled_mma.make_fragment_A(thr_mma.partition_A(own_A))  # (MMA, M, K, STAGE)
        self.rB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))  # (MMA, N, K, STAGE)
        self.acc = tiled_mma.make_fragment_C(tiled_mma.partition_shape_C((rows, columns)))

    def begin(self, piece: Any) -> None:
        """Called before each piece of work: its k tiles come by themselves."""

    def release(self, stage: Any) -> None:
        """Gives back a stage that has been read, other than the last one of a piece."""
        self.pipe.consumer_release(stage, self.first_lane)

    @cute.jit
    def multiply(self, state: PipelineState, k_tiles: Any) -> Any:
        """Issues the products of `k_tiles` k tiles; returns the stage that is still being read."""
        previous = Int32(0)
        for k in range_(k_tiles, unroll=1):
            self.pipe.consumer_wait(state)
            warpgroup.fence()
            for kk in range_constexpr(cute.size(self.rA, mode=[2])):
                # The first step of a tile overwrites the accumulator: it is never zeroed.
                self.tiled_mma.set(warpgroup.Field.ACCUMULATE, k > 0 if kk == 0 else True)
                a = self.rA[None, None, kk, state.index]
                b = self.rB[None, None, kk, state.index]
                cute.gemm(self.tiled_mma, self.acc, a, b, self.acc)
            warpgroup.commit_group()
            # One group stays in flight; the one before it has read its stage.
            warpgroup.wait_group(1)
            if k > 0:
                self.release(previous)
            previous = state.index
            state.advance()
        return previous

    def finish(self, last_stage: Any) -> None:
        """Waits for the accumulators and releases the last stage."""
        warpgroup.wait_group(0)
        self.pipe.consumer_release(last_stage, self.first_lane)
