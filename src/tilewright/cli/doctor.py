"""`tilewright doctor`: what this machine can do, what it cannot, and what to install."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.cli.arguments import Parser
from tilewright.errors import TilewrightError
from tilewright.profiler.device import INSTALL_HINT, installed
from tilewright.profiler.machine import gpu_state, package_versions
from tilewright.runtime import cuda_api, driver, native, tileiras, toolchain
from tilewright.settings import settings

EXAMPLES = ("tilewright doctor",)
_DESCRIPTION = "Looks at Python, packages, compiler, driver, GPUs and cache.  Changes nothing."


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: what was found, and the fix where it is missing."""

    name: str
    ok: bool
    text: str
    fix: str = ""


def run(words: Sequence[str]) -> int:
    """The verb; always 0, since a missing GPU is not a failure."""
    Parser("doctor", _DESCRIPTION, EXAMPLES).parse(words)
    print(as_text(findings()))
    return 0


def findings() -> dict[str, Finding]:
    """Everything that is looked at, by a short name."""
    packages = package_versions(("numpy", "ml_dtypes", "cuda-bindings"))
    found = [
        Finding("python", True, f"{platform.python_version()} on {platform.platform()}"),
        _package("numpy", packages["numpy"], "pip install numpy"),
        _package("ml_dtypes", packages["ml_dtypes"], "pip install ml-dtypes"),
        _package("cuda-bindings", packages["cuda-bindings"], cuda_api.CUDA_EXTRA),
        _nvrtc(),
        _nvdisasm(),
        _tileiras(),
        _helper(),
        _driver(),
        *_gpus(),
        _arrays(),
        _cache(),
    ]
    return {finding.name: finding for finding in found}


def as_text(found: dict[str, Finding]) -> str:
    """The findings, then what follows from them."""
    lines = []
    for finding in found.values():
        lines.append(f"{'ok' if finding.ok else '--':<4}{finding.name:<15}{finding.text}")
        if finding.fix and not finding.ok:
            lines.append(f"{'':<19}fix: {finding.fix}")
    lines.append("")
    for task, works, because in conclusions(found):
        lines.append(f"{'yes' if works else 'no':<4}{task}" + (f": {because}" if because else ""))
    return "\n".join(lines)


def conclusions(found: dict[str, Finding]) -> list[tuple[str, bool, str]]:
    """(what a user may want, whether it works, why not)."""
    tasks = {
        "write, simulate and check kernels": ("numpy", "ml_dtypes"),
        "print the CUDA C++ of a kernel": ("numpy", "ml_dtypes"),
        "compile kernels to cubins": ("cuda-bindings", "nvrtc"),
        "disassemble cubins": ("nvdisasm",),
        "compile Tile IR to cubins": ("tileiras",),
        "run kernels on a GPU": ("cuda-bindings", "nvrtc", "driver", "gpu 0"),
        "time kernels with `profile` and `gemm`": (
            "cuda-bindings",
            "nvrtc",
            "driver",
            "gpu 0",
            "GPU arrays",
        ),
        "launch tile kernels with the least of overhead": ("launch helper",),
        "keep compiled kernels between runs": ("cache",),
    }
    rows = []
    for task, needs in tasks.items():
        missing = [name for name in needs if name not in found or not found[name].ok]
        rows.append((task, not missing, f"needs {', '.join(missing)}" if missing else ""))
    return rows


def _package(name: str, version: str, fix: str) -> Finding:
    return Finding(name, bool(version), version or "not installed", fix)


def _nvrtc() -> Finding:
    try:
        return Finding("nvrtc", True, toolchain.nvrtc_version())
    except TilewrightError as error:
        return Finding("nvrtc", False, error.message, error.hint)


def _nvdisasm() -> Finding:
    try:
        return Finding("nvdisasm", True, str(cuda_api.find_nvdisasm()))
    except TilewrightError as error:
        return Finding("nvdisasm", False, error.message, error.hint)


def _tileiras() -> Finding:
    try:
        return Finding("tileiras", True, tileiras.tileiras_version())
    except TilewrightError as error:
        return Finding("tileiras", False, error.message, error.hint)


def _helper() -> Finding:
    fix = "a C compiler and Python's headers; without them a tile launch takes longer"
    lack = native.missing()
    return Finding("launch helper", not lack, lack or "built when it is needed", fix)


def _driver() -> Finding:
    available = driver.is_available()
    if not available:
        fix = "a machine with an NVIDIA GPU and its driver; all but running and timing works here"
        return Finding("driver", False, available.reason, fix)
    version = ".".join(map(str, driver.device_info(0).driver_version))
    release = gpu_state(0).get("driver_version", "")
    return Finding("driver", True, f"{release} (CUDA {version})".strip())


def _gpus() -> list[Finding]:
    rows = []
    for ordinal in range(driver.device_count()):
        info = driver.device_info(ordinal)
        text = (
            f"{info.name}, {info.target}, {info.sm_count} SMs, "
            f"{info.memory_bytes / 2**30:.0f} GiB, L2 {info.l2_bytes / 2**20:.0f} MiB"
        )
        rows.append(Finding(f"gpu {ordinal}", True, text))
    return rows


def _arrays() -> Finding:
    name = installed()
    return Finding("GPU arrays", bool(name), name or "neither torch nor CuPy", INSTALL_HINT)


def _cache() -> Finding:
    flags = settings()
    if not flags.cache_enabled:
        fix = "unset TILEWRIGHT_CACHE_ENABLED"
        return Finding("cache", False, "switched off by TILEWRIGHT_CACHE_ENABLED", fix)
    folder = flags.cache_dir
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "not writable")
        with tempfile.TemporaryFile(dir=folder):
            return Finding("cache", True, f"{flags.cache_dir} is writable")
    except OSError as error:
        fix = "set TILEWRIGHT_CACHE_DIR to a directory that you may write to"
        return Finding("cache", False, f"{flags.cache_dir}: {error.strerror}", fix)
