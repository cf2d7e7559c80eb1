"""Whatever a kernel says it can run compiles without a spill, and the planner always finds some."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilewright.arch.target import target
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.cpasync_config import Sm90CpAsyncConfig, cpasync_refusal
from tilewright.library.gemm import prepare_gemm, random_operands
from tilewright.library.kernels import sm80_gemm, sm90_cpasync_gemm, sm90_gemm
from tilewright.library.kernels.sm80_gemm import Sm80GemmConfig
from tilewright.library.problem import GemmProblem
from tilewright.library.registry import plan
from tilewright.library.sm90_refusal import sm90_refusal
from tilewright.runtime import cuda_api

H200 = target("sm_90a")
IN_TURNS = Sm90GemmConfig((128, 128, 64), 3, store_boxes=1, schedule="pingpong")
DIRECT = replace(IN_TURNS, epilogue="direct")
TOGETHER = Sm90GemmConfig((256, 128, 64), 3, store_boxes=1)
ONE_TILE = Sm90GemmConfig(
    (128, 128, 64), 2, store_boxes=1, schedule="warp_specialized", blocks_per_sm=2
)
BY_ELEMENT = Sm90CpAsyncConfig((256, 128, 64), 3, 1, 2, 2)

needs_nvrtc = pytest.mark.skipif(
    cuda_api.nvrtc is None, reason="the cuda extra is not installed: no NVRTC"
)


@needs_nvrtc
@pytest.mark.parametrize(
    ("config", "size", "d", "d_major", "c_major"),
    [
        (DIRECT, 256, "bf16", "M", ""),
        (replace(DIRECT, tile_shape_mnk=(128, 160, 64)), 256, "f32", "M", ""),
        (
            replace(IN_TURNS, tile_shape_mnk=(128, 112, 64), scheduler="stream_k"),
            256,
            "bf16",
            "N",
            "M",
        ),
        (TOGETHER, 256, "bf16", "M", "M"),
        (BY_ELEMENT, 255, "bf16", "M", ""),
    ],
    ids=str,
)
def test_the_addresses_of_columns_need_no_registers(
    config: Any, size: int, d: str, d_major: str, c_major: str
) -> None:
    """128 accumulators of four rows, and D or C with M contiguous: an address for each column."""
    problem = GemmProblem.packed(
        size, size, 512, ab="bf16", d=d, d_major=d_major, with_c=bool(c_major), b_major="N"
    )
    a, b, c, out = random_operands(problem)
    if c is not None:
        c = np.asfortranarray(c) if c_major == "M" else np.ascontiguousarray(c)
    bias = out[0].copy() if c is None and config is BY_ELEMENT else None
    kernel = "sm90_cpasync_gemm" if config is BY_ELEMENT else "sm90_gemm"
    prepared = prepare_gemm(
        a, b, c, out=out, kernel=kernel, config=config, beta=float(c is not None), bias=bias
    )
    assert prepared.compiled is not None
    cubin = prepared.compiled.cubin()
    assert (cubin.warnings, cubin.spill_stores, cubin.spill_loads) == ((), 0, 0)


@needs_nvrtc
@pytest.mark.parametrize(
    ("config", "b_major", "batch", "c"),
    [
        (replace(TOGETHER, cluster_shape_mn=(2, 2)), "K", 2, True),
        (replace(IN_TURNS, cluster_shape_mn=(2, 2)), "K", 2, True),
        (replace(ONE_TILE, tile_shape_mnk=(128, 176, 64), cluster_shape_mn=(2, 1)), "N", 1, False),
    ],
    ids=str,
)
def test_a_producer_of_clusters_and_batches_has_its_registers(
    config: Sm90GemmConfig, b_major: str, batch: int, c: bool
) -> None:
    """24 were too few: an epilogue that does more than to scale takes none from such a producer."""
    problem = GemmProblem.packed(
        256, 256, 512, ab="bf16", d="bf16", a_major="M", b_major=b_major, d_major="M",
        batch=batch, with_c=c,
    )  # fmt: skip
    a, b, with_c, out = random_operands(problem)
    prepared = prepare_gemm(
        a, b, with_c, out=out, kernel="sm90_gemm", config=config, beta=float(c),
        activation="gelu_tanh" if c else "",
    )  # fmt: skip
    assert prepared.compiled is not None
    cubin = prepared.compiled.cubin()
    assert (cubin.warnings, cubin.spill_stores, cubin.spill_loads) == ((), 0, 0)


PROBLEM = GemmProblem.packed(256, 256, 512, ab="bf16", d="bf16", with_c=True)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            replace(IN_TURNS, scheduler="stream_k"),
            "128 accumulator registers per thread leave too few for schedule 'pingpong', "
            "reduction 'parallel' and scheduler 'stream_k' with a C, at most 112 do; use another "
            "reduction or a smaller tile",
        ),
        (replace(IN_TURNS, scheduler="stream_k", reduction="fast"), "None"),
        (replace(IN_TURNS, scheduler="stream_k", tile_shape_mnk=(128, 64, 64)), "None"),
        (replace(TOGETHER, scheduler="stream_k"), "None"),
        (
            replace(TOGETHER, scheduler="stream_k", reduction="fast", epilogue="direct"),
            "128 accumulator registers per thread leave too few for scheduler 'stream_k', "
            "reduction 'fast' and epilogue 'direct' with a C, at most 80 do; use another reduction "
            "or a smaller tile",
        ),
    ],
    ids=str,
)
def test_a_c_beside_shared_tiles(config: Sm90GemmConfig, message: str) -> None:
    assert str(sm90_refusal(PROBLEM, H200, config)) == message


@pytest.mark.parametrize("swap", [False, True])
def test_a_direct_split_beside_a_ping_pong_turn(swap: bool) -> None:
    problem = replace(PROBLEM, c=None)
    config = replace(
        DIRECT, tile_shape_mnk=(128, 192, 64), num_stages=2, split_k=2, swap_operands=swap
    )
    assert str(sm90_refusal(problem, H200, config)) == "with swapped operands: " * swap + (
        "192 accumulator registers per thread leave too few for schedule 'pingpong', reduction "
        "'parallel' and a split_k with epilogue 'direct', at most 128 do; use another reduction "
        "or a smaller tile"
    )
    assert sm90_refusal(problem, H200, replace(config, reduction="serial")) is None
    assert sm90_refusal(problem, H200, replace(config, tile_shape_mnk=(128, 128, 64))) is None


def test_a_c_without_rows_beside_copies() -> None:
    problem = replace(PROBLEM, c=replace(PROBLEM.d, name="C", major="M", pitch=256))
    config = Sm90CpAsyncConfig((256, 128, 64), 4, 2, epilogue="tma")
    assert str(cpasync_refusal(problem, H200, config)) == (
        "tile 256x128: 128 accumulator registers per thread leave too few for C M-major and D "
        "N-major with epilogue 'tma'; use epilogue 'direct' or 128 rows"
    )
    assert cpasync_refusal(PROBLEM, H200, config) is None
    for fits in ({"epilogue": "direct"}, {"tile_shape_mnk": (128, 256, 64)}):
        assert cpasync_refusal(problem, H200, replace(config, **fits)) is None


def test_clusters_of_several_blocks_on_an_sm() -> None:
    config = Sm90GemmConfig(
        *((64, 64, 64), 2), store_boxes=1, schedule="pingpong", epilogue="direct",
        split_k=3, reduction="cluster", blocks_per_sm=2,
    )  # fmt: skip
    assert str(sm90_refusal(PROBLEM, H200, config)) == (
        "32 accumulator registers per thread leave too few for C, in a cluster of more than 2 "
        "with two blocks on an SM, at most 16 do; use another reduction or a smaller tile"
    )
    assert sm90_refusal(replace(PROBLEM, c=None), H200, config) is None
    assert sm90_refusal(PROBLEM, H200, replace(config, split_k=2)) is None


def test_a_single_warp_that_copies_elements() -> None:
    config = Sm80GemmConfig((32, 128, 64), warps=(1, 1), a_bytes=2, b_bytes=8)
    assert sm80_gemm.can_implement(PROBLEM, H200, config) == (
        "tile 32x128: 128 accumulators per thread leave a single warp too few registers to copy "
        "2 bytes at a time, at most 64 do; use more warps or a smaller tile"
    )
    assert sm80_gemm.can_implement(PROBLEM, H200, replace(config, a_bytes=8)) is None
    assert sm80_gemm.can_implement(PROBLEM, H200, replace(config, warps=(1, 2))) is None


SIZES = [(1, 1, 1), (7, 9, 8), (16, 8192, 64), (4096, 8, 4096), (1000, 1000, 1001), (255, 513, 72)]
ENDS: tuple[dict[str, Any], ...] = ({}, {"bias": True, "activation": "gelu"})


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("with_c", [False, True], ids=["", "C"])
def test_a_plan_for_every_problem(size: tuple[int, int, int], with_c: bool) -> None:
    """Each layout, batched or not, D rounded or not, with and without a fused end."""
    layouts = itertools.product("KM", "KN", "NM", (1, 3), ("bf16", "f32"), ENDS)
    for a_major, b_major, d_major, batch, d, end in layouts:
        problem = GemmProblem.packed(
            *size, ab="bf16", d=d, a_major=a_major, b_major=b_major, d_major=d_major,
            with_c=with_c, batch=batch,
        )  # fmt: skip
        problem = replace(problem, **end)
        chosen = plan(problem, H200)
        assert chosen.kernel.startswith("sm90_")
        # The others could do it too.
        for kernel in (sm90_cpasync_gemm, sm80_gemm):
            config = kernel.default_config(problem, H200)
            assert kernel.can_implement(problem, H200, config) is None
        if all(x.align_bytes >= 16 for x in problem.inputs):
            config = sm90_gemm.default_config(problem, H200)
            assert sm90_gemm.can_implement(problem, H200, config) is None
