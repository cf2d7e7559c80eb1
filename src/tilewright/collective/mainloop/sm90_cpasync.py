"""The Hopper main loop for operands that TMA cannot take: producer warps copy, wgmma multiplies.

    producers  wait empty -> copy A, copy B -> wait for the copies of a few stages ago -> arrive
    consumer   that of `sm90_tma`: the stages look the same

A copied stage is handed over `in_flight` stages later, so that this many are on their way at a
time.  Copies write through the generic proxy and wgmma reads through the async one: each thread
puts a proxy fence between its completed copies and its warp's arrival.
"""

from __future__ import annotations

from typing import Any

from tilewright.collective.pipeline import PipelineAsync, PipelineState, make_consumer_state
from tilewright.collective.tile_copy import TileCopy
from tilewright.lang import cute
from tilewright.lang.ranges import range_
from tilewright.lang.values import Int32


class CpAsyncProducer:
    """One of the `threads` that fill the ring with tiles of A (M,K,L) and B (N,K,L).

    `contiguous` are the modes of A and of B in which elements are neighbours, `nbytes` how much is
    copied of each at a time, `batch` how many copies are unrolled; see `TileCopy`.  At most
    `stages - 2` stages may be `in_flight`: the consumer gives a stage back only once it has the
    next one.
    """

    def __init__(
        self,
        mA: Any,
        sA: Any,
        mB: Any,
        sB: Any,
        pipe: PipelineAsync,
        tile_shape_mnk: tuple[int, int, int],
        *,
        contiguous: tuple[int, int],
        nbytes: tuple[int, int],
        in_flight: int,
        thread: Any,
        threads: int,
        batch: int,
    ) -> None:
        bm, bn, bk = tile_shape_mnk
        self.A = mA, sA, (bm, bk), contiguous[0], nbytes[0]
        self.B = mB, sB, (bn, bk), contiguous[1], nbytes[1]
        self.pipe, self.in_flight = pipe, in_flight
        self.by = thread, threads, batch
        self.first_lane = thread % 32 == 0
        self.pending = Int32(0)  # stages that are filled, but not handed over
        self.oldest = make_consumer_state(pipe.stages)  # the first of them

    def copy_of(self, operand: Any, tile: Any, batch: Any) -> TileCopy:
        """This thread's share of a row of tiles."""
        mX, sX, shape, contiguous, nbytes = operand
        own = mX[None, None, batch]  # (X, K)
        return TileCopy(own, sX, tile, shape, contiguous, nbytes, *self.by)

    @cute.jit
    def fill(self, state: PipelineState, piece: Any) -> None:
        """Copies the k tiles of a piece of work."""
        copy_A = self.copy_of(self.A, piece.m, piece.batch)
        copy_B = self.copy_of(self.B, piece.n, piece.batch)
        for k in range_(piece.k_count, unroll=1):
            self.pipe.producer_acquire(state)
            copy_A.start(piece.k_first + k, state.index)
            copy_B.start(piece.k_first + k, state.index)
            cute.arch.cp_async_commit_group()
            state.advance()
            self.pending = self.pending + 1
            if self.pending > self.in_flight:
                cute.arch.cp_async_wait_group(self.in_flight)
                self.hand_over()

    @cute.jit
    def hand_over(self) -> None:
        """Gives the oldest filled stage to the consumers."""
        self.pipe.producer_commit(self.oldest, self.first_lane)
        self.oldest.advance()
        self.pending = self.pending - 1

    @cute.jit
    def finish(self) -> None:
        """Hands over what is still in flight."""
        cute.arch.cp_async_wait_group(0)
        for _ in range_(self.pending, unroll=1):
            self.hand_over()
