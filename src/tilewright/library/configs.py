"""How a Hopper GEMM is cut up: the choices that a heuristic or a person makes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from tilewright.collective.reduction.cluster import inbox_bytes
from tilewright.collective.stream_k import stream_blocks, streamed_tiles
from tilewright.library.problem import GemmProblem
from tilewright.runtime.arrays import ArrayView

WARPGROUP = 128
BOX = 64
"""Rows, and the most columns, of what one TMA store writes."""
CONSUMERS = 2
"""Warpgroups that multiply in a block that stays for many tiles."""
RESERVED_SMEM = 1024
"""Shared memory that the system takes of every block."""
SCHEDULES = ("cooperative", "pingpong", "warp_specialized", "unspecialized")
REGISTERS = 2**16
"""Registers of an SM."""
MOST_REGISTERS = 255
"""Registers that one thread can name."""
PRODUCER_REGISTERS = 32
"""What ptxas needs for a thread that loads parts of batches for a cluster."""
LENT = 8
"""Registers of each consumer thread that come from the producer: 16 of its own for two of them."""
EPILOGUES = ("tma", "direct")
CLUSTER = 16
"""The most blocks of a cluster; more than 8 are not portable, the launch asks for them."""
SCHEDULERS = ("data_parallel", "stream_k")
REDUCTIONS = ("parallel", "serial", "cluster", "fast")
IN_PLACE = ("serial", "fast")
"""Reductions that need one place for each tile, whatever the number of parts."""


class WorkspaceShape(NamedTuple):
    """What blocks that share tiles need in global memory: places of f32 sums, and i32 counters.

    A place has `elements` sums: one consumer's accumulators.
    """

    sums: int
    counters: int
    elements: int
    cleared: bool = True

    @property
    def bytes(self) -> int:
        return 4 * (self.sums * self.elements + self.counters)

    def parts(self, whole: ArrayView) -> tuple[ArrayView, ...]:
        """(sums, counters) in one buffer of f32, so that the counters lie on the sums' own page."""
        size = self.sums * self.elements
        sums = replace(whole, shape=(self.elements, self.sums), strides=(1, self.elements))
        at = whole.pointer + 4 * size
        counters = replace(whole, pointer=at, shape=(self.counters,), strides=(1,), dtype="i32")
        return sums, counters


@dataclass(frozen=True, slots=True)
class Sm90GemmConfig:
    """How the problem is cut up.

    `schedule`: with "cooperative" both consumers share a tile, half of its rows each; with
    "pingpong" each has a tile of its own, and while one multiplies the other one stores.  With
    "warp_specialized" there is one consumer, and a block for each tile, of which `blocks_per_sm`
    (1 to 4) share an SM: while one loads or stores, the others multiply.  With "unspecialized" it
    is the same, but there is no producer: a thread of the consumer loads.
    `raster` rows of tiles are walked column by column, which keeps a wave's operands in L2.
    `store_boxes` boxes of 64x64 (and a row's narrower rest) are staged at a time by each consumer,
    in `store_buffers` turns;
    `epilogue` "direct" stores from registers instead, to any D.
    `swap_operands` computes the transposed problem, D^T = B^T A^T.
    `raster_along` N: that many columns of tiles are walked row by row instead.
    `scheduler` "stream_k" deals the k tiles of the last wave, or of the last two waves that are not
    full (`stream_waves`), out evenly to all blocks; the others have whole tiles.
    `split_k` blocks share the K of each tile.
    `reduction` says how shared tiles are added up: "parallel", where each part leaves its sums in a
    workspace and one block adds them in order of K; "serial" (of a split K), where one part after
    the other adds to one place; "cluster" (of a split K up to 16), where the blocks of a tile are a
    cluster and send each other their sums; or "fast", in place by atomics, in any order.
    `cluster_shape_mn` blocks (along M, along N) are a cluster, and share what they load.
    An epilogue that does more than to scale has 8 `consumer_registers` more, from the producer's.
    `max_ctas` blocks are launched at most, `blocks_per_sm` for each SM: with two of them, and two
    consumers each, the registers are shared evenly, so that only narrow tiles fit.
    """

    tile_shape_mnk: tuple[int, int, int] = (128, 256, 64)
    num_stages: int = 4
    raster: int = 16
    store_boxes: int = 2
    consumer_registers: int = 232
    producer_registers: int = 40
    max_ctas: int = 132
    schedule: str = "cooperative"
    store_buffers: int = 1
    epilogue: str = "tma"
    swap_operands: bool = False
    split_k: int = 1
    blocks_per_sm: int = 1
    raster_along: str = "M"
    scheduler: str = "data_parallel"
    stream_waves: int = 1
    reduction: str = "parallel"
    cluster_shape_mn: tuple[int, int] = (1, 1)

    @property
    def shares_tiles(self) -> bool:
        """Whether several blocks may work on one tile."""
        return self.split_k > 1 or self.scheduler == "stream_k"

    @property
    def is_persistent(self) -> bool:
        """Whether a block stays for one tile after another."""
        return self.schedule in ("cooperative", "pingpong")

    @property
    def producers(self) -> int:
        """Warpgroups of a block that only load: one, or none where the others load too."""
        return int(self.schedule != "unspecialized")

    @property
    def consumers(self) -> int:
        """Warpgroups of a block that multiply."""
        return CONSUMERS if self.is_persistent else 1

    @property
    def sharers(self) -> int:
        """Consumers that share a tile, and read each stage."""
        return 1 if self.schedule == "pingpong" else self.consumers

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return WARPGROUP * (self.producers + self.consumers)

    @property
    def even_registers(self) -> int:
        """Registers of each thread where all have as many."""
        even = REGISTERS // (self.threads * max(self.blocks_per_sm, 1))
        return min(even // 8 * 8, MOST_REGISTERS)

    def registers(self, fused: bool = False) -> tuple[int, int] | None:
        """Registers of a producer's and of a consumer's thread; None if both have as many.

        With two consumers, an epilogue that is `fused` gets some of the producer's, which needs
        them all where it shares what it loads.
        """
        if not self.producers:
            return None
        if not self.is_persistent and self.blocks_per_sm > 1:
            return PRODUCER_REGISTERS, 2 * self.even_registers - PRODUCER_REGISTERS
        if self.blocks_per_sm > 1 or not self.is_persistent:
            return None
        lent = LENT if fused and self.cluster_shape_mn == (1, 1) else 0
        return self.producer_registers - CONSUMERS * lent, self.consumer_registers + lent

    @property
    def consumer_has(self) -> int:
        """Registers of a consumer's thread."""
        return (self.registers() or (0, self.even_registers))[1]

    @property
    def in_cluster(self) -> bool:
        """Whether the blocks of a tile are a cluster, and meet in its shared memory."""
        return self.split_k > 1 and self.reduction == "cluster"

    @property
    def cluster_size(self) -> int:
        """Blocks of a cluster."""
        if self.in_cluster:
            return self.split_k
        return self.cluster_shape_mn[0] * self.cluster_shape_mn[1]

    @property
    def consumer_rows(self) -> int:
        """Rows of a tile that one consumer multiplies."""
        m = self.tile_shape_mnk[0]
        return m // self.sharers

    @property
    def boxes(self) -> int:
        """Boxes that one consumer stores of a tile."""
        n = self.tile_shape_mnk[1]
        return self.consumer_rows // 64 * max(n // 64, 1)

    @property
    def accumulators(self) -> int:
        """Accumulator registers of a consumer's thread."""
        return self.consumer_rows * self.tile_shape_mnk[1] // WARPGROUP

    @property
    def smem_bytes(self) -> int:
        """Shared memory of one block: the ring, the store boxes, the barriers, the split's flag."""
        m, n, k = self.tile_shape_mnk
        ring = self.num_stages * (m + n) * k * 2
        columns = min(n, BOX) * self.store_boxes + (n % BOX if n > BOX else 0)
        boxes = self.consumers * self.store_buffers * BOX * columns * 2
        flags = 4 * self.consumers if self.shares_tiles else 0
        if self.in_cluster:
            together = self.sharers == self.consumers
            flags = inbox_bytes(self.split_k, self.consumers, together, self.accumulators)
        return ring + boxes * (self.epilogue == "tma") + 16 * self.num_stages + flags

    def workspace(self, problem: GemmProblem) -> WorkspaceShape | None:
        """The workspace for a problem, as the kernel sees it; None where tiles are not shared."""
        if not self.shares_tiles or self.in_cluster:
            return None
        bm, bn, bk = self.tile_shape_mnk
        tiles = -(-problem.m // bm) * -(-problem.n // bn) * problem.batch
        sums, counters = tiles * self.split_k, tiles
        if self.scheduler == "stream_k":
            in_place = self.reduction in IN_PLACE
            blocks = stream_blocks(tiles, -(-problem.k // bk), self.max_ctas, in_place)
            # Where nothing happens to be shared, a counter remains to be touched.
            counters = max(streamed_tiles(tiles, blocks, self.stream_waves), 1)
            sums = max(blocks - 1, 1)
        if self.reduction in IN_PLACE:
            sums = counters
        sums, counters = sums * self.sharers, counters * self.sharers
        return WorkspaceShape(sums, counters, self.accumulators * WARPGROUP)

    def __str__(self) -> str:
        tile = "x".join(map(str, self.tile_shape_mnk))
        extra = [f"{self.blocks_per_sm} blocks"] * (self.blocks_per_sm > 1)
        extra += [f"split_k={self.split_k}"] * (self.split_k > 1)
        extra += [f"stream_k={self.stream_waves}"] * (self.scheduler == "stream_k")
        extra += [self.reduction] * (self.shares_tiles and self.reduction != "parallel")
        extra += [f"along {self.raster_along}"] * (self.raster_along != "M")
        shape = "x".join(map(str, self.cluster_shape_mn))
        extra += [f"cluster {shape}"] * (self.cluster_shape_mn != (1, 1))
        extra += ["swapped"] * self.swap_operands + ["direct"] * (self.epilogue == "direct")
        return " ".join((self.schedule, tile, f"{self.num_stages} stages", *extra))
