"""The simulator's machine against an H200: every case leaves the same bytes on both.

`docs/sanitizer.md` lists which limit which case confirms.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.compiler.gpu_launch import map_spec, replay
from tilewright.errors import LaunchError, ResourceError
from tilewright.runtime import driver
from tilewright.runtime.toolchain import compile_cubin
from tilewright.sim.machine import MAX_THREADS, simulate
from tilewright.sim.options import SimOptions
from tilewright.sim.tensormap import TensorMap

sys.path.insert(0, str(Path(__file__).parent.parent / "codegen"))
sys.path.insert(0, str(Path(__file__).parent))
from machine_cases import CASES, SHARED, Case, collectives, shared_limit

gpu = pytest.mark.gpu("sm_90a")
FAULTS_ON_PURPOSE = {"overrun"}
"""Findings of cases that show what a fault does."""


def simulated(case: Case) -> list[bytes]:
    launch, memory, data = case.launch()
    report = simulate(launch, memory, SimOptions(raise_on_findings=False))
    faults = [f for f in report.findings if f.kind not in FAULTS_ON_PURPOSE]
    assert not faults, faults
    return [d.tobytes() for d in data]


@pytest.mark.parametrize("name", CASES)
def test_case_can_run(name: str) -> None:
    """Without a GPU: it simulates, writes all of its output, and compiles."""
    case = CASES[name]()
    before = case.buffers[0].view(np.uint32)
    after = np.frombuffer(simulated(case)[0], np.uint32)
    assert (before != after).all()
    for value in case.launch()[0].args:
        if isinstance(value, TensorMap):
            map_spec(value).validate(value.base, "map")
    compile_cubin(emit_cuda(case.func), case.func.name, "sm_90a")


@gpu
@pytest.mark.parametrize("name", CASES)
def test_simulator_and_gpu_leave_the_same_bytes(name: str) -> None:
    case = CASES[name]()
    want = simulated(case)
    launch, memory, data = case.launch()
    replay(launch, memory)
    for n, (ours, theirs) in enumerate(zip(want, data, strict=True)):
        found = theirs.tobytes()
        bad = [i for i, (a, b) in enumerate(zip(ours, found, strict=True)) if a != b]
        assert not bad, (
            f"{name}, buffer {n}: {len(bad)} bytes differ, first at {bad[0]}: simulator "
            f"{ours[bad[0] : bad[0] + 8].hex()}, GPU {found[bad[0] : bad[0] + 8].hex()}"
        )


@gpu
def test_both_refuse_more_shared_memory() -> None:
    assert driver.device_info().smem_per_block_optin == SHARED
    for run in (simulate, replay):
        launch, memory, _ = shared_limit(SHARED + 16).launch()
        with pytest.raises(ResourceError, match="shared memory"):
            run(launch, memory)


@gpu
def test_both_refuse_more_threads() -> None:
    for run in (simulate, replay):
        launch, memory, _ = collectives().launch()
        launch.kernel.max_threads = 0
        with pytest.raises(LaunchError, match=r"1,?056"):
            run(replace(launch, block=(MAX_THREADS + 32, 1, 1)), memory)
