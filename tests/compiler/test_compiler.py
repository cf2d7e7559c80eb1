"""Captured programs: keys, host evaluation, both backends' entrances, and what they refuse."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tilewright import cute, dsl
from tilewright.arch.target import target
from tilewright.compiler import compile_function
from tilewright.errors import (
    CaptureError,
    LaunchError,
    ResourceError,
    SimulationError,
    TargetError,
    TilewrightError,
)
from tilewright.lang.cute.facts import divisor
from tilewright.utils import SmemAllocator


@cute.kernel
def scale_kernel(x: cute.Tensor, y: cute.Tensor, factor: dsl.Float32) -> None:
    i = cute.arch.block_idx()[0] * 64 + cute.arch.thread_idx()[0]
    if i < cute.size(x):
        y[i] = x[i] * factor


@cute.jit
def scale(x: cute.Tensor, y: cute.Tensor, factor: dsl.Float32) -> None:
    scale_kernel(x, y, factor).launch(grid=(cute.ceil_div(cute.size(x), 64), 1, 1), block=64)


def vectors(n: int, dtype: Any = np.float32) -> tuple[Any, Any]:
    return np.arange(n, dtype=dtype), np.full(n, -1, dtype)


def test_a_jit_function_runs_in_the_simulator() -> None:
    x, y = vectors(150)
    scale(x, y, 3.0)
    assert (y == 3 * x).all()


def test_one_compilation_serves_all_sizes_addresses_and_numbers() -> None:
    first = compile_function(scale, *vectors(150), 3.0)
    assert compile_function(scale, *vectors(77), -1.0) is first
    x, y = vectors(77)
    first(x, y, 2.0)
    assert (y == 2 * x).all()


def test_types_and_strides_compile_anew() -> None:
    first = compile_function(scale, *vectors(150), 3.0)
    assert compile_function(scale, *vectors(150, np.float16), 3.0) is not first
    x, y = vectors(150)
    assert compile_function(scale, x[::2], y[::2], 3.0) is not first
    scale(x[::2], y[::2], 2.0)
    assert (y[::2] == 2 * x[::2]).all()
    assert (y[1::2] == -1).all()


def test_the_extent_of_a_row_counts_as_far_as_its_pitch_does() -> None:
    """Whether whole accesses fill a row is compiled in; packed rows compile no more for that."""

    @cute.jit
    def rows(x: cute.Tensor) -> None:
        found.append(divisor(x.shape[1]))

    found: list[int] = []
    whole = np.zeros((8, 64), np.float16)
    for extent in (64, 56, 60, 63):
        compile_function(rows, whole[:, :extent])
    assert found == [8, 4, 1]
    found.clear()
    for pitch in (63, 61):
        compile_function(rows, np.zeros((8, pitch), np.float16))
    # As the rows of 63 in a pitch of 64, but for the pitch itself.
    assert found == [1]


def test_arguments_that_it_was_not_compiled_for() -> None:
    compiled = compile_function(scale, *vectors(150), 3.0)
    with pytest.raises(LaunchError, match="scale: argument x is not what it was compiled for"):
        compiled(*vectors(150, np.float16), 3.0)


def test_an_empty_grid_is_no_error() -> None:
    """CASES A28."""
    x, y = vectors(0)
    scale(x, y, 3.0)


def test_source_is_deterministic_across_processes() -> None:
    script = (
        "import numpy as np\n"
        "from tilewright.library.gemm import prepare_gemm, random_operands\n"
        "from tilewright.library.problem import GemmProblem\n"
        "p = GemmProblem.packed(256, 256, 64, ab='bf16', d='bf16')\n"
        "a, b, c, out = random_operands(p)\n"
        "print(prepare_gemm(a, b, c, out=out).compiled.source())\n"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(texts) == 1
    assert "#line" in texts.pop()


@cute.kernel
def out_of_bounds_kernel(x: cute.Tensor) -> None:
    x[cute.arch.thread_idx()[0] + 1] = dsl.Float32(0.0)


@cute.jit
def out_of_bounds(x: cute.Tensor) -> None:
    out_of_bounds_kernel(x).launch(grid=1, block=32)


def test_a_fault_is_reported_at_its_line() -> None:
    with pytest.raises(SimulationError) as error:
        out_of_bounds(np.zeros(32, np.float32))
    text = str(error.value)
    assert "x[cute.arch.thread_idx()[0] + 1] = dsl.Float32(0.0)" in text
    assert re.search(r"test_compiler.py:\d+", text)


@cute.kernel
def hopper_kernel(x: cute.Tensor) -> None:
    smem = dsl.Int32(0)
    cute.arch.setmaxregister_decrease(40)
    x[smem] = dsl.Float32(0.0)


@cute.jit
def hopper(x: cute.Tensor) -> None:
    hopper_kernel(x).launch(grid=1, block=128)


def test_a_hopper_only_operation_for_ampere() -> None:
    with pytest.raises(TilewrightError) as error:
        compile_function(hopper, np.zeros(4, np.float32), target=target("sm_80"))
    text = str(error.value)
    assert isinstance(error.value, TargetError)
    assert text.startswith("sync.setmaxnreg: needs sm_90 or newer, the target is sm_80\n")
    assert "cute.arch.setmaxregister_decrease(40)" in text
    assert text.endswith("hint: compile for sm_90a, or use an older instruction here")


@cute.kernel
def large_kernel(x: cute.Tensor) -> None:
    smem = SmemAllocator()
    big = smem.allocate_tensor(dsl.Float32, cute.make_layout((256, 256)), 16, label="big")
    big[0, 0] = dsl.Float32(1.0)
    x[0] = big[0, 0]


@cute.jit
def large(x: cute.Tensor) -> None:
    large_kernel(x).launch(grid=1, block=32)


def test_too_much_shared_memory_names_the_buffer() -> None:
    with pytest.raises(ResourceError) as error:
        compile_function(large, np.zeros(4, np.float32))
    text = str(error.value)
    assert text.startswith(
        "shared memory: 262,144 bytes > 232,448 on sm_90a, of which big takes 262,144\n"
    )
    assert "in large_kernel" in text
    assert text.endswith("hint: use fewer stages or a smaller tile")


def test_compile_wants_a_jit_function() -> None:
    with pytest.raises(CaptureError) as error:
        compile_function(len, [])  # type: ignore[arg-type]
    assert str(error.value) == (
        "compile: expected a @cute.jit function, got builtin_function_or_method\n"
        "  hint: decorate the host function that launches the kernel with @cute.jit"
    )


def test_import_needs_neither_cuda_nor_torch() -> None:
    script = (
        "import sys, tilewright\n"
        "bad = [m for m in sys.modules if m.split('.')[0] in ('cuda', 'torch', 'cupy')]\n"
        "assert not bad, bad\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_device_printing() -> None:
    report = compile_function(say, np.zeros(1, np.float32)).simulate(np.zeros(1, np.float32))
    assert report.printed == ["thread 0 of 2", "thread 1 of 2"]


@cute.kernel
def say_kernel(x: cute.Tensor) -> None:  # noqa: ARG001
    cute.printf("thread %d of %d", cute.arch.thread_idx()[0], 2)


@cute.jit
def say(x: cute.Tensor) -> None:
    say_kernel(x).launch(grid=1, block=2)


class Fp8LikeTorch:
    """torch's fp8 tensors: their CUDA array interface raises KeyError when it is read."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape, self.dtype, self.is_cuda = array.shape, "torch.float32", False
        self.device = "cpu"

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def stride(self) -> tuple[int, ...]:
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def element_size(self) -> int:
        return int(self.array.itemsize)

    @property
    def __cuda_array_interface__(self) -> Any:
        raise KeyError("torch.float8_e4m3fn")


def test_an_array_whose_cuda_interface_raises() -> None:
    x, y = vectors(70)
    scale(Fp8LikeTorch(x), y, 2.0)
    assert (y == 2 * x).all()
