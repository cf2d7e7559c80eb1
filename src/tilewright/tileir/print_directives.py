"""Prints the parts of operations that the assembly language cannot say (its `@name`s).

A part with regions has the printer write the regions' lines, and hands back the text before and
after them, with a NUL between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ir.core import Block, Value
from tilewright.ir.ops.tile import control, module
from tilewright.ir.ops.tile.base import TileOp
from tilewright.ir.tile_attrs import DenseAttr, TypeAttr
from tilewright.ir.tile_types import (
    FunctionType,
    GatherScatterViewType,
    PointerType,
    TensorViewType,
    TileType,
)
from tilewright.tileir.print_attrs import (
    attribute_text,
    dense_operand_text,
    dictionary_text,
    hints_text,
)
from tilewright.tileir.source import symbol_text


class TextPrinter:
    """What a part's printer asks of the printer of operations."""

    depth: int
    lines: list[str]

    def define(self, value: Value) -> str:
        """A fresh name for a value."""
        raise NotImplementedError("Printer names values")

    def value(self, value: Value) -> str:
        """A value's name where it is used."""
        raise NotImplementedError("Printer names values")

    def placed(self, value: Value) -> str:
        """` loc(...)` of an argument, if it has a place and places are shown."""
        raise NotImplementedError("Printer knows locations")

    def region(self, block: Block, implied: type[TileOp] | None = None) -> None:
        """The lines of a block."""
        raise NotImplementedError("Printer prints operations")

    def isolate(self) -> None:
        """Begins names afresh."""
        raise NotImplementedError("Printer names values")

    def rejoin(self) -> None:
        """Ends what `isolate` began."""
        raise NotImplementedError("Printer names values")


def _attributes(printer: TextPrinter, op: TileOp, _: str) -> str:
    del printer
    return dictionary_text(op.extra) if op.extra else ""


def _after(op: TileOp) -> str:
    """The attributes behind an operation's regions."""
    return f" {dictionary_text(op.extra)}" if op.extra else ""


def _token(printer: TextPrinter, op: TileOp, _: str) -> str:
    token = getattr(op, "token", None)
    return f"token = {printer.value(token)}" if token is not None else ""


def _inbounds(printer: TextPrinter, op: TileOp, _: str) -> str:
    del printer
    inbounds = op.attrs["inbounds"]
    return f"inbounds = {attribute_text(inbounds)}" if inbounds else ""


def _index_types(printer: TextPrinter, op: TileOp, _: str) -> str:
    del printer
    types = op.types_of("index")
    view = op.types_of("view")[0]
    shown = types if isinstance(view, GatherScatterViewType) else types[:1]
    return "".join(f", {t}" for t in shown)


def _view(printer: TextPrinter, op: TileOp, _: str) -> str:
    del printer
    return str(op.results[0].type)


def _extents(printer: TextPrinter, op: TileOp, _: str) -> str:
    del printer
    out = f" -> {op.results[0].type}" if op.results else " -> tile<i32>"
    return f"{op.operands[0].type}{out}"


def _make_tensor_view(printer: TextPrinter, op: TileOp, _: str) -> str:
    view = op.results[0].type
    assert isinstance(view, TensorViewType), "the verifier admits only tensor views"
    shape = _filled(printer, view.shape, op.group(1))
    strides = _filled(printer, view.strides, op.group(2))
    dynamic = (*op.group(1), *op.group(2))
    base = op.operands[0]
    attributed = isinstance(base.type, TileType) and (
        isinstance(base.type.element, PointerType) and base.type.element.ptr_attr
    )
    types = [str(v.type) for v in ([base] if attributed else []) + list(dynamic[:1])]
    arrow = f"{', '.join(types)} -> " if types else ""
    extents = f"shape = [{shape}], strides = [{strides}]"
    return f"{printer.value(base)}, {extents}{_after(op)} : {arrow}{view}"


def _filled(printer: TextPrinter, extents: Sequence[int | None], values: Sequence[Value]) -> str:
    rest = iter(values)
    return ", ".join(printer.value(next(rest)) if e is None else str(e) for e in extents)


def _dense(printer: TextPrinter, op: TileOp, _: str) -> str:
    del printer
    value = op.attrs["value"]
    assert isinstance(value, DenseAttr), "the attribute is declared dense"
    return f"{dense_operand_text(value)} : {value.type}"


def _global(printer: TextPrinter, op: TileOp, _: str) -> str:
    assert isinstance(op, module.Global), "only globals are printed so"
    words = ["private"] if op.symbol_visibility == "private" else []
    words += ["constant"] if op.constant else []
    words.append(symbol_text(op.sym_name))
    words += [f"alignment = {op.alignment}"] if op.alignment else []
    words += [dictionary_text(op.extra)] if op.extra else []
    return " ".join([*words, _dense(printer, op, "")])


def _symbol(printer: TextPrinter, op: TileOp, label: str) -> str:
    del printer
    return symbol_text(str(op.attrs[label]))


def _predicate(printer: TextPrinter, op: TileOp, _: str) -> str:
    del printer
    return str(op.attrs["predicate"])


def _module(printer: TextPrinter, op: TileOp, _: str) -> str:
    assert isinstance(op, module.Module), "only modules are printed so"
    attrs: dict[str, Any] = {"producer": op.producer} if op.producer is not None else {}
    attrs.update(op.extra)
    shown = f" attributes {dictionary_text(attrs)}" if attrs else ""
    printer.isolate()
    printer.region(op.body)
    printer.rejoin()
    return f"{symbol_text(op.sym_name)}{shown} {{\0}}"


def _function(printer: TextPrinter, op: TileOp, _: str) -> str:
    assert isinstance(op, module.Entry | module.TestingFunc), "only functions are printed so"
    signature = op.function_type
    assert isinstance(signature, TypeAttr), "the attribute is declared a type"
    assert isinstance(signature.type, FunctionType), "the parser builds a function type"
    printer.isolate()
    arguments = _arguments(printer, op.body.args, op.arg_attrs or ())
    types = list(map(str, signature.type.outputs))
    outputs = ", ".join(_attributed(types, op.res_attrs or ()))
    if len(types) > 1 or op.res_attrs:
        outputs = f"({outputs})"
    head = f"{symbol_text(op.sym_name)}({arguments})" + (f" -> {outputs}" if outputs else "")
    hints = op.attrs.get("optimization_hints")
    if hints is not None:
        head += f" optimization_hints={hints_text(hints)}"
    printer.region(op.body)
    printer.rejoin()
    return f"{head} {{\0}}{_after(op)}"


def _attributed(texts: Sequence[str], attrs: Sequence[dict[str, Any]]) -> list[str]:
    """Arguments or results, each with its own attributes."""
    if not attrs:
        return list(texts)
    pairs = zip(texts, attrs, strict=True)
    return [f"{text} {dictionary_text(own)}" if own else text for text, own in pairs]


def _arguments(
    printer: TextPrinter, values: Sequence[Value], attrs: Sequence[dict[str, Any]] = ()
) -> str:
    shown = _attributed([f"{printer.define(v)}: {v.type}" for v in values], attrs)
    return ", ".join(text + printer.placed(v) for text, v in zip(shown, values, strict=True))


def _if(printer: TextPrinter, op: TileOp, _: str) -> str:
    assert isinstance(op, control.If), "only ifs are printed so"
    outputs = ", ".join(str(v.type) for v in op.results)
    head = printer.value(op.condition) + (f" -> ({outputs})" if outputs else "")
    printer.region(op.then_region, control.Yield)
    if op.else_region.ops:
        printer.lines.append("  " * printer.depth + "} else {")
        printer.region(op.else_region, control.Yield)
    return f"{head} {{\0}}{_after(op)}"


def _carried(printer: TextPrinter, inside: Sequence[Value], init: Sequence[Value]) -> str:
    pairs = zip(inside, init, strict=True)
    return ", ".join(
        f"{printer.define(a)}{printer.placed(a)} = {printer.value(b)}" for a, b in pairs
    )


def _for(printer: TextPrinter, op: TileOp, _: str) -> str:
    assert isinstance(op, control.For), "only for loops are printed so"
    low, high, step = (printer.value(v) for v in op.operands[:3])
    unsigned = "unsigned " if op.unsignedCmp else ""
    index = printer.define(op.body.args[0]) + printer.placed(op.body.args[0])
    head = f"{unsigned}{index} in ({low} to {high}, step {step}) : {op.lowerBound.type}"
    if op.results:
        carried = _carried(printer, op.body.args[1:], op.initValues)
        outputs = ", ".join(str(v.type) for v in op.results)
        head += f" iter_values({carried}) -> ({outputs})"
    printer.region(op.body, control.Continue)
    return f"{head} {{\0}}{_after(op)}"


def _loop(printer: TextPrinter, op: TileOp, _: str) -> str:
    assert isinstance(op, control.Loop), "only loops are printed so"
    outputs = ", ".join(str(v.type) for v in op.results)
    head = ""
    if op.body.args:
        types = ", ".join(str(v.type) for v in op.body.args)
        head = f"iter_values({_carried(printer, op.body.args, op.initValues)}) : {types} "
        head += f"-> {outputs} " if outputs else ""
    elif outputs:
        head = f": {outputs} "
    printer.region(op.body, control.Continue)
    return f"{head}{{\0}}{_after(op)}"


def _combine(printer: TextPrinter, op: TileOp, _: str) -> str:
    assert isinstance(op, control.Reduce | control.Scan), "only reductions are printed so"
    words = [", ".join(printer.value(v) for v in op.operands), f"dim={op.dim}"]
    if isinstance(op, control.Scan):
        words.append(f"reverse={attribute_text(op.reverse)}")
    words.append(f"identities={attribute_text(op.identities)}")
    inputs = ", ".join(str(v.type) for v in op.operands)
    outputs = ", ".join(str(v.type) for v in op.results)
    words.append(f": {inputs} -> {outputs} ({_arguments(printer, op.body.args)})")
    printer.region(op.body)
    return " ".join(words) + " {\0}" + _after(op)


PRINTERS: dict[str, Callable[[TextPrinter, TileOp, str], str]] = {
    "attributes": _attributes,
    "token": _token,
    "inbounds": _inbounds,
    "index_types": _index_types,
    "view": _view,
    "extents": _extents,
    "make_tensor_view": _make_tensor_view,
    "dense": _dense,
    "global": _global,
    "symbol": _symbol,
    "predicate": _predicate,
    "module": _module,
    "function": _function,
    "if": _if,
    "for": _for,
    "loop": _loop,
    "combine": _combine,
}
