"""`tilewright tile run` and `compile`."""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tilewright.cli import command, tile_compile
from tilewright.errors import ToolchainError
from tilewright.runtime import tileiras
from tilewright.tileir.check import load_text

VECTOR_ADD = str(Path(__file__).parents[2] / "examples" / "vector_add.mlir")

SCALE = """cuda_tile.module @m {{ entry @scale(%x: tile<ptr<{0}>>, %f: tile<{0}>) {{
    %v, %t = load_ptr_tko weak %x : tile<ptr<{0}>> -> tile<{0}>, token
    %w = mulf %v, %f : tile<{0}>
    %u = store_ptr_tko weak %x, %w {1} : tile<ptr<{0}>>, tile<{0}> -> token
    %p = print_tko "w=%.2f\\n", %w : tile<{0}> -> token
    return
}} }}"""


def run(*words: str) -> int:
    return command.main(["tile", "run", *words])


def test_arrays_and_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    arrays = ("--arg=f32[10]=iota", "--arg=f32[10]=0.5", "--arg=f32[10]", "--arg=10")
    assert run(VECTOR_ADD, "--entry=vector_add", "--grid=2,1", *arrays) == 0
    assert capsys.readouterr().out == (
        "%c: float32 (10,)\n  [0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5 9.5]\n"
        "vector_add: 2 blocks, no findings\n"
    )


def test_files_in_and_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = np.arange(20, dtype=np.float32), np.full(20, 2, np.float32)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    for name in ("c", "2"):
        out = tmp_path / f"c{name}.npy"
        words = [f"--arg={tmp_path / 'a.npy'}", f"--arg={tmp_path / 'b.npy'}", "--arg=f32[20]"]
        assert run(VECTOR_ADD, "--grid=3", *words, "--arg=20", f"--out={name}={out}") == 0
        assert (np.load(out) == a + b).all()
    assert capsys.readouterr().out == "vector_add: 3 blocks, no findings\n" * 2


def test_bytecode_and_types_that_numpy_does_not_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, code = tmp_path / "s.mlir", tmp_path / "s.tileirbc"
    text.write_text(SCALE.format("bf16", "token=%t"))
    assert command.main(["tile", "translate", str(text), "--bytecode", "-o", str(code)]) == 0
    np.save(tmp_path / "x.npy", np.array([1.5], ml_dtypes.bfloat16))
    out = tmp_path / "y.npy"
    assert run(str(code), f"--arg={tmp_path / 'x.npy'}", "--arg=3", f"--out=0={out}") == 0
    assert np.load(out).view(ml_dtypes.bfloat16).astype(float).tolist() == [4.5]
    assert capsys.readouterr().out == "w=4.50\nscale: 1 blocks, no findings\n"


def test_findings_end_in_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "s.mlir"
    text.write_text(SCALE.format("f32", ""))
    words = (str(text), "--arg=f32[1]=2", "--arg=3")
    assert run(*words) == 0
    capsys.readouterr()
    for flags in (["--check-tokens"], ["--adversarial", "--seed=3"]):
        assert run(*words, *flags) == 1
        captured = capsys.readouterr()
        assert captured.out.endswith("scale: 1 blocks, 1 findings\n")
        assert captured.err.startswith(
            "unordered: store_ptr_tko writes bytes that an earlier load_ptr"
        )
        assert "s.mlir:4:5" in captured.err
        assert "s.mlir:2:5" in captured.err


def test_invalid_files_end_in_status_3(tmp_path: Path) -> None:
    text = tmp_path / "bad.mlir"
    text.write_text("cuda_tile.module @m { entry @k() { nothing } }")
    assert run(str(text)) == 3
    assert command.main(["tile", "compile", str(text), "--arch=sm_90", "-o", "x"]) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--grid=0"], "--grid: '0', expected one to three sizes from 1, as in 8,4,1"),
        (["--grid=1,2,3,4"], "--grid: '1,2,3,4', expected one to three sizes"),
        (["--arg=1"], "tile run: 1 --arg, expected 4, in order: %a: tile<ptr<f32>>, %b: "),
        (["--arg=1"] * 4, "--arg: '1', expected an array for %a: tile<ptr<f32>>"),
        (["--arg=f32[2]"] * 3 + ["--arg=x"], "--arg: 'x', expected a number, true, false, FILE"),
        (["--arg=f99[2]"] * 4, "--arg: 'f99[2]': dtype: 'f99' is not an element type"),
        (["--arg=f32[2]=x"] * 4, "--arg: 'f32[2]=x': 'x' is neither a number nor iota"),
        (["--arg=no.npy"] * 4, "--arg: cannot read no.npy: No such file or directory"),
        (["--arg=f32[2]"] * 3 + ["--arg=2", "--out=d=x.npy"],
         "--out: 'd=x.npy', expected ARG=FILE.npy with ARG one of a, b, c, n"),
        (["--arg=f32[2]"] * 3 + ["--arg=2", "--out=c=x.txt"], "--out: 'c=x.txt', expected a file"),
        (["--arg=f32[2]"] * 3 + ["--arg=2", "--out=n=x.npy"], "--out: 'n=x.npy': argument n is a"),
        (["--arg=f32[2]"] * 3 + ["--arg=2", "--out=c=no/x.npy"], "--out: cannot write no/x.npy: "),
        (["--arg=f64[2]"] * 3 + ["--arg=2"], "interpret vector_add: argument %a is an array of f"),
        (["--entry=other"], "interpret: the module has no entry 'other'; its entries: vector_add"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(VECTOR_ADD, *words) == 2
    assert capsys.readouterr().err.startswith(f"tilewright: {message}")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("f16[2,2]=iota", np.arange(4, dtype=np.float16).reshape(2, 2)),
        ("i8[3]=-1", np.full(3, -1, np.int8)),
        ("f4E2M1FN[3]=6", np.array([0x77, 0x07], np.uint8)),
        ("f8E8M0FNU[1]=4", np.array([129], np.uint8)),
        ("f32[]=2", np.array(2, np.float32)),
    ],
)
def test_arrays_that_are_made(text: str, want: object, tmp_path: Path) -> None:
    element = text.partition("[")[0]
    source = tmp_path / "k.mlir"
    source.write_text(f"cuda_tile.module @m {{ entry @k(%p: tile<ptr<{element}>>) {{ return }} }}")
    out = tmp_path / "x.npy"
    assert run(str(source), f"--arg={text}", f"--out=p={out}") == 0
    have = np.load(out)
    assert have.shape == np.shape(want)
    assert have.tobytes() == np.asarray(want).tobytes()


# --- compile ------------------------------------------------------------------------------------


def test_compile_without_tileiras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "path", [])
    words = ["tile", "compile", VECTOR_ADD, "--arch=sm_90", "-o", str(tmp_path / "k.cubin")]
    assert command.main(words) == 2
    assert capsys.readouterr().err == (
        "tilewright: compiling Tile IR needs tileiras, which is neither on PATH nor in the package "
        'nvidia-cuda-tileiras\n  hint: pip install "tilewright[tileiras]"\n'
    )


def test_the_operation_that_tileiras_names() -> None:
    block = load_text(
        "cuda_tile.module @m { entry @k() {\n%a = constant <f16: 1.0> : tile<2xf16>\n"
        "%b = exp %a : tile<2xf16>\n%c = ftof %b : tile<2xf16> -> tile<2xf8E5M2>\nreturn\n} }"
    )
    for message, line in (
        ("error: unsupported type 'f8E5M2' here", 4),
        ("'cuda_tile.exp' op is not for you", 3),
        ("type '!cuda_tile.tile<2xf16>' is too wide", 2),
    ):
        place = tile_compile.blamed(block, message)
        assert place is not None
        assert place.line == line
    assert tile_compile.blamed(block, "error: out of memory") is None


def _has_tileiras() -> bool:
    try:
        tileiras.find_tool("tileiras")
    except ToolchainError:
        return False
    return True


@pytest.mark.skipif(not _has_tileiras(), reason="needs the extra tileiras")
def test_compile_with_tileiras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    out = tmp_path / "k.cubin"
    for how in (" s\n", "from the cache\n"):
        assert command.main(["tile", "compile", VECTOR_ADD, "--arch=sm_90", "-o", str(out)]) == 0
        said = capsys.readouterr().out
        assert said.startswith(f"{out}: ")
        assert said.endswith(how)
        assert out.read_bytes()[:4] == b"\x7fELF"
    unsupported = tmp_path / "e8m0.mlir"
    unsupported.write_text(
        "cuda_tile.module @m { entry @k(%p: tile<ptr<f8E8M0FNU>>) {\n"
        "%x, %t = load_ptr_tko weak %p : tile<ptr<f8E8M0FNU>> -> tile<f8E8M0FNU>, token\n"
        "%u = store_ptr_tko weak %p, %x token=%t : tile<ptr<f8E8M0FNU>>, tile<f8E8M0FNU> -> token\n"
        "return\n} }"
    )
    words = ["tile", "compile", str(unsupported), "--arch=sm_90", "-o", str(out)]
    assert command.main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("tilewright: tileiras refuses 'e8m0' for sm_90: Incompatibility with")
    assert "unsupported type 'f8E8M0FNU'" in said
    assert "e8m0.mlir:2:1" in said
