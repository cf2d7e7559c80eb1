"""The vectors of instructions and shared-memory tiles: what NVIDIA's C++ headers say of each.

The vectors and their runner live beside the project, never in it; without them this file skips.
"""

from __future__ import annotations

import importlib.util
import json
import runpy
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SHARED = HERE.parents[1].parent / "shared" / "conformance"
VECTORS = SHARED / "layout_vectors.json"
ATOMS: dict[str, Any] = runpy.run_path(str(HERE / "atoms_adapter.py"))["ATOMS"]
COUNTS = {"mma_traits": 115, "copy_traits": 193, "smem_layout_atom": 56}

DIFFERENT = {
    "SM80_16x8x128_S32U1U1S32_TN_ANDPOPC": "the header nests A's value stride one level too deep, "
    "((16,8),): no layout, and the runner cannot evaluate it; ours is that of its sibling x256",
}

pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason=f"no vectors at {VECTORS}")


def _by_op() -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if VECTORS.exists():
        for vector in json.loads(VECTORS.read_text()):
            if vector["op"] in ATOMS:
                groups[vector["op"]].append(vector)
    return groups


BY_OP = _by_op()


@pytest.fixture(scope="module")
def run_one() -> Any:
    spec = importlib.util.spec_from_file_location("atom_runner", SHARED / "run_vectors.py")
    assert spec is not None
    assert spec.loader is not None
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    # Coordinates compared per layout: tests/arch compares the same layouts letter by letter, and
    # the runner's own 4096 take half a minute.
    runner.CAP = 256
    ours = runpy.run_path(str(HERE / "layout_adapter.py"))["ADAPTER"]
    adapter = {**runner.generic_adapter(importlib.import_module("tilewright.layout")), **ours}
    return lambda vector: runner.run_one(vector, adapter, False)


@pytest.mark.parametrize("op", ATOMS)
def test_op(op: str, run_one: Any) -> None:
    wrong = []
    assert len(BY_OP[op]) >= COUNTS.get(op, 1)
    for vector in BY_OP[op]:
        name = vector["args"][0]
        if name in DIFFERENT:
            with pytest.raises(TypeError):
                run_one(vector)
            continue
        ok, why = run_one(vector)
        if not ok:
            wrong.append(f"{vector['id']} {op}{vector['args']}: {why}")
    assert not wrong, "\n".join(wrong)


def test_every_field_is_answered() -> None:
    """The runner passes over a field that is not answered; we answer them all."""
    for op in ("mma_traits", "copy_traits"):
        for vector in BY_OP[op]:
            assert set(ATOMS[op](vector["args"][0])) == set(vector["expected"])
