"""A program bound to arguments that can be exchanged: what did not change is not done again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tilewright.compiler.gpu_launch import driver_value
from tilewright.compiler.host import Argument, HostRun, LaunchRecord, TensorMapFields
from tilewright.ir.core import Func
from tilewright.ir.evaluate import Number
from tilewright.runtime.launch import PreparedLaunch

_MAPS = 1024
_known = functools.lru_cache(maxsize=_MAPS)(driver_value)
"""Tensor maps by their fields: going back and forth between buffers encodes nothing."""


class BoundProgram:
    """The launches of one program, with all parameters packed: calling it only launches.

    `update` exchanges arguments: the host function is computed as far as it depends on them, and
    only tensor maps whose fields changed are encoded.  The launches' buffers are refilled, so it is
    for one thread at a time.
    """

    def __init__(
        self, host: Func, leaves: Sequence[Number], make: Callable[[LaunchRecord], PreparedLaunch]
    ) -> None:
        self._run = HostRun(host, leaves)
        self._make = make
        self._bound: list[tuple[LaunchRecord, PreparedLaunch, list[Any]]] = []
        self._set(self._run.records)

    @property
    def launches(self) -> tuple[PreparedLaunch, ...]:
        """What a call launches, in order.  They stay the same objects while their grids do."""
        return tuple(launch for _, launch, _ in self._bound)

    def __call__(self) -> None:
        for _, launch, _ in self._bound:
            launch()

    def update(self, leaves: Sequence[Number]) -> None:
        """Other argument values of the same kinds."""
        self._set(self._run.update(leaves))

    def _set(self, records: Sequence[LaunchRecord]) -> None:
        records = [r for r in records if 0 not in r.grid]
        same = len(records) == len(self._bound)
        self._bound = [
            self._refilled(record, *self._bound[i]) if same else self._new(record)
            for i, record in enumerate(records)
        ]

    def _new(self, record: LaunchRecord) -> tuple[LaunchRecord, PreparedLaunch, list[Any]]:
        return record, self._make(record), [_driver_value(a) for a in record.args]

    def _refilled(
        self, record: LaunchRecord, old: LaunchRecord, launch: PreparedLaunch, values: list[Any]
    ) -> tuple[LaunchRecord, PreparedLaunch, list[Any]]:
        """The launch with the values of `record`; a new one where more than arguments changed."""
        if record is old:
            return old, launch, values
        if replace(record, args=old.args) != old:
            return self._new(record)
        for i, value in enumerate(record.args):
            if value is not old.args[i] and value != old.args[i]:
                values[i] = _driver_value(value)
        launch.params.fill(values)
        return record, launch, values


def _driver_value(value: Argument) -> Any:
    return _known(value) if isinstance(value, TensorMapFields) else value
