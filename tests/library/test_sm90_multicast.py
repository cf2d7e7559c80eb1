"""Clusters whose blocks share what they load: exact, clean, and refused where they cannot be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.arch.target import target
from tilewright.library import heuristics, measured
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.gemm import prepare_gemm
from tilewright.library.problem import GemmProblem
from tilewright.library.registry import too_large
from tilewright.library.sm90_refusal import sm90_refusal
from tilewright.sim.options import SimOptions

H200 = target("sm_90a")
COOPERATIVE = {"tile_shape_mnk": (128, 64, 64), "num_stages": 4, "store_boxes": 1}
ONE_TILE = {**COOPERATIVE, "schedule": "warp_specialized", "blocks_per_sm": 2}
ALONE = {**ONE_TILE, "schedule": "unspecialized"}
PINGPONG = {**COOPERATIVE, "tile_shape_mnk": (64, 128, 64), "schedule": "pingpong"}


def integers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float16)


@pytest.mark.parametrize("cluster", [(2, 1), (1, 2), (2, 2), (1, 4), (4, 2)], ids=str)
@pytest.mark.parametrize(
    "base", [COOPERATIVE, PINGPONG, ONE_TILE, ALONE], ids=lambda base: base.get("schedule", "")
)
@pytest.mark.parametrize("majors", ["KK", "MN"])
def test_exact_and_clean(base: dict[str, Any], cluster: tuple[int, int], majors: str) -> None:
    a = integers(304, 136) if majors[0] == "K" else integers(136, 304).T
    b = integers(200, 136, seed=1).T if majors[1] == "K" else integers(136, 200, seed=1)
    # Fewer blocks than tiles, and not a whole number of clusters.
    config = Sm90GemmConfig(**base, cluster_shape_mn=cluster, max_ctas=9)
    out = np.full((304, 200), np.nan, np.float16)
    prepared = prepare_gemm(a, b, out=out, kernel="sm90_gemm", config=config)
    prepared.run(options=SimOptions(seed=sum(cluster), check_races=True, check_global=True))
    assert (out == a.astype(np.float32) @ b.astype(np.float32)).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cluster_shape_mn": (0, 1)}, "cluster 0x1: expected 1 to 16 blocks"),
        ({"cluster_shape_mn": (8, 4)}, "cluster 8x4: expected 1 to 16 blocks"),
        (
            {"cluster_shape_mn": (2, 1), "split_k": 2},
            "cluster 2x1: its blocks have tiles of their own, but split_k or stream_k shares tiles",
        ),
        ({"cluster_shape_mn": (2, 2), "max_ctas": 3}, "cluster 2x2: max_ctas = 3 is less"),
        (
            {"cluster_shape_mn": (16, 1)},
            "cluster 16x1: 16 blocks cannot share a tile of B of 64x64 evenly",
        ),
    ],
)
def test_refusals(fields: dict[str, Any], message: str) -> None:
    problem = GemmProblem.packed(512, 512, 512, ab="f16", d="f16")
    assert sm90_refusal(problem, H200, Sm90GemmConfig(**{**COOPERATIVE, **fields})) == message


def test_blocks_of_clusters_are_counted_too() -> None:
    """2^30 tiles fit, but not the block beside each of them, whose tile is outside."""
    many = GemmProblem.packed(128, 8, 64, ab="f16", d="f16", batch=2**30)
    config = Sm90GemmConfig(**ALONE)
    assert too_large(many, config) is None
    assert too_large(many, replace(config, cluster_shape_mn=(2, 1))) == (
        "2,147,483,648 tiles of 128x64: a kernel counts them in 32 bits"
    )
    turned = replace(config, cluster_shape_mn=(1, 2), swap_operands=True)
    assert too_large(many.transposed(), turned) == (
        "2,147,483,648 tiles of 64x128: a kernel counts them in 32 bits"
    )


def test_the_model_takes_clusters_where_rows_are_no_whole_sectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measured, "pick", lambda *_: None)
    odd = heuristics.rank(GemmProblem.packed(1000, 1000, 1000, ab="bf16", d="bf16"), H200)
    even = heuristics.rank(GemmProblem.packed(1008, 1008, 1008, ab="bf16", d="bf16"), H200)
    assert odd[0].config.cluster_size == 2
    assert str(odd[0].config).endswith("cluster 2x1")
    assert all(p.config.cluster_shape_mn == (1, 1) for p in even)


@pytest.mark.parametrize("width", [24, 88, 152, 176, 208])
@pytest.mark.parametrize("major", ["N", "M"])
def test_tiles_of_any_width_are_stored_by_tma(width: int, major: str) -> None:
    a, b = integers(136, 72), integers(2 * width + 8, 72, seed=1).T
    shape = (136, 2 * width + 8)
    out = np.full(shape, np.nan, np.float16, order="C" if major == "N" else "F")
    config = Sm90GemmConfig((128, width, 64), 2, store_boxes=1, max_ctas=2, store_buffers=1)
    tw.gemm(a, b, out=out, kernel="sm90_gemm", config=config)
    assert (out == a.astype(np.float32) @ b.astype(np.float32)).all()


def test_a_rest_of_a_row_is_stored_with_its_last_whole_box() -> None:
    problem = GemmProblem.packed(512, 512, 512, ab="f16", d="f16")
    reason = sm90_refusal(problem, H200, Sm90GemmConfig((256, 152, 64), 2, store_boxes=4))
    assert reason == (
        "tile 256x152: 2 whole boxes and a rest in each row, expected store_boxes that divide 2, "
        "got 4"
    )


def test_the_model_fits_the_width_to_the_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    """792 tiles of 128x152 are six whole waves; 128x192 would leave the fifth one ragged."""
    monkeypatch.setattr(measured, "pick", lambda *_: None)
    ranked = heuristics.rank(GemmProblem.packed(3000, 5000, 4096, ab="bf16", d="bf16"), H200)
    assert ranked[0].config.tile_shape_mnk == (128, 152, 64)
    assert (ranked[0].tiles, ranked[0].waves) == (792, 6)
