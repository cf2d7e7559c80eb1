"""The command itself: finding verbs, exit statuses, messages, and how fast it answers."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cli import arguments, command, doctor
from tilewright.cli.arguments import Parser
from tilewright.errors import TilewrightError


def test_overview_names_every_verb_and_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 0
    text = capsys.readouterr().out
    for name, verb in command.VERBS.items():
        assert f"  {name} " in text
        assert verb.summary in text
    for example in command.EXAMPLES:
        assert example in text
    assert command.main(["--help"]) == 0
    assert capsys.readouterr().out == text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("tilewright ")


KNOWN = ", ".join(command.VERBS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["profil"],
            f"tilewright: 'profil' is not a verb, expected one of {KNOWN}\n"
            "  hint: did you mean `tilewright profile`?\n",
        ),
        (
            ["xyzzy"],
            f"tilewright: 'xyzzy' is not a verb, expected one of {KNOWN}\n",
        ),
        (
            ["doctor", "--fast"],
            "tilewright: doctor: unknown flag --fast\n"
            "  hint: `tilewright doctor --help` lists the flags\n",
        ),
    ],
)
def test_bad_words(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(words) == command.EXIT_BAD_INPUT
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", message)


def test_finding_the_verb_loads_no_verb() -> None:
    tree = ast.parse(Path(command.__file__).read_text())
    found = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    found += [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    ours = {name for name in found if name.startswith("tilewright")}
    assert ours == {"tilewright.errors"}
    assert {name.split(".")[0] for name in set(found) - ours} <= set(sys.stdlib_module_names)


def test_python_m_gives_the_exit_status() -> None:
    for words, status in (["--version"], 0), (["nonsense"], 2):
        done = subprocess.run(
            [sys.executable, "-m", "tilewright", *words], capture_output=True, check=False
        )
        assert done.returncode == status, done.stderr


def test_a_reader_that_leaves_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m tilewright doctor | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert done.stdout.startswith("ok  python")
    assert done.stderr == ""


def test_an_interrupt_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "run", interrupt)
    assert command.main(["doctor"]) == 130
    assert capsys.readouterr().err == "tilewright: interrupted\n"


def test_a_fault_of_ours_shows_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "run", lambda _: [][0])
    assert command.main(["doctor"]) == command.EXIT_INTERNAL == 3
    text = capsys.readouterr().err
    assert text.startswith("Traceback")
    assert text.endswith("tilewright: internal error: this is a fault of ours, please report it\n")


@pytest.fixture
def parser() -> Parser:
    made = Parser("bake", "Bakes.", ["tilewright bake"])
    made.add_argument("--warmup-iterations", type=int)
    made.add_argument("--m", type=int)
    made.add_argument("--mode", choices=("cake", "pie"))
    arguments.add_boolean(made, "--verbose", True, "say more")
    return made


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            ["--warmup_iteration=3"],
            "bake: unknown flag --warmup_iteration",
            "did you mean --warmup-iterations?",
        ),
        (["--M=3"], "bake: unknown flag --M", "did you mean --m?"),
        (["--zzz"], "bake: unknown flag --zzz", "`tilewright bake --help` lists the flags"),
        (["12"], "bake: '12' belongs to no flag", "values follow a flag, as in --m=12"),
        (["--m=x"], "bake: argument --m: invalid int value: 'x'", ""),
        (["--verbose=perhaps"], "--verbose: 'perhaps', expected true or false", ""),
    ],
)
def test_flags_that_do_not_fit(parser: Parser, words: list[str], message: str, hint: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        parser.parse(words)
    assert caught.value.message == message
    assert caught.value.hint == hint


def test_a_choice_that_does_not_exist(parser: Parser) -> None:
    with pytest.raises(TilewrightError, match=r"bake: argument --mode: invalid choice: 'tart'"):
        parser.parse(["--mode=tart"])


@pytest.mark.parametrize(
    ("words", "wanted"),
    [([], True), (["--verbose"], True), (["--verbose=false"], False), (["--verbose", "0"], False)],
)
def test_switches(parser: Parser, words: list[str], wanted: bool) -> None:
    assert parser.parse(words).verbose is wanted


def test_doctor_says_what_works(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "ok  numpy " in text
    assert "yes write, simulate and check kernels" in text


def test_doctor_without_anything() -> None:
    found = {
        name: doctor.Finding(name, False, "not installed", f"pip install {name}")
        for name in ("numpy", "ml_dtypes", "cuda-bindings", "nvrtc", "driver")
    }
    text = doctor.as_text(found)
    assert "--  numpy          not installed\n                   fix: pip install numpy" in text
    assert "no  compile kernels to cubins: needs cuda-bindings, nvrtc" in text
    assert "no  run kernels on a GPU: needs cuda-bindings, nvrtc, driver, gpu 0" in text


def test_doctor_and_a_cache_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    file = tmp_path / "file"  # type: ignore[operator]
    file.write_text("")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(file / "cache"))
    found = doctor.findings()["cache"]
    assert not found.ok
    assert found.text == f"{file}/cache: Not a directory"
    assert "TILEWRIGHT_CACHE_DIR" in found.fix
    monkeypatch.setenv("TILEWRIGHT_CACHE_ENABLED", "0")
    assert doctor.findings()["cache"].text == "switched off by TILEWRIGHT_CACHE_ENABLED"
