"""The main loop that a builder gives: how operands are loaded and multiplied, in how many stages.

`KernelScheduleAuto` follows CUTLASS: what TMA cannot load (16-byte rows) is loaded by cp.async;
a tile of 64 rows is a ping-pong tile, a larger one is shared by two consumers.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.arch.mma.registry import find_mma_atom
from tilewright.arch.smem import stage_count
from tilewright.arch.target import Target
from tilewright.collective.builder.epilogue import CONSUMERS
from tilewright.collective.builder.stages import (
    StageCount,
    StageCountAuto,
    StageCountAutoCarveout,
    Stages,
)
from tilewright.collective.builder.tags import (
    Decision,
    KernelSchedule,
    OpClass,
    TensorDescription,
)
from tilewright.collective.epilogue.sm90_store import BOX
from tilewright.errors import DTypeError, LaunchError, LayoutError, ResourceError
from tilewright.numeric.dtypes import F32, DType

MULTISTAGE_MOST = 4
"""Stages of a cp.async ring beyond which no more latency is hidden, so that two blocks fit."""
RESERVED_SMEM = 1024
"""Shared memory that the system takes of every block."""

Shape = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class CollectiveMainloop:
    """A chosen main loop.  `str()` says what was chosen and why, one line for each decision.

    Units: `stage_bytes` is one stage of A and B.
    """

    target: Target
    op_class: OpClass
    a: TensorDescription
    b: TensorDescription
    accumulator: DType
    tile_shape_mnk: Shape
    cluster_shape_mnk: Shape
    stages: int
    schedule: KernelSchedule
    stage_bytes: int
    decisions: tuple[Decision, ...]

    def __str__(self) -> str:
        head = f"main loop for {self.target.name}, {self.op_class}"
        return "\n".join((head, *map(str, self.decisions)))


@dataclass(frozen=True, slots=True)
class _Request:
    """What was asked for, checked step by step."""

    target: Target
    op_class: OpClass
    a: TensorDescription
    b: TensorDescription
    accumulator: DType
    tile: Shape
    cluster: Shape

    @property
    def stage_bytes(self) -> int:
        m, n, k = self.tile
        return k * (m * self.a.dtype.storage_bits + n * self.b.dtype.storage_bits) // 8

    @property
    def tile_text(self) -> str:
        return "x".join(map(str, self.tile))


def build_mainloop(
    target: Target,
    op_class: OpClass,
    a: TensorDescription,
    b: TensorDescription,
    accumulator: DType,
    tile: Shape,
    cluster: Shape,
    stages: Stages,
    schedule: KernelSchedule,
) -> CollectiveMainloop:
    """Chooses what is left open.  Raises: LaunchError for what cannot be, with operand and need."""
    asked = _Request(target, op_class, a, b, accumulator, tile, cluster)
    found, why = _schedule(asked, schedule)
    _check_cluster(asked, found)
    product = _product(asked, found)
    count, because = _stages(asked, found, stages)
    decisions = (
        Decision("operands", f"{a.text('A')}, {b.text('B')}", "as given"),
        Decision("tile", asked.tile_text, f"{product}, accumulated in {accumulator.name}"),
        Decision("schedule", found, why),
        Decision("cluster", "x".join(map(str, cluster)), f"at most {target.max_cluster} blocks"),
        Decision("stages", str(count), because),
    )
    return CollectiveMainloop(
        target,
        op_class,
        a,
        b,
        accumulator,
        tile,
        cluster,
        count,
        found,
        asked.stage_bytes,
        decisions,
    )


def _tma_obstacle(asked: _Request) -> str:
    """Which operand TMA cannot load, or nothing."""
    for name, operand in (("A", asked.a), ("B", asked.b)):
        if operand.align_bytes < 16:
            return (
                f"{name} needs an alignment of 16 bytes (TMA), got {operand.align_bytes} "
                f"({operand.alignment} x {operand.dtype.name})"
            )
    return ""


def _schedule(asked: _Request, wanted: KernelSchedule) -> tuple[KernelSchedule, str]:
    """The schedule, and why."""
    multistage = KernelSchedule.KernelMultistage
    auto = wanted is KernelSchedule.KernelScheduleAuto
    if asked.op_class is OpClass.Simt or not asked.target.has("wgmma"):
        if auto:
            reason = "Simt has" if asked.op_class is OpClass.Simt else f"{asked.target.name} has"
            return multistage, f"{reason} no warp-specialised kernels"
        if wanted is not multistage:
            raise LaunchError(
                f"{wanted}: needs wgmma (sm_90a) and TensorOp, got {asked.target.name} and "
                f"{asked.op_class}",
                hint="use KernelMultistage or KernelScheduleAuto",
            )
        return multistage, "asked for"
    obstacle = _tma_obstacle(asked)
    rows = asked.tile[0]
    if auto:
        if obstacle and rows < CONSUMERS * BOX:
            return KernelSchedule.KernelCpAsyncWarpSpecialized, obstacle
        if obstacle:
            return KernelSchedule.KernelCpAsyncWarpSpecializedCooperative, obstacle
        if rows < CONSUMERS * BOX:
            found, use = KernelSchedule.KernelTmaWarpSpecializedPingpong, "one consumer's"
        else:
            found = KernelSchedule.KernelTmaWarpSpecializedCooperative
            use = f"shared by {CONSUMERS} consumers"
        return found, f"TMA loads 16-byte aligned A and B; tile M = {rows} is {use}"
    if wanted.uses_tma and obstacle:
        raise LaunchError(
            f"{wanted}: {obstacle}", hint="use KernelCpAsyncWarpSpecializedCooperative"
        )
    if wanted.is_cooperative and rows % (CONSUMERS * BOX):
        raise LaunchError(
            f"{wanted}: tile M needs a multiple of {CONSUMERS * BOX}, {BOX} rows for each "
            f"consumer, got {rows}",
            hint="a tile of 64 rows is for the ping-pong schedule",
        )
    return wanted, "asked for"


def _check_cluster(asked: _Request, schedule: KernelSchedule) -> None:
    """Raises: LaunchError for a cluster that the target does not have."""
    m, n, k = asked.cluster
    blocks = m * n * k
    text = "x".join(map(str, asked.cluster))
    if min(asked.cluster) < 1 or k != 1:
        raise LaunchError(f"cluster {text}: expected at least one block along M and N, 1 along K")
    if blocks > asked.target.max_cluster:
        raise LaunchError(
            f"cluster {text}: {blocks} blocks, {asked.target.name} has at most "
            f"{asked.target.max_cluster} in a cluster"
        )
    if blocks > 1 and not schedule.uses_tma:
        raise LaunchError(f"cluster {text}: only TMA shares loads, {schedule} does not use it")


def _product(asked: _Request, schedule: KernelSchedule) -> str:
    """The instruction that multiplies; refuses tiles and types that it does not have."""
    m, n, k = asked.tile
    a, b, acc = asked.a.dtype, asked.b.dtype, asked.accumulator
    if asked.op_class is OpClass.Simt:
        if acc is not F32:
            raise LaunchError(f"Simt: the accumulator is {acc.name}, expected f32")
        return "fused multiply-adds"
    if a.storage_bits != b.storage_bits and not schedule.uses_tma:
        raise LaunchError(f"{schedule}: A is {a.name} and B {b.name}: mixed widths need TMA")
    wgmma = schedule is not KernelSchedule.KernelMultistage
    kind = "wgmma" if wgmma else "mma"
    majors = [x.major(name) == "K" for name, x in (("A", asked.a), ("B", asked.b))]
    try:
        atom = find_mma_atom(
            "wgmma" if wgmma else "mma",
            a,
            b,
            acc,
            a_major="K" if majors[0] or not wgmma else "MN",
            b_major="K" if majors[1] or not wgmma else "MN",
        )
    except DTypeError as error:
        raise LaunchError(
            f"A {a.name}, B {b.name}, accumulator {acc.name}: {kind} has no such form",
            details=error.details,
        ) from None
    except LayoutError:
        name, operand = ("A", asked.a) if not majors[0] else ("B", asked.b)
        raise LaunchError(
            f"{name} has {operand.major(name)} contiguous, {kind} of {operand.dtype.name} needs K",
            hint=f"pass {name} with K contiguous",
        ) from None
    rows, _, depth = atom.shape_mnk
    columns = (8, 256) if wgmma else (8, 512)
    if m <= 0 or m % rows or n <= 0 or n % columns[0] or n > columns[1] or k <= 0 or k % depth:
        raise LaunchError(
            f"tile {asked.tile_text}: {kind} of {a.name} needs M by {rows}, N by {columns[0]} up "
            f"to {columns[1]}, K by {depth}"
        )
    if wgmma:
        return f"wgmma 64x{n}x{depth}"
    return "mma " + "x".join(map(str, atom.shape_mnk))


def _stages(asked: _Request, schedule: KernelSchedule, stages: Stages) -> tuple[int, str]:
    """The number of stages, and why."""
    if isinstance(stages, int):
        stages = StageCount(stages)
    least = 1 if asked.op_class is OpClass.Simt else 2
    if isinstance(stages, StageCount):
        count, why = stages.stages, "asked for"
        used = count * asked.stage_bytes
        if used > asked.target.smem_per_block:
            raise ResourceError(
                f"{count} stages of {asked.stage_bytes:,} B need {used:,} B of shared memory, "
                f"{asked.target.name} has {asked.target.smem_per_block:,}",
                hint="use StageCountAuto, or a smaller tile",
            )
    elif asked.op_class is OpClass.Simt:
        count, why = 1, "Simt stages one k tile at a time"
    elif schedule is KernelSchedule.KernelMultistage:
        count, why = _multistage(asked, stages)
    else:
        carveout = stages.bytes if isinstance(stages, StageCountAutoCarveout) else 0
        bits = asked.a.dtype.storage_bits, asked.b.dtype.storage_bits
        capacity = asked.target.smem_per_block
        count = stage_count(asked.tile, *bits, carveout, capacity)
        why = f"as many of {asked.stage_bytes:,} B as fit into {capacity:,} B beside {carveout:,} B"
    if count < least or (least == 1 and count != 1):
        raise ResourceError(
            f"{count} stages of {asked.stage_bytes:,} B ({asked.tile_text}): expected "
            f"{'1' if least == 1 else 'at least 2, so that loading and multiplying overlap'}",
            hint="" if least == 1 else "use a smaller tile",
        )
    return count, why


def _multistage(
    asked: _Request, stages: StageCountAuto | StageCountAutoCarveout
) -> tuple[int, str]:
    """Two blocks share an SM, so each has half of its shared memory."""
    carveout = stages.bytes if isinstance(stages, StageCountAutoCarveout) else 0
    room = asked.target.smem_per_sm // 2 - RESERVED_SMEM - carveout
    count = min(MULTISTAGE_MOST, room // asked.stage_bytes)
    why = f"up to {MULTISTAGE_MOST} of {asked.stage_bytes:,} B in {room:,} B, two blocks on an SM"
    return count, why
