"""Reads enum attributes in the styles that `ops/tile/base.enum_attr` names."""

from __future__ import annotations

from tilewright.ir.ops.tile.base import enum_attr
from tilewright.tileir.source import Cursor


def read_enum(cursor: Cursor, label: str, declared: enum_attr, weak: bool) -> str | None:
    """The value of an enum field; None where it is absent, its default then holds.

    `weak` says that the memory ordering just read is `weak`, which takes no scope.
    """
    token = cursor.peek()
    values = declared.table.values
    if declared.style == "bracket":
        return _bracket(cursor, declared)
    if declared.style == "scope":
        return cursor.next().text if token.text in values else None
    if declared.style == "strict_scope":
        return _strict_scope(cursor, label, values, weak)
    if declared.style == "attribute":
        if token.kind != "word":
            raise cursor.error("expected valid keyword")
        if token.text not in values:
            raise cursor.error(_specification(label, token.text, values))
        return cursor.next().text
    return _keyword(cursor, label, declared)


def _keyword(cursor: Cursor, label: str, declared: enum_attr) -> str:
    token = cursor.peek()
    values = declared.table.values
    plain = declared.style == "keyword" and not declared.title
    if plain and token.text not in values:
        raise cursor.error(
            "expected string or keyword containing one of the following enum values for "
            f"attribute '{label}' [{', '.join(values)}]"
        )
    if token.kind != "word":
        raise cursor.error("expected valid keyword")
    if token.text not in declared.allowed:
        listed = ", ".join(f"'{value}'" for value in declared.allowed)
        what = declared.title or f"'{label}'"
        raise cursor.error(f"expected {what} to be one of: {{{listed}}}, got '{token.text}'")
    return cursor.next().text


def _bracket(cursor: Cursor, declared: enum_attr) -> str | None:
    if not cursor.accept(declared.table.mnemonic):
        return None
    cursor.expect("<")
    token = cursor.peek()
    # What a verifier's message refuses later is let through; see math_invalid.mlir's tanh.
    readable = declared.allowed + (("nearest_even",) if declared.default == "full" else ())
    if token.text not in readable:
        late = dict(declared.table.late)
        listed = ", ".join(f"'{value}'" for value in declared.allowed if value not in late)
        raise cursor.error(f"expected {declared.title} to be one of: {listed}, got: '{token.text}'")
    cursor.next()
    cursor.expect(">")
    return token.text


def _strict_scope(cursor: Cursor, label: str, values: tuple[str, ...], weak: bool) -> str | None:
    token = cursor.peek()
    if token.kind != "word":
        return None
    if token.text not in values:
        raise cursor.error(_specification(label, token.text, values))
    if weak:
        raise cursor.error(
            "operation specifies weak memory ordering semantics, but then provides "
            f'"{token.text}" scope, expected no memory scope.'
        )
    return cursor.next().text


def _specification(label: str, got: str, values: tuple[str, ...]) -> str:
    return (
        f'invalid {label} attribute specification. Got "{got}" but expect one of: '
        f"{', '.join(values)}"
    )
