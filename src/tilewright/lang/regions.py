"""What branches and loops share: open blocks, snapshots, and how their errors read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import CaptureError, Loc, TypeMismatchError
from tilewright.ir.core import Block, Value
from tilewright.lang.carried import (
    UNDEF,
    Key,
    LeafPair,
    Mismatch,
    Path,
    Places,
    State,
    Undefined,
    pair_leaves,
)
from tilewright.lang.operations import truth
from tilewright.lang.scalar import Scalar, describe, static_number
from tilewright.lang.trace import Trace


@dataclass(frozen=True)
class Site:
    """What the rewriter knows about one branch or loop statement.

    `names` are the names handed on, in the order in which the statement passes them; for a branch
    those after the first `carried` are only put back between its arms.  `lines` says where each
    name is last assigned: in the first arm or the body, and in the second arm.
    """

    names: tuple[str, ...] = ()
    carried: int = 0
    lines: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def decide(condition: Any) -> bool | Value:
    """A condition as Python's truth, if it is known at compile time, else as a run-time bool."""
    if isinstance(condition, Scalar):
        known = static_number(condition)
        if known is not None:
            return bool(known)
        raw = truth(condition).raw
        return raw if isinstance(raw, Value) else bool(raw)
    return bool(condition)


def open_block(trace: Trace, block: Block) -> Block:
    trace.builder.blocks.append(block)
    return block


def close_block(trace: Trace, block: Block, loc: Loc | None) -> None:
    """Ends the block that `open_block` began.

    Raises: CaptureError if another one is open: an exception was caught on the way.
    """
    if trace.builder.blocks[-1] is not block:
        raise CaptureError(
            "an exception left a run-time branch or loop and was caught outside of it",
            loc=loc,
            hint="catch it inside, or keep run-time control flow out of the try statement",
        )
    trace.builder.blocks.pop()


def snapshot(site: Site, names: Sequence[Any], places: Places) -> State:
    """The cells now: the names that the statement hands on, and all places."""
    state: State = dict(zip(site.names, names, strict=True))
    state.update(places.read())
    return state


def compare(
    key: Key, a: Any, b: Any, places: Places, site: Site, loc: Loc | None, where: tuple[str, str]
) -> list[LeafPair]:
    """The leaves of a cell's two values.

    Raises: TypeMismatchError if they differ in more than run-time values can; `where` says after
    what each was seen.
    """
    try:
        return pair_leaves(a, b)
    except Mismatch as found:
        raise mismatch_error(key, found, places, site, loc, where) from None


def check_length(key: Key, places: Places, loc: Loc | None, present: str) -> None:
    """Refuses lists and dicts that grow or shrink: the cell exists only where `present` says.

    Raises: TypeMismatchError naming the list or dict, and the item.
    """
    if isinstance(key, str) or not isinstance(places.objects[key[0]], list | dict):
        return
    raise TypeMismatchError(
        f"{places.describe(key)} exists only {present}: a list or dict cannot change its length"
        " at run time",
        loc=loc,
        hint="make it with all of its items before the branch or loop, or use range_constexpr",
    )


def mismatch_error(
    key: Key,
    found: Mismatch,
    places: Places,
    site: Site,
    loc: Loc | None,
    where: tuple[str, str],
) -> TypeMismatchError:
    cell = places.describe(key) + "".join(map(_step_text, found.path))
    lines = site.lines.get(key, (0, 0)) if isinstance(key, str) else (0, 0)
    first, second = (
        f"{shown(value)} {place}{f' (line {line})' if line else ''}"
        for value, place, line in zip((found.a, found.b), where, lines, strict=True)
    )
    return TypeMismatchError(
        f"{cell} is {first}, but {second}: it cannot be one run-time value",
        loc=loc,
        hint="give it the same type on every path, or decide at compile time with const_expr(...)"
        " or range_constexpr",
    )


def shown(x: object) -> str:
    """A value as messages show it."""
    text = describe(x)
    ours = type(x).__module__.startswith(("tilewright.layout", "tilewright.lang.cute"))
    if ours and not isinstance(x, type):
        return f"{text} {x}"
    if isinstance(x, list | dict | tuple):
        return f"{text} of {len(x)} items"
    return text


def _step_text(step: Any) -> str:
    if isinstance(step, tuple):
        kind, what = step
        return f".{what}" if kind == "attr" else f"[{what!r}]" if kind == "key" else ""
    return f"[{step}]"


Cell = tuple[Key, Path]


def hint(cell: Cell) -> str:
    """What the generated code may call a carried value."""
    key, path = cell
    name = key if isinstance(key, str) else key[1]
    steps = [step[1] if isinstance(step, tuple) else step for step in path]
    if path and path[-1] == ("value", 0):  # The value of a tensor, or its address.
        steps.pop()
    return "_".join(str(part) for part in (name, *steps))


def results_of(site: Site, state: State) -> tuple[Any, ...]:
    """The names' new values, in the order in which the statement receives them."""
    return tuple(state.get(name, UNDEF) for name in site.names)


def is_undefined(x: object) -> bool:
    return isinstance(x, Undefined)
