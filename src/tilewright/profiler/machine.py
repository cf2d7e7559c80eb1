"""What a measurement was made on: the `meta` that goes with every stored result."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.errors import ToolchainError
from tilewright.runtime import driver, toolchain

Facts = dict[str, object]

_PACKAGES = ("tilewright", "numpy", "ml_dtypes", "cuda-bindings", "nvidia-cuda-nvrtc", "torch")
_SMI_FIELDS = (
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "power.draw",
    "power.limit",
    "temperature.gpu",
    "pstate",
)


def machine_facts(device: int = 0) -> Facts:
    """Time, command line, CPU, packages, compiler, and the GPU with its state at this moment."""
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command_line(sys.orig_argv),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cpu": _cpu_name(),
        "cpu_count": os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "packages": package_versions(_PACKAGES),
        "nvrtc": _nvrtc(),
        "gpu": gpu_facts(device),
        "gpu_state": gpu_state(device),
    }


def command_line(words: Sequence[str]) -> str:
    """The command without the folders of this machine: absolute paths keep only their last part.

    >>> command_line(["/opt/venv/bin/python", "bench.py", "--out=/home/me/result.json"])
    'python bench.py --out=result.json'
    """

    def plain(word: str) -> str:
        flag, equals, value = word.rpartition("=")
        return f"{flag}{equals}{Path(value).name if value.startswith('/') else value}"

    return shlex.join(plain(word) for word in words)


def package_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Version of each package, empty where it is not installed; nothing is imported.

    >>> package_versions(("no-such-package",))
    {'no-such-package': ''}
    """
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    return found


def gpu_facts(device: int = 0) -> Facts:
    """What the driver says of the GPU; only the reason where there is none."""
    available = driver.is_available()
    if not available:
        return {"none": available.reason}
    info = driver.device_info(device)
    return {
        "name": info.name,
        "target": info.target,
        "sm_count": info.sm_count,
        "l2_bytes": info.l2_bytes,
        "memory_bytes": info.memory_bytes,
        "clock_khz": info.clock_khz,
        "memory_clock_khz": info.memory_clock_khz,
        "driver_cuda": ".".join(map(str, info.driver_version)),
    }


def gpu_state(device: int = 0) -> dict[str, str]:
    """Clocks, power and temperature as nvidia-smi reads them now; empty without it."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {}
    command = [
        tool,
        f"--id={device}",
        f"--query-gpu={','.join(_SMI_FIELDS)}",
        "--format=csv,noheader",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}
    if done.returncode:
        return {"error": (done.stdout or done.stderr).strip()}
    return parse_state(done.stdout)


def parse_state(line: str) -> dict[str, str]:
    """nvidia-smi's one line of values, named.

    >>> parse_state("NVIDIA H200, 580.1, 345 MHz, 3201 MHz, 1980 MHz, 76.2 W, 700.00 W, 31, P0")[
    ...     "clocks.sm"]
    '345 MHz'
    """
    values = [value.strip() for value in line.strip().split(",")]
    if len(values) != len(_SMI_FIELDS):
        return {"error": f"expected {len(_SMI_FIELDS)} values, got {line.strip()!r}"}
    return dict(zip(_SMI_FIELDS, values, strict=True))


def _nvrtc() -> str:
    try:
        return toolchain.nvrtc_version()
    except ToolchainError as error:
        return f"none: {error.message}"


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    for line in text.splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()
