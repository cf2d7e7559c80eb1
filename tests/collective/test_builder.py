"""`CollectiveBuilder`: recorded stage counts, what Auto chooses and says, and what is refused."""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.collective.builder import (
    CollectiveBuilder,
    EpilogueTileAuto,
    FusionOperation,
    KernelSchedule,
    LinCombEltAct,
    LinCombPerColBias,
    LinCombPerColBiasEltAct,
    LinearCombination,
    StageCount,
    StageCountAuto,
    StageCountAutoCarveout,
    StageCountAutoCarveoutEpi,
    TensorDescription,
)
from tilewright.errors import LaunchError, ResourceError, TilewrightError

VECTORS = Path(__file__).parents[3] / "shared" / "conformance" / "layout_vectors.json"
ROW, COLUMN = (TensorDescription("f16", x) for x in ("RowMajor", "ColumnMajor"))

# Tile, bits of A and B, carveout -> stages.  Recorded from CUTLASS's own sm_90 builders.
RECORDED = [
    ((128, 128, 64), 16, 16, 33792, 6),
    ((128, 128, 64), 16, 16, 17408, 6),
    ((64, 128, 64), 16, 16, 17408, 8),
    ((256, 128, 64), 16, 16, 33792, 4),
    ((128, 128, 128), 8, 8, 33792, 6),
    ((128, 128, 64), 16, 16, 34816, 6),
]


def build(tile: Any = (128, 128, 64), op_class: str = "TensorOp", arch: str = "Sm90",
          cluster: Any = (1, 1, 1), accumulator: str = "f32") -> CollectiveBuilder:  # fmt: skip
    return CollectiveBuilder(arch, op_class, tile, cluster, accumulator)


@pytest.mark.parametrize(("tile", "a", "b", "carveout", "stages"), RECORDED)
def test_recorded_stage_counts(tile: Any, a: int, b: int, carveout: int, stages: int) -> None:
    names = {16: "f16", 8: "e4m3"}
    loop = build(tile).mainloop(
        TensorDescription(names[a], "RowMajor"),
        TensorDescription(names[b], "ColumnMajor"),
        stages=StageCountAutoCarveout(carveout),
    )
    assert loop.stages == stages


def test_no_recorded_stage_count_is_missing() -> None:
    if not VECTORS.exists():
        pytest.skip(f"the conformance vectors are not at {VECTORS}")
    found = [v for v in json.loads(VECTORS.read_text()) if v["op"] == "sm90_stage_count"]
    rows = [(*map(literal_eval, v["args"]), int(v["expected"])) for v in found]
    assert rows == RECORDED


def test_stages_beside_our_own_epilogue_fit_and_one_more_does_not() -> None:
    for tile in ((128, 128, 64), (128, 256, 64), (64, 128, 64), (256, 128, 64)):
        epilogue = build(tile).epilogue(ROW)
        loop = build(tile).mainloop(ROW, COLUMN, stages=StageCountAutoCarveoutEpi(epilogue))
        taken = epilogue.shared_storage_bytes + loop.stages * (loop.stage_bytes + 16)
        assert taken <= 232_448 < taken + loop.stage_bytes + 16


def test_a_count_is_a_count() -> None:
    assert build().mainloop(ROW, COLUMN, stages=3) == build().mainloop(
        ROW, COLUMN, stages=StageCount(3)
    )
    assert build().mainloop(ROW, COLUMN).stages == 7
    assert StageCountAuto() == StageCountAuto()


@pytest.mark.parametrize(
    ("builder", "a", "schedule"),
    [
        (build(), ROW, "KernelTmaWarpSpecializedCooperative"),
        (build((64, 128, 64)), ROW, "KernelTmaWarpSpecializedPingpong"),
        (build(), TensorDescription("f16", "K", 4), "KernelCpAsyncWarpSpecializedCooperative"),
        (
            build((64, 128, 64)),
            TensorDescription("f16", "K", 4),
            "KernelCpAsyncWarpSpecialized",
        ),
        (build(arch="sm_80"), ROW, "KernelMultistage"),
        (build((128, 128, 8), "Simt"), ROW, "KernelMultistage"),
    ],
)
def test_kernel_schedule_auto(
    builder: CollectiveBuilder, a: TensorDescription, schedule: str
) -> None:
    loop = builder.mainloop(a, COLUMN)
    assert loop.schedule is KernelSchedule(schedule)
    assert loop.stages == 1 or loop.stages >= 2


def test_named_schedules_are_kept() -> None:
    for name in KernelSchedule:
        if name is not KernelSchedule.KernelScheduleAuto:
            assert build().mainloop(ROW, COLUMN, schedule=name).schedule is name


def test_it_prints_what_was_chosen_and_why() -> None:
    epilogue = build().epilogue(ROW, ROW, fusion=LinCombPerColBiasEltAct("relu"))
    assert str(epilogue).splitlines() == [
        "epilogue for sm_90a",
        "operands   D f16 RowMajor (N contiguous) align 8, C f16 RowMajor (N contiguous) align 8: "
        "as given",
        "fusion     LinCombPerColBiasEltAct<relu>: relu(add(add(multiply(acc, scalar0), "
        "multiply(tensor0, scalar1)), tensor1))",
        "schedule   TmaWarpSpecializedCooperative: TMA stores 16-byte aligned D; tile M = 128 is "
        "shared by 2 consumers",
        "tile       2 boxes: auto: of 2 that each consumer has of a tile, 32,768 B of shared "
        "memory",
    ]
    loop = build().mainloop(ROW, COLUMN, stages=StageCountAutoCarveoutEpi(epilogue))
    assert str(loop).splitlines() == [
        "main loop for sm_90a, TensorOp",
        "operands   A f16 RowMajor (K contiguous) align 8, B f16 ColumnMajor (K contiguous) align "
        "8: as given",
        "tile       128x128x64: wgmma 64x128x16, accumulated in f32",
        "schedule   KernelTmaWarpSpecializedCooperative: TMA loads 16-byte aligned A and B; tile M "
        "= 128 is shared by 2 consumers",
        "cluster    1x1x1: at most 8 blocks",
        "stages     6: as many of 32,768 B as fit into 232,448 B beside 32,768 B",
    ]


def test_an_epilogue_that_does_not_stage_says_why() -> None:
    narrow = build().epilogue(TensorDescription("f16", "RowMajor", 2))
    assert narrow.schedule == "NoSmemWarpSpecialized"
    assert narrow.shared_storage_bytes == 0
    assert "D needs an alignment of 16 bytes (TMA), got 4 (2 x f16)" in str(narrow)
    wide = build().epilogue(TensorDescription("f32"))
    assert "D needs 16-bit elements to be staged (stmatrix), got f32" in str(wide)
    asked = build().epilogue(ROW, schedule="NoSmemWarpSpecialized")
    assert "asked for: registers to memory" in str(asked)


@pytest.mark.parametrize(
    ("tile", "epilogue_tile", "boxes"),
    [
        ((128, 256, 64), EpilogueTileAuto(), 2),
        ((128, 192, 64), EpilogueTileAuto(), 3),
        ((128, 64, 64), EpilogueTileAuto(), 1),
        ((128, 32, 64), EpilogueTileAuto(), 1),
        ((128, 256, 64), (128, 64), 1),
        ((128, 256, 64), (128, 256), 4),
        ((64, 256, 64), (64, 128), 2),
        ((128, 208, 64), EpilogueTileAuto(), 3),
        ((256, 96, 64), EpilogueTileAuto(), 1),
    ],
)
def test_epilogue_tiles(tile: Any, epilogue_tile: Any, boxes: int) -> None:
    epilogue = build(tile).epilogue(ROW, epilogue_tile=epilogue_tile)
    assert epilogue.boxes_at_once == boxes
    rest = tile[1] % 64 if tile[1] > 64 else 0
    assert epilogue.shared_storage_bytes == 2 * 64 * (boxes * min(tile[1], 64) + rest) * 2


def test_fusions_name_trees() -> None:
    assert LinearCombination.tree(with_c=True) == FusionOperation("mine").tree(with_c=True)
    assert str(LinCombPerColBias.tree(with_c=False)) == "add(multiply(acc, scalar0), tensor0)"
    assert LinCombEltAct("gelu") != LinCombPerColBiasEltAct("gelu")


A4 = TensorDescription("f16", "RowMajor", 4)
E4M3 = TensorDescription("e4m3")
F64 = TensorDescription("f64")
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: build().mainloop(A4, COLUMN, schedule="KernelTmaWarpSpecializedPingpong"),
        "KernelTmaWarpSpecializedPingpong: A needs an alignment of 16 bytes (TMA), got 8 "
        "(4 x f16)\n  hint: use KernelCpAsyncWarpSpecializedCooperative",
    ),
    (
        lambda: build((64, 128, 64)).mainloop(
            ROW, COLUMN, schedule="KernelTmaWarpSpecializedCooperative"
        ),
        "KernelTmaWarpSpecializedCooperative: tile M needs a multiple of 128, 64 rows for each "
        "consumer, got 64\n  hint: a tile of 64 rows is for the ping-pong schedule",
    ),
    (
        lambda: build(arch="Sm80").mainloop(ROW, COLUMN, schedule="KernelTma"),
        "KernelTma: needs wgmma (sm_90a) and TensorOp, got sm_80 and TensorOp\n"
        "  hint: use KernelMultistage or KernelScheduleAuto",
    ),
    (
        lambda: build((96, 128, 64)).mainloop(ROW, COLUMN),
        "tile 96x128x64: wgmma of f16 needs M by 64, N by 8 up to 256, K by 16",
    ),
    (
        lambda: build(arch="Sm80", tile=(128, 128, 24)).mainloop(ROW, COLUMN),
        "tile 128x128x24: mma of f16 needs M by 16, N by 8 up to 512, K by 16",
    ),
    (
        lambda: build().mainloop(E4M3, E4M3),
        "B has N contiguous, wgmma of e4m3 needs K\n  hint: pass B with K contiguous",
    ),
    (
        lambda: build().mainloop(F64, F64),
        "A f64, B f64, accumulator f32: wgmma has no such form\n  has = f16 x f16 -> f32,",
    ),
    (
        lambda: build().mainloop(A4, E4M3),
        "KernelCpAsyncWarpSpecializedCooperative: A is f16 and B e4m3: mixed widths need TMA",
    ),
    (
        lambda: build((128, 128, 8), "Simt", accumulator="f16").mainloop(ROW, ROW),
        "Simt: the accumulator is f16, expected f32",
    ),
    (
        lambda: build(cluster=(4, 4, 1)).mainloop(ROW, COLUMN),
        "cluster 4x4x1: 16 blocks, sm_90a has at most 8 in a cluster",
    ),
    (
        lambda: build(cluster=(2, 1, 2)).mainloop(ROW, COLUMN),
        "cluster 2x1x2: expected at least one block along M and N, 1 along K",
    ),
    (
        lambda: build(cluster=(2, 1, 1)).mainloop(A4, COLUMN),
        "cluster 2x1x1: only TMA shares loads, KernelCpAsyncWarpSpecializedCooperative does not "
        "use it",
    ),
    (
        lambda: build((256, 256, 128)).mainloop(ROW, COLUMN),
        "1 stages of 131,072 B (256x256x128): expected at least 2, so that loading and "
        "multiplying overlap\n  hint: use a smaller tile",
    ),
    (
        lambda: build().mainloop(ROW, COLUMN, stages=9),
        "9 stages of 32,768 B need 294,912 B of shared memory, sm_90a has 232,448\n"
        "  hint: use StageCountAuto, or a smaller tile",
    ),
    (
        lambda: build((128, 128, 8), "Simt").mainloop(ROW, ROW, stages=2),
        "2 stages of 4,096 B (128x128x8): expected 1",
    ),
    (
        lambda: build().mainloop(ROW, COLUMN, schedule="KernelTmaWarpSpecialised"),
        "KernelSchedule 'KernelTmaWarpSpecialised' does not exist; there are: KernelScheduleAuto,",
    ),
    (lambda: build(op_class="Tensor").epilogue(ROW), "OpClass 'Tensor' does not exist; there are"),
    (lambda: build(arch="Sm70").epilogue(ROW), "target: 'sm_70' is not a known architecture"),
    (
        lambda: build().epilogue(TensorDescription("f16", "Row")),
        "D: layout 'Row' does not exist, expected RowMajor (N contiguous) or ColumnMajor (M)",
    ),
    (
        lambda: TensorDescription("f16", "RowMajor", 3),
        "alignment of 3 f16 elements: expected a power of two, from 1 to 16 bytes",
    ),
    (
        lambda: build().epilogue(ROW, TensorDescription("f32")),
        "C is f32, expected f16 like D",
    ),
    (
        lambda: build().epilogue(TensorDescription("f32"), schedule="TmaWarpSpecialized"),
        "TmaWarpSpecialized: D needs 16-bit elements to be staged (stmatrix), got f32\n"
        "  hint: use NoSmemWarpSpecialized",
    ),
    (
        lambda: build().epilogue(A4, schedule="TmaWarpSpecializedCooperative"),
        "TmaWarpSpecializedCooperative: D needs an alignment of 16 bytes (TMA), got 8 (4 x f16)",
    ),
    (
        lambda: build(arch="sm_80").epilogue(ROW, schedule="TmaWarpSpecialized"),
        "TmaWarpSpecialized: TensorOp on sm_80 does not store by TMA",
    ),
    (
        lambda: build().epilogue(ROW, epilogue_tile=(64, 32)),
        "epilogue tile 64x32: expected 128 rows, and columns of 64, 128 (2 boxes for each "
        "consumer)",
    ),
    (
        lambda: build((192, 96, 64)).epilogue(ROW),
        "tile 192x96: a consumer has 96 rows and 96 columns, a TMA store needs rows by 64 and "
        "columns by 8 from 16 on",
    ),
    (
        lambda: LinCombEltAct("softmax"),
        "activation 'softmax' does not exist, expected identity, relu,",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[m[:40] for _, m in REFUSED])
def test_what_is_refused_is_explained(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TilewrightError) as error:
        call()
    assert str(error.value).startswith(message)


def test_one_stage_that_does_not_fit_beside_the_carveout() -> None:
    with pytest.raises(ResourceError, match="one stage of tile 128x128x64 takes 32,784 bytes"):
        build().mainloop(ROW, COLUMN, stages=StageCountAutoCarveout(220_000))


def test_a_multistage_ring_leaves_room_for_two_blocks() -> None:
    for arch, tile in (("sm_80", (128, 128, 32)), ("sm_90a", (128, 128, 64))):
        loop = build(tile, arch=arch).mainloop(ROW, COLUMN, schedule="KernelMultistage")
        assert 2 * (loop.stages * loop.stage_bytes + 1024) <= loop.target.smem_per_sm
    with pytest.raises(LaunchError):
        build(cluster=(2, 1, 1), arch="sm_80").mainloop(ROW, COLUMN)
