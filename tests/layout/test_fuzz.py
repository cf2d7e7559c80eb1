"""10^4 random compositions, divides and complements against brute force; `fuzz.py` runs 10^6."""

from __future__ import annotations

import random

import pytest
from fuzz import Wrong, check_composition, fuzz, is_layout, splits, tiling

from tilewright.layout import compose
from tilewright.layout.decide import layout_of


@pytest.mark.parametrize("seed", [1, 2])
def test_no_wrong_answer_and_no_layout_refused(seed: int) -> None:
    counts, wrong = fuzz(5_000, seed)
    assert not wrong, "\n".join(wrong)
    assert sum(counts.values()) == 5_000
    # Every kind of end occurs: else the generator has stopped testing something.
    for kind in (
        "composition/equal",
        "composition/refused_not_a_layout",
        "divide/equal",
        "divide/equal_padded",
        "divide/refused_not_a_layout",
        "complement/equal",
        "complement/refused_not_a_layout",
    ):
        assert counts[kind] > 50, kind


def test_the_oracle_itself() -> None:
    assert is_layout([0, 13, 36, 49, 72, 85])
    assert is_layout([0, 0, 0])
    assert not is_layout([0, 6, 7, 8, 9, 15])
    assert not is_layout([1])
    assert splits([0, 1, 4, 5], [2, 2])
    assert not splits([0, 1, 4, 6], [2, 2])
    assert tiling([0, 4], 16) == [0, 1, 2, 3, 8, 9, 10, 11]
    assert tiling([0, 2, 3], 8) is None


def test_the_oracle_and_our_decision_agree() -> None:
    """Two procedures, written apart: every split tried here, the longest run taken there."""
    rng = random.Random(3)
    for _ in range(3_000):
        values = [0]
        for _ in range(rng.randint(1, 3)):
            s, d = rng.randint(2, 4), rng.randint(0, 12)
            values = [x + i * d for i in range(s) for x in values]
        if rng.random() < 0.5:
            values[rng.randrange(len(values))] += rng.choice((0, 1))
        assert (layout_of(values) is not None) == is_layout(values), values


def test_a_wrong_composition_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzz sees a carry check that is left out."""
    monkeypatch.setattr(compose, "_compose_cached", compose._compose_static)
    monkeypatch.setattr(compose, "carries", lambda *_: -1)
    rng = random.Random(1)
    with pytest.raises(Wrong, match="expected"):
        all(check_composition(rng) for _ in range(3_000))
