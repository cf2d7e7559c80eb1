"""The kernel being captured, and `emit`, through which every operation enters it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from tilewright.errors import Loc
from tilewright.ir.core import Block, Effect, Op, Value
from tilewright.ir.ops.tile.base import TileOp, Version
from tilewright.ir.tile_types import TileIrType
from tilewright.ir.types import Type
from tilewright.lang.tile.errors import TileSyntaxError

F = TypeVar("F", bound=Callable[..., Any])
AliasSet = frozenset[str]
EVERYTHING: AliasSet = frozenset({"*"})
"""The alias set of what may touch any memory."""


@dataclass
class Trace:
    """One kernel being captured for one signature.

    `blocks` are the open blocks, `aliases` says which memory an operation touches, `place` is
    the user's line being evaluated, `combining` is the word for the region of a reduction or
    scan that is open, whose operations must be pure.
    """

    body: Block
    version: Version = (13, 3)
    blocks: list[Block] = field(default_factory=list)
    aliases: dict[Op, AliasSet] = field(default_factory=dict)
    place: Callable[[], Loc | None] = lambda: None
    call: Callable[..., Any] | None = None
    static: Callable[..., Any] | None = None
    """Calls the functions of the API while Python itself evaluates an expression."""
    combining: str = ""
    depth: int = 0

    def __post_init__(self) -> None:
        self.blocks.append(self.body)

    @property
    def block(self) -> Block:
        return self.blocks[-1]

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Appends to `block` until the end of the `with` statement."""
        self.blocks.append(block)
        try:
            yield block
        finally:
            self.blocks.pop()


_stack: list[Trace] = []


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Makes `trace` the current one."""
    _stack.append(trace)
    try:
        yield trace
    finally:
        _stack.pop()


def trace() -> Trace:
    """The kernel being captured.

    Raises: RuntimeError outside of tile code.
    """
    if not _stack:
        raise RuntimeError("tile functions can only be called from tile code: inside a @ct.kernel")
    return _stack[-1]


def capturing() -> bool:
    """Whether a kernel is being captured."""
    return bool(_stack)


def emit(
    kind: type[TileOp],
    operands: Sequence[Value] = (),
    types: Sequence[TileIrType] = (),
    *,
    regions: Sequence[Block] = (),
    segments: Sequence[int] | None = None,
    aliases: AliasSet | None = None,
    **attrs: Any,
) -> Op:
    """Appends an operation at the user's current line.

    Raises: TileSyntaxError for one with an effect inside of a reduction or scan.
    """
    t = trace()
    if t.combining and kind.effect is not Effect.PURE and not kind.terminator:
        name = kind.name.partition(".")[2]
        raise TileSyntaxError(
            f"the function of a {t.combining} cannot touch memory or print ({name})"
        )
    op = kind(operands, attrs, regions, t.place(), cast("Sequence[Type]", types), segments)
    t.block.ops.append(op)
    if aliases is not None:
        t.aliases[op] = aliases
    return op


def value(
    kind: type[TileOp],
    operands: Sequence[Value],
    result: TileIrType,
    *,
    segments: Sequence[int] | None = None,
    **attrs: Any,
) -> Value:
    """The single result of a new operation."""
    return emit(kind, operands, (result,), segments=segments, **attrs).results[0]


def new_block(types: Sequence[TileIrType] = ()) -> Block:
    """A block with arguments of these types."""
    return Block(cast("Sequence[Type]", types))


def api(fn: F) -> F:
    """Marks a function of the public API: it is called as it is, not captured.

    Outside of tile code it raises RuntimeError.
    """

    @functools.wraps(fn)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        static = trace().static
        return fn(*args, **kwargs) if static is None else static(fn, args, kwargs)

    guarded._tile_api = True  # type: ignore[attr-defined]
    return cast(F, guarded)


def host_api(fn: F) -> F:
    """Marks a function that host code may call too."""
    fn._tile_api = True  # type: ignore[attr-defined]
    return fn


def is_api(fn: object) -> bool:
    """Whether a callable is evaluated by calling it."""
    return bool(getattr(fn, "_tile_api", False))
