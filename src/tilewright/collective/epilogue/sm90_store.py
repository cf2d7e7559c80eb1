"""The Hopper epilogue: registers -> stmatrix -> swizzled shared memory -> TMA.

Each consumer warpgroup writes its accumulators box by box.  A box is 64 rows and up to 64 columns.
The stores of a few boxes run while the next ones are computed, and while the next tile begins: a
buffer is waited for when it is needed again.  D has N or M contiguous; TMA clips at M and N.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from tilewright.collective.epilogue.direct import DirectStore
from tilewright.collective.epilogue.fusion import Fusion, part_of
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


def box_widths(columns: int) -> tuple[int, ...]:
    """The widths of the boxes that a tile of `columns` is cut into: whole ones, then a rest.

    >>> box_widths(256), box_widths(16), box_widths(152)
    ((64,), (16,), (64, 24))
    """
    rest = columns % BOX
    return (BOX,) * (columns >= BOX) + (rest,) * (rest > 0)


def box_layout(element: Any, columns: int, d_major: str, buffers: int) -> Any:
    """(ROWS, COLUMNS, BUFFER): boxes in shared memory, swizzled along D's contiguous index.

    Rows of 24, 40, 48 or 56 elements are no swizzle span, but stmatrix meets no bank twice in them
    or, with 48, every second one.
    """
    kinds = warpgroup.SmemLayoutAtomKind
    if d_major == "M":
        kind = kinds.MN_SW128
    else:
        spans = {64: kinds.K_SW128, 32: kinds.K_SW64, 16: kinds.K_SW32}
        if columns not in spans:
            return cute.make_layout((BOX, columns, buffers), stride=(columns, 1, BOX * columns))
        kind = spans[columns]
    atom = warpgroup.make_smem_layout_atom(kind, element)
    return cute.tile_to_shape(atom, (BOX, columns, buffers), order=(0, 1, 2))


class Boxes:
    """Boxes of one width, of one consumer: how its threads fill one, and the TMA that stores it.

    `sD` (ROWS, COLUMNS, BUFFER) are its buffers.
    """

    def __init__(self, tma_d: Any, sD: Any, d_major: str, thread: Any) -> None:
        element = sD.element_type
        self.tma_d, self.sD, self.shape = tma_d, sD, (BOX, cute.size(sD, mode=[1]))
        mma = cute.make_tiled_mma(accumulator_op(element, self.shape[1]))
        matrices = 4 if self.shape[1] % 16 == 0 else 2
        atom = cute.make_copy_atom(warp.StMatrix8x8x16bOp(d_major == "M", matrices), element)
        self.copy = cute.make_tiled_copy_C(atom, mma)
        self.into = self.copy.get_slice(thread).partition_D(sD)  # (CPY, CPY_M, CPY_N, BUFFER)
        self.rD = cute.make_rmem_tensor(mma.partition_shape_C(self.shape), element)
        self.thr_mma = mma.get_slice(thread)
        self.values = BOX * self.shape[1] // WARPGROUP

    @cute.jit
    def fill(self, values: Any, fused: Any, buffer: Any) -> None:
        """Computes a box in steps of a few columns, so that few are on their way, and stages it."""
        count = STEP // 2 if len(fused.parts) > 0 else STEP
        count = gcd(count, self.values)
        step = cute.make_layout((count, self.values // count))
        values, results = (cute.make_tensor(x.iterator, step) for x in (values, self.rD))
        for i in range_constexpr(self.values // count):
            out = fused.apply(values[None, i].load(), i * count)
            results[None, i].store(out.to(self.rD.element_type))
        cute.copy(self.copy, self.copy.retile(self.rD), self.into[None, None, None, buffer])

    @cute.jit
    def store(self, gD: Any, buffer: Any) -> None:
        """Starts the store of a buffer to `gD`, coordinates of the box; by one thread."""
        one = cute.make_layout(1)
        box = cute.group_modes(self.sD[None, None, buffer], 0, 2)
        sD, gD = cpasync.tma_partition(self.tma_d, 0, one, box, cute.group_modes(gD, 0, 2))
        cute.copy(self.tma_d, sD, gD)


class TmaStore:
    """Stores one consumer's `tile` (rows, columns) of D.

    `tma_d` and `sD` are the atom and the buffers, (ROWS, COLUMNS, BUFFER), for each of the tile's
    `box_widths`.  `boxes_at_once` whole boxes are staged in one turn, and a row's rest with the
    last of them; there are `buffers` turns of buffers.  `barrier` is a named barrier of its own.
    `many` says whether there is more than one tile to store.
    """

    def __init__(
        self,
        tma_d: tuple[Any, ...],
        mD: Any,
        sD: tuple[Any, ...],
        fusion: Fusion,
        tile: tuple[int, int],
        *,
        d_major: str,
        boxes_at_once: int,
        buffers: int,
        thread: Any,
        barrier: Any,
        many: bool,
    ) -> None:
        self.mD, self.fusion, self.shape = mD, fusion, tile
        self.thread, self.barrier, self.at_once = thread, barrier, boxes_at_once
        self.many = many
        self.pipe = PipelineTmaStore(buffers)
        self.boxes = tuple(
            Boxes(atom, own, d_major, thread) for atom, own in zip(tma_d, sD, strict=True)
        )

    def turns(self) -> list[list[tuple[Boxes, int, int, int]]]:
        """What each turn stages: (boxes, row of boxes, first column, buffer).

        Row by row; where tensors are loaded, column by column, so that the addresses of a column
        are not held for the next row.
        """
        rows, columns = self.shape[0] // BOX, self.shape[1]
        whole, across = self.boxes[0], columns // self.boxes[0].shape[1]
        by_columns = len(self.fusion.tensors) > 0 and len(self.boxes) == 1
        found = []
        for turn in range_constexpr(rows * across // self.at_once):
            first, buffer = turn * self.at_once, turn % self.pipe.buffers
            now = []
            for x in range_constexpr(self.at_once):
                column, row = divmod(first + x, rows)
                if not by_columns:
                    row, column = divmod(first + x, across)
                now.append((whole, row, column * whole.shape[1], buffer * self.at_once + x))
            if column == across - 1 and len(self.boxes) > 1:
                now.append((self.boxes[1], row, across * whole.shape[1], buffer))
            found.append(now)
        return found

    @cute.jit
    def tile(self, acc: Any, tile_m: Any, tile_n: Any, batch: Any) -> None:
        """Stores the accumulators of tile (tile_m, tile_n) of a batch."""
        rows, columns, extent = self.shape[0] // BOX, self.shape[1], self.mD.shape[:2]
        for number, turn in enumerate(self.turns()):
            if self.many or number >= self.pipe.buffers:
                # The buffer has been stored from before.
                if self.thread == 0:
                    self.pipe.producer_acquire()
                self.sync()
            for boxes, row, start, buffer in turn:
                first = (row * columns + start) * BOX // WARPGROUP
                acc_box = cute.make_tensor(acc.iterator + first, cute.make_layout(boxes.values))
                place, part = (tile_m * rows + row, tile_n, batch), (start, boxes.shape[1])
                fused = self.fusion.tile(boxes.thr_mma, (BOX, columns), place, extent, columns=part)
                boxes.fill(acc_box, fused, buffer)
            # Each writer makes its stores visible to TMA, then all wait for each other.
            cute.arch.fence_proxy("async.shared", space="cta")
            self.sync()
            if self.thread == 0:
                for boxes, row, start, buffer in turn:
                    place, part = (tile_m * rows + row, tile_n, batch), (start, boxes.shape[1])
                    boxes.store(part_of(self.mD, (BOX, columns), place, part), buffer)
                self.pipe.producer_commit()

    def sync(self) -> None:
        """Waits for the threads of this consumer."""
        cute.arch.barrier(barrier_id=self.barrier, number_of_threads=WARPGROUP)

    @cute.jit
    def finish(self) -> None:
        """Waits until the last stores have read shared memory."""
        if self.thread == 0:
            self.pipe.producer_tail()


@cute.jit
def consumer_store(tma_d, mD, sD, fusion, tiled_mma, consumer, thread, d_major, config, barrier):
    """The epilogue of one consumer: a `TmaStore`, or a `DirectStore` where there are no atoms.

    `sD` are the block's buffers of each width, `barrier` is the named barrier of consumer 0;
    `config` has the tile's shape, `consumer_rows`, `store_boxes`, `store_buffers` and
    `is_persistent`.
    """
    tile = config.consumer_rows, config.tile_shape_mnk[1]
    if not tma_d:
        return DirectStore(tiled_mma.get_slice(thread), mD, fusion, tile)
    counts = config.store_boxes * config.store_buffers, config.store_buffers
    own = tuple(  # (ROWS, COLUMNS, BUFFER)
        cute.local_tile(boxes, (BOX, width, count), (0, 0, consumer))
        for boxes, width, count in zip(sD, box_widths(tile[1]), counts, strict=False)
    )
    return TmaStore(
        tma_d,
        mD,
        own,
        fusion,
        tile,
        d_major=d_major,
        boxes_at_once=config.store_boxes,
        buffers=config.store_buffers,
        thread=thread,
        barrier=barrier + consumer,
        many=config.is_persistent,
    )


def make_store_atoms(mD: Any, d_major: str, consumers: int, config: Any) -> Any:
    """On the host: (atoms, coordinates of D, layouts) for the `box_widths` of a tile.

    No atoms, and D as it is, where `config.epilogue` is not "tma".
    """
    if config.epilogue != "tma":
        return (), mD, ()
    op, one = cpasync.CopyBulkTensorTileS2GOp(), (None, None, 0)
    atoms, layouts, coordinates = [], [], mD
    turns = consumers * config.store_buffers
    counts = turns * config.store_boxes, turns
    for width, count in zip(box_widths(config.tile_shape_mnk[1]), counts, strict=False):
        layout = box_layout(mD.element_type, width, d_major, count)
        atom, coordinates = cpasync.make_tiled_tma_atom(
            op, mD, cute.slice_(layout, one), (BOX, width)
        )
        atoms.append(atom)
        layouts.append(layout)
    return tuple(atoms), coordinates, tuple(layouts)


def accumulator_op(element: Any, columns: int) -> Any:
    """The wgmma whose accumulators a box is made of."""
    majors = warpgroup.OperandMajorMode.K, warpgroup.OperandMajorMode.K
    source = warpgroup.OperandSource.SMEM
    return warpgroup.MmaF16BF16Op(element, Float32, (64, columns, 16), source, *majors)
