"""Our rows against what NVIDIA's headers print, letter by letter.

`tests/conformance` compares functions; here also the modes are the same, so that slices and
printed fragments are.  The vectors lie beside the repository; without them the tests are skipped.
"""

import json
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tilewright.arch.copy.registry import copy_atom

TESTS = Path(__file__).parents[1]
VECTORS = TESTS.parents[1] / "shared" / "conformance" / "layout_vectors.json"
ADAPTER = runpy.run_path(str(TESTS / "conformance" / "atoms_adapter.py"))
MALFORMED = {"SM80_16x8x128_S32U1U1S32_TN_ANDPOPC"}


@cache
def vectors(op: str) -> list[dict[str, Any]]:
    if not VECTORS.exists():
        pytest.skip(f"the conformance vectors are not at {VECTORS}")
    return [v for v in json.loads(VECTORS.read_text()) if v["op"] == op]


def test_mma_atoms() -> None:
    for vector in vectors("mma_traits"):
        name, expected = vector["args"][0], vector["expected"]
        if name in MALFORMED:
            continue
        atom = ADAPTER["our_mma"](name)
        layouts = [str(x) for x in (atom.thr_id, atom.layout_a, atom.layout_b, atom.layout_c)]
        # Of 4-bit factors CuTe wraps a mode that stands alone: (8,).
        theirs = [expected[f].replace("(8,)", "8") for f in ("ThrID", "ALayout", "BLayout")]
        assert layouts == [*theirs, expected["CLayout"]], name
        assert list(atom.operand_bits) == expected["bits"], name


def test_copy_atoms() -> None:
    for vector in vectors("copy_traits"):
        name, expected = vector["args"][0], vector["expected"]
        atom = copy_atom(ADAPTER["our_copy_name"](name))
        layouts = [atom.thr_id, atom.src_layout, atom.dst_layout, atom.ref_layout]
        fields = ("ThrID", "SrcLayout", "DstLayout", "RefLayout")
        assert [str(x) for x in layouts] == [expected[f] for f in fields], name
