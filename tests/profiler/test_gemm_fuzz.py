"""Random GEMMs of every kind in the simulator: bit for bit, and the sanitizer finds nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilewright.library.configs import SCHEDULES
from tilewright.profiler.gemm_fuzz import POISON, Placed, draw_case, run_case
from tilewright.sim.options import SimOptions

CASES, AT_A_TIME = 100, 4
LARGEST = 110


@pytest.mark.parametrize("first", range(0, CASES, AT_A_TIME))
def test_random_gemms_are_exact_and_clean(first: int) -> None:
    for seed in range(first, first + AT_A_TIME):
        options = SimOptions(seed=seed, check_races=True, check_global=True)
        assert run_case(draw_case(seed, "sm_90a", LARGEST), options=options) == ""


def test_a_seed_is_a_case() -> None:
    assert draw_case(3, "sm_90a", 100) == draw_case(3, "sm_90a", 100)
    assert draw_case(3, "sm_90a", 100) != draw_case(4, "sm_90a", 100)


def test_every_kind_is_drawn() -> None:
    configs = [draw_case(seed, "sm_90a", LARGEST).config for seed in range(CASES)]
    kinds = {type(config).__name__ for config in configs}
    assert kinds == {
        "Sm90GemmConfig",
        "Sm90CpAsyncConfig",
        "PaddedGemmConfig",
        "Sm80GemmConfig",
        "SimtGemmConfig",
        "LongKGemmConfig",
        "NoneType",
    }
    hopper = [config for config in configs if type(config).__name__ == "Sm90GemmConfig"]
    assert {c.schedule for c in hopper} == set(SCHEDULES)
    assert {c.blocks_per_sm for c in hopper} >= {1, 2, 3}
    assert {c.cluster_shape_mn for c in hopper} >= {(1, 1), (2, 1)}
    assert {c.scheduler for c in hopper} == {"data_parallel", "stream_k"}
    assert {c.epilogue for c in hopper} == {"tma", "direct"}
    assert {c.reduction for c in hopper if c.split_k > 1} >= {"parallel", "fast"}


def test_a_store_outside_of_d_shows() -> None:
    case = replace(draw_case(1, "sm_90a", 60), kernel="simt_gemm", config=None)

    def upload(flat: np.ndarray) -> np.ndarray:
        if (flat == np.float32(POISON)).all():
            flat[-1] = 0  # in the guard band
        return flat

    assert run_case(case) == ""
    assert "1 elements of D's buffer are wrong, the first at " in run_case(case, upload)
    assert "outside of D: 0.0 instead of -77.0" in run_case(case, upload)


def test_a_wrong_element_shows() -> None:
    case = replace(draw_case(1, "sm_90a", 60), kernel="simt_gemm", config=None)

    def upload(flat: np.ndarray) -> np.ndarray:
        if flat.size == case.a.size and not (flat == np.float32(POISON)).any():
            flat = flat.copy()
            case.a.of(flat)[..., 0, 0] += 1
        return flat

    assert ", in D: " in run_case(case, upload)


def test_places_have_guard_bands() -> None:
    place = Placed((2, 3), (5, 1), 64)
    flat = np.arange(place.size)
    assert place.size == 64 + 5 + 2 + 1 + 64
    assert place.of(flat).tolist() == [[64, 65, 66], [69, 70, 71]]
