"""The descriptor model against the hardware: which address does wgmma read for each element?

Shared memory is filled with element numbers (in two launches, low and high part, as f16 counts to
2048 exactly) and multiplied by an identity: the product spells out the address of every element of
the probed operand, whatever the descriptor says.
"""

import ctypes

import numpy as np
import pytest

from tilewright.arch.descriptor import decode, encode, operand_byte_offsets, swizzle_address

try:
    CUDA = ctypes.CDLL("libcuda.so.1")
except OSError:
    CUDA = None

pytestmark = [
    pytest.mark.gpu("sm_90a"),
    pytest.mark.skipif(CUDA is None or CUDA.cuInit(0) != 0, reason="no CUDA driver or GPU"),
]

PROBED = 48 * 1024  # bytes that carry their own number
IMAGE = PROBED + 4096  # and an identity behind them
K = 16
ROWS = {"A": 64, "B": 128}
OTHER = {"A": 16, "B": 64}  # rows of the identity on the other side

KERNEL = """
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 image, .param .u64 out, .param .u64 da, .param .u64 db) {{
  .reg .pred %p;  .reg .b32 %r<6>;  .reg .b64 %l<6>;  .reg .f32 %d<{count}>;
  mov.u32 %r0, %tid.x;  mov.u32 %r1, smem;  ld.param.u64 %l0, [image];
  mul.lo.u32 %r2, %r0, 4;
loop:
  cvt.u64.u32 %l1, %r2;  add.u64 %l1, %l0, %l1;  ld.global.b32 %r3, [%l1];
  add.u32 %r4, %r1, %r2;  st.shared.b32 [%r4], %r3;
  add.u32 %r2, %r2, 512;  setp.lt.u32 %p, %r2, {image};  @%p bra loop;
  fence.proxy.async;  bar.sync 0;
  shr.u32 %r5, %r1, 4;  cvt.u64.u32 %l2, %r5;
  ld.param.u64 %l3, [da];  add.u64 %l3, %l3, %l2;
  ld.param.u64 %l4, [db];  add.u64 %l4, %l4, %l2;
  setp.ne.u32 %p, %r0, %r0;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{regs}}}, %l3, %l4, %p, 1, 1, {ta}, {tb};
  wgmma.commit_group.sync.aligned;  wgmma.wait_group.sync.aligned 0;
  ld.param.u64 %l5, [out];  mul.wide.u32 %l1, %r0, {bytes};  add.u64 %l5, %l5, %l1;
  {stores}
  setp.eq.u32 %p, %r0, 0;  ld.param.u64 %l5, [out];
  @%p st.global.b32 [%l5 + {tail}], %r1;
  ret;
}}
"""


def call(name: str, *args: object) -> None:
    status = getattr(CUDA, name)(*args)
    assert status == 0, f"{name} returned {status}"


class Probe:
    """The kernel for one operand and major, and its buffers."""

    def __init__(self, which: str, major: str) -> None:
        self.which, self.n = which, {"A": OTHER["A"], "B": ROWS["B"]}[which]
        count = self.n // 2
        text = KERNEL.format(
            count=count,
            image=IMAGE,
            n=self.n,
            regs=", ".join(f"%d{i}" for i in range(count)),
            ta=int((which, major) == ("A", "MN")),
            tb=int((which, major) == ("B", "MN")),
            bytes=4 * count,
            stores=" ".join(f"st.global.f32 [%l5 + {4 * i}], %d{i};" for i in range(count)),
            tail=128 * 4 * count,
        )
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        call("cuModuleLoadData", ctypes.byref(module), text.encode())
        call("cuModuleGetFunction", ctypes.byref(self.function), module, b"k")
        call("cuFuncSetAttribute", self.function, 8, IMAGE)  # dynamic shared memory
        self.out = np.zeros(128 * count + 1, np.float32)
        self.device = [ctypes.c_uint64(), ctypes.c_uint64()]
        for pointer, size in zip(self.device, (IMAGE, self.out.nbytes), strict=True):
            call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))

    def launch(self, image: np.ndarray, descriptors: list[int]) -> np.ndarray:
        """The product, (64, n); sets `base`, where shared memory began."""
        size = ctypes.c_size_t(image.nbytes)
        call("cuMemcpyHtoD_v2", self.device[0], image.ctypes.data_as(ctypes.c_void_p), size)
        values = [*self.device, *(ctypes.c_uint64(d) for d in descriptors)]
        pointers = (ctypes.c_void_p * 4)(*(ctypes.addressof(v) for v in values))
        shape = (1, 1, 1, 128, 1, 1, IMAGE)
        call("cuLaunchKernel", self.function, *shape, None, pointers, None)
        size = ctypes.c_size_t(self.out.nbytes)
        call("cuMemcpyDtoH_v2", self.out.ctypes.data_as(ctypes.c_void_p), self.device[1], size)
        self.base = int(self.out[-1:].view(np.uint32)[0])
        product = np.zeros((64, self.n))
        fragments = self.out[:-1].reshape(128, -1)
        for thread in range(128):
            for i, value in enumerate(fragments[thread]):
                row = thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8
                product[row, i // 4 * 8 + thread % 4 * 2 + i % 2] = value
        return product

    def addresses(self, descriptor: int) -> np.ndarray:
        """(rows, k): the byte, counted from the start of shared memory, of each element read."""
        parts = []
        rows = OTHER[self.which]
        # Core matrices of 8 rows x 16 bytes, row groups 128 bytes apart, then the other half of K.
        identity = np.zeros((2, rows // 8, 8, 8), np.float16)
        for i in range(K):
            identity[i // 8, i // 8, i % 8, i % 8] = 1
        other = encode(PROBED, rows * 16, 128, "none")
        for part in (lambda x: x % 2048, lambda x: x // 2048):
            numbers = part(np.arange(PROBED // 2)).astype(np.float16)
            image = np.zeros(IMAGE // 2, np.float16)
            image[: PROBED // 2] = numbers
            image[PROBED // 2 :][: identity.size] = identity.ravel()
            pair = [descriptor, other] if self.which == "A" else [other, descriptor]
            product = self.launch(image, pair)
            parts.append(product[:, :K] if self.which == "A" else product[:K].T)
        return (2 * (parts[0] + 2048 * parts[1])).astype(int)


@pytest.fixture(scope="module")
def context() -> None:
    device, ctx = ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(ctx), device)
    call("cuCtxSetCurrent", ctx)


SPAN = {"none": 16, "32B": 32, "64B": 64, "128B": 128}


def random_descriptor(rng: np.random.Generator, mode: str, kind: str) -> tuple[int, int, int, int]:
    """start, leading, stride, base offset; of tiles, or of any multiples of 16 that fit."""
    unit = 16 if kind == "any" or mode == "none" else 8 * SPAN[mode]
    start = 16 * int(rng.integers(0, 64)) if kind == "any" else unit * int(rng.integers(0, 4))
    leading, stride = (unit * int(rng.integers(1, 2048 // unit + 1)) for _ in range(2))
    base_offset = int(rng.integers(0, 8)) if kind == "base offset" else 0
    if kind == "k step":
        start += 32 * int(rng.integers(0, max(SPAN[mode] // 32, 1)))
    return start, leading, stride, base_offset


@pytest.mark.parametrize("kind", ["tile", "k step", "any", "base offset"])
@pytest.mark.parametrize("mode", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("which", ["A", "B"])
@pytest.mark.usefixtures("context")
def test_hardware_reads_where_the_model_says(which: str, major: str, mode: str, kind: str) -> None:
    rng = np.random.default_rng(len(mode) + 8 * len(kind))
    probe = Probe(which, major)
    for _ in range(8):
        fields = random_descriptor(rng, mode, kind)
        start, leading, stride, base_offset = fields
        descriptor = encode(start, leading, stride, mode, base_offset)  # type: ignore[arg-type]
        read = probe.addresses(descriptor)
        seen = decode(descriptor + (probe.base >> 4))
        walk = operand_byte_offsets(seen, major, ROWS[which], K, 2)  # type: ignore[arg-type]
        found = [swizzle_address(seen.swizzle, x, base_offset) - probe.base for x in walk]
        expected = np.array(found).reshape(K, ROWS[which]).T
        assert probe.base % 1024 == 0
        wrong = np.argwhere(read != expected)[:4]
        assert not wrong.size, [
            (fields, tuple(at), f"GPU {read[*at]}, ours {expected[*at]}") for at in wrong
        ]
