"""Clocks of a kernel's events, as values: recorded on a GPU, or by the simulator's own clock.

>>> import numpy as np
>>> from tilewright import cute
>>> @cute.kernel
... def fill_kernel(y: cute.Tensor):
...     t = cute.arch.thread_idx()[0]
...     cute.arch.sync_threads()
...     y[t] = 1.0
>>> @cute.jit
... def fill(y: cute.Tensor):
...     fill_kernel(y).launch(grid=1, block=64)
>>> y = np.zeros(64, np.float32)
>>> (recording,) = record_clocks(cute.compile(fill, y), y)
>>> recording.device, [(e.site.op, e.warp) for e in recording.events if e.site.kind != "mark"]
('', [('sync.threads', 0), ('mem.store', 0), ('sync.threads', 1), ('mem.store', 1)])
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.compiler.gpu_launch import prepare, replay
from tilewright.compiler.launcher import launching_with
from tilewright.compiler.program import Compiled
from tilewright.errors import LaunchError, ResourceError
from tilewright.ir.ops.record import ENTRY_BYTES, VALID
from tilewright.passes.record_clocks import Site
from tilewright.passes.record_clocks import record_clocks as instrumented
from tilewright.runtime import driver
from tilewright.runtime.device_buffer import device_buffers
from tilewright.sim.machine import Launch, Report, simulate
from tilewright.sim.memory import GlobalMemory
from tilewright.sim.options import SimOptions

Dim3 = tuple[int, int, int]
BLOCKS, EVENTS = 4, 255
MOST_BYTES = 1 << 30
"""Of a record buffer."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One event: [begin, end) in clocks since the first block of its recording began.

    `lane` is the one that recorded; `barrier` the shared address of the mbarrier that the event is
    about, or 0.  The Python line is `site.loc`.
    """

    block: Dim3
    warp: int
    lane: int
    site: Site
    begin: int
    end: int
    barrier: int


@dataclass(frozen=True, slots=True)
class Recording:
    """What one launch recorded.  `device` is the GPU's name, or empty for a simulated clock."""

    kernel: str
    device: str
    clock_ghz: float
    grid: Dim3
    events: tuple[Recorded, ...]
    dropped: int
    """Events for which the buffer had no room, of all threads."""
    sms: tuple[tuple[Dim3, int], ...]
    """The SM of each recorded block."""

    @property
    def blocks(self) -> tuple[Dim3, ...]:
        return tuple(block for block, _ in self.sms)


@dataclass(frozen=True, slots=True)
class Instrumented:
    """A launch whose kernel records, still without the buffer's address."""

    launch: Launch
    sites: tuple[Site, ...]
    blocks: int
    slots: int

    @property
    def size(self) -> int:
        """Bytes of the buffer."""
        x, y, z = self.launch.block
        return self.blocks * x * y * z * self.slots * ENTRY_BYTES

    def recording_to(self, address: int) -> Launch:
        return replace(self.launch, args=(*self.launch.args, address))


def record_clocks(
    compiled: Compiled, *args: Any, blocks: int = BLOCKS, events: int = EVENTS, warm: int = 2
) -> list[Recording]:
    """Runs the program where the arrays are, and records the events of the first `blocks` blocks.

    `events` is how many each thread keeps at most (one less than a power of two); on a GPU, `warm`
    runs come first.  A recording for each launch; on the CPU the clock counts simulated
    instructions.

    Raises: LaunchError for sizes out of range; ResourceError for a buffer beyond 1 GiB.
    """
    place = compiled.device(*args)
    if place != "cpu":
        device = int(place.partition(":")[2] or 0)
        made = [instrument(one, blocks, events) for one in compiled.launches(*args)]
        return [on_gpu(one, warm=warm, device=device) for one in made]
    found: list[Recording] = []

    def run(launch: Launch, memory: GlobalMemory, options: SimOptions | None) -> Report:
        made = instrument(launch, blocks, events)
        with mapped(made, memory) as (there, data):
            report = simulate(there, memory, options)
        found.append(decode(made, data, "", 1.0))
        return report

    with launching_with(run):
        compiled.simulate(*args)
    return found


def instrument(launch: Launch, blocks: int = BLOCKS, events: int = EVENTS) -> Instrumented:
    """The launch with a kernel that records.

    Raises: LaunchError for sizes out of range; ResourceError for a buffer beyond 1 GiB.
    """
    name = launch.kernel.name
    if blocks < 1:
        raise LaunchError(f"record {name}: blocks is {blocks}, expected 1 or more")
    slots = events + 1
    if events < 3 or slots & (slots - 1):
        raise LaunchError(
            f"record {name}: events is {events}, expected one less than a power of two, from 3 on",
            hint=f"take {max((1 << max(events, 1).bit_length()) - 1, 3)}",
        )
    x, y, z = launch.grid
    kernel, sites = instrumented(launch.kernel, min(blocks, x * y * z), slots)
    made = Instrumented(replace(launch, kernel=kernel), sites, min(blocks, x * y * z), slots)
    if made.size > MOST_BYTES:
        raise ResourceError(
            f"record {name}: {made.blocks} blocks with {events} events for each thread take "
            f"{made.size:,} bytes, the limit is {MOST_BYTES:,}",
            hint="record fewer blocks or events",
        )
    return made


@contextmanager
def mapped(
    made: Instrumented, memory: GlobalMemory
) -> Iterator[tuple[Launch, np.ndarray[Any, np.dtype[np.uint8]]]]:
    """The launch with a buffer in the simulator's memory, and the buffer's bytes."""
    data = np.zeros(made.size, np.uint8)
    address = memory.map(data, "records", 0)
    try:
        yield made.recording_to(address), data
    finally:
        memory.unmap(address)


def on_gpu(made: Instrumented, *, warm: int = 0, device: int = 0) -> Recording:
    """Launches `warm` times, then once to record; pointers are addresses of the GPU.

    Raises: LaunchError without a GPU; ToolchainError where NVRTC refuses the kernel.
    """
    driver.require_gpu()
    data = np.zeros(made.size, np.uint8)
    with driver.use_device(device), device_buffers([(made.size, 0)]) as (buffer,):
        driver.synchronize()  # what the arrays are waiting for, in any stream
        # Recording takes a few registers: a kernel that uses all of them spills while it records.
        launch = prepare(made.recording_to(buffer.address), device, allow_spills=True)
        for _ in range(warm + 1):
            buffer.clear()
            launch()
        driver.synchronize()
        buffer.read(data)
    info = driver.device_info(device)
    return decode(made, data, info.name, info.clock_khz / 1e6)


def replayed(made: Instrumented, memory: GlobalMemory, *, warm: int = 0) -> Recording:
    """`on_gpu` for a launch of the simulator, over copies of its memory; results come back.

    Raises: as `on_gpu`.
    """
    found: list[Recording] = []

    def run(there: Launch) -> None:
        found.append(on_gpu(replace(made, launch=there), warm=warm))

    replay(made.launch, memory, run)
    return found[0]


def decode(made: Instrumented, data: Any, device: str, clock_ghz: float) -> Recording:
    """The events in a buffer, by block and warp, in the order of their clocks.

    Clocks of different SMs are put on one axis by the nanosecond timer that all SMs share.
    """
    x, y, z = made.launch.block
    threads = x * y * z
    entries = data.view(np.uint32).reshape(made.blocks, threads, made.slots, 4)
    events: list[Recorded] = []
    sms: list[tuple[Dim3, int]] = []
    starts = {}
    for number in range(made.blocks):
        heads = entries[number, :, 0, :]
        began = np.flatnonzero(heads[:, 2] >> 31)
        if not began.size:
            continue
        # The threads begin one after another: the block began with the first of them.
        first = min((int(t) for t in began), key=lambda t: _clock(entries[number, t, 1]))
        time = int(heads[first, 0]) | int(heads[first, 1]) << 32
        starts[number] = time, _clock(entries[number, first, 1])
        sms.append((_index(number, made.launch.grid), int(heads[first, 2]) & 0x7FFFFFFF))
    zero = min((time for time, _ in starts.values()), default=0)
    for number, (time, clock) in starts.items():
        shift = round((time - zero) * clock_ghz) - clock
        events += _events(made, entries[number], _index(number, made.launch.grid), shift)
    dropped = int(entries[:, :, 0, 3].sum())
    return Recording(
        made.launch.kernel.name,
        device,
        clock_ghz,
        made.launch.grid,
        tuple(events),
        dropped,
        tuple(sms),
    )


def _clock(entry: Any) -> int:
    return int(entry[0]) | int(entry[1]) << 32


def _events(made: Instrumented, entries: Any, block: Dim3, shift: int) -> list[Recorded]:
    found = []
    rows = entries[:, 1:, :]
    for thread, slot in np.argwhere(rows[:, :, 3] & VALID):
        entry = rows[thread, slot]
        tag, begin = int(entry[3]), _clock(entry) + shift
        site = made.sites[tag & (VALID - 1)]
        end = begin + int(entry[2])
        found.append(
            Recorded(block, int(thread) >> 5, int(thread) & 31, site, begin, end, (tag >> 16) << 3)
        )
    return sorted(found, key=lambda e: (e.warp, e.begin, e.end, e.lane))


def _index(number: int, grid: Dim3) -> Dim3:
    x, y, _ = grid
    return number % x, number // x % y, number // (x * y)
