"""Compiled cubins on disk, shared by every process of the user.

An entry is two files: `<key>.json`, which holds what the compiler said and the hash of the cubin,
and `<key>-<hash>.cubin`, which can be handed to nvdisasm as it is.  Both are written beside their
place and renamed into it, the cubin first, so a reader sees a whole entry or none, whatever other
processes do.  The key holds the source, the flags, the target and NVRTC's build, and nothing that
differs between two runs of one program: no stream, pointer, process or time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.runtime import toolchain
from tilewright.runtime.compile_log import Diagnostic, KernelResources
from tilewright.runtime.toolchain import CompiledCubin
from tilewright.settings import settings

_FORMAT = 1


class CachedCompile(NamedTuple):
    """A cubin, and whether the disk had it (so that nothing was compiled)."""

    compiled: CompiledCubin
    hit: bool


@dataclass(slots=True)
class CacheStats:
    """What `compile_cached` did in this process."""

    hits: int = 0
    compilations: int = 0
    corrupt: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One compilation on disk.  Units: `size` in bytes, `made` and `used` in s since 1970."""

    key: str
    name: str
    target: str
    compiler: str
    seconds: float
    log: str
    size: int
    made: float
    used: float


stats = CacheStats()
_stats_lock = threading.Lock()


def compile_cached(
    source: str,
    name: str,
    target: str,
    options: Sequence[str] = (),
    allow_warnings: frozenset[str] = frozenset(),
    allow_spills: bool = False,
) -> CachedCompile:
    """`toolchain.compile_cubin`, but from disk if this very compilation was done before.

    Warnings and spills are judged on a hit as on a miss: what is allowed is not in the key.
    Raises: ToolchainError, as `compile_cubin` does.
    """
    compiled = None
    use_disk = settings().cache_enabled
    key = cache_key(source, target, options)
    if use_disk:
        compiled = _load(key)
    hit = compiled is not None
    if compiled is None:
        compiled = toolchain.compile_unchecked(source, name, target, options)
        if use_disk:
            _store(key, compiled)
    else:
        toolchain.keep_artifacts(compiled, source)
    with _stats_lock:
        stats.hits += hit
        stats.compilations += not hit
    toolchain.check_quality(compiled, source, allow_warnings, allow_spills)
    return CachedCompile(compiled, hit)


def through_disk(key: str, make: Callable[[], CompiledCubin]) -> CachedCompile:
    """Entry `key` from disk, or `make()`, which is then stored under it."""
    use_disk = settings().cache_enabled
    compiled = _load(key) if use_disk else None
    hit = compiled is not None
    if compiled is None:
        compiled = make()
        if use_disk:
            _store(key, compiled)
    with _stats_lock:
        stats.hits += hit
        stats.compilations += not hit
    return CachedCompile(compiled, hit)


def find_cached(source: str, target: str, options: Sequence[str] = ()) -> CompiledCubin | None:
    """What `compile_cached` has on disk for these arguments, or None; nothing is compiled.

    Raises: ToolchainError where NVRTC, whose version is part of the key, is missing.
    """
    return _load(cache_key(source, target, options)) if settings().cache_enabled else None


def cache_key(source: str, target: str, options: Sequence[str] = ()) -> str:
    """The name of an entry: sha256 of source, flags, target and NVRTC's version.

    Laws: 1 equal arguments give equal keys in every process  2 each argument changes the key.
    """
    flags = toolchain.full_options(target, options)
    parts = [_FORMAT, source, flags, target, toolchain.nvrtc_version()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def entry_path(key: str) -> Path:
    """Where the metadata of entry `key` lies; the cubin lies beside it."""
    return settings().cache_dir / "cubin" / key[:2] / f"{key}.json"


def _load(key: str) -> CompiledCubin | None:
    """The entry, or None if there is none or (after a warning) if it is damaged."""
    path = entry_path(key)
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        _report_corrupt(path, str(error))
        return None
    try:
        meta = json.loads(text)
        cubin = _cubin_path(path, meta["sha256"]).read_bytes()
        if hashlib.sha256(cubin).hexdigest() == meta["sha256"]:
            with contextlib.suppress(OSError):  # a cache that may only be read serves as well
                _cubin_path(path, meta["sha256"]).touch()
            return _decode(meta, cubin)
        _report_corrupt(_cubin_path(path, meta["sha256"]), "its hash does not match")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        _report_corrupt(path, f"{type(error).__name__}: {error}")
    return None


def entries() -> list[Entry]:
    """What is on disk, used last first; damaged entries are left out.

    An entry was made when its metadata was written, and used when its cubin was touched: the file
    system's own access times change with every look, or never.
    """
    found: list[Entry] = []
    for path in (settings().cache_dir / "cubin").glob("*/*.json"):
        try:
            meta = json.loads(path.read_text())
            cubin = _cubin_path(path, meta["sha256"]).stat()
            made = _decode(meta, b"")
            when = path.stat().st_mtime
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        found.append(
            Entry(
                path.stem,
                made.name,
                made.target,
                made.nvrtc_version,
                made.seconds,
                made.log,
                cubin.st_size,
                when,
                cubin.st_mtime,
            )
        )
    return sorted(found, key=lambda entry: (entry.used, entry.key), reverse=True)


def _report_corrupt(path: Path, reason: str) -> None:
    with _stats_lock:
        stats.corrupt += 1
    warnings.warn(
        f"tilewright cache entry {path} is damaged ({reason}); compiling again and replacing it",
        RuntimeWarning,
        stacklevel=4,
    )


def _store(key: str, compiled: CompiledCubin) -> None:
    """Write the entry.  A disk that cannot be written costs the cache, not the kernel."""
    path = entry_path(key)
    digest = hashlib.sha256(compiled.cubin).hexdigest()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(_cubin_path(path, digest), compiled.cubin)
        _replace(path, json.dumps(_encode(compiled, digest), indent=1).encode())
    except OSError as error:
        warnings.warn(
            f"tilewright cannot write its cache ({error}); continuing without. "
            "Set TILEWRIGHT_CACHE_DIR to a writable directory, or TILEWRIGHT_CACHE_ENABLED=0",
            RuntimeWarning,
            stacklevel=3,
        )


def _replace(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step."""
    # The same directory, because a rename is atomic only within one file system.
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def _cubin_path(path: Path, digest: str) -> Path:
    return path.with_name(f"{path.stem}-{digest[:16]}.cubin")


def _encode(compiled: CompiledCubin, digest: str) -> dict[str, Any]:
    return {
        "sha256": digest,
        "name": compiled.name,
        "target": compiled.target,
        "kernels": {entry: asdict(used) for entry, used in compiled.kernels.items()},
        "notes": [asdict(note) for note in compiled.notes],
        "log": compiled.log,
        "seconds": compiled.seconds,
        "nvrtc_version": compiled.nvrtc_version,
    }


def _decode(meta: dict[str, Any], cubin: bytes) -> CompiledCubin:
    return CompiledCubin(
        name=meta["name"],
        target=meta["target"],
        cubin=cubin,
        kernels={entry: KernelResources(**used) for entry, used in meta["kernels"].items()},
        notes=tuple(Diagnostic(**note) for note in meta["notes"]),
        log=meta["log"],
        seconds=meta["seconds"],
        nvrtc_version=meta["nvrtc_version"],
    )
