"""The verb `layout`: what it prints, writes and refuses."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from tilewright.errors import LayoutError
from tilewright.viz.layout_command import EXAMPLES, add_arguments, run


def layout(*words: str) -> int:
    parser = argparse.ArgumentParser(prog="tilewright layout")
    add_arguments(parser)
    return run(parser.parse_args(list(words)))


def refused(*words: str) -> str:
    with pytest.raises(LayoutError) as caught:
        layout(*words)
    return str(caught.value)


def test_explains_and_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert layout("((2,2),2):((1,4),2)") == 0
    out = capsys.readouterr().out
    for line in (
        "shape       ((2,2),2)     stride ((1,4),2)",
        "size        8 coordinates, rank 2, depth 2",
        "coalesced   (2,2,2):(1,4,2)",
        "injective   yes",
        "   3 | 5 | 7 |",
    ):
        assert line in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    layout("((2,2),2):((1,4),2)", "--json")
    facts = json.loads(capsys.readouterr().out)
    assert facts["size"] == 8
    assert facts["coalesced"] == "(2,2,2):(1,4,2)"
    assert facts["is_injective"] is True
    layout("divide", "(12,32)", "(4,8)", "--form", "zipped", "--json")
    divided = json.loads(capsys.readouterr().out)
    assert divided["result"] == "((4,8),(3,4)):((1,12),(4,96))"
    assert divided["steps"][0] == {"says": "A", "value": "(12,32):(1,12)"}
    layout("banks", "(32,32):(32,1)", "--json")
    banks = json.loads(capsys.readouterr().out)
    assert banks["ways"] == 32
    assert banks["smallest_swizzle"] == "Sw<5,0,5>"
    assert banks["addresses"][:3] == [0, 128, 256]


@pytest.mark.parametrize(
    ("words", "last"),
    [
        (["compose", "(6,2):(8,2)", "(4,3):(3,1)"], "((2,2),3):((24,2),8)"),
        (["divide", "(4,2,3):(2,1,8)", "4:2"], "((2,2),(2,3)):((4,1),(2,8))"),
        (["product", "(2,5):(5,1)", "(3,4)", "--form=blocked"], "((2,3),(5,4)):((5,10),(1,30))"),
        (["complement", "6:4", "24"], "4:1"),
        (["complement", "4:2"], "2:1"),
        (["inverse", "(4,2):(2,1)"], "(2,4):(4,1)"),
        (["inverse", "4:2", "--form=left"], "(2,4):(0,1)"),
        (["swizzle", "2,0,2", "(4,4):(4,1)"], "Sw<2,0,2> o 0 o (4,4):(4,1)"),
    ],
)
def test_operations(words: list[str], last: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert layout(*words) == 0
    derivation, _, table = capsys.readouterr().out.partition("\n\n")
    assert derivation.endswith(last)
    assert table.startswith(last)


def test_banks(capsys: pytest.CaptureFixture[str]) -> None:
    tile = ["(8,64):(64,1)", "--threads=8", "--bytes=16", "--element-bits=16"]
    layout("banks", *tile)
    out = capsys.readouterr().out
    assert "banks       8-way conflict: 8 cycles instead of 1 (8)" in out
    assert "swizzle     Sw<3,3,3> on (8,64):(64,1)" in out
    layout("banks", "Sw<3,3,3> o " + tile[0], *tile[1:])
    out = capsys.readouterr().out
    assert "banks       conflict-free: 1 phase of 1 cycle" in out
    assert "swizzle  " not in out
    layout("banks", "(4,8):(32,4096)")
    assert "swizzle     none of the 395 swizzles" in capsys.readouterr().out


def test_draw(capsys: pytest.CaptureFixture[str]) -> None:
    layout("draw", "((4,8),(2,2)):((32,1),(16,8))", "--tile", "16x8")
    out = capsys.readouterr().out
    assert "T31 V3" in out
    assert out.endswith("covers      each of the 128 elements exactly once\n")
    layout("draw", "(2,2)")
    assert capsys.readouterr().out.startswith("(2,2):(1,2)\n")
    layout("draw", "Sw<2,0,2>")
    assert capsys.readouterr().out.startswith("Sw<2,0,2>: where blocks of 1 elements go")


def test_atoms(capsys: pytest.CaptureFixture[str]) -> None:
    layout("atom", "SM80_16x8x16_F32BF16BF16F32_TN")
    out = capsys.readouterr().out
    assert "computes    16x8x16: f32 = bf16 * bf16 + f32" in out
    assert "A           ((4,8),(2,2,2)):((32,1),(16,8,128))" in out
    layout("atom", "SM90_64x128x16_F32BF16BF16_SS_KN")
    assert "in shared memory, MN-major, through a descriptor" in capsys.readouterr().out
    layout("atom", "SM75_U32x4_LDSM_N", "--json")
    assert json.loads(capsys.readouterr().out)["source"] == "(32,128):(128,1)"


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    svg, tex = tmp_path / "a.svg", tmp_path / "a.tex"
    assert layout("draw", "(4,4)", "--svg", str(svg), "--latex", str(tex)) == 0
    assert svg.read_text().startswith("<svg ")
    assert tex.read_text().startswith("\\documentclass")
    shown = capsys.readouterr()
    assert shown.out.startswith("(4,4):(1,4)")
    assert f"wrote {svg}" in shown.err
    layout("draw", "(4,4)", "--latex")
    assert capsys.readouterr().out.startswith("\\documentclass")
    layout("draw", "(4,4)", "--svg", "-")
    assert capsys.readouterr().out.startswith("<svg ")


def test_explore(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "explorer.html"
    assert layout("--explore", str(page)) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert f"wrote {page} (" in capsys.readouterr().out
    assert layout("(4,4)", "--explore", str(page)) == 0
    assert "(4,4):(1,4)" in capsys.readouterr().out


def test_examples_of_the_help_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for example in EXAMPLES:
        words = [w.strip('"') for w in example.removeprefix("tilewright layout ").split(" ")]
        assert layout(*words) == 0


def test_refusals() -> None:
    assert refused("(4,8:1").startswith("parse_layout: expected ',' or ')' before position")
    assert "expected a number, '(' or '_' before position 9" in refused("(4,8):(1,x)")
    assert "different profiles: (4,8) against 1" in refused("(4,8):1")
    assert "nothing to do, expected a layout or a verb" in refused()
    assert "hint: did you mean compose?" in refused("compos", "4", "2")
    assert "'frobnicate' is not a verb, expected one of explain, compose," in refused("frobnicate")
    assert "layout compose: 1 operands, expected A B" in refused("compose", "4:1")
    assert "expected three numbers B,M,S" in refused("swizzle", "3-4", "8")
    assert "--tile: '16', expected MxN as in 16x8" in refused("draw", "(4,2):(1,4)", "--tile=16")
    assert "a thread-value layout has no swizzle" in refused(
        "draw", "Sw<1,0,1> o 0 o (2,2)", "--tile=2x2"
    )
    assert "6:3 of B does not walk mode 0 of A" in refused("compose", "(4,6,8):(2,3,5)", "6:3")
    assert "an access of 3 bytes" in refused("banks", "32:1", "--bytes=3")
    assert "divide: no form 'x'" in refused("divide", "8", "2", "--form=x")
    message = refused("atom", "SM80_16x8x16_F32BF16")
    assert "'SM80_16x8x16_F32BF16' is none of the" in message
    assert "SM80_16x8x16_F32BF16BF16F32_TN" in message
    assert "near names" not in refused("atom", "????")
