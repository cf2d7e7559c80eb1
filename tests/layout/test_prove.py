"""Proofs for all sizes by z3: what is proven holds at numbers, what is refuted fails at its own."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.errors import LayoutError, ToolchainError
from tilewright.layout import ComposedLayout, Layout, Swizzle, cosize, size, specialise, sym
from tilewright.layout import prove as module
from tilewright.layout.analysis import bank_conflicts
from tilewright.layout.prove import (
    Counterexample,
    Proof,
    Verdict,
    prove_bank_free,
    prove_bijective,
    prove_in_bounds,
    prove_injective,
)

needs_z3 = pytest.mark.skipif(module.z3 is None, reason="the extra `prove` (z3) is not installed")

N, M, R, LD = sym("N", divby=8), sym("M", divby=128), sym("R"), sym("LD")
COLUMN, TILE_ROW, TILE = sym("k", least=0, most=31), sym("r", divby=8, least=0), sym("t", least=0)
SW128 = Swizzle(3, 3, 3)


@needs_z3
@pytest.mark.parametrize(
    "verdict",
    [
        lambda: prove_bijective(Layout((M, N), (1, M))),
        lambda: prove_bijective(Layout((M, N), (N, 1))),
        lambda: prove_bijective(Layout((8, (N, M)), (M, (8 * M, 1)))),
        lambda: prove_bijective(ComposedLayout(SW128, 0, Layout((8, 64), (64, 1)))),
        lambda: prove_bijective(ComposedLayout(SW128, 0, Layout((8 * R, 64), (64, 1)))),
        lambda: prove_injective(Layout((4, N), (1, 4))),
        lambda: prove_injective(Layout((M, N), (N + LD, 1))),
        lambda: prove_in_bounds(Layout((M, N), (N, 1)), M * N),
        lambda: prove_in_bounds(Layout((M, N), (N + 8, 1)), M * N + 8 * M),
        lambda: prove_in_bounds(Layout(N, 2), 2 * N),
    ],
)
def test_proven(verdict: Any) -> None:
    result = verdict()
    assert isinstance(result, Proof), str(result)
    assert result.holds
    assert str(result).startswith("proven: ")


@needs_z3
@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (
            lambda: prove_in_bounds(Layout((M, N), (N, 1)), M * N - 1),
            "M = 128, N = 8: coordinate (127,7) gives 1023, the bound is 1023",
        ),
        (lambda: prove_in_bounds(Layout(N, -1), N), "the bound is"),
        (lambda: prove_in_bounds(Layout((M, N), (LD, 1)), M * N), "LD = "),
        (
            lambda: prove_injective(Layout((4, N), (1, 3))),
            "N = 8: coordinates (3,0) and (0,1) both give 3",
        ),
        (lambda: prove_injective(Layout((M, N), (1, N))), "both give"),
        (lambda: prove_injective(Layout((M, 4), (1, 0))), "both give 0"),
        (lambda: prove_bijective(Layout((M, N), (1, LD))), "a bijection onto [0, M*N); LD = "),
    ],
)
def test_refuted_with_numbers_that_show_it(ask: Any, text: str) -> None:
    verdict = ask()
    assert isinstance(verdict, Counterexample), str(verdict)
    assert not verdict.holds
    assert str(verdict).startswith("refuted: ")
    assert text in str(verdict)


def _ways(layout: Any, lanes: list[Any], access: int, bits: int, **sizes: int) -> int:
    """What `analysis` says at numbers."""
    return bank_conflicts(
        specialise(layout, **sizes), [specialise(c, **sizes) for c in lanes], access, bits
    ).ways


BANK_CASES: list[tuple[Any, list[Any], int, int, bool]] = [
    # One f32 column: the row stride decides, for every size and every column.
    (Layout((32, 64), (32 * R + 1, 1)), [(i, COLUMN) for i in range(32)], 4, 32, True),
    (Layout((32, 64), (2 * R + 1, 1)), [(i, COLUMN) for i in range(32)], 4, 32, True),
    (Layout((32, 64), (32 * R, 1)), [(i, COLUMN) for i in range(32)], 4, 32, False),
    (Layout((32, 64), (R, 1)), [(i, COLUMN) for i in range(32)], 4, 32, False),
    # The 32-wide float tile: any number of row blocks, any column.
    (
        ComposedLayout(Swizzle(5, 0, 5), 0, Layout((32 * R, 32), (32, 1))),
        [(i, COLUMN) for i in range(32)],
        4,
        32,
        True,
    ),
    (
        ComposedLayout(Swizzle(3, 0, 5), 0, Layout((32 * R, 32), (32, 1))),
        [(i, COLUMN) for i in range(32)],
        4,
        32,
        False,
    ),
    # ldmatrix: 8 rows of 16 bytes of a 16-bit tile, at any row block and any 8 columns.
    (
        ComposedLayout(SW128, 0, Layout((8 * R, 64), (64, 1))),
        [(TILE_ROW + i, 8 * TILE) for i in range(8)],
        16,
        16,
        True,
    ),
    (Layout((8 * R, 64), (64, 1)), [(TILE_ROW + i, 8 * TILE) for i in range(8)], 16, 16, False),
    (Layout((8 * R, 64), (72, 1)), [(TILE_ROW + i, 8 * TILE) for i in range(8)], 16, 16, True),
    # Two halves share a word; bytes fall back to whole addresses.
    (Layout((R, 64), (64, 1)), [(0, i) for i in range(32)], 2, 16, True),
]


@needs_z3
@pytest.mark.parametrize(("layout", "lanes", "access", "bits", "free"), BANK_CASES)
def test_banks(layout: Any, lanes: list[Any], access: int, bits: int, free: bool) -> None:
    verdict: Verdict = prove_bank_free(layout, lanes, access, bits)
    assert verdict.holds is free, str(verdict)
    if isinstance(verdict, Counterexample):
        assert _ways(layout, lanes, access, bits, **verdict.sizes) > 1
        assert "both of bank" in verdict.why
        return
    for sizes in ({"R": 1, "k": 0, "r": 0, "t": 0}, {"R": 5, "k": 17, "r": 24, "t": 3}):
        assert _ways(layout, lanes, access, bits, **sizes) == 1


@needs_z3
def test_banks_of_misaligned_accesses() -> None:
    verdict = prove_bank_free(Layout((8, 64), (R, 1)), [(i, 0) for i in range(8)], 16, 32)
    assert isinstance(verdict, Counterexample)
    assert "no multiple of 16" in verdict.why


@needs_z3
def test_static_layouts_agree_with_enumeration() -> None:
    for shape, stride in (((4, 6), (6, 1)), ((4, 6), (1, 5)), ((4, 6), (1, 3)), ((3, 2), (2, 3))):
        a = Layout(shape, stride)
        image = [a(i) for i in range(size(a))]
        assert prove_injective(a).holds is (len(set(image)) == len(image))
        assert prove_bijective(a).holds is (sorted(image) == list(range(size(a))))
        assert prove_in_bounds(a, cosize(a)).holds
        assert not prove_in_bounds(a, cosize(a) - 1).holds


@needs_z3
def test_what_z3_cannot_decide_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Search, "ask", lambda *_: (module.z3.unknown, None))
    with pytest.raises(LayoutError, match="z3 decides neither way in 5 s: 0 <= N:1 < N") as caught:
        prove_in_bounds(Layout(N), N, seconds=5)
    assert "most=8192" in str(caught.value)


@needs_z3
def test_bad_input() -> None:
    with pytest.raises(LayoutError, match="accesses of 3 bytes, expected 1 to 16"):
        prove_bank_free(Layout(32), 32, 3)
    with pytest.raises(LayoutError, match="has R elements; say which lane begins where"):
        prove_bank_free(Layout(R))
    with pytest.raises(LayoutError, match="is no swizzle"):
        prove_in_bounds(ComposedLayout(Layout(4), 0, Layout(4)), 4)


def test_without_z3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "z3", None)
    with pytest.raises(ToolchainError, match="need z3, which is not installed") as caught:
        prove_injective(Layout(4))
    assert "pip install 'tilewright[prove]'" in str(caught.value)
