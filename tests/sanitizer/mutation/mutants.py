"""Changes of a kernel that take away or weaken one thing that keeps it right.

    deleted        a fence, wait (griddepcontrol.wait too), arrival, commit or barrier is not there
    pending + 1    a wait for groups lets one more of them fly
    read only      a wait for bulk stores waits until their sources are read, no longer
    fewer bytes    a barrier is told of half of the bytes that TMA writes
    count halved   an mbarrier opens after half of its arrivals
    other parity   a wait for the phase before, or after
    narrower       a fence, or an atomic, of the scope of a block
    relaxed        an atomic that orders nothing
    always         a predicate holds for everyone: of a branch, a copy, or a product's accumulation
    off by one     a comparison that feeds a predicate lets one more through

A *site* is a place in the source, with its callers, and what is there; unrolled loops make several
operations of it.  Synchronisation is changed one operation at a time.  A predicate is changed in
all operations of its site: of one that is true for every thread, nothing could be seen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tilewright.ir.core import Block, Effect, Func, Op, Value
from tilewright.ir.ops import arith, control, copy, memory, mma, sync

_PROTOCOL = ("sync.", "mbarrier.", "fence.", "cluster.")
"""Families whose operations without results exist to order others."""
_KEPT = (sync.SetMaxRegister,)
_WIDER = {"lt": "le", "gt": "ge"}
Edit = Callable[["Place"], None]


@dataclass(frozen=True)
class Place:
    """An operation and the block that it stands in."""

    op: Op
    block: Block


@dataclass(frozen=True)
class Site:
    """Where in the source, innermost first, and what is done there."""

    op: str
    change: str
    lines: tuple[tuple[str, int, int], ...]
    functions: tuple[str, ...]
    number: int = 0
    """Of the places in these functions with the same operation and change, from 1."""

    @property
    def file(self) -> str:
        return os.path.basename(self.lines[0][0]) if self.lines else ""

    @property
    def function(self) -> str:
        """The function that it is in, and its caller."""
        return " < ".join(self.functions[:2])

    def __str__(self) -> str:
        where = f"{self.file}:{self.lines[0][1]}" if self.lines else "no line"
        return f"{self.op} {self.change} ({where}, {self.function}, number {self.number})"


@dataclass(frozen=True)
class Mutant:
    """`edit` is made at each of `places`."""

    site: Site
    edit: Edit
    places: tuple[Place, ...]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The kernel is the mutant inside."""
        before = [(p, p.op.operands, dict(p.op.attrs), p.block.ops[:]) for p in self.places]
        try:
            for place in self.places:
                self.edit(place)
            yield
        finally:
            for place, operands, attrs, _ in before:
                place.op.operands, place.op.attrs = operands, attrs
            for place, _, _, ops in reversed(before):
                place.block.ops = ops


def mutants_of(func: Func) -> list[Mutant]:
    """Every mutant, in the order of the kernel's operations."""
    found: list[Mutant] = []
    shared: dict[Site, list[Mutant]] = {}
    predicates = _predicates(func)
    for place in _places(func.body):
        for change, edit in _edits(place.op):
            found.append(Mutant(_site(place.op, change), edit, (place,)))
        for change, edit in _predicate_edits(place.op, predicates):
            mutant = Mutant(_site(place.op, change), edit, (place,))
            shared.setdefault(mutant.site, []).append(mutant)
    for site, same in shared.items():
        found.append(Mutant(site, same[0].edit, tuple(m.places[0] for m in same)))
    numbers = _numbers(m.site for m in found)
    return [replace(m, site=replace(m.site, number=numbers[m.site])) for m in found]


def _numbers(sites: Iterable[Site]) -> dict[Site, int]:
    """By the order of the lines in the function that they are in, and in its caller."""
    lines: dict[tuple[object, ...], list[tuple[tuple[str, int, int], ...]]] = {}
    distinct = list(dict.fromkeys(sites))

    def kind(site: Site) -> tuple[object, ...]:
        return site.op, site.change, site.file, site.functions[:2]

    for site in distinct:
        lines.setdefault(kind(site), []).append(site.lines[:2])
    return {s: sorted(set(lines[kind(s)])).index(s.lines[:2]) + 1 for s in distinct}


def _places(block: Block) -> Iterator[Place]:
    for op in list(block.ops):
        yield Place(op, block)
        for region in op.regions:
            yield from _places(region)


def _site(op: Op, change: str) -> Site:
    chain = list(op.loc.chain()) if op.loc else []
    lines = tuple((at.file, at.line, at.col) for at in chain)
    return Site(op.name, change, lines, tuple(at.function for at in chain))


# -- synchronisation -------------------------------------------------------------------------------


def _edits(op: Op) -> Iterator[tuple[str, Edit]]:
    if is_protocol(type(op)):
        yield "deleted", _delete
    if "pending" in op.attrs:
        yield "pending + 1", _more_pending
    if isinstance(op, copy.BulkWait) and not op.read:
        yield "read only", _set(read=True)
    if isinstance(op, sync.MBarrierArriveExpectTx | sync.MBarrierExpectTx):
        yield "fewer bytes", _halve(1)
    if isinstance(op, sync.MBarrierInit) and _number(op.count) not in (None, 1):
        yield "count halved", _halve(1)
    if isinstance(op, sync.MBarrierWait | sync.MBarrierTryWait):
        yield "other parity", _flip
    if isinstance(op, sync.FenceAcqRel) and op.scope != "cta":
        yield "narrower", _set(scope="cta")
    if isinstance(op, memory.Atomic) and op.semantics != "relaxed":
        yield "relaxed", _set(semantics="relaxed")
        if op.scope != "cta":
            yield "narrower", _set(scope="cta")


def is_protocol(kind: type[Op]) -> bool:
    """Whether such an operation is there only to order others."""
    if kind.effect is not Effect.SYNC or kind.RESULTS or kind in _KEPT:
        return False
    return kind.name.startswith(_PROTOCOL) or kind.name.endswith(("commit", "wait", "fence"))


def _delete(place: Place) -> None:
    place.block.ops = [op for op in place.block.ops if op is not place.op]


def _set(**attrs: Any) -> Edit:
    def edit(place: Place) -> None:
        place.op.attrs = {**place.op.attrs, **attrs}

    return edit


def _more_pending(place: Place) -> None:
    pending: Any = place.op.attrs["pending"]
    _set(pending=pending + 1)(place)


def _number(value: Value) -> int | None:
    owner = value.owner
    return int(owner.value) if isinstance(owner, arith.Constant) else None


def _halve(index: int) -> Edit:
    def edit(place: Place) -> None:
        value = place.op.operands[index]
        two = arith.Constant((), {"value": 2, "dtype": value.type.dtype.name})  # type: ignore[union-attr]
        half = arith.FloorDiv((value, two.result))
        _use(place, index, two, half)

    return edit


def _flip(place: Place) -> None:
    value = place.op.operands[1]
    one = arith.Constant((), {"value": 1, "dtype": value.type.dtype.name})  # type: ignore[union-attr]
    _use(place, 1, one, arith.Xor((value, one.result)))


def _use(place: Place, index: int, *made: Op) -> None:
    """Operand `index` becomes the result of the last of `made`, put before the operation."""
    at = next(i for i, op in enumerate(place.block.ops) if op is place.op)
    place.block.ops = [*place.block.ops[:at], *made, *place.block.ops[at:]]
    operands = list(place.op.operands)
    operands[index] = made[-1].results[0]
    place.op.operands = tuple(operands)


# -- predicates ------------------------------------------------------------------------------------


def _predicate_of(op: Op) -> int | None:
    """Which operand says whether, or for whom, the operation happens."""
    if isinstance(op, control.If):
        return 0
    if isinstance(op, memory.Copy | copy.CpAsync):
        return 2 if op.predicate else None
    if isinstance(op, mma.Wgmma | mma.WgmmaRs):
        return next(i for i, o in enumerate(op.OPERANDS) if o.label == "accumulate")
    return None


def _predicates(func: Func) -> set[Op]:
    """The operations that predicates are computed from, as far as they are bool."""
    todo = []
    for place in _places(func.body):
        index = _predicate_of(place.op)
        if index is not None and not isinstance(place.op, mma.Wgmma | mma.WgmmaRs):
            todo.append(place.op.operands[index])
    found: set[Op] = set()
    while todo:
        owner = todo.pop().owner
        if isinstance(owner, Op) and owner not in found and _is_bool(owner):
            found.add(owner)
            todo += owner.operands
    return found


def _is_bool(op: Op) -> bool:
    return (
        len(op.results) == 1
        and getattr(op.results[0].type, "dtype", None) is not None
        and (
            op.results[0].type.dtype.name == "bool"  # type: ignore[union-attr]
        )
    )


def _predicate_edits(op: Op, predicates: set[Op]) -> Iterator[tuple[str, Edit]]:
    index = _predicate_of(op)
    if index is not None and _number(op.operands[index]) is None:
        yield "always", _always(index)
    if op in predicates and isinstance(op, arith.Cmp) and op.predicate in _WIDER:
        yield "off by one", _set(predicate=_WIDER[op.predicate])


def _always(index: int) -> Edit:
    def edit(place: Place) -> None:
        _use(place, index, arith.Constant((), {"value": True, "dtype": "bool"}))

    return edit
