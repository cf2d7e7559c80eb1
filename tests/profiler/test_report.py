from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.errors import TilewrightError
from tilewright.library.reference import Verification
from tilewright.profiler.operations import Operation
from tilewright.profiler.report import (
    block,
    counter_table,
    record,
    require_writable,
    sort_by_speed,
    summary,
    write_csv,
)
from tilewright.profiler.run import Result
from tilewright.profiler.sweep import Case
from tilewright.profiler.timing import Ratio, Timing

OP = Operation("simt_gemm", "f16", "f16", "row", "column", "row")
CASE = Case(1, OP, "tilewright_simt_gemm_f16", OP.problem(64, 32, 16), None, 1.0, 0.0)
GOOD = {"host": Verification(True, 0.5, 1e-3, (0, 0), "verified: all of it")}
TIMED = Result(CASE, "Tilewright", "passed", verification=GOOD, timing=Timing((2.0, 2.0, 2.0)))
SIMULATED = Result(
    CASE,
    "Tilewright-sim",
    "passed",
    verification=GOOD,
    counters={"flops": 7, "instructions.mma": 3},
    wall_s=0.25,
)

COLUMNS = [
    *("Problem", "Provider", "OperationKind", "Operation", "Disposition", "Status"),
    *("gemm_kind", "m", "n", "k", "A", "B", "C", "D", "alpha", "beta", "accum"),
    *("cta_m", "cta_n", "cta_k", "cluster_m", "cluster_n", "cluster_k", "stages"),
    *("Bytes", "Flops", "Flops/Byte", "Runtime", "GB/s", "GFLOPs"),
]


def test_columns_are_cutlass_s() -> None:
    assert list(record(TIMED)) == COLUMNS
    assert list(record(SIMULATED)) == [*COLUMNS, "sim.flops"]
    assert list(record(TIMED, [("machine", "h200")])) == ["machine", *COLUMNS]


def test_a_timed_row() -> None:
    row = record(TIMED)
    flops, moved = 2 * 64 * 32 * 16 + 2 * 64 * 32, 2 * (64 * 16 + 16 * 32 + 64 * 32)
    assert (row["Flops"], row["Bytes"]) == (str(flops), str(moved))
    assert row["Runtime"] == "0.002000"
    assert float(row["GFLOPs"]) == pytest.approx(flops / 2e-6 / 1e9, abs=0.01)
    assert float(row["GB/s"]) == pytest.approx(moved / 2e-6 / 2**30, abs=0.01)
    assert (row["C"], row["D"]) == ("void:row", "f16:row")


def test_no_speed_where_there_is_no_time_or_no_right_result() -> None:
    assert record(SIMULATED)["Runtime"] == record(SIMULATED)["GFLOPs"] == ""
    wrong = record(replace(TIMED, disposition="incorrect"))
    assert (wrong["Runtime"], wrong["GB/s"], wrong["GFLOPs"]) == ("0.002000", "", "")


def test_csv_is_written_and_added_to(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.gemm.csv"
    write_csv([TIMED], path, [("a", "1")], append=False)
    write_csv([TIMED, TIMED], path, [("a", "2")], append=True)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["a"] for row in rows] == ["1", "2", "2"]
    write_csv([SIMULATED], path, [], append=False)
    assert len(path.read_text().splitlines()) == 2
    write_csv([TIMED], path, [], append=True)  # fewer columns: the others stay empty
    with path.open() as file:
        assert [row["sim.flops"] for row in csv.DictReader(file)] == ["7", ""]


def test_csv_with_other_columns(tmp_path: Path) -> None:
    path = tmp_path / "run.gemm.csv"
    write_csv([TIMED], path, [], append=False)
    with pytest.raises(TilewrightError) as caught:
        write_csv([SIMULATED], path, [], append=True)
    assert caught.value.message == f"--append: {path} has no column 'sim.flops'"
    assert caught.value.hint == "give the same --tags and backend as before, or another --output"


def test_csv_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "run.gemm.csv"
    with pytest.raises(TilewrightError, match=f"--output: cannot write {path}: "):
        require_writable(path)


def test_block() -> None:
    text = block(TIMED)
    assert "     Disposition: passed" in text
    assert "  reference_host: verified: all of it" in text
    assert "         Runtime: 0.0020 ms (spread 0.0%)" in text
    assert "--m=64 --n=32 --k=16 --A=f16:row --B=f16:column --D=f16:row" in text
    assert "void" not in text
    simulated = block(SIMULATED)
    assert "Simulated: in 0.25 s on the CPU; no GPU time" in simulated
    assert "Runtime" not in simulated


def test_block_with_a_peer() -> None:
    against = replace(TIMED, ratios={"torch": Ratio(1.02, 0.99, 1.05, 0.01)})
    text = "     Against torch: 1.020 of its speed (rounds 0.990 to 1.050)"
    assert text in block(against)


def test_counter_table_leaves_zeros_out() -> None:
    assert counter_table({"flops": 0, "instructions": 5}).split() == ["instructions", "5"]


def test_summary() -> None:
    slow = replace(TIMED, timing=Timing((4.0,)))
    refused = Result(CASE, "Tilewright", "not_supported", "K = 3")
    peer = replace(TIMED, provider="torch")
    assert summary([slow, TIMED, refused, peer]) == (
        "3 runs: 2 passed, 1 not_supported; best 0.0 TFLOP/s, tilewright_simt_gemm_f16 at "
        "64x32x16; verified 2 of 2 by host"
    )
    assert summary([SIMULATED]) == "1 run: 1 passed; no times (simulated); verified 1 of 1 by host"
    assert summary([refused]) == "1 run: 1 not_supported; nothing verified"


def test_sort_by_speed() -> None:
    slow = replace(TIMED, timing=Timing((4.0,)))
    assert sort_by_speed([SIMULATED, slow, TIMED]) == [TIMED, slow, SIMULATED]
