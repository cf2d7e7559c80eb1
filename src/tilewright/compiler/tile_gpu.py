"""The GPU backend of tile kernels: our bytecode, tileiras's cubin, the driver's launch.

A tile block is one launch block: the cubin says itself how many threads it has, so every kernel is
launched with a block of (1, 1, 1).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from tilewright.compiler.tile import (
    BACKENDS,
    NEWEST,
    Again,
    Runnable,
    Version,
    module_of,
    signature_for,
)
from tilewright.compiler.tile_arguments import Arguments, table_of
from tilewright.errors import Loc, ToolchainError
from tilewright.ir.core import Block
from tilewright.ir.ops.tile.versions import VERSIONS, needed_version
from tilewright.ir.tile_types import PointerType, TileType
from tilewright.lang.tile.capture import DEFAULT_VERSION, parameter_types
from tilewright.lang.tile.errors import (
    TileCompilerExecutionError,
    TileCompilerTimeoutError,
    TileValueError,
)
from tilewright.lang.tile.kernel import kernel
from tilewright.runtime import driver
from tilewright.runtime.device_buffer import DeviceBuffer
from tilewright.runtime.launch import KernelParams, LaunchConfig, PreparedLaunch
from tilewright.runtime.native import Call, Repeat, repeat_of
from tilewright.runtime.tileiras import compile_tile, tileiras_version
from tilewright.tileir.bytecode.writer import write_bytecode

_TIMEOUT: ContextVar[float | None] = ContextVar("tile_compiler_timeout", default=None)


@contextlib.contextmanager
def compiler_timeout(timeout_sec: float) -> Iterator[None]:
    """Compilations inside may take `timeout_sec` seconds each.

    A longer one raises TileCompilerTimeoutError.
    """
    token = _TIMEOUT.set(timeout_sec)
    try:
        yield
    finally:
        _TIMEOUT.reset(token)


_KINDS = {"i1": "bool"}
TABLES = 64
"""How many tables of lists a kernel keeps in device memory."""


def parameter_kinds(constraints: Sequence[Any]) -> list[str]:
    """The kinds of an entry's parameters, as `KernelParams` names them."""
    kinds = []
    for c in constraints:
        for t in parameter_types(c):
            assert isinstance(t, TileType), "entry parameters are scalars"
            pointer = isinstance(t.element, PointerType)
            name = str(t.element)
            kinds.append("ptr" if pointer else _KINDS.get(name, name))
    return kinds


class _OnGpu:
    """A compiled kernel on one GPU.  A launch of the same shape is prepared once."""

    def __init__(self, function: driver.Function, kinds: Sequence[str]) -> None:
        self.function = function
        self.params = KernelParams(kinds)
        self.prepared: dict[Any, PreparedLaunch] = {}
        self.tables: dict[tuple[int, ...], DeviceBuffer] = {}
        self.last: Callable[[Sequence[Any]], None] | None = None
        """Whose extents and strides the parameter buffer holds."""

    def __call__(
        self, stream: Any, grid: tuple[int, int, int], arguments: Arguments, pdl: bool
    ) -> Again | None:
        leaves = arguments.leaves
        for at, views in arguments.lists:
            leaves[at] = self._table(table_of(views, [v.pointer for v in views]))
        self.params.fill(leaves)
        self.last = None
        key = (grid, stream, pdl)
        found = self.prepared.get(key)
        if found is None:
            config = LaunchConfig(grid, (1, 1, 1), stream=stream, pdl=pdl)
            found = self.prepared[key] = PreparedLaunch(self.function, config, self.params)
        found()
        if arguments.lists:
            return None
        return _Again(self, found, leaves, {at for at, _ in arguments.views})

    def _table(self, words: list[int]) -> int:
        """The table of a list in device memory; the last `TABLES` different ones are kept."""
        key = tuple(words)
        if key not in self.tables:
            if len(self.tables) == TABLES:
                self.tables.pop(next(iter(self.tables))).free()
            data = np.array(words, np.int64)
            self.tables[key] = DeviceBuffer(data.nbytes)
            self.tables[key].write(data)
        return self.tables[key].address


class _Again:
    """A launch of a kernel, to be repeated."""

    def __init__(
        self, on_gpu: _OnGpu, launch: PreparedLaunch, leaves: list[Any], pointers: set[int]
    ) -> None:
        self.on_gpu, self.launch, self.leaves, self.pointers = on_gpu, launch, leaves, pointers

    def by_values(self, positions: Sequence[int]) -> Callable[[Sequence[Any]], None]:
        on_gpu, run, leaves = self.on_gpu, self.launch, self.leaves
        params, only_pointers = on_gpu.params, self.pointers.issuperset(positions)

        def launch(values: Sequence[Any]) -> None:
            if only_pointers and on_gpu.last is launch:
                params.set_pointers(positions, values)
            else:
                for at, value in zip(positions, values, strict=True):
                    leaves[at] = value
                params.fill(leaves)
                on_gpu.last = launch
            run()

        return launch

    def by_arguments(self, positions: Sequence[int | None], call: Call) -> Repeat | None:
        params = KernelParams(self.launch.params.kinds)
        params.fill(self.leaves)
        own = PreparedLaunch(self.launch.function, self.launch.config, params)
        return repeat_of(own, positions, call)


def target_of(device: int) -> str:
    """The target that tileiras compiles for: `sm_90`, never `sm_90a`."""
    return driver.device_info(device).target.rstrip("af")


def cubin_of(k: kernel, bytecode: bytes, target: str) -> bytes:
    """The cubin of a kernel's bytecode, from disk if it was compiled before.

    Raises: TileCompilerExecutionError, TileCompilerTimeoutError; ToolchainError without tileiras.
    """
    level = k.hints.value("opt_level", target)
    code = k.function.__code__
    loc = Loc(code.co_filename, code.co_firstlineno, function=k.__name__)
    flags = f"--gpu-name={target}"
    try:
        found = compile_tile(
            bytecode,
            k.__name__,
            target,
            opt_level=3 if level is None else level,
            loc=loc,
            timeout_s=_TIMEOUT.get(),
        )
    except TimeoutError as error:
        raise TileCompilerTimeoutError(
            f"{k.__name__}: {error}", flags, tileiras_version()
        ) from error
    except ToolchainError as error:
        status = error.details.get("exit status")
        if not isinstance(status, int):
            raise
        raise TileCompilerExecutionError(
            status, error.message, error.loc, flags, tileiras_version()
        ) from error
    return found.compiled.cubin


def cubin_for(k: kernel, constraints: Sequence[Any], target: str) -> bytes:
    """What a launch on a GPU of `target` loads; it lies in the cache from then on.

    Raises: TileError for a fault in the kernel; ToolchainError without tileiras.
    """
    signatures = [signature_for(constraints, k.__name__)]
    newest = newest_compiled()
    module = module_of(k, signatures, version=newest, target=target)
    return cubin_of(k, bytecode_of(module, newest), target)


def newest_compiled() -> Version:
    """The newest version of Tile IR that the tileiras in use compiles; ours where there is none."""
    try:
        text = tileiras_version()
    except ToolchainError:
        return NEWEST  # cubins may be in the cache
    found = tuple(int(n) for n in text.split(".")[:2] if n.isdigit())
    return max((v for v in VERSIONS if v <= found), default=DEFAULT_VERSION)


def bytecode_of(module: Block, newest: Version) -> bytes:
    """A module in the default version of bytecode, or the first that can say it.

    `newest` is what the reader knows, and what the module was captured for.
    """
    return write_bytecode(module, max(min(DEFAULT_VERSION, newest), needed_version(module)))


def _compile(k: kernel, constraints: Sequence[Any], device: str) -> Runnable:
    if not device.startswith("cuda"):
        raise TileValueError(
            "launch: the backend tileiras works on GPU memory, the arrays lie on the CPU",
            hint="move them to a GPU, or leave out backend=",
        )
    driver.require_gpu()
    number = int(device.partition(":")[2] or 0)
    cubin = cubin_for(k, constraints, target_of(number))
    function = driver.load_function(cubin, k.__name__, device=number)
    return _OnGpu(function, parameter_kinds(constraints))


BACKENDS["tileiras"] = _compile
