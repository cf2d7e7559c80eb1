"""A fake NVIDIA driver for the tests of `runtime`: no GPU, but every call to libcuda is seen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tilewright.errors
from tilewright.runtime import cuda_api

SOURCE = Path(__file__).with_name("fake_driver.c")
PACKAGE = Path(tilewright.errors.__file__).parents[1]


@dataclass(frozen=True)
class FakeRun:
    """What a script printed, and the calls that the fake driver saw, in order."""

    output: list[str]
    calls: list[dict[str, Any]]

    def named(self, call: str) -> list[dict[str, Any]]:
        return [record for record in self.calls if record["call"] == call]


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a `libcuda.so.1` built from fake_driver.c."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not installed, so the fake driver cannot be built")
    if cuda_api.driver is None:
        pytest.skip("cuda-bindings is not installed")
    folder = tmp_path_factory.mktemp("fake_driver")
    command = [gcc, "-shared", "-fPIC", "-O1", "-o", folder / "libcuda.so.1", SOURCE, "-ldl"]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture
def run_fake(fake_library: Path, tmp_path: Path) -> Callable[..., FakeRun]:
    """Run a script in a process of its own whose libcuda is the fake one.

    `params` are the byte sizes of the kernel's parameters, `fail` is `cuSomeCall=status`.
    """

    def run(script: str, params: str = "", fail: str = "", devices: int = 2) -> FakeRun:
        log = tmp_path / "calls.jsonl"
        log.write_text("")
        env = os.environ | {
            "LD_LIBRARY_PATH": str(fake_library),
            "PYTHONPATH": str(PACKAGE),
            "TW_FAKE_LOG": str(log),
            "TW_FAKE_PARAMS": params,
            "TW_FAKE_FAIL": fail,
            "TW_FAKE_DEVICES": str(devices),
        }
        done = subprocess.run(
            [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"the script failed:\n{done.stderr}"
        calls = [json.loads(line) for line in log.read_text().splitlines()]
        return FakeRun(done.stdout.splitlines(), calls)

    return run


@pytest.fixture
def needs_nvrtc() -> None:
    """Skip where nothing can be compiled, with the reason."""
    if cuda_api.nvrtc is None:
        pytest.skip(f"the cuda extra is not installed: {cuda_api.BINDINGS_MISSING}")
    try:
        cuda_api.nvrtc.nvrtcVersion()
    except cuda_api.LIBRARY_ERRORS as error:
        pytest.skip(f"NVRTC is not installed: {error}")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cubin cache for this test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(folder))
    monkeypatch.delenv("TILEWRIGHT_CACHE_ENABLED", raising=False)
    return folder
