"""Small kernels that show one limit of the machine each: run in the simulator and on a GPU.

A case is a launch and its buffers.  Kernels write everything that they see into their first
buffer, from where both machines are compared byte by byte.  Nothing may hang a GPU: waits for
mbarriers are tries, of a bounded number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from kernels import TENSOR_MAP, Kernel, gmem

from tilewright.ir.core import Func, Value
from tilewright.ir.ops import arith, copy, memory, sync
from tilewright.numeric.dtypes import dtype
from tilewright.sim.machine import SHARED_LIMITS, Launch, TensorMap
from tilewright.sim.memory import GlobalMemory

TRIES = 200
SHARED = SHARED_LIMITS[90]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
MapOf = Callable[[int], TensorMap]


@dataclass
class Case:
    """A kernel, its launch, and how its arguments are made of buffers.

    Each buffer is a pointer argument, or with a `MapOf` the tensor map of its address.
    """

    func: Func
    block: int
    buffers: Sequence[Bytes]
    maps: dict[int, MapOf]
    grid: tuple[int, int, int] = (1, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)

    def launch(self) -> tuple[Launch, GlobalMemory, list[Bytes]]:
        """A launch over fresh copies of the buffers."""
        memory = GlobalMemory()
        data = [b.copy() for b in self.buffers]
        args: list[Any] = []
        for n, held in enumerate(data):
            address = memory.map(held, f"buffer {n}", 0)
            args.append(self.maps[n](address) if n in self.maps else address)
        made = Launch(self.func, self.grid, (self.block, 1, 1), self.cluster, 0, tuple(args))
        return made, memory, data


def out(words: int) -> Bytes:
    """Words that no kernel writes."""
    return (np.arange(words, dtype=np.uint32) * 2654435761 + 0xDEADBEEF).view(np.uint8)


def pattern(size: int) -> Bytes:
    return (np.arange(size) * 7 + np.arange(size) // 256 * 13 + 1).astype(np.uint8)


def case(k: Kernel, block: int, *buffers: Bytes, **more: Any) -> Case:
    func = k.done()
    func.max_threads = block
    func.cluster = more.get("cluster", (1, 1, 1))
    ends = [op.offset + dtype(op.dtype).bytes_for(op.count) for op in func.body.walk()
            if isinstance(op, memory.AllocShared)]  # fmt: skip
    func.smem_bytes = max(ends, default=0)
    return Case(func, block, buffers, more.pop("maps", {}), **more)


def each_thread(k: Kernel, words: int, threads: int, do: Callable[[Value], None]) -> None:
    """`do(i)` for every word, dealt out to the threads."""
    t = k.special("thread_idx")
    for first in range(0, words, threads):
        do(k.add(t, k.i32(first)))


def filled(k: Kernel, words: int, threads: int, value: Callable[[Value], Value]) -> Value:
    """Shared memory of u32 `words` at offset 0; word i is `value(i)`.  Ends in a barrier."""
    s = k.shared("u32", words, 0, "s")
    each_thread(k, words, threads, lambda i: k.store(k.at(s, i), k.cast(value(i), "u32")))
    k.do(sync.FenceProxyAsync)
    k.do(sync.SyncThreads)
    return s


def dump(k: Kernel, s: Value, words: int, threads: int, at: int = 0) -> None:
    """All words of `s` into the first buffer, from word `at` on."""
    k.do(sync.SyncThreads)
    first = next(iter(k.args.values()))
    each_thread(
        k,
        words,
        threads,
        lambda i: k.store(k.at(first, k.add(i, k.i32(at))), k.load(k.at(s, i))),
    )


def tried(k: Kernel, bar: Value, parity: int) -> Value:
    """Whether a phase completes within `TRIES` tries."""
    yes = k.cmp(k.i32(0), "eq", k.i32(1))
    with k.loop(k.i32(0), k.i32(TRIES), inits=[yes], names=["seen"], unroll=1) as loop:
        now = k.v(sync.MBarrierTryWait, bar, k.u32(parity))
        loop.end(k.v(arith.Or, loop.args[0], now))
    return loop.results[0]


def only(k: Kernel, thread: int, do: Callable[[], None]) -> None:
    k.branch(k.cmp(k.special("thread_idx"), "eq", k.i32(thread)), do)


def flag(k: Kernel, at: int, value: Value) -> None:
    first = next(iter(k.args.values()))
    k.store(k.at(first, at), k.cast(k.cast(value, "i32"), "u32"))


# -- shared memory, blocks, clusters ---------------------------------------------------------------


def shared_limit(size: int = SHARED) -> Case:
    """All of the shared memory that a block may have: the last word is there."""
    k = Kernel("shared_limit", out=gmem("u32"))
    s = k.shared("u32", size // 4, 0, "s")
    k.store(k.at(s, size // 4 - 1), k.u32(77))
    k.store(k.at(k.out, 0), k.load(k.at(s, size // 4 - 1)))
    k.store(k.at(k.out, 1), k.v(memory.SharedAddress, s))
    return case(k, 32, out(2))


def cluster_places(cluster: tuple[int, int, int], grid: tuple[int, int, int]) -> Case:
    """Who is where in a cluster, and where its shared memory begins."""
    k = Kernel("cluster_places", out=gmem("u32"))
    s = k.shared("u32", 4, 0, "s")
    x, y = (k.special("block_idx", axis) for axis in (0, 1))
    block = k.add(x, k.mul(y, k.special("grid_dim", 0)))
    facts = [
        k.special("cluster_rank"),
        *(k.special("block_in_cluster", axis) for axis in range(3)),
        *(k.special("cluster_dim", axis) for axis in range(3)),
    ]
    for n, fact in enumerate(facts):
        k.store(k.at(k.out, k.add(k.mul(block, k.i32(8)), k.i32(n))), k.cast(fact, "u32"))
    address = k.v(memory.SharedAddress, s)
    k.store(k.at(k.out, k.add(k.mul(block, k.i32(8)), k.i32(7))), address)
    k.do(sync.ClusterArrive)
    k.do(sync.ClusterWait)
    return case(k, 32, out(8 * grid[0] * grid[1]), grid=grid, cluster=cluster)


def named_barriers() -> Case:
    """Barriers 1 to 15 at once, two warps each, and what they order."""
    k = Kernel("named_barriers", out=gmem("u32"))
    s = k.shared("u32", 1024, 0, "s")
    t = k.special("thread_idx")
    k.store(k.at(s, t), k.cast(k.mul(t, k.i32(3)), "u32"))
    pair = k.add(k.div(t, k.i32(64)), k.i32(1))
    k.do(sync.BarrierSync, k.cast(pair, "u32"), k.u32(64))
    k.store(k.at(k.out, t), k.load(k.at(s, k.v(arith.Xor, t, k.i32(32)))))
    return case(k, 960, out(960))


# -- mbarriers -------------------------------------------------------------------------------------


def mbarrier_phases() -> Case:
    """Tries with both parities before and after each of five arrivals at a barrier of two."""
    k = Kernel("mbarrier_phases", out=gmem("u32"))
    bar = k.shared("u64", 1, 0, "bar", align=8)

    def one() -> None:
        k.do(sync.MBarrierInit, bar, k.u32(2))
        for n in range(6):
            for parity in (0, 1):
                flag(k, 2 * n + parity, k.v(sync.MBarrierTryWait, bar, k.u32(parity)))
            k.do(sync.MBarrierArrive, bar)

    only(k, 0, one)
    return case(k, 32, out(12))


def mbarrier_bytes() -> Case:
    """A phase waits for its bytes as well: more expected after the last arrival but one."""
    k = Kernel("mbarrier_bytes", out=gmem("u32"), map=TENSOR_MAP)
    s = k.shared("u32", 64, 0, "s")
    bar = k.shared("u64", 1, 1024, "bar", align=8)

    def one() -> None:
        k.do(sync.MBarrierInit, bar, k.u32(1))
        k.do(sync.FenceMBarrierInit)
        k.do(sync.MBarrierArriveExpectTx, bar, k.u32(256))
        k.do(copy.TmaLoad, k.map, s, bar, k.i32(0))
        flag(k, 64, tried(k, bar, 0))
        k.do(sync.MBarrierExpectTx, bar, k.u32(256))
        k.do(sync.MBarrierArrive, bar)
        flag(k, 65, k.v(sync.MBarrierTryWait, bar, k.u32(1)))
        k.do(copy.TmaLoad, k.map, s, bar, k.i32(0))
        flag(k, 66, tried(k, bar, 1))

    one()
    dump(k, s, 64, 1)
    maps = {1: lambda address: TensorMap("u32", address, (64,), (), (64,))}
    return case(k, 1, out(67), pattern(256), maps=maps)


def remote_arrivals() -> Case:
    """Each CTA of a pair arrives at the other's barrier."""
    k = Kernel("remote_arrivals", out=gmem("u32"))
    bar = k.shared("u64", 1, 0, "bar", align=8)

    def init() -> None:
        k.do(sync.MBarrierInit, bar, k.u32(1))

    only(k, 0, init)
    k.do(sync.FenceMBarrierInit)
    k.do(sync.ClusterArrive)
    k.do(sync.ClusterWait)
    rank = k.special("cluster_rank")

    def one() -> None:
        other = k.cast(k.v(arith.Xor, rank, k.i32(1)), "u32")
        k.do(sync.MBarrierArriveRemote, bar, other)
        seen = k.cast(k.cast(tried(k, bar, 0), "i32"), "u32")
        k.store(k.at(k.out, k.special("block_idx")), seen)

    only(k, 0, one)
    k.do(sync.ClusterArrive)
    k.do(sync.ClusterWait)
    return case(k, 32, out(2), grid=(2, 1, 1), cluster=(2, 1, 1))


# -- the copy engine -------------------------------------------------------------------------------

ROWS, PITCH = 24, 208
"""Of the global tensors: bytes from row to row, more than any row has."""
SPANS = {"none": 64, "32B": 32, "64B": 64, "128B": 128}


def tma_load(swizzle: str, corner: tuple[int, int], offset: int, nan: bool = False) -> Case:
    """A box of 8 rows, at a corner that may lie outside, into shared memory at `offset`."""
    words, box = 1024, (SPANS[swizzle] // 2, 8)
    k = Kernel("tma_load", out=gmem("u32"), map=TENSOR_MAP)
    s = filled(k, words, 128, lambda i: k.add(i, k.i32(1 << 20)))
    bar = k.shared("u64", 1, 4 * words, "bar", align=8)

    def one() -> None:
        k.do(sync.MBarrierInit, bar, k.u32(1))
        k.do(sync.FenceMBarrierInit)
        k.do(sync.MBarrierArriveExpectTx, bar, k.u32(box[0] * box[1] * 2))
        into = k.at(s, offset // 4)
        k.do(copy.TmaLoad, k.map, into, bar, *(k.i32(c) for c in corner))
        flag(k, words, tried(k, bar, 0))

    only(k, 0, one)
    dump(k, s, words, 128)

    def tensor(address: int) -> TensorMap:
        return TensorMap("bf16", address, (90, ROWS), (PITCH,), box, swizzle, nan)

    return case(k, 128, out(words + 1), pattern(ROWS * PITCH), maps={1: tensor})


def tma_store(swizzle: str, corner: tuple[int, int], columns: int) -> Case:
    """A box of 8 rows from shared memory, into a tensor whose rows have `columns` elements."""
    box = (SPANS[swizzle] // 2, 8)
    k = Kernel("tma_store", out=gmem("u32"), map=TENSOR_MAP)
    s = filled(k, 512, 128, lambda i: k.mul(i, k.i32(0x01010101)))

    def one() -> None:
        k.do(copy.TmaStore, k.map, s, *(k.i32(c) for c in corner))
        k.do(copy.BulkCommit)
        k.do(copy.BulkWait, pending=0, read=False)

    only(k, 0, one)
    dump(k, s, 512, 128)

    def tensor(address: int) -> TensorMap:
        return TensorMap("bf16", address, (columns, ROWS), (PITCH,), box, swizzle)

    return case(k, 128, out(512), pattern(ROWS * PITCH), maps={1: tensor})


def cp_async(size: int) -> Case:
    """Copies of `size` bytes; those of odd threads are predicated off, and write zeros."""
    k = Kernel("cp_async", out=gmem("u32"), x=gmem("u32"))
    s = filled(k, 256, 32, lambda i: k.add(i, k.i32(5000)))
    t = k.special("thread_idx")
    step = k.mul(t, k.i32(size // 4))
    even = k.cmp(k.mod(t, k.i32(2)), "eq", k.i32(0))
    src, dst = (k.v(memory.CastPointer, k.at(p, step), dtype="u32", align=size) for p in (k.x, s))
    k.do(copy.CpAsync, src, dst, even, bytes=size, cache="cg" if size == 16 else "ca")
    k.do(copy.CpAsyncCommit)
    k.do(copy.CpAsyncWait, pending=0)
    dump(k, s, 256, 32)
    return case(k, 32, out(256), pattern(1024))


# -- warps -----------------------------------------------------------------------------------------


def matrices(num: int, transpose: bool) -> Case:
    """ldmatrix hands out; stmatrix puts back, into rows in another order."""
    k = Kernel("matrices", out=gmem("u32"))
    words = 32 * num
    s = filled(k, 2 * words, 32, lambda i: k.mul(i, k.i32(0x00020003)))
    halves = k.v(memory.CastPointer, s, dtype="bf16", align=16)
    held = k.registers("bf16", 2 * num, "held")
    lane = k.mod(k.special("thread_idx"), k.i32(8 * num))

    def row(index: Value) -> Value:
        at = k.at(halves, k.mul(index, k.i32(8)))
        return k.v(memory.CastPointer, at, dtype="bf16", align=16)

    k.do(copy.LdMatrix, row(lane), held, num=num, transpose=transpose)
    k.do(sync.SyncWarp)
    turned = k.sub(k.i32(16 * num - 1), lane)
    k.do(copy.StMatrix, held, row(turned), num=num, transpose=transpose)
    dump(k, s, 2 * words, 32)
    return case(k, 32, out(2 * words))


def collectives() -> Case:
    """Shuffles of every mode and width, votes, and who is elected."""
    k = Kernel("collectives", out=gmem("u32"))
    t = k.special("thread_idx")
    a = k.cast(k.mul(t, k.i32(5)), "u32")
    found = [
        k.v(sync.WarpShuffle, a, k.u32(lane), mode=mode, width=width)
        for mode in ("idx", "up", "down", "bfly")
        for width in (32, 16, 4)
        for lane in (1, 3, 9)
    ]
    third = k.cmp(k.mod(t, k.i32(3)), "eq", k.i32(0))
    found.append(k.v(sync.WarpVote, third, mode="ballot"))
    found += [
        k.cast(k.cast(k.v(sync.WarpVote, third, mode=mode), "i32"), "u32")
        for mode in ("any", "all")
    ]
    found.append(k.cast(k.cast(k.v(sync.ElectOne), "i32"), "u32"))
    for n, value in enumerate(found):
        k.store(k.at(k.out, k.add(t, k.i32(64 * n))), value)
    return case(k, 64, out(64 * len(found)))


CASES: dict[str, Callable[[], Case]] = {
    "shared memory of 227 KiB": shared_limit,
    "clusters of 2 x 2": lambda: cluster_places((2, 2, 1), (4, 2, 1)),
    "clusters of 8": lambda: cluster_places((8, 1, 1), (16, 1, 1)),
    "named barriers 1 to 15": named_barriers,
    "mbarrier phases": mbarrier_phases,
    "mbarrier bytes": mbarrier_bytes,
    "remote arrivals": remote_arrivals,
    **{
        f"TMA load {swizzle} at {corner} to {offset}": lambda s=swizzle, c=corner, o=offset: (
            tma_load(s, c, o)
        )
        for swizzle, offset in [("none", 128), ("32B", 256), ("64B", 512), ("128B", 1024)]
        for corner in [(8, 3), (-8, -2), (80, 20), (200, 0)]
    },
    "TMA load, NaN outside": lambda: tma_load("128B", (72, 20), 2048, nan=True),
    **{
        f"TMA store {swizzle} at {corner}, {columns} columns": (
            lambda s=swizzle, c=corner, n=columns: tma_store(s, c, n)
        )
        for swizzle in SPANS
        for corner, columns in [((0, 0), 90), ((8, 20), 19), ((24, 2), 29)]
    },
    **{f"cp.async of {size} bytes": lambda s=size: cp_async(s) for size in (4, 8, 16)},
    **{
        f"ldmatrix and stmatrix x{num}{' transposed' if t else ''}": lambda n=num, t=t: matrices(
            n, t
        )
        for num in (1, 2, 4)
        for t in (False, True)
    },
    "shuffles, votes, election": collectives,
}
