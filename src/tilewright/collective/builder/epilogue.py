"""The epilogue that a builder gives: how D is stored, and what shared memory that takes."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.arch.target import Target
from tilewright.collective.builder.fusions import FusionOperation
from tilewright.collective.builder.tags import (
    Decision,
    EpilogueSchedule,
    OpClass,
    TensorDescription,
)
from tilewright.collective.epilogue.sm90_store import BOX, box_widths
from tilewright.errors import LaunchError

CONSUMERS = 2
"""Warpgroups that multiply and store, in ping-pong as in the cooperative schedule; where there is
only one, half of the carveout stays free."""


@dataclass(frozen=True, slots=True)
class EpilogueTileAuto:
    """The part of a tile that is staged at a time is chosen: two boxes where they come even."""


@dataclass(frozen=True, slots=True)
class CollectiveEpilogue:
    """A chosen epilogue.  `str()` says what was chosen and why, one line for each decision.

    Units: `shared_storage_bytes` is the carveout that a main loop's stages leave free.
    Each consumer stages `boxes_at_once` boxes of 64 rows and up to 64 columns (and with the last of
    a row what is left of it), in `buffers` turns.
    """

    target: Target
    tile_shape_mnk: tuple[int, int, int]
    d: TensorDescription
    c: TensorDescription | None
    schedule: EpilogueSchedule
    fusion: FusionOperation
    boxes_at_once: int
    buffers: int
    shared_storage_bytes: int
    decisions: tuple[Decision, ...]

    def __str__(self) -> str:
        return "\n".join((f"epilogue for {self.target.name}", *map(str, self.decisions)))


def build_epilogue(
    target: Target,
    op_class: OpClass,
    tile: tuple[int, int, int],
    d: TensorDescription,
    c: TensorDescription | None,
    epilogue_tile: EpilogueTileAuto | tuple[int, int],
    schedule: EpilogueSchedule,
    fusion: FusionOperation,
) -> CollectiveEpilogue:
    """Chooses what is left open.  Raises: LaunchError for what cannot be, with operand and need."""
    if c is not None and c.dtype is not d.dtype:
        raise LaunchError(f"C is {c.dtype.name}, expected {d.dtype.name} like D")
    operands = d.text("D") + (f", {c.text('C')}" if c else ", no C: beta is 0")
    found, why = _schedule(target, op_class, tile, d, schedule)
    decisions = [
        Decision("operands", operands, "as given"),
        Decision("fusion", fusion.name, str(fusion.tree(c is not None))),
        Decision("schedule", found, why),
    ]
    boxes, nbytes = 1, 0
    if found is not EpilogueSchedule.NoSmemWarpSpecialized:
        together = found is EpilogueSchedule.TmaWarpSpecializedCooperative
        boxes, choice, why = _boxes(tile, together, epilogue_tile)
        widths = box_widths(tile[1])
        columns = widths[0] * boxes + sum(widths[1:])
        nbytes = CONSUMERS * BOX * columns * d.dtype.storage_bits // 8
        decisions.append(Decision("tile", choice, f"{why}, {nbytes:,} B of shared memory"))
    return CollectiveEpilogue(target, tile, d, c, found, fusion, boxes, 1, nbytes, tuple(decisions))


def _schedule(
    target: Target,
    op_class: OpClass,
    tile: tuple[int, int, int],
    d: TensorDescription,
    asked: EpilogueSchedule,
) -> tuple[EpilogueSchedule, str]:
    """The schedule, and why."""
    direct = EpilogueSchedule.NoSmemWarpSpecialized
    obstacle = ""
    if op_class is not OpClass.TensorOp or not target.has("tma"):
        obstacle = f"{op_class} on {target.name} does not store by TMA"
    elif d.dtype.storage_bits != 16:
        obstacle = f"D needs 16-bit elements to be staged (stmatrix), got {d.dtype.name}"
    elif d.align_bytes < 16:
        obstacle = (
            f"D needs an alignment of 16 bytes (TMA), got {d.align_bytes} "
            f"({d.alignment} x {d.dtype.name})"
        )
    if asked is direct:
        return direct, "asked for: registers to memory"
    if asked is not EpilogueSchedule.EpilogueScheduleAuto:
        if obstacle:
            raise LaunchError(f"{asked}: {obstacle}", hint="use NoSmemWarpSpecialized")
        return asked, "asked for"
    if obstacle:
        return direct, obstacle
    if tile[0] >= CONSUMERS * BOX:
        why = f"TMA stores 16-byte aligned D; tile M = {tile[0]} is shared by {CONSUMERS} consumers"
        return EpilogueSchedule.TmaWarpSpecializedCooperative, why
    why = f"TMA stores 16-byte aligned D; tile M = {tile[0]} is one consumer's"
    return EpilogueSchedule.TmaWarpSpecialized, why


def _boxes(
    tile: tuple[int, int, int], together: bool, asked: EpilogueTileAuto | tuple[int, int]
) -> tuple[int, str, str]:
    """Boxes that a consumer stages at a time, the epilogue tile that this is, and why."""
    rows = tile[0] // CONSUMERS if together else tile[0]
    if rows % BOX or not rows or tile[1] < 16 or tile[1] % 8:
        raise LaunchError(
            f"tile {tile[0]}x{tile[1]}: a consumer has {rows} rows and {tile[1]} columns, a TMA "
            f"store needs rows by {BOX} and columns by 8 from 16 on"
        )
    width, *rest = box_widths(tile[1])
    across = tile[1] // width
    boxes = rows // BOX * across
    # A narrower box at the end of each row is staged with the last whole one.
    counts = [n for n in range(1, boxes + 1) if (across if rest else boxes) % n == 0]
    high = BOX * CONSUMERS if together else BOX
    if isinstance(asked, EpilogueTileAuto):
        count = next(n for n in (2, 3, 1) if n in counts)
        return count, f"{count} boxes", f"auto: of {boxes} that each consumer has of a tile"
    m, n = asked
    if m != high or n % width or n // width not in counts:
        allowed = ", ".join(str(width * count) for count in counts)
        raise LaunchError(
            f"epilogue tile {m}x{n}: expected {high} rows, and columns of {allowed} "
            f"({boxes} boxes for each consumer)"
        )
    return n // width, f"{m}x{n}", "asked for"
