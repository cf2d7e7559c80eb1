"""Slices of launches behind each other, for timing: how `gemm.py` runs each side of a row.

A slice is a CUDA graph of many launches, each on the next of several sets of operands.  The sets
together are more than twice the L2, so that no launch finds its inputs there; the host is not in
the way of short kernels; and a kernel that can start beside the end of the one before it
(programmatic dependent launch) does so, as it would in a network's chain of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tilewright.profiler.device import TorchDevice
from tilewright.runtime import driver

SLICE_US = 2000
"""About how long a slice takes."""
MOST_LAUNCHES = 256


class Unswept(TorchDevice):
    """The clock of slices: their operands rotate, so that nothing needs to be swept."""

    def sweep(self) -> None:
        return


def set_count(set_bytes: int) -> int:
    """Sets of operands that are more than twice the L2; two at least."""
    return max(2, -(-2 * driver.device_info().l2_bytes // set_bytes) + 1)


def launch_count(sets: int, launch_us: float) -> int:
    """Launches of a slice: each set once at least."""
    return max(sets, min(MOST_LAUNCHES, int(SLICE_US / launch_us)))


def copies(tensors: Sequence[Any], count: int) -> list[tuple[Any, ...]]:
    """The tensors, and `count - 1` copies of them, with the same strides."""
    rest = [
        tuple(None if t is None else torch.empty_like(t).copy_(t) for t in tensors)
        for _ in range(count - 1)
    ]
    return [tuple(tensors), *rest]


def graph(calls: Sequence[Callable[[], object]], launches: int, stream: Any) -> Callable[[], None]:
    """A callable that replays that many of the calls, in turn; each has run before.

    The calls must launch into `stream`, or into torch's current one.
    """
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, stream=stream):
        for number in range(launches):
            calls[number % len(calls)]()
    return captured.replay
