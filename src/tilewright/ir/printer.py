"""IR as text: what people read and tests are written in.

    kernel @axpy(%x: ptr<f32, gmem, 4>, %n: i32) {max_threads=128} {
      %i = special() {register='thread_idx', axis=0} : i32
      %inside = arith.cmp(%i, %n) {predicate='lt'} : bool
      if(%inside) ({
        ...
        yield()
      }, {
        yield()
      })
      return()
    }

Every operation prints alike: results, name, operands, attributes, regions, result types, and,
if asked for, its location.  `parser` reads the same text back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilewright.errors import Loc
from tilewright.ir.core import Block, Func, Module, Op, Value

_DEFAULTS: dict[str, object] = {
    "max_threads": 0,
    "min_blocks": 1,
    "cluster": (1, 1, 1),
    "smem_bytes": 0,
}


def print_module(module: Module, *, locations: bool = False) -> str:
    """All functions, the host function first."""
    funcs = [*([module.host] if module.host else []), *module.kernels.values()]
    return "\n".join(print_func(f, locations=locations) for f in funcs)


def print_func(func: Func, *, locations: bool = False) -> str:
    """One function as text.

    >>> from tilewright.ir.core import Block
    >>> from tilewright.ir.ops.control import Return
    >>> block = Block(); block.ops.append(Return())
    >>> print(print_func(Func("nothing", block)), end="")
    kernel @nothing() {
      return()
    }
    """
    return _Printer(locations).func(func)


def print_op(op: Op) -> str:
    """One operation, its operands named as well as can be without the function around it."""
    printer = _Printer(False)
    for v in op.operands:
        if v not in printer.names:
            printer.define(v)
    printer.op(op, 0)
    return "\n".join(printer.lines)


class _Printer:
    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.lines: list[str] = []

    def define(self, value: Value) -> str:
        """A fresh name: the value's own hint if it has one, with a number where it is taken."""
        hint = value.name or str(len(self.names))
        name, n = hint, 0
        while name in self.taken:
            n += 1
            name = f"{hint}_{n}"
        self.taken.add(name)
        self.names[value] = f"%{name}"
        return self.names[value]

    def func(self, func: Func) -> str:
        args = ", ".join(f"{self.define(v)}: {v.type}" for v in func.args)
        attrs = {
            label: getattr(func, label)
            for label, default in _DEFAULTS.items()
            if getattr(func, label) != default
        }
        shown = f" {_attributes(attrs)}" if attrs else ""
        where = _location(func.loc) if self.locations and func.loc else ""
        self.lines.append(f"{func.kind} @{func.name}({args}){shown}{where} {{")
        self.block(func.body, 1)
        self.lines.append("}")
        return "\n".join(self.lines) + "\n"

    def block(self, block: Block, depth: int) -> None:
        for op in block.ops:
            self.op(op, depth)

    def op(self, op: Op, depth: int) -> None:
        pad = "  " * depth
        operands = ", ".join(self.names.get(v, "%<undefined>") for v in op.operands)
        attrs = f" {_attributes(op.attrs)}" if op.attrs else ""
        head = f"{op.name}({operands}){attrs}"
        if not op.regions:
            self.lines.append(pad + self._with_results(op, head))
            return
        self.lines.append(f"{pad}{head} ({{")
        at = len(self.lines) - 1
        for i, inner in enumerate(op.regions):
            if i:
                self.lines.append(f"{pad}}}, {{")
            if inner.args:
                args = ", ".join(f"{self.define(v)}: {v.type}" for v in inner.args)
                self.lines.append(f"{pad}^({args}):")
            self.block(inner, depth + 1)
        self.lines.append(pad + "})" + self._types(op))
        if op.results:  # results are named after the regions, whose values come first
            names = ", ".join(self.define(v) for v in op.results)
            self.lines[at] = f"{pad}{names} = {head} ({{"

    def _with_results(self, op: Op, head: str) -> str:
        if not op.results:
            return head + self._types(op)
        return ", ".join(self.define(v) for v in op.results) + f" = {head}" + self._types(op)

    def _types(self, op: Op) -> str:
        types = " : " + ", ".join(str(v.type) for v in op.results) if op.results else ""
        return types + (_location(op.loc) if self.locations and op.loc else "")


def _attributes(attrs: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{k}={_literal(v)}" for k, v in attrs.items()) + "}"


def _literal(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, tuple):
        inner = ", ".join(map(_literal, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def _location(loc: Loc) -> str:
    places = [
        f"{place.file!r}:{place.line}:{place.col}:{place.end_col}:{place.function!r}"
        for place in loc.chain()
    ]
    return " loc(" + " < ".join(places) + ")"
