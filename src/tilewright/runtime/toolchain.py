"""CUDA C++ text -> cubin, with NVRTC in this process; no GPU, driver or header is needed.

A kernel that loses wgmma overlap (ptxas remarks C75xx) or spills registers is refused unless the
caller allows it by name: such a kernel is right but slow, and nothing else would say so.
"""

from __future__ import annotations

import functools
import hashlib
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.errors import ToolchainError
from tilewright.runtime import cuda_api
from tilewright.runtime.compile_log import (
    Diagnostic,
    KernelResources,
    parse_errors,
    parse_resources,
    parse_warnings,
)
from tilewright.settings import settings

_ADVICE = {
    "C7508": "setmaxnreg needs the register count at entry: give the kernel its launch bounds",
}


@dataclass(frozen=True, slots=True)
class CompiledCubin:
    """A cubin and everything the compiler said about it.

    Units:  `seconds` is the wall time of the compilation that made it, also when it comes out of
            the cache.  `kernels` is keyed by entry name (mangled unless `extern "C"`).
    """

    name: str
    target: str
    cubin: bytes = field(repr=False)
    kernels: Mapping[str, KernelResources]
    notes: tuple[Diagnostic, ...]
    log: str = field(repr=False)
    seconds: float
    nvrtc_version: str

    @property
    def registers(self) -> dict[str, int]:
        """Registers per thread, for each kernel entry."""
        return {name: used.registers for name, used in self.kernels.items()}

    @property
    def spill_stores(self) -> int:
        """Bytes per thread that are stored to local memory because registers ran out."""
        return sum(used.spill_stores for used in self.kernels.values())

    @property
    def spill_loads(self) -> int:
        """Bytes per thread that are loaded back."""
        return sum(used.spill_loads for used in self.kernels.values())

    @property
    def smem_bytes(self) -> int:
        """Static shared memory of the kernel that has most."""
        return max((used.smem_bytes for used in self.kernels.values()), default=0)

    @property
    def stack_bytes(self) -> int:
        """Stack frame per thread of the kernel that has most."""
        return max((used.stack_bytes for used in self.kernels.values()), default=0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The codes of ptxas's remarks, sorted, each once."""
        return tuple(sorted({note.code for note in self.notes}))


def compile_cubin(
    source: str,
    name: str,
    target: str,
    options: Sequence[str] = (),
    allow_warnings: frozenset[str] = frozenset(),
    allow_spills: bool = False,
) -> CompiledCubin:
    """The cubin of `source` for `target` (such as `sm_90a`), compiled now.

    `name` is what messages and kept files call it.  `allow_warnings` lists C75xx codes to accept.
    Raises: ToolchainError if NVRTC is missing, refuses the source, warns C75xx, or spills.
    """
    compiled = compile_unchecked(source, name, target, options)
    check_quality(compiled, source, allow_warnings, allow_spills)
    return compiled


def compile_unchecked(
    source: str, name: str, target: str, options: Sequence[str] = ()
) -> CompiledCubin:
    """`compile_cubin` without judging warnings and spills; `check_quality` does that."""
    version = nvrtc_version()
    flags = full_options(target, options)
    _check_target(target, version)
    start = time.perf_counter()
    program = _Program(source, f"{name}.cu")
    try:
        accepted = program.compile(flags)
        log, ptx = program.log(), program.ptx()
        if not accepted:
            raise _refusal(source, name, target, flags, log, ptx)
        cubin = program.cubin()
    finally:
        program.close()
    compiled = CompiledCubin(
        name=name,
        target=target,
        cubin=cubin,
        kernels=parse_resources(log),
        notes=parse_warnings(log, ptx),
        log=log,
        seconds=time.perf_counter() - start,
        nvrtc_version=version,
    )
    keep_artifacts(compiled, source)
    return compiled


def full_options(target: str, options: Sequence[str] = ()) -> tuple[str, ...]:
    """Every flag that NVRTC gets.

    `-no-cache`: with a driver present NVRTC would answer a repeated source from a cache of its
    own, with an empty log, and warnings and spills would go unseen.
    `--fmad=false`: a product and a sum stay two operations, as the IR says; `arith.fma` asks for
    one where it wants one.  The GPU then rounds as the simulator does.

    >>> full_options("sm_80", ["-DN=4"])[:2], full_options("sm_80", ["-DN=4"])[-1]
    (('--gpu-architecture=sm_80', '--std=c++17'), '-DN=4')
    """
    return (
        f"--gpu-architecture={target}",
        "--std=c++17",
        "--ptxas-options=-v",
        "-lineinfo",
        "-no-cache",
        "--fmad=false",
        *options,
    )


@functools.cache
def nvrtc_version() -> str:
    """Version of the NVRTC in use, with its build: `13.0.88`.

    NVRTC's own call stops at `13.0`, and code differs between builds, so the build is read from
    the head of the PTX of an empty program (a few milliseconds, once per process).
    Raises: ToolchainError if NVRTC or its bindings are missing.
    """
    cuda_api.require_bindings("compiling a kernel")
    try:
        major, minor = _checked(cuda_api.nvrtc.nvrtcVersion(), "nvrtcVersion")
    except cuda_api.LIBRARY_ERRORS as error:
        raise ToolchainError(
            "compiling a kernel needs the package nvidia-cuda-nvrtc, whose library was not found "
            f"({str(error).splitlines()[0]})",
            hint=cuda_api.CUDA_EXTRA,
        ) from error
    program = _Program("", "version.cu")
    program.compile(("--gpu-architecture=compute_80",))
    build = re.search(r"tools, release [\d.]+, V([\d.]+)", program.ptx())
    program.close()
    return build[1] if build else f"{major}.{minor}"


def check_quality(
    compiled: CompiledCubin, source: str, allow_warnings: frozenset[str], allow_spills: bool
) -> None:
    """Refuse C75xx remarks and spills that are not allowed.

    Raises: ToolchainError with the first remark or the spilling kernel, and the kept source.
    """
    what = f"kernel {compiled.name!r} for {compiled.target}"
    bad = [n for n in compiled.notes if n.code.startswith("C75") and n.code not in allow_warnings]
    if bad:
        codes = sorted({note.code for note in bad})
        advice = _ADVICE.get(bad[0].code, "")
        accept = f"to accept it, pass allow_warnings={{{', '.join(map(repr, codes))}}}"
        raise ToolchainError(
            f"{what}: ptxas warning {bad[0].code}: {bad[0].text}",
            details={"codes": ", ".join(codes), "source": keep_source(source, compiled.name)},
            loc=bad[0].loc(),
            hint=f"{advice}; {accept}" if advice else accept,
        )
    for entry, used in compiled.kernels.items():
        if not allow_spills and (used.spill_stores or used.spill_loads):
            raise ToolchainError(
                f"{what}: {entry!r} spills registers: {used.spill_stores} bytes stored and "
                f"{used.spill_loads} bytes loaded per thread at {used.registers} registers",
                details={
                    "stack": f"{used.stack_bytes} bytes per thread",
                    "source": keep_source(source, compiled.name),
                },
                hint="use a smaller tile or more warps per tile, or pass allow_spills=True",
            )


def keep_source(source: str, name: str) -> Path:
    """Write `source` under the keep directory (or a temporary one); the file's path.

    The file name carries a hash of the text, so the same text is kept once.
    """
    folder = settings().keep_dir or _temporary_dir()
    folder.mkdir(parents=True, exist_ok=True)
    tag = hashlib.sha256(source.encode()).hexdigest()[:8]
    path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)[:100]}-{tag}.cu"
    path.write_text(source)
    return path


def keep_artifacts(compiled: CompiledCubin, source: str) -> None:
    """Leave source, cubin and log side by side if the user set TILEWRIGHT_KEEP_DIR."""
    if settings().keep_dir is None:
        return
    path = keep_source(source, compiled.name)
    path.with_suffix(".cubin").write_bytes(compiled.cubin)
    path.with_suffix(".log").write_text(compiled.log)


@functools.cache
def _temporary_dir() -> Path:
    # Not removed at exit: an error message may still point into it.
    return Path(tempfile.mkdtemp(prefix="tilewright-"))


def _check_target(target: str, version: str) -> None:
    known = _checked(cuda_api.nvrtc.nvrtcGetSupportedArchs(), "nvrtcGetSupportedArchs")
    match = re.fullmatch(r"sm_(\d+)[af]?", target)
    if match is None or int(match[1]) not in known:
        raise ToolchainError(
            f"NVRTC {version} cannot compile for {target!r}; it knows "
            f"{', '.join(f'sm_{number}' for number in known)}, each also with the suffix a or f "
            "where the architecture has one"
        )


def _refusal(
    source: str, name: str, target: str, flags: Sequence[str], log: str, ptx: str
) -> ToolchainError:
    errors = parse_errors(log, ptx) or (Diagnostic(log.strip() or "no message"),)
    first = errors[0]
    place = f"{first.file}({first.line}): " if first.file else ""
    path = keep_source(source, name)
    path.with_suffix(".log").write_text(log)
    details: dict[str, object] = {"options": " ".join(flags), "source": path}
    if len(errors) > 1:
        details["more"] = f"{len(errors) - 1} more in {path.with_suffix('.log')}"
    return ToolchainError(
        f"NVRTC refused kernel {name!r} for {target}: {place}{first.text}",
        details=details,
        loc=None if first.file == f"{name}.cu" else first.loc(),
    )


def _checked(result: tuple[Any, ...], call: str) -> Any:
    """The values behind NVRTC's status code."""
    if int(result[0]) != 0:
        raise ToolchainError(f"{call} failed: {getattr(result[0], 'name', result[0])}")
    return result[1] if len(result) == 2 else result[1:]


class _Program:
    """One NVRTC program.  NOTE: its getters write into the buffer they are handed, which must
    not be a bytes object: Python shares short ones, and a log of one byte is common."""

    def __init__(self, source: str, file_name: str) -> None:
        self.api = cuda_api.nvrtc
        created = self.api.nvrtcCreateProgram(source.encode(), file_name.encode(), 0, [], [])
        self.handle = _checked(created, "nvrtcCreateProgram")

    def compile(self, flags: Sequence[str]) -> bool:
        encoded = [flag.encode() for flag in flags]
        return int(self.api.nvrtcCompileProgram(self.handle, len(encoded), encoded)[0]) == 0

    def log(self) -> str:
        return self._text("ProgramLog").strip()

    def ptx(self) -> str:
        """PTX as ptxas saw it; empty if the front end failed."""
        return self._text("PTX")

    def cubin(self) -> bytes:
        return bytes(self._fetch("CUBIN"))

    def close(self) -> None:
        self.api.nvrtcDestroyProgram(self.handle)

    def _text(self, what: str) -> str:
        return self._fetch(what).rstrip(b"\0").decode(errors="replace")

    def _fetch(self, what: str) -> bytearray:
        status, size = getattr(self.api, f"nvrtcGet{what}Size")(self.handle)
        buffer = bytearray(size if int(status) == 0 else 0)
        if buffer:
            _checked(getattr(self.api, f"nvrtcGet{what}")(self.handle, buffer), f"nvrtcGet{what}")
        return buffer
