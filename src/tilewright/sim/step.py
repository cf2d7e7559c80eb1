"""What an executor is: a function that turns one operation into a step of the program.

A step runs one instruction for a whole group of threads.  It returns None (go on with the next
instruction), the number of the instruction to go on with, or a signal for the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tilewright.ir.core import Op, Value

Step = Callable[[Any], Any]
"""Takes the group (`group.Group`)."""


class Context:
    """What executors may know while the program is built: where values live."""

    def __init__(
        self, slots: Mapping[Value, int], used: Mapping[Value, int], tracks_wgmma: bool
    ) -> None:
        self._slots = slots
        self._used = used
        self.tracks_wgmma = tracks_wgmma
        """Whether register arrays must know which of their elements a wgmma owns."""
        self.register_arrays = 0

    def slot(self, value: Value) -> int:
        return self._slots[value]

    def slots(self, values: tuple[Value, ...]) -> tuple[int, ...]:
        return tuple(self._slots[v] for v in values)

    def is_used(self, value: Value) -> bool:
        return self._used.get(value, 0) > 0

    def new_register_array(self) -> int:
        self.register_arrays += 1
        return self.register_arrays - 1


Executor = Callable[[Any, Context], Step]
E_ = TypeVar("E_", bound=Executor)

EXECUTORS: dict[type[Op], Executor] = {}
"""The executor of every operation that is one instruction (control flow is in `program`)."""


def executes(*kinds: type[Op]) -> Callable[[E_], E_]:
    """Registers the decorated function as the executor of `kinds`."""

    def register(function: E_) -> E_:
        for kind in kinds:
            assert kind not in EXECUTORS, f"{kind.name} has two executors"
            EXECUTORS[kind] = function
        return function

    return register
