"""The Hopper epilogue: registers -> stmatrix -> swizzled shared memory -> TMA.

Each consumer warpgroup writes its accumulators box by box.  A box is 64 rows and up to 64 columns.
The stores of a few boxes run while the next ones are computed, and while the next tile begins: a
buffer is waited for when it is needed again.  D has N or M contiguous; TMA clips at M and N.
"""

from __future__ import annotations

from typing import Any

from tilewright.collective.epilogue.fusion import Fusion
from tilewright.collective.pipeline import PipelineTmaStore
from tilewright.lang import cute
from tilewright.lang.cute import nvgpu
from tilewright.lang.ranges import range_constexpr
from tilewright.lang.values import Float32

cpasync, warp, warpgroup = nvgpu.cpasync, nvgpu.warp, nvgpu.warpgroup

WARPGROUP = 128
BOX = 64
"""Rows of a box, and the most columns: 64 elements of 2 bytes are one 128-byte swizzle span."""


STEP = 8
"""Elements of a thread that are computed together; half as many where others are loaded."""


def box_columns(columns: int) -> int:
    """The columns of a box for a tile of `columns`."""
    return min(columns, BOX)


def box_layout(element: Any, columns: int, d_major: str, buffers: int) -> Any:
    """(ROWS, COLUMNS, BUFFER): boxes in shared memory, swizzled along D's contiguous index."""
    kinds = warpgroup.SmemLayoutAtomKind
    if d_major == "M":
        atom = warpgroup.make_smem_layout_atom(kinds.MN_SW128, element)
        return cute.tile_to_shape(atom, (BOX, columns, buffers), order=(0, 1, 2))
    kind = {64: kinds.K_SW128, 32: kinds.K_SW64, 16: kinds.K_SW32}[columns]
    atom = warpgroup.make_smem_layout_atom(kind, element)
    return cute.tile_to_shape(atom, (BOX, columns, buffers), order=(0, 1, 2))


class TmaStore:
    """Stores one consumer's `tile` (rows, columns) of D.

    `sD` (ROWS, COLUMNS, BUFFER) are the boxes of this consumer: `boxes_at_once` times the number
    of turns that its `PipelineTmaStore` has.  `barrier` is a named barrier of its own.
    """

    def __init__(
        self,
        tma_d: Any,
        mD: Any,
        sD: Any,
        fusion: Fusion,
        tile: tuple[int, int],
        *,
        d_major: str,
        boxes_at_once: int,
        buffers: int,
        thread: Any,
        barrier: Any,
    ) -> None:
        self.tma_d, self.fusion, self.shape = tma_d, fusion, tile
        self.thread, self.barrier, self.at_once = thread, barrier, boxes_at_once
        self.pipe = PipelineTmaStore(buffers)
        element = sD.element_type
        self.box = (BOX, box_columns(tile[1]))
        box_mma = cute.make_tiled_mma(accumulator_op(element, self.box[1]))
        atom = cute.make_copy_atom(warp.StMatrix8x8x16bOp(d_major == "M", 4), element)
        self.copy = cute.make_tiled_copy_C(atom, box_mma)
        self.sD = self.copy.get_slice(thread).partition_D(sD)  # (CPY, CPY_M, CPY_N, BUFFER)
        self.rD = cute.make_rmem_tensor(box_mma.partition_shape_C(self.box), element)
        self.thr_mma, self.extent = box_mma.get_slice(thread), mD.shape[:2]
        gD = cute.local_tile(mD, self.box, (None, None, None))  # (ROWS, COLUMNS, m, n, L)
        self.tma_sD, self.tma_gD = cpasync.tma_partition(  # (TMA, BUFFER), (TMA, m, n, L)
            tma_d, 0, cute.make_layout(1), cute.group_modes(sD, 0, 2), cute.group_modes(gD, 0, 2)
        )

    @cute.jit
    def tile(self, acc: Any, tile_m: Any, tile_n: Any, batch: Any) -> None:
        """Stores the accumulators of tile (tile_m, tile_n) of a batch."""
        down, across = self.shape[0] // BOX, self.shape[1] // self.box[1]
        boxes = down * across
        values = cute.make_layout((BOX * self.box[1] // WARPGROUP, boxes))
        acc_boxes = cute.make_tensor(acc.iterator, values)
        box_m, box_n = tile_m * down, tile_n * across
        for turn in range_constexpr(boxes // self.at_once):
            first = turn * self.at_once
            buffer = turn % self.pipe.buffers * self.at_once
            if self.thread == 0:
                self.pipe.producer_acquire()
            self.sync()
            for x in range_constexpr(self.at_once):
                m, n = box_m + (first + x) // across, box_n + (first + x) % across
                self.compute(acc_boxes[None, first + x], (m, n, batch))
                into = self.sD[None, None, None, buffer + x]
                cute.copy(self.copy, self.copy.retile(self.rD), into)
            # Each writer makes its stores visible to TMA, then all wait for each other.
            cute.arch.fence_proxy("async.shared", space="cta")
            self.sync()
            if self.thread == 0:
                for x in range_constexpr(self.at_once):
                    m, n = box_m + (first + x) // across, box_n + (first + x) % across
                    box = self.tma_gD[None, m, n, batch]
                    cute.copy(self.tma_d, self.tma_sD[None, buffer + x], box)
                self.pipe.producer_commit()

    @cute.jit
    def compute(self, box: Any, place: Any) -> None:
        """The elements of one box, in steps of a few columns, so that few are on their way."""
        count = STEP // 2 if len(self.fusion.tensors) > 0 else STEP
        step = cute.make_layout((count, cute.size(box) // count))
        values, results = (cute.make_tensor(x.iterator, step) for x in (box, self.rD))
        fused = self.fusion.tile(self.thr_mma, self.box, place, self.extent)
        for i in range_constexpr(cute.size(box) // count):
            out = fused.apply(values[None, i].load(), i * count)
            results[None, i].store(out.to(self.rD.element_type))

    def sync(self) -> None:
        """Waits for the threads of this consumer."""
        cute.arch.barrier(barrier_id=self.barrier, number_of_threads=WARPGROUP)

    @cute.jit
    def finish(self) -> None:
        """Waits until the last stores have read shared memory."""
        if self.thread == 0:
            self.pipe.producer_tail()


def accumulator_op(element: Any, columns: int) -> Any:
    """The wgmma whose accumulators a box is made of."""
    majors = warpgroup.OperandMajorMode.K, warpgroup.OperandMajorMode.K
    source = warpgroup.OperandSource.SMEM
    return warpgroup.MmaF16BF16Op(element, Float32, (64, columns, 16), source, *majors)
