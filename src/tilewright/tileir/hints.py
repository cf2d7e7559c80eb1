"""Optimization hints: which keys an operation knows, and their ranges.

An unknown hint is no fault by itself: it is only reported if the caller asks for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.ir.ops.tile.base import TileOp
from tilewright.ir.ops.tile.memory import LoadPtrTko, StorePtrTko
from tilewright.ir.ops.tile.module import Entry
from tilewright.ir.ops.tile.views import LoadViewTko, StoreViewTko
from tilewright.ir.tile_attrs import HintsAttr

ARCHITECTURES = (
    "default",
    *(f"sm_{number}" for number in (80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)),
)


@dataclass(frozen=True, slots=True)
class _Key:
    """`wanted` completes "... for sm_90.key" when `accepts` says no."""

    wanted: str
    accepts: Callable[[int], bool]


def _range(low: int, high: int) -> _Key:
    return _Key(
        f"integer value in the range [{low}, {high}] is expected", lambda v: low <= v <= high
    )


def _power_of_two(most: int) -> _Key:
    return _Key(f"expected power-of-two ≤ {most}", lambda v: 0 < v <= most and not v & (v - 1))


_FLAG = _Key("boolean value is expected", lambda v: v in (0, 1))
_LATENCY = {"latency": _range(1, 10)}
_VIEW = {"allow_tma": _FLAG, **_LATENCY}
_ENTRY = {
    "num_cta_in_cga": _power_of_two(16),
    "occupancy": _range(1, 32),
    "num_worker_warps_per_cta": _power_of_two(32),
}
KEYS: dict[type[TileOp], dict[str, _Key]] = {
    Entry: _ENTRY,
    LoadViewTko: _VIEW,
    StoreViewTko: _VIEW,
    LoadPtrTko: _LATENCY,
    StorePtrTko: _LATENCY,
}
"""The hints that each operation knows."""


def hint_fault(op: TileOp) -> str | None:
    """The first hint that the operation does not know or whose value does not fit, or None."""
    hints = op.attrs.get("optimization_hints")
    if not isinstance(hints, HintsAttr):
        return None
    known = KEYS[type(op)]
    for arch, pairs in hints.by_arch:
        if arch not in ARCHITECTURES:
            return f"unknown hint key {arch}"
        for key, value in pairs:
            if key not in known:
                return f"{key} is not known hint for current Operation"
            if known[key] is _FLAG:
                if not isinstance(value, bool):
                    return f"boolean value expected for {arch}.{key}"
            elif isinstance(value, bool | str):
                return f"integer value expected for {arch}.{key}"
            elif not known[key].accepts(value):
                return f"{known[key].wanted} for {arch}.{key}"
    return None
