"""Tile IR bytecode -> cubin, with NVIDIA's tileiras; no GPU or driver is needed.

tileiras is a program of the package nvidia-cuda-tileiras, which the extra `tileiras` installs.
Its cubins are kept on disk as NVRTC's are, by bytecode, target, level and tileiras's version; a
cache that is carried to a machine without tileiras serves there.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tilewright.errors import Loc, ToolchainError
from tilewright.runtime.cache import CachedCompile, through_disk
from tilewright.runtime.toolchain import CompiledCubin
from tilewright.settings import settings

TILEIRAS_EXTRA = 'pip install "tilewright[tileiras]"'
_WHEEL_FOLDER = Path("nvidia", "cu13", "bin")
_ERROR = re.compile(r"^(?:(?P<place>.+): )?error: (?P<text>.+)$", re.M)
_PLACE = re.compile(r'(?:^|loc\(")(?P<file>[^":]+)"?:(?P<line>\d+):(?P<col>\d+)')
"""`file:1:2`, or `loc("file":1:2)` within debug information."""


def find_tool(name: str) -> Path:
    """Path of `tileiras` or `tileirdisasm`: from NVIDIA's wheel, or PATH.

    Raises: ToolchainError, naming the extra, if there is none.
    """
    beside = (Path(folder) / _WHEEL_FOLDER / name for folder in sys.path)
    found = next((path for path in beside if path.is_file()), None) or shutil.which(name)
    if not found:
        raise ToolchainError(
            f"compiling Tile IR needs {name}, which is neither on PATH nor in the package "
            "nvidia-cuda-tileiras",
            hint=TILEIRAS_EXTRA,
        )
    return Path(found)


def tileiras_version() -> str:
    """Version of the tileiras in use: `13.4.92`.

    Raises: ToolchainError if it is missing or does not start.
    """
    return _version(find_tool("tileiras"))


@functools.cache
def _version(tool: Path) -> str:
    said = _run(tool, "--version")
    match = re.search(r"V(\d[\d.]*\d)", said.stdout)
    return match[1] if match else said.stdout.strip() or "unknown"


@functools.cache
def _targets(tool: Path) -> tuple[str, ...]:
    return tuple(dict.fromkeys(re.findall(r"=(sm_\d+\w*)", _run(tool, "--help").stdout)))


def compile_tile(
    bytecode: bytes,
    name: str,
    target: str,
    *,
    opt_level: int = 3,
    loc: Loc | None = None,
    timeout_s: float | None = None,
) -> CachedCompile:
    """The cubin of verified bytecode for `target` (such as `sm_90`), from disk or compiled now.

    `name` is what messages and kept files call it; `loc` is the place that a refusal names if
    tileiras names none.  The result's `nvrtc_version` is "tileiras" and its version.
    Raises: ToolchainError if tileiras is missing, does not know the target, or refuses the code;
    TimeoutError if it takes longer than `timeout_s`.
    """
    # Line numbers come out where the bytecode has them.
    flags = (f"--gpu-name={target}", f"--opt-level={opt_level}", "--lineinfo")
    try:
        tool = find_tool("tileiras")
    except ToolchainError as missing:
        return _made_elsewhere(bytecode, name, target, flags, missing)
    known = _targets(tool)
    if known and target not in known:
        raise ToolchainError(
            f"tileiras {_version(tool)} cannot compile for {target!r}; it knows {', '.join(known)}",
            hint=f"write {target[:-1]}" if target[:-1] in known else "",
        )
    found = through_disk(
        cache_key(bytecode, flags, _version(tool)),
        lambda: _compile(tool, bytecode, name, target, flags, loc, timeout_s),
    )
    if not found.hit and settings().cache_enabled:
        _note_version(_version(tool))
    return found


def _version_file() -> Path:
    """Says which tileiras filled the cache last: its cubins serve where no tileiras is."""
    return settings().cache_dir / "tileiras-version"


def _note_version(version: str) -> None:
    with contextlib.suppress(OSError):  # the cache has warned that it cannot be written
        _version_file().write_text(version)


def _made_elsewhere(
    bytecode: bytes, name: str, target: str, flags: Sequence[str], missing: ToolchainError
) -> CachedCompile:
    """A cubin that a machine with tileiras has left in the cache.  Raises: `missing`."""
    try:
        version = _version_file().read_text().strip()
    except OSError:
        raise missing from None

    def refuse() -> CompiledCubin:
        missing.details["and"] = (
            f"the cache has no cubin of {name!r} for {target} by tileiras {version}"
        )
        raise missing

    return through_disk(cache_key(bytecode, flags, version), refuse)


def cache_key(bytecode: bytes, flags: Sequence[str], version: str) -> str:
    """The name of a cache entry: sha256 of bytecode, flags and tileiras's version."""
    parts = ["tileiras", hashlib.sha256(bytecode).hexdigest(), *flags, version]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _compile(
    tool: Path,
    bytecode: bytes,
    name: str,
    target: str,
    flags: Sequence[str],
    loc: Loc | None,
    timeout_s: float | None,
) -> CompiledCubin:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        source, output = Path(folder, "kernel.tileirbc"), Path(folder, "kernel.cubin")
        source.write_bytes(bytecode)
        done = _run(tool, *flags, str(source), "-o", str(output), timeout_s=timeout_s)
        if done.returncode != 0 or not output.is_file():
            raise _refusal(done, bytecode, name, target, flags, loc)
        cubin = output.read_bytes()
    return CompiledCubin(
        name=name,
        target=target,
        cubin=cubin,
        kernels={},
        notes=(),
        log=done.stderr.strip(),
        seconds=time.perf_counter() - start,
        nvrtc_version=f"tileiras {_version(tool)}",
    )


def _refusal(
    done: subprocess.CompletedProcess[str],
    bytecode: bytes,
    name: str,
    target: str,
    flags: Sequence[str],
    loc: Loc | None,
) -> ToolchainError:
    """What tileiras said: its first error in front, all of it below, and the bytecode kept."""
    said = (done.stderr or done.stdout).strip()
    first = _ERROR.search(said)
    text = first["text"] if first else (said.splitlines() or [f"exit status {done.returncode}"])[0]
    place = _PLACE.search(first["place"] or "") if first else None
    if place:
        loc = Loc(place["file"], int(place["line"]), int(place["col"]) - 1)
    details: dict[str, object] = {
        "exit status": done.returncode,
        "options": " ".join(flags),
        "bytecode": _keep(bytecode, name),
    }
    if len(said.splitlines()) > 1:
        details["tileiras says"] = "\n    ".join(said.splitlines())
    return ToolchainError(
        f"tileiras refuses {name!r} for {target}: {text}", details=details, loc=loc
    )


def _keep(bytecode: bytes, name: str) -> Path:
    """Writes the bytecode under the keep directory, or a temporary one."""
    folder = settings().keep_dir or Path(tempfile.mkdtemp(prefix="tilewright-"))
    folder.mkdir(parents=True, exist_ok=True)
    tag = hashlib.sha256(bytecode).hexdigest()[:8]
    path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)[:100]}-{tag}.tileirbc"
    path.write_bytes(bytecode)
    return path


def _run(
    tool: Path, *arguments: str, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    command = [str(tool), *arguments]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=timeout_s
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{tool.name} took longer than {timeout_s} s") from error
    except OSError as error:
        raise ToolchainError(f"{tool} does not start: {error.strerror or error}") from error
