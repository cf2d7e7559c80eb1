"""Split K: several blocks multiply parts of K for the same tile, and the last one adds up.

Every block leaves its partial sums in a workspace in global memory and counts itself in; the one
that finds all others there reads them all, in their order, so that the result does not depend on
who was last.  Nobody waits for anybody, and the counters are left at 0 for the next launch.
"""

from __future__ import annotations

from typing import Any, cast

from tilewright.lang import cute
from tilewright.lang.cute.pointer import Pointer
from tilewright.lang.ranges import range_, range_constexpr
from tilewright.lang.values import Boolean, Float32, Int32

WARPGROUP = 128
IN_FLIGHT = 128
"""Partial sums that a thread has on their way to it."""


class SplitK:
    """One consumer's part in adding up.

    `workspace` is (partial sums, counters): f32 (ELEMENT, PART, CONSUMER and tile) and i32
    (CONSUMER and tile).  `flags` has a word of shared memory for each consumer, `barrier` is a
    named barrier of its own.
    """

    def __init__(
        self,
        workspace: tuple[Any, Any],
        flags: Pointer | None,
        parts: int,
        consumers: int,
        consumer: Any,
        thread: Any,
        barrier: Any,
    ) -> None:
        self.partials, self.counters = workspace
        assert flags is not None, "the kernel allocates the flags of a split"
        self.flags, self.parts, self.consumers = flags, parts, consumers
        self.consumer, self.thread, self.barrier = consumer, thread, barrier

    @cute.jit
    def touch(self) -> None:
        """Looks at the workspace once, while there is nothing else to do yet.

        The first access to a page takes microseconds, which the end of a tile would wait for.
        """
        if self.thread == 0:
            cute.arch.atomic_add(self.counters.iterator, Int32(0))

    @cute.jit
    def collect(self, acc: Any, tile: Any, part: Any) -> Boolean:
        """Adds this part; whether `acc` now holds the sum of all parts (else it is spoiled)."""
        slot = tile * self.consumers + self.consumer
        values = cute.size(acc)
        flat = cute.make_tensor(acc.iterator, cute.make_layout(values))
        for i in range_constexpr(values):
            self.partials[i * WARPGROUP + self.thread, part, slot] = flat[i]
        # Every thread's sums are visible to the GPU before the warpgroup counts itself in.
        cute.arch.fence_acq_rel_gpu()
        self.sync()
        flag = self.flags + self.consumer
        if self.thread == 0:
            counter = self.counters.iterator + slot
            earlier = cute.arch.atomic_add(counter, Int32(1), sem="acq_rel", scope="gpu")
            is_last = earlier == self.parts - 1
            if is_last:
                self.counters[slot] = Int32(0)
            cute.arch.store(flag, is_last.to(Int32))
        self.sync()
        last = cute.arch.load(flag) == 1
        if last:
            cute.arch.fence_acq_rel_gpu()
            for i in range_constexpr(values):
                flat[i] = Float32(0.0)
            # Few accumulators leave room for the loads of several parts at a time.
            for p in range_(self.parts, unroll=max(1, IN_FLIGHT // values)):
                for i in range_constexpr(values):
                    flat[i] = flat[i] + self.partials[i * WARPGROUP + self.thread, p, slot]
        # The flag is read before the next tile writes it.
        self.sync()
        return cast(Boolean, last)

    def sync(self) -> None:
        """Waits for the threads of this consumer."""
        cute.arch.barrier(barrier_id=self.barrier, number_of_threads=WARPGROUP)
