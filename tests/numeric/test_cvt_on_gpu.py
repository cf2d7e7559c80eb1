"""encode against the hardware: PTX `cvt` on a GPU, every form that sm90 has of our casts."""

import ctypes

import numpy as np
import pytest

from tilewright.numeric.convert import bits_to_storage, convert, storage_to_bits
from tilewright.numeric.dtypes import dtype
from tilewright.numeric.encode import bits_dtype, decode, encode

try:
    CUDA = ctypes.CDLL("libcuda.so.1")
except OSError:
    CUDA = None

pytestmark = [
    pytest.mark.gpu("sm_90a"),
    pytest.mark.skipif(CUDA is None or CUDA.cuInit(0) != 0, reason="no CUDA driver or GPU"),
]

# (instruction, source, destination, rounding, saturate); PTX's s is our i.
SCALAR = [
    *((f"cvt.{r}.{d}.f32", "f32", d, r, False) for r in ("rn", "rz") for d in ("f16", "bf16")),
    *(
        (f"cvt.{r}.satfinite.{d}.f32", "f32", d, r, True)
        for r in ("rn", "rz")
        for d in ("f16", "bf16")
    ),
    *((f"cvt.{r}.f16.f32", "f32", "f16", r, False) for r in ("rp", "rm")),
    *((f"cvt.{r}.bf16.f32", "f32", "bf16", r, False) for r in ("rp", "rm")),
    *((f"cvt.{r}.tf32.f32", "f32", "tf32", r, False) for r in ("rn", "rz", "rna")),
    *((f"cvt.{r}.f32.f64", "f64", "f32", r, False) for r in ("rn", "rz", "rp", "rm")),
    *((f"cvt.{r}.f16.f64", "f64", "f16", r, False) for r in ("rn", "rz", "rp", "rm")),
    *((f"cvt.rn.bf16.{s}", s, "bf16", "rn", False) for s in ("f16", "f64")),
    *((f"cvt.f32.{s}", s, "f32", "rn", False) for s in ("f16", "bf16")),
    *((f"cvt.f64.{s}", s, "f64", "rn", False) for s in ("f16", "bf16", "f32")),
    *(
        (f"cvt.{r}.{d.replace('i', 's')}.{s}", s, d, r, False)
        for s in ("f16", "f32", "f64")
        for d in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
        for r in ("rzi", "rni", "rpi", "rmi")
    ),
    *(
        (f"cvt.{r}.{d}.{s.replace('i', 's')}", s, d, r, False)
        for s in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
        for d in ("f16", "bf16", "f32", "f64")
        for r in ("rn", "rz", "rp", "rm")
        if (s[1:], d) != ("8", "bf16")  # ptxas refuses
    ),
    *(
        (f"cvt{'.sat' * sat}.{d.replace('i', 's')}.{s.replace('i', 's')}", s, d, "rn", sat)
        for s in ("i8", "u16", "i32", "u32", "i64", "u64")
        for d in ("i8", "u8", "i16", "i32", "u32", "i64", "u64")
        # ptxas refuses .sat where it could not act.
        for sat in (
            (False,)
            if dtype(s).min >= dtype(d).min and dtype(s).max <= dtype(d).max
            else (False, True)
        )
    ),
]
# Two elements to a register: both the same, the low one is compared.
PAIRED = [
    *((f"cvt.rn.satfinite.{d}x2.f32", "f32", d, "rn", True) for d in ("e4m3", "e5m2")),
    *((f"cvt.rn.satfinite.{d}x2.f16x2", "f16", d, "rn", True) for d in ("e4m3", "e5m2")),
    *((f"cvt.rn.f16x2.{s}x2", s, "f16", "rn", False) for s in ("e4m3", "e5m2")),
]

KERNEL = """
.version 8.1
.target sm_90
.address_size 64
.visible .entry k(.param .u64 src, .param .u64 dst, .param .u32 count) {{
  .reg .pred %p;  .reg .b32 %i<4>;  .reg .b64 %a<3>;
  .reg .b{in_reg} %x;  .reg .b{out_reg} %y;  .reg .b{pair_in} %xx;  .reg .b{pair_out} %yy;
  mov.u32 %i0, %ctaid.x;  mov.u32 %i1, %ntid.x;  mov.u32 %i2, %tid.x;
  mad.lo.u32 %i0, %i0, %i1, %i2;
  ld.param.u32 %i3, [count];  setp.ge.u32 %p, %i0, %i3;  @%p ret;
  ld.param.u64 %a0, [src];  mad.wide.u32 %a0, %i0, {in_bytes}, %a0;
  ld.param.u64 %a1, [dst];  mad.wide.u32 %a1, %i0, {out_bytes}, %a1;
  ld.global.b{in_bits} %x, [%a0];
  {body}
  st.global.b{out_bits} [%a1], %y;
  ret;
}}
"""


def kernel_text(instruction, src, dst):
    in_bits, out_bits = src.bits, dst.bits
    in_reg, out_reg = max(in_bits, 16), max(out_bits, 16)
    pair_in, pair_out = max(2 * in_bits, 16) if in_bits < 32 else 64, 2 * min(out_bits, 16)
    if "x2" not in instruction:
        body = f"{instruction} %y, %x;"
    else:
        if in_bits == 32:
            convert_pair = f"{instruction} %yy, %x, %x;"
        elif in_bits == 16:
            convert_pair = f"mov.b32 %xx, {{%x, %x}}; {instruction} %yy, %xx;"
        else:
            convert_pair = f"mov.b16 %xx, %x; {instruction} %yy, %xx;"
        take_low = "mov.b32 {%y, _}, %yy;" if out_bits == 16 else "mov.b16 %y, %yy;"
        body = f"{convert_pair} {take_low}"
    return KERNEL.format(
        in_reg=in_reg,
        out_reg=out_reg,
        pair_in=pair_in,
        pair_out=pair_out,
        in_bits=in_bits,
        out_bits=out_bits,
        in_bytes=in_bits // 8,
        out_bytes=out_bits // 8,
        body=body,
    )


def call(name, *args):
    status = getattr(CUDA, name)(*args)
    assert status == 0, f"{name} returned {status}"


def run_on_gpu(text, bits, out_dtype):
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), text.encode() + b"\0")
    call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
    out = np.empty(bits.shape, out_dtype)
    src, dst, count = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint32(bits.size)
    call("cuMemAlloc_v2", ctypes.byref(src), ctypes.c_size_t(bits.nbytes))
    call("cuMemAlloc_v2", ctypes.byref(dst), ctypes.c_size_t(out.nbytes))
    call("cuMemcpyHtoD_v2", src, bits.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(bits.nbytes))
    pointers = [ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in (src, dst, count)]
    params = (ctypes.c_void_p * 3)(*pointers)
    blocks = -(-bits.size // 256)
    call("cuLaunchKernel", function, blocks, 1, 1, 256, 1, 1, 0, None, params, None)
    call("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), dst, ctypes.c_size_t(out.nbytes))
    for pointer in (src, dst):
        call("cuMemFree_v2", pointer)
    call("cuModuleUnload", module)
    return out


def inputs(src, dst):
    """Every pattern of a small type; else random ones, and all around dst's boundaries."""
    if src.bits <= 16:
        return np.arange(1 << src.bits).astype(bits_dtype(src))
    rng = np.random.default_rng(src.bits)
    patterns = rng.integers(0, 1 << 64, 1 << 17, dtype=np.uint64, endpoint=False)
    if src.is_integer:
        shifted = patterns >> rng.integers(0, 64, patterns.size).astype(np.uint64)
        patterns = np.concatenate([patterns, shifted, ~shifted])
    elif dst.is_float:
        code = rng.integers(0, dst.max_code, 1 << 15)
        low, high = (decode(c << dst.pad_bits, dst) for c in (code, code + 1))
        near = encode(np.concatenate([low, low / 2 + high / 2, -low]), src)
        patterns = np.concatenate([patterns, near, near + 1, near - 1])
    else:
        whole = np.arange(-(2**17), 2**17) / 4
        bounds = np.array(
            [s * (2.0**p + e) for p in range(65) for e in (-1, -0.5, 0, 0.5) for s in (1, -1)]
        )
        patterns = np.concatenate([patterns, encode(np.concatenate([whole, bounds]), src)])
    low_bits = patterns >> np.uint64(64 - src.bits) if src.is_float else patterns
    mixed = np.concatenate([low_bits, patterns]) if src.is_float else low_bits
    return (mixed & np.uint64((1 << src.bits) - 1)).astype(bits_dtype(src))


@pytest.mark.parametrize(("ptx", "src", "dst", "rounding", "saturate"), SCALAR + PAIRED)
def test_cvt(ptx, src, dst, rounding, saturate):
    src, dst = dtype(src), dtype(dst)
    bits = inputs(src, dst)
    if rounding == "rna":  # the GPU makes infinity of NaNs whose payload the 13 dropped bits hold
        bits = bits[~np.isnan(decode(bits, src)) | np.isnan(decode(bits, dst))]
    hardware = run_on_gpu(kernel_text(ptx, src, dst), bits, bits_dtype(dst))
    ours = storage_to_bits(convert(bits_to_storage(bits, src), src, dst, rounding, saturate), dst)
    if dst.is_float:
        both_nan = np.isnan(decode(hardware, dst)) & np.isnan(decode(ours, dst))
        hardware, ours, bits = (x[~both_nan] for x in (hardware, ours, bits))
    wrong = np.flatnonzero(hardware != ours)[:5]
    rows = [f"{bits[i]:#x}: GPU {hardware[i]:#x}, ours {ours[i]:#x}" for i in wrong]
    assert not rows, f"{np.count_nonzero(hardware != ours)} of {bits.size} differ: {rows}"
