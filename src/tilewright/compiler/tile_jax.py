"""Tile kernels inside of JAX programs: `cutile_call`, under `jax.jit` as outside of it.

JAX calls back into Python with the arrays, where the interpreter runs the kernel.  What the kernel
writes are new arrays: JAX's own never change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.compiler.tile import dims, launch, module_of, signature_for
from tilewright.compiler.tile_arguments import read_arguments, tuple_items
from tilewright.errors import Loc, ToolchainError
from tilewright.lang.tile.errors import TileArgumentError, TileUnsupportedFeatureError
from tilewright.lang.tile.kernel import Parameter, kernel
from tilewright.runtime.arrays import as_array

try:
    import jax
except ImportError:
    jax = None

JAX_EXTRA = 'pip install "tilewright[jax]"'


@dataclass
class OutputPlaceholder:
    """An array that a kernel writes: JAX allocates it, and the call returns it."""

    shape: tuple[int, ...]
    dtype: Any


@dataclass
class InputOutput:
    """An array that a kernel reads and changes: the call returns what became of it."""

    array: Any


@dataclass(frozen=True)
class _Input:
    """Argument `number` of the callback; a copy is changed and returned if `changed`."""

    number: int
    changed: bool


@dataclass(frozen=True)
class _Output:
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass
class _Plan:
    """A call's arguments, with a mark in place of each array."""

    kernel: kernel
    inputs: list[Any] = field(default_factory=list)
    outputs: list[_Output] = field(default_factory=list)

    def read(self, x: Any, p: Parameter, what: str) -> Any:
        """The mark or the constant for one argument.

        Raises: TileArgumentError for what is no argument of a kernel.
        """
        if isinstance(x, tuple) or p.is_tuple:
            items = enumerate(tuple_items(x, p, what))
            return tuple(self.read(item, q, f"{what}[{i}]") for i, (item, q) in items)
        array = isinstance(x, OutputPlaceholder | InputOutput | jax.Array)
        if not array and not isinstance(x, bool | int | float):
            raise TileArgumentError(
                f"{self.kernel.__name__}: {what}: expected a jax.Array, OutputPlaceholder, "
                f"InputOutput, number or tuple, got {type(x).__name__}"
            )
        if p.constant and array:
            raise TileArgumentError(
                f"{self.kernel.__name__}: {what} is annotated ct.Constant: expected a number "
                "that JAX does not trace",
                hint="name the argument in jax.jit(static_argnames=...)",
            )
        if isinstance(x, OutputPlaceholder):
            return self._output(x.shape, x.dtype)
        if not array:
            return x
        changed = isinstance(x, InputOutput)
        self.inputs.append(x.array if isinstance(x, InputOutput) else x)
        if changed:
            self._output(self.inputs[-1].shape, self.inputs[-1].dtype)
        return _Input(len(self.inputs) - 1, changed)

    def _output(self, shape: Sequence[int], dtype: Any) -> _Output:
        made = _Output(tuple(shape), np.dtype(dtype))
        self.outputs.append(made)
        return made


def _filled(marked: Any, make: Callable[[Any], Any]) -> Any:
    if isinstance(marked, tuple):
        return tuple(_filled(item, make) for item in marked)
    return make(marked) if isinstance(marked, _Input | _Output) else marked


def cutile_call(grid: tuple[int, ...], kernel: Any, args: tuple[Any, ...]) -> Any:
    """What a kernel writes, as JAX arrays: one, or a tuple in the order of the arguments.

    Each argument is a jax.Array (read), an OutputPlaceholder (written), an InputOutput (both), a
    number that JAX does not trace (`static_argnums`), or a tuple of these.  The interpreter runs
    the kernel, on the CPU; it may be called under `jax.jit`, not under `jax.vmap` or `jax.grad`.
    Raises: TileError for a fault in the kernel or its arguments, while JAX traces the call;
    TileUnsupportedFeatureError where JAX computes on something else than the CPU.
    """
    if jax is None:
        raise ToolchainError("cutile_call needs the package jax", hint=JAX_EXTRA)
    if not isinstance(kernel, _KERNEL):
        raise TileArgumentError(f"cutile_call: expected a @ct.kernel, got {kernel!r}")
    sizes = dims(grid)
    code = kernel.function.__code__
    place = Loc(code.co_filename, code.co_firstlineno, function=kernel.__name__)
    if jax.default_backend() != "cpu":
        raise TileUnsupportedFeatureError(
            f"cutile_call: JAX computes on {jax.default_backend()}, and runs tile kernels on the "
            "CPU only",
            place,
            hint='jax.config.update("jax_platforms", "cpu"), or ct.launch(...) on its arrays',
        )
    if len(args) != len(kernel.parameters):
        raise TileArgumentError(
            f"{kernel.__name__} takes {len(kernel.parameters)} arguments, got {len(args)}", place
        )
    plan = _Plan(kernel)
    marked = tuple(
        plan.read(x, p, f"argument {i} ({p.name})")
        for i, (x, p) in enumerate(zip(args, kernel.parameters, strict=True))
    )
    _compile(plan, marked)

    def run(*arrays: Any) -> list[Any]:
        written: list[Any] = []

        def make(mark: _Input | _Output) -> Any:
            if isinstance(mark, _Output):
                written.append(np.empty(mark.shape, mark.dtype))
                return written[-1]
            given = np.asarray(arrays[mark.number])
            if not mark.changed:
                return given
            written.append(given.copy())
            return written[-1]

        launch(None, sizes, kernel, _filled(marked, make), backend="interpreter")
        return written

    shapes = [jax.ShapeDtypeStruct(out.shape, out.dtype) for out in plan.outputs]
    found = jax.pure_callback(run, shapes, *plan.inputs)
    return found[0] if len(found) == 1 else tuple(found)


_KERNEL = kernel


def _compile(plan: _Plan, marked: tuple[Any, ...]) -> None:
    """Captures the kernel for arrays of such shapes.  Raises: TileError at the user's line."""

    def stand_in(mark: _Input | _Output) -> Any:
        like = plan.inputs[mark.number] if isinstance(mark, _Input) else mark
        return _like(tuple(like.shape), np.dtype(like.dtype))

    arguments = read_arguments(plan.kernel, _filled(marked, stand_in))
    module_of(plan.kernel, [signature_for(arguments.constraints, plan.kernel.__name__)])


def _like(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """An array of this shape without its memory, which capturing never looks at."""
    view = as_array(np.empty((1,) * len(shape), dtype))
    strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return replace(view, shape=shape, strides=strides)
