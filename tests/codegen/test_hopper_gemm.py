"""The proof of the generator: a persistent Hopper GEMM, compared with what reaches cuBLAS's speed.

Expected counts are those of the hand-written reference kernel of the same structure (128 x 256
tile, 4 stages), measured at library speed on an H200.
"""

from __future__ import annotations

import pytest
from hopper_ir import hopper_gemm

from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.runtime.sass import disassemble, opcode_counts
from tilewright.runtime.toolchain import CompiledCubin, compile_cubin


@pytest.fixture(scope="module")
def compiled() -> CompiledCubin:
    return compile_cubin(emit_cuda(hopper_gemm()), "gemm", "sm_90a")


def test_registers_spills_and_warnings(compiled: CompiledCubin) -> None:
    assert compiled.registers == {"gemm": 168}
    assert (compiled.spill_stores, compiled.spill_loads, compiled.stack_bytes) == (0, 0, 0)
    assert compiled.warnings == ()


def test_instructions_are_those_of_the_reference(compiled: CompiledCubin) -> None:
    counts = opcode_counts(compiled.cubin)
    expected = {
        "HGMMA.64x256x16.F32.BF16": 4,  # one k block, not unrolled
        "WARPGROUP.ARRIVE": 1,
        "WARPGROUP.DEPBAR.LE": 2,
        "UTMALDG.2D": 2,
        "UTMASTG.2D": 4,
        "STSM.16.M88.4": 16,
        "F2FP.BF16.F32.PACK_AB": 64,
        "SYNCS.PHASECHK.TRANS64.TRYWAIT": 2,
        "USETMAXREG.DEALLOC.CTAPOOL": 1,
        "USETMAXREG.TRY_ALLOC.CTAPOOL": 1,
    }
    assert {op: counts[op] for op in expected} == expected
    assert not [
        op for op in counts if op.startswith(("MEMBAR.ALL.GPU", "LDL", "STL", "ST.", "LD."))
    ]
    # The reference has 504; what is more here are floor divisions of the tile scheduler.
    assert sum(counts.values()) < 504 * 1.1


def test_the_main_loop_is_tight(compiled: CompiledCubin) -> None:
    rows = disassemble(compiled.cubin)
    last = max(n for n, row in enumerate(rows) if row.opcode.startswith("HGMMA"))
    back = next(row for row in rows[last:] if row.opcode.startswith("BRA"))
    start = int(back.operands.split("0x")[1].split()[0], 16)
    loop = [row for row in rows if start <= row.address <= back.address]
    assert sum(row.opcode.startswith("HGMMA") for row in loop) == 4
    assert len(loop) <= 60  # the reference: 48


def test_the_text_reads_like_a_kernel() -> None:
    text = emit_cuda(hopper_gemm(), line_info=False)
    body = text[text.index('extern "C"') :]
    for phrase in (
        "  if (group == 0) {\n    setmaxnreg_dec<40>();\n",
        "mbarrier_wait(smem_u32(empty + stage), phase ^ 1);",
        "tma_load_2d(smem_u32(sA + stage * 8192), &tma_a, smem_u32(v",
        "        stage = wraps ? 0 : following;\n",
        "      wgmma_wait<0>(acc);\n",
        "stmatrix_x4(smem_u32(staged + ",
    ):
        assert phrase in body, phrase
    assert max(len(row) for row in body.splitlines()) < 130
