"""A simulator's `Launch` on a GPU: the same kernel, grid and arguments.

`prepare` launches with device addresses in the arguments.  `replay` runs a launch whose arrays are
the simulator's: their bytes go to the GPU and come back, so that both can be compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.compiler.host import TensorMapFields
from tilewright.errors import LaunchError
from tilewright.ir.types import PtrType, ScalarType, TensorMapType, Type
from tilewright.runtime import driver
from tilewright.runtime.cache import compile_cached
from tilewright.runtime.device_buffer import device_buffers
from tilewright.runtime.launch import KernelParams, LaunchConfig, PreparedLaunch
from tilewright.runtime.tensormap import TensorMapSpec, encode
from tilewright.sim.machine import Launch
from tilewright.sim.memory import GlobalMemory
from tilewright.sim.tensormap import TensorMap


def prepare(
    launch: Launch, device: int = 0, stream: Any = None, allow_spills: bool = False
) -> PreparedLaunch:
    """The launch, compiled for GPU `device`.  Its pointers are addresses there.

    Raises: LaunchError without a GPU; ToolchainError where NVRTC refuses the kernel, or where it
            spills and may not.
    """
    driver.require_gpu()
    kernel = launch.kernel
    target = driver.device_info(device).target
    made = compile_cached(emit_cuda(kernel), kernel.name, target, allow_spills=allow_spills)
    cubin = made.compiled.cubin
    smem = max(launch.smem_bytes, kernel.smem_bytes)
    function = driver.load_function(cubin, kernel.name, smem, device)
    params = KernelParams(
        [parameter_kind(v.type) for v in kernel.args], [v.name for v in kernel.args]
    )
    params.fill([driver_value(a) for a in launch.args])
    config = LaunchConfig(launch.grid, launch.block, launch.cluster, smem, stream)
    return PreparedLaunch(function, config, params)


def replay(
    launch: Launch, memory: GlobalMemory, run: Callable[[Launch], None] | None = None
) -> None:
    """Runs a simulator's launch on GPU 0, over copies of `memory`; results land in `memory`.

    `run` gets the launch with device addresses; without it, it is launched once.  The kernel may
    take more arguments than the launch has, if `run` adds them.
    Raises: LaunchError without a GPU, or for a pointer argument into no buffer.
    """
    driver.require_gpu()
    windows = memory.windows
    with device_buffers([(w.data.size, w.start) for w in windows]) as buffers:
        moved = {w.start: b.address for w, b in zip(windows, buffers, strict=True)}
        for w, b in zip(windows, buffers, strict=True):
            b.write(w.data)
        there = replace(launch, args=tuple(_moved(launch, memory, moved)))
        if run is None:
            prepare(there)()
        else:
            run(there)
        driver.synchronize()
        for w, b in zip(windows, buffers, strict=True):
            b.read(w.data)


def _moved(launch: Launch, memory: GlobalMemory, to: dict[int, int]) -> list[Any]:
    """The arguments with device addresses."""

    def address(a: int, name: str) -> int:
        window = memory.window(a)
        if a == 0:
            return 0
        if window is None:
            raise LaunchError(
                f"replay {launch.kernel.name}: {name} points into no buffer ({memory.describe(a)})"
            )
        return to[window.start] + a - window.start

    made: list[Any] = []
    for value, parameter in zip(launch.args, launch.kernel.args, strict=False):
        if isinstance(value, TensorMap):
            made.append(replace(value, base=address(value.base, parameter.name)))
        elif isinstance(parameter.type, PtrType):
            made.append(address(int(value), parameter.name))
        else:
            made.append(value)
    return made


def driver_value(value: Any) -> Any:
    """An argument as the driver takes it: tensor maps are encoded."""
    if not isinstance(value, TensorMapFields | TensorMap):
        return value
    label = value.label if isinstance(value, TensorMapFields) else ""
    return encode(map_spec(value), value.base, label or "tensor")


def map_spec(value: TensorMapFields | TensorMap) -> TensorMapSpec:
    """The tensor map for the driver, without its address."""
    promotion: Any = f"{value.l2_promotion}B" if value.l2_promotion else "none"
    swizzle: Any = value.swizzle
    return TensorMapSpec(
        value.dtype,
        len(value.dims),
        value.dims,
        value.strides,
        value.box,
        swizzle=swizzle,
        l2_promotion=promotion,
        oob_fill="nan" if value.oob_nan else "zero",
    )


def parameter_kind(t: Type) -> str:
    """The kind of a kernel's parameter: see `runtime.launch.KernelParams`."""
    if isinstance(t, TensorMapType):
        return "tensormap"
    if isinstance(t, PtrType):
        return "ptr"
    assert isinstance(t, ScalarType), "verified: kernels take scalars, pointers and tensor maps"
    return t.dtype.name
