"""The GEMM operation: from arrays to a verified result, on the backend that fits the data.

    D = activation(alpha * A @ B + beta * C + bias)        A (M,K), B (K,N), C and D (M,N)

Operands with three modes are batches of matrices: (L,M,K), (L,K,N), (L,M,N); one that has two is
the same for all.  `gemm` does it all.  `prepare_gemm` stops before the launch: shapes, types,
alignment, kernel and workspace are settled, the output exists, and the result can be run, timed,
verified and described.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.arch.target import Target, target
from tilewright.collective.epilogue.fusion import linear_combination
from tilewright.compiler import Compiled, compile_function, default_target
from tilewright.errors import LaunchError
from tilewright.library import registry
from tilewright.library.arrays import host_array, new_array, zeros
from tilewright.library.operands import GemmViews, check_output, problem_of, read_views
from tilewright.library.problem import GemmProblem, Operand
from tilewright.library.reference import Array, Verification, gemm_reference, verify_gemm
from tilewright.library.registry import GemmPlan
from tilewright.numeric.dtypes import DType, dtype
from tilewright.runtime.arrays import as_array
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
    bias: Any = None
    workspace_bytes: int = 0
    """Of a split K: partial sums and counters, in the memory of the operands."""

    def run(self, stream: Any = None, options: SimOptions | None = None) -> Report | None:
        """Computes `out`; returns the simulator's report, or None from a GPU."""
        if self.compiled is None:
            return None
        if self.backend == "sim":
            return self.compiled.simulate(*self.arguments, options=options)
        self.compiled.launch(*self.arguments, stream=stream)
        return None

    def bind(self, stream: Any = None) -> Callable[[], None]:
        """A callable that only launches, with everything else done: for timing and graphs.

        It keeps the workspace alive, but not the operands.
        """
        if self.compiled is None:
            return lambda: None
        launch = self.compiled.bind(*self.arguments, stream=stream)
        if not self.workspace_bytes:
            return launch

        def run(_workspace: Any = self.arguments) -> None:
            launch()

        return run

    def verify(self) -> Verification:
        """Compares `out` with the host reference, every element."""
        a, b, c = (host_array(x) if x is not None else None for x in self.operands)
        assert a is not None, "A is always given"
        assert b is not None, "B is always given"
        bias = host_array(self.bias) if self.bias is not None else None
        problem = self.plan.problem
        reference, size = gemm_reference(
            a, b, c, self.alpha, self.beta, bias=bias, activation=problem.activation
        )
        return verify_gemm(host_array(self.out), reference, size, problem.k, problem.d.dtype)


def gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: Any = None,
    activation: str = "",
    out: Any = None,
    out_dtype: str | DType | None = None,
    kernel: str = "",
    config: Any = None,
    backend: str = "auto",
    stream: Any = None,
) -> Any:
    """`activation(alpha * a @ b + beta * c + bias)`, accumulated in f32.

    Shapes: a (M,K), b (K,N), c and the result (M,N), bias (N,); any sizes from 0 up, any strides.
            With batches (L,M,K), (L,K,N), (L,M,N); what lacks the L is the same for all.
    Types:  f16, bf16 or f32 inputs of one type; the result has that type unless `out` or
            `out_dtype` says otherwise.
    Where:  GPU arrays run on their GPU, all others in the simulator (`backend` 'gpu' or 'sim'
            insists).  With `beta` 0, `c` is never read and may be absent; with `alpha` 0, neither
            `a` nor `b` is.  The workspace of a split K is made on the framework's current stream:
            another `stream` must wait for that one.
    Raises: LaunchError for shapes that do not agree, a type that no kernel has, an activation
            that does not exist, or a `kernel` that does not fit, naming operand, needed and actual.

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
        bias=bias,
        activation=activation,
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
    bias: Any = None,
    activation: str = "",
    out: Any = None,
    out_dtype: str | DType | None = None,
    kernel: str = "",
    config: Any = None,
    backend: str = "auto",
    arch: str = "",
) -> PreparedGemm:
    """Everything that `gemm` does before the launch."""
    activation = "" if activation == "identity" else activation
    tree = linear_combination(beta != 0, bias is not None, activation)
    if beta == 0:
        c = None
    elif c is None:
        raise LaunchError(f"gemm: beta = {beta} needs C, got none", hint="pass c=, or beta=0")
    if alpha == 0:  # no product: there is nothing that a kernel could be chosen for
        kernel, config = "", None
    views = read_views(a, b, c, bias, alpha)
    if out is None:
        out = new_array(a, views.out_shape, dtype(out_dtype).name if out_dtype else views.a.dtype)
    views = check_output(views, as_array(out, "out"))
    chosen = _backend(backend, views.device)
    on = target(arch) if arch else default_target(views.device)
    plan = registry.plan(problem_of(views, activation), on, kernel, config)
    operands = (a, b, c)
    if 0 in views.out_shape:
        return PreparedGemm(plan, chosen, alpha, beta, out, None, (), operands, bias)
    workspace, nbytes = _workspace(plan, a)
    scalars = (float(alpha), float(beta)) if c is not None else (float(alpha),)
    arguments = (*_arguments(plan, views), scalars, workspace, plan.seen.majors, tree, plan.config)
    compiled = compile_function(registry.KERNELS[plan.kernel].host, *arguments, target=on)
    return PreparedGemm(plan, chosen, alpha, beta, out, compiled, arguments, operands, bias, nbytes)


def _backend(asked: str, device: str) -> str:
    chosen = asked if asked != "auto" else ("gpu" if device != "cpu" else "sim")
    if chosen not in ("gpu", "sim"):
        raise LaunchError(f"backend {asked!r}: expected 'auto', 'gpu' or 'sim'")
    if (chosen == "gpu") != (device != "cpu"):
        raise LaunchError(
            f"backend {chosen!r} does not fit arrays on {device}",
            hint="pass GPU arrays (torch, CuPy) to run on a GPU, NumPy arrays to simulate",
        )
    return chosen


def _arguments(plan: GemmPlan, views: GemmViews) -> tuple[Any, ...]:
    """A (M,K,L), B (N,K,L), D (M,N,L) and what the epilogue loads, as the kernel wants them."""
    seen = views.transposed() if plan.swapped else views
    tensors = tuple(x for x in (seen.c, seen.bias) if x is not None)
    return seen.a, seen.b, seen.d, tensors


def _workspace(plan: GemmPlan, like: Any) -> tuple[tuple[Any, ...], int]:
    """The workspace of a split K, (partial sums, counters), and its bytes; else nothing."""
    shape = plan.workspace_shape
    if shape is None:
        return (), 0
    slots, parts, elements = shape
    size = slots * parts * elements
    # One buffer, so that the counters lie on the sums' own page.
    whole = as_array(zeros(like, (size + slots,), "f32"))
    steps = (1, elements, elements * parts)
    partials = replace(whole, shape=(elements, parts, slots), strides=steps)
    at = whole.pointer + 4 * size
    counters = replace(whole, pointer=at, shape=(slots,), strides=(1,), dtype="i32")
    return (partials, counters), 4 * whole.size


def random_operands(
    problem: GemmProblem, seed: int = 0
) -> tuple[Array, Array, Array | None, Array]:
    """Fresh N(0,1) inputs in the problem's layouts, and an output poisoned with NaN."""
    rng = np.random.default_rng(seed)

    def array(rows: int, cols: int, operand: Operand, row_major: str) -> Array:
        matrix = (rows, cols) if operand.major == row_major else (cols, rows)
        shape = (problem.batch, *matrix) if operand.batch_pitch else matrix
        data: Array = new_array(np.empty(0), shape, operand.dtype.name)
        data[...] = rng.standard_normal(shape, dtype=np.float32).astype(data.dtype)
        return data if operand.major == row_major else np.swapaxes(data, -1, -2)

    a = array(problem.m, problem.k, problem.a, "K")
    b = array(problem.k, problem.n, problem.b, "N")
    c = array(problem.m, problem.n, problem.c, "N") if problem.c else None
    out = array(problem.m, problem.n, problem.d, "N")
    out[...] = np.nan
    return a, b, c, out


__all__ = ["PreparedGemm", "Target", "gemm", "prepare_gemm", "random_operands"]
