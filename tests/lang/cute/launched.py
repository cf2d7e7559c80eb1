"""Traces a host function on NumPy arrays, and runs its launches on the simulated machine."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tilewright.arch.target import target
from tilewright.compiler.host import TensorMapFields, evaluate_host
from tilewright.ir.core import Module
from tilewright.ir.types import PtrType, ScalarType, Space
from tilewright.lang.cute.facts import assume
from tilewright.lang.cute.pointer import Pointer
from tilewright.lang.cute.tensor import Tensor
from tilewright.lang.jit import HostTrace, JitFunction, trace_host
from tilewright.lang.values import Int32, Int64
from tilewright.layout.layout import Layout
from tilewright.numeric.dtypes import dtype
from tilewright.passes.pipeline import run_passes
from tilewright.sim.machine import GlobalMemory, Launch, SimOptions, TensorMap, simulate

BF16 = ml_dtypes.bfloat16


def trace(
    fn: JitFunction, arrays: list[np.ndarray], rest: tuple = (), on: str = "sm_90a"
) -> Module:
    """The module of ``fn(*arrays, *rest)``, the arrays as tensors of run-time shape and stride."""

    def arguments(host: HostTrace) -> dict[str, Any]:
        names = list(fn.signature.parameters)
        made: dict[str, Any] = {}
        for name, a in zip(names, arrays, strict=False):
            row = dtype(a.dtype.name)
            base = host.add_argument(name, PtrType(row, Space.GMEM, 16))
            shape = [
                Int32(host.add_argument(f"{name}_n", ScalarType(dtype("i32")))) for _ in a.shape
            ]
            stride: list[Any] = []
            for nbytes in a.strides:
                steps = nbytes // a.itemsize
                if steps != 1:
                    number = Int64(host.add_argument(f"{name}_d", ScalarType(dtype("i64"))))
                    steps = assume(number, 16 // a.itemsize)
                stride.append(steps)
            made[name] = Tensor(Pointer(base), Layout(tuple(shape), tuple(stride)))
        return made | dict(zip(names[len(arrays) :], rest, strict=True))

    module = trace_host(fn, arguments, target(on))
    run_passes(module, target(on))
    return module


def run(
    fn: JitFunction, arrays: list[np.ndarray], rest: tuple = (), on: str = "sm_90a", seed: int = 0
) -> Module:
    """Traces, then runs every launch; results land in the arrays.  Findings raise."""
    module = trace(fn, arrays, rest, on)
    memory = GlobalMemory()
    numbers: list[int] = []
    for i, a in enumerate(arrays):
        flat = (a if a.flags.c_contiguous else a.T).reshape(-1).view(np.uint8)
        numbers.append(memory.map(flat, f"argument {i}", 0x10000))
        numbers += a.shape
        numbers += [s // a.itemsize for s in a.strides if s != a.itemsize]
    assert module.host is not None
    for launch in evaluate_host(module.host, numbers):
        args = tuple(_map(x) if isinstance(x, TensorMapFields) else x for x in launch.args)
        simulate(
            Launch(
                module.kernels[launch.kernel],
                launch.grid,
                launch.block,
                launch.cluster,
                launch.smem_bytes,
                args,
            ),
            memory,
            SimOptions(seed=seed),
        )
    return module


def _map(x: TensorMapFields) -> TensorMap:
    return TensorMap(x.dtype, x.base, x.dims, x.strides, x.box, x.swizzle, x.oob_nan)


def integers(shape: tuple[int, int], kind: Any, seed: int, row_major: bool = True) -> np.ndarray:
    """Small whole numbers, so that every sum is exact."""
    numbers = np.random.default_rng(seed).integers(-3, 4, shape).astype(kind)
    return numbers if row_major else np.asfortranarray(numbers)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a @ b.T`` in float32."""
    return a.astype(np.float32) @ b.astype(np.float32).T
