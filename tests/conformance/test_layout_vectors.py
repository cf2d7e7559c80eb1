"""The CuTe layout vectors (NVIDIA's unit tests and documents, read by the C++ headers), op by op.

The vectors and their runner live beside the project, never in it; without them this file skips.
"""

from __future__ import annotations

import importlib.util
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "conformance"
VECTORS = SHARED / "layout_vectors.json"
RUNNER = SHARED / "run_vectors.py"

# Groups of other rooms: atoms, tiled operations, shared-memory atoms, stage counts.
OTHER_ROOMS = {
    "mma_traits",
    "copy_traits",
    "smem_layout_atom",
    "gmma_smem_tile_pi",
    "tiled_mma",
    "tiled_copy",
    "tiled_copy_A",
    "tiled_copy_B",
    "tiled_copy_C",
    "tiled_copy_C_atom",
    "sm90_stage_count",
}

REFUSED = "the C++ result is not A(B(c)); we refuse it"
PADDED = "padding inside a mode (the tile runs off it): C++ pads silently, we refuse"
DIFFERENT = {
    "cpp-oracle-random-1206": PADDED,
    "cpp-oracle-random-1208": PADDED,
    "cpp-oracle-random-1402": PADDED,
    "cpp-oracle-random-1404": PADDED,
    "cpp-oracle-random-1436": PADDED,
    "cpp-oracle-random-1472": PADDED,
    "cpp-oracle-random-1474": PADDED,
    "cpp-oracle-random-1271": REFUSED,
    "cpp-oracle-random-1275": REFUSED,
    "cpp-oracle-random-1588": "the C++ copies overlap: offset 6 is in the block and in a copy",
    "pycute-unit-4119": "pycute gives size-1 modes the running stride; C++ and we give 0",
    "nvidia-cuteir-basis-3690": "the runner cannot evaluate a layout at a coordinate",
    "nvidia-cuteir-basis-3983": "the runner cannot add an int to a coordinate",
}


def _load(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _by_op() -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if VECTORS.exists():
        for vector in json.loads(VECTORS.read_text()):
            if vector["op"] not in OTHER_ROOMS:
                groups[vector["op"]].append(vector)
    return dict(sorted(groups.items()))


BY_OP = _by_op()

pytestmark = pytest.mark.skipif(not BY_OP, reason=f"no conformance vectors at {VECTORS}")


@pytest.fixture(scope="module")
def runner() -> Any:
    return _load(RUNNER, "tilewright_conformance_runner")


@pytest.fixture(scope="module")
def adapter(runner: Any) -> dict[str, Any]:
    ours = _load(Path(__file__).with_name("layout_adapter.py"), "tilewright_layout_adapter")
    base: dict[str, Any] = runner.generic_adapter(importlib.import_module("tilewright.layout"))
    return {**base, **ours.ADAPTER}


@pytest.mark.parametrize("op", BY_OP or ["none"])
def test_op(op: str, runner: Any, adapter: dict[str, Any]) -> None:
    wrong = []
    for vector in BY_OP[op]:
        try:
            ok, why = runner.run_one(vector, adapter, False)
        except Exception as error:
            ok, why = False, f"{type(error).__name__}: {error}"
        known = DIFFERENT.get(vector["id"])
        if ok and known:
            wrong.append(f"{vector['id']}: passes now; take it off the list of differences")
        if not ok and not known:
            wrong.append(f"{vector['id']} {op}{vector['args']}: {why}")
    assert not wrong, "\n".join(wrong)


def test_the_list_of_differences_names_real_vectors() -> None:
    ids = {v["id"] for vectors in BY_OP.values() for v in vectors}
    assert set(DIFFERENT) <= ids
