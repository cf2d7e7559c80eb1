"""Recording when things happen: what the pass `record_clocks` inserts, on request.

The *record buffer* has, for each thread of the first few blocks, `slots` entries of 16 bytes::

    entry 0       u64 nanoseconds, u32 SM | 1 << 31, u32 dropped       of the thread's start
    entries 1..   u64 clock of the begin, u32 clocks, u32 tag          one for each event

A tag is the site (bits 0-14), 1 << 15, and the address of an mbarrier over 8 (bits 16-31), or 0.
An event is recorded by the first of the lanes that are there, in its own entries.  What does not
fit is dropped and counted.  All bytes are zero before the launch.
"""

from __future__ import annotations

from tilewright.ir.constraints import pointer, scalar
from tilewright.ir.core import Effect, Op, attr, operand, variadic
from tilewright.ir.core import result as declared_result
from tilewright.ir.types import ScalarType, Space
from tilewright.numeric.dtypes import I64, U32, U64

RECORDS = pointer(Space.GMEM, U64)
BARRIER = pointer(Space.SMEM, U64)
ENTRY_BYTES = 16
VALID = 1 << 15
MAX_SITES = VALID


def _slots(slots: int) -> str | None:
    if slots >= 4 and slots & (slots - 1) == 0:
        return None
    return f"slots must be a power of two of at least 4, got {slots}"


class RecordStart(Op):
    """Writes entry 0 and gives the thread's cursor: where in the buffer it records next.

    Threads of blocks from number `blocks` on record nothing.
    """

    name = "record.start"
    effect = Effect.WRITE
    buffer = operand(RECORDS)
    blocks = attr(int)
    slots = attr(int)
    result = declared_result(lambda _: ScalarType(U32))

    def check(self) -> str | None:
        return _slots(self.slots)


class RecordSpan(Op):
    """Records that site `site` took from clock `begin` until now, and advances the cursor.

    `cursor` is the result of the `record.start`, `barrier` the mbarrier that the event is about.
    """

    name = "record.span"
    effect = Effect.WRITE
    buffer = operand(RECORDS)
    cursor = operand(scalar(U32))
    begin = operand(scalar(I64))
    barrier = variadic(BARRIER, at_most=1)
    site = attr(int)
    slots = attr(int)

    def check(self) -> str | None:
        if 0 <= self.site < MAX_SITES:
            return _slots(self.slots)
        return f"site must be 0 to {MAX_SITES - 1}, got {self.site}"
