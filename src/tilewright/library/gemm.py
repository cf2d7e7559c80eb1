"""The GEMM operation: from arrays to a verified result, on the backend that fits the data.

    D = activation(alpha * A @ B + beta * C + bias)        A (M,K), B (K,N), C and D (M,N)

Operands with three modes are batches of matrices: (L,M,K), (L,K,N), (L,M,N); one that has two is
the same for all.  `gemm` does it all, in these steps, of which `prepare_gemm` leaves out the last:

    pose          arrays -> a checked request: views, output, the epilogue's tree
    plan          request -> kernel, config and workspace
    lower         plan -> a compiled program with its arguments
    run
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, cast

import numpy as np

from tilewright.arch.target import Target, target
from tilewright.collective.epilogue.fusion import Node, linear_combination
from tilewright.compiler import Compiled, compile_function, default_target
from tilewright.errors import LaunchError
from tilewright.library import registry
from tilewright.library.arrays import host_array, new_array, zeros
from tilewright.library.operands import GemmViews, check_output, problem_of, read_views
from tilewright.library.problem import GemmProblem, Operand
from tilewright.library.reference import Array, Verification, gemm_reference, verify_gemm
from tilewright.library.registry import GemmPlan
from tilewright.library.status import ProblemError
from tilewright.numeric.dtypes import DType, dtype
from tilewright.runtime.arrays import ArrayView, as_array
from tilewright.sim.machine import Report
from tilewright.sim.options import SimOptions

_P = ParamSpec("_P")


@dataclass(frozen=True, slots=True)
class GemmRequest:
    """What is asked for, with everything checked that needs no kernel."""

    views: GemmViews
    tree: Node
    alpha: float
    beta: float
    activation: str
    operands: tuple[Any, Any, Any]
    bias: Any
    out: Any

    @property
    def problem(self) -> GemmProblem:
        return problem_of(self.views, self.activation)

    @property
    def is_product(self) -> bool:
        """Whether there is anything to multiply."""
        return self.alpha != 0 and 0 not in (self.views.a.shape[1], *self.views.out_shape)

    @property
    def scalars(self) -> tuple[float, ...]:
        """The numbers of the tree."""
        return (self.alpha, self.beta) if self.views.c is not None else (self.alpha,)


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
    """Of blocks that share tiles: sums and counters, in the memory of the operands."""
    stream: Any = None

    def run(self, stream: Any = None, options: SimOptions | None = None) -> Report | None:
        """Computes `out`; returns the simulator's report, or None from a GPU."""
        if self.compiled is None:
            return None
        if self.backend == "sim":
            return self.compiled.simulate(*self.arguments, options=options)
        self.compiled.launch(*self.arguments, stream=self.stream if stream is None else stream)
        return None

    def bind(self, stream: Any = None) -> Callable[[], None]:
        """A callable that only launches, with everything else done: for timing and graphs.

        It keeps the workspace alive, but not the operands.
        """
        if self.compiled is None:
            return lambda: None
        stream = self.stream if stream is None else stream
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
    stream: Any = None,
) -> PreparedGemm:
    """Everything that `gemm` does before the launch."""
    request = pose(a, b, c, bias, out, out_dtype, alpha, beta, activation)
    chosen = choose_backend(backend, request.views.device)
    on = target(arch) if arch else default_target(request.views.device)
    plan = plan_gemm(request, on, kernel, config)
    return replace(lower(request, plan, chosen), stream=stream)


def _takes_what(
    prepare: Callable[_P, PreparedGemm],
) -> Callable[[Callable[..., Any]], Callable[_P, Any]]:
    """A decorator: the function has the parameters of `prepare`, which are listed only there."""

    def with_signature(fn: Callable[..., Any]) -> Callable[_P, Any]:
        fn.__signature__ = inspect.signature(prepare)  # type: ignore[attr-defined]
        return cast("Callable[_P, Any]", fn)

    return with_signature


@_takes_what(prepare_gemm)
def gemm(*operands: Any, **how: Any) -> Any:
    """`activation(alpha * a @ b + beta * c + bias)`, accumulated in f32.

    Shapes: a (M,K), b (K,N), c and the result (M,N), bias (N,); any sizes from 0 up, any strides.
            With batches (L,M,K), (L,K,N), (L,M,N); what lacks the L is the same for all.
    Types:  f16, bf16 or f32 inputs of one type; the result has that type unless `out` or
            `out_dtype` says otherwise.
    Where:  GPU arrays run on their GPU, all others in the simulator (`backend` 'gpu' or 'sim'
            insists), for the target `arch`.  With `beta` 0, `c` is never read and may be absent;
            with `alpha` 0, neither `a` nor `b` is.  `out` may be `c` itself, but may overlap
            nothing else.  A workspace, where there is one, is made on the framework's current
            stream: another `stream` must wait for that one.
    Raises: LaunchError for shapes that do not agree, a type that no kernel has, an activation
            that does not exist, or a `kernel` that does not fit, naming operand, needed and actual.

    >>> import numpy as np
    >>> a = np.ones((32, 16), np.float16); b = np.full((16, 8), 0.5, np.float16)
    >>> gemm(a, b)[0, :3]
    array([8., 8., 8.], dtype=float16)
    """
    prepared = prepare_gemm(*operands, **how)
    prepared.run()
    return prepared.out


def pose(
    a: Any,
    b: Any,
    c: Any,
    bias: Any,
    out: Any,
    out_dtype: str | DType | None,
    alpha: float,
    beta: float,
    activation: str,
) -> GemmRequest:
    """The request, with an output if none is given.

    Raises: LaunchError for operands that do not agree, or an output that overlaps them.
    """
    activation = "" if activation == "identity" else activation
    tree = linear_combination(beta != 0, bias is not None, activation)
    if beta == 0:
        c = None
    elif c is None:
        raise ProblemError(
            f"gemm: beta = {beta} needs C, got none",
            operand="C",
            needed="an array",
            actual="none",
            hint="pass c=, or beta=0",
        )
    views = read_views(a, b, c, bias, alpha)
    if out is None:
        out = new_array(a, views.out_shape, dtype(out_dtype).name if out_dtype else views.a.dtype)
    views = check_output(views, as_array(out, "out"))
    return GemmRequest(views, tree, float(alpha), float(beta), activation, (a, b, c), bias, out)


def plan_gemm(request: GemmRequest, on: Target, kernel: str = "", config: Any = None) -> GemmPlan:
    """Kernel and config for a request: those named, or the best that fit.

    Where nothing is multiplied, any kernel does: those named are for a product.
    Raises: LaunchError if the named ones do not fit, with the reason.
    """
    if not request.is_product:
        kernel, config = "", None
    return registry.plan(request.problem, on, kernel, config)


def lower(
    request: GemmRequest, plan: GemmPlan, backend: str, workspace: ArrayView | None = None
) -> PreparedGemm:
    """The compiled program and its arguments.  Without a `workspace` one is made, if needed."""

    def prepared(compiled: Compiled | None, arguments: tuple[Any, ...]) -> PreparedGemm:
        return PreparedGemm(
            plan,
            backend,
            request.alpha,
            request.beta,
            request.out,
            compiled,
            arguments,
            request.operands,
            request.bias,
            plan.workspace_bytes,
        )

    if 0 in request.views.out_shape:
        return prepared(None, ())
    arguments = program_arguments(request, plan, workspace)
    host = registry.KERNELS[plan.kernel].host
    return prepared(compile_function(host, *arguments, target=plan.target), arguments)


def program_arguments(
    request: GemmRequest, plan: GemmPlan, workspace: ArrayView | None = None
) -> tuple[Any, ...]:
    """What the kernel's host function takes.  Without a `workspace` one is made, if needed.

    A (M,K,L), B (N,K,L), D (M,N,L), what the epilogue loads, numbers, workspace, static facts.
    """
    seen = request.views.transposed() if plan.swapped else request.views
    tensors = tuple(x for x in (seen.c, seen.bias) if x is not None)
    shape = plan.workspace_shape
    parts: tuple[ArrayView, ...] = ()
    if shape is not None:
        make = zeros if shape.cleared else new_array
        whole = workspace or as_array(make(request.operands[0], (shape.bytes // 4,), "f32"))
        parts = shape.parts(whole)
    scalars = request.scalars
    return (
        seen.a, seen.b, seen.d, tensors, scalars, parts, plan.seen.majors, request.tree, plan.config
    )  # fmt: skip


def choose_backend(asked: str, device: str) -> str:
    """'gpu' or 'sim'.  Raises: LaunchError for one that the arrays cannot have."""
    chosen = asked if asked != "auto" else ("gpu" if device != "cpu" else "sim")
    if chosen not in ("gpu", "sim"):
        raise LaunchError(f"backend {asked!r}: expected 'auto', 'gpu' or 'sim'")
    if (chosen == "gpu") != (device != "cpu"):
        raise LaunchError(
            f"backend {chosen!r} does not fit arrays on {device}",
            hint="pass GPU arrays (torch, CuPy) to run on a GPU, NumPy arrays to simulate",
        )
    return chosen


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
