"""`GemmUniversal`: collectives become a kernel of the library, or are refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright.collective.builder import epilogue as builder_epilogue
from tilewright.errors import LaunchError
from tilewright.library import configs
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.device import (
    CollectiveBuilder,
    CollectiveEpilogue,
    CollectiveMainloop,
    GemmUniversal,
    PersistentScheduler,
    StageCountAutoCarveoutEpi,
    StatusCode,
    StreamKScheduler,
    TensorDescription,
)
from tilewright.library.status import ProblemError

ROW, COLUMN = (TensorDescription("bf16", x) for x in ("RowMajor", "ColumnMajor"))
A4 = TensorDescription("bf16", "RowMajor", 4)
F32 = TensorDescription("f32")


def collectives(
    tile: Any = (128, 128, 64),
    a: TensorDescription = ROW,
    b: TensorDescription = COLUMN,
    d: TensorDescription = ROW,
    arch: str = "sm_90a",
    op_class: str = "TensorOp",
    schedule: str = "KernelScheduleAuto",
    **epilogue: Any,
) -> tuple[CollectiveMainloop, CollectiveEpilogue]:
    builder = CollectiveBuilder(arch, op_class, tile)
    end = builder.epilogue(d, **epilogue)
    return builder.mainloop(a, b, stages=StageCountAutoCarveoutEpi(end), schedule=schedule), end


SM90 = [
    ((128, 256, 64), "cooperative", 4, 2),
    ((256, 128, 64), "cooperative", 4, 2),
    ((128, 192, 64), "cooperative", 4, 3),
    ((128, 128, 64), "cooperative", 6, 2),
    ((128, 64, 64), "cooperative", 8, 1),
    ((64, 256, 64), "pingpong", 4, 2),
    ((64, 128, 64), "pingpong", 8, 2),
]


@pytest.mark.parametrize(("tile", "schedule", "stages", "boxes"), SM90, ids=str)
def test_hopper_configs(tile: Any, schedule: str, stages: int, boxes: int) -> None:
    gemm = GemmUniversal(*collectives(tile))
    wanted = Sm90GemmConfig(tile, stages, 16, boxes, schedule=schedule)
    assert (gemm.kernel, gemm.config) == ("sm90_gemm", wanted)


def test_ping_pong_of_a_large_tile() -> None:
    schedule, end = "KernelTmaWarpSpecializedPingpong", "TmaWarpSpecialized"
    builder = CollectiveBuilder("sm_90a", "TensorOp", (128, 128, 64))
    epilogue = builder.epilogue(ROW, schedule=end)
    loop = builder.mainloop(
        ROW, COLUMN, schedule=schedule, stages=StageCountAutoCarveoutEpi(epilogue)
    )
    gemm = GemmUniversal(loop, epilogue)
    assert gemm.config.schedule == "pingpong"
    assert gemm.config.store_boxes == 2


@pytest.mark.parametrize(
    ("tile", "stages", "end", "blocks"),
    [
        ((128, 128, 64), 6, "TmaWarpSpecialized", 1),
        ((128, 128, 64), 3, "TmaWarpSpecialized", 2),
        ((128, 64, 64), 2, "TmaWarpSpecialized", 3),
        ((64, 64, 64), 3, "NoSmemWarpSpecialized", 4),
        ((64, 128, 64), 2, "NoSmemWarpSpecialized", 2),  # of three, none could have its wgmma
    ],
    ids=str,
)
def test_as_many_blocks_as_fit_share_an_sm(tile: Any, stages: int, end: str, blocks: int) -> None:
    assert one_tile(tile, stages, end) == ("warp_specialized", blocks)


def test_without_a_producer_more_of_them_fit() -> None:
    asked = (64, 128, 64), 2, "NoSmemWarpSpecialized", "KernelTma"
    assert one_tile(*asked) == ("unspecialized", 4)


def one_tile(
    tile: Any, stages: int, end: str, schedule: str = "KernelTmaWarpSpecialized"
) -> tuple[str, int]:
    builder = CollectiveBuilder("sm_90a", "TensorOp", tile)
    epilogue = builder.epilogue(ROW, schedule=end, epilogue_tile=(64, 64))
    loop = builder.mainloop(ROW, COLUMN, stages=stages, schedule=schedule)
    config = GemmUniversal(loop, epilogue).config
    return config.schedule, config.blocks_per_sm


def test_other_kernels() -> None:
    gemm = GemmUniversal(*collectives(a=A4))
    assert gemm.kernel == "sm90_cpasync_gemm"
    assert (gemm.config.a_bytes, gemm.config.b_bytes) == (8, 16)
    gemm = GemmUniversal(*collectives(arch="sm_80", tile=(128, 128, 32)))
    assert (gemm.kernel, gemm.config.num_stages) == ("sm80_gemm", 4)
    gemm = GemmUniversal(*collectives((128, 128, 8), F32, F32, F32, op_class="Simt"))
    assert gemm.kernel == "simt_gemm"


def test_schedulers() -> None:
    loop, end = collectives()

    def config(scheduler: Any) -> Any:
        return GemmUniversal(loop, end, scheduler).config

    along_n = config(PersistentScheduler(4, "AlongN"))
    assert (along_n.raster, along_n.raster_along) == (4, "N")
    split = config(StreamKScheduler(splits=3))
    assert (split.split_k, split.scheduler, split.reduction) == (3, "data_parallel", "serial")
    assert config(StreamKScheduler(splits=2)).reduction == "parallel"
    builder = CollectiveBuilder("sm_90a", "TensorOp", (128, 128, 64))
    registers = builder.epilogue(ROW, schedule="NoSmemWarpSpecialized")
    shallow = builder.mainloop(ROW, COLUMN, stages=4)
    cluster = GemmUniversal(shallow, registers, StreamKScheduler(4, reduction_mode="Cluster"))
    assert cluster.config.in_cluster
    stream = config(StreamKScheduler(reduction_mode="Nondeterministic"))
    assert (stream.split_k, stream.scheduler, stream.reduction) == (1, "stream_k", "fast")
    plain = config(StreamKScheduler(splits=2, decomposition_mode="DataParallel"))
    assert not plain.shares_tiles


def test_it_prints_kernel_and_scheduler_after_the_collectives() -> None:
    text = str(GemmUniversal(*collectives())).splitlines()
    assert text[0] == "main loop for sm_90a, TensorOp"
    assert text[-2:] == [
        "kernel     sm90_gemm: cooperative 128x128x64 6 stages",
        "scheduler  PersistentScheduler(swizzle_size=16, raster_order='AlongM')",
    ]


def test_the_builder_knows_how_many_consumers_the_kernels_have() -> None:
    assert builder_epilogue.CONSUMERS == configs.CONSUMERS


def mixed() -> GemmUniversal:
    loop = CollectiveBuilder("sm_90a", "TensorOp", (128, 128, 64)).mainloop(
        *(TensorDescription(x, y) for x, y in (("e4m3", "K"), ("e5m2", "K")))
    )
    return GemmUniversal(loop, collectives()[1])


def clustered(scheduler: Any) -> GemmUniversal:
    builder = CollectiveBuilder("sm_90a", "TensorOp", (128, 128, 64), (2, 4, 1))
    loop = builder.mainloop(ROW, COLUMN, stages=6)
    return GemmUniversal(loop, builder.epilogue(ROW), scheduler)


def test_clusters_share_what_they_load() -> None:
    gemm = clustered(PersistentScheduler())
    assert (gemm.config.cluster_shape_mn, gemm.config.cluster_size) == ((2, 4), 8)


def one_tile_collectives() -> tuple[CollectiveMainloop, CollectiveEpilogue]:
    builder = CollectiveBuilder("sm_90a", "TensorOp", (128, 128, 64))
    loop = builder.mainloop(ROW, COLUMN, stages=3, schedule="KernelTmaWarpSpecialized")
    return loop, builder.epilogue(ROW, schedule="TmaWarpSpecialized")


def full_ring() -> GemmUniversal:
    builder = CollectiveBuilder("sm_90a", "TensorOp", (128, 128, 64))
    return GemmUniversal(builder.mainloop(ROW, COLUMN), builder.epilogue(ROW))


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: GemmUniversal(collectives()[0], collectives((128, 64, 64))[1]),
        "tile: the main loop has (128, 128, 64), the epilogue (128, 64, 64)",
    ),
    (
        lambda: GemmUniversal(collectives()[0], collectives(arch="sm_80")[1]),
        "target: the main loop has sm_90a, the epilogue sm_80",
    ),
    (
        full_ring,
        "sm90_gemm: tile 128x128x64 with 7 stages needs 262,256 B of shared memory, sm_90a has "
        "232,448; use fewer num_stages or a smaller tile\n"
        "  hint: use StageCountAutoCarveoutEpi(epilogue)",
    ),
    (
        lambda: GemmUniversal(*collectives(schedule="KernelTmaWarpSpecializedPingpong")),
        "KernelTmaWarpSpecializedPingpong needs the epilogue TmaWarpSpecialized, got "
        "TmaWarpSpecializedCooperative\n  hint: give the builder's epilogue() that schedule",
    ),
    (
        lambda: GemmUniversal(*collectives(schedule="KernelTmaWarpSpecialized")),
        "KernelTmaWarpSpecialized needs the epilogue TmaWarpSpecialized, got "
        "TmaWarpSpecializedCooperative\n  hint: give the builder's epilogue() that schedule",
    ),
    (
        lambda: GemmUniversal(*one_tile_collectives(), StreamKScheduler()),
        "sm90_gemm: scheduler 'stream_k': blocks wait for each other, but with schedule "
        "'warp_specialized' a block starts when another one has ended",
    ),
    (
        lambda: GemmUniversal(*collectives(a=A4, schedule="KernelCpAsyncWarpSpecialized")),
        "KernelCpAsyncWarpSpecialized: behind cp.async two consumers share each tile, the "
        "library's kernels need one of KernelTmaWarpSpecializedPingpong, "
        "KernelTmaWarpSpecializedCooperative, KernelTmaWarpSpecialized, KernelTma, "
        "KernelCpAsyncWarpSpecializedCooperative",
    ),
    (
        lambda: GemmUniversal(*collectives(a=A4), StreamKScheduler()),
        "KernelCpAsyncWarpSpecializedCooperative: the scheduler is StreamKScheduler, the library's "
        "kernels need PersistentScheduler",
    ),
    (
        lambda: GemmUniversal(*collectives(a=A4), PersistentScheduler(8, "AlongN")),
        "KernelCpAsyncWarpSpecializedCooperative: the raster order is AlongN, the library's "
        "kernels need AlongM",
    ),
    (
        lambda: GemmUniversal(*collectives(schedule="KernelMultistage")),
        "KernelMultistage: the epilogue is TmaWarpSpecializedCooperative, the library's kernels "
        "need NoSmemWarpSpecialized",
    ),
    (
        lambda: clustered(StreamKScheduler(splits=2)),
        "sm90_gemm: cluster 2x4: its blocks have tiles of their own, but split_k or stream_k "
        "shares tiles",
    ),
    (
        mixed,
        "KernelTmaWarpSpecializedCooperative: A is e4m3 and B e5m2, the library's kernels need one "
        "type",
    ),
    (lambda: StreamKScheduler(splits=0), "splits is 0, expected 1 or more"),
    (
        lambda: StreamKScheduler(reduction_mode="Fast"),
        "reduction_mode 'Fast' does not exist, expected one of Deterministic, Nondeterministic, "
        "Cluster",
    ),
    (
        lambda: PersistentScheduler(raster_order="M"),
        "raster_order 'M' does not exist, expected one of AlongM, AlongN",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[m[:40] for _, m in REFUSED])
def test_what_is_refused_is_explained(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(LaunchError) as error:
        call()
    assert str(error.value) == message


def test_a_refusal_has_parts() -> None:
    e4m3 = TensorDescription("e4m3", "K")
    builder = CollectiveBuilder("sm_90a", "TensorOp", (128, 128, 64))
    loop = builder.mainloop(e4m3, e4m3, stages=4)  # counts stages ...
    with pytest.raises(ProblemError) as error:
        GemmUniversal(loop, builder.epilogue(ROW))  # ... but no kernel multiplies it
    assert error.value.code is StatusCode.INVALID_DATA_TYPE
    assert (error.value.operand, error.value.needed) == ("A", "f16 or bf16")
    assert error.value.actual == "e4m3"
