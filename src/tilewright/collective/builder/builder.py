"""`CollectiveBuilder`: from what is to be multiplied to a main loop and an epilogue.

    builder = CollectiveBuilder("sm_90a", "TensorOp", (128, 128, 64))
    epilogue = builder.epilogue(TensorDescription("bf16"))
    mainloop = builder.mainloop(
        TensorDescription("bf16", "RowMajor"),
        TensorDescription("bf16", "ColumnMajor"),
        stages=StageCountAutoCarveoutEpi(epilogue),
    )

Both are values that say what was chosen and why.  `library.device.GemmUniversal` makes a kernel of
them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.arch.target import Target
from tilewright.collective.builder.epilogue import (
    CollectiveEpilogue,
    EpilogueTileAuto,
    build_epilogue,
)
from tilewright.collective.builder.fusions import FusionOperation, LinearCombination
from tilewright.collective.builder.mainloop import CollectiveMainloop, build_mainloop
from tilewright.collective.builder.stages import StageCountAuto, Stages
from tilewright.collective.builder.tags import (
    EpilogueSchedule,
    KernelSchedule,
    OpClass,
    TensorDescription,
    read_arch,
    read_tag,
)
from tilewright.numeric.dtypes import DType, dtype


@dataclass(frozen=True, slots=True)
class CollectiveBuilder:
    """What main loop and epilogue have in common.

    `arch` is a target (`sm_90a`, or CUTLASS's `Sm90`), `op_class` TensorOp or Simt.
    Shapes: tile and cluster are (M, N, K), in elements and in blocks.

    >>> builder = CollectiveBuilder("Sm90", "TensorOp", (64, 128, 64))
    >>> row, column = (TensorDescription("f16", x) for x in ("RowMajor", "ColumnMajor"))
    >>> loop = builder.mainloop(row, column)
    >>> loop.stages, str(loop.schedule)
    (9, 'KernelTmaWarpSpecializedPingpong')
    """

    arch: str | Target
    op_class: str
    tile_shape_mnk: tuple[int, int, int]
    cluster_shape_mnk: tuple[int, int, int] = (1, 1, 1)
    element_accumulator: str | DType = "f32"

    def mainloop(
        self,
        a: TensorDescription,
        b: TensorDescription,
        *,
        stages: Stages = StageCountAuto(),  # noqa: B008 (a frozen value)
        schedule: str = KernelSchedule.KernelScheduleAuto,
    ) -> CollectiveMainloop:
        """The main loop of A (M,K) and B (K,N).

        `stages` is a number, or one of the `StageCount...`; `schedule` a `KernelSchedule`.
        Raises: LaunchError for what cannot be, naming operand, needed and actual; ResourceError
        for stages that do not fit.
        """
        return build_mainloop(
            read_arch(self.arch),
            read_tag(OpClass, self.op_class),
            a,
            b,
            dtype(self.element_accumulator),
            self.tile_shape_mnk,
            self.cluster_shape_mnk,
            stages,
            read_tag(KernelSchedule, schedule),
        )

    def epilogue(
        self,
        d: TensorDescription,
        c: TensorDescription | None = None,
        *,
        epilogue_tile: EpilogueTileAuto | tuple[int, int] = EpilogueTileAuto(),  # noqa: B008
        schedule: str = EpilogueSchedule.EpilogueScheduleAuto,
        fusion: FusionOperation = LinearCombination,
    ) -> CollectiveEpilogue:
        """The epilogue that makes D (M,N) of the accumulators, and of C if there is one.

        Raises: LaunchError for what cannot be, naming operand, needed and actual.
        """
        return build_epilogue(
            read_arch(self.arch),
            read_tag(OpClass, self.op_class),
            self.tile_shape_mnk,
            d,
            c,
            epilogue_tile,
            read_tag(EpilogueSchedule, schedule),
            fusion,
        )
