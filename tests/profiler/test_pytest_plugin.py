"""The pytest plugin, in runs of pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright

SOURCE = Path(tilewright.__file__).resolve().parent.parent
KERNEL = """
import numpy as np
import pytest
from tilewright import cute, dsl
from tilewright.errors import SimulationError
from tilewright.utils import SmemAllocator

@cute.kernel
def reverse(x: cute.Tensor, y: cute.Tensor):
    t = cute.arch.thread_idx()[0]
    s = SmemAllocator().allocate_tensor(dsl.Float32, cute.make_layout(64), label="s")
    s[t] = x[t]
    y[t] = s[63 - t]

@cute.jit
def launch(x: cute.Tensor, y: cute.Tensor):
    reverse(x, y).launch(grid=1, block=64)

{marker}
def test_reverse():
    x = np.arange(64, dtype=np.float32)
    y = np.zeros_like(x)
    launch(x, y)
    assert (y == x[::-1]).all()

def test_expected():
    with pytest.raises(SimulationError):
        launch(np.zeros(64, np.float32), np.zeros(64, np.float32))
"""


def run(folder: Path, *words: str, marker: str = "", ini: str = "") -> tuple[int, str]:
    (folder / "test_it.py").write_text(KERNEL.replace("{marker}", marker))
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, "test_it.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    return done.returncode, done.stdout + done.stderr


PLUGIN = ("-p", "tilewright.profiler.pytest_plugin")


def test_every_launch_is_checked(tmp_path: Path) -> None:
    code, text = run(tmp_path, *PLUGIN)
    assert code == 1
    assert "1 failed, 1 passed" in text
    assert "SimulationError: simulate reverse: race" in text
    assert "tilewright: 2 launches checked, 2 findings" in text


def test_without_the_plugin_the_launch_passes(tmp_path: Path) -> None:
    code, text = run(tmp_path, "-k", "test_reverse")
    assert code == 0, text


@pytest.mark.parametrize("where", ["marker", "ini"])
def test_suppressions(tmp_path: Path, where: str) -> None:
    allow = "race@reverse: shown in a talk"
    if where == "marker":
        given = {"marker": f"@pytest.mark.tilewright_allow('{allow}')"}
    else:
        given = {"ini": f"tilewright_allow =\n    {allow}\n"}
    code, text = run(tmp_path, *PLUGIN, "-k", "test_reverse", **given)
    assert code == 0, text
    assert "allowed race at test_it.py:" in text
    assert "shown in a talk" in text


def test_a_suppression_without_a_reason(tmp_path: Path) -> None:
    code, text = run(tmp_path, *PLUGIN, ini="tilewright_allow =\n    race@reverse\n")
    assert code != 0
    assert "gives no reason" in text


def test_workers_of_xdist_report_what_they_checked(tmp_path: Path) -> None:
    """The process that prints the summary has run no test itself."""
    code, text = run(tmp_path, *PLUGIN, "-n", "2")
    assert code == 1
    assert "1 failed, 1 passed" in text
    assert "tilewright: 2 launches checked, 2 findings" in text
    allow = "@pytest.mark.tilewright_allow('race@reverse: shown in a talk')"
    code, text = run(tmp_path, *PLUGIN, "-n", "2", "-k", "test_reverse", marker=allow)
    assert code == 0, text
    assert "tilewright: 1 launch checked, 0 findings" in text
    assert "allowed race at test_it.py:" in text
