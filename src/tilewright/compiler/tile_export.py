"""Compiling tile kernels ahead of time: Tile IR bytecode, or a cubin."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any, Literal

from tilewright.compiler.tile import NEWEST, Version, module_of
from tilewright.compiler.tile_gpu import bytecode_of, cubin_of, newest_compiled
from tilewright.errors import VerifyError
from tilewright.lang.tile.errors import TileTypeError, TileUnsupportedFeatureError
from tilewright.lang.tile.kernel import kernel as Kernel
from tilewright.lang.tile.signature import KernelSignature
from tilewright.tileir.bytecode.encoding import VERSIONS
from tilewright.tileir.bytecode.writer import write_bytecode


def parsed_version(text: str) -> Version:
    """A version of Tile IR's bytecode.

    Raises: ValueError for versions that are not written.

    >>> parsed_version("13.1")
    (13, 1)
    """
    for version in VERSIONS:
        if text == f"{version[0]}.{version[1]}":
            return version
    shown = ", ".join(f"{a}.{b}" for a, b in VERSIONS)
    raise ValueError(f"bytecode_version: expected one of {shown}, got {text!r}")


def export_kernel(
    kernel: Any,
    signatures: Sequence[KernelSignature],
    output_file: IO[bytes] | str | bytes | os.PathLike[str],
    *,
    gpu_code: str | None = None,
    output_format: Literal["cubin", "tileir_bytecode"],
    bytecode_version: str | None = None,
) -> None:
    """Writes a kernel, compiled for each signature, to a file.

    `output_format` "tileir_bytecode" is for any GPU unless `gpu_code` names one; "cubin" needs
    `gpu_code`, such as "sm_90".  An entry is named by its signature's symbol, or by its mangled
    name.  Bytecode is of version 13.3, or newer if the kernel needs it, unless `bytecode_version`
    says which.
    Raises: TileError for a fault in the kernel, ValueError for an unknown format or version.
    """
    if output_format not in ("cubin", "tileir_bytecode"):
        raise ValueError(
            f"output_format: expected 'cubin' or 'tileir_bytecode', got {output_format!r}"
        )
    if output_format == "cubin" and gpu_code is None:
        raise ValueError("gpu_code: a cubin is for one GPU, such as 'sm_90'")
    if not isinstance(kernel, Kernel):
        raise TileTypeError(f"export_kernel: expected a @ct.kernel, got {kernel!r}")
    if not signatures:
        raise ValueError("signatures: expected at least one")
    newest = newest_compiled() if output_format == "cubin" else NEWEST
    version = newest if bytecode_version is None else parsed_version(bytecode_version)
    if gpu_code is None and version < (13, 3):
        raise ValueError(f"gpu_code: bytecode {bytecode_version} is for one GPU, such as 'sm_90'")
    named = [
        s if s.symbol is not None else s.with_mangled_symbol(kernel.__name__) for s in signatures
    ]
    module = module_of(kernel, named, version=version, target=gpu_code)
    try:
        given = bytecode_version is not None
        data = write_bytecode(module, version) if given else bytecode_of(module, version)
    except VerifyError as error:  # an attribute that the version lacks
        raise TileUnsupportedFeatureError(error.message, error.loc) from error
    if gpu_code is not None and output_format == "cubin":
        data = cubin_of(kernel, data, gpu_code)
    if isinstance(output_file, str | bytes | os.PathLike):
        with open(output_file, "wb") as file:
            file.write(data)
    else:
        output_file.write(data)
