"""What a GEMM was called with: arrays of two or three modes, as views that a kernel takes.

Kernels see A (M,K,L), B (N,K,L), C and D (M,N,L), all with a batch mode; an array that is the same
for all batches has stride 0 there.  A bias is a tensor (M,N,L) that only moves along N.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.library.overlap import overlaps, overlaps_itself
from tilewright.library.problem import GemmProblem, Operand
from tilewright.library.status import ProblemError, StatusCode
from tilewright.numeric.dtypes import F32, dtype
from tilewright.runtime.arrays import ArrayView, as_array


@dataclass(frozen=True, slots=True)
class GemmViews:
    """The operands of one GEMM: a (M,K,L), b (N,K,L), c, d and bias (M,N,L)."""

    a: ArrayView
    b: ArrayView
    c: ArrayView | None
    bias: ArrayView | None
    d: ArrayView | None
    out_shape: tuple[int, ...]

    @property
    def device(self) -> str:
        return self.a.device

    def transposed(self) -> GemmViews:
        """The same memory as the operands of D^T = B^T A^T."""
        c, bias, d = (_turned(x) if x else None for x in (self.c, self.bias, self.d))
        return GemmViews(self.b, self.a, c, bias, d, self.out_shape)


def _turned(view: ArrayView) -> ArrayView:
    """(M,N,L) -> (N,M,L)."""
    (m, n, batch), (step_m, step_n, apart) = view.shape, view.strides
    return replace(view, shape=(n, m, batch), strides=(step_n, step_m, apart))


def read_views(a: Any, b: Any, c: Any, bias: Any, alpha: float) -> GemmViews:
    """Views of the inputs; with alpha = 0 the product has no terms, so that nothing is read.

    Raises: LaunchError for shapes that do not agree.
    """
    va, vb = as_array(a, "argument 1 (a)"), as_array(b, "argument 2 (b)")
    batch = _batch(va, vb)
    m, k, n = va.shape[-2], va.shape[-1], vb.shape[-1]
    if k != vb.shape[-2]:
        raise ProblemError(
            f"gemm: a is {m}x{k} and b is {vb.shape[-2]}x{n}: "
            f"K = {k} and {vb.shape[-2]} do not agree",
            operand="B",
            needed=f"K = {k}",
            actual=f"K = {vb.shape[-2]}",
            hint="b is (K, N); a weight stored (N, K) is passed transposed, as b.T",
        )
    shape = (m, n) if batch is None else (batch, m, n)
    vc = as_array(c, "argument 3 (c)") if c is not None else None
    if vc is not None and tuple(vc.shape) not in (shape, shape[-2:]):
        raise _shape_error("c", vc.shape, shape)
    bias_view = _bias_view(bias, m, n) if bias is not None else None
    k = 0 if alpha == 0 else k
    count = 1 if batch is None else batch
    wide_a, wide_b = _with_batch(va, count), _turned(_with_batch(vb, count))
    wide_a = replace(wide_a, shape=(m, k, count))
    wide_b = replace(wide_b, shape=(n, k, count))
    wide_bias = replace(bias_view, shape=(m, n, count)) if bias_view else None
    wide_c = _with_batch(vc, count) if vc is not None else None
    return GemmViews(wide_a, wide_b, wide_c, wide_bias, None, shape)


def _batch(a: ArrayView, b: ArrayView) -> int | None:
    """L, or None for two matrices."""
    for view, name in ((a, "a"), (b, "b")):
        if len(view.shape) not in (2, 3):
            raise _shape_error(name, view.shape, "a matrix or a batch of them")
    counts = {name: v.shape[0] for name, v in (("a", a), ("b", b)) if len(v.shape) == 3}
    if len(set(counts.values())) > 1:
        raise ProblemError(
            f"gemm: a has {counts['a']} matrices and b has {counts['b']}, expected as many",
            operand="B",
            needed=f"L = {counts['a']}",
            actual=f"L = {counts['b']}",
            hint="a matrix that is the same for all batches is passed with two modes",
        )
    return next(iter(counts.values()), None)


def _with_batch(view: ArrayView, batch: int) -> ArrayView:
    """(R,C) or (L,R,C) -> (R,C,L); a single batch, or one for all, has stride 0."""
    stride = view.strides[0] if len(view.shape) == 3 and batch > 1 else 0
    return replace(view, shape=(*view.shape[-2:], batch), strides=(*view.strides[-2:], stride))


def _bias_view(bias: Any, m: int, n: int) -> ArrayView:
    view = as_array(bias, "bias")
    if tuple(view.shape) != (n,):
        raise _shape_error("bias", view.shape, (n,))
    return replace(view, shape=(m, n, 1), strides=(0, view.strides[0], 0))


def check_output(views: GemmViews, out: ArrayView) -> GemmViews:
    """The views with their output.

    C may be the output itself: each of its elements is read before that place is written.

    Raises: LaunchError for an output of another shape, one that cannot be written, that overlaps
            itself or an operand, or operands on different devices.
    """
    if tuple(out.shape) != views.out_shape:
        raise _shape_error("out", out.shape, views.out_shape)
    if out.readonly and out.size:
        raise ProblemError(
            "gemm: out is read-only", operand="D", needed="writable memory", actual="read-only"
        )
    if overlaps_itself(out):
        raise ProblemError(
            f"gemm: out has strides {out.strides} for shape {tuple(out.shape)}: its elements "
            "share memory",
            operand="D",
            needed="memory of its own for each element",
            actual=f"strides {out.strides}",
            hint="pass an output of its own memory",
        )
    named = {"a": views.a, "b": views.b, "c": views.c, "bias": views.bias, "out": out}
    devices = {name: v.device for name, v in named.items() if v is not None}
    if len(set(devices.values())) > 1:
        places = ", ".join(f"{name} on {device}" for name, device in devices.items())
        raise ProblemError(
            f"gemm: all arrays must be on one device, got {places}",
            operand=next(n for n, place in devices.items() if place != views.device),
            needed=views.device,
            actual=places,
        )
    d = _with_batch(out, views.a.shape[2])
    for name, view in (("a", views.a), ("b", views.b), ("c", views.c), ("bias", views.bias)):
        itself = name == "c" and view == d
        if view is not None and not itself and overlaps(view, d):
            raise ProblemError(
                f"gemm: out overlaps {name} in memory: {name} would be read after it was written",
                operand="D",
                needed="memory of its own" + " (or C itself)" * (name == "c"),
                actual=f"memory of {name}",
                hint="pass an output of its own memory",
            )
    return replace(views, d=d)


def _shape_error(name: str, shape: Sequence[int], expected: object) -> ProblemError:
    operand = {"out": "D", "bias": "bias"}.get(name, name.upper())
    text = f"gemm: {name} has shape {tuple(shape)}, expected {expected}"
    return ProblemError(text, operand=operand, needed=expected, actual=tuple(shape))


def problem_of(views: GemmViews, activation: str = "") -> GemmProblem:
    """The problem that the views pose.  Raises: LaunchError for types that do not agree."""
    a, b, c, d = views.a, views.b, views.c, views.d
    assert d is not None, "the output is checked before"
    if a.dtype != b.dtype:
        text = f"gemm: a is {a.dtype} and b is {b.dtype}, expected one element type"
        raise ProblemError(text, StatusCode.INVALID_DATA_TYPE, "B", a.dtype, b.dtype)
    if c is not None and c.dtype != d.dtype:
        text = f"gemm: c is {c.dtype} and the output {d.dtype}, expected one type"
        raise ProblemError(text, StatusCode.INVALID_DATA_TYPE, "C", d.dtype, c.dtype)
    if views.bias is not None and views.bias.dtype not in ("f16", "bf16", "f32"):
        text = f"gemm: bias is {views.bias.dtype}, expected f16, bf16 or f32"
        needed = "f16, bf16 or f32"
        raise ProblemError(text, StatusCode.INVALID_DATA_TYPE, "bias", needed, views.bias.dtype)
    return GemmProblem(
        d.shape[0],
        d.shape[1],
        a.shape[1],
        _operand("A", a, "K", "M"),
        _operand("B", b, "K", "N"),
        _operand("D", d, "N", "M"),
        _operand("C", c, "N", "M") if c is not None else None,
        F32,
        d.shape[2],
        views.bias is not None,
        activation,
    )


def _operand(name: str, view: ArrayView, last: str, first: str) -> Operand:
    """Reads major, pitch and alignment off a view (X,Y,L).

    `last` is the index of Y, contiguous if its stride is 1, `first` that of X.
    """
    (x, y, _), (sx, sy, batch) = view.shape, view.strides
    align = min(view.pointer & -view.pointer, 16) if view.pointer else 16
    last_contiguous = sy == 1 or y == 1
    first_contiguous = (sx == 1 or x == 1) and not (sy == 1 and y > 1)
    if first_contiguous and not (last_contiguous and sx != 1):
        return Operand(name, dtype(view.dtype), first, sy, align, batch)
    if last_contiguous:
        return Operand(name, dtype(view.dtype), last, sx, align, batch)
    return Operand(name, dtype(view.dtype), "strided", 0, align, batch)
