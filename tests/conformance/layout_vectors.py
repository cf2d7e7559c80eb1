"""The CuTe layout vectors, op by op, and where we differ from them on purpose.

They are NVIDIA's own unit tests and documents, read by the C++ headers.  They and their runner lie
beside the project, never in it.
"""

from __future__ import annotations

import importlib.util
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import layout_adapter

import tilewright.layout

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "conformance"
VECTORS = SHARED / "layout_vectors.json"
RUNNER = SHARED / "run_vectors.py"

# Groups with tests of their own: atoms, shared-memory atoms, stage counts.
OTHER_ROOMS = {
    "mma_traits",
    "copy_traits",
    "smem_layout_atom",
    "gmma_smem_tile_pi",
    "sm90_stage_count",
}

REFUSED = "the C++ result is not A(B(c)) on all of B, and no layout is; we refuse"
PADDED = (
    "the tile runs off the end of a mode inside another: C++ pads silently, so that coordinates "
    "inside the domain leave the layout; we refuse (rule PADDING)"
)
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


def load_runner() -> Any:
    """The runner of the vectors, as a module."""
    spec = importlib.util.spec_from_file_location("tilewright_conformance_runner", RUNNER)
    assert spec is not None, RUNNER
    assert spec.loader is not None, RUNNER
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def adapter(runner: Any) -> dict[str, Any]:
    """Op name -> our function."""
    base: dict[str, Any] = runner.generic_adapter(tilewright.layout)
    return {**base, **layout_adapter.ADAPTER}


def outcome(vector: dict[str, Any], runner: Any, ours: dict[str, Any]) -> tuple[bool, str]:
    """Whether one vector passes, and why not."""
    try:
        ok, why = runner.run_one(vector, ours, False)
    except Exception as error:
        return False, f"{type(error).__name__}: {error}"
    return bool(ok), str(why)


DIFFERENT_ATOMS = {
    "atoms-4133": "the header nests A's value stride one level too deep, `((16,8),)`: no layout, "
    "and the runner cannot evaluate it; our row is that of its sibling x256",
}


def by_op(everything: bool = False) -> dict[str, list[dict[str, Any]]]:
    """The vectors of the algebra, or of everything; empty where they are not at hand."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if VECTORS.exists():
        for vector in json.loads(VECTORS.read_text()):
            if everything or vector["op"] not in OTHER_ROOMS:
                groups[vector["op"]].append(vector)
    return dict(sorted(groups.items()))
