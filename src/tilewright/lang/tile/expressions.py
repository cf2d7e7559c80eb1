"""Expressions: each is evaluated once, to a compile-time object or a run-time value."""

from __future__ import annotations

import ast
import dataclasses
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from tilewright.lang.tile import arith, elementary, mma, shape
from tilewright.lang.tile.arrays import list_item
from tilewright.lang.tile.carried import is_dataclass_value
from tilewright.lang.tile.dtypes import DType
from tilewright.lang.tile.errors import TileTypeError
from tilewright.lang.tile.frames import BoundMethod, Core, FormattedString
from tilewright.lang.tile.functions import Closure, function_info
from tilewright.lang.tile.raw_memory import RawArrayMemory
from tilewright.lang.tile.require import constant_int
from tilewright.lang.tile.state import host_api, is_api
from tilewright.lang.tile.strings import format_piece, join_strings, joined_strings, method_of
from tilewright.lang.tile.values import Array, ArrayList, Tile, constant_of, described, is_number
from tilewright.lang.tile.views import TiledView

_BINARY = {
    ast.Add: ("add", "+"),
    ast.Sub: ("sub", "-"),
    ast.Mult: ("mul", "*"),
    ast.Div: ("truediv", "/"),
    ast.FloorDiv: ("floordiv", "//"),
    ast.Mod: ("mod", "%"),
    ast.Pow: ("pow", "**"),
    ast.MatMult: ("matmul", "@"),
    ast.BitAnd: ("and", "&"),
    ast.BitOr: ("or", "|"),
    ast.BitXor: ("xor", "^"),
    ast.LShift: ("lshift", "<<"),
    ast.RShift: ("rshift", ">>"),
}
_COMPARE = {
    ast.Eq: ("eq", "=="),
    ast.NotEq: ("ne", "!="),
    ast.Lt: ("lt", "<"),
    ast.LtE: ("le", "<="),
    ast.Gt: ("gt", ">"),
    ast.GtE: ("ge", ">="),
}
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}

_PROPERTIES = {
    Tile: ("dtype", "shape", "ndim"),
    Array: ("dtype", "shape", "strides", "ndim", "foreign_pointer"),
    TiledView: ("dtype", "tile_shape", "traversal_steps"),
    RawArrayMemory: ("dtype",),
    DType: ("name", "bitwidth"),
}


def numeric(x: object) -> bool:
    """Whether an operator of numbers applies."""
    return isinstance(x, Tile) or is_number(x)


def binary_operator(name: str, x: Any, y: Any) -> Any:
    """`x op y` of numbers and tiles."""
    if name in ("and", "or", "xor"):
        return arith.bitwise(name, x, y)
    if name in ("lshift", "rshift"):
        return arith.shift(name, x, y)
    if name == "mod":
        return arith.remainder(x, y)
    if name == "matmul":
        return mma.matmul(x, y)
    return arith.binary(name, x, y)


class Expressions(Core):
    """Evaluates expressions."""

    def eval(self, node: ast.expr) -> Any:
        handler = _HANDLERS.get(type(node))
        if handler is None:
            word = _WORDS.get(type(node), type(node).__name__)
            raise self.syntax(node, f"{word} is not supported in tile code")
        self.node = node
        found = handler(self, node)
        self.node = node
        return found

    def _constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, complex | bytes):
            raise self.syntax(node, f"a {type(node.value).__name__} constant has no tile type")
        return node.value

    def _name(self, node: ast.Name) -> Any:
        return self.load(node.id)

    def _tuple(self, node: ast.Tuple) -> Any:
        items: list[Any] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                inner = self.eval(element.value)
                if not isinstance(inner, tuple):
                    raise TileTypeError(f"* takes a tuple, got {described(inner)}")
                items += inner
            else:
                items.append(self.eval(element))
        return tuple(items)

    # --- operators ------------------------------------------------------------------------------

    def _binary(self, node: ast.BinOp) -> Any:
        x, y = self.eval(node.left), self.eval(node.right)
        self.node = node
        return self.operate(node.op, x, y)

    def operate(self, op: ast.operator, x: Any, y: Any) -> Any:
        """`x op y` of any values."""
        name, symbol = _BINARY[type(op)]
        if numeric(x) and numeric(y):
            return binary_operator(name, x, y)
        if isinstance(x, tuple) and isinstance(y, tuple) and name == "add":
            return x + y
        if name == "add" and all(isinstance(o, str | FormattedString) for o in (x, y)):
            return joined_strings((x, y))
        word = {"and": "and", "or": "or"}.get(name, name)
        for obj, other, method in ((x, y, f"__{word}__"), (y, x, f"__r{word}__")):
            if is_dataclass_value(obj) and (found := method_of(type(obj), method)):
                result = self.call(found, [obj, other], {})
                if result is not NotImplemented:
                    return result
        raise TileTypeError(f"{symbol} is not defined on {described(x)} and {described(y)}")

    def _unary(self, node: ast.UnaryOp) -> Any:
        x = self.eval(node.operand)
        self.node = node
        if isinstance(node.op, ast.Not):
            return elementary.negation(x)
        if not numeric(x):
            raise TileTypeError(f"a sign is not defined on {described(x)}")
        if isinstance(node.op, ast.USub):
            return elementary.negated(x)
        if isinstance(node.op, ast.Invert):
            return elementary.inverted(x)
        return x

    def _bool(self, node: ast.BoolOp) -> Any:
        both = isinstance(node.op, ast.And)
        return self._chain([partial(self.eval, n) for n in node.values], both, node)

    def _chain(self, steps: list[Callable[[], Any]], both: bool, node: ast.expr) -> Any:
        """`and` (`or`) of steps: each is evaluated only if the ones before it do not decide."""
        first = steps[0]()
        if len(steps) == 1:
            return first
        word = "and" if both else "or"
        self.node = node
        cond = elementary.truth(first, word)
        if isinstance(cond, bool):
            if cond != both:
                return first
            return self._chain(steps[1:], both, node)

        def more() -> Any:
            return elementary.truth(self._chain(steps[1:], both, node), word)

        def known() -> Any:
            return not both

        return self.choose(cond, more if both else known, known if both else more, word)

    def _compare(self, node: ast.Compare) -> Any:
        """A chain: every operand is evaluated once, and none after the first false link."""
        values = [self.eval(node.left)]

        def link(i: int) -> Callable[[], Any]:
            def step() -> Any:
                values.append(self.eval(node.comparators[i]))
                self.node = node
                return self.relate(node.ops[i], values[i], values[i + 1])

            return step

        return self._chain([link(i) for i in range(len(node.ops))], True, node)

    def relate(self, op: ast.cmpop, x: Any, y: Any) -> Any:
        """`x op y` for one comparison operator."""
        if isinstance(op, ast.Is | ast.IsNot):
            if x is not None and y is not None:
                raise TileTypeError(
                    f"'is' compares with None, got {described(x)} and {described(y)}"
                )
            return (x is y) == isinstance(op, ast.Is)
        if isinstance(op, ast.In | ast.NotIn):
            return self._contains(y, x) == isinstance(op, ast.In)
        name, symbol = _COMPARE[type(op)]
        if numeric(x) and numeric(y):
            return arith.comparison(name, x, y)
        for obj, other, method in (
            (x, y, f"__{name}__"),
            (y, x, f"__{_MIRRORED[name]}__"),
        ):
            if is_dataclass_value(obj) and (found := method_of(type(obj), method)):
                result = self.call(found, [obj, other], {})
                if result is not NotImplemented:
                    return result
        if name in ("eq", "ne") and not isinstance(x, Tile) and not isinstance(y, Tile):
            return self._same(x, y) == (name == "eq")
        known = all(isinstance(o, tuple | str) and _is_constant(o) for o in (x, y))
        if known and type(x) is type(y):
            return arith.folded(name, _plain(x), _plain(y))
        raise TileTypeError(f"{symbol} is not defined on {described(x)} and {described(y)}")

    def _same(self, x: Any, y: Any) -> bool:
        if isinstance(x, tuple) and isinstance(y, tuple):
            if not (_is_constant(x) and _is_constant(y)):
                raise TileTypeError("tuples of run-time values are not compared as a whole")
            return bool(_plain(x) == _plain(y))
        return bool(x is y or x == y)

    def _contains(self, items: Any, x: Any) -> bool:
        if isinstance(items, dict):
            return x in items
        if not isinstance(items, tuple | str) or not _is_constant(items) or not _is_constant(x):
            raise TileTypeError(
                f"'in' looks for a constant in constants, got {described(x)} and {described(items)}"
            )
        return _plain(x) in _plain(items)

    def _conditional(self, node: ast.IfExp) -> Any:
        cond = elementary.truth(self.eval(node.test), "a conditional expression")
        if isinstance(cond, bool):
            return self.eval(node.body if cond else node.orelse)
        self.node = node
        return self.choose(
            cond,
            lambda: self.eval(node.body),
            lambda: self.eval(node.orelse),
            "a conditional expression",
        )

    # --- attributes and subscripts --------------------------------------------------------------

    def _attribute(self, node: ast.Attribute) -> Any:
        x = self.eval(node.value)
        self.node = node
        return self.attribute(x, node.attr)

    def attribute(self, x: Any, name: str) -> Any:
        """`x.name`.

        Raises: TileTypeError if tile code has no such attribute.
        """
        if isinstance(x, types.ModuleType):
            if not hasattr(x, name):
                raise TileTypeError(f"module {x.__name__} has no attribute {name}")
            return self.admit(getattr(x, name), name)
        found = self._own_attribute(x, name)
        if found is not NotImplemented:
            return found
        if is_dataclass_value(x):
            if name in {f.name for f in dataclasses.fields(x)}:
                return self.admit(getattr(x, name), name)
            return self._class_attribute(type(x), name, x)
        if isinstance(x, type):
            return self.admit(getattr(x, name), name) if hasattr(x, name) else self._no(x, name)
        if isinstance(x, dict) and name == "get":
            return BoundMethod(_dict_get, x)
        if isinstance(x, str | FormattedString) and name == "join":
            return BoundMethod(join_strings, x)
        if name in ("name", "value") and hasattr(type(x), "__members__"):
            return self.admit(getattr(x, name), name)
        return self._no(x, name)

    def _no(self, x: Any, name: str) -> Any:
        raise TileTypeError(f"{described(x)} has no attribute {name} in tile code")

    def _own_attribute(self, x: Any, name: str) -> Any:
        names = _PROPERTIES.get(type(x))
        if names is None:
            return NotImplemented
        if name in names:
            return getattr(x, name)
        found = getattr(x, name, None)
        return found if is_api(found) else NotImplemented

    def _class_attribute(self, cls: type, name: str, self_: Any) -> Any:
        found = cls.__dict__.get(name) or next(
            (vars(base)[name] for base in cls.__mro__ if name in vars(base)), None
        )
        if isinstance(found, property) and found.fget is not None:
            return self.call(found.fget, [self_], {})
        if isinstance(found, staticmethod):
            return found.__func__
        if isinstance(found, classmethod):
            return BoundMethod(found.__func__, cls)
        if isinstance(found, types.FunctionType):
            return BoundMethod(found, self_)
        return self._no(self_, name) if found is None else self.admit(found, name)

    def _subscript(self, node: ast.Subscript) -> Any:
        x, key = self.eval(node.value), self.eval(node.slice)
        self.node = node
        if isinstance(x, tuple | str):
            if isinstance(key, slice):
                return x[key]
            at = constant_int(key, "the index of a tuple")
            if not -len(x) <= at < len(x):
                raise TileTypeError(f"index {at} is out of range for a tuple of {len(x)}")
            return x[at]
        if isinstance(x, dict):
            if key not in x:
                raise TileTypeError(f"there is no key {described(key)} in the dict")
            return x[key]
        if isinstance(x, Tile):
            return shape.expanded(x, key)
        if isinstance(x, ArrayList):
            return list_item(x, key)
        if isinstance(x, Array):
            raise TileTypeError("an array is not indexed", hint="use ct.load or ct.gather")
        if is_dataclass_value(x) and (found := method_of(type(x), "__getitem__")):
            return self.call(found, [x, key], {})
        raise TileTypeError(f"{described(x)} is not indexed")

    def _slice(self, node: ast.Slice) -> Any:
        ends = []
        for part in (node.lower, node.upper, node.step):
            known = None if part is None else self.eval(part)
            ends.append(None if known is None else constant_int(known, "a slice"))
        return slice(*ends)

    # --- functions, strings ---------------------------------------------------------------------

    def _lambda(self, node: ast.Lambda) -> Any:
        return self.closure(node, "<lambda>")

    def closure(self, node: ast.Lambda | ast.FunctionDef, name: str) -> Closure:
        """A function that is defined in tile code."""
        frame = self.here
        info = _nested.get(node)
        if info is None:
            info = _nested[node] = function_info(node, frame.info.file, name)
        return Closure(info, frame, tuple(self.eval(d) for d in info.defaults))

    def _joined(self, node: ast.JoinedStr) -> Any:
        pieces: list[Any] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                if part.conversion != -1:
                    raise self.syntax(part, "!r, !s and !a are not supported in an f-string")
                spec = "" if part.format_spec is None else self._joined_text(part.format_spec)
                pieces += format_piece(self.eval(part.value), spec)
            else:
                pieces.append(self.eval(part))
        return joined_strings(pieces)

    def _joined_text(self, node: ast.expr) -> str:
        text = self.eval(node)
        if not isinstance(text, str):
            raise TileTypeError("the format of an f-string is constant")
        return text


@host_api
def _dict_get(items: dict[str, Any], key: str, default: Any = None) -> Any:
    """`items.get(key, default)`."""
    return items.get(key, default)


def _is_constant(x: Any) -> bool:
    if isinstance(x, tuple):
        return all(map(_is_constant, x))
    return not isinstance(x, Tile) or constant_of(x) is not None


def _plain(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(_plain, x))
    return x.const if isinstance(x, Tile) else x


_nested: dict[ast.AST, Any] = {}
_HANDLERS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Constant: Expressions._constant,
    ast.Name: Expressions._name,
    ast.Tuple: Expressions._tuple,
    ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary,
    ast.BoolOp: Expressions._bool,
    ast.Compare: Expressions._compare,
    ast.IfExp: Expressions._conditional,
    ast.Attribute: Expressions._attribute,
    ast.Subscript: Expressions._subscript,
    ast.Slice: Expressions._slice,
    ast.Lambda: Expressions._lambda,
    ast.JoinedStr: Expressions._joined,
}
_WORDS: dict[type[ast.AST], str] = {
    ast.List: "a list",
    ast.Set: "a set",
    ast.Dict: "a dict",
    ast.ListComp: "a list comprehension",
    ast.SetComp: "a set comprehension",
    ast.DictComp: "a dict comprehension",
    ast.GeneratorExp: "a generator outside of tuple(...)",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield from",
    ast.NamedExpr: "the walrus operator :=",
}


def register(kind: type[ast.AST], handler: Callable[[Any, Any], Any]) -> None:
    """Adds an expression that a later part of the evaluator knows."""
    _HANDLERS[kind] = handler
