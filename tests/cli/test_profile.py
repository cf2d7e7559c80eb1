"""`tilewright profile`, end to end in the simulator."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli import profile
from tilewright.cli.command import main
from tilewright.profiler.device import choose_backend
from tilewright.profiler.run import Result

pytestmark = pytest.mark.skipif(
    choose_backend("auto") == "gpu", reason="these tests are about the simulator"
)
TN = ["--A=f16:row", "--B=f16:col", "--C=f16:row"]
SMALL = ["--m=16", "--n=16", "--k=16", *TN, "--kernels=simt", "--accum=f32"]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_run_with_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["profile", "--operation=Gemm", *SMALL, f"--output={tmp_path}/run", "--tags=by:test"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert text.startswith("1 run on simulated sm_90a: 1 operation, 1 problem")
    assert "     Disposition: passed" in text
    assert text.endswith("1 run: 1 passed; no times (simulated); verified 1 of 1 by host\n")
    (row,) = rows(tmp_path / "run.gemm.csv")
    assert next(iter(row)) == "by"
    assert (row["by"], row["Provider"], row["Disposition"]) == ("test", "Tilewright-sim", "passed")
    assert (row["Runtime"], row["GB/s"], row["GFLOPs"]) == ("", "", "")
    assert int(row["sim.instructions"]) > 0
    assert main([*words, "--append", "--verbose=false"]) == 0
    assert len(rows(tmp_path / "run.gemm.csv")) == 2
    assert "     Disposition" not in capsys.readouterr().out


def test_dry_run_lists_and_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(profile, "run_case", lambda *_: pytest.fail("it was run"))
    assert main(["profile", "--mode=dry_run", "--m=64:256:64", "--n=64", "--k=36", *TN]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert " 4 problems" in lines[0]
    assert sum("64x64x36" in line for line in lines) == sum("256x64x36" in line for line in lines)
    assert any("sm90_gemm" in line and "not supported: " in line for line in lines)


def test_enumerate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--mode=enumerate", "--kernels=sm90_gemm*bf16,simt_gemm_f32"]) == 0
    *names, count = capsys.readouterr().out.splitlines()
    assert count.startswith(f"{len(names)} of the ")
    assert all("sm90_gemm_bf16" in name or "simt_gemm_f32" in name for name in names)


@pytest.mark.parametrize("mode", ["profile", "dry_run", "enumerate"])
def test_a_filter_that_matches_nothing(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", f"--mode={mode}", "--kernels=sm90_gem_bf61"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    first, nearest, *_ = captured.err.splitlines()
    assert first.startswith("tilewright: no operation matches --kernels=sm90_gem_bf61; ")
    assert first.endswith("operations exist on this target")
    assert nearest.startswith("  nearest = tilewright_sm90_gemm_bf16_")


def test_a_wrong_result_is_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        profile, "run_case", lambda case, *_: [Result(case, "Tilewright-sim", "incorrect")]
    )
    assert main(["profile", *SMALL, "--verbose=false"]) == 1
    assert "incorrect" in capsys.readouterr().out


def test_an_interrupted_sweep_still_reports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_case(case: Any, *_: Any) -> list[Result]:
        if case.problem.m == 32:
            raise KeyboardInterrupt
        return [Result(case, "Tilewright-sim", "passed")]

    monkeypatch.setattr(profile, "run_case", run_case)
    words = [*SMALL[1:], "--m=16,32,48", f"--output={tmp_path}/run", "--verbose=false"]
    assert main(["profile", *words]) == 1
    found = [row["Disposition"] for row in rows(tmp_path / "run.gemm.csv")]
    assert found == ["passed", "not_run", "not_run"]
    assert "3 runs: 2 not_run, 1 passed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--operation=Conv2d"],
            "profile: --operation=Conv2d is not in the library, expected Gemm",
        ),
        (
            ["--verifcation-enabled=false"],
            "profile: unknown flag --verifcation-enabled\n"
            "  hint: did you mean --verification-enabled?",
        ),
        (["--m=1:0"], "--m: range '1:0' is empty"),
        (["--seed=1,2"], "--seed: '1,2', expected one number"),
        (["--append"], "profile: --append needs --output, the report to add to"),
        (["--providers=cudnn"], "--providers: 'cudnn', expected tilewright, torch, cublas"),
        (["--providers=torch"], "profile: --providers=torch compares times, which need a GPU"),
        (["--mode=trace"], "profile: argument --mode: invalid choice: 'trace'"),
        (["--output=/proc/no/run"], "--output: cannot write /proc/no/run.gemm.csv: "),
        (["--backend=gpu"], "no usable GPU: "),
    ],
)
def test_bad_input(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", *SMALL, *words]) == 2
    assert capsys.readouterr().err.startswith(f"tilewright: {message}")
