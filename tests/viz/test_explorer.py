"""The explorer page computes what the Python computes."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from chromium import answers, browse, needs_chromium

from tilewright.arch.copy.registry import copy_atom, every_copy_atom
from tilewright.arch.mma.atom import MmaAtom
from tilewright.arch.mma.registry import every_mma_atom, mma_atom
from tilewright.errors import LayoutError
from tilewright.layout.analysis import Access, bank_conflicts
from tilewright.layout.modes import coalesce, size
from tilewright.layout.swizzle_search import smallest_swizzle
from tilewright.layout.text import read_layout, read_swizzle, read_tiler
from tilewright.viz.derive import (
    DIVIDES,
    INVERSES,
    PRODUCTS,
    Derivation,
    Step,
    derive_complement,
    derive_composition,
    derive_divide,
    derive_inverse,
    derive_product,
    derive_swizzle,
)
from tilewright.viz.explain import layout_facts
from tilewright.viz.explorer_page import SCRIPTS, explorer_html, write_explorer

Case = dict[str, Any]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_explorer(tmp_path_factory.mktemp("explorer") / "explorer.html")


# ---------------------------------------------------------------- the same cases in Python


def derive(op: str, a: str, b: str = "") -> Derivation:
    layout, form = read_layout(a), op.partition("/")[2]
    if op == "coalesce":
        merged = coalesce(layout)
        return Derivation((Step("A", str(layout)), Step("coalesced", str(merged))), merged)
    if op == "compose":
        return derive_composition(layout, read_tiler(b))
    if op == "complement":
        return derive_complement(layout, read_tiler(b) if b else None)
    if op.startswith("divide/"):
        return derive_divide(layout, read_tiler(b), form)
    if op.startswith("product/"):
        read: Any = read_layout if form in ("blocked", "raked") else read_tiler
        return derive_product(layout, read(b), form)
    assert op.startswith("inverse/")
    return derive_inverse(layout, form)


def shown(derivation: Derivation) -> Any:
    result = derivation.result
    few = size(result) <= 256
    return {
        "steps": [[step.says, step.value] for step in derivation.steps],
        "result": str(result),
        "offsets": [result(i) for i in range(size(result))] if few else None,
    }


def banks(a: str, threads: str | None, width: int, bits: int | None) -> Any:
    layout, lanes = read_layout(a), read_layout(threads) if threads else None
    report = bank_conflicts(layout, lanes, width, bits)
    choice = smallest_swizzle(layout, Access(lanes, width, bits))
    found = str(choice.swizzle) if choice.swizzle else None
    return {"ways": [p.ways for p in report.phases], "smallest": found}


def atom_owners(name: str, which: str) -> dict[str, list[list[int]]]:
    atom = next((a for a in every_mma_atom() if a.name == name), None) or copy_atom(name)
    unit = 1
    if isinstance(atom, MmaAtom):
        layout = {"A": atom.layout_a, "B": atom.layout_b, "C": atom.layout_c}[which]
    else:
        layout = atom.src_layout if which == "source" else atom.dst_layout
        unit = 32
    held: dict[str, list[list[int]]] = {}
    for value in range(size(layout[1]) // unit):
        for thread in range(size(layout[0])):
            index = layout((thread, value * unit)) // unit
            held.setdefault(str(index), []).append([atom.thr_id(thread), value])
    return held


def expected(case: Case) -> Any:
    kind, args = case["kind"], case["args"]
    try:
        if kind == "derive":
            return shown(derive(*args))
        if kind == "swizzle":
            return shown(derive_swizzle(read_swizzle(args[0]), read_layout(args[1])))
        if kind == "facts":
            facts = layout_facts(read_layout(args[0])).as_dict()
            return {k: v for k, v in facts.items() if k != "modes"}
        if kind == "banks":
            return banks(*args)
        return atom_owners(*args)
    except LayoutError:
        return "refused"


# ---------------------------------------------------------------- random cases

EXTENTS = [1, 2, 2, 3, 4, 4, 5, 6, 8]


def random_tuple(draw: random.Random, most: int = 3) -> Any:
    modes: list[Any] = []
    for _ in range(draw.randint(1, most)):
        nested = draw.random() < 0.25
        leaf = [draw.choice(EXTENTS) for _ in range(2 if nested else 1)]
        modes.append(tuple(leaf) if nested else leaf[0])
    return tuple(modes) if len(modes) > 1 or draw.random() < 0.3 else modes[0]


def text(t: Any) -> str:
    if isinstance(t, tuple):
        return "(" + ",".join(map(text, t)) + (",)" if len(t) == 1 else ")")
    return str(t)


def random_layout(draw: random.Random, most: int = 3) -> str:
    shape = random_tuple(draw, most)
    if draw.random() < 0.4:
        return text(shape)

    flat: list[int] = []

    def leaves(t: Any) -> None:
        for x in t if isinstance(t, tuple) else (t,):
            if isinstance(x, tuple):
                leaves(x)
            else:
                flat.append(x)

    leaves(shape)
    order = list(range(len(flat)))
    draw.shuffle(order)
    strides, current = [0] * len(flat), 1
    for at in order:
        strides[at] = current
        current *= flat[at] * draw.choice([1, 1, 1, 2])
    if draw.random() < 0.2:
        strides[draw.randrange(len(flat))] = draw.choice([0, 1, 3, -2])
    values = iter(strides)

    def rebuild(t: Any) -> Any:
        return tuple(rebuild(x) for x in t) if isinstance(t, tuple) else next(values)

    layout = f"{text(shape)}:{text(rebuild(shape))}"
    swizzle = draw.choice(["1,0,2", "2,1,2", "1,2,3"])
    return f"Sw<{swizzle}> o 0 o {layout}" if draw.random() < 0.1 else layout


def random_tiler(draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.25:
        return str(draw.choice([2, 3, 4, 6]))
    if kind < 0.45:
        return text(tuple(draw.choice([1, 2, 4]) for _ in range(draw.randint(1, 2))))
    if kind < 0.55:
        return f"({draw.choice([2, 4])},_)"
    if kind < 0.65:
        return f"<{draw.choice([2, 4])}:{draw.choice([1, 2])},2:1>"
    return random_layout(draw, 2).rpartition(" o ")[2]


def random_cases(count: int, seed: int) -> list[Case]:
    draw = random.Random(seed)
    operations = ["compose"] * 6 + ["complement"] * 3 + ["coalesce"]
    operations += [f"divide/{form}" for form in DIVIDES]
    operations += [f"product/{form}" for form in PRODUCTS]
    operations += [f"inverse/{form}" for form in INVERSES]
    cases: list[Case] = []
    while len(cases) < count:
        kind = draw.random()
        if kind < 0.7:
            op = draw.choice(operations)
            if op == "coalesce" or op.startswith("inverse"):
                args = [op, random_layout(draw)]
            elif op == "complement":
                args = [op, random_layout(draw, 2), draw.choice(["", "24", "96", "(8,12)", "64"])]
            else:
                args = [op, random_layout(draw), random_tiler(draw)]
            cases.append({"kind": "derive", "args": args})
        elif kind < 0.8:
            swizzle = draw.choice(["1,0,2", "2,0,2", "3,1,3", "2,1,-3"])
            cases.append({"kind": "swizzle", "args": [swizzle, random_layout(draw)]})
        elif kind < 0.9:
            cases.append({"kind": "facts", "args": [random_layout(draw)]})
        else:
            layout = f"(32,{draw.choice([4, 8, 32])}):({draw.choice([4, 8, 16, 32, 33, 64])},1)"
            width = draw.choice([4, 8, 16])
            cases.append({"kind": "banks", "args": [layout, "32", width, 32]})
    return cases


WORKED: list[Case] = [
    {"kind": "derive", "args": args}
    for args in [
        ["compose", "(6,2):(8,2)", "(4,3):(3,1)"],
        ["compose", "(10,2):(16,4)", "(5,4):(1,5)"],
        ["compose", "(4,6,8):(2,3,5)", "6:3"],
        ["compose", "(2,8,6):(1,12,2)", "6:3"],
        ["compose", "((4,4),6,8):((4,0),8,6)", "(1,2,4):(12,12,8)"],
        ["complement", "4:1", "24"],
        ["complement", "6:4", "24"],
        ["complement", "(2,2):(1,6)", "24"],
        ["complement", "(2,2):(1,1)", "24"],
        ["coalesce", "(2,(1,6)):(1,(6,2))"],
        ["divide/logical", "(4,2,3):(2,1,8)", "4:2"],
        ["divide/zipped", "(12,32)", "(4,8)"],
        ["divide/logical", "(12,32)", "(4,8):(1,4)"],
        ["divide/zipped", "(9,(4,8)):(59,(13,1))", "<3:3,(2,4):(1,8)>"],
        ["divide/zipped", "(12,(4,8)):(7,(1,30))", "128"],
        ["divide/zipped", "(12,(4,8)):(7,(1,30))", "96"],
        ["product/blocked", "(2,5):(5,1)", "(3,4):(1,3)"],
        ["product/raked", "(2,5):(5,1)", "(3,4):(1,3)"],
        ["product/logical", "(2,2):(4,1)", "6:1"],
        ["inverse/right", "(2,4,6):(4,1,8)"],
        ["inverse/left", "((2,2),(2,2)):((1,4),(8,32))"],
    ]
]
WORKED += [
    {"kind": "banks", "args": args}
    for args in [
        ["(32,32):(32,1)", "32", 4, 32],
        ["Sw<3,0,5> o 0 o (32,32):(32,1)", "32", 4, 32],
        ["32:4", None, 16, 32],
        ["32:8", None, 16, 32],
        ["(128,8):(1,128)", "8:128", 16, 16],
        ["Sw<3,3,3> o 0 o (128,8):(1,128)", "8:128", 16, 16],
        ["32:1", None, 16, 32],
        ["(4,8):(32,4096)", None, 4, 32],
    ]
]
WORKED += [
    {"kind": "facts", "args": [a]}
    for a in ["((2,2),2):((1,4),2)", "Sw<3,3,3> o 0 o (8,64):(64,1)", "(3,(2,3)):(3,(12,1))"]
]
ATOMS: list[Case] = [
    {"kind": "atom", "args": [name, which]}
    for which in "ABC"
    for name in (
        "SM80_16x8x16_F32BF16BF16F32_TN",
        "SM70_8x8x4_F32F16F16F32_NT",
        "SM90_64x16x16_F32F16F16_RS_KN",
        "CDNA3_32x32x8_F32F16F16F32",
    )
]
ATOMS += [{"kind": "atom", "args": ["SM75_U32x4_LDSM_N", s]} for s in ("source", "destination")]


@needs_chromium
def test_page_equals_python(page: Path, tmp_path: Path) -> None:
    cases = WORKED + ATOMS + random_cases(260, seed=3)
    refused = 0
    for case, got in zip(cases, answers(page, cases, tmp_path / "profile"), strict=True):
        want = expected(case)
        assert "crashed" not in got, (case, got)
        if want == "refused":
            refused += 1
            assert "refused" in got, (case, got)
            assert got["refused"], case
        else:
            assert got == want, case
    assert len(cases) - refused >= 200
    assert refused >= 10


# ---------------------------------------------------------------- the page itself


def test_page_is_one_file_without_network() -> None:
    html = explorer_html()
    assert "/*DATA*/null" not in html
    assert "/*SCRIPT*/" not in html
    assert "/*STYLE*/" not in html
    assert not re.search(r"https?://|src=|@import|fetch\(|XMLHttpRequest|import\s*\(", html)
    assert html.count("<script>") == html.count("</script>") == 1


def test_every_script_is_in_the_page_and_short() -> None:
    folder = Path(__file__).resolve().parents[2] / "src/tilewright/viz/explorer"
    assert {f.name for f in folder.glob("*.js")} == set(SCRIPTS)
    for file in folder.iterdir():
        assert len(file.read_text().splitlines()) < 500, file


def test_every_atom_is_in_the_page() -> None:
    html = explorer_html()
    for atom in (*every_mma_atom(), *every_copy_atom()):
        assert f'["{atom.name}",' in html


@needs_chromium
def test_the_page_shows_a_derivation(page: Path, tmp_path: Path) -> None:
    address = f"{page.as_uri()}#A=(6,2):(8,2)&op=compose&B=(4,3):(3,1)&sw=1,0,2"
    dom = browse(address, tmp_path / "profile", "--dump-dom")
    assert '<h2 id="result">Sw&lt;1,0,2&gt; o 0 o ((2,2),3):((24,2),8)</h2>' in dom
    assert "<th>A o 4:3</th><td>(2,2):(24,2)</td>" in dom
    assert "<th>source bits</th><td>2 to 2, mask 0b100</td>" in dom


@needs_chromium
def test_the_page_refuses_in_place(page: Path, tmp_path: Path) -> None:
    bad = browse(f"{page.as_uri()}#A=(4,x)&op=show", tmp_path / "one", "--dump-dom")
    assert "expected a number, '(' or '_' at position 3 of '(4,x)'" in bad
    bad = browse(
        f"{page.as_uri()}#A=(4,6,8):(2,3,5)&op=compose&B=6:3", tmp_path / "two", "--dump-dom"
    )
    assert "6:3 of B does not walk mode 0 of A evenly" in bad


@needs_chromium
def test_the_page_shows_a_lane(page: Path, tmp_path: Path) -> None:
    name = "SM80_16x8x16_F32BF16BF16F32_TN"
    assert mma_atom(name).name == name
    dom = browse(f"{page.as_uri()}#atom={name}&lane=5", tmp_path / "profile", "--dump-dom")
    assert "V0=(1,2) V1=(1,3) V2=(9,2) V3=(9,3) V4=(1,10) V5=(1,11) V6=(9,10) V7=(9,11)" in dom


@needs_chromium
def test_the_page_draws(page: Path, tmp_path: Path) -> None:
    shot = tmp_path / "page.png"
    browse(page.as_uri(), tmp_path / "profile", f"--screenshot={shot}", "--window-size=1200,1000")
    assert shot.stat().st_size > 20_000
