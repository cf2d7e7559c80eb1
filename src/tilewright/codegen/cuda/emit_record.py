"""Recording clocks: the cursor is a variable of the thread, in bytes from the buffer's start.

A cursor at a multiple of a thread's share of the buffer is full; 0 is that of a thread that
records nothing.
"""

from __future__ import annotations

from tilewright.codegen.cuda.emit_memory import shared_address
from tilewright.codegen.cuda.emitter import Emitter, emits
from tilewright.codegen.cuda.expr import Expr, call, name
from tilewright.codegen.cuda.prelude import asm, function
from tilewright.ir.ops import record

_FIRST_LANE = function(
    "bool first_lane()",
    "u32 active, below;",
    asm("activemask.b32 %0;", '"=r"(active)', "", memory=False),
    asm("mov.u32 %0, %%lanemask_lt;", '"=r"(below)', "", memory=False, volatile=False),
    "return (active & below) == 0;",
)
_START = "template <u32 blocks, u32 share> " + function(
    "u32 record_start(u64* records)",
    "const u32 block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);",
    "const u32 thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);",
    "if (block >= blocks) return 0;",
    "const u32 at = (block * blockDim.x * blockDim.y * blockDim.z + thread) * share;",
    "u64 time;",
    "u32 sm;",
    asm("mov.u64 %0, %%globaltimer;", '"=l"(time)'),
    asm("mov.u32 %0, %%smid;", '"=r"(sm)', "", memory=False),
    f"if (first_lane()) *(uint4*)(records + at / 8) = make_uint4(time, time >> 32, "
    f"sm | {1 << 31}u, 0);",
    "return at + 16;",
)
# NOTE: predicates, not branches: wgmmas may be in flight here, and nothing must part the warp.
_SPAN = "template <u32 share> " + function(
    "void record_span(u64* records, u32& cursor, i64 begin, u32 tag)",
    "u32 now;",
    asm("mov.u32 %0, %%clock;", '"=r"(now)'),
    "const u64 entry = (u64)records + cursor;",
    asm(
        "{\n.reg .pred first, room, full;\n.reg .b32 used;\n"
        "setp.ne.u32 first, %1, 0;\n"
        "and.b32 used, %0, %7;\n"
        "setp.ne.and.u32 room, used, 0, first;\n"
        "setp.eq.and.u32 full, used, 0, first;\n"
        "setp.ne.and.u32 full, %0, 0, full;\n"
        "@room st.global.v4.u32 [%2], {%3, %4, %5, %6};\n"
        "@full ld.global.u32 used, [%2 + %8];\n"
        "@full add.u32 used, used, 1;\n"
        "@full st.global.u32 [%2 + %8], used;\n"
        "@room add.u32 %0, %0, 16;\n}",
        '"+r"(cursor)',
        '"r"((u32)first_lane()), "l"(entry), "r"((u32)begin), "r"((u32)(begin >> 32)), '
        '"r"(now - (u32)begin), "r"(tag), "n"(share - 1), "n"(12 - (int)share)',
    ),
)


@emits(record.RecordStart)
def record_start(em: Emitter, op: record.RecordStart) -> None:
    em.prelude.use("first_lane", _FIRST_LANE)
    em.prelude.use("record_start", _START)
    cursor = em.names.fresh("cursor")
    em.flush(em.facts.writes(op))
    share = op.slots * record.ENTRY_BYTES
    buffer = em.place(op.buffer).pointer()
    start = call(f"record_start<{op.blocks}, {share}>", buffer)
    em.out.line(f"u32 {cursor} = {start.text};")
    em.set(op.result, name(cursor))


@emits(record.RecordSpan)
def record_span(em: Emitter, op: record.RecordSpan) -> None:
    em.prelude.use("first_lane", _FIRST_LANE)
    em.prelude.use("record_span", _SPAN)
    tag = f"{op.site | record.VALID}"
    if op.barrier:
        tag += f" | {shared_address(em, op.barrier[0]).text} >> 3 << 16"
    args = [em.place(op.buffer).pointer(), em.expr(op.cursor), em.expr(op.begin), Expr(tag)]
    share = op.slots * record.ENTRY_BYTES
    em.statement(op, call(f"record_span<{share}>", *args).text + ";")
