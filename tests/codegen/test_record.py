"""Recording clocks in CUDA C++."""

from __future__ import annotations

import pytest
from kernels import Kernel, gmem, scalar

from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.ir.ops import memory, sync
from tilewright.passes.record_clocks import record_clocks
from tilewright.runtime.sass import opcode_counts
from tilewright.runtime.toolchain import compile_cubin


def recorded(k: Kernel) -> str:
    made, _ = record_clocks(k.done(), 2, 64)
    return emit_cuda(made, line_info=False)


def test_text() -> None:
    k = Kernel("waits", x=gmem("f32"), parity=scalar("u32"))
    bar = k.shared("u64", 2, 0, "bar", align=8)
    k.do(sync.MBarrierWait, k.at(bar, 1), k.parity)
    k.do(memory.Store, k.x, k.const(1.0, "f32"))
    text = recorded(k)
    assert "waits(float* x, u32 parity, u64* records) {" in text
    body = text[text.index("extern") :]
    lines = [line.strip() for line in body.splitlines()]
    for line in (
        "u32 cursor = record_start<2, 1024>(records);",
        "record_span<1024>(records, cursor, now, 32768);",
        "mbarrier_wait(smem_u32(bar + 1), parity);",
        "record_span<1024>(records, cursor, now_1, 32769 | smem_u32(bar + 1) >> 3 << 16);",
        "record_span<1024>(records, cursor, now_2, 32770);",
    ):
        assert line in lines, text
    assert lines.index("const i64 now_1 = clock64();") < lines.index(
        "mbarrier_wait(smem_u32(bar + 1), parity);"
    )


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_compiles_without_spills(target: str) -> None:
    k = Kernel("loop", x=gmem("f32"), n=scalar("i32"))
    i = k.special("thread_idx")
    k.do(sync.SyncThreads)
    k.store(k.at(k.x, i), k.load(k.at(k.x, k.add(i, k.n))))
    k.do(sync.SyncThreads)
    plain = emit_cuda(k.done(), line_info=False)
    made, sites = record_clocks(k.func, 2, 64)
    text = emit_cuda(made, line_info=False)
    before, after = (opcode_counts(compile_cubin(t, "loop", target).cubin) for t in (plain, text))
    assert before["STG.E.128"] == 0
    assert after["STG.E.128"] == len(sites) + 1, "one entry for each event, and the thread's own"
    barriers = [sum(n for op, n in c.items() if op.startswith("BAR")) for c in (before, after)]
    assert barriers[0] == barriers[1] > 0
