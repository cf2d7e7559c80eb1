"""`GemmUniversal`: a main loop, an epilogue and a tile scheduler, as a kernel that runs.

The collectives say what is wanted; here it is found which kernel of the library does it, with which
config.  What none does is refused, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.collective.builder import (
    CollectiveEpilogue,
    CollectiveMainloop,
    EpilogueSchedule,
    KernelSchedule,
    OpClass,
)
from tilewright.library import registry
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.cpasync_config import ELEMENT_BYTES, Sm90CpAsyncConfig
from tilewright.library.kernels.simt_gemm import SimtGemmConfig
from tilewright.library.kernels.sm80_gemm import Sm80GemmConfig
from tilewright.library.problem import GemmProblem
from tilewright.library.status import ProblemError, Refusal, StatusCode

RASTER_ORDERS = {"AlongM": "M", "AlongN": "N"}
REDUCTIONS = ("Deterministic", "Nondeterministic", "Cluster")
DECOMPOSITIONS = ("Heuristic", "DataParallel", "SplitK", "StreamK")


@dataclass(frozen=True, slots=True)
class PersistentScheduler:
    """One block for each SM walks the tiles: `swizzle_size` rows (or columns) of them at a time."""

    swizzle_size: int = 16
    raster_order: str = "AlongM"

    def __post_init__(self) -> None:
        _one_of("raster_order", self.raster_order, RASTER_ORDERS)

    def fields(self) -> dict[str, Any]:
        """What `Sm90GemmConfig` says of it."""
        return {"raster": self.swizzle_size, "raster_along": RASTER_ORDERS[self.raster_order]}


@dataclass(frozen=True, slots=True)
class StreamKScheduler:
    """Blocks share the K of tiles: evenly (StreamK), or each tile in `splits` parts (SplitK).

    `decomposition_mode` Heuristic is SplitK where `splits` says so, else StreamK.  A Deterministic
    reduction gives the same bits in every run: two parts leave their sums side by side, more of
    them add one after the other, so that the workspace has at most twice the output.  In the
    reduction Cluster, which needs no workspace, the blocks of a tile are a cluster and send each
    other their sums: for up to 16 splits, and an epilogue without shared memory.
    """

    splits: int = 1
    swizzle_size: int = 16
    raster_order: str = "AlongM"
    reduction_mode: str = "Deterministic"
    decomposition_mode: str = "Heuristic"

    def __post_init__(self) -> None:
        _one_of("raster_order", self.raster_order, RASTER_ORDERS)
        _one_of("reduction_mode", self.reduction_mode, REDUCTIONS)
        _one_of("decomposition_mode", self.decomposition_mode, DECOMPOSITIONS)
        if self.splits < 1:
            raise ProblemError(f"splits is {self.splits}, expected 1 or more")

    def fields(self) -> dict[str, Any]:
        """What `Sm90GemmConfig` says of it."""
        plain = PersistentScheduler(self.swizzle_size, self.raster_order).fields()
        mode = self.decomposition_mode
        if mode == "Heuristic":
            mode = "SplitK" if self.splits > 1 else "StreamK"
        if mode == "DataParallel":
            return plain
        reductions = {"Nondeterministic": "fast", "Cluster": "cluster"}
        if mode == "SplitK":
            ordered = "parallel" if self.splits <= 2 else "serial"
            reduction = reductions.get(self.reduction_mode, ordered)
            return {**plain, "split_k": self.splits, "reduction": reduction}
        reduction = reductions.get(self.reduction_mode, "parallel")
        return {**plain, "scheduler": "stream_k", "reduction": reduction}


TileScheduler = PersistentScheduler | StreamKScheduler


def _one_of(what: str, value: str, known: Any) -> None:
    if value not in known:
        raise ProblemError(f"{what} {value!r} does not exist, expected one of {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class GemmUniversal:
    """A GEMM kernel of collectives: D[M,N,L] = fusion(A[M,K,L] * B[K,N,L]), for any sizes.

    `kernel` and `config` are what the library calls it.  `str()` says what was chosen and why.
    Raises: ProblemError (a LaunchError) for collectives that do not fit each other, or that no
            kernel of the library runs, with the reason.
    """

    mainloop: CollectiveMainloop
    epilogue: CollectiveEpilogue
    scheduler: TileScheduler = PersistentScheduler()
    kernel: str = field(init=False)
    config: Any = field(init=False)

    def __post_init__(self) -> None:
        main, end = self.mainloop, self.epilogue
        for what, x, y in (
            ("target", main.target.name, end.target.name),
            ("tile", main.tile_shape_mnk, end.tile_shape_mnk),
        ):
            if x != y:
                raise ProblemError(f"{what}: the main loop has {x}, the epilogue {y}")
        kernel, config = _kernel_of(main, end, self.scheduler)
        sample, can = self._sample(), registry.KERNELS[kernel].can_implement
        if kernel == "sm90_gemm" and not config.is_persistent:
            # As many blocks as fit: while one loads or stores, the others multiply.
            crowded = (replace(config, blocks_per_sm=blocks) for blocks in (4, 3, 2))
            fitting = (c for c in crowded if can(sample, main.target, c) is None)
            config = next(fitting, config)
        reason = can(sample, main.target, config)
        if reason is not None:
            why = reason if isinstance(reason, Refusal) else Refusal(reason)
            tight = "shared memory" in reason
            hint = "use StageCountAutoCarveoutEpi(epilogue)" if tight else ""
            raise ProblemError(
                f"{kernel}: {reason}", why.code, why.operand, why.needed, why.actual, hint=hint
            )
        object.__setattr__(self, "kernel", kernel)
        object.__setattr__(self, "config", config)

    def _sample(self) -> GemmProblem:
        """A problem that the collectives are made for: what refuses it refuses every one."""
        main, end = self.mainloop, self.epilogue
        sample = GemmProblem.packed(
            4096,
            4096,
            65536,
            ab=main.a.dtype,
            d=end.d.dtype,
            a_major=main.a.major("A"),
            b_major=main.b.major("B"),
            d_major=end.d.major("D"),
            with_c=end.c is not None,
        )
        fusion = end.fusion
        sample = replace(sample, bias=fusion.bias, activation=fusion.activation)
        return replace(
            sample,
            a=replace(sample.a, base_align=main.a.align_bytes),
            b=replace(sample.b, dtype=main.b.dtype, base_align=main.b.align_bytes),
            d=replace(sample.d, base_align=end.d.align_bytes),
        )

    def __str__(self) -> str:
        return "\n".join(
            (
                str(self.mainloop),
                str(self.epilogue),
                f"kernel     {self.kernel}: {self.config}",
                f"scheduler  {self.scheduler}",
            )
        )


def _kernel_of(
    main: CollectiveMainloop, end: CollectiveEpilogue, scheduler: TileScheduler
) -> tuple[str, Any]:
    """Kernel and config.  Raises: ProblemError where the library has no such kernel."""
    schedules = KernelSchedule
    if main.a.dtype is not main.b.dtype:
        raise _none(main, f"A is {main.a.dtype.name} and B {main.b.dtype.name}", "one type")
    if main.accumulator.name != "f32":
        raise _none(main, f"the accumulator is {main.accumulator.name}", "f32")
    if main.schedule in _TMA_SCHEDULES:
        return "sm90_gemm", _tma_config(main, end, scheduler)
    if not isinstance(scheduler, PersistentScheduler):
        raise _none(main, f"the scheduler is {type(scheduler).__name__}", "PersistentScheduler")
    if main.schedule is schedules.KernelCpAsyncWarpSpecializedCooperative:
        return "sm90_cpasync_gemm", _cpasync_config(main, end, scheduler)
    if main.schedule is not schedules.KernelMultistage:
        runs = (*_TMA_SCHEDULES, schedules.KernelCpAsyncWarpSpecializedCooperative)
        has = "behind cp.async two consumers share each tile"
        raise _none(main, has, f"one of {', '.join(runs)}")
    if end.schedule is not EpilogueSchedule.NoSmemWarpSpecialized:
        raise _none(main, f"the epilogue is {end.schedule}", "NoSmemWarpSpecialized")
    if main.op_class is OpClass.Simt:
        return "simt_gemm", SimtGemmConfig(main.tile_shape_mnk, scheduler.swizzle_size)
    return "sm80_gemm", Sm80GemmConfig(
        main.tile_shape_mnk,
        main.stages,
        raster=scheduler.swizzle_size,
        a_bytes=main.a.align_bytes,
        b_bytes=main.b.align_bytes,
    )


_TMA_SCHEDULES = {
    KernelSchedule.KernelTmaWarpSpecializedPingpong: "pingpong",
    KernelSchedule.KernelTmaWarpSpecializedCooperative: "cooperative",
    KernelSchedule.KernelTmaWarpSpecialized: "warp_specialized",
    KernelSchedule.KernelTma: "unspecialized",
}
_EPILOGUES = {
    "pingpong": EpilogueSchedule.TmaWarpSpecialized,
    "cooperative": EpilogueSchedule.TmaWarpSpecializedCooperative,
    "warp_specialized": EpilogueSchedule.TmaWarpSpecialized,
    "unspecialized": EpilogueSchedule.TmaWarpSpecialized,
}


def _none(main: CollectiveMainloop, has: str, needed: str) -> ProblemError:
    return ProblemError(
        f"{main.schedule}: {has}, the library's kernels need {needed}",
        StatusCode.NOT_SUPPORTED,
        "",
        needed,
        has,
    )


def _stored(main: CollectiveMainloop, end: CollectiveEpilogue, schedule: str) -> dict[str, Any]:
    """The epilogue in a config's terms."""
    if end.schedule is EpilogueSchedule.NoSmemWarpSpecialized:
        return {"epilogue": "direct", "store_boxes": 1}
    if end.schedule is not _EPILOGUES[schedule]:
        raise ProblemError(
            f"{main.schedule} needs the epilogue {_EPILOGUES[schedule]}, got {end.schedule}",
            StatusCode.NOT_SUPPORTED,
            needed=_EPILOGUES[schedule],
            actual=end.schedule,
            hint="give the builder's epilogue() that schedule",
        )
    return {"epilogue": "tma", "store_boxes": end.boxes_at_once, "store_buffers": end.buffers}


def _tma_config(
    main: CollectiveMainloop, end: CollectiveEpilogue, scheduler: TileScheduler
) -> Sm90GemmConfig:
    schedule = _TMA_SCHEDULES[main.schedule]
    return Sm90GemmConfig(
        main.tile_shape_mnk,
        main.stages,
        schedule=schedule,
        max_ctas=main.target.sm_count,
        cluster_shape_mn=main.cluster_shape_mnk[:2],
        **_stored(main, end, schedule),
        **scheduler.fields(),
    )


def _cpasync_config(
    main: CollectiveMainloop, end: CollectiveEpilogue, scheduler: PersistentScheduler
) -> Sm90CpAsyncConfig:
    if scheduler.raster_order != "AlongM":
        raise _none(main, f"the raster order is {scheduler.raster_order}", "AlongM")
    a, b = main.a.align_bytes, main.b.align_bytes
    return Sm90CpAsyncConfig(
        main.tile_shape_mnk,
        main.stages,
        # Copied through registers, an element at a time, what is loaded is there at once.
        in_flight=main.stages - 2 if min(a, b) > ELEMENT_BYTES else int(a != b),
        a_bytes=a,
        b_bytes=b,
        raster=scheduler.swizzle_size,
        max_ctas=main.target.sm_count,
        **_stored(main, end, "cooperative"),
    )
