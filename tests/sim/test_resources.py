"""Registers and shared memory of a kernel: by hand, and next to what ptxas says."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.ir.ops import arith, memory
from tilewright.library.gemm import prepare_gemm, random_operands
from tilewright.library.kernels.simt_gemm import SimtGemmConfig
from tilewright.library.kernels.sm80_gemm import Sm80GemmConfig
from tilewright.library.problem import GemmProblem
from tilewright.numeric.dtypes import F16, F32, F64
from tilewright.sim.resources import resources_of


def test_values_live_from_definition_to_last_use(kit: Any) -> None:
    k = kit(kit.gmem(F32))
    (x,) = k.args
    values = [k.load(x, i) for i in range(10)]
    total = values[0]
    for v in values[1:]:
        total = k.v(arith.Add, total, v)
    k.store(x, 0, total)
    assert resources_of(k.func()).registers == 10


@pytest.mark.parametrize(
    ("kind", "count", "registers"), [(F32, 48, 48), (F16, 48, 24), (F64, 8, 16)]
)
def test_register_arrays(kit: Any, kind: Any, count: int, registers: int) -> None:
    k = kit(kit.gmem(kind))
    (x,) = k.args
    held = k.v(memory.AllocRegisters, dtype=kind.name, count=count)
    for i in range(count):
        k.store(held, i, k.load(x, i))
    for i in range(count):
        k.store(x, i, k.load(held, i))
    assert resources_of(k.func()).registers == registers


def test_what_a_loop_only_reads_lives_in_all_of_it(kit: Any) -> None:
    def registers(inside: bool) -> int:
        k = kit(kit.gmem(F32))
        (x,) = k.args
        outer = [k.load(x, i) for i in range(8)]
        if not inside:
            for v in outer:
                k.store(x, 0, v)

        def body(_: Any) -> tuple[()]:
            if inside:
                for v in outer:
                    k.store(x, 0, v)
            more = [k.load(x, i) for i in range(8)]
            for v in more:
                k.store(x, 0, v)
            return ()

        k.for_(0, 4, 1, body)
        return resources_of(k.func()).registers

    # 8 values, and the loop's own 8 with its counter
    assert registers(inside=False) == 9
    assert registers(inside=True) == 17


def prepared(kernel: str, size: tuple[int, int, int], ab: str, config: Any) -> Any:
    problem = GemmProblem.packed(*size, ab=ab, d=ab)
    a, b, _, out = random_operands(problem)
    return prepare_gemm(a, b, out=out, kernel=kernel, config=config)


@pytest.mark.parametrize(
    ("kernel", "ab", "config"),
    [
        ("simt_gemm", "f32", SimtGemmConfig((64, 64, 8))),
        ("sm80_gemm", "f16", Sm80GemmConfig((64, 64, 32), 3)),
    ],
)
def test_the_estimate_is_near_what_ptxas_needs(kernel: str, ab: str, config: Any) -> None:
    """Within two fifths.  ptxas moves, recomputes and reuses."""
    pytest.importorskip("cuda.bindings.nvrtc")
    p = prepared(kernel, (64, 64, 64), ab, config)
    (func,) = p.compiled.module.kernels.values()
    exact = p.compiled.cubin().kernels[func.name].registers
    assert abs(resources_of(func).registers - exact) <= 0.4 * exact


def test_shared_memory_by_buffer() -> None:
    p = prepared("sm80_gemm", (64, 64, 64), "f16", Sm80GemmConfig((64, 128, 32), 3))
    (func,) = p.compiled.module.kernels.values()
    used = resources_of(func)
    assert used.buffers == (("sB", 3 * 128 * 32 * 2), ("sA", 3 * 64 * 32 * 2))
    assert used.shared_bytes == sum(size for _, size in used.buffers)
