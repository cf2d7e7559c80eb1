"""The CUDA driver, checked: the device, its context, and kernels loaded from cubins.

Nothing here runs before the first call that needs a GPU, and a machine without one is told why.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import LaunchError, ResourceError
from tilewright.runtime import cuda_api

_DEFAULT_SMEM_LIMIT = 48 * 1024  # static and dynamic; more must be asked for
_PORTABLE_CLUSTER = 8  # so must a larger cluster

_FAULT = (
    "an earlier kernel faulted and the context is lost: start a new process, and run that kernel "
    "under the simulator (`tilewright check`)"
)
_ADVICE = {
    "CUDA_ERROR_INVALID_VALUE": "check grid, block, cluster and shared memory against the device",
    "CUDA_ERROR_OUT_OF_MEMORY": "the GPU's memory is full: free tensors or use smaller ones",
    "CUDA_ERROR_NOT_INITIALIZED": "CUDA does not survive fork(): use the 'spawn' start method",
    "CUDA_ERROR_NO_DEVICE": "check nvidia-smi and CUDA_VISIBLE_DEVICES",
    "CUDA_ERROR_INVALID_IMAGE": "the cubin is damaged or newer than this driver",
    "CUDA_ERROR_INVALID_CONTEXT": "call ensure_context(device) in this thread first",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the cubin is for another architecture: compile for this GPU",
    "CUDA_ERROR_INVALID_HANDLE": "the stream or function belongs to another device's context",
    "CUDA_ERROR_NOT_FOUND": "no kernel of that name is in the cubin",
    "CUDA_ERROR_ILLEGAL_ADDRESS": _FAULT,
    "CUDA_ERROR_LAUNCH_FAILED": _FAULT,
    "CUDA_ERROR_MISALIGNED_ADDRESS": _FAULT,
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": _FAULT,
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "registers times threads exceed the SM: fewer threads",
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": "the whole grid must be resident: fewer blocks",
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": "no SM group can hold this cluster: use a smaller one",
}


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a GPU can be used; false with the reason."""

    ok: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.ok


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """Facts about one GPU.  Units: bytes, kHz; `driver_version` is (major, minor) of its CUDA."""

    ordinal: int
    name: str
    cc: tuple[int, int]
    sm_count: int
    smem_per_block_optin: int
    smem_per_sm: int
    l2_bytes: int
    memory_bytes: int
    clock_khz: int
    memory_clock_khz: int
    driver_version: tuple[int, int]

    @property
    def target(self) -> str:
        """The NVRTC target that has all of this GPU's instructions: `sm_80`, `sm_90a`."""
        return f"sm_{self.cc[0]}{self.cc[1]}{'a' if self.cc[0] >= 9 else ''}"


@dataclass(frozen=True, slots=True)
class Context:
    """A driver context; `uid` tells it from every other one of this process, dead ones too."""

    handle: int
    device: int
    uid: int


@dataclass(slots=True)
class Function:
    """A kernel loaded into one context, with its own limits (which launch bounds may lower).

    Units:  static and dynamic shared memory and local memory in bytes.
    """

    handle: Any = field(repr=False)
    name: str
    context: Context
    registers: int
    static_smem: int
    local_bytes: int
    max_threads: int
    granted_smem: int
    granted_cluster: int = _PORTABLE_CLUSTER

    def reserve(self, smem_bytes: int, cluster_size: int = 1) -> None:
        """Ask the driver for `smem_bytes` of dynamic shared memory and a cluster that large.

        Raises: ResourceError beyond what the device has.
        """
        if smem_bytes > self.granted_smem:
            info = device_info(self.context.device)
            if smem_bytes + self.static_smem > info.smem_per_block_optin:
                raise ResourceError(
                    f"kernel {self.name!r} needs {smem_bytes + self.static_smem:,} bytes of shared "
                    f"memory per block, {info.name} has {info.smem_per_block_optin:,}",
                    details={"dynamic": f"{smem_bytes:,}", "static": f"{self.static_smem:,}"},
                    hint="use fewer stages or a smaller tile",
                )
            self._set("MAX_DYNAMIC_SHARED_SIZE_BYTES", smem_bytes)
            self.granted_smem = smem_bytes
        if cluster_size > self.granted_cluster:
            self._set("NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
            self.granted_cluster = cluster_size

    def _set(self, attribute: str, value: int) -> None:
        enum = cuda_api.driver.CUfunction_attribute
        code = getattr(enum, f"CU_FUNC_ATTRIBUTE_{attribute}")
        check(cuda_api.driver.cuFuncSetAttribute(self.handle, code, value), "cuFuncSetAttribute")


def check(result: tuple[Any, ...], call: str) -> Any:
    """What a driver call returned beside its status.

    Raises: LaunchError with the call, the error's name and description, and what to do.
    """
    if int(result[0]) != 0:
        raise driver_error(int(result[0]), call)
    return result[1] if len(result) == 2 else result[1:]


def driver_error(status: int, call: str) -> LaunchError:
    """The error for a status code of the driver."""
    api = cuda_api.driver
    code = api.CUresult(status)
    name, text = (
        value.decode() if value else str(status)
        for value in (api.cuGetErrorName(code)[1], api.cuGetErrorString(code)[1])
    )
    return LaunchError(f"{call} failed: {name} ({text})", hint=_ADVICE.get(name, ""))


@functools.cache
def is_available() -> Availability:
    """Whether this process can use a GPU; never raises."""
    if cuda_api.driver is None:
        return Availability(
            False, f"the package cuda-bindings is not installed ({cuda_api.BINDINGS_MISSING})"
        )
    try:
        check(cuda_api.driver.cuInit(0), "cuInit")
        count = int(check(cuda_api.driver.cuDeviceGetCount(), "cuDeviceGetCount"))
    except LaunchError as error:
        return Availability(False, error.message)
    except cuda_api.LIBRARY_ERRORS as error:
        return Availability(
            False, f"the NVIDIA driver library is not installed ({str(error).splitlines()[0]})"
        )
    return Availability(count > 0, "" if count else "the driver sees no GPU")


def require_gpu() -> None:
    """Return if there is a GPU.  Raises: LaunchError with the reason why not."""
    found = is_available()
    if not found:
        raise LaunchError(
            f"no usable GPU: {found.reason}",
            hint="the simulator runs the same kernel on the CPU; `tilewright doctor` says more",
        )


def device_count() -> int:
    """How many GPUs this process sees; 0 where none is usable."""
    if not is_available():
        return 0
    return int(check(cuda_api.driver.cuDeviceGetCount(), "cuDeviceGetCount"))


@functools.cache
def device_info(ordinal: int = 0) -> DeviceInfo:
    """The facts of GPU `ordinal`.  Raises: LaunchError if there is no such GPU."""
    device = _device(ordinal)
    api = cuda_api.driver

    def attribute(name: str) -> int:
        code = getattr(api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(check(api.cuDeviceGetAttribute(code, device), "cuDeviceGetAttribute"))

    version = int(check(api.cuDriverGetVersion(), "cuDriverGetVersion"))
    name: bytes = check(api.cuDeviceGetName(128, device), "cuDeviceGetName")
    return DeviceInfo(
        ordinal=ordinal,
        name=name.split(b"\0")[0].decode(),
        cc=(attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")),
        sm_count=attribute("MULTIPROCESSOR_COUNT"),
        smem_per_block_optin=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        smem_per_sm=attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        l2_bytes=attribute("L2_CACHE_SIZE"),
        memory_bytes=int(check(api.cuDeviceTotalMem(device), "cuDeviceTotalMem")),
        clock_khz=attribute("CLOCK_RATE"),
        memory_clock_khz=attribute("MEMORY_CLOCK_RATE"),
        driver_version=(version // 1000, version % 1000 // 10),
    )


def ensure_context(device: int | None = None) -> Context:
    """The context to work in, made current in this thread.

    With `device` None, whatever is current stays (so torch's own choice counts); where nothing
    is, GPU 0.  Otherwise the primary context of `device`, the one that torch and CuPy use too.
    Raises: LaunchError if there is no such GPU.
    """
    require_gpu()
    current = _current()
    if current is not None and device in (None, current.device):
        return current
    ordinal = device or 0
    handle = _primary(ordinal)
    check(cuda_api.driver.cuCtxSetCurrent(handle), "cuCtxSetCurrent")
    return Context(int(handle), ordinal, _uid(handle))


@contextlib.contextmanager
def use_device(device: int) -> Iterator[Context]:
    """Work on GPU `device` inside the block, and put the thread's context back after it."""
    require_gpu()
    before = check(cuda_api.driver.cuCtxGetCurrent(), "cuCtxGetCurrent")
    try:
        yield ensure_context(device)
    finally:
        check(cuda_api.driver.cuCtxSetCurrent(before), "cuCtxSetCurrent")


def synchronize() -> None:
    """Wait for all work of the current context; a kernel's fault is reported here."""
    ensure_context()
    check(cuda_api.driver.cuCtxSynchronize(), "cuCtxSynchronize")


def clear(address: int, nbytes: int, stream: int = 0) -> None:
    """Sets memory on the current GPU to zero, in `stream`."""
    ensure_context()
    check(cuda_api.driver.cuMemsetD8Async(address, 0, nbytes, stream), "cuMemsetD8Async")


_modules: dict[tuple[bytes, int], Any] = {}
_functions: dict[tuple[bytes, int, str], Function] = {}
_load_lock = threading.Lock()


def load_function(
    cubin: bytes, kernel: str, smem_bytes: int = 0, device: int | None = None
) -> Function:
    """Kernel `kernel` of `cubin`, loaded once per context, ready for `smem_bytes` of dynamic smem.

    Raises: LaunchError if the driver refuses the cubin or has no such kernel; ResourceError if the
    device has less shared memory.
    """
    context = ensure_context(device)
    digest = hashlib.sha256(cubin).digest()
    key = (digest, context.uid, kernel)
    with _load_lock:
        if key not in _functions:
            module = _modules.get(key[:2])
            if module is None:
                module = check(cuda_api.driver.cuModuleLoadData(cubin), "cuModuleLoadData")
                _modules[key[:2]] = module
            _functions[key] = _function(module, kernel, context)
        function = _functions[key]
        function.reserve(smem_bytes)
    return function


def _function(module: Any, kernel: str, context: Context) -> Function:
    api = cuda_api.driver
    call = f"cuModuleGetFunction({kernel!r})"
    handle = check(api.cuModuleGetFunction(module, kernel.encode()), call)

    def attribute(name: str) -> int:
        code = getattr(api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(check(api.cuFuncGetAttribute(code, handle), "cuFuncGetAttribute"))

    static_smem = attribute("SHARED_SIZE_BYTES")
    return Function(
        handle=handle,
        name=kernel,
        context=context,
        registers=attribute("NUM_REGS"),
        static_smem=static_smem,
        local_bytes=attribute("LOCAL_SIZE_BYTES"),
        max_threads=attribute("MAX_THREADS_PER_BLOCK"),
        granted_smem=_DEFAULT_SMEM_LIMIT - static_smem,
    )


def _device(ordinal: int) -> Any:
    count = device_count()
    if ordinal not in range(count):
        require_gpu()
        raise LaunchError(f"no GPU {ordinal}: this process sees {count}, numbered from 0")
    return check(cuda_api.driver.cuDeviceGet(ordinal), "cuDeviceGet")


@functools.cache
def _primary(ordinal: int) -> Any:
    """The primary context, retained once and until the process ends."""
    device = _device(ordinal)
    return check(cuda_api.driver.cuDevicePrimaryCtxRetain(device), "cuDevicePrimaryCtxRetain")


def _current() -> Context | None:
    handle = check(cuda_api.driver.cuCtxGetCurrent(), "cuCtxGetCurrent")
    if int(handle) == 0:
        return None
    device = int(check(cuda_api.driver.cuCtxGetDevice(), "cuCtxGetDevice"))
    return Context(int(handle), device, _uid(handle))


def _uid(handle: Any) -> int:
    return int(check(cuda_api.driver.cuCtxGetId(handle), "cuCtxGetId"))
