"""Our rows against the thread-value layouts that NVIDIA's headers print.

The vectors lie beside the repository (../shared/conformance); without them the tests are skipped.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tilewright.arch.copy.registry import ALL_COPY_ATOMS, copy_atom
from tilewright.arch.mma.registry import ALL_MMA_ATOMS, mma_atom
from tilewright.arch.smem import smem_layout_atom, stage_count
from tilewright.layout.multiply import tile_to_shape
from tilewright.numeric.dtypes import F16, F32, F64, I8

VECTORS = Path(__file__).parents[3] / "shared" / "conformance" / "layout_vectors.json"
DTYPES = {"half_t": F16, "float": F32, "int8_t": I8, "double": F64}
SPANS = {"INTER": 16, "SW32": 32, "SW64": 64, "SW128": 128}


@cache
def vectors(op: str) -> list[dict[str, Any]]:
    if not VECTORS.exists():
        pytest.skip(f"the conformance vectors are not at {VECTORS}")
    return [v for v in json.loads(VECTORS.read_text()) if v["op"] == op]


def our_name(name: str) -> str:
    """Our name of an MMA atom of CuTe's."""
    if name == "UniversalFMA<float>":
        return "UniversalFMA_F32"
    majors = re.fullmatch(r"(.*)<GMMA::Major::(\w+),GMMA::Major::(\w+)>", name)
    if majors:
        return majors[1] + "_" + ("K" if majors[2] == "K" else "M") + majors[3][-1]
    return re.sub(r"_TN(<>)?$", "_KK", name) if re.search("_(SS|RS)_TN", name) else name


def test_mma_atoms() -> None:
    known = {atom.name for atom in ALL_MMA_ATOMS}
    compared = 0
    for vector in vectors("mma_traits"):
        if our_name(vector["args"][0]) not in known:
            continue
        atom, expected = mma_atom(our_name(vector["args"][0])), vector["expected"]
        compared += 1
        types = (atom.d_dtype, atom.a_dtype, atom.b_dtype, atom.c_dtype)
        assert [t.bits for t in types] == expected["bits"]
        assert "({},{},{})".format(*atom.shape_mnk) == expected["Shape_MNK"]
        assert str(atom.thr_id) == expected["ThrID"]
        layouts = (str(atom.layout_a), str(atom.layout_b), str(atom.layout_c))
        assert layouts == tuple(expected[f"{w}Layout"] for w in "ABC"), atom.name
    # All 24 wgmmas, 8 fp8, 3 f64 of sm_90, 17 of sm_80 that we have, one FMA.
    assert compared == 53


def test_copy_atoms() -> None:
    names = {"UniversalCopy<uint128_t>": "UniversalCopy_128b"}
    names |= {"UniversalCopy<float>": "UniversalCopy_32b"}
    names |= {"SM80_CP_ASYNC_CACHEALWAYS<uint128_t>": "SM80_CP_ASYNC_CACHEALWAYS_128b"}
    known = {atom.name for atom in ALL_COPY_ATOMS}
    compared = 0
    for vector in vectors("copy_traits"):
        name = names.get(vector["args"][0], vector["args"][0])
        if name not in known:
            continue
        atom, expected = copy_atom(name), vector["expected"]
        compared += 1
        assert str(atom.thr_id) == expected["ThrID"]
        layouts = [str(x) for x in (atom.src_layout, atom.dst_layout, atom.ref_layout)]
        assert layouts == [expected[f"{w}Layout"] for w in ("Src", "Dst", "Ref")], name
    assert compared == 15


def test_smem_layout_atoms() -> None:
    """CuTe prints the swizzle on byte addresses, ours acts on elements: M is log2(size) less."""
    for vector in vectors("smem_layout_atom"):
        _, major, mode, cpp_type = vector["args"]
        dtype = DTYPES[cpp_type]
        atom = smem_layout_atom(major, SPANS[mode], dtype)
        shift = (dtype.storage_bits // 8).bit_length() - 1
        swizzle = f"Sw<{atom.inner.bits},{atom.inner.base + shift},{atom.inner.shift}>"
        assert f"{swizzle} o 0 o {atom.outer}" == vector["expected"]


def test_tiles_of_smem_layout_atoms() -> None:
    for vector in vectors("gmma_smem_tile_pi"):
        major, mode, cpp_type, shape = vector["args"]
        extents = tuple(int(x) for x in re.findall(r"\d+", shape))
        tile = tile_to_shape(smem_layout_atom(major, SPANS[mode], DTYPES[cpp_type]), extents)
        # Without swizzle CuTe drops the identity in front.
        text = str(tile.outer) if mode == "INTER" else str(tile)
        assert text == vector["expected"]


def test_stage_counts() -> None:
    for vector in vectors("sm90_stage_count"):
        tile, a_bits, b_bits, carveout = vector["args"]
        m, n, k = (int(x) for x in re.findall(r"\d+", tile))
        count = stage_count((m, n, k), int(a_bits), int(b_bits), int(carveout))
        assert count == int(vector["expected"])
