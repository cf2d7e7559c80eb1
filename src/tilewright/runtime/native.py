"""The one piece of C: a launch that is repeated, with no Python between arguments and driver.

It is built by the machine's C compiler when it is first asked for, and kept beside the cubins.
Without a compiler, or Python's headers, everything works as well: a launch then takes a few
microseconds more (`benchmarks/tile_gpu.py`).
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.machinery
import importlib.util
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.runtime.launch import KernelParams, PreparedLaunch
from tilewright.settings import settings

SOURCE = Path(__file__).with_name("repeat.c")
_FLAGS = ("-O2", "-fPIC", "-shared")
_TIMEOUT_S = 60


class Call(NamedTuple):
    """How a tile kernel is launched, as far as a launch can be told from another by it."""

    stream: Any
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    pdl: bool
    backend: str


Repeat = Callable[[Any, Any, tuple[Any, ...], bool, str], bool]
"""The fields of a `Call` to whether it was launched."""


def missing() -> str:
    """What the helper lacks on this machine; "" where it can be built.  Builds nothing."""
    if not settings().native_enabled:
        return "TILEWRIGHT_NATIVE_ENABLED is 0"
    if shutil.which("cc") is None:
        return "there is no C compiler (cc)"
    headers = sysconfig.get_path("include")
    return "" if (Path(headers) / "Python.h").exists() else f"Python.h is not in {headers}"


@functools.cache
def load() -> tuple[Any, str]:
    """The compiled module and "", or None and what is missing.

    >>> module, reason = load()
    >>> (module is None) == bool(reason)
    True
    """
    if reason := missing():
        return None, reason
    try:
        return _import(_built(sysconfig.get_path("include"))), ""
    except (OSError, ImportError, subprocess.SubprocessError) as error:
        return None, f"{type(error).__name__}: {error}"


def _built(headers: str) -> Path:
    """The shared library, built unless it lies in the cache."""
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    parts = (SOURCE.read_bytes(), suffix.encode(), headers.encode(), " ".join(_FLAGS).encode())
    path = settings().cache_dir / "native" / f"{hashlib.sha256(b'|'.join(parts)).hexdigest()}.so"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        command = ["cc", *_FLAGS, f"-I{headers}", str(SOURCE), "-o", str(made)]
        subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT_S)
        made.replace(path)  # other processes see all of it or nothing
    return path


def _import(path: Path) -> Any:
    loader = importlib.machinery.ExtensionFileLoader("repeat", str(path))
    spec = importlib.util.spec_from_loader("repeat", loader)
    assert spec is not None, "a loader gives a spec"
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@functools.cache
def _launch_ex() -> int:
    """The address of the driver's cuLaunchKernelEx."""
    library = ctypes.CDLL("libcuda.so.1")
    return ctypes.cast(library.cuLaunchKernelEx, ctypes.c_void_p).value or 0


def kinds_of(params: KernelParams, positions: Sequence[int | None], args: Sequence[Any]) -> str:
    """A letter for each argument; "" if one of them has no short way.

    t a tensor, i an int for an i32, f a float for an f32, c a constant (position None).

    >>> kinds_of(KernelParams(("ptr", "i32")), (0, 1, None), (object(), 3, "x"))
    'tic'
    >>> kinds_of(KernelParams(("i64",)), (0,), (3,))
    ''
    """
    found = ""
    for at, x in zip(positions, args, strict=True):
        kind = params.kinds[at] if at is not None else ""
        if at is None:
            found += "c"
        elif kind == "ptr":
            found += "t"
        elif (kind, type(x)) in (("i32", int), ("f32", float)):
            found += kind[0]
        else:
            return ""
    return found


def repeat_of(
    launch: PreparedLaunch,
    positions: Sequence[int | None],
    call: Call,
) -> Repeat | None:
    """What repeats a launch whose parameters are filled; None where nothing can.

    `positions` are the parameters that the arguments set; it writes them where `launch` has them.
    """
    module, _ = load()
    kinds = kinds_of(launch.params, positions, call.args)
    if module is None or not kinds or launch.driver_config is None:
        return None
    slots = tuple(None if at is None else launch.params.slot_address(at) for at in positions)
    return module.prepare(  # type: ignore[no-any-return]
        launch,  # the C side has addresses only
        _launch_ex(),
        int(launch.driver_config.getPtr()),
        int(launch.function.handle),
        launch.params.address,
        tuple(kinds),
        slots,
        *call,
    )
