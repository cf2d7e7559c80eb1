"""The whole text of a kernel: coverage of the operations, determinism, names, lines, goldens."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hopper_ir import hopper_gemm
from kernels import TENSOR_MAP, Kernel, gmem, scalar

from tilewright.codegen.cuda import kernel as kernel_module
from tilewright.codegen.cuda.emitter import EMITTERS
from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.errors import Loc, VerifyError
from tilewright.ir.core import OPS, Func
from tilewright.ir.ops import arith, bulk, control, copy, host, memory, mma, sync
from tilewright.runtime.toolchain import compile_cubin

FAMILIES = (arith, bulk, control, copy, host, memory, mma, sync)


def test_every_operation_of_a_kernel_has_an_emitter() -> None:
    ours = {
        name for family in FAMILIES for name, op in OPS.items() if op.__module__ == family.__name__
    }
    missing = {name for name in ours if OPS[name] not in EMITTERS and not name.startswith("host.")}
    assert missing == set()
    assert kernel_module.FAMILIES


def saxpy() -> Func:
    k = Kernel("saxpy", x=gmem("f32"), y=gmem("f32"), alpha=scalar("f32"), n=scalar("i32"))
    at = k.mul(k.special("block_idx"), k.special("block_dim"))
    i = k.add(at, k.special("thread_idx"), name="i")

    def body() -> None:
        k.store(k.at(k.y, i), k.add(k.mul(k.alpha, k.load(k.at(k.x, i))), k.load(k.at(k.y, i))))

    k.branch(k.cmp(i, "lt", k.n), body)
    return k.done()


def block_sum() -> Func:
    """A block's sum by shuffles and shared memory."""
    k = Kernel("block_sum", x=gmem("f32"), out=gmem("f32"))
    k.func.max_threads = 256
    partial = k.shared("f32", 8, 0, "partial", align=16)
    thread = k.special("thread_idx", name="thread")
    lane, warp = k.mod(thread, k.i32(32), name="lane"), k.div(thread, k.i32(32), name="warp")
    four = k.load(k.at(k.x, k.mul(thread, k.i32(4)), divisor=4), 4, name="four")
    total = k.v(arith.Reduce, four, kind="add", name="total")
    for step in (16, 8, 4, 2, 1):
        other = k.v(sync.WarpShuffle, total, k.u32(step), mode="bfly", name="other")
        total = k.add(total, other, name="total")
    first = k.cmp(lane, "eq", k.i32(0))
    k.branch(first, lambda: k.store(k.at(partial, warp), total))
    k.do(sync.SyncThreads)

    def finish() -> None:
        with k.loop(
            k.i32(0), k.i32(8), inits=[k.const(0.0, "f32")], names=["sum"], iv="w", unroll=0
        ) as loop:
            loop.end(k.add(loop.args[0], k.load(k.at(partial, loop.iv))))
        k.store(k.at(k.out, k.special("block_idx")), loop.results[0])

    k.branch(k.cmp(thread, "eq", k.i32(0)), finish)
    return k.done()


@pytest.mark.parametrize("build", [saxpy, block_sum])
def test_small_kernels(build: Callable[[], Func], golden: Callable[[str, str], None]) -> None:
    text = emit_cuda(build(), line_info=False)
    golden(build.__name__, text)
    compile_cubin(text, build.__name__, "sm_80")


def test_the_same_kernel_gives_the_same_text_in_every_process() -> None:
    here = emit_cuda(hopper_gemm())
    assert emit_cuda(hopper_gemm()) == here
    script = "from hopper_ir import hopper_gemm; from tilewright.codegen.cuda.kernel import "
    script += "emit_cuda; import sys; sys.stdout.write(emit_cuda(hopper_gemm()))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "7"},
    )
    assert done.stdout == here


def test_lines_lead_back_to_python() -> None:
    k = Kernel("lines", out=gmem("i32"), n=scalar("i32"))
    k.func.loc = Loc("/home/me/kernels/lines.py", 3)
    for line in (10, 10, 12):
        k.loc = Loc("/home/me/kernels/lines.py", line)
        k.store(k.out, k.i32(line))
    k.loc = Loc("/home/me/kernels/lines.py", 20)
    with k.loop(k.i32(0), k.n, unroll=1) as loop:
        k.loc = Loc("/home/me/kernels/lines.py", 21)
        k.store(k.at(k.out, loop.iv), k.i32(0))
    text = emit_cuda(k.done())
    assert text.startswith("// lines, from lines.py\n")
    assert "/home/me" not in text
    numbered = {}
    current = None
    for row in text.splitlines():
        if row.startswith("#line"):
            current = int(row.split()[1])
        elif current is not None:
            if not row.lstrip().startswith("#"):
                numbered[row.strip()] = current
            current += 1
    assert numbered["out[0] = 10;"] == 10
    assert numbered["out[0] = 12;"] == 12
    assert numbered["out[i] = 0;"] == 21
    # A pragma stands right before its loop.
    assert "#pragma unroll 1\n  for (" in text
    assert "#line" not in emit_cuda(k.func, line_info=False)
    compile_cubin(text, "lines", "sm_80")


def test_signature() -> None:
    k = Kernel(
        "signature",
        **{"for": scalar("i32"), "min": scalar("f32"), "tma": TENSOR_MAP, "p": gmem("e4m3")},
        very_long_parameter_name=scalar("u64"),
        another_long_parameter_name=scalar("i64"),
    )
    k.func.max_threads, k.func.min_blocks, k.func.cluster = 256, 2, (1, 2, 1)
    text = emit_cuda(k.done(), line_info=False)
    assert (
        'extern "C" __global__ void __cluster_dims__(1, 2, 1) __launch_bounds__(256, 2)\n'
        "signature(int for_1, float min_1, const __grid_constant__ TensorMap tma, const e4m3* p,\n"
        "    u64 very_long_parameter_name, i64 another_long_parameter_name) {" in text
    )
    compile_cubin(text, "signature", "sm_90a")


def test_names_never_hide_one_another() -> None:
    k = Kernel("names", out=gmem("i32"), i=scalar("i32"))
    with k.loop(k.i32(0), k.i, iv="i") as outer:
        with k.loop(k.i32(0), outer.iv, iv="i") as inner:
            k.store(k.at(k.out, inner.iv), k.i)
        with k.loop(k.i32(0), outer.iv, iv="i") as again:
            k.store(k.at(k.out, again.iv), outer.iv)
    text = emit_cuda(k.done(), line_info=False)
    assert text.count("for (int i_2 = 0; i_2 < i_1; i_2++)") == 2
    assert "out[i_2] = i;" in text
    assert "out[i_2] = i_1;" in text


def test_host_operations_are_refused() -> None:
    k = Kernel("host")
    k.do(host.Launch, kernel="other")
    with pytest.raises(VerifyError, match=r"host\.launch is not an operation of a kernel"):
        emit_cuda(k.done())
