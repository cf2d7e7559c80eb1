"""What the Hopper GEMM refuses: problems that a config does not fit, and configs that no GPU runs.

Each refusal names the value, what was expected, and what to use instead.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.arch.target import Target
from tilewright.library.configs import (
    BOX,
    CLUSTER,
    EPILOGUES,
    REDUCTIONS,
    RESERVED_SMEM,
    SCHEDULERS,
    SCHEDULES,
    Sm90GemmConfig,
)
from tilewright.library.problem import GemmProblem
from tilewright.library.status import (
    Refusal,
    StatusCode,
    misaligned,
    with_swapped_operands,
    wrong_target,
    wrong_type,
)

LEAST = {
    "num_stages": 2,  # a stage is given back when the next one is being read
    "raster": 1,
    "store_boxes": 1,
    "store_buffers": 1,
    "max_ctas": 1,
    "split_k": 1,
}
BESIDE_WGMMA = 28
"""Registers that ptxas keeps, of those at the launch, beside the accumulators of one wgmma."""


def sm90_refusal(problem: GemmProblem, target: Target, config: Sm90GemmConfig) -> str | None:
    """None, or why `sm90_gemm` cannot run the problem."""
    if config.swap_operands:
        reason = sm90_refusal(problem.transposed(), target, replace(config, swap_operands=False))
        return with_swapped_operands(reason) if reason else None
    if (reason := refused_by_wgmma(problem, target)) is not None:
        return reason
    work = {"C": problem.c, "a bias": problem.bias, "gelu": problem.activation == "gelu"}
    wanted = " and ".join(x for x in work if work[x])
    if wanted and config.accumulators > 128:
        return (
            f"{config.accumulators} accumulator registers per thread leave too few for {wanted}, "
            "at most 128 do; use a smaller tile"
        )
    reason = _refused_operands(problem, config) or _refused_config(config, target)
    reason = reason or _refused_registers(problem, config, wanted)
    if reason is None and config.split_k > -(-problem.k // config.tile_shape_mnk[2]):
        return f"split_k = {config.split_k} is more than the k tiles of K = {problem.k}"
    return reason


def refused_by_wgmma(problem: GemmProblem, target: Target) -> str | None:
    """None, or why no kernel can multiply the operands by wgmma."""
    if not target.has("wgmma"):
        return wrong_target("wgmma (sm_90a)", "sm_90a", target.name)
    if problem.a.dtype.name not in ("f16", "bf16"):
        return wrong_type("A", problem.a.dtype.name, "f16 or bf16")
    if problem.k == 0:
        return "K is 0: there is nothing for the tensor cores to do"
    return None


def _refused_operands(problem: GemmProblem, config: Sm90GemmConfig) -> str | None:
    """None, or which operand TMA cannot take."""
    d = problem.d
    tma_operands = (problem.a, problem.b, d) if config.epilogue == "tma" else problem.inputs
    for operand in tma_operands:
        if operand.major == "strided":
            text = f"{operand.name} has no contiguous index: TMA needs one"
            return Refusal(text, StatusCode.INVALID_LAYOUT, operand.name, "a stride of 1", "none")
        if operand.align_bytes < 16:
            return misaligned(operand.name, "TMA", 128, operand.align_bytes, operand.pitch_bytes)
    bn = config.tile_shape_mnk[1]
    if problem.b.major == "N" and bn % 16:
        needed = "a multiple of 16"
        text = f"B has N contiguous: a tile of {bn} columns is no whole number of swizzle atoms"
        text += f", expected {needed}"
        return Refusal(text, StatusCode.INVALID_LAYOUT, "B", needed, str(bn))
    if config.epilogue == "direct":
        if d.dtype is problem.a.dtype or d.dtype.name == "f32":
            return None
        return wrong_type("D", d.dtype.name, f"f32, or {problem.a.dtype.name} like A and B")
    if d.dtype is not problem.a.dtype:
        return wrong_type("D", d.dtype.name, f"{problem.a.dtype.name} like A and B")
    extent = problem.m if d.major == "M" else problem.n
    if extent % 8:
        return Refusal(
            f"{d.major} = {extent} is no multiple of 8: a TMA store would overrun the row by up to "
            "14 bytes",
            StatusCode.MISALIGNED_OPERAND,
            "D",
            f"{d.major} a multiple of 8",
            str(extent),
        )
    return None


def _refused_config(config: Sm90GemmConfig, target: Target) -> str | None:
    """None, or what no GPU of this target can do."""
    bm, bn, bk = config.tile_shape_mnk
    if config.schedule not in SCHEDULES:
        return f"schedule is {config.schedule!r}, expected one of {', '.join(SCHEDULES)}"
    if config.epilogue not in EPILOGUES:
        return f"epilogue is {config.epilogue!r}, expected {' or '.join(EPILOGUES)}"
    for name, least in LEAST.items():
        if getattr(config, name) < least:
            return f"{name} is {getattr(config, name)}, expected {least} or more"
    if config.raster_along not in ("M", "N"):
        return f"raster_along is {config.raster_along!r}, expected M or N"
    least = BOX * config.sharers
    if bm not in (least, 2 * least) or bn not in range(16, 257, 8) or bk not in (64, 128):
        return (
            f"tile {bm}x{bn}x{bk}: expected M of {least} or {2 * least} ({config.schedule}), N of "
            "16 to 256 by 8, K of 64 or 128"
        )
    if reason := _refused_sharing(config, target) or _refused_multicast(config):
        return reason
    turn = config.store_boxes * config.store_buffers
    across = max(bn // BOX, 1)
    if config.epilogue == "tma" and bn > BOX and bn % BOX and across % config.store_boxes:
        return (
            f"tile {bm}x{bn}: {across} whole boxes and a rest in each row, expected store_boxes "
            f"that divide {across}, got {config.store_boxes}"
        )
    if config.epilogue == "tma" and config.boxes % turn:
        return (
            f"tile {bm}x{bn}: {config.boxes} boxes for each consumer are no multiple of "
            f"store_boxes x store_buffers = {turn}"
        )
    return _refused_room(config, target)


def _refused_room(config: Sm90GemmConfig, target: Target) -> str | None:
    """None, or what of an SM is too small for the blocks that share it."""
    bm, bn, bk = config.tile_shape_mnk
    most = 2 if config.is_persistent else 4
    if not 1 <= config.blocks_per_sm <= most:
        return f"blocks_per_sm is {config.blocks_per_sm}, expected 1 to {most} ({config.schedule})"
    together = config.blocks_per_sm * (config.smem_bytes + RESERVED_SMEM)
    if config.blocks_per_sm > 1 and together > target.smem_per_sm:
        return (
            f"tile {bm}x{bn}x{bk} with {config.num_stages} stages: {config.blocks_per_sm} blocks "
            f"need {together:,} B of shared memory, an SM of {target.name} has "
            f"{target.smem_per_sm:,}; use fewer num_stages"
        )
    if config.smem_bytes > target.smem_per_block:
        return (
            f"tile {bm}x{bn}x{bk} with {config.num_stages} stages needs {config.smem_bytes:,} B "
            f"of shared memory, {target.name} has {target.smem_per_block:,}; "
            "use fewer num_stages or a smaller tile"
        )
    if config.blocks_per_sm > 1 and config.is_persistent and config.accumulators > 32:
        return (
            f"tile {bm}x{bn} needs {config.accumulators} accumulator registers per thread, with "
            f"{config.blocks_per_sm} blocks on an SM at most 32 fit; use a smaller tile"
        )
    even = config.even_registers
    if not config.is_persistent and bn // 2 + BESIDE_WGMMA > even:
        return (
            f"tile {bm}x{bn}: a wgmma of {bn} columns needs {bn // 2 + BESIDE_WGMMA} registers per "
            f"thread at the launch, with {config.blocks_per_sm} blocks on an SM there are {even}; "
            f"at most {2 * (even - BESIDE_WGMMA)} columns do"
        )
    most = config.consumer_has
    if config.accumulators + 40 > most:
        has = f"consumer_registers is {most}"
        if not config.is_persistent:
            has = f"a consumer has {most} with {config.blocks_per_sm} blocks on an SM"
        return (
            f"tile {bm}x{bn} needs {config.accumulators} accumulator registers per thread and "
            f"about 40 more, {has}; use a smaller tile"
        )
    return None


def _refused_sharing(config: Sm90GemmConfig, target: Target) -> str | None:
    """None, or why blocks cannot share tiles in this way."""
    if config.scheduler not in SCHEDULERS:
        return f"scheduler is {config.scheduler!r}, expected {' or '.join(SCHEDULERS)}"
    if config.reduction not in REDUCTIONS:
        return f"reduction is {config.reduction!r}, expected {' or '.join(REDUCTIONS)}"
    waits = f"scheduler {config.scheduler!r}" if config.scheduler == "stream_k" else ""
    if config.split_k > 1 and config.reduction == "serial":
        waits = "reduction 'serial'"
    if waits and not config.is_persistent:
        return (
            f"{waits}: blocks wait for each other, but with schedule {config.schedule!r} a block "
            "starts when another one has ended"
        )
    resident = target.sm_count * config.blocks_per_sm
    if waits and config.max_ctas > resident:
        return (
            f"{waits}: max_ctas = {config.max_ctas}, but blocks wait for each other, and "
            f"{target.name} runs {resident} at a time"
        )
    if config.in_cluster:
        return _refused_cluster(config)
    if config.scheduler != "stream_k":
        return None
    if config.split_k > 1:
        return f"split_k = {config.split_k} with scheduler 'stream_k': tiles are cut one way only"
    if config.stream_waves not in (1, 2):
        return f"stream_waves is {config.stream_waves}, expected 1 or 2"
    if config.reduction == "serial":
        return "scheduler 'stream_k': reduction 'serial' would make each block wait for the next"
    if config.reduction == "cluster":
        return "scheduler 'stream_k': reduction 'cluster' is for the equal parts of a split_k"
    return None


def _refused_registers(problem: GemmProblem, config: Sm90GemmConfig, wanted: str) -> str | None:
    """None, or what ptxas has shown to have too few registers; `wanted` is loaded or computed."""
    if not config.is_persistent:
        return _refused_sparse(config, wanted)
    what, most = "", config.accumulators
    streams, direct = config.scheduler == "stream_k", config.epilogue == "direct"
    if config.schedule == "pingpong" and config.reduction == "parallel":
        turn = "schedule 'pingpong', reduction 'parallel' and"
        if streams and problem.c:
            what, most = f"{turn} scheduler 'stream_k' with a C", 112
        elif config.split_k > 1 and direct:
            what, most = f"{turn} a split_k with epilogue 'direct'", 128
    elif config.in_cluster and config.split_k > 2 and config.blocks_per_sm > 1 and wanted:
        what, most = f"{wanted}, in a cluster of more than 2 with two blocks on an SM", 16
    elif streams and direct and problem.c and config.reduction == "fast":
        what, most = "scheduler 'stream_k', reduction 'fast' and epilogue 'direct' with a C", 80
    if config.accumulators <= most:
        return None
    return (
        f"{config.accumulators} accumulator registers per thread leave too few for {what}, at most "
        f"{most} do; use another reduction or a smaller tile"
    )


def _refused_sparse(config: Sm90GemmConfig, wanted: str) -> str | None:
    """The same where several blocks have the registers of an SM."""
    has, values, columns = config.consumer_has, config.accumulators, config.tile_shape_mnk[1]
    where = f"a consumer has {has} with {config.blocks_per_sm} blocks on an SM"
    if config.shares_tiles and not config.in_cluster and values > has // 3:
        return (
            f"{values} accumulator registers per thread: parts of a sum need twice as many more, "
            f"{where}; use reduction 'cluster' or a smaller tile"
        )
    two_widths = config.epilogue == "tma" and columns > BOX and columns % BOX
    beside = 96 if two_widths else 56
    if wanted and values + beside > has:
        with_what = "with boxes of two widths" if two_widths else "beside them"
        advice = f"whole boxes of {BOX} columns" if two_widths else "a smaller tile"
        return (
            f"{values} accumulator registers per thread: {wanted} {with_what} needs {beside} "
            f"more, {where}; use {advice}"
        )
    return None


def _refused_multicast(config: Sm90GemmConfig) -> str | None:
    """None, or why a cluster cannot share what it loads."""
    if config.cluster_shape_mn == (1, 1):
        return None
    along_m, along_n = config.cluster_shape_mn
    text = f"cluster {along_m}x{along_n}"
    if min(along_m, along_n) < 1 or along_m * along_n > CLUSTER:
        return f"{text}: expected 1 to {CLUSTER} blocks"
    if config.shares_tiles:
        return f"{text}: its blocks have tiles of their own, but split_k or stream_k shares tiles"
    if config.is_persistent and config.max_ctas < along_m * along_n:
        return f"{text}: max_ctas = {config.max_ctas} is less"
    bm, bn, bk = config.tile_shape_mnk
    # A part is whole swizzle atoms: 8 rows, or 8 of K where the rows are contiguous.
    for name, extent, blocks in (("A", bm, along_n), ("B", bn, along_m)):
        if extent % (8 * blocks) or bk % (8 * blocks):
            return f"{text}: {blocks} blocks cannot share a tile of {name} of {extent}x{bk} evenly"
    return None


def _refused_cluster(config: Sm90GemmConfig) -> str | None:
    """None, or why the blocks of a tile cannot be a cluster."""
    if config.split_k > CLUSTER:
        return f"split_k = {config.split_k} in a cluster: at most {CLUSTER} blocks are one"
    if config.is_persistent and config.max_ctas < config.split_k:
        return f"split_k = {config.split_k} in a cluster: max_ctas = {config.max_ctas} is less"
    if config.epilogue != "direct":
        return (
            f"reduction 'cluster' needs epilogue 'direct', got {config.epilogue!r}: each block "
            "stores the rows of a few warps"
        )
    return None
