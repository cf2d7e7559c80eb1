"""Launching a kernel from a host function: tracing its body, and the `host.launch` operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import CaptureError, TypeMismatchError
from tilewright.ir.builder import constant_value
from tilewright.ir.core import Block, Func, Value
from tilewright.ir.ops import control, host
from tilewright.ir.types import ScalarType
from tilewright.lang import trace
from tilewright.lang.carried import Places
from tilewright.lang.protocol import values_of, with_values
from tilewright.lang.scalar import Scalar, describe, numeric_of, static_number
from tilewright.lang.source_loc import mark_boundary
from tilewright.lang.trace import Trace
from tilewright.numeric.dtypes import I32

MAX_THREADS = 1024


@dataclass(frozen=True)
class LaunchConfig:
    """How a kernel is launched; the three extents are Python ints or run-time integers.

    `smem` is the dynamic shared memory in bytes; 0 lets the compiler take what the kernel needs.
    """

    grid: tuple[Any, Any, Any]
    block: tuple[Any, Any, Any]
    cluster: tuple[Any, Any, Any] = (1, 1, 1)
    smem: Any = 0
    min_blocks_per_mp: int = 1
    use_pdl: bool = False
    max_number_threads: int = 0

    @property
    def max_threads(self) -> int:
        """The block size, or the bound that was given for it; 0 if neither is known."""
        known = [static_number(n) for n in self.block]
        if all(n is not None for n in known):
            x, y, z = (int(n) for n in known if n is not None)
            return x * y * z
        return self.max_number_threads


def extent(value: Any, what: str) -> tuple[Any, Any, Any]:
    """A grid, block or cluster as three extents: from one to three ints or run-time integers.

    >>> extent(4, "grid"), extent([2, 3], "grid")
    ((4, 1, 1), (2, 3, 1))
    """
    items = list(value) if isinstance(value, tuple | list) else [value]
    if not 1 <= len(items) <= 3:
        raise TypeMismatchError(
            f"launch: {what} takes 1 to 3 extents, got {len(items)}", loc=trace.loc()
        )
    for item in items:
        integer = type(item).is_integer if isinstance(item, Scalar) else type(item) is int
        if not integer:
            raise TypeMismatchError(
                f"launch: {what} must hold integers, got {describe(item)}", loc=trace.loc()
            )
    x, y, z = (*items, 1, 1)[:3]
    return x, y, z


def make_config(
    grid: Any,
    block: Any,
    cluster: Any,
    smem: Any,
    min_blocks_per_mp: int,
    use_pdl: bool,
    max_number_threads: Any,
) -> LaunchConfig:
    """Checks what `launch` was given.

    Raises: TypeMismatchError naming the argument and its limit.
    """
    threads = max_number_threads
    if isinstance(threads, tuple | list):
        threads = threads[0] * (threads[1] if len(threads) > 1 else 1)
    config = LaunchConfig(
        extent(grid, "grid"),
        extent(block, "block"),
        extent((1, 1, 1) if cluster is None else cluster, "cluster"),
        0 if smem is None else smem,
        int(min_blocks_per_mp),
        bool(use_pdl),
        int(threads or 0),
    )
    if config.max_threads > MAX_THREADS:
        shape = " x ".join(str(n) for n in config.block)
        raise TypeMismatchError(
            f"launch: block {shape} has {config.max_threads} threads, the limit is {MAX_THREADS}",
            loc=trace.loc(),
        )
    for what in ("block", "cluster"):
        for n in getattr(config, what):
            known = static_number(n)
            if known is not None and known < 1:
                raise TypeMismatchError(
                    f"launch: {what} extents must be at least 1, got {known}", loc=trace.loc()
                )
    return config


def trace_kernel(
    host_trace: Trace,
    name: str,
    body: Callable[..., Any],
    bound: Mapping[str, Any],
    call_form: Callable[[Mapping[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]],
    config: LaunchConfig,
) -> tuple[Func, list[Value]]:
    """The kernel as a function of the run-time values in `bound`, and those values on the host.

    Values that occur more than once are passed once; constants are not passed.
    """
    values = values_of(tuple(bound.values()))
    passed: dict[Value, str] = {}
    for parameter, item in bound.items():
        fresh = [v for v in dict.fromkeys(values_of(item)) if constant_value(v) is None]
        for number, v in enumerate(fresh):
            passed.setdefault(v, parameter if len(fresh) == 1 else f"{parameter}_{number}")
    block = Block([v.type for v in passed], list(passed.values()))
    kernel = Func(
        _unique(name, host_trace),
        block,
        max_threads=config.max_threads,
        min_blocks=config.min_blocks_per_mp,
        cluster=_static_cluster(config),
        loc=trace.loc(),
    )
    inner = Trace(kernel, host_trace.module, host_trace.target)
    images = dict(zip(passed, block.args, strict=True))
    with trace.tracing(inner):
        new = [images[v] if v in images else _constant(inner, v) for v in values]
        moved = with_values(tuple(bound.values()), new)
        args, kwargs = call_form(dict(zip(bound, moved, strict=True)))
        places = Places(moved)
        returned = run_body(body, args, kwargs)
        places.restore()  # What the kernel did to its arguments is not the host's.
        if returned is not None:
            raise CaptureError(
                f"kernel {name} returns {describe(returned)}: a kernel returns nothing",
                loc=kernel.loc,
                hint="store the result through a tensor argument",
            )
        inner.builder.emit(control.Return)
    _check_foreign(kernel)
    return kernel, list(passed)


def run_body(body: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Runs a captured function; call chains in source locations end here."""
    return body(*args, **kwargs)


mark_boundary(run_body.__code__)


def _constant(inner: Trace, v: Value) -> Value:
    number = constant_value(v)
    assert number is not None, f"{v} is not a constant"
    assert isinstance(v.type, ScalarType), f"{v} is not a scalar"
    return inner.builder.constant(number, v.type.dtype)


def _unique(name: str, host_trace: Trace) -> str:
    taken = host_trace.module.kernels
    if name not in taken:
        return name
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _static_cluster(config: LaunchConfig) -> tuple[int, int, int]:
    x, y, z = (static_number(n) for n in config.cluster)
    if x is None or y is None or z is None:
        return (1, 1, 1)
    return int(x), int(y), int(z)


def _check_foreign(kernel: Func) -> None:
    """Refuses values of the host function that reached the kernel without being passed."""
    known = set(kernel.args)
    for op in kernel.body.walk():
        known.update(op.results)
        for region in op.regions:
            known.update(region.args)
    for op in kernel.body.walk():
        for v in op.operands:
            if v not in known:
                raise CaptureError(
                    f"kernel {kernel.name} uses {v}, a run-time value of the function around it",
                    loc=op.loc,
                    hint="pass it to the kernel as an argument",
                )


def emit_launch(
    host_trace: Trace, kernel: Func, values: Sequence[Value], config: LaunchConfig
) -> None:
    """Appends `host.launch`."""
    host_trace.module.kernels[kernel.name] = kernel
    numbers = (*config.grid, *config.block, *config.cluster, config.smem)
    int32 = numeric_of(I32)
    trace.emit(
        host.Launch,
        *(int32(n).ir_value() for n in numbers),
        *values,
        kernel=kernel.name,
        pdl=config.use_pdl,
    )
