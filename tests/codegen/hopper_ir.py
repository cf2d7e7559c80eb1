"""A warp-specialised persistent GEMM for Hopper as hand-built IR: D = A Bᵀ in bf16, f32 inside.

One producer warpgroup feeds a ring of shared-memory stages by TMA; two consumer warpgroups share
a 128 x 256 tile, multiply with wgmma, and store through stmatrix and TMA.  It is what a kernel in
the language traces to, and the structure that reaches cuBLAS's speed on an H200.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernels import TENSOR_MAP, Kernel, scalar

from tilewright.ir.core import Func, Value
from tilewright.ir.ops import arith, copy, memory, mma, sync

BM, BN, BK = 128, 256, 64
STAGES = 4
RASTER = 16
BOXES = 2
"""64 x 64 boxes of the output that one consumer stages at a time."""
SUB_TILES = BN // 64
ATOM = "SM90_64x256x16_F32BF16BF16_SS_KK"
A_BYTES, B_BYTES = BM * BK * 2, BN * BK * 2
# 128-byte swizzle, rows of 128 bytes: 1024 bytes to the next eight rows.
DESC_HIGH = (1024 >> 4) << 32 | 1 << 62


class Gemm(Kernel):
    def __init__(self, name: str = "gemm") -> None:
        i32 = scalar("i32")
        super().__init__(
            name, tma_a=TENSOR_MAP, tma_b=TENSOR_MAP, tma_d=TENSOR_MAP, m=i32, n=i32, k=i32
        )
        self.func.max_threads = 384
        self.sA = self.shared("bf16", STAGES * BM * BK, 0, "sA")
        self.sB = self.shared("bf16", STAGES * BN * BK, STAGES * A_BYTES, "sB")
        c_offset = STAGES * (A_BYTES + B_BYTES)
        self.sC = self.shared("bf16", 2 * BOXES * 64 * 64, c_offset, "sC")
        bars = c_offset + 2 * BOXES * 8192
        self.full = self.shared("u64", STAGES, bars, "full", align=8)
        self.empty = self.shared("u64", STAGES, bars + 8 * STAGES, "empty", align=8)
        self.func.smem_bytes = bars + 16 * STAGES

    # ---- pieces

    def ceil_div(self, a: Value, b: int, name: str) -> Value:
        return self.div(self.add(a, self.i32(b - 1)), self.i32(b), name=name)

    def tile_origin(self, t: Value, rows: Value, cols: Value) -> tuple[Value, Value]:
        """Tiles are walked column by column in bands of RASTER rows, which keeps L2 warm."""
        band_tiles = self.mul(cols, self.i32(RASTER))
        band = self.div(t, band_tiles, name="band")
        inside = self.mod(t, band_tiles, name="inside")
        first = self.mul(band, self.i32(RASTER), name="first_row")
        height = self.v(arith.Min, self.i32(RASTER), self.sub(rows, first), name="height")
        row = self.add(first, self.mod(inside, height))
        col = self.div(inside, height)
        m0 = self.mul(row, self.i32(BM), name="m0")
        return m0, self.mul(col, self.i32(BN), name="n0")

    def advance(self, stage: Value, phase: Value) -> tuple[Value, Value]:
        following = self.add(stage, self.i32(1), name="following")
        wraps = self.cmp(following, "eq", self.i32(STAGES), name="wraps")
        flipped = self.v(arith.Xor, phase, self.u32(1))
        return (
            self.v(arith.Select, wraps, self.i32(0), following),
            self.v(arith.Select, wraps, flipped, phase),
        )

    def box(self, base: Value, stage: Value, elements: int) -> Value:
        return self.at(base, self.mul(stage, self.i32(elements)), divisor=elements)

    def bar(self, base: Value, stage: Value) -> Value:
        return self.at(base, stage)

    def leader_only(self, leader: Value, *ops: tuple[type, Sequence[Value], dict]) -> None:
        def arm() -> None:
            for kind, operands, attrs in ops:
                self.do(kind, *operands, **attrs)

        self.branch(leader, arm)

    # ---- roles

    def build(self) -> Func:
        thread = self.special("thread_idx", name="thread")
        group = self.v(sync.WarpUniform, self.div(thread, self.i32(128)), name="group")
        rows = self.ceil_div(self.m, BM, "rows")
        cols = self.ceil_div(self.n, BN, "cols")
        tiles = self.mul(rows, cols, name="tiles")
        blocks_k = self.ceil_div(self.k, BK, "blocks_k")
        self.branch(self.cmp(thread, "eq", self.i32(0)), self.prologue)
        self.do(sync.SyncThreads)
        self.branch(
            self.cmp(group, "eq", self.i32(0)),
            lambda: self.producer(thread, rows, cols, tiles, blocks_k),
            lambda: self.consumer(thread, group, rows, cols, tiles, blocks_k),
        )
        return self.done()

    def prologue(self) -> None:
        for tensor_map in (self.tma_a, self.tma_b, self.tma_d):
            self.do(copy.PrefetchDescriptor, tensor_map)
        with self.loop(self.i32(0), self.i32(STAGES), iv="i") as ring:
            self.do(sync.MBarrierInit, self.bar(self.full, ring.iv), self.u32(1))
            self.do(sync.MBarrierInit, self.bar(self.empty, ring.iv), self.u32(2))
        self.do(sync.FenceMBarrierInit)

    def producer(
        self, thread: Value, rows: Value, cols: Value, tiles: Value, blocks_k: Value
    ) -> None:
        self.do(sync.SetMaxRegister, count=40, increase=False)
        warp = self.v(sync.WarpUniform, self.div(thread, self.i32(32)), name="warp")

        def one_warp() -> None:
            self.branch(self.do(sync.ElectOne, name="leader").results[0], feed)

        def feed() -> None:
            step = self.special("grid_dim")
            start = [self.i32(0), self.u32(0)]
            names = ["stage", "phase"]
            with self.loop(
                self.special("block_idx"), tiles, step, inits=start, names=names, iv="t"
            ) as outer:
                m0, n0 = self.tile_origin(outer.iv, rows, cols)
                with self.loop(
                    self.i32(0), blocks_k, inits=outer.args, names=names, iv="k", unroll=1
                ) as inner:
                    stage, phase = inner.args
                    flipped = self.v(arith.Xor, phase, self.u32(1))
                    bar = self.bar(self.full, stage)
                    self.do(sync.MBarrierWait, self.bar(self.empty, stage), flipped)
                    self.do(sync.MBarrierArriveExpectTx, bar, self.u32(A_BYTES + B_BYTES))
                    x = self.mul(inner.iv, self.i32(BK))
                    self.do(copy.TmaLoad, self.tma_a, self.box(self.sA, stage, BM * BK), bar, x, m0)
                    self.do(copy.TmaLoad, self.tma_b, self.box(self.sB, stage, BN * BK), bar, x, n0)
                    inner.end(*self.advance(stage, phase))
                outer.end(*inner.results)

        self.branch(self.cmp(warp, "eq", self.i32(0)), one_warp)

    def descriptor(self, low: Value, offset: int) -> Value:
        shifted = self.add(low, self.u32(offset))
        return self.v(arith.Or, self.const(DESC_HIGH, "u64"), self.cast(shifted, "u64"))

    def descriptor_low(self, pointer: Value, name: str) -> Value:
        """Start address and, above it, the leading offset (which a K-major operand ignores)."""
        address = self.v(memory.SharedAddress, pointer)
        kept = self.v(arith.And, address, self.u32(0x3FFFF))
        shifted = self.v(arith.Shr, kept, self.u32(4))
        return self.v(arith.Or, shifted, self.u32(1 << 16), name=name)

    def consumer(
        self, thread: Value, group: Value, rows: Value, cols: Value, tiles: Value, blocks_k: Value
    ) -> None:
        self.do(sync.SetMaxRegister, count=232, increase=True)
        who = self.sub(group, self.i32(1), name="who")
        lane128 = self.mod(thread, self.i32(128), name="tid")
        leader = self.cmp(lane128, "eq", self.i32(0), name="leader")
        a_low = self.descriptor_low(self.box(self.sA, who, 64 * BK), "a_low")
        b_low = self.descriptor_low(self.sB, "b_low")
        acc = self.registers("f32", BN // 2, "acc")
        barrier = self.cast(self.add(who, self.i32(1)), "u32", name="barrier")
        staged = self.at(self.sC, self.mul(who, self.i32(BOXES * 4096)), 4096, name="staged")
        row_pointer = self.store_rows(staged, lane128)
        start = [self.i32(0), self.u32(0)]
        with self.loop(
            self.special("block_idx"),
            tiles,
            self.special("grid_dim"),
            inits=start,
            names=["stage", "phase"],
            iv="t",
        ) as outer:
            m0, n0 = self.tile_origin(outer.iv, rows, cols)
            row0 = self.add(m0, self.mul(who, self.i32(64)), name="row0")
            results = self.mainloop(acc, a_low, b_low, leader, blocks_k, outer.args)
            self.epilogue(acc, staged, row_pointer, barrier, leader, row0, n0)
            outer.end(*results)
        self.leader_only(leader, (copy.BulkWait, (), {"pending": 0}))

    def mainloop(
        self,
        acc: Value,
        a_low: Value,
        b_low: Value,
        leader: Value,
        blocks_k: Value,
        state: Sequence[Value],
    ) -> Sequence[Value]:
        with self.loop(
            self.i32(0),
            blocks_k,
            inits=[*state, self.i32(0)],
            names=["stage", "phase", "last"],
            iv="k",
            unroll=1,
        ) as loop:
            stage, phase, last = loop.args
            self.do(sync.MBarrierWait, self.bar(self.full, stage), phase)
            index = self.cast(stage, "u32")
            a = self.add(a_low, self.mul(index, self.u32(A_BYTES >> 4)), name="a")
            b = self.add(b_low, self.mul(index, self.u32(B_BYTES >> 4)), name="b")
            later = self.cmp(loop.iv, "gt", self.i32(0), name="later")
            self.do(mma.WgmmaFence)
            for step in range(BK // 16):
                self.do(
                    mma.Wgmma,
                    acc,
                    self.descriptor(a, 2 * step),
                    self.descriptor(b, 2 * step),
                    later if step == 0 else self.bool(True),
                    atom=ATOM,
                )
            self.do(mma.WgmmaCommit)
            self.do(mma.WgmmaWait, pending=1)
            release = self.v(arith.And, later, leader)
            self.leader_only(release, (sync.MBarrierArrive, (self.bar(self.empty, last),), {}))
            loop.end(*self.advance(stage, phase), stage)
        self.do(mma.WgmmaWait, pending=0)
        stage, phase, last = loop.results
        self.leader_only(leader, (sync.MBarrierArrive, (self.bar(self.empty, last),), {}))
        return stage, phase

    def store_rows(self, staged: Value, tid: Value) -> Value:
        """The row that this lane gives to stmatrix: 16-byte chunks are swizzled by the row."""
        lane = self.mod(tid, self.i32(32), name="lane")
        warp_row = self.mul(self.div(tid, self.i32(32)), self.i32(16))
        row = self.add(warp_row, self.mod(lane, self.i32(16)), name="row")
        chunk = self.v(
            arith.Xor, self.div(lane, self.i32(16)), self.mod(lane, self.i32(8)), name="chunk"
        )
        at_row = self.mul(row, self.i32(64))
        return self.at(staged, self.add(at_row, self.mul(chunk, self.i32(8))), 8, name="my_row")

    def epilogue(
        self,
        acc: Value,
        staged: Value,
        my_row: Value,
        barrier: Value,
        leader: Value,
        row0: Value,
        n0: Value,
    ) -> None:
        threads = self.u32(128)
        packed = self.registers("bf16", 8, "packed")
        for half in range(SUB_TILES // BOXES):
            self.leader_only(leader, (copy.BulkWait, (), {"pending": 0}))
            self.do(sync.BarrierSync, barrier, threads)
            for box in range(BOXES):
                for j in range(4):
                    first = (half * BOXES + box) * 32 + 8 * j
                    values = self.load(self.at(acc, first), 8)
                    self.store(packed, self.cast(values, "bf16"))
                    row = self.swizzled(my_row, box, j)
                    self.do(copy.StMatrix, packed, row, num=4)
            self.do(sync.FenceProxyAsync)
            self.do(sync.BarrierSync, barrier, threads)
            stores = []
            for box in range(BOXES):
                column = self.add(n0, self.i32((half * BOXES + box) * 64))
                source = self.at(staged, box * 4096)
                stores.append((copy.TmaStore, (self.tma_d, source, column, row0), {}))
            self.leader_only(leader, *stores, (copy.BulkCommit, (), {}))

    def swizzled(self, my_row: Value, box: int, j: int) -> Value:
        """Chunk 2j of the row in a box: the address of chunk 0 or 1 with bits 5 and 6 flipped."""
        owner = my_row.owner
        assert isinstance(owner, memory.Offset)
        flipped = self.v(arith.Xor, owner.index, self.i32(16 * j))
        return self.at(owner.base, self.add(flipped, self.i32(box * 4096)), 8)


def hopper_gemm() -> Func:
    return Gemm().build()
