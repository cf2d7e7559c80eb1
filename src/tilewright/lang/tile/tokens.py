"""Puts memory operations in order: Tile IR orders them by tokens alone.

What may touch the same memory has one *group*, an array its own.  Rules, for each group:

    LOAD      waits for the last store
    STORE     waits for the last store and every load since; atomics count as stores
    ACQUIRE   what comes after an acquiring operation waits for it, in every group
    RELEASE   a releasing operation waits for all that came before it, in every group
    LOOP      a body hands its tokens on to the next iteration and to what follows the loop
    BRANCH    an `if` hands out the tokens of the arm that was taken
    UNSHARED  a group that is never written needs no order
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.ir.core import Block, Effect, Op, Value
from tilewright.ir.ops.tile.control import Break, Continue, For, If, Loop, Yield
from tilewright.ir.ops.tile.memory import JoinTokens, MakeToken
from tilewright.ir.tile_types import TOKEN, TokenType
from tilewright.lang.tile.state import EVERYTHING, AliasSet

Key = tuple[str, str]
"""("op", group): everything in it so far; ("store", group): its last store; ("acquire", "")."""
ACQUIRE: Key = ("acquire", "")
_TOKEN: Any = TOKEN
_LOOPS = (For, Loop)


def _order(op: Op) -> str:
    return str(op.attrs.get("memory_ordering_semantics"))


def acquires(op: Op) -> bool:
    """Whether what follows must wait for an operation."""
    return _order(op) in ("acquire", "acq_rel")


def releases(op: Op) -> bool:
    """Whether an operation must wait for all that came before."""
    return _order(op) in ("release", "acq_rel")


@dataclass
class _Loop:
    keys: list[Key]
    tokens: dict[Key, Value] = field(default_factory=dict)


class _Orderer:
    def __init__(self, body: Block, aliases: Mapping[Op, AliasSet]) -> None:
        self.aliases = aliases
        ops = [op for op in body.walk() if op in aliases]
        self.groups = sorted({g for op in ops for g in aliases[op]} - EVERYTHING)
        self.groups.append("*")  # what touches everything touches this one too
        self.written = {g for op in ops if op.effect is not Effect.READ for g in self.groups_of(op)}
        self.any_release = any(releases(op) or self.is_fence(op) for op in ops)

    def is_fence(self, op: Op) -> bool:
        return op.effect is Effect.SYNC

    def groups_of(self, op: Op) -> Iterable[str]:
        found = self.aliases[op]
        return self.groups if found & EVERYTHING else sorted(found)

    def tracked(self, group: str) -> bool:
        """Rule UNSHARED."""
        return group in self.written or self.any_release

    # --- what a region changes ------------------------------------------------------------------

    def changed(self, blocks: Iterable[Block]) -> list[Key]:
        keys: set[Key] = set()
        for block in blocks:
            for op in block.walk():
                if op not in self.aliases:
                    continue
                for group in self.groups_of(op):
                    if self.tracked(group):
                        keys.add(("op", group))
                    if op.effect is not Effect.READ:
                        keys.add(("store", group))
                if acquires(op) or self.is_fence(op):
                    keys.add(ACQUIRE)
        return sorted(keys)

    # --- the walk -------------------------------------------------------------------------------

    def block(self, block: Block, state: dict[Key, Value], loop: _Loop | None) -> None:
        out: list[Op] = []
        for op in block.ops:
            if op in self.aliases:
                self.access(op, state, out)
            elif isinstance(op, _LOOPS):
                self.loop(op, state, out)
            elif isinstance(op, If):
                self.branch(op, state, out, loop)
            else:
                if isinstance(op, Continue | Break):
                    assert loop is not None, "continue and break stand in loops"
                    op.operands += tuple(state[key] for key in loop.keys)
                out.append(op)
        block.ops = out

    def join(self, tokens: Iterable[Value | None], out: list[Op], like: Op) -> Value | None:
        """One token for several; None for none."""
        found = list(dict.fromkeys(t for t in tokens if t is not None))
        if len(found) < 2:
            return found[0] if found else None
        joined = JoinTokens(found, {}, (), like.loc, (_TOKEN,))
        out.append(joined)
        return joined.results[0]

    def fresh(self, out: list[Op], like: Op) -> Value:
        made = MakeToken((), {}, (), like.loc, (_TOKEN,))
        out.append(made)
        return made.results[0]

    def access(self, op: Op, state: dict[Key, Value], out: list[Op]) -> None:
        groups = list(self.groups_of(op))
        reads = op.effect is Effect.READ
        role = "store" if reads else "op"
        waits: list[Value | None] = [state.get(ACQUIRE)]
        if releases(op) or self.is_fence(op):
            waits += [token for key, token in sorted(state.items(), key=_by_key)]
        else:
            waits += [state.get((role, g)) for g in groups]
        token = self.join(waits, out, op)
        if token is not None:
            _give_token(op, token)
        out.append(op)
        made = next(v for v in op.results if isinstance(v.type, TokenType))
        for g in groups:
            if reads and self.tracked(g):
                joined = self.join((state.get(("op", g)), made), out, op)
                assert joined is not None, "a token was made"
                state["op", g] = joined
            elif not reads:
                state["op", g] = state["store", g] = made
        if acquires(op) or self.is_fence(op):
            state[ACQUIRE] = made

    def loop(self, op: Op, state: dict[Key, Value], out: list[Op]) -> None:
        body = op.regions[0]
        keys = self.changed([body])
        initial = [state[key] if key in state else self.fresh(out, op) for key in keys]
        args = [Value(_TOKEN, body) for _ in keys]
        body.args += args
        op.operands += tuple(initial)
        inner = {**state, **dict(zip(keys, args, strict=True))}
        self.block(body, inner, _Loop(keys))
        results = tuple(Value(_TOKEN, op) for _ in keys)
        op.results += results
        state.update(zip(keys, results, strict=True))
        out.append(op)

    def branch(self, op: Op, state: dict[Key, Value], out: list[Op], loop: _Loop | None) -> None:
        keys = self.changed(op.regions)
        for block in op.regions:
            inner = dict(state)
            self.block(block, inner, loop)
            last = block.ops[-1] if block.ops else None
            if isinstance(last, Yield):
                extra: list[Op] = []
                found = [inner[k] if k in inner else self.fresh(extra, op) for k in keys]
                block.ops[-1:-1] = extra
                last.operands += tuple(found)
        results = tuple(Value(_TOKEN, op) for _ in keys)
        op.results += results
        state.update(zip(keys, results, strict=True))
        out.append(op)


def _by_key(item: tuple[Key, Value]) -> Key:
    return item[0]


def _give_token(op: Op, token: Value) -> None:
    """Makes a token the last operand, which is the optional one."""
    assert op.segments is not None, f"{op.name} has an optional token"
    op.operands += (token,)
    op.segments = (*op.segments[:-1], 1)


def order_memory(body: Block, aliases: Mapping[Op, AliasSet]) -> None:
    """Gives the memory operations of an entry their tokens.  `aliases`: what each may touch."""
    _Orderer(body, aliases).block(body, {}, None)
