"""The Hopper main loop without a producer: the warpgroup that multiplies also loads.

    begin      thread 0: TMA A, TMA B into as many stages as there are, or k tiles
    multiply   wait full -> wgmma steps -> wait for the group before -> release its stage;
               thread 0: wait until all warps have -> TMA A, TMA B of a later k tile into it

Fewer threads have more registers each, but the one that loads holds up its warp.
"""

from __future__ import annotations

from typing import Any

from tilewright.collective.mainloop.sm90_tma import TmaProducer, WgmmaConsumer
from tilewright.collective.pipeline import make_producer_state
from tilewright.collective.work import Piece
from tilewright.lang import cute, words
from tilewright.lang.values import Int32


class SelfFedConsumer(WgmmaConsumer):
    """A `WgmmaConsumer` whose thread 0 fills the ring, by `producer`, as it goes.

    A block has one piece of work, for which it finds a fresh ring.
    """

    def __init__(self, producer: TmaProducer, thread: Any, *consumer: Any) -> None:
        super().__init__(*consumer)
        self.producer, self.loads = producer, thread == 0
        self.filling = make_producer_state(self.pipe.stages)
        self.piece = Piece(*(Int32(0) for _ in Piece._fields))
        self.ahead = Int32(0)  # k tiles of the piece that have been asked for

    @cute.jit
    def begin(self, piece: Any) -> None:
        """Fills the ring with the first k tiles of the piece."""
        self.piece = piece
        self.ahead = words.min(piece.k_count, self.pipe.stages)
        if self.loads:
            self.producer.fill(self.filling, piece, piece.k_first, self.ahead, fresh=True)

    @cute.jit
    def release(self, stage: Any) -> None:
        """Gives the stage back, and fills it with the next k tile if there is one."""
        self.pipe.consumer_release(stage, self.first_lane)
        if self.ahead < self.piece.k_count:
            if self.loads:
                self.producer.fill(self.filling, self.piece, self.piece.k_first + self.ahead, 1)
            self.ahead = self.ahead + 1
