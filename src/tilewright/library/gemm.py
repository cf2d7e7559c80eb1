"""The GEMM operation: from arrays to a verified result, on the backend that fits the data.

    D = alpha * A @ B + beta * C        A (M,K), B (K,N), C and D (M,N)

`gemm` does it all.  `prepare_gemm` stops before the launch: shapes, types, alignment and kernel
are settled, the output exists, and the result can be run, timed, verified and described.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.arch.target import Target, target
from tilewright.compiler import Compiled, compile_function, default_target
from tilewright.errors import LaunchError
from tilewright.library import registry
from tilewright.library.arrays import host_array, new_array, transposed
from tilewright.library.problem import GemmProblem, Operand
from tilewright.library.reference import Array, Verification, gemm_reference, verify_gemm
from tilewright.library.registry import GemmPlan
from tilewright.numeric.dtypes import F32, DType, dtype
from tilewright.runtime.arrays import ArrayView, as_array
from tilewright.sim.machine import Report
from tilewright.sim.options import SimOptions


@dataclass(frozen=True, slots=True)
class PreparedGemm:
    """A GEMM that is ready to run; `out` is its result array once it has run."""

    plan: GemmPlan
    backend: str
    alpha: float
    beta: float
    out: Any
    compiled: Compiled | None
    """None where there is nothing to launch: an output without elements."""
    arguments: tuple[Any, ...]
    operands: tuple[Any, Any, Any]

    def run(self, stream: Any = None, options: SimOptions | None = None) -> Report | None:
        """Computes `out`; returns the simulator's report, or None from a GPU."""
        if self.compiled is None:
            return None
        if self.backend == "sim":
            return self.compiled.simulate(*self.arguments, options=options)
        self.compiled.launch(*self.arguments, stream=stream)
        return None

    def bind(self, stream: Any = None) -> Callable[[], None]:
        """A callable that only launches, with everything else done: for timing and graphs."""
        if self.compiled is None:
            return lambda: None
        return self.compiled.bind(*self.arguments, stream=stream)

    def verify(self) -> Verification:
        """Compares `out` with the host reference, every element."""
        a, b, c = (host_array(x) if x is not None else None for x in self.operands)
        assert a is not None, "A is always given"
        assert b is not None, "B is always given"
        reference, size = gemm_reference(a, b, c, self.alpha, self.beta)
        problem = self.plan.problem
        return verify_gemm(host_array(self.out), reference, size, problem.k, problem.d.dtype)


def gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    out: Any = None,
    out_dtype: str | DType | None = None,
    kernel: str = "",
    config: Any = None,
    backend: str = "auto",
    stream: Any = None,
) -> Any:
    """`alpha * a @ b + beta * c`, accumulated in f32.

    Shapes: a (M,K), b (K,N), c and the result (M,N); any sizes from 0 up, any strides.
    Types:  f16, bf16 or f32 inputs of one type; the result has that type unless `out` or
            `out_dtype` says otherwise.
    Where:  GPU arrays run on their GPU, all others in the simulator (`backend` 'gpu' or 'sim'
            insists).  With `beta` 0, `c` is never read and may be absent.
    Raises: LaunchError for shapes that do not agree, a type that no kernel has, or a `kernel`
            that does not fit, naming operand, needed and actual.

    >>> import numpy as np
    >>> a = np.ones((32, 16), np.float16); b = np.full((16, 8), 0.5, np.float16)
    >>> gemm(a, b)[0, :3]
    array([8., 8., 8.], dtype=float16)
    """
    prepared = prepare_gemm(
        a,
        b,
        c,
        alpha=alpha,
        beta=beta,
        out=out,
        out_dtype=out_dtype,
        kernel=kernel,
        config=config,
        backend=backend,
    )
    prepared.run(stream)
    return prepared.out


def prepare_gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    out: Any = None,
    out_dtype: str | DType | None = None,
    kernel: str = "",
    config: Any = None,
    backend: str = "auto",
    arch: str = "",
) -> PreparedGemm:
    """Everything that `gemm` does before the launch."""
    va, vb = as_array(a, "argument 1 (a)"), as_array(b, "argument 2 (b)")
    m, n, k = _sizes(va, vb)
    if beta == 0:
        c = None
    elif c is None:
        raise LaunchError(f"gemm: beta = {beta} needs C, got none", hint="pass c=, or beta=0")
    vc = as_array(c, "argument 3 (c)") if c is not None else None
    if out is None:
        out = new_array(a, (m, n), dtype(out_dtype).name if out_dtype else va.dtype)
    vd = as_array(out, "out")
    for view, name in ((vc, "c"), (vd, "out")):
        if view is not None and tuple(view.shape) != (m, n):
            raise LaunchError(f"gemm: {name} has shape {tuple(view.shape)}, expected ({m}, {n})")
    device = _one_device({"a": va, "b": vb, "c": vc, "out": vd})
    chosen = backend if backend != "auto" else ("gpu" if device != "cpu" else "sim")
    if chosen not in ("gpu", "sim"):
        raise LaunchError(f"backend {backend!r}: expected 'auto', 'gpu' or 'sim'")
    if (chosen == "gpu") != (device != "cpu"):
        raise LaunchError(
            f"backend {chosen!r} does not fit arrays on {device}",
            hint="pass GPU arrays (torch, CuPy) to run on a GPU, NumPy arrays to simulate",
        )
    on = target(arch) if arch else default_target(device)
    problem = _problem(m, n, k, va, vb, vc, vd)
    plan = registry.plan(problem, on, kernel, config)
    operands = (a, b, c)
    if m == 0 or n == 0:
        return PreparedGemm(plan, chosen, alpha, beta, out, None, (), operands)
    # CuTe's convention: B is (N,K).
    mb = transposed(vb)
    arguments = (va, mb, vc, vd, float(alpha), float(beta), plan.config)
    compiled = compile_function(registry.KERNELS[plan.kernel].host, *arguments, target=on)
    return PreparedGemm(plan, chosen, alpha, beta, out, compiled, arguments, operands)


def _sizes(a: ArrayView, b: ArrayView) -> tuple[int, int, int]:
    for view, name in ((a, "a"), (b, "b")):
        if len(view.shape) != 2:
            raise LaunchError(f"gemm: {name} has shape {tuple(view.shape)}, expected a matrix")
    if a.shape[1] != b.shape[0]:
        raise LaunchError(
            f"gemm: a is {a.shape[0]}x{a.shape[1]} and b is {b.shape[0]}x{b.shape[1]}: "
            f"K = {a.shape[1]} and {b.shape[0]} do not agree",
            hint="b is (K, N); a weight stored (N, K) is passed transposed, as b.T",
        )
    return a.shape[0], b.shape[1], a.shape[1]


def _one_device(views: dict[str, ArrayView | None]) -> str:
    devices = {name: v.device for name, v in views.items() if v is not None}
    if len(set(devices.values())) > 1:
        places = ", ".join(f"{name} on {device}" for name, device in devices.items())
        raise LaunchError(f"gemm: all arrays must be on one device, got {places}")
    return next(iter(devices.values()))


def _problem(
    m: int, n: int, k: int, a: ArrayView, b: ArrayView, c: ArrayView | None, d: ArrayView
) -> GemmProblem:
    if a.dtype != b.dtype:
        raise LaunchError(f"gemm: a is {a.dtype} and b is {b.dtype}, expected one element type")
    if c is not None and c.dtype != d.dtype:
        raise LaunchError(f"gemm: c is {c.dtype} and the output {d.dtype}, expected one type")
    return GemmProblem(
        m,
        n,
        k,
        _operand("A", a, "K", "M"),
        _operand("B", b, "N", "K"),
        _operand("D", d, "N", "M"),
        _operand("C", c, "N", "M") if c is not None else None,
        F32,
    )


def _operand(name: str, view: ArrayView, row: str, column: str) -> Operand:
    """Reads major, pitch and alignment off an array; `row` is contiguous in a row-major one."""
    s0, s1 = view.strides
    row_major = s1 == 1 or view.shape[1] == 1
    column_major = (s0 == 1 or view.shape[0] == 1) and not (s1 == 1 and view.shape[1] > 1)
    align = min(view.pointer & -view.pointer, 16) if view.pointer else 16
    if column_major and not (row_major and s0 != 1):
        return Operand(name, dtype(view.dtype), column, s1, align)
    if row_major:
        return Operand(name, dtype(view.dtype), row, s0, align)
    return Operand(name, dtype(view.dtype), "strided", 0, align)


def random_operands(
    problem: GemmProblem, seed: int = 0
) -> tuple[Array, Array, Array | None, Array]:
    """Fresh N(0,1) inputs in the problem's layouts, and an output poisoned with NaN."""
    rng = np.random.default_rng(seed)

    def array(rows: int, cols: int, operand: Operand, row_major: str) -> Array:
        shape = (rows, cols) if operand.major == row_major else (cols, rows)
        data: Array = new_array(np.empty(0), shape, operand.dtype.name)
        data[...] = rng.standard_normal(shape, dtype=np.float32).astype(data.dtype)
        return data if operand.major == row_major else data.T

    a = array(problem.m, problem.k, problem.a, "K")
    b = array(problem.k, problem.n, problem.b, "N")
    c = array(problem.m, problem.n, problem.c, "N") if problem.c else None
    out = array(problem.m, problem.n, problem.d, "N")
    out[...] = np.nan
    return a, b, c, out


__all__ = ["PreparedGemm", "Target", "gemm", "prepare_gemm", "random_operands"]
