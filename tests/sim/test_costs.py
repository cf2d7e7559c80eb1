"""Bank conflicts and sectors of real kernels: the numbers of CASES A16."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from tilewright import cute, dsl
from tilewright.dsl import Constexpr, Float32, const_expr, range_constexpr
from tilewright.layout.analysis import bank_conflicts, coalescing
from tilewright.library.gemm import prepare_gemm, random_operands
from tilewright.library.problem import GemmProblem
from tilewright.sim.costs import CYCLE_BYTES, Cost, bank_cycles, merged, sectors
from tilewright.sim.options import SimOptions
from tilewright.utils import SmemAllocator

MEASURED = SimOptions(measure_costs=True)
WORDS = 64 * 32


def run(host: Any, *arguments: Any) -> Any:
    return cute.compile(host, *arguments).simulate(*arguments, options=MEASURED)


def array(count: int, kind: Any = np.float32) -> Any:
    """Zeros that begin where a GPU's allocations do: at a multiple of 32 bytes, at least."""
    raw = np.zeros(count * np.dtype(kind).itemsize + 256, np.uint8)
    at = -raw.ctypes.data % 256
    return raw[at : len(raw) - 256 + at].view(kind)


def of(report: Any, kind: str, op: str = "", access: str = "") -> list[Cost]:
    return [c for c in report.costs if c.kind == kind and op in c.op and access in c.access]


def line_of(kernel: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(kernel.fn)
    return next(first + i for i, line in enumerate(lines) if text in line)


# -- f32 columns -----------------------------------------------------------------------------------


@cute.kernel
def column_kernel(y: cute.Tensor, stride: Constexpr, swizzle: Constexpr):
    t = cute.arch.thread_idx()[0]
    s = SmemAllocator().allocate_tensor(Float32, cute.make_layout(WORDS), 4096, label="s")
    for i in range_constexpr(WORDS // 32):
        s[i * 32 + t] = Float32(1.0)
    cute.arch.sync_warp()
    column = cute.make_layout(32, stride=stride)
    if const_expr(swizzle is not None):
        column = cute.make_composed_layout(cute.make_swizzle(*swizzle), 0, column)
    y[t] = cute.make_tensor(s.iterator, column)[t]  # READ


@cute.jit
def column(y: cute.Tensor, stride: Constexpr, swizzle: Constexpr):
    column_kernel(y, stride, swizzle).launch(grid=1, block=32)


@pytest.mark.parametrize(
    ("stride", "swizzle", "ways"),
    [
        (32, None, 32), (64, None, 32), (16, None, 16), (33, None, 1),
        (32, (5, 0, 5), 1), (32, (3, 0, 5), 4), (32, (2, 0, 5), 8),
    ],
)  # fmt: skip
def test_a_column_of_floats(stride, swizzle, ways):
    report = run(column, array(32), stride, swizzle)
    assert report.counters["bank_cycles"] == WORDS // 32 + ways
    assert report.counters["bank_cycles_ideal"] == WORDS // 32 + 1
    conflicts = of(report, "bank_conflict")
    if ways == 1:
        assert conflicts == []
        return
    (cost,) = conflicts
    assert (cost.op, cost.access, cost.size, cost.count) == ("mem.load", "read", 4, 1)
    assert (cost.worst, cost.actual, cost.ideal) == (ways, ways, 1)
    assert cost.loc.line == line_of(column_kernel, "# READ")
    assert cost.text == (f"{ways}-way bank conflict: 1 request takes {ways} cycles instead of 1")


# -- floats per lane, and 128-bit reads ------------------------------------------------------------


@cute.kernel
def runs_kernel(y: cute.Tensor, pitch: Constexpr, width: Constexpr):
    t = cute.arch.thread_idx()[0]
    s = SmemAllocator().allocate_tensor(Float32, cute.make_layout(WORDS), 4096, label="s")
    for i in range_constexpr(WORDS // 32):
        s[i * 32 + t] = Float32(1.0)
    cute.arch.sync_warp()
    r = cute.make_rmem_tensor(width, Float32)
    part = cute.make_tensor((s.iterator + t * pitch).align(4 * width), cute.make_layout(width))
    cute.autovec_copy(part, r)
    y[t] = r[0]


@cute.jit
def runs(y: cute.Tensor, pitch: Constexpr, width: Constexpr):
    runs_kernel(y, pitch, width).launch(grid=1, block=32)


@pytest.mark.parametrize(
    ("pitch", "width", "phases", "ways"),
    [
        (1, 1, 1, 1), (2, 1, 1, 2), (4, 1, 1, 4), (8, 1, 1, 8),
        (2, 2, 2, 1), (4, 2, 2, 2), (4, 4, 4, 1), (8, 4, 4, 2),
    ],
)  # fmt: skip
def test_runs_of_floats_per_lane(pitch, width, phases, ways):
    report = run(runs, array(32), pitch, width)
    assert report.counters["bank_cycles"] == WORDS // 32 + phases * ways
    assert report.counters["bank_cycles_ideal"] == WORDS // 32 + phases
    found = [(c.size, c.worst, c.actual, c.ideal) for c in of(report, "bank_conflict")]
    assert found == ([(4 * width, ways, phases * ways, phases)] if ways > 1 else [])


@cute.kernel
def broadcast_kernel(y: cute.Tensor):
    t = cute.arch.thread_idx()[0]
    s = SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), label="s")
    s[t] = Float32(1.0)
    cute.arch.sync_threads()
    y[t] = s[5] + s[(t // 32) * 7]


@cute.jit
def broadcast(y: cute.Tensor):
    broadcast_kernel(y).launch(grid=1, block=64)


def test_one_word_goes_to_all_lanes():
    report = run(broadcast, array(64))
    assert report.costs == ()
    assert report.counters["bank_cycles"] == report.counters["bank_cycles_ideal"] == 6


# -- ldmatrix --------------------------------------------------------------------------------------


@cute.kernel
def matrix_kernel(y: cute.Tensor, swizzle: Constexpr):
    """8 rows of 16 bytes: 8 values of M at each of k = 0..7, of (128,8):(1,128)."""
    t = cute.arch.thread_idx()[0]
    plain = SmemAllocator().allocate_tensor(
        dsl.Float16, cute.make_layout((128, 8), stride=(1, 128)), 4096, label="s"
    )
    flat = cute.make_tensor(plain.iterator, cute.make_layout(1024))
    for i in range_constexpr(32):
        flat[i * 32 + t] = dsl.Float16(1.0)
    cute.arch.sync_warp()
    layout = cute.make_layout((8, 8), stride=(1, 128))
    if const_expr(swizzle is not None):
        layout = cute.make_composed_layout(cute.make_swizzle(*swizzle), 0, layout)
    s = cute.make_tensor(plain.iterator, layout)
    atom = cute.make_copy_atom(cute.nvgpu.warp.LdMatrix8x8x16bOp(False, 1), dsl.Float16)
    r = cute.make_rmem_tensor(2, dsl.Float16)
    cute.copy(atom, s[None, t % 8], r)
    y[t] = r[0]


@cute.jit
def matrix(y: cute.Tensor, swizzle: Constexpr):
    matrix_kernel(y, swizzle).launch(grid=1, block=32)


@pytest.mark.parametrize(("swizzle", "ways"), [(None, 8), ((3, 3, 4), 1), ((3, 3, 3), 2)])
def test_the_rows_of_an_ldmatrix(swizzle, ways):
    report = run(matrix, array(32, np.float16), swizzle)
    assert report.counters["bank_cycles"] == 32 + ways
    found = [(c.worst, c.actual, c.ideal) for c in of(report, "bank_conflict", "ldmatrix")]
    assert found == ([(ways, ways, 1)] if ways > 1 else [])


# -- global memory ---------------------------------------------------------------------------------


@cute.kernel
def strided_kernel(x: cute.Tensor, y: cute.Tensor, stride: Constexpr):
    t = cute.arch.thread_idx()[0]
    y[t] = x[t * stride]  # READ


@cute.jit
def strided(x: cute.Tensor, y: cute.Tensor, stride: Constexpr):
    strided_kernel(x, y, stride).launch(grid=1, block=64)
    strided_kernel(x, y, stride).launch(grid=1, block=64)


@pytest.mark.parametrize(("stride", "per_warp"), [(1, 4), (2, 8), (4, 16), (8, 32), (32, 32)])
def test_sectors_of_strided_reads_over_two_launches(stride, per_warp):
    report = run(strided, array(64 * 32), array(64), stride)
    reads = of(report, "uncoalesced", access="read")
    if stride == 1:
        assert reads == []
        return
    (cost,) = reads
    assert (cost.count, cost.worst) == (4, per_warp)
    assert (cost.actual, cost.ideal, cost.unit) == (4 * per_warp * 32, 4 * 128, "bytes")
    assert cost.loc.line == line_of(strided_kernel, "# READ")
    assert cost.text == (
        f"up to {per_warp} sectors at once: 4 requests move {cost.actual:,} bytes instead of 512"
    )


# -- barriers --------------------------------------------------------------------------------------


@cute.kernel
def barriers_kernel(y: cute.Tensor, double: Constexpr):
    t = cute.arch.thread_idx()[0]
    s = SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), label="s")
    total = Float32(0.0)
    for i in dsl.range(3, unroll=1):
        s[t] = Float32(t + i)
        cute.arch.sync_threads()
        if const_expr(double):
            cute.arch.sync_threads()  # NEEDLESS
        total = total + s[63 - t]
        cute.arch.sync_threads()
    y[t] = total


@cute.jit
def barriers(y: cute.Tensor, double: Constexpr):
    barriers_kernel(y, double).launch(grid=2, block=64)


def test_a_barrier_with_nothing_to_order():
    y = array(64)
    assert of(run(barriers, y, False), "redundant_barrier") == []
    (cost,) = of(run(barriers, y, True), "redundant_barrier")
    assert cost.loc.line == line_of(barriers_kernel, "# NEEDLESS")
    assert (cost.op, cost.count, cost.actual, cost.ideal) == ("sync.threads", 6, 6, 0)
    assert cost.wasted_bytes == 6 * 20 * 128
    assert str(cost).endswith(
        "sync.threads: executed 6 times, and no memory was accessed since the barrier before"
    )


@cute.kernel
def needed_kernel(y: cute.Tensor):
    """Barriers that order initialised mbarriers, and accesses of half of the threads."""
    t = cute.arch.thread_idx()[0]
    full = SmemAllocator().allocate_array(dsl.Uint64, 1, label="full")
    s = SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), label="s")
    cute.arch.sync_threads()
    if t == 0:
        cute.arch.mbarrier_init(full, 1)
    cute.arch.sync_threads()
    if t < 32:
        s[t] = Float32(1.0)
    cute.arch.sync_threads()
    y[t] = s[t % 32]


@cute.jit
def needed(y: cute.Tensor):
    needed_kernel(y).launch(grid=1, block=64)


def test_barriers_that_order_something_are_not_named():
    assert of(run(needed, array(64)), "redundant_barrier") == []


# -- the library, and the arithmetic ---------------------------------------------------------------


def test_the_epilogue_of_sm90_gemm_has_no_bank_conflicts():
    problem = GemmProblem.packed(128, 128, 64, ab="bf16", d="bf16", with_c=False)
    a, b, c, out = random_operands(problem, 1)
    p = prepare_gemm(a, b, c, alpha=1.0, beta=0.0, out=out, kernel="sm90_gemm", config=None)
    report = p.compiled.simulate(*p.arguments, options=MEASURED)
    assert "copy.stmatrix" in p.compiled.ir
    assert of(report, "bank_conflict", "stmatrix") == []
    # 128 x 128 bf16 leave through stmatrix: 16 bytes a row, 8 rows a cycle.
    assert report.counters["bank_cycles_ideal"] >= 128 * 128 * 2 // CYCLE_BYTES
    assert report.counters["bank_cycles"] == report.counters["bank_cycles_ideal"]


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_the_arithmetic_is_that_of_layouts(size):
    random = np.random.default_rng(size)
    for spread in (8, 64, 1024):
        on = random.random(64) < 0.8
        on[[0, 40]] = True
        addresses = random.integers(0, spread, 64) * size
        wanted = [int(a) if o else None for a, o in zip(addresses, on, strict=True)]
        banks, moved = (
            bank_conflicts(wanted, access_bytes=size),
            coalescing(wanted, access_bytes=size),
        )
        threads = np.flatnonzero(on)
        assert bank_cycles(threads, addresses[on], size) == (
            2, banks.cycles, len(banks.phases), banks.ways,
        )  # fmt: skip
        assert sectors(threads, addresses[on], size) == (
            2,
            moved.bytes_moved,
            sum(r.ideal_sectors for r in moved.requests) * 32,
            max(r.sectors for r in moved.requests),
        )


def test_costs_are_off_by_default_and_come_in_the_order_of_their_waste():
    y = array(32)
    report = cute.compile(column, y, 32, None).simulate(y, 32, None, options=SimOptions())
    assert report.costs == ()
    assert "bank_cycles" not in report.counters
    small = Cost("uncoalesced", "mem.load", None, "read", 4, 1, 1024, 128, 32)
    large = Cost("bank_conflict", "mem.load", None, "read", 4, 1, 32, 1, 32)
    assert (small.wasted_bytes, large.wasted_bytes) == (896, 31 * 128)
    assert merged([small, large]) == (large, small)
    assert str(small).startswith("no line: mem.load, 4-byte read: up to 32 sectors at once")


def test_lanes_at_fault_are_left_out():
    """The lanes inside of the buffer are measured, also where others are not."""
    x, y = array(16), array(64)
    options = SimOptions(measure_costs=True, raise_on_findings=False)
    report = cute.compile(strided, x, y, 1).simulate(x, y, 1, options=options)
    assert {f.kind for f in report.findings} == {"out_of_bounds"}
    assert of(report, "uncoalesced", access="read") == []
    assert report.counters["sectors"] > 0
