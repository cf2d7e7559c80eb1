"""Launching a kernel: its parameters packed once, its configuration checked once, then one call.

A `PreparedLaunch` does everything that can be done ahead; calling it only calls the driver.
"""

from __future__ import annotations

import ctypes
import functools
import math
import numbers
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.errors import LaunchError
from tilewright.runtime import cuda_api
from tilewright.runtime.driver import Function, driver_error, ensure_context
from tilewright.runtime.tensormap import TensorMap

# kind -> struct code.  Each scalar gets an 8-byte slot of its own, whose low bytes it fills.
_SCALARS = {
    "ptr": "Q",
    "bool": "?",
    "i1": "?",
    "i8": "b",
    "u8": "B",
    "i16": "h",
    "u16": "H",
    "i32": "i",
    "u32": "I",
    "i64": "q",
    "u64": "Q",
    "f16": "e",
    "f32": "f",
    "f64": "d",
}
_SLOT = 8
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_BLOCK_LIMITS = (1024, 1024, 64)
_THREADS = 1024
_CLUSTER_BLOCKS = 16


class KernelParams:
    """The parameter buffer of one kernel signature, refilled for every call.

    `kinds` are `ptr`, `bool`, `i8` ... `u64`, `f16`, `f32`, `f64` and `tensormap`; `names` are the
    kernel's own, for messages.  The driver copies the values before a launch returns, so one
    buffer serves any number of launches, but only one thread at a time.

    >>> params = KernelParams(("ptr", "i32", "f32"), ("a", "n", "alpha"))
    >>> params.fill((0x1000, 5, 1.0))
    >>> params.slot_bytes(1)[:4]
    b'\\x05\\x00\\x00\\x00'
    """

    __slots__ = (
        "_buffer",
        "_format",
        "_kept",
        "_maps",
        "_pointers",
        "_scalars",
        "address",
        "kinds",
        "names",
    )

    def __init__(self, kinds: Sequence[str], names: Sequence[str] = ()) -> None:
        self.kinds = tuple(kinds)
        self.names = tuple(names) or tuple(f"#{index}" for index in range(len(self.kinds)))
        for index, kind in enumerate(self.kinds):
            if kind != "tensormap" and kind not in _SCALARS:
                known = ", ".join((*_SCALARS, "tensormap"))
                raise LaunchError(f"parameter {index}: unknown kind {kind!r}, expected {known}")
        count = len(self.kinds)
        self._buffer = (ctypes.c_uint64 * max(count, 1))()
        base = ctypes.addressof(self._buffer)
        slots = (base + _SLOT * index for index in range(count))
        self._pointers = (ctypes.c_void_p * max(count, 1))(*slots)
        self._maps = tuple(i for i, kind in enumerate(self.kinds) if kind == "tensormap")
        self._scalars = tuple(i for i, kind in enumerate(self.kinds) if kind != "tensormap")
        self._kept: tuple[Any, ...] = ()
        codes = (_SCALARS.get(kind, "") for kind in self.kinds)
        self._format = struct.Struct(
            "<" + "".join(f"{code}{_SLOT - struct.calcsize(code)}x" for code in codes)
        )
        self.address = ctypes.addressof(self._pointers)

    def fill(self, values: Sequence[Any]) -> None:
        """Write the values of one call.

        Raises: LaunchError for a wrong number of values, a wrong type, or one out of range.
        """
        if len(values) != len(self.kinds):
            raise LaunchError(
                f"the kernel takes {len(self.kinds)} parameters, {len(values)} were given"
            )
        scalars = values if not self._maps else [values[index] for index in self._scalars]
        try:
            self._format.pack_into(self._buffer, 0, *scalars)
            if self._maps:
                # The cache of maps may forget one that this buffer still points at.
                self._kept = tuple(values)
                for index in self._maps:
                    self._pointers[index] = values[index].address
        except (struct.error, OverflowError, TypeError, AttributeError):
            self._blame(values)
            raise

    def set_pointers(self, indices: Sequence[int], addresses: Sequence[int]) -> None:
        """Rewrite some pointers of the last call and leave the rest: nothing is checked.

        >>> params = KernelParams(("ptr", "i32"))
        >>> params.fill((0x1000, 5))
        >>> params.set_pointers((0,), (0x2000,))
        >>> params.slot_bytes(0)[:2], params.slot_bytes(1)[:1]
        (b'\\x00 ', b'\\x05')
        """
        buffer = self._buffer
        for index, address in zip(indices, addresses, strict=True):
            buffer[index] = address

    def slot_address(self, index: int) -> int:
        """Where the 8 bytes of scalar parameter `index` lie."""
        return ctypes.addressof(self._buffer) + _SLOT * index

    def slot_bytes(self, index: int) -> bytes:
        """The 8 bytes of scalar parameter `index` as the driver will read them."""
        return bytes(self._buffer)[_SLOT * index : _SLOT * (index + 1)]

    def _blame(self, values: Sequence[Any]) -> None:
        """Raise the error for the first value that does not fit its kind."""
        for index, (kind, name) in enumerate(zip(self.kinds, self.names, strict=True)):
            value = values[index]
            where = f"argument {index} ({name})"
            if kind == "tensormap":
                if not isinstance(value, TensorMap):
                    raise LaunchError(f"{where}: expected a TensorMap, got {type(value).__name__}")
                continue
            try:
                struct.pack("<" + _SCALARS[kind], value)
            except (struct.error, OverflowError, TypeError):
                if isinstance(value, numbers.Number):
                    fault = f"{value!r} does not fit {kind}"
                else:
                    fault = f"expected a number for {kind}, got {type(value).__name__}"
                raise LaunchError(f"{where}: {fault}") from None


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """How a kernel is launched.  `grid`, `block` and `cluster` are (x, y, z), or a prefix of it.

    Units:  grid in blocks, block in threads, cluster in blocks; `smem_bytes` is dynamic.
    `stream` is a handle, a torch or CUDA stream, an object with `__cuda_stream__`, or None for the
    default stream.  `pdl` lets the kernel start before the one in front of it has ended.

    >>> LaunchConfig((132, 1), (384,)).grid
    (132, 1, 1)
    """

    grid: tuple[int, ...]
    block: tuple[int, ...]
    cluster: tuple[int, ...] = (1, 1, 1)
    smem_bytes: int = 0
    stream: Any = None
    pdl: bool = False
    cooperative: bool = False

    def __post_init__(self) -> None:
        for name in ("grid", "block", "cluster"):
            object.__setattr__(self, name, _dim3(getattr(self, name), name))

    @property
    def is_empty(self) -> bool:
        """No block at all: a launch that succeeds by doing nothing."""
        return 0 in self.grid

    def validate(self, max_threads: int = _THREADS, kernel: str = "") -> None:
        """Return if every CUDA device accepts the shape; `max_threads` may come from the kernel.

        Raises: LaunchError naming the dimension, its value and the limit.
        """
        who = f"kernel {kernel!r}: " if kernel else ""
        for axis, value, most in zip("xyz", self.grid, _GRID_LIMITS, strict=True):
            if not 0 <= value <= most:
                raise LaunchError(
                    f"{who}grid {axis} is {value:,}, the limit is {most:,}",
                    hint="fold blocks into x, or loop over tiles in the kernel"
                    if axis != "x"
                    else "",
                )
        for axis, value, most in zip("xyz", self.block, _BLOCK_LIMITS, strict=True):
            if not 1 <= value <= most:
                raise LaunchError(f"{who}block {axis} is {value:,}, expected 1 to {most:,}")
        threads = math.prod(self.block)
        if threads > max_threads:
            limit = "the limit is" if max_threads == _THREADS else "its launch bounds allow"
            raise LaunchError(
                f"{who}block {self.block} has {threads:,} threads, {limit} {max_threads:,}"
            )
        if self.smem_bytes < 0:
            raise LaunchError(f"{who}smem_bytes is {self.smem_bytes}, expected 0 or more")
        self._validate_cluster(who)

    def _validate_cluster(self, who: str) -> None:
        for axis, value, blocks in zip("xyz", self.cluster, self.grid, strict=True):
            if value < 1:
                raise LaunchError(f"{who}cluster {axis} is {value}, expected 1 or more")
            if blocks % value:
                raise LaunchError(
                    f"{who}grid {axis} is {blocks}, not a multiple of cluster {axis}, {value}",
                    hint=f"round the grid up to {blocks + -blocks % value}",
                )
        if math.prod(self.cluster) > _CLUSTER_BLOCKS:
            raise LaunchError(
                f"{who}cluster {self.cluster} has {math.prod(self.cluster)} blocks, the limit is "
                f"{_CLUSTER_BLOCKS} (8 on most devices)"
            )


class PreparedLaunch:
    """A launch with nothing left to decide: calling it calls cuLaunchKernelEx and nothing else.

    Refill the parameters with `params.fill(...)` between calls; `on_stream` gives a copy for
    another stream.  It launches into the thread's current context, which must be the function's.
    """

    __slots__ = ("_call", "config", "driver_config", "function", "params")

    def __init__(self, function: Function, config: LaunchConfig, params: KernelParams) -> None:
        config.validate(function.max_threads, function.name)
        self.function, self.config, self.params = function, config, params
        self._call: Callable[[], tuple[Any]] | None = None
        self.driver_config: Any = None
        """The driver's own record of `config`; None for an empty grid."""
        if not config.is_empty:
            function.reserve(config.smem_bytes, math.prod(config.cluster))
            self.driver_config = _driver_config(config)
            launch_ex = cuda_api.driver.cuLaunchKernelEx
            self._call = functools.partial(
                launch_ex, self.driver_config, function.handle, params.address, 0
            )

    def __call__(self) -> None:
        call = self._call
        if call is not None:
            status = call()[0]
            if status:
                self._recover(int(status), call)

    def on_stream(self, stream: Any) -> PreparedLaunch:
        """The same launch on another stream, sharing function and parameters."""
        return PreparedLaunch(self.function, replace(self.config, stream=stream), self.params)

    def _recover(self, status: int, call: Callable[[], tuple[Any]]) -> None:
        # A thread that Python just started has no context; give it the function's, once.
        if status == int(cuda_api.driver.CUresult.CUDA_ERROR_INVALID_CONTEXT):
            ensure_context(self.function.context.device)
            status = int(call()[0])
        if status:
            raise driver_error(
                status,
                f"cuLaunchKernelEx of {self.function.name!r} with grid {self.config.grid}, "
                f"block {self.config.block}, cluster {self.config.cluster}, "
                f"{self.config.smem_bytes:,} bytes of shared memory",
            )


def launch(function: Function, config: LaunchConfig, params: KernelParams) -> None:
    """Launch once.  An empty grid is a success without a launch.

    Raises: LaunchError if a limit is exceeded or the driver refuses; ResourceError for too much
    shared memory.
    """
    PreparedLaunch(function, config, params)()


def stream_handle(stream: Any) -> int:
    """The driver's handle of any kind of stream.

    >>> stream_handle(None), stream_handle(4096)
    (0, 4096)
    """
    if stream is None:
        return 0
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    if hasattr(stream, "cuda_stream"):
        return int(stream.cuda_stream)
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        # (version, handle); older objects have the pair itself, not a method.
        return int((protocol() if callable(protocol) else protocol)[1])
    if cuda_api.driver is not None and isinstance(stream, cuda_api.driver.CUstream):
        return int(stream)
    raise LaunchError(
        "stream: expected a handle, a torch or CUDA stream, or an object with __cuda_stream__, "
        f"got {type(stream).__name__}"
    )


def current_stream(device: int | None = None) -> int:
    """The stream torch works on, if torch is loaded and uses CUDA; else the default stream.

    Work queued here runs in order with the tensors' own work, without a synchronisation.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0
    return int(torch.cuda.current_stream(device).cuda_stream)


def _dim3(value: Any, name: str) -> tuple[int, int, int]:
    sizes = (value,) if isinstance(value, int) else tuple(value)
    if not 1 <= len(sizes) <= 3 or not all(hasattr(size, "__index__") for size in sizes):
        raise LaunchError(f"{name}: expected one to three integers, got {value!r}")
    x, y, z = (*(int(size) for size in sizes), 1, 1)[:3]
    return x, y, z


def _driver_config(config: LaunchConfig) -> Any:
    api = cuda_api.driver
    record = api.CUlaunchConfig()
    record.gridDimX, record.gridDimY, record.gridDimZ = config.grid
    record.blockDimX, record.blockDimY, record.blockDimZ = config.block
    record.sharedMemBytes = config.smem_bytes
    record.hStream = api.CUstream(stream_handle(config.stream))
    attributes = []
    if math.prod(config.cluster) > 1:
        cluster = _attribute("CLUSTER_DIMENSION")
        cluster.value.clusterDim.x, cluster.value.clusterDim.y, cluster.value.clusterDim.z = (
            config.cluster
        )
        attributes.append(cluster)
    if config.pdl:
        overlap = _attribute("PROGRAMMATIC_STREAM_SERIALIZATION")
        overlap.value.programmaticStreamSerializationAllowed = 1
        attributes.append(overlap)
    if config.cooperative:
        together = _attribute("COOPERATIVE")
        together.value.cooperative = 1
        attributes.append(together)
    record.attrs = attributes
    record.numAttrs = len(attributes)
    return record


def _attribute(name: str) -> Any:
    api = cuda_api.driver
    attribute = api.CUlaunchAttribute()
    attribute.id = getattr(api.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
    return attribute
