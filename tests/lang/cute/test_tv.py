"""Tiled copies and MMAs against the vectors of NVIDIA's own code, and the law of retile."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tilewright.arch.copy.registry import copy_atom
from tilewright.errors import LayoutError
from tilewright.lang.cute import tv
from tilewright.layout.int_tuple import fmt
from tilewright.layout.layout import Layout, make_identity_layout
from tilewright.layout.leaf import add
from tilewright.layout.modes import size

_FOUND = [p / "shared/conformance/layout_vectors.json" for p in Path(__file__).resolve().parents]
_FILE = next((p for p in _FOUND if p.exists()), None)
VECTORS = json.loads(_FILE.read_text()) if _FILE else []
TRAITS = {v["args"][0]: v["expected"] for v in VECTORS if v["op"].endswith("_traits")}
_COPIES = {
    "UniversalCopy<float>": "UniversalCopy_32b",
    "UniversalCopy<uint128_t>": "UniversalCopy_128b",
    "SM80_CP_ASYNC_CACHEALWAYS<uint128_t>": "SM80_CP_ASYNC_CACHEALWAYS_128b",
    "SM80_CP_ASYNC_CACHEALWAYS<uint64_t>": "SM80_CP_ASYNC_CACHEALWAYS_64b",
}
_BITS = {"float": 32, "half_t": 16}


def parse(text: str) -> Any:
    """An IntTuple or Layout in standard notation; `*` is None; nested layouts in tuples."""
    source = re.sub(r"_(\d)", r"\1", text).replace("*", "None")
    tokens = re.findall(r"None|-?\d+|[(),:]", source)
    at = 0

    def atom() -> Any:
        nonlocal at
        token = tokens[at]
        at += 1
        if token != "(":
            return None if token == "None" else int(token)
        items = []
        while tokens[at] != ")":
            items.append(layout())
            if tokens[at] == ",":
                at += 1
        at += 1
        return tuple(items)

    def layout() -> Any:
        nonlocal at
        first = atom()
        if at < len(tokens) and tokens[at] == ":":
            at += 1
            return Layout(first, atom())
        return first

    return layout()


def as_layout(text: str) -> Layout:
    found = parse(text)
    return found if isinstance(found, Layout) else Layout(found)


def same(a: Layout, b: Layout) -> bool:
    return size(a) == size(b) and all(a(i) == b(i) for i in range(size(b)))


def mma_tiling(atom: str, atom_layout: str, permutation: str) -> tv.MmaTiling:
    traits = TRAITS.get(atom) or TRAITS[atom.replace("<K,K>", "<GMMA::Major::K,GMMA::Major::K>")]
    mnk = parse(traits["Shape_MNK"])
    layouts = [as_layout(traits[key]) for key in ("ThrID", "ALayout", "BLayout", "CLayout")]
    return tv.MmaTiling(mnk, *layouts, as_layout(atom_layout), parse(permutation))


def coordinates(layout: Layout, offset: Any) -> list[tuple[int, int]]:
    places = (add(offset, layout(i)) for i in range(size(layout)))
    return [tuple((*(p if isinstance(p, tuple) else ()), 0, 0)[:2]) for p in places]


def check_partition(expected: dict[str, Any], part: Any, which: str) -> None:
    for thread, coords in expected[f"partition_{which}_coords"].items():
        layout, offset = part(int(thread))
        wanted = [parse(c) for c in coords]
        assert coordinates(layout, offset)[: len(wanted)] == wanted, (which, thread)
        if thread == "0":
            assert fmt(layout.shape) == expected[f"partition_{which}_shape"]


def _known(v: dict[str, Any]) -> bool:
    return v["args"][0] in TRAITS or "SM90" not in v["args"][0]


@pytest.mark.skipif(not VECTORS, reason="the conformance vectors are not here")
@pytest.mark.parametrize(
    "v", [v for v in VECTORS if v["op"] == "tiled_mma" and _known(v)], ids=lambda v: v["id"]
)
def test_tiled_mma(v: dict[str, Any]) -> None:
    expected = v["expected"]
    tiling = mma_tiling(*v["args"])
    assert same(tiling.thr_layout_vmnk, as_layout(expected["thr_layout_vmnk"]))
    assert tiling.num_threads == expected["num_threads"]
    assert tiling.tile_mnk() == parse(expected["tile_mnk"])
    m, n, k = tiling.tile_mnk()
    shapes = {"A": (m, 2 * k), "B": (2 * n, k), "C": (2 * m, n)}
    for which, shape in shapes.items():
        assert same(tiling.tv(which), as_layout(expected[f"layout{which}_TV"])), which
        identity = make_identity_layout(shape)
        check_partition(expected, lambda t, w=which, x=identity: tiling.partition(x, w, t), which)


def copy_tiling(v: dict[str, Any]) -> tv.CopyTiling:
    name, kind = v["args"][0].split(",")
    row, bits = copy_atom(_COPIES.get(name, name)), _BITS[kind]
    sides = [tv.in_values(x, bits) for x in (row.ref_layout, row.src_layout, row.dst_layout)]
    if v["op"] == "tiled_copy":
        tiler, layout = tv.make_layout_tv(*(as_layout(x) for x in v["args"][1:3]))
        return tv.CopyTiling(tiler, layout, *sides)
    mma = mma_tiling(*v["args"][1:4])
    if v["op"] == "tiled_copy_C_atom":
        return tv.CopyTiling(*tv.c_atom_tiling(sides[1], mma), *sides)
    which = v["op"][-1]
    i, j = mma.axes(which)
    tile = mma.tile_mnk()
    return tv.CopyTiling((tile[i], tile[j]), mma.tv(which), *sides)


@pytest.mark.skipif(not VECTORS, reason="the conformance vectors are not here")
@pytest.mark.parametrize(
    "v", [v for v in VECTORS if v["op"].startswith("tiled_copy")], ids=lambda v: v["id"]
)
def test_tiled_copy(v: dict[str, Any]) -> None:
    expected = v["expected"]
    tiling = copy_tiling(v)
    tiling.check()
    assert tiling.num_threads == expected["num_threads"]
    assert same(tiling.layout_tv, as_layout(expected["layout_TV"]))
    m, n = tv.tile_size(tiling.tiler)
    identity = make_identity_layout((2 * m, n))
    for which, side in (("S", tiling.src), ("D", tiling.dst)):
        assert same(tiling.tv(side), as_layout(expected[f"layout{which}_TV"])), which
        check_partition(expected, lambda t, s=side: tiling.partition(identity, s, t), which)


@pytest.mark.skipif(not VECTORS, reason="the conformance vectors are not here")
@pytest.mark.parametrize("which", ["A", "B", "C"])
@pytest.mark.parametrize("copy", ["SM75_U32x4_LDSM_N", "SM75_U32x2_LDSM_N", "UniversalCopy_32b"])
def test_retile_names_the_values_of_its_own_partition(which: str, copy: str) -> None:
    """Law: a register of the MMA's fragment, seen through retile, holds the element that the copy's
    own partition of the tile has at the same place."""
    mma = mma_tiling("SM80_16x8x16_F32F16F16F32_TN", "(2,2,1):(1,2,0)", "(32,32,16)")
    i, j = mma.axes(which)
    tile = mma.tile_mnk()
    row, bits = copy_atom(copy), 16
    sides = [tv.in_values(x, bits) for x in (row.ref_layout, row.src_layout, row.dst_layout)]
    tiling = tv.CopyTiling((tile[i], tile[j]), mma.tv(which), *sides)
    whole = make_identity_layout((2 * tile[i], 2 * tile[j]))
    for thread in (0, 1, 37, 127):
        mine, offset = mma.partition(whole, which, thread)
        elements = coordinates(mine, offset)
        fragment = Layout(mine.shape)  # register number i holds elements[i]
        through = tiling.retile(fragment)
        theirs, start = tiling.partition(whole, tiling.ref, thread)
        wanted = coordinates(theirs, start)
        assert [elements[through(x)] for x in range(size(through))] == wanted


def test_instructions_must_tile_threads_and_values() -> None:
    row = copy_atom("SM75_U32x4_LDSM_N")
    sides = [tv.in_values(x, 16) for x in (row.ref_layout, row.src_layout, row.dst_layout)]
    tiler, layout = tv.make_layout_tv(Layout((8, 2)), Layout((1, 8)))
    with pytest.raises(LayoutError, match=r"16 threads are not whole instructions of 32 threads"):
        tv.CopyTiling(tiler, layout, *sides).check()
    tiler, layout = tv.make_layout_tv(Layout((8, 4)), Layout((1, 4)))
    with pytest.raises(LayoutError, match=r"4 values are not whole instructions of 8 values"):
        tv.CopyTiling(tiler, layout, *sides).check()


def test_rank_of_a_partitioned_tensor() -> None:
    one = Layout((1, 1), (0, 1))
    tiler, layout = tv.make_layout_tv(Layout((8, 4)), Layout((1, 1)))
    tiling = tv.CopyTiling(tiler, layout, one, one, one)
    with pytest.raises(LayoutError, match=r"has fewer modes than the tile \(8,4\)"):
        tiling.partition(Layout(32), one, 0)
