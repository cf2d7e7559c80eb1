from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tilewright.profiler import machine


def test_facts_can_be_stored_and_name_what_matters() -> None:
    facts = json.loads(json.dumps(machine.machine_facts()))
    assert {"time", "command", "python", "cpu", "packages", "nvrtc", "gpu", "gpu_state"} <= set(
        facts
    )
    assert facts["packages"]["numpy"]
    assert facts["command"] == machine.command_line(sys.orig_argv)
    assert Path(sys.orig_argv[0]).name in facts["command"]


def test_state_without_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert machine.gpu_state() == {}


def test_state_that_is_not_understood() -> None:
    assert machine.parse_state("only, three, values") == {
        "error": "expected 9 values, got 'only, three, values'"
    }


def test_state_of_a_broken_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    tool = tmp_path / "nvidia-smi"  # type: ignore[operator]
    tool.write_text("#!/bin/sh\necho 'No devices were found'\nexit 6\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}")
    assert machine.gpu_state() == {"error": "No devices were found"}
