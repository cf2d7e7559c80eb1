"""`tilewright tile`: exit statuses, messages and what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.cli import command

GOOD = "cuda_tile.module @m {\n  entry @k(%a: tile<f32>) {\n    %b = absf %a : tile<f32>\n  }\n}\n"


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.mlir"
    path.write_text(GOOD)
    return str(path)


def test_check_accepts_in_silence(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["tile", "check", good]) == 0
    assert capsys.readouterr() == ("", "")


def test_check_rejects_with_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.mlir"
    path.write_text(GOOD.replace("absf %a : tile<f32>", "absf %a : tile<i32>"))
    assert command.main(["tile", "check", str(path)]) == 3
    assert capsys.readouterr().err == (
        f"{path}:3:15: error: custom op 'cuda_tile.absf' use of value '%a' expects different type "
        "than prior uses: '!cuda_tile.tile<i32>' vs '!cuda_tile.tile<f32>'\n"
        "  3 |     %b = absf %a : tile<i32>\n"
        "    |               ^\n"
    )


def test_testing_functions_need_the_flag(tmp_path: Path) -> None:
    path = tmp_path / "testing.mlir"
    path.write_text("cuda_tile.module @m { testing$func @f(%a: tile<2xf32>) { } }")
    assert command.main(["tile", "check", str(path)]) == 3
    assert command.main(["tile", "check", "--testing", str(path)]) == 0


def test_translate(good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["tile", "translate", good]) == 0
    assert capsys.readouterr().out == GOOD.replace("\n  }\n", "\n    return\n  }\n")
    out = tmp_path / "generic.mlir"
    assert command.main(["tile", "translate", good, "--generic", "-o", str(out)]) == 0
    assert '"cuda_tile.absf"(%a) : (!cuda_tile.tile<f32>)' in out.read_text()
    assert command.main(["tile", "check", str(out)]) == 0


def test_bytecode_and_back(good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "k.tileirbc")
    assert command.main(["tile", "translate", good, "--bytecode", "--version=13.1", "-o", out]) == 0
    assert Path(out).read_bytes()[:10] == b"\x7fTileIR\x00\x0d\x01"
    assert command.main(["tile", "check", out]) == 0
    assert command.main(["tile", "translate", out]) == 0
    assert capsys.readouterr().out == (
        "cuda_tile.module @kernels {\n  entry @k(%0: tile<f32>) {\n"
        "    %1 = absf %0 : tile<f32>\n    return\n  }\n}\n"
    )


def test_broken_bytecode_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.tileirbc"
    path.write_bytes(b"\x7fTileIR\x00\x0d\x09\x00\x00")
    assert command.main(["tile", "check", str(path)]) == 3
    assert "byte 8: error: version 13.9 is not known, expected 13.1" in capsys.readouterr().err


def test_show(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["tile", "show", good]) == 0
    assert capsys.readouterr().out == (
        "module @m, Tile IR 13.1 or later\n"
        "  entry @k(%a: tile<f32>)\n"
        "    2 operations: 1 absf, 1 return\n"
    )


def test_show_counts_types_for_the_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.mlir"
    path.write_text("cuda_tile.module @m { entry @k(%p: tile<ptr<f8E8M0FNU>>) { } }")
    assert command.main(["tile", "show", str(path)]) == 0
    assert "module @m, Tile IR 13.2 or later\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff", "is neither bytecode nor UTF-8 text: byte 0xff at 0"),
    ],
)
def test_files_that_are_no_text(
    data: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f"
    path.write_bytes(data)
    assert command.main(["tile", "check", str(path)]) == command.EXIT_BAD_INPUT
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tile", "chek", "f"], "tile: 'chek' is not an action, expected one of check"),
        (["tile", "check", "/nowhere/f"], "tile: cannot read /nowhere/f: No such file"),
        (["tile", "translate", "f", "--bytecode"], "--bytecode needs -o, the file to write"),
        (["tile", "translate", "f", "--version=12.0"], "--version: '12.0', expected one of 13.1"),
        (["tile", "check", "f", "--test"], "tile check: unknown flag --test"),
    ],
)
def test_bad_words(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(words) == command.EXIT_BAD_INPUT
    assert message in capsys.readouterr().err


def test_overview(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["tile"]) == 0
    assert "tilewright tile check examples/vector_add.mlir" in capsys.readouterr().out
