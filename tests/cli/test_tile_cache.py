"""`tilewright tile cache log`: what tileiras compiled, used last first."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tilewright.cli import command
from tilewright.runtime.cache import entries, entry_path, through_disk
from tilewright.runtime.toolchain import CompiledCubin

WHEN = 1_700_000_000


def _put(key: str, name: str, compiler: str, used: float, log: str = "") -> None:
    made = CompiledCubin(name, "sm_90", b"x" * 2000, {}, (), log, 1.25, compiler)
    through_disk(key, lambda: made)
    path = entry_path(key)
    os.utime(path, (WHEN, WHEN))
    (cubin,) = path.parent.glob(f"{key}-*.cubin")
    os.utime(cubin, (used, used))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    return tmp_path


@pytest.mark.usefixtures("own_cache")
def test_log_shows_what_was_used_last_first(capsys: pytest.CaptureFixture[str]) -> None:
    _put("aa" * 32, "add", "tileiras 13.4.92", WHEN + 60)
    _put("bb" * 32, "matmul", "tileiras 13.4.92", WHEN + 3600, "slow: 3 spills")
    _put("cc" * 32, "gemm", "NVRTC 13.1", WHEN + 7200)
    assert command.main(["tile", "cache", "log"]) == 0
    assert capsys.readouterr().out == (
        f"entry {'bb' * 32}\n"
        "Kernel:     matmul\n"
        "Compiler:   tileiras 13.4.92 for sm_90\n"
        "Date:       2023-11-14 22:13:20 +0000\n"
        "Last used:  2023-11-14 23:13:20 +0000\n"
        "Duration:   1.250 s\n"
        "Cubin:      2,000 bytes\n"
        "Said:       slow: 3 spills\n"
        "\n"
        f"entry {'aa' * 32}\n"
        "Kernel:     add\n"
        "Compiler:   tileiras 13.4.92 for sm_90\n"
        "Date:       2023-11-14 22:13:20 +0000\n"
        "Last used:  2023-11-14 22:14:20 +0000\n"
        "Duration:   1.250 s\n"
        "Cubin:      2,000 bytes\n"
    )


@pytest.mark.usefixtures("own_cache")
def test_a_hit_is_a_use_and_damage_is_left_out() -> None:
    for key in ("aa" * 32, "bb" * 32):
        _put(key, "add", "tileiras 13.4.92", WHEN)
    before = time.time()
    assert through_disk("aa" * 32, lambda: pytest.fail("it is there")).hit
    entry_path("bb" * 32).write_text("{")
    (found,) = entries()
    assert (found.key, found.name, found.size, found.made) == ("aa" * 32, "add", 2000, WHEN)
    assert found.used >= before - 1


@pytest.mark.usefixtures("own_cache")
def test_an_empty_cache_has_an_empty_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["tile", "cache", "log"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_disabled_cache_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_ENABLED", "0")
    assert command.main(["tile", "cache", "log"]) == 1
    assert capsys.readouterr().err == "tile cache: the compilation cache is disabled\n"


@pytest.mark.parametrize("words", [[], ["lgo"]])
def test_other_words_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["tile", "cache", *words]) == command.EXIT_BAD_INPUT
    assert "tile cache" in capsys.readouterr().err
