"""Targets: the limits, what each has, and the errors."""

import pytest

from tilewright.arch.target import ALL_TARGETS, FEATURES, Target, target
from tilewright.errors import TargetError


def test_limits_of_the_reference_cards() -> None:
    assert [(t.name, t.smem_per_block, t.sm_count) for t in ALL_TARGETS] == [
        ("sm_80", 166912, 108),
        ("sm_86", 101376, 84),
        ("sm_89", 101376, 142),
        ("sm_90a", 232448, 132),
        ("sm_100a", 232448, 148),
    ]


@pytest.mark.parametrize("t", ALL_TARGETS, ids=str)
def test_a_row_is_consistent(t: Target) -> None:
    assert t.name.removesuffix("a") == f"sm_{t.sm}"
    assert t.smem_per_block < t.smem_per_sm
    assert t.max_threads_per_block <= t.max_threads_per_sm
    assert t.features <= FEATURES
    assert t.has("cluster") == (t.max_cluster > 1)
    assert (t.has("wgmma") or t.has("tcgen05")) == t.has("tma")


def test_names() -> None:
    assert target("sm_90") is target("sm_90a")
    assert target("sm_100") is target("sm_100a")
    assert target(target("sm_80")) is target("sm_80")


def test_wgmma_is_of_one_architecture_only() -> None:
    assert [t.name for t in ALL_TARGETS if t.has("wgmma")] == ["sm_90a"]


@pytest.mark.parametrize("name", ["sm_75", "", "hopper", 90])
def test_an_unknown_target_is_refused(name: object) -> None:
    with pytest.raises(TargetError) as error:
        target(name)  # type: ignore[arg-type]
    assert str(error.value) == (
        f"target: {name!r} is not a known architecture; known: sm_80, sm_86, sm_89, sm_90a, sm_100a"
    )


def test_a_misspelt_feature_is_refused() -> None:
    with pytest.raises(TargetError, match=r"target: 'wgma' is not a feature; known: .*wgmma"):
        target("sm_90a").has("wgma")


def test_require_names_who_has_it() -> None:
    target("sm_90a").require("tma", "copy")
    with pytest.raises(TargetError) as error:
        target("sm_80").require("tma", "tma.load")
    assert str(error.value) == (
        "tma.load: needs tma, which sm_80 does not have\n  targets with tma = sm_90a, sm_100a"
    )
