"""Loads, stores, copies, register arrays and vectors: one loop where a writer would write one."""

from __future__ import annotations

import itertools

import pytest
from kernels import Kernel, gmem, scalar

from tilewright.codegen.cuda.expr import number
from tilewright.codegen.cuda.index_formula import IndexFormula
from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.errors import DTypeError, VerifyError
from tilewright.ir.core import Func
from tilewright.ir.ops import arith, memory, sync
from tilewright.runtime.sass import opcode_counts
from tilewright.runtime.toolchain import compile_cubin


def body_of(func: Func, target: str = "sm_80") -> str:
    text = emit_cuda(func, line_info=False)
    compile_cubin(text, func.name, target)
    return text[text.index("{\n", text.index("__global__")) + 2 : text.rindex("}")]


def test_scale_and_round_is_one_loop_of_packed_conversions() -> None:
    k = Kernel("epilogue", out=gmem("bf16"), alpha=scalar("f32"))
    acc = k.registers("f32", 64, "acc")
    packed = k.registers("bf16", 64, "packed")
    scaled = k.mul(k.load(acc, 64), k.v(arith.Splat, k.alpha, count=64))
    k.store(packed, k.cast(scaled, "bf16"))
    k.do(memory.Copy, packed, k.out, bytes=16)
    assert body_of(k.done()) == (
        "  float acc[64];\n"
        "  alignas(16) bf16 packed[64];\n"
        "  #pragma unroll\n"
        "  for (int i = 0; i < 64; i += 2) {\n"
        "    *(u32*)(packed + i) = pack_bf16(acc[i] * alpha, acc[i + 1] * alpha);\n"
        "  }\n"
        "  copy16(out, packed);\n"
    )


def test_packed_conversions_stay_packed_in_machine_code() -> None:
    k = Kernel("epilogue", x=gmem("f32"), out=gmem("bf16"))
    at = k.mul(k.special("thread_idx"), k.i32(8))
    low = k.load(k.at(k.x, at, 8), 4)
    high = k.load(k.at(k.at(k.x, at, 8), 4), 4)
    acc = k.registers("f32", 8, "acc")
    k.store(acc, low)
    k.store(k.at(acc, 4), high)
    k.store(k.at(k.out, at, 8), k.cast(k.load(acc, 8), "bf16"))
    cubin = compile_cubin(emit_cuda(k.done()), "epilogue", "sm_90a")
    counts = opcode_counts(cubin.cubin)
    assert counts["F2FP.BF16.F32.PACK_AB"] == 4
    assert sum(n for op, n in counts.items() if op.startswith("STG")) == 1
    assert cubin.stack_bytes == 0


def test_vectors_of_global_memory_are_one_access() -> None:
    k = Kernel("move", x=gmem("f16"), y=gmem("f16"))
    at = k.mul(k.special("thread_idx"), k.i32(8), name="at")
    vec = k.load(k.at(k.x, at, 8), 8, name="vec")
    k.store(k.at(k.y, at, 8), vec)
    assert body_of(k.done()) == (
        "  const int at = (int)threadIdx.x * 8;\n"
        "  alignas(16) f16 vec[8];\n"
        "  copy16(vec, x + at);\n"
        "  copy16(y + at, vec);\n"
    )


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_copies_of_every_size_and_predicate(size: int) -> None:
    k = Kernel("copy", x=gmem("u8"), y=gmem("u8"), p=scalar("bool"))
    k.do(memory.Copy, k.x, k.y, bytes=size)
    k.do(memory.Copy, k.at(k.x, 16), k.at(k.y, 16), k.p, bytes=size)
    one = {1: "y[0] = x[0];"}.get(size, f"copy{size}(y, x);")
    two = {1: "y[16] = x[16];"}.get(size, f"copy{size}(y + 16, x + 16);")
    assert body_of(k.done()) == f"  {one}\n  if (p) {two}\n"


def test_copies_from_registers_at_an_odd_place_go_through_an_aligned_array() -> None:
    k = Kernel("copy", x=gmem("f32"))
    r = k.registers("f32", 8, "r")
    k.store(k.at(r, 1), k.load(k.x, 4))
    k.do(memory.Copy, k.at(r, 1), k.at(k.x, 4), bytes=16)
    k.do(memory.Copy, k.x, k.at(r, 3), bytes=16)
    k.store(k.x, k.load(k.at(r, 3)))
    func = k.done()
    assert "v1[i] = r[i + 1];" in body_of(func)
    assert compile_cubin(emit_cuda(func), "copy", "sm_80").stack_bytes == 0


def test_updating_registers_in_place_needs_no_copy_but_shifting_them_does() -> None:
    k = Kernel("shift", x=gmem("f32"))
    r = k.registers("f32", 8, "r")
    k.store(r, k.add(k.load(r, 8), k.v(arith.Splat, k.const(1.0, "f32"), count=8)))
    k.store(k.at(r, 1), k.load(r, 7))
    k.store(k.x, k.v(arith.Reduce, k.load(r, 8), kind="add"))
    text = body_of(k.done())
    assert "    r[i] = r[i] + 1.0f;\n" in text
    assert "    v0[i] = r[i];\n" in text
    assert "    r[i + 1] = v0[i];\n" in text


def test_gather_and_scatter_find_the_formula_of_their_indices() -> None:
    k = Kernel("pick", x=gmem("f32"))
    r = k.registers("f32", 16, "r")
    rows = tuple(4 * (i // 2) + i % 2 for i in range(8))
    v = k.v(memory.Gather, r, indices=rows)
    k.do(memory.Scatter, r, k.v(arith.Neg, v), indices=tuple(2 * i for i in range(8)))
    k.do(memory.Scatter, r, k.v(memory.Gather, r, indices=(3, 1, 2)), indices=(9, 14, 3))
    k.store(k.x, k.v(arith.Reduce, k.load(r, 16), kind="max"))
    text = body_of(k.done())
    assert "= -r[i % 2 + i / 2 * 4];" in text
    assert "r[i * 2] = " in text
    assert "r[14] = v1[1];" in text


@pytest.mark.parametrize(
    "indices",
    [
        (5,),
        (0, 1, 2, 3),
        (7, 5, 3, 1),
        (2, 2, 2),
        (0, 1, 8, 9, 32, 33, 40, 41),
        tuple(b + 4 * a for a, b in itertools.product(range(3), range(2))),
        tuple(range(3)) * 2,
    ],
)
def test_index_formulas_give_the_indices(indices: tuple[int, ...]) -> None:
    formula = IndexFormula.of(indices)
    assert formula is not None
    for i, want in enumerate(indices):
        text = formula(number(i)).text.replace("/", "//")
        assert eval(text) == want
    assert IndexFormula.of((0, 1, 3, 7)) is None


def test_vectors_are_packed_shuffled_and_reduced() -> None:
    k = Kernel("vectors", x=gmem("f32"), n=scalar("i32"))
    a = k.load(k.x, 4, name="a")
    b = k.v(arith.Shuffle, a, indices=(3, 2, 1, 0))
    c = k.v(arith.Pack, *(k.v(arith.Extract, a, index=i) for i in (0, 0, 1, 1)))
    d = k.v(arith.Select, k.cmp(b, "lt", c), b, c)
    k.store(k.x, k.v(arith.Max, d, a))
    total = k.v(arith.Reduce, k.mul(a, b), kind="add")
    k.store(k.at(k.x, 4), total)
    scaled = k.v(arith.Splat, k.cast(k.n, "f32"), count=16)
    k.store(k.at(k.x, 5), k.v(arith.Reduce, k.add(scaled, scaled), kind="max"))
    text = body_of(k.done())
    assert "x[4] = a[0] * a[3] + a[1] * a[2] + a[2] * a[1] + a[3] * a[0];" in text
    assert "= fmaxf(a[3] < a[0] ? a[3] : a[0], a[0]);" in text


def test_sixteen_bit_arithmetic_goes_through_f32() -> None:
    k = Kernel("halves", x=gmem("bf16"), y=gmem("f16"))
    for p in (k.x, k.y):
        a = k.load(p, 8, name="a")
        k.store(p, k.add(a, a))
        k.store(k.at(p, 8), k.v(arith.Reduce, a, kind="add"))
        k.store(k.at(p, 16), k.cast(k.cast(a, "f32"), "f16" if p is k.y else "bf16"))
    text = body_of(k.done())
    assert "= bf16_from_f32(f32_from_bf16(a[i]) + f32_from_bf16(a[i]));" in text
    assert "pack_f16(f32_from_f16(" in text


def test_shared_memory_is_typed_pointers_into_one_array() -> None:
    k = Kernel("shared", x=gmem("f32"))
    tile = k.shared("f32", 64, 0, "tile")
    other = k.shared("u8", 64, 256, "other")
    thread = k.special("thread_idx", name="thread")
    k.store(k.at(tile, thread), k.load(k.at(k.x, thread)))
    k.do(sync.SyncThreads)
    k.store(k.at(other, thread), k.const(1, "u8"))
    words = k.v(memory.CastPointer, other, dtype="u32", align=4)
    k.store(k.at(words, 3), k.v(memory.SharedAddress, k.at(tile, thread)))
    k.store(k.at(k.x, thread), k.load(k.at(tile, thread)))
    assert body_of(k.done()) == (
        "  extern __shared__ __align__(1024) unsigned char smem[];\n"
        "  float* tile = (float*)smem;\n"
        "  u8* other = (u8*)(smem + 256);\n"
        "  const int thread = threadIdx.x;\n"
        "  tile[thread] = x[thread];\n"
        "  __syncthreads();\n"
        "  other[thread] = 1;\n"
        "  ((u32*)other)[3] = smem_u32(tile + thread);\n"
        "  x[thread] = tile[thread];\n"
    )


def test_an_index_keeps_a_cast_that_changes_it() -> None:
    k = Kernel("index", x=gmem("f32"), far=scalar("i64"))
    k.store(k.at(k.x, k.cast(k.far, "i32")), k.const(0.0, "f32"))
    k.store(k.at(k.at(k.x, k.far), 3), k.const(0.0, "f32"))
    k.store(k.at(k.at(k.x, k.cast(k.far, "i32")), k.far), k.const(0.0, "f32"))
    assert body_of(k.done()) == (
        "  x[(int)far] = 0.0f;\n  (x + far)[3] = 0.0f;\n  (x + (int)far)[far] = 0.0f;\n"
    )


def test_only_what_is_never_written_through_is_const() -> None:
    k = Kernel("const", a=gmem("f32"), b=gmem("f32"), c=gmem("f32"), d=gmem("f32"))
    k.store(k.at(k.b, 1), k.load(k.a))
    k.do(memory.Atomic, k.c, k.const(1.0, "f32"), kind="add")
    raw = k.v(memory.CastPointer, k.d, dtype="u32", align=4)
    k.store(k.at(k.b, 2), k.cast(k.load(k.at(raw, 2)), "f32"))
    text = emit_cuda(k.done(), line_info=False)
    assert "const_(" not in text
    assert "(const float* a, float* b, float* c, const float* d)" in text
    assert "((const u32*)d)[2]" in text


def test_atomics_of_every_kind() -> None:
    k = Kernel("atomics", **{f"p_{t}": gmem(t) for t in ("i32", "u32", "u64", "f32", "f64", "f16")})
    counter = k.shared("u32", 1, 0, "counter")
    for t in ("i32", "u32", "u64"):
        for kind in ("add", "min", "max", "and", "or", "xor", "exch"):
            k.do(memory.Atomic, k.args[f"p_{t}"], k.const(1, t), kind=kind)
    for t in ("f32", "f64", "f16"):
        k.do(memory.Atomic, k.args[f"p_{t}"], k.const(1.0, t), kind="add")
    old = k.v(
        memory.Atomic, counter, k.u32(1), kind="add", semantics="acq_rel", scope="cta", name="old"
    )
    k.store(k.p_u32, old)
    text = body_of(k.done())
    assert "p_u32[0] = atomic_add_u32_shared_acq_rel_cta(smem_u32(counter), 1u);" in text


def test_an_atomic_that_the_hardware_lacks_is_refused() -> None:
    k = Kernel("atomics", x=gmem("f32"))
    k.do(memory.Atomic, k.x, k.const(1.0, "f32"), kind="max")
    with pytest.raises(DTypeError, match=r"mem\.atomic max on f32: the hardware has no such"):
        emit_cuda(k.done())


def test_shared_memory_without_a_layout_is_refused() -> None:
    k = Kernel("early")
    k.shared("f32", 4, -1, "tile")
    with pytest.raises(VerifyError, match="'tile' has no offset: the pass shared_layout has not"):
        emit_cuda(k.done())


def test_global_addresses_are_numbers() -> None:
    k = Kernel("address", x=gmem("i64"))
    k.store(k.x, k.v(memory.GlobalAddress, k.at(k.x, 2)))
    assert body_of(k.done()) == "  x[0] = (i64)(x + 2);\n"
