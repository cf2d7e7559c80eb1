"""The parts of a tile are the blocks of one cluster: they send each other their sums.

    warp w of each block   has one block that adds up what all warps w have, and stores it
    st.async               sends sums straight into that block's shared memory, which counts them
    an arrival             tells a sender that its place may be written again

Warps are dealt out to the blocks, so that all of them receive, add and store at the same time.  No
global memory is needed, and the order of adding is fixed: the block's own sums, then the others by
their rank.  Source: PTX ISA, `st.async`, `mapa`.
"""

from __future__ import annotations

from typing import Any, cast

from tilewright.collective.reduction.last import IN_FLIGHT
from tilewright.collective.reduction.workspace import VECTOR, WARPGROUP, flat_view
from tilewright.collective.work import Share
from tilewright.lang import cute, words
from tilewright.lang.cute import nvgpu
from tilewright.lang.cute.pointer import Pointer
from tilewright.lang.cute.smem import SmemAllocator
from tilewright.lang.ranges import range_, range_constexpr
from tilewright.lang.values import Boolean, Float32, Int32, Uint64

cpasync = nvgpu.cpasync

WARP = 32
WARPS = WARPGROUP // WARP
"""Warps of a consumer."""


def warps_each(parts: int, warps: int) -> int:
    """How many of a tile's warps one block adds up, at most.

    >>> [warps_each(parts, 8) for parts in (2, 3, 8, 16)]
    [4, 3, 1, 1]
    """
    return -(-warps // min(parts, warps))


def inbox_bytes(parts: int, consumers: int, together: bool, values: int) -> int:
    """Shared memory of an inbox, for `values` accumulators of a thread.

    >>> inbox_bytes(4, 2, True, 8), inbox_bytes(8, 2, False, 8)
    (6176, 14368)
    """
    tiles = 1 if together else consumers
    each = warps_each(parts, WARPS * consumers // tiles)
    return tiles * each * (parts - 1) * values * WARP * 4 + 2 * consumers * 8


class Inbox:
    """A block's shared memory that the others of its cluster send to.

    `full[c]` counts the bytes for consumer c's sums, `free[c]` is completed when all that consumer
    c of this block has sent has been read.  The consumers are parts of one tile (`together`), or
    each has a tile and places of its own.
    """

    def __init__(
        self, smem: SmemAllocator, parts: int, consumers: int, together: bool, values: int
    ) -> None:
        self.parts, self.consumers, self.values = parts, consumers, values
        self.together = together
        tiles = 1 if together else consumers
        self.each = warps_each(parts, WARPS * consumers // tiles)
        layout = cute.make_layout(  # (VECTOR, LANE, i, SENDER, WARP, TILE)
            (VECTOR, WARP, values // VECTOR, parts - 1, self.each, tiles)
        )
        self.sums = smem.allocate_tensor(Float32, layout, 16, label="inbox")
        self.full: Pointer = smem.allocate_array(Uint64, 2 * consumers, label="inbox_barriers")
        self.free: Pointer = self.full + consumers

    def first_warp(self, consumer: Any) -> Any:
        """The number of a consumer's first warp, of the warps of its tile."""
        return consumer * WARPS if self.together else Int32(0)

    def places(self, lane: Any, warp: Any, consumer: Any) -> Any:
        """(VECTOR, i, SENDER): what a lane has of the sums of a warp that is added up here."""
        tile = 0 if self.together else consumer
        return self.sums[None, lane, None, None, warp % self.each, tile]

    def own_warps(self, consumer: Any) -> tuple[Any, Any]:
        """(first, end) of the warps of a consumer whose sums this block adds up; may be none."""
        first = cute.arch.block_idx_in_cluster().to(Int32) * self.each
        lowest = self.first_warp(consumer)
        return words.max(first, lowest), words.min(first + self.each, lowest + WARPS)

    def init_barriers(self) -> None:
        """Initialises all barriers; by one thread, before a fence and the cluster's barrier."""
        for c in range(self.consumers):
            first, end = self.own_warps(c)
            cute.arch.mbarrier_init(self.full + c, 1)
            # Each warp that sends is answered once; a consumer without one does not wait.
            sending = WARPS - words.max(end - first, 0)
            cute.arch.mbarrier_init(self.free + c, words.max(sending, 1))


class ClusterAdds:
    """The reduction of a split K in a cluster, seen by a thread of consumer `consumer`.

    `barrier` is a named barrier of the consumer.
    """

    def __init__(self, inbox: Inbox, consumer: Any, thread: Any, barrier: Any) -> None:
        self.inbox, self.consumer, self.barrier = inbox, consumer, barrier
        self.thread, self.lane = thread, thread % WARP
        lowest = inbox.first_warp(consumer)
        self.warp = cute.arch.make_warp_uniform(lowest + thread // WARP)
        self.rank = cute.arch.block_idx_in_cluster().to(Int32)
        self.full, self.free = inbox.full + consumer, inbox.free + consumer
        self.first, self.end = inbox.own_warps(consumer)
        self.tiles = Int32(0)

    @cute.jit
    def collect(self, acc: Any, share: Share) -> Boolean:
        """Adds this part; whether `acc` now holds the sum of all parts, for this warp."""
        mine = (self.first <= self.warp) & (self.warp < self.end)
        if mine:
            self.receive(acc, share.more)
        else:
            self.wait_until_read()
            self.send(acc)
        self.tiles = self.tiles + 1
        return cast(Boolean, mine)

    @cute.jit
    def receive(self, acc: Any, more: Any) -> None:
        """Adds what the other blocks send; if `more` is to come, they hear that it may."""
        inbox, flat = self.inbox, flat_view(acc)
        others = inbox.parts - 1
        if self.thread == (self.first - inbox.first_warp(self.consumer)) * WARP:
            nbytes = (self.end - self.first) * (others * inbox.values * WARP * 4)
            cute.arch.mbarrier_arrive_and_expect_tx(self.full, nbytes)
        cute.arch.mbarrier_wait(self.full, self.tiles & 1)
        places = inbox.places(self.lane, self.warp, self.consumer)
        for p in range_(others, unroll=max(1, IN_FLIGHT // inbox.values)):
            for i in range_constexpr(inbox.values // VECTOR):
                own = cute.local_tile(flat, (VECTOR,), (i,))
                own.store(own.load() + places[None, i, p].load())
        if more:
            cute.arch.sync_warp()
            if self.lane < others:
                sender = self.lane + (self.lane >= self.rank).to(Int32)
                # An arrival elsewhere orders reads only; the next sums are written over these.
                cute.arch.fence_acq_rel_cluster()
                cute.arch.mbarrier_arrive(self.free, sender)

    @cute.jit
    def send(self, acc: Any) -> None:
        """Sends the accumulators to the block that adds them up."""
        inbox, flat = self.inbox, flat_view(acc)
        owner = self.warp // inbox.each
        place = self.rank - (self.rank > owner).to(Int32)
        places = inbox.places(self.lane, self.warp, self.consumer)[None, None, place]
        there = cute.arch.map_dsmem_ptr(places.iterator, owner)
        full = cute.arch.map_dsmem_ptr(self.full, owner)
        remote = cute.make_tensor(there, places.layout)
        atom = cute.make_copy_atom(cpasync.CopyDsmemStoreOp(), Float32, num_bits_per_copy=128)
        for i in range_constexpr(inbox.values // VECTOR):
            own = cute.local_tile(flat, (VECTOR,), (i,))
            cute.copy(atom, own, remote[None, i], mbar_ptr=full)

    @cute.jit
    def wait_until_read(self) -> None:
        """Waits until what was sent for the tile before has been read."""
        if self.tiles > 0:
            cute.arch.mbarrier_wait(self.free, (self.tiles - 1) & 1)

    def next_tile(self) -> None:
        """Brings the warps of a consumer together: the next products are theirs in common."""
        cute.arch.barrier(barrier_id=self.barrier, number_of_threads=WARPGROUP)
