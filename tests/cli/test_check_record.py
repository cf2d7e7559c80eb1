"""`tilewright check --timeline --record`: what it refuses; tests/gpu has what it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.cli.command import main
from tilewright.runtime import driver


@pytest.fixture
def kernel(tmp_path: Path) -> str:
    path = tmp_path / "kernel.py"
    path.write_text("raise AssertionError('never run')\n")
    return str(path)


def test_recording_needs_a_drawing(kernel: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", kernel, "--record"]) == 2
    text = capsys.readouterr().err
    assert "--record: nothing to draw" in text
    assert "add --timeline=FILE.svg" in text


def test_recording_needs_a_gpu(
    kernel: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reason = driver.Availability(False, "the driver sees no GPU")
    monkeypatch.setattr(driver, "is_available", lambda: reason)
    assert main(["check", kernel, f"--timeline={tmp_path / 'x.svg'}", "--record"]) == 2
    text = capsys.readouterr().err
    assert "--record: no usable GPU: the driver sees no GPU" in text
    assert "without --record, the timeline is modelled only" in text
    assert not (tmp_path / "x.svg").exists()
