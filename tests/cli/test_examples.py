"""Every example that a help text shows is run, as it is shown."""

from __future__ import annotations

import shlex

import pytest

from tilewright.cli import check, command, doctor, gemm, profile_flags, tile

EXAMPLES = (
    *command.EXAMPLES,
    *check.EXAMPLES,
    *gemm.EXAMPLES,
    *profile_flags.EXAMPLES,
    *tile.EXAMPLES,
    *doctor.EXAMPLES,
)


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    program, *words = shlex.split(example)
    assert program == "tilewright"
    assert command.main(words) == 0, capsys.readouterr().err


@pytest.mark.parametrize("verb", command.VERBS)
def test_help_shows_them(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main([verb, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    shown = [example for example in EXAMPLES if example.startswith(f"tilewright {verb}")]
    assert sum(example in text for example in shown) >= 1
