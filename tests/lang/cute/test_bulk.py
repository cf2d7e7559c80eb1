"""Distributed shared memory, bulk copies and reductions: right numbers, and no findings."""

from __future__ import annotations

from typing import Any

import kernels_cluster as kernels
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traced import kernel

from tilewright import cute
from tilewright.arch.target import target
from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.ir.ops import bulk, memory
from tilewright.ir.types import Space
from tilewright.lang.cute import arch
from tilewright.lang.cute.atom import make_copy_atom
from tilewright.lang.cute.copy import copy
from tilewright.lang.cute.nvgpu import cpasync, warpgroup
from tilewright.lang.cute.pointer import AddressSpace, recast_ptr
from tilewright.lang.cute.smem import SmemAllocator
from tilewright.lang.cute.tensor import Tensor
from tilewright.lang.cute.views import tile_to_shape
from tilewright.lang.values import BFloat16, Float16, Float32, Int64
from tilewright.layout.layout import Layout
from tilewright.runtime import cuda_api
from tilewright.sim.options import SimOptions

SEEDS = (0, 1, 2)


def run(host: Any, *args: Any) -> None:
    """Simulates with every check and several orders; findings raise."""
    compiled = cute.compile(host, *args)
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    for seed in SEEDS:
        for a, old in zip(args, before, strict=True):
            if isinstance(a, np.ndarray):
                a[...] = old
        options = SimOptions(seed=seed, check_races=True, check_global=True)
        compiled.simulate(*args, options=options)


def whole(shape: Any, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Small whole numbers: sums are exact."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)


def test_sum_over_a_cluster() -> None:
    x = whole(3 * kernels.CLUSTER * kernels.THREADS)
    y = np.full(3 * kernels.CLUSTER, np.nan, np.float32)
    run(kernels.cluster_sum_host, x, y)
    sums = x.reshape(3, -1).sum(axis=1)
    np.testing.assert_array_equal(y, np.repeat(sums, kernels.CLUSTER))


def test_loads_stores_and_atomics_of_a_peer() -> None:
    x = whole(4 * 4 * kernels.THREADS)
    stored, loaded = np.full_like(x, np.nan), np.full_like(x, np.nan)
    count = np.zeros(4, np.int32)
    run(kernels.exchange_host, x, stored, loaded, count)
    swapped = x.reshape(2, 2, -1)[:, ::-1].reshape(-1)
    np.testing.assert_array_equal(stored, swapped)
    np.testing.assert_array_equal(loaded, swapped)
    assert (count == kernels.THREADS).all()


def test_a_handshake_by_remote_arrivals() -> None:
    rounds = 5
    x = whole(rounds * 4 * 4 * kernels.THREADS)
    y = np.full_like(x, np.nan)
    run(kernels.handshake_host, x, y, rounds)
    pairs = x.reshape(rounds, 2, 2, -1)
    np.testing.assert_array_equal(y, pairs[:, :, ::-1].reshape(-1))


@pytest.mark.parametrize("by_bulk", [False, True])
def test_sending_to_the_next_block(by_bulk: bool) -> None:
    x = whole(kernels.CLUSTER * 4 * kernels.THREADS)
    y = np.full_like(x, np.nan)
    run(kernels.send_host, x, y, by_bulk)
    np.testing.assert_array_equal(y, np.roll(x, 4 * kernels.THREADS))


def test_bulk_loads_into_all_blocks() -> None:
    x = whole(2 * kernels.CLUSTER * kernels.TILE)
    y = np.full((2 * kernels.CLUSTER, kernels.CLUSTER * kernels.TILE), np.nan, np.float32)
    run(kernels.multicast_host, x, y)
    np.testing.assert_array_equal(y, np.repeat(x.reshape(2, -1), kernels.CLUSTER, axis=0))


def test_bulk_copies_there_and_back() -> None:
    x = whole(3 * kernels.TILE)
    y = np.full_like(x, np.nan)
    run(kernels.bulk_round_trip_host, x, y)
    np.testing.assert_array_equal(y, 2 * x)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    rows=st.integers(1, 5),
    vectors=st.integers(1, 6),
    pads=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    narrow=st.booleans(),
)
def test_every_element_goes_to_its_place(
    rows: int, vectors: int, pads: tuple[int, int], narrow: bool
) -> None:
    """``dst[i, j] = src[i, j]`` for any pitches, and nothing else is written."""
    columns = 4 * vectors
    pitches = (columns + 4 * pads[0], columns + 4 * pads[1])
    y = np.full((rows, pitches[1]), -1, np.float32)
    bits = 128 if narrow else 0
    run(kernels.bulk_rows_host, y, (rows, columns), pitches, bits)
    i, j = np.indices((rows, columns))
    np.testing.assert_array_equal(y[:, :columns], 100 * i + j)
    assert (y[:, columns:] == -1).all()


REDUCTIONS = {
    "add f32": (cute.ReductionOp.ADD, np.float32, np.add),
    "add f16": (cute.ReductionOp.ADD, np.float16, np.add),
    "max bf16": (cute.ReductionOp.MAX, ml_dtypes.bfloat16, np.maximum),
    "add i32": (cute.ReductionOp.ADD, np.int32, np.add),
    "min i32": (cute.ReductionOp.MIN, np.int32, np.minimum),
    "xor i32": (cute.ReductionOp.XOR, np.int32, np.bitwise_xor),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_bulk_reductions(name: str) -> None:
    kind, dtype, combine = REDUCTIONS[name]
    x, y = whole((3, kernels.TILE), dtype), whole(kernels.TILE, dtype, 1)
    expected = combine(y, combine.reduce(x, axis=0))
    run(kernels.bulk_reduce_host, x, y, kind)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("name", ["add f32", "max bf16", "add i32"])
def test_tensor_reductions(name: str) -> None:
    """The tensor is smaller than the box: what is outside of it is left alone."""
    kind, dtype, combine = REDUCTIONS[name]
    x = whole((3, kernels.ROWS, kernels.COLUMNS), dtype)
    held = whole((kernels.ROWS, kernels.COLUMNS), dtype, 1)
    y = held[:13, :24]
    before = held.copy()
    expected = combine(y, combine.reduce(x, axis=0)[:13, :24])
    compiled = cute.compile(kernels.tensor_reduce_host, x, y, kind)
    compiled.simulate(x, y, kind, options=SimOptions(check_races=True))
    np.testing.assert_array_equal(y, expected)
    outside = np.ones(held.shape, bool)
    outside[:13, :24] = False
    np.testing.assert_array_equal(held[outside], before[outside])


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_pipeline_of_cp_async(stages: int) -> None:
    x = whole(5 * 4 * kernels.THREADS)
    y = np.full_like(x, np.nan)
    run(kernels.copy_pipeline_host, x, y, 5, stages)
    np.testing.assert_array_equal(y, x + 1)


HOSTS = {
    "cluster_sum": (kernels.cluster_sum_host, (whole(512), whole(4))),
    "exchange": (
        kernels.exchange_host,
        (whole(1024), whole(1024), whole(1024), whole(2, np.int32)),
    ),
    "handshake": (kernels.handshake_host, (whole(4096), whole(4096), 2)),
    "st_async": (kernels.send_host, (whole(2048), whole(2048), False)),
    "bulk_send": (kernels.send_host, (whole(2048), whole(2048), True)),
    "multicast": (kernels.multicast_host, (whole(2048), whole((4, 2048)))),
    "round_trip": (kernels.bulk_round_trip_host, (whole(512), whole(512))),
    "bulk_reduce": (kernels.bulk_reduce_host, (whole((2, 512)), whole(512), cute.ReductionOp.ADD)),
    "tensor_reduce": (
        kernels.tensor_reduce_host,
        (whole((2, 16, 32)), whole((16, 32)), cute.ReductionOp.ADD),
    ),
    "copy_pipeline": (kernels.copy_pipeline_host, (whole(2560), whole(2560), 5, 2)),
}


@pytest.mark.skipif(cuda_api.nvrtc is None, reason="the cuda extra is not installed: no NVRTC")
@pytest.mark.parametrize("name", HOSTS)
def test_compiles_for_hopper_without_spills(name: str) -> None:
    host, args = HOSTS[name]
    cubin = cute.compile(host, *args, target=target("sm_90a")).cubin()
    assert cubin.warnings == ()
    assert (cubin.spill_stores, cubin.spill_loads, cubin.stack_bytes) == (0, 0, 0)


# -- words, and what is refused ------------------------------------------------------------------


def shared(count: int = 64, align: int = 16, label: str = "s") -> Any:
    layout = Layout(count)
    return SmemAllocator().allocate_tensor(Float32, layout, align, label=label)


def atom(op: Any, bits: int = 0) -> Any:
    return make_copy_atom(op, Float32, num_bits_per_copy=bits)


def test_a_mapped_pointer_keeps_offset_and_swizzle() -> None:
    with kernel() as k:
        layout = tile_to_shape(
            warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, BFloat16),
            (64, 64),
            (0, 1),
        )
        s = SmemAllocator().allocate_tensor(BFloat16, layout, 1024, label="s")
        own = s.iterator + 5
        there = arch.map_dsmem_ptr(own, 1)
        assert (there.static, there.swizzle) == (own.static, own.swizzle)
        assert there.memspace is AddressSpace.dsmem
        assert str(there) == "ptr<bf16, dsmem, align<2>, Sw<3,4,3>>"
        assert arch.mapa is arch.map_dsmem_ptr
        Tensor(there, s.layout)[3, 4] = 1.0
        (mapped,), (store,) = k.all(memory.MapShared), k.all(memory.Store)
        assert mapped.base is s.iterator.base
        assert store.base.type.space is Space.DSMEM
        k.verify()


def test_one_instruction_for_all_that_lies_in_a_row() -> None:
    with kernel() as k:
        g, s = k.gmem("f32", Layout((4, 64), (128, 1))), shared(256)
        rows = Tensor(s.iterator, Layout((4, 64), (64, 1)))
        copy(atom(cpasync.CopyBulkS2GOp()), rows, g)
        assert [op.bytes.owner.value for op in k.all(bulk.BulkStore)] == [256] * 4
        flat = k.gmem("f32", 256)
        copy(atom(cpasync.CopyBulkS2GOp()), s, flat)
        copy(atom(cpasync.CopyBulkS2GOp(), 512), s, flat)
        sizes = [op.bytes.owner.value for op in k.all(bulk.BulkStore)[4:]]
        assert sizes == [1024] + [64] * 16
        n = k.number("n")
        part = Layout(n)
        copy(atom(cpasync.CopyBulkS2GOp()), Tensor(s.iterator, part), Tensor(flat.iterator, part))
        k.verify()


def test_reductions_know_their_types() -> None:
    with kernel() as k:
        s, g = shared(), k.gmem("f32", 64)
        copy(atom(cpasync.CopyReduceBulkS2GOp()), s, g)
        (op,) = k.all(bulk.BulkReduce)
        assert op.attrs["kind"] == "add"
        text = "CopyReduceBulkS2GOp: max reduces i32 u32 i64 u64 f16 bf16, not f32"
        with pytest.raises(TypeMismatchError, match=text):
            atom(cpasync.CopyReduceBulkS2GOp(cute.ReductionOp.MAX))
        text = r"expected a reduction into memory \(add, min, max, inc, .*\), got ReductionOp.MUL"
        with pytest.raises(TypeMismatchError, match=text):
            atom(cpasync.CopyReduceBulkTensorTileS2GOp(cute.ReductionOp.MUL))


def test_wrong_use_is_refused() -> None:
    with kernel() as k:
        s, g = shared(), k.gmem("f32", 64)
        bar = SmemAllocator().allocate_array(Int64, 1)
        far = arch.map_dsmem_ptr(bar, 1)
        there = Tensor(arch.map_dsmem_ptr(s.iterator, 1), s.layout)
        g2s, s2g, s2s = cpasync.CopyBulkG2SOp(), cpasync.CopyBulkS2GOp(), cpasync.CopyBulkS2SOp()

        def refused(text: str, *args: Any, error: Any = TypeMismatchError, **more: Any) -> None:
            with pytest.raises(error, match=text):
                copy(*args, **more)

        refused("SM90_BULK_COPY_G2S needs mbar_ptr=", atom(g2s), g, s)
        refused("SM90_BULK_COPY_S2G takes no mbarrier", atom(s2g), s, g, mbar_ptr=bar)
        refused("takes no mcast_mask", atom(s2g), s, g, mcast_mask=1)
        refused("needs mcast_mask=", atom(cpasync.CopyBulkG2SMulticastOp()), g, s, mbar_ptr=bar)
        refused("takes no predicate", atom(s2g), s, g, pred=True)
        refused("source of SM90_BULK_COPY_G2S must be in gmem", atom(g2s), s, s, mbar_ptr=bar)
        refused("destination of SM90_BULK_COPY_S2S must be in dsmem, got tensor",
                atom(s2s), s, s, mbar_ptr=far)  # fmt: skip
        refused("an mbarrier is an Int64 in another block, got ptr<i64, smem",
                atom(s2s), s, there, mbar_ptr=bar)  # fmt: skip
        halves = Tensor(recast_ptr(s.iterator, dtype=Float16), Layout(128))
        refused("copies f32, the source holds f16", atom(s2g), halves, g)
        refused("differ in size", atom(s2g), shared(32), g, error=LayoutError)
        refused("of 12 bytes at a time: source 3:1 and destination 3:1 have 12 bytes in a row",
                atom(s2g), shared(3), k.gmem("f32", 3), error=LayoutError)  # fmt: skip
        refused("known to be aligned to 4", atom(s2g), s, k.gmem("f32", 64, 4), error=LayoutError)
        strided = Tensor(g.iterator, Layout(k.number("n"), 2))
        refused("it copies one run of contiguous elements", atom(s2g), s, strided,
                error=LayoutError)  # fmt: skip
        r = cute.make_rmem_tensor(4, Float32)
        refused("source of SM90_ST_ASYNC_128b must be in rmem",
                atom(cpasync.CopyDsmemStoreOp(), 128), s, there, mbar_ptr=far)  # fmt: skip
        refused("copy: expected a pointer to an mbarrier",
                atom(cpasync.CopyDsmemStoreOp(), 128), r, there)  # fmt: skip
        with pytest.raises(LayoutError, match="has 32, 64 or 128 bits, not 256"):
            atom(cpasync.CopyDsmemStoreOp(), 256)
        with pytest.raises(TypeMismatchError, match="map_dsmem_ptr: expected a pointer to shared"):
            arch.map_dsmem_ptr(g.iterator, 1)
