"""mma.sync and wgmma against NumPy, from fragments and descriptors."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.arch.descriptor import encode
from tilewright.arch.mma.atom import operand_map
from tilewright.arch.mma.registry import mma_atom
from tilewright.ir.ops import arith, memory, mma, sync
from tilewright.numeric.convert import convert, storage_dtype
from tilewright.numeric.dtypes import BOOL, F32, U8, U64, DType


def kinds(report):
    return [f.kind for f in report.findings]


def matrix(dtype: DType, rows, cols, seed):
    rng = np.random.default_rng(seed)
    if dtype.is_integer:
        return rng.integers(dtype.min, dtype.max, (rows, cols)).astype(storage_dtype(dtype))
    return convert(rng.integers(-4, 5, (rows, cols)).astype(np.float32), F32, dtype)


def exact(a, b, c=None):
    wide = np.int64 if a.dtype.kind in "iu" else np.float64
    d = a.astype(wide) @ b.astype(wide).T
    return d if c is None else d + c.astype(wide)


def fragments(atom, which, m):
    """[threads, values] of a matrix."""
    return np.array([[m[r, c] for r, c in row] for row in operand_map(atom, which)], m.dtype)


def unfragment(atom, held):
    m, n, _ = atom.shape_mnk
    out = np.empty((m, n), held.dtype)
    for row, values in zip(operand_map(atom, "D"), held, strict=True):
        for (i, j), v in zip(row, values, strict=True):
            out[i, j] = v
    return out


# -- mma.sync -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["SM80_16x8x16_F32BF16BF16F32_TN", "SM80_16x8x8_F32F16F16F32_TN",
     "SM80_16x8x16_F16F16F16F16_TN", "SM80_16x8x8_F32TF32TF32F32_TN", "SM80_16x8x32_S32S8U8S32_TN",
     "SM80_8x8x4_F64F64F64F64_TN",
     "SM89_16x8x32_F32E4M3E5M2F32_TN"],
)  # fmt: skip
def test_mma_sync(kit, name):
    atom = mma_atom(name)
    m, n, k_ = atom.shape_mnk
    parts = [
        ("A", atom.a_dtype, (m, k_)),
        ("B", atom.b_dtype, (n, k_)),
        ("C", atom.c_dtype, (m, n)),
    ]
    k = kit(*(kit.gmem(t, 8) for _, t, _ in parts), kit.gmem(atom.d_dtype, 8))
    regs = []
    for p, (which, t, _) in zip(k.args[:3], parts, strict=True):
        count = atom.num_values(which)
        r = k.registers(t, count, which)
        for i in range(count):
            k.store(r, i, k.load(p, k.add(k.mul(k.tid(), count), i)))
        regs.append(r)
    d = k.registers(atom.d_dtype, atom.num_values("D"), "D")
    k.do(mma.Mma, d, *regs, atom=name)
    for i in range(atom.num_values("D")):
        k.store(k.args[3], k.add(k.mul(k.tid(), atom.num_values("D")), i), k.load(d, i))
    warps = 2
    given = [
        [matrix(t, *shape, seed=10 * w + i) for i, (_, t, shape) in enumerate(parts)]
        for w in range(warps)
    ]
    held = [
        np.concatenate([fragments(atom, which, given[w][i]) for w in range(warps)])
        for i, (which, _, _) in enumerate(parts)
    ]
    got = np.zeros((32 * warps, atom.num_values("D")), storage_dtype(atom.d_dtype))
    report = k.run(*held, got, block=32 * warps)
    assert report.counters["flops"] == 2 * m * n * k_ * warps
    for w in range(warps):
        a, b, c = given[w]
        want = exact(a, b, c)
        if atom.d_dtype.is_integer:
            want = want.astype(np.int32)
        np.testing.assert_array_equal(
            unfragment(atom, got[32 * w : 32 * w + 32]).astype(want.dtype), want
        )


def test_universal_fma(kit):
    k = kit(kit.gmem(F32))
    r = k.registers(F32, 4)
    for i in range(3):
        k.store(r, i, k.cast(k.add(k.tid(), i), F32))
    k.do(mma.Mma, k.at(r, 3), *(k.at(r, i) for i in range(3)), atom="UniversalFMA_F32")
    k.store(k.args[0], k.tid(), k.load(r, 3))
    got = np.zeros(16, np.float32)
    k.run(got, block=16)
    t = np.arange(16)
    np.testing.assert_array_equal(got, t * (t + 1) + t + 2)


def test_mma_sync_in_divergent_code(kit):
    k = kit()
    r = k.registers(F32, 4)
    a = k.registers(mma_atom("SM80_16x8x8_F32BF16BF16F32_TN").a_dtype, 4)
    k.if_(
        k.cmp("lt", k.tid(), 31),
        lambda: k.do(mma.Mma, r, a, a, r, atom="SM80_16x8x8_F32BF16BF16F32_TN"),
    )
    assert kinds(k.run(quiet=True)) == ["aligned_divergence"]


# -- wgmma ----------------------------------------------------------------------------------------


def image(m, swizzle_bits, span, mn_major=False):
    """Bytes of a K-major (or MN-major) operand: blocks `span` bytes wide, swizzled.

    Returns the bytes and, for descriptors, the distance of the next block.
    """
    if mn_major:
        m = np.ascontiguousarray(m.T)
    rows = len(m)
    raw = m.view(np.uint8).reshape(rows, -1)
    blocks = [raw[:, i : i + span] for i in range(0, raw.shape[1], span)]
    flat = np.concatenate([b.reshape(-1) for b in blocks])
    at = np.arange(len(flat))
    out = np.empty_like(flat)
    out[at ^ ((at >> 7 & (1 << swizzle_bits) - 1) << 4)] = flat
    return out, rows * span


def wgmma_kernel(kit, atom, a_bytes, b_bytes, descriptors, *, groups=1, fence=True, wait=True,
                 touch=False, first=False, from_registers=None, 
                 read_early=False, commit=True):  # fmt: skip
    """Copies the operands to shared memory, runs one wgmma per pair of descriptors, stores D."""
    k = kit(
        kit.gmem(U8),
        kit.gmem(U8),
        kit.gmem(atom.d_dtype),
        *([kit.gmem(atom.a_dtype)] if from_registers else []),
    )
    a, b, o = k.args[:3]
    sa = k.shared(U8, max(len(a_bytes), 16), 1024, "sA")
    sb = k.shared(U8, len(b_bytes), 1024, "sB")
    t, threads = k.tid(), 128 * groups
    for src, dst, n in ((a, sa, len(a_bytes)), (b, sb, len(b_bytes))):
        k.for_(
            t, n // 16, threads,
            lambda i, src=src, dst=dst: k.do(
                memory.Copy, *(k.at(p, k.mul(i, 16), 16) for p in (src, dst)), bytes=16
            ),
        )  # fmt: skip
    k.do(sync.FenceProxyAsync)
    k.do(sync.SyncThreads)
    count = atom.num_values("D")
    d = k.registers(atom.d_dtype, count, "acc")
    wg = k.v(sync.WarpUniform, k.div(t, 128))

    def described(base, bits, per_group):
        address = k.v(memory.SharedAddress, base)
        low = k.v(arith.And, k.cast(address, U64), k.c(0x3FFFF, U64))
        low = k.add(low, k.mul(k.cast(wg, U64), k.c(per_group, U64)))
        low = k.v(arith.Shr, low, k.c(4, U64))
        return k.add(k.c(bits, U64), low)

    if touch:
        k.store(d, 0, k.c(0, atom.d_dtype))
    ra = None
    if from_registers:
        ra = k.registers(atom.a_dtype, from_registers * len(descriptors), "rA")
        for i in range(from_registers * len(descriptors)):
            k.store(ra, i, k.load(k.args[3], k.add(k.mul(t, from_registers * len(descriptors)), i)))
    if fence:
        k.do(mma.WgmmaFence)
    for i, (da, db) in enumerate(descriptors):
        add = k.c(i > 0 or first, BOOL)
        bits_b = described(sb, db, 0)
        if from_registers:
            k.do(mma.WgmmaRs, d, k.at(ra, i * from_registers), bits_b, add, atom=atom.name)
        else:
            k.do(
                mma.Wgmma, d, described(sa, da, len(a_bytes) // groups), bits_b, add, atom=atom.name
            )
    if commit:
        k.do(mma.WgmmaCommit)
    if read_early:
        k.load(d, 1)
    if wait:
        k.do(mma.WgmmaWait, pending=0)
    for i in range(count):
        k.store(o, k.add(k.mul(t, count), i), k.load(d, i))
    return k


def described(start, leading, stride, swizzle):
    return encode(start, leading, stride, swizzle)


def run_wgmma(kit, name, a, b, *, swizzle="128B", groups=1, quiet=False, **kw):
    """a: [64 * groups, K], b: [N, K] -> D and the report."""
    atom = mma_atom(name)
    k_ = atom.shape_mnk[2]
    span, bits = {"128B": (128, 3), "64B": (64, 2), "32B": (32, 1)}[swizzle]
    size = a.dtype.itemsize
    images, fields = [], []
    for which, mat, major in (("A", a, atom.a_major), ("B", b, atom.b_major)):
        parts = (
            [mat[i : i + 64] for i in range(0, len(mat), 64)]
            if which == "A" and groups > 1
            else [mat]
        )
        made = [image(p, bits, span, major == "MN") for p in parts]
        images.append(np.concatenate([x for x, _ in made]))
        block = made[0][1]
        steps = []
        for s in range(a.shape[1] // k_):
            if major == "K":
                offset = s * k_ * size // span * block + s * k_ * size % span
                steps.append(encode(offset, 16, 8 * span, swizzle))
            else:
                steps.append(encode(s * k_ * span, block, 8 * span, swizzle))
        fields.append(steps)
    k = wgmma_kernel(
        kit, atom, images[0], images[1], list(zip(*fields, strict=True)), groups=groups, **kw
    )
    got = np.zeros((128 * groups, atom.num_values("D")), storage_dtype(atom.d_dtype))
    extra = ()
    if kw.get("from_registers"):
        steps = [fragments(atom, "A", a[:, s * k_ : (s + 1) * k_]) for s in range(a.shape[1] // k_)]
        extra = (np.concatenate(steps, axis=1),)
    report = k.run(images[0], images[1], got, *extra, block=128 * groups, quiet=quiet)
    d = np.concatenate([unfragment(atom, got[128 * g : 128 * g + 128]) for g in range(groups)])
    return d, report


@pytest.mark.parametrize("swizzle", ["128B", "64B", "32B"])
@pytest.mark.parametrize(
    ("name", "k"),
    [("SM90_64x64x16_F32BF16BF16_SS_KK", 128), ("SM90_64x24x16_F16F16F16_SS_KK", 64),
     ("SM90_64x16x32_F32E4M3E5M2_SS_KK", 128), ("SM90_64x32x32_S32S8S8_SS_KK", 128),
     ("SM90_64x8x8_F32TF32TF32_SS_KK", 32)],
)  # fmt: skip
def test_wgmma_k_major(kit, name, k, swizzle):
    atom = mma_atom(name)
    a, b = matrix(atom.a_dtype, 64, k, 1), matrix(atom.b_dtype, atom.shape_mnk[1], k, 2)
    d, report = run_wgmma(kit, name, a, b, swizzle=swizzle)
    np.testing.assert_array_equal(d.astype(float), exact(a, b))
    assert report.findings == ()
    assert report.counters["flops"] == 2 * 64 * atom.shape_mnk[1] * k


@pytest.mark.parametrize("swizzle", ["128B", "64B", "32B"])
@pytest.mark.parametrize("majors", ["KN", "MK", "MN"])
def test_wgmma_mn_major(kit, majors, swizzle):
    name = f"SM90_64x128x16_F32BF16BF16_SS_{majors}"
    atom = mma_atom(name)
    a, b = matrix(atom.a_dtype, 64, 64, 1), matrix(atom.b_dtype, 128, 64, 2)
    d, _ = run_wgmma(kit, name, a, b, swizzle=swizzle)
    np.testing.assert_array_equal(d.astype(float), exact(a, b))


def test_wgmma_of_two_warpgroups_at_once(kit):
    name = "SM90_64x256x16_F32BF16BF16_SS_KK"
    atom = mma_atom(name)
    a, b = matrix(atom.a_dtype, 128, 64, 1), matrix(atom.b_dtype, 256, 64, 2)
    d, _ = run_wgmma(kit, name, a, b, groups=2)
    np.testing.assert_array_equal(d.astype(float), exact(a, b))


@pytest.mark.parametrize(
    ("name", "k"), [("SM90_64x64x16_F32F16F16_RS_KK", 64), ("SM90_64x64x32_F32E4M3E4M3_RS_KK", 128)]
)
def test_wgmma_with_a_in_registers(kit, name, k):
    atom = mma_atom(name)
    a, b = matrix(atom.a_dtype, 64, k, 1), matrix(atom.b_dtype, 64, k, 2)
    d, _ = run_wgmma(kit, name, a, b, from_registers=atom.num_values("A"))
    np.testing.assert_array_equal(d.astype(float), exact(a, b))


NAME = "SM90_64x64x16_F32BF16BF16_SS_KK"


@pytest.mark.parametrize(
    ("kw", "found", "text"),
    [
        ({}, [], ""),
        ({"fence": False}, ["fence"], "none came before"),
        ({"wait": False}, ["in_flight"], "is read while a wgmma in flight owns it"),
        ({"read_early": True}, ["in_flight", "uninitialised"], "wait for it with wgmma.wait"),
        ({"first": True}, ["uninitialised"], "registers of acc that nothing has written"),
        ({"touch": True}, [], ""),
        ({"touch": True, "fence": False}, ["fence"], "were written since the last one"),
        ({"commit": False}, ["in_flight"], "in flight"),
    ],
)
def test_wgmma_rules(kit, kw, found, text):
    atom = mma_atom(NAME)
    a, b = matrix(atom.a_dtype, 64, 64, 1), matrix(atom.b_dtype, 64, 64, 2)
    _, report = run_wgmma(kit, NAME, a, b, quiet=True, **kw)
    assert set(found) <= set(kinds(report))
    assert bool(found) == bool(report.findings)
    assert text in "\n".join(f.message for f in report.findings)


def test_wgmma_wants_a_whole_warpgroup(kit):
    k = kit()
    k.if_(k.cmp("lt", k.tid(), 96), lambda: k.do(mma.WgmmaFence))
    report = k.run(block=128, quiet=True)
    assert kinds(report) == ["aligned_divergence"]
    assert "wgmma.fence is executed by 96 threads" in report.findings[0].message


@pytest.mark.parametrize(("start", "kind"), [(0x30000, "out_of_bounds"), (0x400, "uninitialised")])
def test_descriptors_that_lead_nowhere(kit, start, kind):
    k = kit()
    k.shared(U8, 32768, 1024, "tile")
    d = k.registers(F32, 32, "acc")
    bits = k.c(encode(start, 16, 1024, "128B"), U64)
    k.do(mma.WgmmaFence)
    k.do(mma.Wgmma, d, bits, bits, k.c(False, BOOL), atom=NAME)
    k.do(mma.WgmmaCommit)
    k.do(mma.WgmmaWait, pending=0)
    report = k.run(block=128, quiet=True)
    assert kind in kinds(report)


def test_a_wrong_stride_in_the_descriptor_gives_a_wrong_product(kit):
    """The machine decodes the bits: what they were made from does not matter."""
    atom = mma_atom(NAME)
    a, b = matrix(atom.a_dtype, 64, 16, 1), matrix(atom.b_dtype, 64, 16, 2)
    pad = lambda m: np.concatenate([m, np.zeros((64, 48), m.dtype)], axis=1)  # noqa: E731
    (ia, _), (ib, _) = image(pad(a), 3, 128), image(pad(b), 3, 128)
    for stride, right in ((1024, True), (512, False)):
        pair = (encode(0, 16, stride, "128B"), encode(0, 16, 1024, "128B"))
        k = wgmma_kernel(kit, atom, ia, ib, [pair])
        got = np.zeros((128, 32), np.float32)
        k.run(ia, ib, got, block=128)
        assert np.array_equal(unfragment(atom, got), exact(a, b)) == right
