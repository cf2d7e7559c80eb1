"""Memory operations that keep account of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.tileir.interpret.scope import Frame, Scope, Step
from tilewright.tileir.interpret.tokens import NO_TOKEN, Token

Locate = Callable[[Frame], tuple[Any, Any]]
"""The addresses of an operation, and the mask of those that it really touches, or None."""


def tracked_read(
    op: Any, scope: Scope, locate: Locate, size: int, perform: Callable[[Frame, Any, Any], None]
) -> Step:
    """A load: happens at once, after what its token names."""
    return _tracked(op, scope, locate, size, False, _at_once(perform))


def tracked_update(
    op: Any, scope: Scope, locate: Locate, size: int, perform: Callable[[Frame, Any, Any], None]
) -> Step:
    """An atomic operation whose result is needed: happens at once."""
    return _tracked(op, scope, locate, size, True, _at_once(perform))


def tracked_write(
    op: Any,
    scope: Scope,
    locate: Locate,
    size: int,
    prepare: Callable[[Frame, Any, Any], Callable[[], None]],
) -> Step:
    """A store: `prepare` takes its values from the frame, what it returns writes them."""

    def perform(f: Frame, addresses: Any, mask: Any, number: int, history: int) -> None:
        f[0].tracker.submit(number, history, prepare(f, addresses, mask))

    return _tracked(op, scope, locate, size, True, perform)


def _at_once(
    perform: Callable[[Frame, Any, Any], None],
) -> Callable[[Frame, Any, Any, int, int], None]:
    def act(f: Frame, addresses: Any, mask: Any, number: int, history: int) -> None:
        del number, history
        perform(f, addresses, mask)

    return act


def _tracked(
    op: Any,
    scope: Scope,
    locate: Locate,
    size: int,
    writes: bool,
    perform: Callable[[Frame, Any, Any, int, int], None],
) -> Step:
    token, out = scope.maybe(op.token), scope.slot(op.result_token)
    strong = op.memory_ordering_semantics != "weak"

    def step(f: Frame) -> None:
        tracker = f[0].tracker
        history = (NO_TOKEN if token is None else f[token]).history
        addresses, mask = locate(f)
        tracker.settle(history)
        touched = addresses if mask is None else addresses[mask]
        number = tracker.note(op, history, touched, size, writes=writes, strong=strong)
        perform(f, addresses, mask, number, history)
        f[out] = Token(history | 1 << number)

    return step
