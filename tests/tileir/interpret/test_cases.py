"""Every entry among NVIDIA's accepted Tile IR cases runs, without a fault of ours."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tileir_report as report

from tilewright.ir.ops.tile import module
from tilewright.ir.ops.tile.base import tile_type
from tilewright.ir.tile_types import NumberType, PointerType, TileType
from tilewright.tileir.check import check_text
from tilewright.tileir.foreign import ForeignOp
from tilewright.tileir.interpret.machine import Options, compile_entry
from tilewright.tileir.verify import VerifyOptions

CASES = [case for case in report.load() if case["oracle_accepts"]]


def entries(case: dict[str, Any]) -> Iterator[tuple[module.Module, module.Entry]]:
    """The entries that can be launched: parameters are tiles, operations Tile IR's."""
    block = check_text(case["text"], case["id"], VerifyOptions(testing=True)).block
    for top in block.ops if block is not None else ():
        if isinstance(top, module.Module):
            for op in top.body.ops:
                if isinstance(op, module.Entry) and _can_run(op):
                    yield top, op


def _can_run(op: module.Entry) -> bool:
    foreign = any(isinstance(inner, ForeignOp) for inner in op.body.walk())
    return not foreign and all(isinstance(p.type, TileType) for p in op.body.args)


def argument(t: TileType) -> Any:
    element = t.element
    if isinstance(element, PointerType):
        return np.zeros(4096, np.uint8)
    assert isinstance(element, NumberType), "a parameter is a number or a pointer"
    return 1.0 if element.is_float else 1


@pytest.mark.skipif(not CASES, reason=f"no Tile IR cases at {report.CASES}")
@pytest.mark.parametrize("adversarial", [False, True])
def test_accepted_entries_run(adversarial: bool) -> None:
    options = Options(adversarial=adversarial, raise_on_findings=False, max_iterations=50)
    ran = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for case in CASES:
            for top, entry in entries(case):
                args = [argument(tile_type(p.type)) for p in entry.body.args]
                compile_entry(top, entry.sym_name, options).run((2, 1, 1), args)
                ran += 1
    assert ran > 100
