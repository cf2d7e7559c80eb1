"""Generated code on a Hopper GPU: conversions against `numeric`, the GEMM against float64."""

from __future__ import annotations

import ctypes
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hopper_ir import BK, BM, BN, hopper_gemm
from kernels import Kernel, gmem, scalar

from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.errors import DTypeError
from tilewright.ir.core import Func
from tilewright.ir.ops import arith
from tilewright.numeric.convert import bits_to_storage, convert, storage_dtype, storage_to_bits
from tilewright.numeric.dtypes import dtype
from tilewright.runtime.toolchain import compile_cubin

try:
    from cuda.bindings import driver

    READY = int(driver.cuInit(0)[0]) == 0
except Exception:  # any failure to find or start a driver means that there is no GPU
    READY = False

pytestmark = [
    pytest.mark.gpu("sm_90a"),
    pytest.mark.skipif(not READY, reason="no CUDA driver or GPU"),
]

TYPES = ("f64", "f32", "tf32", "f16", "bf16", "e4m3", "e5m2")
TYPES += ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "bool")


def ok(result: tuple[Any, ...]) -> Any:
    assert int(result[0]) == 0, result[0]
    return result[1] if len(result) == 2 else None


class Gpu:
    """Just enough of the driver to run a cubin on numpy arrays."""

    def __init__(self) -> None:
        device = ok(driver.cuDeviceGet(0))
        self.context = ok(driver.cuDevicePrimaryCtxRetain(device))
        ok(driver.cuCtxSetCurrent(self.context))

    def upload(self, array: np.ndarray[Any, Any]) -> int:
        pointer = ok(driver.cuMemAlloc(max(array.nbytes, 16)))
        ok(driver.cuMemcpyHtoD(pointer, np.ascontiguousarray(array).ctypes.data, array.nbytes))
        return int(pointer)

    def download(self, pointer: int, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        out = np.empty_like(like)
        ok(driver.cuMemcpyDtoH(out.ctypes.data, pointer, out.nbytes))
        return out

    def run(self, func: Func, grid: int, block: int, *args: Any) -> None:
        cubin = compile_cubin(emit_cuda(func), func.name, "sm_90a")
        module = ok(driver.cuModuleLoadData(cubin.cubin))
        kernel = ok(driver.cuModuleGetFunction(module, func.name.encode()))
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        ok(driver.cuFuncSetAttribute(kernel, attribute, func.smem_bytes))
        addresses = [a if isinstance(a, int) else ctypes.addressof(a) for a in args]
        params = (ctypes.c_void_p * len(addresses))(*addresses)
        ok(
            driver.cuLaunchKernel(
                *(kernel, grid, 1, 1, block, 1, 1, func.smem_bytes, 0),
                ctypes.addressof(params),
                0,
            )
        )
        ok(driver.cuCtxSynchronize())


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    return Gpu()


def values_of(name: str) -> np.ndarray[Any, Any]:
    """Every pattern of narrow types; random and special ones of wide types."""
    t = dtype(name)
    if name == "bool":
        return np.array([0, 1] * 512, bool)
    if t.bits <= 16:
        return bits_to_storage(np.arange(1 << t.bits, dtype=np.uint64), t)
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 63, 40000, np.uint64) << np.uint64(1)
    bits |= rng.integers(0, 2, 40000, np.uint64)
    if not t.is_float:
        bits >>= rng.integers(0, 64, 40000, np.uint64)
        return bits_to_storage(bits & np.uint64((1 << t.bits) - 1), t)
    near = np.ldexp(rng.standard_normal(40000), rng.integers(-30, 30, 40000))
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 464.0, -464.0, 464.5, 61440.0, 65520.0, 3.4e38]
    values = np.concatenate([near, special]).astype(storage_dtype(t))
    raw = bits_to_storage(bits & np.uint64((1 << t.bits) - 1), t)
    both = np.concatenate([values, raw])
    # The 13 low bits of a tf32 carry nothing.
    return (
        (both.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) if name == "tf32" else both
    )


def forms(source: str) -> list[tuple[str, str, bool]]:
    """(destination, rounding, saturate) of every cast that generated code has."""
    found = []
    for to, rounding, saturate in itertools.product(TYPES, ("rn", "rz", "rna"), (False, True)):
        if source == to or (to == "bool" and (rounding, saturate) != ("rn", False)):
            continue
        k = Kernel("try", x=gmem(source), y=gmem(to))
        value = k.load(k.x)
        k.store(k.y, k.v(arith.Cast, value, dtype=to, rounding=rounding, saturate=saturate))
        try:
            emit_cuda(k.done())
        except DTypeError:
            continue
        if dtype(to).is_integer and rounding != "rn":
            continue
        if source in ("i64", "u64", "i32", "u32") and to == source:
            continue
        found.append((to, rounding, saturate))
    return found


def test_the_fast_error_function(gpu: Gpu) -> None:
    """|error| <= 2^-22, as `emit_math` promises; ex2.approx is the part that only a GPU knows."""
    k = Kernel("errors", x=gmem("f32"), y=gmem("f32"))
    i = k.add(k.mul(k.special("block_idx"), k.i32(256)), k.special("thread_idx"), name="i")
    k.store(k.at(k.y, i), k.v(arith.Math, k.load(k.at(k.x, i)), function="erf", fast=True))
    func = k.done()
    data = np.linspace(-6, 6, 1 << 20, dtype=np.float32)
    data[:4] = 0.0, np.inf, -np.inf, np.nan
    source, target = gpu.upload(data), gpu.upload(np.zeros_like(data))
    gpu.run(func, data.size // 256, 256, ctypes.c_uint64(source), ctypes.c_uint64(target))
    got = gpu.download(target, data)
    exact = np.array([math.erf(x) for x in data.tolist()])
    assert np.isnan(got[3])
    assert np.nanmax(np.abs(got - exact)) <= 2.0**-22


@pytest.mark.parametrize("source", TYPES)
def test_conversions(gpu: Gpu, source: str) -> None:
    data = values_of(source)
    casts = forms(source)
    params = {f"y{n}": gmem(to) for n, (to, _, _) in enumerate(casts)}
    k = Kernel("casts", x=gmem(source), n=scalar("i32"), **params)
    at = k.mul(k.special("block_idx"), k.special("block_dim"))
    i = k.add(at, k.special("thread_idx"), name="i")

    def body() -> None:
        value = k.load(k.at(k.x, i), name="value")
        for n, (to, rounding, saturate) in enumerate(casts):
            cast = k.v(arith.Cast, value, dtype=to, rounding=rounding, saturate=saturate)
            k.store(k.at(k.args[f"y{n}"], i), cast)

    k.branch(k.cmp(i, "lt", k.n), body)
    outputs = [np.zeros(data.size, storage_dtype(dtype(to))) for to, _, _ in casts]
    pointers = [gpu.upload(o) for o in outputs]
    args = [ctypes.c_uint64(gpu.upload(data)), ctypes.c_int(data.size)]
    args += [ctypes.c_uint64(p) for p in pointers]
    gpu.run(k.done(), -(-data.size // 256), 256, *args)
    for (to, rounding, saturate), pointer, like in zip(casts, pointers, outputs, strict=True):
        got = storage_to_bits(gpu.download(pointer, like), dtype(to))
        result = convert(data, dtype(source), dtype(to), rounding, saturate)  # type: ignore[arg-type]
        want = storage_to_bits(result, dtype(to))
        # Which NaN a NaN becomes is not part of the contract.
        same = (got == want) | (
            np.isnan(result.astype(np.float64)) if dtype(to).is_float else False
        )
        bad = np.flatnonzero(~same)[:3]
        assert same.all(), (source, to, rounding, saturate, data[bad], got[bad], want[bad])


def tensor_map(array: np.ndarray[Any, Any], pointer: int, box: tuple[int, int]) -> Any:
    rows, cols = array.shape
    enum = driver
    return ok(
        driver.cuTensorMapEncodeTiled(
            enum.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            2,
            pointer,
            [driver.cuuint64_t(cols), driver.cuuint64_t(rows)],
            [driver.cuuint64_t(cols * 2)],
            [driver.cuuint32_t(box[1]), driver.cuuint32_t(box[0])],
            [driver.cuuint32_t(1), driver.cuuint32_t(1)],
            enum.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            enum.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            enum.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            enum.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )


@pytest.mark.parametrize("shape", [(128, 256, 64), (1000, 1304, 528), (2048, 512, 2048)])
def test_hopper_gemm(gpu: Gpu, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m)
    bf16 = storage_dtype(dtype("bf16"))
    # Small integers: every product and sum is exact, so is the comparison.
    a = rng.integers(-2, 3, (m, k)).astype(bf16)
    b = rng.integers(-2, 3, (n, k)).astype(bf16)
    d = np.full((m, n), np.nan, bf16)
    pa, pb, pd = (gpu.upload(x) for x in (a, b, d))
    maps = [
        tensor_map(a, pa, (BM, BK)),
        tensor_map(b, pb, (BN, BK)),
        tensor_map(d, pd, (64, 64)),
    ]
    sizes = [ctypes.c_int(v) for v in (m, n, k)]
    gpu.run(hopper_gemm(), 132, 384, *(int(x.getPtr()) for x in maps), *sizes)
    want = (a.astype(np.float32) @ b.astype(np.float32).T).astype(bf16)
    got = gpu.download(pd, d)
    assert np.array_equal(storage_to_bits(got, dtype("bf16")), storage_to_bits(want, dtype("bf16")))
