"""Tile kernels: captured, verified, and run by a backend.

    interpreter   NumPy, whole tiles at a time, on arrays in CPU memory
    tileiras      NVIDIA's compiler of Tile IR, then the GPU (`compiler/tile_gpu.py`)

A program is compiled once per kernel, backend and key of its arguments (`tile_arguments`).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tilewright.compiler.tile_arguments import Arguments, hashable, read_arguments, table_of
from tilewright.compiler.tile_fast import fast_key, value_positions
from tilewright.ir.core import Block
from tilewright.ir.ops.tile.versions import VERSIONS
from tilewright.lang.tile.capture import DEFAULT_VERSION, capture
from tilewright.lang.tile.errors import TileTypeError, TileValueError
from tilewright.lang.tile.kernel import kernel
from tilewright.lang.tile.signature import CallingConvention, KernelSignature
from tilewright.runtime.arrays import ArrayView, host_bytes
from tilewright.runtime.native import Call, Repeat
from tilewright.tileir.interpret.machine import Options, Program, compile_entry
from tilewright.tileir.interpret.memory import Memory
from tilewright.tileir.verify import VerifyOptions, verify

Version = tuple[int, int]
NEWEST = VERSIONS[-1]
"""What the interpreter knows; a file is written in an older version if that says the same."""


class Again(Protocol):
    """A launch that can be repeated with other addresses and numbers."""

    def by_values(self, positions: Sequence[int]) -> Callable[[Sequence[Any]], None]:
        """A function of the values of some leaves, which launches once more with them."""

    def by_arguments(self, positions: Sequence[int | None], call: Call) -> Repeat | None:
        """What compares all arguments itself, in C, and launches; None where nothing does."""


class Runnable(Protocol):
    """A compiled kernel.  `arguments` are those of one launch; how to repeat it, or None."""

    def __call__(
        self, stream: Any, grid: tuple[int, int, int], arguments: Arguments, pdl: bool
    ) -> Again | None: ...


Compile = Callable[[kernel, Sequence[Any], str], Runnable]
"""(kernel, constraints, device) to something to run."""
MOST_PREPARED, MOST_NATIVE = 4096, 8
"""How many launches that can be repeated a kernel keeps, by their fast keys and in C."""
BACKENDS: dict[str, Compile] = {}
"""What `launch(..., backend=)` names; `auto` chooses by where the arrays lie."""


def signature_for(constraints: Sequence[Any], symbol: str) -> KernelSignature:
    """The signature of a just-in-time compilation."""
    return KernelSignature(constraints, CallingConvention.cutile_python_v2(), symbol)


def module_of(
    k: kernel,
    signatures: Sequence[KernelSignature],
    *,
    version: Version = DEFAULT_VERSION,
    target: str | None = None,
) -> Block:
    """The verified Tile IR module of a kernel, one entry per signature.

    Raises: TileError at the user's line.
    """
    module = capture(k, signatures, version=version, target=target)
    verify(module, VerifyOptions(version=max(version, DEFAULT_VERSION)))
    return module


def dims(grid: Any) -> tuple[int, int, int]:
    """A grid as x, y, z.

    Raises: TileValueError for anything but one to three positive integers.
    """
    sizes = grid if isinstance(grid, tuple | list) else (grid,)
    good = 1 <= len(sizes) <= 3 and all(hasattr(s, "__index__") and s >= 0 for s in sizes)
    if not good:
        raise TileValueError(f"launch: a grid is one to three integers, 0 or more, got {grid!r}")
    x, y, z = (*(int(s) for s in sizes), 1, 1)[:3]
    return x, y, z


def launch(
    stream: Any,
    grid: Any,
    kernel: Any,
    kernel_args: Sequence[Any],
    /,
    *,
    programmatic_dependent_launch: bool = False,
    backend: str = "auto",
) -> None:
    """Runs a kernel over a grid of one to three dimensions.

    Arrays may be of any library: NumPy, torch, CuPy, DLPack.  With `backend="auto"`, arrays in CPU
    memory are worked on by the interpreter, here and now (`stream` means nothing then), and those
    on a GPU by the GPU, in the order of `stream`.
    Raises: TileError for a fault in the kernel or its arguments, before anything runs;
    SimulationError for what the interpreter finds: an access outside of memory, a broken promise.

    >>> from tilewright.lang.tile.grid import bid
    >>> from tilewright.lang.tile.memory import store
    >>> @_KERNEL
    ... def numbered(y):
    ...     store(y, bid(0), bid(0))
    >>> y = np.zeros(3, np.int32)
    >>> launch(None, (3,), numbered, (y,)); y
    array([0, 1, 2], dtype=int32)
    """
    if not isinstance(kernel, _KERNEL):
        raise TileTypeError(f"launch: expected a @ct.kernel, got {kernel!r}")
    for repeat in kernel.repeats:
        if repeat(stream, grid, kernel_args, programmatic_dependent_launch, backend):
            return
    short = fast_key(kernel, kernel_args)
    how: Any = None
    if short is not None and type(grid) is tuple:
        handle = getattr(stream, "cuda_stream", stream)
        how = (*short[0], grid, handle, programmatic_dependent_launch, backend)
        ready = kernel.prepared.get(how)
        if ready is not None:
            ready(short[1])
            return
    sizes = dims(grid)
    arguments = read_arguments(kernel, tuple(kernel_args))
    device = arguments.device
    name = backend
    if backend == "auto":
        name = "interpreter" if device == "cpu" else "tileiras"
    make = BACKENDS.get(name)
    if make is None:
        shown = ", ".join(("auto", *sorted(BACKENDS)))
        raise TileValueError(f"launch: no backend {backend!r}, expected one of {shown}")
    key = (name, device, *map(hashable, arguments.constraints))
    program = kernel.programs.get(key)
    if program is None:
        program = kernel.programs[key] = make(kernel, arguments.constraints, device)
    if 0 not in sizes:
        again = program(stream, sizes, arguments, programmatic_dependent_launch)
        if how is not None and again is not None:
            positions = value_positions(kernel, kernel_args)
            if len(kernel.prepared) >= MOST_PREPARED:
                kernel.prepared.clear()
            kernel.prepared[how] = again.by_values([p for p in positions if p is not None])
            args, pdl = tuple(kernel_args), programmatic_dependent_launch
            native = again.by_arguments(positions, Call(stream, grid, args, pdl, backend))
            if native is not None:
                kernel.repeats = [native, *kernel.repeats[: MOST_NATIVE - 1]]


_KERNEL = kernel

# --- the interpreter ----------------------------------------------------------------------------


def _print(text: str) -> None:
    sys.stdout.write(text)


_DEFAULT = Options(echo=_print)
_OPTIONS: ContextVar[Options | None] = ContextVar("tile_options", default=None)


@contextlib.contextmanager
def interpreting(options: Options) -> Iterator[None]:
    """Launches inside are interpreted with these options, for example in adversarial order.

    What a kernel prints goes to standard output unless `options.echo` says otherwise.
    """
    given = options if options.echo is not None else replace(options, echo=_print)
    token = _OPTIONS.set(given)
    try:
        yield
    finally:
        _OPTIONS.reset(token)


class _Mapped:
    """The arrays of one launch in the interpreter's memory; arrays may overlap."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.spans: list[tuple[int, int, int]] = []
        """(real start, real end, virtual start) of what is mapped."""

    def add(self, views: Sequence[ArrayView]) -> list[int]:
        """The virtual addresses of arrays' first elements."""
        buffers = [host_bytes(v) for v in views]
        order = sorted(range(len(views)), key=lambda i: -buffers[i][0].size)
        found = [0] * len(views)
        for i in order:
            data, start = buffers[i]
            inside = next(
                (v + start - a for a, b, v in self.spans if a <= start and start + data.size <= b),
                None,
            )
            if inside is None:
                inside = self.memory.map(data, f"array {i}", start)
                self.spans.append((start, start + data.size, inside))
            found[i] = inside + views[i].pointer - start
        return found


@dataclass
class _Interpreted:
    """A kernel for the interpreter; compiled again when the options change."""

    module: Block
    name: str
    program: Program | None = None
    options: Options | None = None

    def __call__(
        self, stream: Any, grid: tuple[int, int, int], arguments: Arguments, pdl: bool
    ) -> Again | None:
        del stream, pdl  # the interpreter runs here and now
        options = _OPTIONS.get() or _DEFAULT
        if self.program is None or self.options is not options:
            self.program = compile_entry(self.module, self.name, options)
            self.options = options
        mapped = _Mapped()
        groups = [[v for _, v in arguments.views], *(vs for _, vs in arguments.lists)]
        every = mapped.add([v for g in groups for v in g])
        leaves = list(arguments.leaves)
        for (at, _), address in zip(arguments.views, every, strict=False):
            leaves[at] = address
        used = len(arguments.views)
        for at, views in arguments.lists:
            words = table_of(views, every[used : used + len(views)])
            used += len(views)
            table = np.array(words, np.int64).view(np.uint8)
            leaves[at] = mapped.memory.map(table, f"list {at}", 0)
        self.program.run(grid, leaves, mapped.memory)
        return None


def _interpreter(k: kernel, constraints: Sequence[Any], device: str) -> Runnable:
    if device != "cpu":
        raise TileValueError(
            f"launch: the interpreter works on CPU memory, the arrays lie on {device}",
            hint="move them to the CPU, or leave out backend=",
        )
    module = module_of(k, [signature_for(constraints, k.__name__)], version=NEWEST)
    return _Interpreted(module, k.__name__)


BACKENDS["interpreter"] = _interpreter
