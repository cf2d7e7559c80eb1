"""How large a value is once everything that it shares is written out.

A file can share: `#b = [#a, #a]`, `#c = [#b, #b]`... doubles with every line.  What it makes of a
few bytes must stay small, and shallow enough to be walked.  What it spells out itself may be long.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

MAX_DEPTH = 100
MAX_PARTS = 4096


class Extents:
    """Depth and number of parts of the values that a file names."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}
        self._kept: list[Any] = []  # so that no id is used twice

    def fault(self, value: Any) -> str:
        """What is wrong with the size of a value, whose named parts were asked before; or empty.

        >>> extents, value = Extents(), (1, 2)
        >>> for _ in range(10):
        ...     assert not extents.fault(value)
        ...     value = (value, value)
        >>> extents.fault(value), extents.fault((value, value))
        ('', 'expands to more than 4096 parts')
        """
        depth, own, shared = self._measure(value)
        if depth > MAX_DEPTH:
            return f"nested deeper than {MAX_DEPTH}"
        if shared > MAX_PARTS:
            return f"expands to more than {MAX_PARTS} parts"
        if id(value) not in self._known:
            self._known[id(value)] = depth, own + shared
            self._kept.append(value)
        return ""

    def _measure(self, value: Any) -> tuple[int, int, int]:
        """Depth, parts that it spells out, and parts of what it names."""
        if id(value) in self._known:
            depth, parts = self._known[id(value)]
            return depth, 0, parts
        inner: list[Any] = []
        if isinstance(value, tuple | list):
            inner = list(value)
        elif isinstance(value, dict):
            inner = list(value.values())
        elif is_dataclass(value):
            inner = [getattr(value, field.name) for field in fields(value)]
        depth, own, shared = 0, 1, 0
        for part in inner:
            if part is None or isinstance(part, int | str):
                own += 1
                continue
            below, mine, others = self._measure(part)
            depth, own, shared = max(depth, below), own + mine, shared + others
        return 1 + depth, own, shared
