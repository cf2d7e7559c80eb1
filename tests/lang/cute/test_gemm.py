"""cute.gemm: dispatch by rank, the unrolled instructions, and what is refused."""

import pytest
from traced import kernel

from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.ir.ops import arith, memory, mma
from tilewright.lang.cute.gemm import gemm
from tilewright.lang.cute.nvgpu import warp, warpgroup
from tilewright.lang.cute.nvgpu.common import MmaUniversalOp
from tilewright.lang.cute.smem import SmemAllocator
from tilewright.lang.cute.tensor import make_rmem_tensor
from tilewright.lang.cute.tiled_mma import make_tiled_mma
from tilewright.lang.cute.views import make_layout, tile_to_shape
from tilewright.lang.values import BFloat16, Boolean, Float32
from tilewright.layout.layout import Layout

ACCUMULATE = warpgroup.Field.ACCUMULATE
AMPERE = make_tiled_mma(warp.MmaF16BF16Op(BFloat16, Float32, (16, 8, 16)))
FMA = make_tiled_mma(MmaUniversalOp(Float32))


def hopper(source=warpgroup.OperandSource.SMEM):
    return make_tiled_mma(warpgroup.MmaF16BF16Op(BFloat16, Float32, (64, 128, 16), source))


def registers(shape, dtype=Float32):
    t = make_rmem_tensor(shape, dtype)
    t.fill(0)
    return t


def run_fma(k, acc: list[float], a: list, b: list) -> list[float]:
    """Executes the traced vector operations on Python numbers."""
    arrays: dict = {}
    values: dict = {}
    fresh = iter([acc, a, b])
    for op in k.func.body.ops:
        if isinstance(op, memory.AllocRegisters):
            arrays[op.result] = list(next(fresh))
        elif isinstance(op, memory.Gather):
            values[op.result] = [arrays[op.base][i] for i in op.indices]
        elif isinstance(op, arith.Fma):
            x, y, z = (values[v] for v in op.operands)
            values[op.result] = [p * q + r for p, q, r in zip(x, y, z, strict=True)]
        elif isinstance(op, memory.Scatter) and op.value in values:
            for i, v in zip(op.indices, values[op.value], strict=True):
                arrays[op.base][i] = v
    return next(iter(arrays.values()))


def test_universal_fma_computes_the_product() -> None:
    m, n, depth = 3, 2, 4
    with kernel() as k:
        c = make_rmem_tensor((1, m, n), Float32)
        a = make_rmem_tensor((1, m, depth), Float32)
        b = make_rmem_tensor((1, n, depth), Float32)
        gemm(FMA, c, a, b, c)
        assert len(k.all(arith.Fma)) == depth
        k.verify()
    x, y, z = [float(i) for i in range(12)], [float(i % 5) for i in range(8)], [1.0] * 6
    got = run_fma(k, z, x, y)
    for i in range(m):
        for j in range(n):
            wanted = 1.0 + sum(x[i + m * p] * y[j + n * p] for p in range(depth))
            assert got[i + m * j] == wanted


def test_ranks() -> None:
    with kernel() as k:
        v = registers((1,))
        gemm(FMA, v, registers((1,)), registers((1,)), v)
        gemm(FMA, registers((2, 3)), registers((2, 4)), registers((3, 4)), registers((2, 3)))
        c = registers((1, 2, 3))
        gemm(FMA, c, registers((1, 2)), registers((1, 3)), c)
        gemm(FMA, c, registers((1, 2, 5)), registers((1, 3, 5)), c)
        assert len(k.all(arith.Fma)) == 1 + 4 + 1 + 5
        with pytest.raises(LayoutError, match=r"the ranks of the operands do not fit together"):
            gemm(FMA, c, registers((1, 2, 5)), registers((1, 3)), c)
        k.verify()


def test_mma_sync_walks_back_and_forth() -> None:
    with kernel() as k:
        c = registers(((2, 2), 2, 3))
        a = registers(((2, 2, 2), 2, 2), BFloat16)
        b = registers(((2, 2), 3, 2), BFloat16)
        gemm(AMPERE, c, a, b, c)
        ops = k.all(mma.Mma)
        assert len(ops) == 2 * 3 * 2
        assert {op.atom for op in ops} == {"SM80_16x8x16_F32BF16BF16F32_TN"}
        starts = [
            op.d.owner.index.owner.value if op.d.owner.name == "mem.offset" else 0 for op in ops
        ]
        assert starts[:6] == [0, 8, 16, 20, 12, 4]
        k.verify()


def test_scattered_fragments_are_gathered() -> None:
    """An accumulator reread as an operand (as in attention) is not consecutive."""
    with kernel() as k:
        c = registers(((2, 2), 1, 1))
        spread = make_rmem_tensor(Layout(((2, 2, 2), 1, 1), ((1, 2, 8), 0, 0)), BFloat16)
        spread.fill(0)
        gemm(AMPERE, c, spread, registers(((2, 2), 1, 1), BFloat16), c)
        assert k.all(memory.Gather)[0].indices == (0, 1, 2, 3, 8, 9, 10, 11)
        k.verify()


def tiles(columns: int = 64):
    atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, BFloat16)
    smem = SmemAllocator()
    a = smem.allocate_tensor(BFloat16, tile_to_shape(atom, (128, columns), (0, 1)))
    b = smem.allocate_tensor(BFloat16, tile_to_shape(atom, (128, columns), (0, 1)))
    return a, b


def test_wgmma_in_place() -> None:
    tiled = hopper()
    with kernel() as k:
        a, b = tiles()
        thr = tiled.get_slice(0)
        fa = tiled.make_fragment_A(thr.partition_A(a))
        fb = tiled.make_fragment_B(thr.partition_B(b))
        acc = tiled.make_fragment_C(tiled.partition_shape_C((128, 128)))
        tiled.set(ACCUMULATE, False)
        gemm(tiled, acc, fa, fb, acc)
        ops = k.all(mma.Wgmma)
        assert len(ops) == 4 * 2
        # Only the first step of K overwrites; both row blocks do so there.
        assert [op.accumulate.owner.value for op in ops] == [False] * 2 + [True] * 6
        flag = Boolean(k.number("f", "bool"))
        tiled.set(ACCUMULATE, flag)
        gemm(tiled, acc, fa[None, None, 0], fb[None, None, 0], acc)
        assert k.all(mma.Wgmma)[-1].accumulate is flag.ir_value()
        k.verify()


def test_wgmma_with_a_in_registers() -> None:
    tiled = hopper(warpgroup.OperandSource.RMEM)
    with kernel() as k:
        _, b = tiles()
        thr = tiled.get_slice(0)
        fa = tiled.make_fragment_A(tiled.partition_shape_A((64, 64)))
        fa.fill(0)
        fb = tiled.make_fragment_B(thr.partition_B(b))
        acc = tiled.make_fragment_C(tiled.partition_shape_C((64, 128)))
        acc.fill(0)
        gemm(tiled, acc, fa, fb, acc)
        assert len(k.all(mma.WgmmaRs)) == 4
        k.verify()
        spread = make_rmem_tensor(Layout(((2, 2, 2), 1, 1), ((1, 4, 8), 0, 0)), BFloat16)
        with pytest.raises(LayoutError, match=r"the A registers of one wgmma must be consecutive"):
            gemm(tiled, acc, spread[None, None, 0], fb[None, None, 0], acc)


def test_wrong_use_is_refused() -> None:
    tiled = hopper()
    with kernel() as k:
        a, b = tiles()
        thr = tiled.get_slice(0)
        fa = tiled.make_fragment_A(thr.partition_A(a))
        fb = tiled.make_fragment_B(thr.partition_B(b))
        acc = tiled.make_fragment_C(tiled.partition_shape_C((128, 128)))
        other = tiled.make_fragment_C(tiled.partition_shape_C((128, 128)))
        spread = make_rmem_tensor(Layout(((2, 2, 16), 2, 1), ((1, 2, 8), 4, 0)), Float32)
        small = registers(((2, 2), 2, 3))
        sa, sb = registers(((2, 2, 2), 2, 2), BFloat16), registers(((2, 2), 3, 2), BFloat16)
        cases = [
            (lambda: gemm(acc, acc, fa, fb, acc), TypeMismatchError, r"gemm: expected an MMA atom"),
            (
                lambda: gemm(tiled, acc, 3, fb, acc),
                TypeMismatchError,
                r"expected a Tensor as a, got",
            ),
            (
                lambda: gemm(tiled, acc, fa, fb, other),
                TypeMismatchError,
                r"accumulates in place, d and c must be the same tensor",
            ),
            (
                lambda: gemm(tiled, acc, thr.partition_A(a), fb, acc),
                TypeMismatchError,
                r"reads a from shared memory by descriptor, got tensor<ptr<bf16",
            ),
            (
                lambda: gemm(tiled, spread, fa, fb, spread),
                LayoutError,
                r"accumulators of one wgmma must be consecutive registers",
            ),
            (
                lambda: gemm(AMPERE, small, sa, registers(((2, 2), 4, 2), BFloat16), small),
                LayoutError,
                r"gemm: N differs: 4 in b \(\(2,2\),4,2\), 3 in c \(\(2,2\),2,3\)",
            ),
            (
                lambda: gemm(AMPERE, small, sa, registers(((2, 2), 3, 1), BFloat16), small),
                LayoutError,
                r"gemm: K differs: 2 in a",
            ),
            (
                lambda: gemm(AMPERE, small, registers(((2, 2, 2), 2, 2)), sb, small),
                TypeMismatchError,
                r"takes bf16 for a, the fragment holds f32",
            ),
            (
                lambda: gemm(AMPERE, small, registers((4, 2, 2), BFloat16), sb, small),
                LayoutError,
                r"takes 8 values of a per thread, the fragment has \(4,2,2\)",
            ),
            (
                lambda: gemm(AMPERE, small, k.gmem("bf16", Layout((8, 2, 2))), sb, small),
                TypeMismatchError,
                r"takes a in registers, got tensor<ptr<bf16, gmem",
            ),
            (
                lambda: gemm(
                    AMPERE, small, k.gmem("bf16", make_layout((8, 2, k.number("K")))), sb, small
                ),
                LayoutError,
                r"gemm: K is known only at run time .* an MMA needs a compile-time K",
            ),
        ]
        for attempt, kind, text in cases:
            with pytest.raises(kind, match=text) as caught:
                attempt()
            assert caught.value.loc is not None
