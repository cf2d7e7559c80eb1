"""Reads the text that `printer` writes.

Errors show line, column and what was expected.  Types and operands are checked as they are read;
`verify` checks the rest.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from tilewright.errors import Loc, VerifyError
from tilewright.ir.core import OPS, Block, Func, Module, Op, Value
from tilewright.ir.ops import arith, bulk, control, copy, host, memory, mma, sync
from tilewright.ir.types import PtrType, ScalarType, Space, TensorMapType, Type, VecType
from tilewright.numeric.dtypes import dtype

VOCABULARIES = (arith, bulk, control, copy, host, memory, mma, sync)
"""The families whose operations the parser knows (importing a family declares its operations)."""

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|\d+|inf\b|nan\b))
    | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<value>%[\w.<>]+)
    | (?P<symbol>@[\w.]+)
    | (?P<word>[A-Za-z_][\w.]*)
    | (?P<punct>[(){}<>,:=^])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def parse_module(text: str, name: str = "<text>") -> Module:
    """The functions in `text`; at most one of them is `host`."""
    parser = _Parser(text, name)
    module = Module()
    while parser.peek().kind != "end":
        func = parser.func()
        if func.kind == "host":
            module.host = func
        else:
            module.kernels[func.name] = func
    return module


def parse_func(text: str, name: str = "<text>") -> Func:
    """The one function in `text`.

    >>> parse_func("kernel @f() { retur() }")
    Traceback (most recent call last):
        ...
    tilewright.errors.VerifyError: <text>:1:15: unknown operation 'retur'
    """
    return _Parser(text, name).func()


def _tokens(text: str, name: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise _error(text, name, at, f"unexpected character {text[at]!r}")
        found.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        at = match.end()
    found.append(_Token("end", "end of text", end))
    return found


def _error(text: str, name: str, at: int, message: str) -> VerifyError:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return VerifyError(f"{name}:{line}:{column}: {message}")


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.tokens = _tokens(text, name)
        self.next = 0
        self.values: dict[str, Value] = {}

    def peek(self) -> _Token:
        return self.tokens[self.next]

    def take(self, kind: str, text: str = "") -> str:
        token = self.peek()
        if token.kind != kind or (text and token.text != text):
            raise self.error(f"expected {text or kind}, got {token.text!r}")
        self.next += 1
        return token.text

    def accept(self, text: str) -> bool:
        if self.peek().text == text and self.peek().kind in ("punct", "word"):
            self.next += 1
            return True
        return False

    def error(self, message: str) -> VerifyError:
        return _error(self.text, self.name, self.peek().at, message)

    def func(self) -> Func:
        kind = self.take("word")
        if kind not in ("kernel", "host"):
            self.next -= 1
            raise self.error(f"expected kernel or host, got {kind!r}")
        name = self.take("symbol")[1:]
        self.values = {}
        body = Block()
        self.take("punct", "(")
        self.arguments(body, ")")
        attrs: dict[str, Any] = {}
        after = self.tokens[self.next + 1 : self.next + 3]
        if [t.kind for t in after] == ["word", "punct"] and after[1].text == "=":
            attrs = self.attributes()
        loc = self.location()
        self.take("punct", "{")
        self.block(body)
        self.take("punct", "}")
        return Func(name, body, kind, loc=loc, **attrs)

    def arguments(self, block: Block, closing: str) -> None:
        while not self.accept(closing):
            name = self.take("value")
            self.take("punct", ":")
            value = Value(self.type(), block, _hint(name))
            block.args.append(value)
            self.values[name] = value
            self.accept(",")

    def block(self, block: Block) -> None:
        while self.peek().text != "}":
            block.ops.append(self.op())

    def op(self) -> Op:
        names = []
        while self.peek().kind == "value":
            names.append(self.take("value"))
            if not self.accept(","):
                self.take("punct", "=")
        kind = OPS.get(self.peek().text)
        if kind is None:
            raise self.error(f"unknown operation {self.peek().text!r}")
        self.take("word")
        operands = self.operands()
        attrs = self.attributes() if self.peek().text == "{" else {}
        regions = self.regions() if self.peek().text == "(" else []
        types: list[Type] = []
        if self.accept(":"):
            types = [self.type()]
            while self.accept(","):
                types.append(self.type())
        if len(types) != len(names):
            raise self.error(f"{kind.name}: {len(names)} results but {len(types)} types")
        op = kind(operands, attrs, regions, self.location(), types)
        for name, value in zip(names, op.results, strict=True):
            value.name = _hint(name)
            self.values[name] = value
        return op

    def operands(self) -> list[Value]:
        self.take("punct", "(")
        found = []
        while not self.accept(")"):
            name = self.peek().text
            if name not in self.values:
                raise self.error(f"{name} is not defined here")
            self.take("value")
            found.append(self.values[name])
            self.accept(",")
        return found

    def regions(self) -> list[Block]:
        self.take("punct", "(")
        found = []
        while True:
            self.take("punct", "{")
            outer = dict(self.values)
            block = Block()
            if self.accept("^"):
                self.take("punct", "(")
                self.arguments(block, ")")
                self.take("punct", ":")
            self.block(block)
            self.take("punct", "}")
            self.values = outer
            found.append(block)
            if not self.accept(","):
                self.take("punct", ")")
                return found

    def attributes(self) -> dict[str, Any]:
        self.take("punct", "{")
        found: dict[str, Any] = {}
        while not self.accept("}"):
            label = self.take("word")
            self.take("punct", "=")
            found[label] = self.literal()
            self.accept(",")
        return found

    def literal(self) -> Any:
        token = self.peek()
        if self.accept("("):
            items = []
            while not self.accept(")"):
                items.append(self.literal())
                self.accept(",")
            return tuple(items)
        if token.kind == "number":
            self.next += 1
            special = token.text.lstrip("-") in ("inf", "nan")
            return float(token.text) if special else ast.literal_eval(token.text)
        if token.kind == "string":
            self.next += 1
            return ast.literal_eval(token.text)
        for word, value in (("True", True), ("False", False), ("None", None)):
            if self.accept(word):
                return value
        raise self.error(f"expected a number, string, tuple, True, False or None, got {token.text}")

    def type(self) -> Type:
        word = self.take("word")
        if word == "tensormap":
            return TensorMapType()
        if word == "vec":
            self.take("punct", "<")
            elem = dtype(self.take("word"))
            self.take("punct", ",")
            count = int(self.take("number"))
            self.take("punct", ">")
            return VecType(elem, count)
        if word == "ptr":
            self.take("punct", "<")
            elem = dtype(self.take("word"))
            self.take("punct", ",")
            space = Space(self.take("word"))
            self.take("punct", ",")
            align = int(self.take("number"))
            self.take("punct", ">")
            return PtrType(elem, space, align)
        return ScalarType(dtype(word))

    def location(self) -> Loc | None:
        if not (self.peek().text == "loc" and self.accept("loc")):
            return None
        self.take("punct", "(")
        places: list[tuple[str, int, int, int, str]] = []
        while True:
            file = ast.literal_eval(self.take("string"))
            numbers = []
            for _ in range(3):
                self.take("punct", ":")
                numbers.append(int(self.take("number")))
            self.take("punct", ":")
            function = ast.literal_eval(self.take("string"))
            places.append((file, numbers[0], numbers[1], numbers[2], function))
            if not self.accept("<"):
                break
        self.take("punct", ")")
        loc: Loc | None = None
        for place in reversed(places):
            loc = Loc(*place, loc)
        return loc


def _hint(name: str) -> str:
    """The name without `%`, unless it is only a number, which the printer made up."""
    bare = name[1:]
    return "" if bare.isdigit() else bare
