"""`tilewright gemm`, end to end in the simulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright.cli import gemm
from tilewright.cli.command import main
from tilewright.library.reference import Verification
from tilewright.profiler.device import choose_backend

pytestmark = pytest.mark.skipif(
    choose_backend("auto") == "gpu", reason="these tests are about the simulator"
)
SMALL = ["--m=24", "--n=16", "--k=8", "--A=f16:row", "--B=f16:col", "--kernel=simt_gemm"]


def test_small(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gemm", *SMALL]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ("problem      gemm 24x16x8 A=f16:row B=f16:column D=f16:row accum=f32")
    assert lines[1] == "kernel       simt_gemm on simulated sm_90a"
    assert any(line.startswith("result       verified: every element") for line in lines)
    assert any(line.startswith("simulated in ") for line in lines)
    assert "instructions" in lines[-1] or "instructions" in "\n".join(lines)


def test_json_and_scales(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gemm", *SMALL, "--alpha=2", "--beta=-0.5", "--arch=sm_80", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["m"], record["n"], record["k"]) == (24, 16, 8)
    assert (record["alpha"], record["beta"]) == (2.0, -0.5)
    assert (record["backend"], record["target"], record["kernel"]) == ("sim", "sm_80", "simt_gemm")
    assert record["verified"] is True
    assert record["counters"]["instructions"] > 0
    assert "C=f16:row" in record["problem"]


def test_better_kernels_are_named_with_their_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gemm", "--m=8", "--n=8", "--k=8", "--A=f32:row", "--B=f32:row"]) == 0
    text = capsys.readouterr().out
    assert "passed over  sm90_gemm: A and B are f32, expected f16 or bf16" in text


def test_an_empty_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gemm", "--m=0", "--n=16", "--k=8"]) == 0
    assert "nothing to compare: the output is empty" in capsys.readouterr().out


def test_seeds_differ(capsys: pytest.CaptureFixture[str]) -> None:
    errors = []
    for seed in (1, 1, 2):
        assert main(["gemm", *SMALL, f"--seed={seed}", "--json"]) == 0
        errors.append(json.loads(capsys.readouterr().out)["relative_error"])
    assert errors[0] == errors[1] != errors[2]


def test_source(tmp_path: Path) -> None:
    path = tmp_path / "gemm.cu"
    assert main(["gemm", *SMALL, f"--source={path}"]) == 0
    assert "__global__" in path.read_text()


def test_wrong_result_is_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Verification(False, 9.0, 1.0, (0, 0), "WRONG: element (0, 0) is 1.0")
    monkeypatch.setattr(gemm.PreparedGemm, "verify", lambda _: wrong)
    assert main(["gemm", *SMALL]) == 1
    assert "result       WRONG: element (0, 0) is 1.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--A=f16"],
            "gemm: A is f16 and B is bf16, expected one element type\n  hint: --B=f16:column",
        ),
        (["--C=f16:row", "--D=f32:row"], "gemm: C is f16:row and D is f32:row, expected them to"),
        (["--m=1:4"], "--m: '1:4', expected one number\n  hint: profile sweeps many"),
        (["--m=-4"], "--m: -4, expected 0 or more"),
        (["--A=*:row"], "--A: '*:row', expected one type and layout, such as bf16:row"),
        (["--alpha=inf"], "--alpha: 'inf', expected a finite number"),
        (["--arch=sm_70"], "target: 'sm_70' is not a known architecture; known: sm_80"),
        (["--kernel=magic"], "kernel 'magic' does not exist, expected one of sm90_"),
        (["--kernels=sm90"], "gemm: unknown flag --kernels\n  hint: did you mean --kernel?"),
        (["--m=64", "--source=/nowhere/at/all"], "--source: cannot write /nowhere/at/all: No such"),
        (
            ["--k=36", "--kernel=sm90_gemm"],
            "gemm 256x256x36 A=bf16:row B=bf16:column D=bf16:row accum=f32: sm90_gemm: A needs",
        ),
    ],
)
def test_bad_input(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gemm", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"tilewright: {message}")
    assert "Traceback" not in captured.err


def test_a_gpu_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gemm", "--backend=gpu"]) == 2
    assert capsys.readouterr().err.startswith("tilewright: no usable GPU: ")
