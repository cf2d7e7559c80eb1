"""Producer and consumer in step: a ring of shared-memory stages guarded by mbarriers.

    full[s]    the stage holds new data: completed by the bytes that TMA writes
    empty[s]   the stage may be overwritten: completed by the consumers' arrivals

A *state* is where a role stands on the ring: the stage index, and the parity (phase) of the turn.
Parity belongs to the barrier: it flips each time the index comes back to stage 0, and it carries
over from one output tile to the next.  A producer starts with phase 1, because waiting for the
phase before the first passes at once: all stages are empty.
"""

from __future__ import annotations

from tilewright.lang import cute
from tilewright.lang.cute import arch
from tilewright.lang.cute.pointer import Pointer
from tilewright.lang.values import Boolean, Int32


class PipelineState:
    """Stage index and phase of one role on a ring of `stages` stages.

    `advance()` steps to the next stage, in place.
    """

    def __init__(self, stages: int, index: Int32, phase: Int32) -> None:
        self.stages = stages
        self.index = index
        self.phase = phase

    def advance(self) -> None:
        following = self.index + 1
        wrapped = following == self.stages
        self.index = cute.where(wrapped, Int32(0), following)
        self.phase = self.phase ^ wrapped.to(Int32)

    def skip(self, count: Int32) -> None:
        """Steps over `count` stages, which somebody else works on."""
        reached = self.index + count
        self.index = reached % self.stages
        self.phase = self.phase ^ (reached // self.stages & 1)

    def clone(self) -> PipelineState:
        return type(self)(self.stages, self.index, self.phase)


def make_producer_state(stages: int) -> PipelineState:
    """The state of a producer before its first stage: index 0, phase 1."""
    return PipelineState(stages, Int32(0), Int32(1))


def make_consumer_state(stages: int) -> PipelineState:
    """The state of a consumer before its first stage: index 0, phase 0."""
    return PipelineState(stages, Int32(0), Int32(0))


class PipelineTmaAsync:
    """TMA fills stages, consumer warps empty them.

    `barriers` points at `2 * stages` mbarriers in shared memory: first the full ones, then the
    empty ones.  `tx_bytes` is what TMA writes into one stage, `consumer_arrivals` how many
    arrivals release one: one for each consumer warp.  Where blocks of a cluster share what they
    load, a warp arrives in several of them: `peer` is the block that a lane arrives in.
    """

    def __init__(
        self,
        barriers: Pointer,
        stages: int,
        tx_bytes: int,
        consumer_arrivals: int,
        peer: Int32 | None = None,
    ) -> None:
        self.peer = peer
        self.full = barriers
        self.empty = barriers + stages
        self.stages = stages
        self.tx_bytes = tx_bytes
        self.consumer_arrivals = consumer_arrivals

    def init_barriers(self) -> None:
        """Initialises all barriers; by one thread, before a fence and a block-wide barrier."""
        for s in range(self.stages):
            arch.mbarrier_init(self.full + s, 1)
            arch.mbarrier_init(self.empty + s, self.consumer_arrivals)

    def producer_acquire(self, state: PipelineState, fresh: bool = False) -> Pointer:
        """Waits until the stage is empty and announces its bytes; returns the barrier for TMA.

        A `fresh` stage was never filled: there is nothing to wait for.
        """
        if not fresh:
            arch.mbarrier_wait(self.empty + state.index, state.phase)
        full: Pointer = self.full + state.index
        arch.mbarrier_arrive_and_expect_tx(full, self.tx_bytes)
        return full

    def consumer_wait(self, state: PipelineState) -> None:
        """Waits until the stage is full."""
        arch.mbarrier_wait(self.full + state.index, state.phase)

    def consumer_release(self, index: Int32, elected: Boolean) -> None:
        """Gives the stage back: the `elected` lanes of each consumer warp arrive."""
        if elected:
            arch.mbarrier_arrive(self.empty + index, self.peer)


class PipelineAsync(PipelineTmaAsync):
    """Threads fill stages, by ordinary stores and cp.async; consumer warps empty them.

    `barriers` as for `PipelineTmaAsync`.  `producer_arrivals` is how many arrivals fill a stage:
    one for each producer warp.
    """

    def __init__(
        self, barriers: Pointer, stages: int, producer_arrivals: int, consumer_arrivals: int
    ) -> None:
        super().__init__(barriers, stages, 0, consumer_arrivals)
        self.producer_arrivals = producer_arrivals

    def init_barriers(self) -> None:
        """Initialises all barriers; by one thread, before a fence and a block-wide barrier."""
        for s in range(self.stages):
            arch.mbarrier_init(self.full + s, self.producer_arrivals)
            arch.mbarrier_init(self.empty + s, self.consumer_arrivals)

    def producer_acquire(self, state: PipelineState, fresh: bool = False) -> Pointer:
        """Waits until the stage is empty, if it is not `fresh`; returns its full barrier."""
        if not fresh:
            arch.mbarrier_wait(self.empty + state.index, state.phase)
        full: Pointer = self.full + state.index
        return full

    def producer_commit(self, state: PipelineState, elected: Boolean) -> None:
        """Hands the stage over: every producer thread calls it, when its own writes are complete.

        Each thread makes its writes visible to the tensor cores (the async proxy); once the whole
        warp has, its `elected` lane arrives.
        """
        arch.fence_view_async_shared()
        arch.sync_warp()
        if elected:
            arch.mbarrier_arrive(self.full + state.index)


class PipelineTmaStore:
    """A turn-about of shared-memory buffers that TMA stores to global memory.

    One thread issues the stores of all buffers, and calls these: it alone knows which are done.
    """

    def __init__(self, buffers: int) -> None:
        self.buffers = buffers

    def producer_acquire(self) -> None:
        """Waits until the buffer that comes next has been read by the store that last used it."""
        arch.cp_async_bulk_wait_group(self.buffers - 1, read=True)

    def producer_commit(self) -> None:
        """Ends the stores of one buffer."""
        arch.cp_async_bulk_commit_group()

    def producer_tail(self) -> None:
        """Waits until all buffers have been read: shared memory must outlive its stores."""
        arch.cp_async_bulk_wait_group(0, read=True)


class OrderedSequenceBarrier:
    """Groups of threads take turns: group 0, group 1, .., group 0, ..

    `first_barrier` is the first of `groups` named barriers.  The barrier of a group completes when
    the group waits at it and the group before it has arrived.
    """

    def __init__(self, first_barrier: int, groups: int, group_threads: int) -> None:
        self.first_barrier = first_barrier
        self.groups = groups
        self.threads = 2 * group_threads

    def start(self, group: Int32) -> None:
        """Lets group 0 be the first; every group calls it once."""
        if group == self.groups - 1:
            arch.barrier_arrive(barrier_id=self.first_barrier, number_of_threads=self.threads)

    def wait(self, group: Int32) -> None:
        """Waits for the turn of `group`."""
        arch.barrier(barrier_id=self.first_barrier + group, number_of_threads=self.threads)

    def arrive(self, group: Int32) -> None:
        """Ends the turn of `group`: the next one may begin."""
        after = cute.where(group == self.groups - 1, Int32(0), group + 1)
        arch.barrier_arrive(barrier_id=self.first_barrier + after, number_of_threads=self.threads)
