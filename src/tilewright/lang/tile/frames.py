"""The evaluator's state: frames of functions, names and what they stand for, the current place."""

from __future__ import annotations

import ast
import builtins
import enum
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.errors import Loc
from tilewright.ir.core import Block, Op, Value
from tilewright.lang.tile.carried import Spec, is_dataclass_value
from tilewright.lang.tile.dtypes import DType, find_dtype
from tilewright.lang.tile.errors import TileRecursionError, TileSyntaxError, TileTypeError
from tilewright.lang.tile.functions import Closure, FunctionInfo
from tilewright.lang.tile.state import Trace, is_api
from tilewright.lang.tile.values import Array, ArrayList, Poison, Tile

MAX_DEPTH = 1000
"""Calls are inlined: a chain of this many ends in an error."""
PYTHON_FRAMES = 20_000
"""Python's own recursion limit while a kernel is captured: a call takes about ten of its frames."""

MISSING = object()


class Flow(enum.Enum):
    """How a list of statements ends."""

    NEXT = "falls through"
    LEFT = "left its block"
    RETURNED = "returned from its function"


@dataclass
class LoopContext:
    """A loop being captured.

    `names` are handed on from one iteration to the next, each by its `spec`; `flag` says that a
    `for` loop was left by `break` (its later iterations do nothing).
    """

    kind: str
    specs: dict[str, Spec]
    args: list[Value] = field(default_factory=list)
    has_break: bool = False
    results: tuple[str, ...] = ()
    managers: int = 0
    """How many context managers of its function are open around it."""
    breaks: list[tuple[Op, Block, dict[str, Any]]] = field(default_factory=list)


@dataclass
class Frame:
    """One call of one function."""

    info: FunctionInfo
    globals: dict[str, Any]
    cells: dict[str, Callable[[], Any]]
    parent: Frame | None
    caller: Loc | None
    depth: int
    kernel: bool = False
    locals: dict[str, Any] = field(default_factory=dict)
    loops: list[LoopContext | None] = field(default_factory=list)
    places: dict[ast.AST, Loc] = field(default_factory=dict)
    managers: tuple[Manager, ...] = ()
    """The context managers that are open, innermost last."""
    result: Any = None
    ended: bool = False
    """Whether the call is over: the variables that closures still see do not change any more."""


class FormattedString:
    """A string with run-time values in it: texts, and (value, format) pairs."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: Sequence[str | tuple[Any, str]]) -> None:
        self.pieces = tuple(pieces)

    def __str__(self) -> str:
        """With the types of the values in their place, for messages at compile time."""
        return "".join(p if isinstance(p, str) else repr(p[0]) for p in self.pieces)


class RangeValue:
    """`range(start, stop, step)` of integers, some of them known at run time only."""

    __slots__ = ("start", "step", "stop")

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        self.start, self.stop, self.step = start, stop, step


class Manager:
    """A call of a function that `contextlib.contextmanager` decorates.

    `after` are the statements that follow its `yield`, once it is `used`.
    """

    __slots__ = ("after", "frame", "used")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.used = False
        self.after: list[ast.stmt] = []


class BoundMethod:
    """A function of a class and the dataclass instance that it is called on."""

    __slots__ = ("function", "self")

    def __init__(self, function: Any, self_: Any) -> None:
        self.function, self.self = function, self_


_PLAIN = (bool, int, float, str, enum.Enum, DType, types.ModuleType, type, slice)
_OURS = (Tile, Array, ArrayList, Closure, BoundMethod, FormattedString, RangeValue, Manager)
_CALLABLES = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


class Core(ABC):
    """What all parts of the evaluator share."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.frame: Frame | None = None
        self.node: ast.AST | None = None
        trace.place = self.place
        trace.call = lambda fn, args: self.call(fn, list(args), {})

    @abstractmethod
    def eval(self, node: ast.expr) -> Any: ...

    @abstractmethod
    def call(self, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any: ...

    @abstractmethod
    def block(self, body: list[ast.stmt], rest: tuple[list[ast.stmt], ...] = ()) -> Flow: ...

    @abstractmethod
    def choose(
        self, cond: Any, then: Callable[[], Any], other: Callable[[], Any], what: str
    ) -> Any: ...

    @property
    def here(self) -> Frame:
        assert self.frame is not None, "a function is being evaluated"
        return self.frame

    def place(self) -> Loc | None:
        """The user's line that is being evaluated, and the calls that led there."""
        frame, node = self.frame, self.node
        if frame is None or node is None or not hasattr(node, "lineno"):
            return None
        found = frame.places.get(node)
        if found is None:
            line, col = int(node.lineno), int(getattr(node, "col_offset", 0))
            end = getattr(node, "end_col_offset", 0) or 0
            last = getattr(node, "end_lineno", line)
            info = frame.info
            end = end if last == line else 0
            found = Loc(info.file, line, col, end, info.name, frame.caller)
            frame.places[node] = found
        return found

    def syntax(self, node: ast.AST, message: str, hint: str = "") -> TileSyntaxError:
        """An error at a node."""
        self.node = node
        return TileSyntaxError(message, self.place(), hint=hint)

    def frame_for(self, info: FunctionInfo, fn: Any, parent: Frame | None) -> Frame:
        """A frame for a call from the current place.

        Raises: TileRecursionError if calls are nested too deeply.
        """
        depth = 0 if self.frame is None else self.frame.depth + 1
        place = self.place()
        if depth > MAX_DEPTH:
            raise TileRecursionError(
                f"{info.name}: calls are nested more than {MAX_DEPTH} deep; a call is inlined, so "
                "recursion must end at compile time",
                None if place is None else replace(place, caller=None),
            )
        cells: dict[str, Callable[[], Any]] = {}
        table: dict[str, Any] = {}
        if isinstance(fn, types.FunctionType):
            table = fn.__globals__
            for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
                cells[name] = _reader(cell)
        elif parent is not None:
            table = parent.globals
        return Frame(info, table, cells, parent, place, depth)

    # --- names ----------------------------------------------------------------------------------

    def load(self, name: str) -> Any:
        """The value of a name.

        Raises: TileSyntaxError if it has none, TileTypeError if it may not be read here.
        """
        frame: Frame | None = self.here
        found: Any = MISSING
        while frame is not None and found is MISSING:
            if name in frame.info.local_names:
                found = frame.locals.get(name, MISSING)
                if found is MISSING:
                    raise TileSyntaxError(f"{name} is not defined here")
                if isinstance(found, Poison):
                    raise TileTypeError(found.why)
                return found
            if name in frame.cells:
                try:
                    found = frame.cells[name]()
                except ValueError:
                    raise TileSyntaxError(f"{name} is not defined yet") from None
            elif frame.parent is None:
                found = frame.globals.get(name, MISSING)
            frame = frame.parent
        if found is MISSING:
            found = getattr(builtins, name, MISSING)
        if found is MISSING:
            raise TileSyntaxError(f"{name} is not defined here")
        return self.admit(found, name)

    def admit(self, x: Any, name: str) -> Any:
        """A Python object as a value of tile code.

        Raises: TileTypeError for objects that tile code has no use for.
        """
        if x is None or x is Ellipsis or isinstance(x, (*_OURS, bool, int, float, str)):
            return x
        if isinstance(x, tuple):
            return x if type(x) is tuple else tuple(x)
        found = find_dtype(x)
        if found is not None:
            return found
        if isinstance(x, (*_PLAIN, *_CALLABLES)) or is_dataclass_value(x) or is_api(x):
            return x
        if is_api(type(x)) or type(x).__module__.startswith("tilewright."):
            return x
        raise TileTypeError(
            f"{name}: a {type(x).__name__} cannot be used in tile code",
            hint="tile code uses numbers, strings, tuples, enums, dtypes, functions and frozen "
            "dataclasses",
        )


def _reader(cell: types.CellType) -> Callable[[], Any]:
    return lambda: cell.cell_contents
