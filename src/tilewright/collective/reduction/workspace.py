"""Sums of parts of a tile in global memory, and the counter that says which are there.

    sums       f32 (ELEMENT, PLACE): a consumer's accumulators of one part
    counters   i32 (SLOT): a consumer's counter of one tile; 0 between launches

A thread has the same elements in all parts: four at a time, so that each access is 16 bytes and
those of a warp follow each other.
"""

from __future__ import annotations

from typing import Any, cast

from tilewright.lang import cute
from tilewright.lang.ranges import range_constexpr
from tilewright.lang.values import Boolean, Int32

WARPGROUP = 128
VECTOR = 4
"""Sums of one access: 16 bytes."""


class Workspace:
    """One consumer's view of the workspace, and the few things that all reductions do with it.

    `consumers` of a block share a tile (1: each has its own), this is number `consumer` of them.
    `flag` is a word of shared memory for this consumer, `barrier` a named barrier of its own.
    """

    def __init__(
        self,
        sums: Any,
        counters: Any,
        flag: Any,
        consumers: int,
        consumer: Any,
        thread: Any,
        barrier: Any,
    ) -> None:
        self.sums, self.counters, self.flag = sums, counters, flag
        self.consumers, self.consumer = consumers, consumer
        self.thread, self.barrier = thread, barrier

    @cute.jit
    def touch(self) -> None:
        """Looks at the workspace once, while there is nothing else to do yet.

        The first access to a page takes microseconds, which the end of a tile would wait for.
        """
        if self.thread == 0:
            cute.arch.atomic_add(self.counters.iterator, Int32(0))

    def counter(self, slot: Any) -> Any:
        """The counter of a tile."""
        return self.counters.iterator + (slot * self.consumers + self.consumer)

    def row(self, place: Any) -> Any:
        """(ELEMENT): this consumer's sums at a place."""
        return self.sums[None, place * self.consumers + self.consumer]

    def own(self, row: Any, i: Any) -> Any:
        """(4): the `i`-th elements of this thread."""
        return cute.local_tile(row, (VECTOR,), (i * WARPGROUP + self.thread,))

    @cute.jit
    def leave(self, acc: Any, place: Any) -> None:
        """Writes the accumulators to a place."""
        row, flat = self.row(place), flat_view(acc)
        for i in range_constexpr(cute.size(acc) // VECTOR):
            self.own(row, i).store(cute.local_tile(flat, (VECTOR,), (i,)).load())

    @cute.jit
    def add(self, acc: Any, place: Any) -> None:
        """Adds the sums at a place to the accumulators."""
        row, flat = self.row(place), flat_view(acc)
        for i in range_constexpr(cute.size(acc) // VECTOR):
            mine = cute.local_tile(flat, (VECTOR,), (i,))
            mine.store(mine.load() + self.own(row, i).load())

    @cute.jit
    def count(self, slot: Any) -> Any:
        """Counts this part in, behind the writes of all threads; thread 0 gets the count before."""
        self.sync()
        before = Int32(-1)
        if self.thread == 0:
            before = cute.arch.atomic_add(self.counter(slot), Int32(1), sem="acq_rel", scope="gpu")
        return before

    @cute.jit
    def announce(self, slot: Any) -> None:
        """Counts this part in like `count`, without waiting to hear of the others."""
        self.sync()
        if self.thread == 0:
            cute.arch.atomic_add(self.counter(slot), Int32(1), sem="release", scope="gpu")

    @cute.jit
    def wait_for(self, slot: Any, count: Any) -> None:
        """Waits until `count` parts are counted in; then all threads see what they have written."""
        if self.thread == 0:
            counter = self.counter(slot)
            seen = cute.arch.atomic_add(counter, Int32(0), sem="acquire", scope="gpu")
            while seen != count:
                seen = cute.arch.atomic_add(counter, Int32(0), sem="acquire", scope="gpu")
        self.sync()

    @cute.jit
    def reset(self, slot: Any) -> None:
        """Leaves a counter at 0 for the next launch."""
        if self.thread == 0:
            # Atomically: another block's `touch` may look at the same time.
            cute.arch.atomic_exch(self.counter(slot), Int32(0))

    @cute.jit
    def told(self, condition: Any) -> Boolean:
        """Thread 0's condition, told to all threads."""
        if self.thread == 0:
            cute.arch.store(self.flag, condition.to(Int32))
        self.sync()
        answer = cute.arch.load(self.flag) == 1
        # The flag is read before it is written again.
        self.sync()
        return cast(Boolean, answer)

    def sync(self) -> None:
        """Waits for the threads of this consumer."""
        cute.arch.barrier(barrier_id=self.barrier, number_of_threads=WARPGROUP)


def flat_view(acc: Any) -> Any:
    """All accumulators as one mode."""
    return cute.make_tensor(acc.iterator, cute.make_layout(cute.size(acc)))
