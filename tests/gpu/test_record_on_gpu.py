"""Recorded clocks on a Hopper GPU: the events that the model has, in an order that time has."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright import cute, dsl
from tilewright.cli.command import main
from tilewright.compiler.launcher import launching_with
from tilewright.compiler.record import Recording, instrument, record_clocks, replayed
from tilewright.library.gemm import PreparedGemm, prepare_gemm
from tilewright.profiler.recorded import side_by_side
from tilewright.runtime import driver
from tilewright.sim.machine import Launch, Report
from tilewright.sim.memory import GlobalMemory
from tilewright.utils import SmemAllocator

pytestmark = pytest.mark.gpu("sm_90a")
BLOCKS = 4


def problem(kernel: str) -> tuple[PreparedGemm, Launch, GlobalMemory]:
    """A GEMM, and its launch as the simulator would get it, not yet run."""
    rng = np.random.default_rng(1)
    a = rng.integers(-2, 3, (512, 512)).astype(ml_dtypes.bfloat16)
    b = rng.integers(-2, 3, (512, 512)).astype(ml_dtypes.bfloat16).T
    prepared = prepare_gemm(a, b, kernel=kernel, backend="sim")
    kept: list[tuple[Launch, GlobalMemory]] = []

    def keep(launch: Launch, memory: GlobalMemory, options: Any) -> Report:
        del options
        kept.append((launch, memory))
        return Report({}, (), [])

    with launching_with(keep):
        prepared.run()
    return prepared, *kept[0]


def counted(recording: Recording) -> Counter[Any]:
    """Events of each warp at each site.

    Lanes that branch off for good may leave a GPU apart from their warp: exits count once.
    """
    found: Counter[Any] = Counter()
    for e in recording.events:
        key = e.block, e.warp, e.site.number
        found[key] = 1 if e.site.op == "exit" else found[key] + 1
    return found


@pytest.mark.parametrize("kernel", ["sm90_gemm", "sm80_gemm", "simt_gemm"])
def test_model_and_gpu_record_the_same_events(kernel: str, tmp_path: Path) -> None:
    prepared, launch, memory = problem(kernel)
    path = tmp_path / "both.svg"
    found = side_by_side(launch, memory, path, blocks=BLOCKS)
    assert prepared.verify().passed
    assert counted(found.recorded) == counted(found.modelled)
    assert found.recorded.dropped == found.modelled.dropped
    name = driver.device_info().name
    assert found.recorded.device == name
    assert f"recorded on {name}" in path.read_text()
    assert f"recorded on {name}" in found.text


def test_clocks_grow_along_each_warp() -> None:
    _, launch, memory = problem("sm90_gemm")
    recording = replayed(instrument(launch, BLOCKS), memory, warm=1)
    lanes = {(e.block, e.warp, e.lane) for e in recording.events}
    assert len(recording.blocks) == BLOCKS
    assert len({sm for _, sm in recording.sms}) == BLOCKS, "fewer blocks than SMs"
    for lane in lanes:
        own = [e for e in recording.events if (e.block, e.warp, e.lane) == lane]
        for a, b in pairwise(own):
            assert 0 <= a.begin <= a.end <= b.begin <= b.end
    waits = [e for e in recording.events if e.site.op == "mbarrier.wait"]
    assert any(e.end - e.begin > 100 for e in waits), "the first load takes longer than that"
    # A product is issued after the wait for its operands, in the same warp.
    for block in recording.blocks:
        own = [e for e in recording.events if (e.block, e.warp) == (block, 4)]
        first_wait = min(e.end for e in own if e.site.op == "mbarrier.wait")
        assert min(e.begin for e in own if e.site.op == "wgmma.mma") >= first_wait


@cute.kernel
def laps_kernel(y: cute.Tensor, laps: dsl.Int32) -> None:
    t = cute.arch.thread_idx()[0]
    s = SmemAllocator().allocate_tensor(dsl.Int32, cute.make_layout(64), label="s")
    for i in dsl.range(laps, unroll=1):
        s[t] = t + i
        cute.arch.sync_threads()
        y[t] = s[63 - t]
        cute.arch.sync_threads()


@cute.jit
def laps(y: cute.Tensor, count: dsl.Int32) -> None:
    laps_kernel(y, count).launch(grid=1, block=64)


def test_arrays_of_the_gpu_and_dropped_events() -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    there = torch.zeros(64, dtype=torch.int32, device="cuda")
    here = np.zeros(64, np.int32)
    recordings = []
    for y in (there, here):
        (made,) = record_clocks(cute.compile(laps, y, 10), y, 10, events=31)
        recordings.append(made)
    assert (there.cpu().numpy() == here).all()
    assert recordings[0].dropped == recordings[1].dropped == 2 * (2 + 4 * 10 - 31)
    assert counted(recordings[0]) == counted(recordings[1])


KERNEL = """
import numpy as np
from tilewright import cute

@cute.kernel
def twice_kernel(x: cute.Tensor, y: cute.Tensor):
    t = cute.arch.thread_idx()[0]
    cute.arch.sync_threads()
    y[t] = x[t] * 2.0

@cute.jit
def twice(x: cute.Tensor, y: cute.Tensor):
    twice_kernel(x, y).launch(grid=1, block=64)

def check_twice():
    x = np.arange(64, dtype=np.float32)
    y = np.zeros_like(x)
    twice(x, y)
    assert (y == 2 * x).all()
"""


@pytest.mark.parametrize("suffix", ["svg", "json"])
def test_command(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, drawing = tmp_path / "kernel.py", tmp_path / f"both.{suffix}"
    path.write_text(KERNEL)
    assert main(["check", str(path), f"--timeline={drawing}", "--record"]) == 0
    assert f"recorded on {driver.device_info().name}" in drawing.read_text()
    text = capsys.readouterr().out
    assert "events of twice_kernel, 1 block: modelled, and recorded on" in text
    assert "1 passed" in text
