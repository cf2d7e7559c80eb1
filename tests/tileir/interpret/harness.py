"""Runs a few lines of Tile IR on arrays: loads them into tiles, and stores what comes out.

Every module is verified; NVIDIA's tileirdisasm, where it is installed, must accept it too.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.ir.core import Block
from tilewright.ir.tile_types import NUMBERS
from tilewright.numeric.convert import storage_dtype
from tilewright.tileir.bytecode.writer import write_bytecode
from tilewright.tileir.check import load_text
from tilewright.tileir.interpret.machine import Options, Report, compile_entry

_BESIDE = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin" / "tileirdisasm"
TOOL = str(_BESIDE) if _BESIDE.exists() else shutil.which("tileirdisasm")

KEEP = Options(raise_on_findings=False)


@cache
def load(text: str) -> Block:
    """A verified module, which NVIDIA's verifier accepts too."""
    block = load_text(text, "test.mlir")
    if TOOL is not None:
        with tempfile.NamedTemporaryFile(suffix=".tileirbc") as file:
            file.write(write_bytecode(block, (13, 4)))
            file.flush()
            done = subprocess.run([TOOL, file.name], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"tileirdisasm refuses: {done.stderr}\n{text}"
    return block


def parts(kind: str) -> tuple[tuple[int, ...], str]:
    """The shape and element of "4x8xf32"."""
    *shape, element = kind.split("x") if not kind.startswith("ptr") else [kind]
    return tuple(map(int, shape)), element


def dtype(kind: str) -> np.dtype[Any]:
    return storage_dtype(NUMBERS[parts(kind)[1]].row)


def _pointers(name: str, base: str, shape: tuple[int, ...], element: str) -> list[str]:
    """Lines that make %name a tile of pointers to consecutive elements."""
    if not shape:
        return []
    n = int(np.prod(shape))
    one, flat = f"tile<1xptr<{element}>>", f"tile<{n}xptr<{element}>>"
    dims = "".join(f"{d}x" for d in shape)
    return [
        f"%{name}_1 = reshape {base} : tile<ptr<{element}>> -> {one}",
        f"%{name}_2 = broadcast %{name}_1 : {one} -> {flat}",
        f"%{name}_3 = iota : tile<{n}xi32>",
        f"%{name}_4 = offset %{name}_2, %{name}_3 : {flat}, tile<{n}xi32> -> {flat}",
        f"%{name} = reshape %{name}_4 : {flat} -> tile<{dims}ptr<{element}>>",
    ]


def module(lines: str, args: Sequence[str], results: Sequence[str]) -> str:
    """Text of an entry @k that has the args in %a0, %a1... and stores %r0, %r1..."""
    parameters, body = [], []
    for i, kind in enumerate(args):
        shape, element = parts(kind)
        dims = "".join(f"{d}x" for d in shape)
        parameters.append(f"%pa{i}: tile<ptr<{element}>>")
        body += _pointers(f"qa{i}", f"%pa{i}", shape, element)
        source = f"%qa{i}" if shape else f"%pa{i}"
        body.append(
            f"%a{i}, %ta{i} = load_ptr_tko weak {source} : tile<{dims}ptr<{element}>> -> "
            f"tile<{kind}>, token"
        )
    body += [line.strip() for line in lines.strip().splitlines()]
    for i, kind in enumerate(results):
        shape, element = parts(kind)
        dims = "".join(f"{d}x" for d in shape)
        parameters.append(f"%pr{i}: tile<ptr<{element}>>")
        body += _pointers(f"qr{i}", f"%pr{i}", shape, element)
        target = f"%qr{i}" if shape else f"%pr{i}"
        body.append(
            f"%tr{i} = store_ptr_tko weak {target}, %r{i} : tile<{dims}ptr<{element}>>, "
            f"tile<{kind}> -> token"
        )
    joined = "\n    ".join(body)
    return (
        f"cuda_tile.module @m {{\n  entry @k({', '.join(parameters)}) {{\n    {joined}\n"
        "    return\n  }\n}"
    )


def run(
    lines: str,
    args: Sequence[tuple[str, Any]],
    results: Sequence[str],
    options: Options = Options(),  # noqa: B008
) -> tuple[list[np.ndarray[Any, Any]], Report]:
    """The results (as arrays of their shape) and the report."""
    text = module(lines, [kind for kind, _ in args], results)
    arrays = [
        np.broadcast_to(np.asarray(value, dtype(kind)), parts(kind)[0]).copy()
        for kind, value in args
    ]
    out = [np.zeros(parts(kind)[0], dtype(kind)) for kind in results]
    report = compile_entry(load(text), "k", options).run((1, 1, 1), [*arrays, *out])
    return out, report


def one(lines: str, args: Sequence[tuple[str, Any]], result: str) -> Any:
    """The only result, of a run without findings."""
    (out,), report = run(lines, args, [result])
    assert not report.findings, "no finding was expected"
    return out


def found(lines: str, args: Sequence[tuple[str, Any]], *results: str) -> tuple[Any, str, str]:
    """The first result, and the kind and message of the only finding."""
    out, report = run(lines, args, results, KEEP)
    assert len(report.findings) == 1, f"one finding was expected, got {report.findings}"
    return out[0] if out else None, report.findings[0].kind, report.findings[0].message


def bits(array: Any) -> list[int]:
    """Elements as unsigned patterns."""
    array = np.asarray(array).reshape(-1)
    return [int(v) for v in array.view(f"uint{array.dtype.itemsize * 8}")]
