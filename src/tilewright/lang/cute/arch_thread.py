"""Who and where a thread is, and what the lanes of a warp do together."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from tilewright.errors import ResourceError, TypeMismatchError
from tilewright.ir.ops import arith, sync
from tilewright.lang import trace
from tilewright.lang.cute.pointer import static_int
from tilewright.lang.cute.regions import run_time_if
from tilewright.lang.cute.tensor_ssa import combine
from tilewright.lang.values import (
    Boolean,
    Uint16,
    Uint32,
    as_numeric,
    describe,
    from_ir,
    numeric_of,
)

WARP_SIZE = 32
FULL_MASK = 0xFFFFFFFF


def _special(register: str, axis: int = 0) -> Any:
    names = {"thread_idx": "tid", "block_idx": "bid", "block_dim": "bdim", "grid_dim": "gdim"}
    name = f"{names[register]}_{'xyz'[axis]}" if register in names else register
    return from_ir(trace.value(sync.Special, register=register, axis=axis, name=name))


def _triple(register: str) -> tuple[Any, Any, Any]:
    return _special(register, 0), _special(register, 1), _special(register, 2)


def thread_idx() -> tuple[Any, Any, Any]:
    """The thread's (x, y, z) in its block."""
    return _triple("thread_idx")


def block_idx() -> tuple[Any, Any, Any]:
    """The block's (x, y, z) in the grid."""
    return _triple("block_idx")


def block_dim() -> tuple[Any, Any, Any]:
    """Threads per block."""
    return _triple("block_dim")


def grid_dim() -> tuple[Any, Any, Any]:
    """Blocks per grid."""
    return _triple("grid_dim")


def cluster_dim() -> tuple[Any, Any, Any]:
    """Clusters per grid."""
    sizes = _triple("cluster_dim")
    gx, gy, gz = grid_dim()
    return gx // sizes[0], gy // sizes[1], gz // sizes[2]


def cluster_size() -> tuple[Any, Any, Any]:
    """Blocks per cluster."""
    return _triple("cluster_dim")


def cluster_idx() -> tuple[Any, Any, Any]:
    """The cluster's (x, y, z) in the grid."""
    sizes = _triple("cluster_dim")
    bx, by, bz = block_idx()
    return bx // sizes[0], by // sizes[1], bz // sizes[2]


def block_in_cluster_idx() -> tuple[Any, Any, Any]:
    """The block's (x, y, z) in its cluster."""
    return _triple("block_in_cluster")


def block_in_cluster_dim() -> tuple[Any, Any, Any]:
    """Blocks per cluster."""
    return _triple("cluster_dim")


def block_idx_in_cluster() -> Any:
    """The block's rank in its cluster."""
    return _special("cluster_rank")


def lane_idx() -> Any:
    """The thread's number in its warp, 0 to 31."""
    return _special("lane")


def warp_idx() -> Any:
    """The warp's number in its block."""
    x, y, z = thread_idx()
    dim_x, dim_y, _ = block_dim()
    return (x + dim_x * (y + dim_y * z)) // WARP_SIZE


def smid() -> Any:
    """The number of the SM that runs the block."""
    return _special("smid")


def clock() -> Any:
    """The SM's cycle counter, Int64."""
    return _special("clock")


def make_warp_uniform(value: Any) -> Any:
    """`value`, which is the same in all lanes, made provably so for the compiler."""
    x = as_numeric(value)
    return x if x.is_static else from_ir(trace.value(sync.WarpUniform, x.ir_value()))


class ElectOne:
    """``with elect_one():`` runs its body in one lane of the warp."""

    def __init__(self) -> None:
        self._branch: Any = None

    def __enter__(self) -> None:
        self._branch = run_time_if(elect_one_sync().ir_value())
        self._branch.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._branch.__exit__(kind, error, where)

    def __bool__(self) -> bool:
        raise TypeMismatchError(
            "elect_one() opens a block: it is not a condition",
            loc=trace.loc(),
            hint="write `with elect_one():`, or `if elect_one_sync():`",
        )


def elect_one() -> ElectOne:
    """A block that one lane of the converged warp runs: ``with cute.arch.elect_one():``."""
    return ElectOne()


def elect_one_sync() -> Any:
    """True in one lane of the converged warp."""
    return from_ir(trace.emit(sync.ElectOne).results[0])


# Votes and shuffles.


def _predicate(pred: Any) -> Any:
    return Boolean(as_numeric(pred)).ir_value()


def _whole_warp(mask: Any, what: str) -> None:
    number = static_int(mask)
    if number is None or number & FULL_MASK != FULL_MASK:
        raise TypeMismatchError(
            f"{what}: only the full mask is supported, got {describe(mask)}",
            loc=trace.loc(),
            hint="let all 32 lanes take part",
        )


def vote_any_sync(pred: Any, mask: Any = FULL_MASK) -> Any:
    """Whether `pred` holds in any lane."""
    _whole_warp(mask, "vote_any_sync")
    return from_ir(trace.value(sync.WarpVote, _predicate(pred), mode="any"))


def vote_all_sync(pred: Any, mask: Any = FULL_MASK) -> Any:
    """Whether `pred` holds in every lane."""
    _whole_warp(mask, "vote_all_sync")
    return from_ir(trace.value(sync.WarpVote, _predicate(pred), mode="all"))


def vote_ballot_sync(pred: Any, mask: Any = FULL_MASK) -> Any:
    """Bit i: whether `pred` holds in lane i.  Uint32."""
    _whole_warp(mask, "vote_ballot_sync")
    return from_ir(trace.value(sync.WarpVote, _predicate(pred), mode="ballot"))


def vote_uni_sync(pred: Any, mask: Any = FULL_MASK) -> Any:
    """Whether `pred` is the same in all lanes."""
    ballot = vote_ballot_sync(pred, mask)
    return (ballot == 0) | (ballot == FULL_MASK)


def shuffle_sync_op(
    value: Any, offset: Any, mask: Any = FULL_MASK, mask_and_clamp: int = 31, kind: str = "idx"
) -> Any:
    """The value of another lane: `kind` 'idx', 'up', 'down' or 'bfly' says which.

    Units:  `mask_and_clamp` as in PTX: ``(32 - width) << 8 | 31`` for groups of `width` lanes
            (its low part is 0 for 'up').
    """
    _whole_warp(mask, "shuffle_sync")
    x = as_numeric(value)
    row = type(x)._row
    lane = Uint32(as_numeric(offset)).ir_value()
    width = WARP_SIZE - (mask_and_clamp >> 8 & 31)
    narrow = row.bits < 32 and row.bits > 1
    carried: Any = x
    if narrow:
        carried = Uint32(x.bitcast(Uint16) if row.bits == 16 else x.bitcast(numeric_of("u8")))
    elif row.bits == 1:
        carried = Uint32(x)
    moved = from_ir(trace.value(sync.WarpShuffle, carried.ir_value(), lane, mode=kind, width=width))
    if not narrow:
        return type(x)(moved)
    return (Uint16(moved) if row.bits == 16 else numeric_of("u8")(moved)).bitcast(type(x))


def shuffle_sync(value: Any, offset: Any, mask: Any = FULL_MASK, mask_and_clamp: int = 31) -> Any:
    """The value of lane `offset`."""
    return shuffle_sync_op(value, offset, mask, mask_and_clamp, "idx")


def shuffle_sync_up(value: Any, offset: Any, mask: Any = FULL_MASK, mask_and_clamp: int = 0) -> Any:
    """The value of the lane `offset` below; the lowest lanes keep their own."""
    return shuffle_sync_op(value, offset, mask, mask_and_clamp, "up")


def shuffle_sync_down(
    value: Any, offset: Any, mask: Any = FULL_MASK, mask_and_clamp: int = 31
) -> Any:
    """The value of the lane `offset` above; the highest lanes keep their own."""
    return shuffle_sync_op(value, offset, mask, mask_and_clamp, "down")


def shuffle_sync_bfly(
    value: Any, offset: Any, mask: Any = FULL_MASK, mask_and_clamp: int = 31
) -> Any:
    """The value of the lane whose number differs in the bits of `offset`."""
    return shuffle_sync_op(value, offset, mask, mask_and_clamp, "bfly")


def warp_reduction(
    val: Any, op: Callable[[Any, Any], Any], threads_in_group: int = WARP_SIZE
) -> Any:
    """`op` over the values of each group of lanes, in every lane of the group.

    Raises: TypeMismatchError unless the group is a power of two up to 32.
    """
    if threads_in_group not in (1, 2, 4, 8, 16, 32):
        raise TypeMismatchError(
            f"warp_reduction: groups have 1, 2, 4, 8, 16 or 32 lanes, not {threads_in_group}",
            loc=trace.loc(),
        )
    offset = threads_in_group // 2
    while offset:
        val = op(val, shuffle_sync_bfly(val, offset))
        offset //= 2
    return val


def warp_reduction_max(val: Any, threads_in_group: int = WARP_SIZE) -> Any:
    """The largest value of each group of lanes."""
    return warp_reduction(val, lambda a, b: combine("max", a, b), threads_in_group)


def warp_reduction_sum(val: Any, threads_in_group: int = WARP_SIZE) -> Any:
    """The sum over each group of lanes."""
    return warp_reduction(val, lambda a, b: a + b, threads_in_group)


def popc(value: Any) -> Any:
    """Number of one bits, Uint32."""
    return from_ir(trace.value(arith.Popc, as_numeric(value).ir_value()))


# Registers.


def _set_registers(count: int, increase: bool, what: str) -> None:
    number = static_int(count)
    if number is None or not 24 <= number <= 256 or number % 8:
        raise ResourceError(
            f"{what}: expected a compile-time multiple of 8 in 24..256, got {describe(count)}",
            loc=trace.loc(),
        )
    trace.emit(sync.SetMaxRegister, count=number, increase=increase)


def setmaxregister_increase(reg_count: int) -> None:
    """Gives each thread of the warpgroup `reg_count` registers (more than before)."""
    _set_registers(reg_count, True, "setmaxregister_increase")


def setmaxregister_decrease(reg_count: int) -> None:
    """Leaves each thread of the warpgroup `reg_count` registers (fewer than before)."""
    _set_registers(reg_count, False, "setmaxregister_decrease")


def warpgroup_reg_alloc(reg_count: int) -> None:
    """`setmaxregister_increase` by its older name."""
    _set_registers(reg_count, True, "warpgroup_reg_alloc")


def warpgroup_reg_dealloc(reg_count: int) -> None:
    """`setmaxregister_decrease` by its older name."""
    _set_registers(reg_count, False, "warpgroup_reg_dealloc")


def as_u32(x: Any) -> Any:
    """The IR value of an integer, as u32."""
    return Uint32(as_numeric(x)).ir_value()
