"""Bad input: every kind has its own message, with the value, what was expected, and the place."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.errors import LayoutError
from tilewright.layout import (
    Layout,
    blocked_product,
    complement,
    composition,
    crd2idx,
    flat_divide,
    group_modes,
    idx2crd,
    local_tile,
    logical_divide,
    logical_product,
    make_layout,
    make_ordered_layout,
    parse_layout,
    right_inverse,
    slice_and_offset,
    tile_to_shape,
    upcast,
    zipped_divide,
)

L = Layout((4, 8), (8, 1))

CASES: dict[str, tuple[Any, str]] = {
    # Text that does not parse: what was expected, where, what stands there.
    "no text": (lambda: parse_layout(48), "parse_layout: expected text, got int 48"),
    "empty text": (
        lambda: parse_layout(""),
        "parse_layout: expected a number, '(' or '_', or a swizzle Sw<B,M,S> before position 0 of "
        "'', found the end",
    ),
    "open tuple": (
        lambda: parse_layout("(4,8:1"),
        "parse_layout: expected ',' or ')' before position 4 of '(4,8:1', found ':'",
    ),
    "no comma": (
        lambda: parse_layout("(4 8):1"),
        "parse_layout: expected ',' or ')' before position 3 of '(4 8):1', found '8'",
    ),
    "no stride": (
        lambda: parse_layout("(4,8):"),
        "parse_layout: expected a number, '(' or '_' before position 6 of '(4,8):', found the end",
    ),
    "strange sign": (
        lambda: parse_layout("4:x"),
        "parse_layout: expected a number, '(' or '_' before position 2 of '4:x', found 'x'",
    ),
    "text goes on": (
        lambda: parse_layout("(4,8):(1,4))"),
        "parse_layout: expected end of text before position 11 of '(4,8):(1,4))', found ')'",
    ),
    "swizzle in pieces": (
        lambda: parse_layout("Sw<3,4> o 0 o 8:1"),
        "parse_layout: expected a number, '(' or '_', or a swizzle Sw<B,M,S> before position 0 of "
        "'Sw<3,4> o 0 o 8:1', found 'S'",
    ),
    "chain breaks off": (
        lambda: parse_layout("Sw<3,4,3> o 0"),
        "parse_layout: expected 'o' before position 13 of 'Sw<3,4,3> o 0', found the end",
    ),
    # Congruence.
    "profiles differ": (
        lambda: Layout((4, (2, 3)), (1, (2, 3, 4))),
        "Layout: shape and stride have different profiles at mode (1,): (2,3) against (2,3,4)",
    ),
    "scalar stride": (
        lambda: Layout((4, 8), 1),
        "Layout: shape and stride have different profiles: (4,8) against 1",
    ),
    "order": (
        lambda: make_ordered_layout((4, 8), (0, 1, 2)),
        "order (0,1,2) does not fit shape (4,8)",
    ),
    # Shapes.
    "negative": (lambda: Layout((4, -8)), "shape (4,-8): expected extents >= 1, got -8"),
    "zero": (
        lambda: Layout((4, 0), (1, 4)),
        "shape (4,0): an extent of 0 leaves no coordinate; expected extents >= 1",
    ),
    "float": (
        lambda: Layout((4, 2.5)),
        "shape: expected an int or a run-time integer, got float 2.5",
    ),
    "negative target": (
        lambda: complement(Layout(4), -3),
        "shape -3: expected extents >= 1, got -3",
    ),
    "zero tile": (
        lambda: zipped_divide(Layout(8), 0),
        "divide: a tile of 0 elements, expected at least 1",
    ),
    "negative tile": (
        lambda: logical_divide(L, (-2, 4)),
        "divide: a tile of -2 elements, expected at least 1",
    ),
    "zero copies": (
        lambda: logical_product(L, 0),
        "product: 0 copies, expected at least 1",
    ),
    "tile of text": (
        lambda: zipped_divide(L, "4"),
        "tile: expected an int or a run-time integer, got str '4'",
    ),
    "no wide element": (
        lambda: upcast(Layout(8), 0),
        "upcast: expected a number of elements >= 1, got 0",
    ),
    # Swapped arguments.
    "layout as coordinate": (
        lambda: crd2idx(L, (1, 2)),
        "crd2idx: expected crd2idx(coord, shape, stride) or crd2idx(coord, layout), got Layout as "
        "coord and tuple as shape",
    ),
    "shape as coordinate": (
        lambda: crd2idx((4, (2, 3)), (1, 5)),
        "crd2idx: coordinate (2,3) does not fit shape 5: rank 2 against 1",
    ),
    "shape as index": (lambda: idx2crd((4, 8), 9), "idx2crd: index (4,8) does not fit shape 9"),
    "tile before layout": (
        lambda: logical_divide((2, 2), L),
        "logical_divide: expected a layout to divide, got tuple (2, 2)",
    ),
    "tile composed with": (
        lambda: composition((4, 8), L),
        "composition: expected a layout on the left, got tuple",
    ),
    "number inverted": (
        lambda: right_inverse(3),
        "right_inverse: expected a layout, got int",
    ),
    "number completed": (
        lambda: complement(4, 32),
        "complement: expected a layout, got int 4",
    ),
    "layouts and shapes": (
        lambda: make_layout(L, 4),
        "make_layout: expected one shape, or layouts; got (4,8):(8,1), 4",
    ),
    # Wrong ranks.
    "coordinate": (
        lambda: L((1, 2, 3)),
        "crd2idx: coordinate (1,2,3) does not fit shape (4,8): rank 3 against 2",
    ),
    "slice": (
        lambda: slice_and_offset((None, 1, 2), L),
        "slice: coordinate (_,1,2) does not fit (4,8): rank 3 against 2",
    ),
    "tiler of composition": (
        lambda: composition(L, (1, 2, 3)),
        "composition: tiler of 3 modes for a layout of 2",
    ),
    "tiler of divide": (
        lambda: flat_divide(L, (1, 2, 3)),
        "zipped_divide: tiler (1,2,3) has 3 modes, the layout only 2",
    ),
    "tiler of logical divide": (
        lambda: logical_divide(L, (1, 2, 3)),
        "logical_divide: tiler (1,2,3) has 3 modes, the layout only 2",
    ),
    "target": (
        lambda: tile_to_shape(L, (8,)),
        "tile_to_shape: block (4,8):(8,1) has 2 modes, target (8,) only 1",
    ),
    "tile coordinate": (
        lambda: local_tile(L, (2, 2), (0, 0, 0)),
        "partition: coordinate (0,0,0) has 3 modes, expected at most 2",
    ),
    "modes": (lambda: group_modes(L, 1, 5), "group_modes: [1, 5) is not a range of modes of (4,8)"),
    "path": (lambda: L[5], "mode 5 at depth 0 of (4,8) is not in [0, 2)"),
    # What has no complement.
    "not injective": (
        lambda: complement(Layout((4, 4), (1, 2)), 32),
        "complement: (4,4):(1,2) is not injective: stride 2 (sorted mode 1) lies below 4, where "
        "the modes before it end",
    ),
    "interleaved": (
        lambda: complement(Layout((3, 2), (2, 3)), 32),
        "complement: the modes of (3,2):(2,3) interleave: stride 3 (sorted mode 1) lies below 6, "
        "where the modes before it end; no pattern of copies fills the offsets between them",
    ),
    "backwards": (
        lambda: complement(Layout(4, -1), 32),
        "complement: 4:-1 has a negative stride: stride -1 (sorted mode 0); expected strides >= 0",
    ),
    "block repeats itself": (
        lambda: blocked_product(Layout((4, 4), (1, 2)), Layout(4)),
        "product: (4,4):(1,2) cannot be repeated: complement: (4,4):(1,2) is not injective",
    ),
    "tile interleaves": (
        lambda: logical_divide(L, Layout((3, 2), (2, 3))),
        "divide: (4,8):(8,1) cannot be cut into tiles (3,2):(2,3): complement: the modes of",
    ),
    "tile leaves holes": (
        lambda: logical_divide(L, Layout((2, 2), (1, 3))),
        "divide: copies of tile (2,2):(1,3) cannot fill (4,8):(8,1): stride 3 is not a multiple of "
        "2, where its smaller modes end",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name: str) -> None:
    ask, text = CASES[name]
    with pytest.raises(LayoutError) as caught:
        ask()
    assert caught.value.message.startswith(text), caught.value.message


def test_every_message_is_its_own() -> None:
    texts = [text for _, text in CASES.values()]
    assert len(set(texts)) == len(texts)


def test_hints_name_the_order_of_arguments() -> None:
    for name, hint in (
        ("shape as coordinate", "the coordinate comes first: crd2idx((1,5), (4,(2,3)))"),
        ("shape as index", "the index comes first: idx2crd(index, shape)"),
        ("tile before layout", "logical_divide(layout, tiler): the layout comes first"),
        ("tile composed with", "composition(A, B) is A o B"),
    ):
        with pytest.raises(LayoutError) as caught:
            CASES[name][0]()
        assert hint in caught.value.hint, name


def test_operands_are_shown() -> None:
    with pytest.raises(LayoutError) as caught:
        composition(L, Layout(5, 3))
    assert "A = (4,8):(8,1)" in str(caught.value)
    assert "B = 5:3" in str(caught.value)
