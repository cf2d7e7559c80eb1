"""Reads the parts of operations that the assembly language cannot say (its `@name`s)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ir.core import Attribute
from tilewright.ir.ops.tile.module import Entry
from tilewright.ir.tile_attrs import PREDICATES, TypeAttr
from tilewright.ir.tile_types import (
    DIALECT,
    FunctionType,
    NumberType,
    PointerType,
    TensorViewType,
    TileIrType,
    TileType,
    ViewType,
    spelled,
)
from tilewright.tileir.draft import Draft, Use
from tilewright.tileir.read_literals import dense, elements
from tilewright.tileir.source import symbol_name
from tilewright.tileir.values import Parameter, ValueReader

_CONSTANT = (
    "i1 or i8 or i16 or i32 or i64 or f16 or bf16 or f32 or f64 or tf32 or f8E4M3FN or f8E5M2 or "
    "f8E8M0FNU or f4E2M1FN values"
)


def _attributes(reader: ValueReader, draft: Draft, _: str) -> None:
    """`{name = attribute}`, or nothing."""
    if reader.cursor.is_next("{"):
        draft.extra.update(reader.dictionary())


def _token(reader: ValueReader, draft: Draft, _: str) -> None:
    """`token = %t`, perhaps after a comma, or nothing."""
    cursor = reader.cursor
    if cursor.is_next(",") and cursor.peek_after().text == "token":
        cursor.next()
    if cursor.accept("token"):
        cursor.expect("=")
        draft.operands["token"] = [reader.use()]


def _inbounds(reader: ValueReader, draft: Draft, _: str) -> None:
    """`inbounds = [true, false]`, or nothing."""
    if not reader.cursor.accept("inbounds"):
        return
    reader.cursor.expect("=")
    at = reader.cursor.peek().at
    found = reader.array()
    if not all(isinstance(one, bool) for one in found):
        raise reader.fault("expected inbounds to be a list of true and false", at)
    draft.attrs["inbounds"] = found


def _index_types(reader: ValueReader, draft: Draft, _: str) -> None:
    """`, type` for all indices, or one each."""
    at = reader.cursor.peek().at
    found = []
    while reader.cursor.accept(","):
        found.append(reader.types.type())
    count = len(draft.operands.get("index", ()))
    if len(found) == 1:
        found *= count
    if len(found) != count:
        raise reader.fault(f"expected one index type, or {count}, got {len(found)}", at)
    draft.types["index"] = found


def _view(reader: ValueReader, draft: Draft, kind: str) -> None:
    """A view's type, whose tensor_view is the operand's type."""
    at = reader.cursor.peek().at
    t = reader.types.type()
    if not isinstance(t, ViewType) or not str(t).startswith(f"{kind}<"):
        raise reader.fault(f"expected '{kind}' type, but got '{spelled(t)}'", at)
    draft.types["result"] = [t]
    draft.types["tensor_view"] = [t.view]


def _extents(reader: ValueReader, draft: Draft, kind: str) -> None:
    """`view type -> type`, one result per dimension."""
    at = reader.cursor.peek().at
    t = reader.types.type()
    wanted = TensorViewType if kind == "tensor" else ViewType
    if not isinstance(t, wanted):
        what = "tensor_view" if kind == "tensor" else "a tile view"
        raise reader.fault(f"expected {what}, got '{spelled(t)}'", at)
    reader.cursor.expect("->")
    rank = t.rank if isinstance(t, TensorViewType) else len(t.tile)
    draft.types["src"] = [t]
    draft.types["shape"] = [reader.types.type()] * rank


def _list_of_extents(reader: ValueReader) -> tuple[list[int | None], list[Use], list[int]]:
    """`[64, %n]`: constants (None for a value), the values, and where each stands."""
    cursor = reader.cursor
    cursor.expect("[")
    constants: list[int | None] = []
    values: list[Use] = []
    places: list[int] = []
    while not cursor.is_next("]") or constants:
        token = cursor.peek()
        places.append(token.at)
        if token.kind == "value":
            values.append(reader.use())
            constants.append(None)
        elif token.kind == "int" or token.text == "-":
            constants.append(cursor.integer())
        else:
            raise reader.fault("expected either integer or SSA value")
        if not cursor.accept(","):
            break
    places.append(cursor.peek().at)
    cursor.expect("]")
    return constants, values, places


def _make_tensor_view(reader: ValueReader, draft: Draft, _: str) -> None:
    """`%p, shape = [..], strides = [..] : index type -> view type`."""
    cursor = reader.cursor
    draft.operands["base"] = [reader.use()]
    lists = []
    for word in ("shape", "strides"):
        cursor.expect(",")
        cursor.expect(word)
        cursor.expect("=")
        lists.append(_list_of_extents(reader))
    (shape, shape_values, shape_at), (strides, stride_values, stride_at) = lists
    _attributes(reader, draft, "")
    cursor.expect(":")
    at = cursor.peek().at
    given = reader.types.types()
    t = given[0]
    base, index = _operand_types(given)
    if len(given) > 1 + (base is not None) or (len(given) > 1 and not cursor.is_next("->")):
        raise reader.fault("expected '->'")
    if cursor.accept("->"):
        at = cursor.peek().at
        t = reader.types.type()
    else:
        base = index = None
    if not isinstance(t, TensorViewType):
        raise reader.fault(f"expected tensor_view, got '{spelled(t)}'", at)
    _compare(reader, "shape", t.shape, shape, shape_at)
    _compare(reader, "stride", t.strides, strides, stride_at)
    if index is None and (shape_values or stride_values):
        raise reader.fault("expected the type of the dynamic extents before the view's type", at)
    draft.operands["dynamicShape"] = shape_values
    draft.operands["dynamicStrides"] = stride_values
    if index is not None:
        draft.types["dynamicShape"] = [index] * len(shape_values)
        draft.types["dynamicStrides"] = [index] * len(stride_values)
    draft.types["result"] = [t]
    draft.types["base"] = [base or TileType((), PointerType(t.element))]


def _operand_types(given: Sequence[TileIrType]) -> tuple[TileIrType | None, TileIrType | None]:
    """The base's type, there if it has a ptr_attr, and that of the dynamic extents."""
    first = given[0]
    if isinstance(first, TileType) and isinstance(first.element, PointerType):
        return first, given[1] if len(given) > 1 else None
    return None, first


def _compare(
    reader: ValueReader,
    what: str,
    wanted: tuple[int | None, ...],
    given: list[int | None],
    places: list[int],
) -> None:
    if len(wanted) != len(given):
        raise reader.fault(
            f"expected {what} declaration to contain {len(wanted)} elements due to tensor_view "
            f"type, but {len(given)} were provided",
            places[0],
        )
    for i, (want, have) in enumerate(zip(wanted, given, strict=True)):
        if want != have:
            shown = ["dynamic" if extent is None else extent for extent in (want, have)]
            raise reader.fault(
                f"input {what} dimension {i} does not match tensor_view type (expected "
                f"{shown[0]}, got {shown[1]})",
                places[i],
            )


# --- constants ----------------------------------------------------------------------------------


def _dense(reader: ValueReader, draft: Draft, _: str) -> None:
    """`<f32: [1.0, 2.0]> : tile<2xf32>`."""
    cursor = reader.cursor
    cursor.expect("<")
    at = cursor.peek().at
    element = reader.types.type()
    if not isinstance(element, NumberType) or element.name == "i4":
        raise reader.fault(
            f"expect element type to be one of {_CONSTANT}, but got '{spelled(element)}'", at
        )
    cursor.expect(":")
    found = elements(cursor, element)
    cursor.expect(">")
    cursor.expect(":")
    at = cursor.peek().at
    t = reader.types.type()
    if not isinstance(t, TileType) or not isinstance(t.element, NumberType):
        raise reader.fault(f"result #0 must be tile of {_CONSTANT}, but got '{spelled(t)}'", at)
    if t.element != element:
        raise reader.fault(
            f"mismatch between the element type: '{element}' and the tile element type "
            f"'{t.element}'",
            at,
        )
    draft.attrs["value"] = dense(cursor, found, t, at)
    draft.types["result"] = [t]


def _global(reader: ValueReader, draft: Draft, _: str) -> None:
    """`[public|private] [constant] @name [alignment = n] <...> : type`."""
    cursor = reader.cursor
    if cursor.peek().text in ("public", "private"):
        draft.attrs["symbol_visibility"] = cursor.next().text
    draft.attrs["constant"] = cursor.accept("constant")
    draft.attrs["sym_name"] = symbol(reader)
    draft.attrs["alignment"] = 0
    if cursor.accept("alignment"):
        cursor.expect("=")
        draft.attrs["alignment"] = cursor.integer()
    _attributes(reader, draft, "")
    _dense(reader, draft, "")
    del draft.types["result"]


def symbol(reader: ValueReader) -> str:
    """`@name`."""
    token = reader.cursor.take("symbol", "valid '@'-identifier for symbol name")
    return symbol_name(token.text)


def _symbol(reader: ValueReader, draft: Draft, label: str) -> None:
    draft.attrs[label] = symbol(reader)


def _predicate(reader: ValueReader, draft: Draft, _: str) -> None:
    """`div_by<16>`, bare or as `#cuda_tile.div_by<16>`."""
    cursor = reader.cursor
    token = cursor.peek()
    found: Any = None
    bare = token.text.removeprefix(f"{DIALECT}.")
    if token.kind == "word" and bare in ("div_by", "same_elements", "bounded"):
        cursor.next()
        found = reader.tile_attribute(bare, token.at)
    else:
        found = reader.attribute()
    if not isinstance(found, PREDICATES):
        raise reader.fault("expected assume predicate attribute", token.at)
    draft.attrs["predicate"] = found


# --- regions ------------------------------------------------------------------------------------


def _module(reader: ValueReader, draft: Draft, _: str) -> None:
    """`@name [attributes {producer = "x"}] { ... }`."""
    cursor = reader.cursor
    draft.attrs["sym_name"] = symbol(reader)
    if cursor.accept("attributes"):
        found = reader.dictionary()
        draft.attrs["producer"] = found.pop("producer", None)
        draft.extra.update(found)
    with reader.isolated():
        draft.regions.append(reader.region((), draft.kind))


def _function(reader: ValueReader, draft: Draft, _: str) -> None:
    """`@name(%a: type, ...) [-> types] [optimization_hints=<...>] { ... } [{attributes}]`."""
    cursor = reader.cursor
    draft.attrs["sym_name"] = symbol(reader)
    parameters = reader.parameters(attributed=True)
    outputs = _function_results(reader) if cursor.accept("->") else []
    if draft.kind is Entry and cursor.accept("optimization_hints"):
        cursor.expect("=")
        draft.attrs["optimization_hints"] = reader.hints()
    signature = FunctionType(tuple(p.type for p in parameters), tuple(t for t, _ in outputs))
    draft.attrs["function_type"] = TypeAttr(signature)
    for label, attrs in (
        ("arg_attrs", [p.attrs for p in parameters]),
        ("res_attrs", [attrs for _, attrs in outputs]),
    ):
        if any(attrs):
            draft.attrs[label] = tuple(attrs)
    with reader.isolated():
        draft.regions.append(reader.region(parameters, draft.kind))
    _attributes(reader, draft, "")


def _function_results(reader: ValueReader) -> list[tuple[TileIrType, dict[str, Any]]]:
    """`type`, or `(type {attributes}, ...)`."""
    cursor = reader.cursor
    if not cursor.accept("("):
        return [(reader.types.type(), {})]
    found: list[tuple[TileIrType, dict[str, Any]]] = []
    while not cursor.is_next(")") or found:
        t = reader.types.type()
        found.append((t, reader.dictionary() if cursor.is_next("{") else {}))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return found


def _if(reader: ValueReader, draft: Draft, _: str) -> None:
    """`%c [-> (types)] { ... } [else { ... }]`."""
    cursor = reader.cursor
    draft.operands["condition"] = [reader.use()]
    draft.types["out"] = []
    if cursor.accept("->"):
        draft.types["out"] = list(reader.types.parenthesised())
    draft.regions.append(reader.region((), draft.kind))
    if cursor.accept("else"):
        draft.regions.append(reader.region((), draft.kind))
    _attributes(reader, draft, "")


Named = tuple[str, Attribute | None]
"""A name that a loop gives to what it carries, and its place."""


def _named(reader: ValueReader) -> Named:
    """`%a`, or `%a loc(...)`."""
    name = reader.cursor.take("value", "SSA identifier").text
    return name, reader.optional_location()


def _carried(names: Sequence[Named], types: Sequence[TileIrType]) -> list[Parameter]:
    return [Parameter(n, t, location) for (n, location), t in zip(names, types, strict=True)]


def _iter_values(reader: ValueReader, draft: Draft) -> list[Named]:
    """`(%a = %x, ...)`: the names inside; the values go to `initValues`."""
    cursor = reader.cursor
    cursor.expect("(")
    names: list[Named] = []
    uses: list[Use] = []
    while not cursor.is_next(")") or names:
        names.append(_named(reader))
        cursor.expect("=")
        uses.append(reader.use())
        if not cursor.accept(","):
            break
    cursor.expect(")")
    draft.operands["initValues"] = uses
    return names


def _for(reader: ValueReader, draft: Draft, _: str) -> None:
    """`[unsigned] %i in (%a to %b, step %c) : type [iter_values(...) -> (types)] { ... }`."""
    cursor = reader.cursor
    draft.attrs["unsignedCmp"] = cursor.accept("unsigned")
    index = _named(reader)
    cursor.expect("in")
    cursor.expect("(")
    for label, ending in (("lowerBound", "to"), ("upperBound", ","), ("step", "")):
        if label == "step":
            cursor.expect("step")
        draft.operands[label] = [reader.use()]
        cursor.expect(ending or ")")
    cursor.expect(":")
    t = reader.types.type()
    draft.types["lowerBound"] = [t]
    names: list[Named] = []
    types: list[TileIrType] = []
    if cursor.accept("iter_values"):
        at = cursor.peek().at
        names = _iter_values(reader, draft)
        cursor.expect("->")
        types = list(reader.types.parenthesised())
        if len(types) != len(names):
            raise reader.fault("found different number of iter_values and types", at)
    draft.types["initValues"] = types
    draft.types["out"] = types
    draft.regions.append(reader.region(_carried([index, *names], [t, *types]), draft.kind))
    _attributes(reader, draft, "")


def _loop(reader: ValueReader, draft: Draft, _: str) -> None:
    """`[iter_values(...)] [: types [-> types]] { ... }`."""
    cursor = reader.cursor
    names: list[Named] = []
    carried: list[TileIrType] = []
    outputs: list[TileIrType] = []
    if cursor.accept("iter_values"):
        names = _iter_values(reader, draft)
        cursor.expect(":")
        carried = reader.types.types()
        if len(carried) != len(names):
            raise reader.fault("found different number of iter_values and types")
        if cursor.accept("->"):
            outputs = reader.types.types()
    elif cursor.accept(":"):
        outputs = reader.types.types()
    draft.types["initValues"] = carried
    draft.types["out"] = outputs
    draft.regions.append(reader.region(_carried(names, carried), draft.kind))
    _attributes(reader, draft, "")


def _combine(reader: ValueReader, draft: Draft, _: str) -> None:
    """`%x dim=0 [reverse=false] identities=[...] : types -> types (arguments) { ... }`."""
    cursor = reader.cursor
    at = cursor.peek().at
    uses = draft.operands["operands_"] = reader.uses()
    for label in ("dim", "reverse", "identities"):
        if label not in draft.kind.ATTRS:
            continue
        cursor.expect(label)
        cursor.expect("=")
        if label == "dim":
            draft.attrs[label] = cursor.integer()
        elif label == "reverse":
            draft.attrs[label] = reader.attribute()
        else:
            draft.attrs[label] = reader.array()
    cursor.expect(":")
    types = draft.types["operands_"] = reader.types.types()
    if len(types) != len(uses):
        raise reader.fault(
            f"number of operands and types do not match: got {len(uses)} operands and "
            f"{len(types)} types",
            at,
        )
    cursor.expect("->")
    draft.types["out"] = reader.types.types()
    draft.regions.append(reader.region(reader.parameters(), draft.kind))
    _attributes(reader, draft, "")


DIRECTIVES: dict[str, Callable[[ValueReader, Draft, str], None]] = {
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
