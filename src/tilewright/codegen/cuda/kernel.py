"""One kernel as one self-contained CUDA C++ text.

>>> from tilewright.ir.builder import Builder
>>> from tilewright.ir.core import Block, Func
>>> from tilewright.ir.ops import control, memory, sync
>>> from tilewright.ir.types import PtrType, ScalarType, Space
>>> from tilewright.numeric.dtypes import F32, I32
>>> body = Block([PtrType(F32, Space.GMEM, 4), ScalarType(I32)], ["out", "n"])
>>> b = Builder(body)
>>> i = b.value(sync.Special, register="thread_idx")
>>> _ = b.emit(memory.Store, b.value(memory.Offset, body.args[0], i), b.constant(1.0, F32))
>>> _ = b.emit(control.Return)
>>> print(emit_cuda(Func("fill", body)), end="")
// fill
extern "C" __global__ void fill(float* out, int n) {
  out[(int)threadIdx.x] = 1.0f;
}
"""

from __future__ import annotations

import os

from tilewright.codegen.cuda import (
    emit_arith,
    emit_bulk,
    emit_control,
    emit_copy,
    emit_memory,
    emit_mma,
    emit_record,
    emit_sync,
    emit_vector,
)
from tilewright.codegen.cuda.emitter import EMITTERS, Emitter
from tilewright.codegen.cuda.expr import name
from tilewright.codegen.cuda.operands import Place
from tilewright.codegen.cuda.spelling import declarator
from tilewright.errors import VerifyError
from tilewright.ir.core import Func
from tilewright.ir.ops import memory
from tilewright.ir.types import PtrType, TensorMapType

FAMILIES = (
    emit_arith,
    emit_bulk,
    emit_control,
    emit_copy,
    emit_memory,
    emit_mma,
    emit_record,
    emit_sync,
    emit_vector,
)
"""The modules that fill `EMITTERS`."""


def emit_cuda(kernel: Func, *, line_info: bool = True) -> str:
    """CUDA C++ of `kernel`: no headers, an `extern "C"` entry, parameters as in `kernel.args`.

    With `line_info` every statement carries the Python line it comes from (`#line`).
    The same kernel gives the same text, in every process.

    Raises: DTypeError for element types that generated code cannot hold; VerifyError if shared
    memory has not been laid out.
    """
    _check(kernel)
    em, parameters = _emit(kernel, line_info, frozenset())
    hidden = em.prelude.names() & em.names.given
    if hidden:
        # Some variable would hide a helper: once more, with those names taken.
        em, parameters = _emit(kernel, line_info, frozenset(em.prelude.names()))
    entry = f"{_signature(kernel, parameters)} {{\n{em.out.text()}}}\n"
    prelude = em.prelude.text(entry)
    title = kernel.name
    if kernel.loc is not None:
        title += f", from {os.path.basename(kernel.loc.file)}"
    return "\n".join(part for part in (f"// {title}", prelude, entry) if part)


def _emit(kernel: Func, line_info: bool, taken: frozenset[str]) -> tuple[Emitter, list[str]]:
    """The emitter that has written the body, and the parameters."""
    em = Emitter(kernel, line_info, taken)
    parameters = _parameters(em, kernel)
    with em.out.indented():
        if any(isinstance(op, memory.AllocShared) for op in kernel.body.walk()):
            em.out.line("extern __shared__ __align__(1024) unsigned char smem[];")
        em.block(kernel.body)
    return em, parameters


def _parameters(em: Emitter, kernel: Func) -> list[str]:
    out = []
    for n, arg in enumerate(kernel.args):
        text = em.names.fresh(arg.name or f"arg{n}")
        t = arg.type
        if isinstance(t, TensorMapType):
            out.append(f"const __grid_constant__ TensorMap {text}")
            em.set(arg, name(text))
            continue
        const = arg in em.facts.constant_params
        out.append(f"{declarator(t, const, kernel.loc)} {text}")
        em.set(arg, Place(name(text), None, t, const) if isinstance(t, PtrType) else name(text))
    return out


def _check(kernel: Func) -> None:
    for op in kernel.body.walk():
        if type(op) not in EMITTERS:
            raise VerifyError(
                f"CUDA code generation: {op.name} is not an operation of a kernel", loc=op.loc
            )


def _signature(kernel: Func, parameters: list[str]) -> str:
    words = ['extern "C" __global__ void']
    if kernel.cluster != (1, 1, 1):
        x, y, z = kernel.cluster
        words.append(f"__cluster_dims__({x}, {y}, {z})")
    if kernel.max_threads:
        words.append(f"__launch_bounds__({kernel.max_threads}, {kernel.min_blocks})")
    head = " ".join(words)
    one = f"{head} {kernel.name}({', '.join(parameters)})"
    if len(one) <= 100:
        return one
    rows, row = [], ""
    for n, parameter in enumerate(parameters):
        piece = parameter + ("," if n + 1 < len(parameters) else ")")
        if row and len(row) + len(piece) > 92:
            rows.append(row)
            row = piece
        else:
            row = f"{row} {piece}" if row else piece
    return "\n".join([head, f"{kernel.name}(" + "\n    ".join([*rows, row])])
