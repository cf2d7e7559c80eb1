"""What a captured function calls: the run-time side of the rewriting in `capture`.

Every captured function closes over one `Runtime`, under the name `__tw__`.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Sequence
from types import CellType, FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

from tilewright.errors import CaptureError
from tilewright.ir.core import Value
from tilewright.ir.ops import control
from tilewright.lang import trace as tracer
from tilewright.lang import words
from tilewright.lang.branch import RESULT, Branch, Choice, StaticBranch
from tilewright.lang.capture import Rewritten, rewrite
from tilewright.lang.carried import UNDEF, Undefined
from tilewright.lang.loops import ForLoop, StaticLoop
from tilewright.lang.nodes import RUNTIME
from tilewright.lang.operations import logical_not
from tilewright.lang.protocol import speaks_protocol
from tilewright.lang.ranges import LoopRange, range_
from tilewright.lang.regions import Site, decide
from tilewright.lang.scalar import Scalar
from tilewright.lang.source import NoSource
from tilewright.lang.source_loc import is_core_file, is_library_file
from tilewright.lang.while_loops import WhileLoop

_NO_SITE = Site()
_GENERATOR_FLAGS = 0x20 | 0x80 | 0x100 | 0x200
_REFUSED_ESCAPES = {
    "break": "put the rest of the body under `if not ...`, or loop with `while`",
    "continue": "put the rest of the body under `if not ...`",
    "return": "put the rest of the function under `if not ...`, and return at its end",
    "raise": "check at compile time with const_expr(...), or use `assert` at run time",
}


class Runtime:
    """The calls that `capture` writes into a function; one for each function."""

    UNDEF = UNDEF

    def __init__(self, sites: Sequence[Site]) -> None:
        self.sites = sites

    # Statements.

    def if_(self, condition: Any, site: int) -> StaticBranch | Branch:
        decided = decide(condition)
        if not isinstance(decided, Value):
            return StaticBranch(decided)
        return Branch(tracer.require("a branch"), decided, self.sites[site], tracer.loc())

    def for_(self, items: Any, site: int) -> StaticLoop | ForLoop:
        if not isinstance(items, LoopRange):
            return StaticLoop(iter(items))
        trace = tracer.current()
        known = items.static_range()
        if known is not None and (trace is None or trace.on_host or not known):
            return StaticLoop(iter(known))
        trace = tracer.require("a loop over run-time bounds")
        return ForLoop(trace, items.bounds, items.unroll, self.sites[site], tracer.loc())

    def while_(self, site: int) -> WhileLoop:
        return WhileLoop(tracer.require("while"), self.sites[site], tracer.loc())

    def leave(self, word: str, handles: tuple[Any, ...]) -> None:
        """Refuses `break`, `continue`, `return` and `raise` inside what runs at run time."""
        for handle in handles:
            if not handle.static:
                place = "branch" if isinstance(handle, Branch) else "loop"
                raise CaptureError(
                    f"`{word}` inside a run-time {place}: the kernel cannot jump out of it",
                    loc=tracer.loc(),
                    hint=_REFUSED_ESCAPES[word],
                )

    def assert_begin(self, condition: Any, text: str) -> bool:
        """Whether the assertion has more to do than to hold at compile time."""
        decided = decide(condition)
        if decided is True:
            return False
        tracer.require("assert").operands.append((decided, text))
        return True

    def assert_end(self, message: Any) -> None:
        decided, text = tracer.require("assert").operands.pop()
        if not isinstance(decided, Value):
            raise AssertionError(message or text)
        tracer.emit(control.Assert, decided, message=str(message or text))

    def mark(self) -> tuple[int, int]:
        trace = tracer.require("try")
        return trace.depth, len(trace.operands)

    def unwind(self, mark: tuple[int, int]) -> None:
        """Refuses an exception that left a run-time region half traced."""
        trace = tracer.require("try")
        if trace.depth != mark[0]:
            raise CaptureError(
                "an exception was caught that left a run-time branch or loop",
                loc=tracer.loc(),
                hint="catch it inside the branch or loop",
            )
        del trace.operands[mark[1] :]

    # Names.

    def use(self, value: Any, name: str = "") -> Any:
        if isinstance(value, Undefined):
            raise CaptureError(
                f"{name} is not defined on every path to this line",
                loc=tracer.loc(),
                hint=f"give {name} a value before the run-time branch or loop that assigns it",
            )
        return value

    def named(self, name: str, value: Any) -> Any:
        """Lets the run-time value that is assigned to a name carry that name."""
        if isinstance(value, Scalar):
            raw = value.raw
            if isinstance(raw, Value) and not raw.name:
                raw.name = name
        elif speaks_protocol(type(value)):
            for v in value.__tw_values__()[:1]:
                if not v.name:
                    v.name = name
        return value

    # Calls.

    def fn(self, f: Any) -> Any:
        """The function to call for `f`: user functions are captured, some builtins replaced."""
        kind = type(f)
        if kind is FunctionType:
            return captured_if_user(f)
        if kind is MethodType:
            inner = f.__func__
            new = captured_if_user(inner) if type(inner) is FunctionType else inner
            return f if new is inner else MethodType(new, f.__self__)
        if isinstance(f, type) or kind is type(len):
            return words.REPLACED.get(f, f)
        if kind is functools.partial:
            return functools.partial(self.fn(f.func), *f.args, **f.keywords)
        call = next((vars(k)["__call__"] for k in kind.__mro__ if "__call__" in vars(k)), None)
        if type(call) is FunctionType:
            new = captured_if_user(call)
            if new is not call:
                return MethodType(new, f)
        return f

    def iter_fn(self, f: Any) -> Any:
        """As `fn`, for the call that a `for` statement runs over."""
        return range_ if f is builtins.range else self.fn(f)

    # Expressions.

    def not_(self, x: Any) -> Any:
        return logical_not(x) if isinstance(x, Scalar) and not x.is_static else not x

    def contains(self, x: Any, items: Any) -> Any:
        return words.contains(x, items)

    def and_begin(self, first: Any, roots: tuple[Any, ...] = ()) -> bool:
        """Whether to evaluate the second operand of ``first and second``."""
        return self._begin("and", first, roots)

    def or_begin(self, first: Any, roots: tuple[Any, ...] = ()) -> bool:
        """Whether to evaluate the second operand of ``first or second``."""
        return self._begin("or", first, roots)

    def _begin(self, word: str, first: Any, roots: tuple[Any, ...]) -> bool:
        trace = tracer.require(word)
        decided = decide(first)
        if not isinstance(decided, Value):
            trace.operands.append((None, first, word))
            return decided is (word == "and")
        choice = Choice(trace, decided, _NO_SITE, tracer.loc())
        choice.begin((), roots)
        trace.operands.append((choice, first, word))
        choice.then()
        if word == "or":
            choice.end((), {RESULT: first})
            choice.orelse()
        return True

    def choice_end(self, second: Any) -> Any:
        """The value of ``first and second`` or ``first or second``."""
        choice, first, word = tracer.require("and / or").operands.pop()
        return second if choice is None else choice.join(first, second, word)

    def choice_result(self) -> Any:
        """The value where the second operand was not needed: the first."""
        return tracer.require("and / or").operands.pop()[1]

    def link(self, middle: Any) -> Any:
        """Keeps the middle operand of a chained comparison, which is evaluated once."""
        tracer.require("a comparison").operands.append(middle)
        return middle

    def linked(self) -> Any:
        """The middle operand again, on the right of the chain."""
        return tracer.require("a comparison").operands.pop(-2)

    def chain_begin(self, first: Any, roots: tuple[Any, ...] = ()) -> bool:
        """Whether to go on with a chained comparison whose first part is `first`."""
        go_on = self._begin("and", first, roots)
        if not go_on:
            tracer.require("a comparison").operands.pop(-2)
        return go_on

    def ifexp_begin(self, condition: Any, roots: tuple[Any, ...] = ()) -> bool:
        """Whether to evaluate the first choice of ``a if condition else b``."""
        trace = tracer.require("a conditional expression")
        decided = decide(condition)
        if not isinstance(decided, Value):
            trace.operands.append((None, decided))
            return decided
        choice = Choice(trace, decided, _NO_SITE, tracer.loc())
        choice.begin((), roots)
        trace.operands.append((choice, True))
        return choice.then()

    def ifexp_then(self, value: Any) -> Any:
        choice = tracer.require("a conditional expression").operands[-1][0]
        if choice is not None:
            choice.end((), {RESULT: value})
        return value

    def ifexp_more(self) -> bool:
        """Whether to evaluate the second choice."""
        choice, taken = tracer.require("a conditional expression").operands[-1]
        return not taken if choice is None else bool(choice.orelse())

    def ifexp_else(self, value: Any) -> Any:
        return self.ifexp_then(value)

    def ifexp_end(self, first: Any, second: Any) -> Any:
        choice, taken = tracer.require("a conditional expression").operands.pop()
        if choice is None:
            return first if taken else second
        return choice.finish(first, second)


# Capturing functions.

_rewritten: dict[int, tuple[Rewritten, Runtime, object]] = {}
_captured: WeakKeyDictionary[FunctionType, FunctionType] = WeakKeyDictionary()


def captured(fn: FunctionType) -> FunctionType:
    """`fn` with its control flow made traceable; the same globals, closure and defaults.

    Raises: CaptureError where it uses what cannot be captured; NoSource if it has no source.
    """
    found = _captured.get(fn)
    if found is not None:
        return found
    old = fn.__code__
    if RUNTIME in old.co_freevars:
        return fn
    known = _rewritten.get(id(old))
    if known is None:
        made = rewrite(fn)
        known = _rewritten[id(old)] = (made, Runtime(made.sites), old)
    code = known[0].code
    cells = dict(zip(old.co_freevars, fn.__closure__ or (), strict=True))
    cells[RUNTIME] = CellType(known[1])
    new = FunctionType(
        code,
        fn.__globals__,
        fn.__name__,
        fn.__defaults__,
        tuple(cells[name] for name in code.co_freevars),
    )
    new.__kwdefaults__ = fn.__kwdefaults__
    new.__qualname__ = fn.__qualname__
    new.__dict__.update(fn.__dict__)
    _captured[fn] = new
    return new


_own_words: dict[int, tuple[bool, object]] = {}


def captured_if_user(fn: FunctionType) -> FunctionType:
    """`captured(fn)` for functions that users wrote; others run as the Python they are.

    Those are: Tilewright's core rooms, Python's library and installed packages, lambdas,
    generators, and functions without source.
    """
    found = _captured.get(fn)
    if found is not None:
        return found
    code = fn.__code__
    known = _own_words.get(id(code))
    if known is None:
        file = code.co_filename
        plain = (
            code.co_name == "<lambda>"
            or bool(code.co_flags & _GENERATOR_FLAGS)
            or is_core_file(file)
            or is_library_file(file)
            or RUNTIME in code.co_freevars
        )
        known = _own_words[id(code)] = (plain, code)
    if known[0]:
        return fn
    try:
        return captured(fn)
    except NoSource:
        _own_words[id(code)] = (True, code)
        return fn
