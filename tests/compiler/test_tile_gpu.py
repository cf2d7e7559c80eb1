"""The GPU backend of tile kernels: its parameter buffer without a GPU, its results on one."""

import io
import shutil

import numpy as np
import pytest

import tilewright.tile as ct
from tilewright.compiler import tile_gpu
from tilewright.compiler.tile import BACKENDS, interpreting
from tilewright.compiler.tile_arguments import read_arguments
from tilewright.compiler.tile_fast import fast_key
from tilewright.errors import ToolchainError
from tilewright.runtime import driver
from tilewright.runtime.arrays import ArrayView
from tilewright.runtime.device_buffer import DeviceBuffer
from tilewright.tile import compilation
from tilewright.tileir.interpret.machine import Options


@ct.kernel
def scaled(x, y, factor, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, i, ct.load(x, i, n) * factor)


@ct.kernel
def copied(x, y, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, i, ct.load(x, i, n))


class Tensor:
    """What a torch tensor on a GPU says of itself."""

    is_cuda = True
    device = "cuda:0"
    dtype = "torch.float32"
    shape: tuple[int, ...] = ()

    def __init__(self, address, n, stride=1):
        self.address, self.shape, self._stride = address, (n,), (stride,)

    def data_ptr(self):
        return self.address

    def stride(self):
        return self._stride

    def get_device(self):
        return 0

    def __dlpack__(self):
        raise AssertionError("a tensor is read without DLPack")


@pytest.fixture
def launched(monkeypatch):
    """The parameter buffers that launches hand to the driver: [(grid, words), ...]."""
    seen = []

    class Prepared:
        driver_config = None

        def __init__(self, function, config, params):
            self.function, self.config, self.params = function, config, params

        def __call__(self):
            kinds = range(len(self.params.kinds))
            seen.append((self.config.grid, [self.params.slot_bytes(i) for i in kinds]))

    compiled = []

    def compile_(_, constraints, device):
        compiled.append(device)
        return tile_gpu._OnGpu(None, tile_gpu.parameter_kinds(constraints))

    monkeypatch.setattr(tile_gpu, "PreparedLaunch", Prepared)
    monkeypatch.setitem(BACKENDS, "tileiras", compile_)
    return seen, compiled


def words(values):
    return [int(v).to_bytes(8, "little") for v in values]


def test_repeated_launches_pass_new_addresses(launched):
    seen, compiled = launched
    kernel = copied.replace_hints(occupancy=1)
    sizes = (64, 64, 32, 64, 32, 32)
    for step, n in enumerate(sizes):
        x, y = Tensor(0x1000 + 0x40 * step, n), Tensor(0x9000 + 0x40 * step, n)
        ct.launch(7, (n // 16,), kernel, (x, y, 16))
        wanted = words([x.address, n, 1, y.address, n, 1])
        assert seen[-1] == ((n // 16, 1, 1), wanted), step
    assert compiled == ["cuda:0"]
    assert len(kernel.prepared) == 2


def test_repeated_launches_pass_new_numbers(launched):
    seen, _ = launched
    kernel = scaled.replace_hints(occupancy=1)
    for factor in (0.5, 2.0, -3.0):
        x, y = Tensor(0x1000, 16), Tensor(0x2000, 16)
        ct.launch(None, (1,), kernel, (x, y, factor, 16))
        number = np.float32(factor).tobytes()
        assert seen[-1][1][-1][:4] == number
    ct.launch(None, (2,), kernel, (x, y, 1.0, 16), programmatic_dependent_launch=True)
    assert seen[-1][0] == (2, 1, 1)


def test_what_differs_gets_a_compilation_of_its_own(launched):
    _, compiled = launched
    kernel = copied.replace_hints(occupancy=1)
    y = Tensor(0x2000, 16)
    for x in (Tensor(0x1000, 16), Tensor(0x1004, 16), Tensor(0x1000, 15), Tensor(0x1000, 16, 2)):
        ct.launch(None, (1,), kernel, (x, y, 16))
        ct.launch(None, (1,), kernel, (x, y, 16))
    assert len(compiled) == 4


def test_arguments_with_parts_have_no_fast_key():
    assert fast_key(copied, ((1, 2), 3, 4)) is None
    assert fast_key(copied, (1, 2)) is None
    assert fast_key(copied, (1, 2, (3,))) is None


@pytest.mark.usefixtures("launched")
def test_a_repeated_launch_is_prepared_once():
    kernel = copied.replace_hints(occupancy=1)
    args = (Tensor(0x1000, 64), Tensor(0x2000, 64), 16)
    for _ in range(2):  # the first launch of all may have to look at what a Tensor is
        ct.launch(None, (4,), kernel, args)
    (ready,) = kernel.prepared.values()
    for _ in range(20):
        ct.launch(None, (4,), kernel, args)
    assert list(kernel.prepared.values()) == [ready]


def test_what_compares_its_arguments_itself_is_asked_first(launched, monkeypatch):
    seen, _ = launched
    made, asked = [], []

    def repeat_of(launch, positions, first):
        made.append((launch.params.kinds, positions))

        def repeat(*how):
            asked.append(how)
            return how == first

        return repeat

    monkeypatch.setattr(tile_gpu, "repeat_of", repeat_of)
    kernel = scaled.replace_hints(occupancy=1)
    args = (Tensor(0x1000, 64), Tensor(0x2000, 64), 2.0, 16)
    other = (*args[:2], 3.0, 16)
    for what in (args, args, other, args, other):
        ct.launch(7, (4,), kernel, what)
    assert made == [(("ptr", "i32", "i32", "ptr", "i32", "i32", "f32"), [0, 3, 6, None])]
    assert len(seen) == 3  # the first of `args`, and both of `other`
    assert asked[0] == (7, (4,), args, False, "auto")


def test_arrays_on_a_gpu_without_one():
    if driver.is_available():
        pytest.skip("this machine has a GPU")
    view = ArrayView(0x1000, (16,), (1,), "f32", 32, "cuda:0")
    with pytest.raises(Exception, match=r"GPU|CUDA|driver"):
        ct.launch(None, (1,), copied, (view, view, 16))
    with pytest.raises(ct.TileValueError, match="the interpreter works on CPU memory"):
        ct.launch(None, (1,), copied, (view, view, 16), backend="interpreter")


@ct.kernel
def rounded(x, y, n: ct.Constant[int]):
    t = ct.load(x, 0, n).astype(ct.float16, rounding_mode=ct.RoundingMode.RZ)
    ct.store(y, 0, t.astype(ct.float32))


@pytest.mark.parametrize(
    ("version", "kernel", "written"),
    [
        ("13.4.92", scaled, (13, 3)),
        ("13.4.92", rounded, (13, 4)),
        ("13.9.1", rounded, (13, 4)),
        ("13.2.7", scaled, (13, 2)),
        (None, rounded, (13, 4)),
    ],
)
def test_bytecode_is_as_new_as_the_kernel_needs(monkeypatch, version, kernel, written):
    def of_tileiras():
        if version is None:
            raise ToolchainError("tileiras is missing")
        return version

    found = []
    monkeypatch.setattr(tile_gpu, "tileiras_version", of_tileiras)
    monkeypatch.setattr(tile_gpu, "cubin_of", lambda *given: found.append(given[1]) or b"")
    x = np.zeros(16, np.float32)
    arguments = (x, x, 1.0, 16) if kernel is scaled else (x, x, 16)
    tile_gpu.cubin_for(kernel, read_arguments(kernel, arguments).constraints, "sm_90")
    assert tuple(found[0][8:10]) == written


def test_what_tileiras_is_too_old_for_is_told_at_its_line(monkeypatch):
    monkeypatch.setattr(tile_gpu, "tileiras_version", lambda: "13.3.1")
    x = np.zeros(16, np.float32)
    constraints = read_arguments(rounded, (x, x, 16)).constraints
    with pytest.raises(ct.TileUnsupportedFeatureError, match=r"needs Tile IR 13\.4") as error:
        tile_gpu.cubin_for(rounded, constraints, "sm_90")
    assert "rounding_mode=ct.RoundingMode.RZ" in str(error.value)


def test_faults_of_the_compiler(monkeypatch):
    def refuse(*_, **__):
        raise ToolchainError("tileiras refuses 'copied'", details={"exit status": 5})

    monkeypatch.setattr(tile_gpu, "tileiras_version", lambda: "13.4")
    monkeypatch.setattr(tile_gpu, "compile_tile", refuse)
    with pytest.raises(ct.TileCompilerExecutionError, match="ended with status 5") as caught:
        tile_gpu.cubin_of(copied, b"", "sm_90")
    assert (caught.value.return_code, caught.value.compiler_version) == (5, "13.4")
    assert caught.value.compiler_flags == "--gpu-name=sm_90"

    def slow(*_, timeout_s, **__):
        raise TimeoutError(f"tileiras took longer than {timeout_s} s")

    monkeypatch.setattr(tile_gpu, "compile_tile", slow)
    with (
        ct.compiler_timeout(0.25),
        pytest.raises(ct.TileCompilerTimeoutError, match=r"longer than 0\.25 s"),
    ):
        tile_gpu.cubin_of(copied, b"", "sm_90")


# --- on a GPU -----------------------------------------------------------------------------------


@ct.kernel
def product(a, b, c, m: ct.Constant[int], k: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((m, m), ct.float32)
    for step in range(ct.num_tiles(a, 1, (m, k))):
        x = ct.load(a, (i, step), (m, k), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (step, j), (k, m), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def mixed(x, out, n):
    t = ct.load(x, 0, 64)
    total = ct.sum(t)
    for i in range(n):
        if i == 5:
            break
        if i % 2 == 0:
            continue
        t = t + ct.exp(-t) * i
    ct.store(out, 0, ct.where(t > 1, t, total))
    ct.atomic_add(out, ct.arange(64, dtype=ct.int32), 1.0)


def on_gpu(kernel, grid, *args):
    """The arrays after a launch on the GPU, and after the interpreter."""
    buffers, moved = [], []
    for x in args:
        if not isinstance(x, np.ndarray):
            moved.append(x)
            continue
        buffer = DeviceBuffer(x.nbytes)
        buffer.write(x)
        dtype = {"float16": "f16", "float32": "f32"}[x.dtype.name]
        strides = tuple(s // x.itemsize for s in x.strides)
        bits = 8 * x.itemsize
        moved.append(ArrayView(buffer.address, x.shape, strides, dtype, bits, "cuda:0"))
        buffers.append((buffer, x.copy()))
    ct.launch(None, grid, kernel, tuple(moved))
    driver.synchronize()
    for buffer, x in buffers:
        buffer.read(x)
    with interpreting(Options(echo=lambda _: None)):
        ct.launch(None, grid, kernel, args)
    return [x for _, x in buffers], [x for x in args if isinstance(x, np.ndarray)]


def host_arrays(kernel):
    if kernel is product:
        return [np.zeros((64, 64), np.float16)] * 2 + [np.zeros((64, 64), np.float32), 64, 32]
    if kernel is mixed:
        return [np.zeros(64, np.float32), np.zeros(64, np.float32), 9]
    return [np.zeros(64, np.float32), np.zeros(64, np.float32), 0.5, 16]


@pytest.mark.skipif(not shutil.which("tileiras"), reason="tileiras is not installed")
@pytest.mark.parametrize("kernel", [scaled, product, mixed], ids=lambda k: k.__name__)
def test_tileiras_compiles_what_is_captured(kernel):
    signature = compilation.KernelSignature.from_kernel_args(
        kernel, host_arrays(kernel), compilation.CallingConvention.cutile_python_v1()
    )
    file = io.BytesIO()
    compilation.export_kernel(kernel, [signature], file, gpu_code="sm_90", output_format="cubin")
    assert file.getvalue()[:4] == b"\x7fELF"
    assert signature.symbol.encode() in file.getvalue()


@pytest.mark.gpu("sm_90a")
@pytest.mark.skipif(not shutil.which("tileiras"), reason="tileiras is not installed")
def test_results_on_a_gpu_are_the_interpreters():
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((200, 96), (96, 130)))
    there, here = on_gpu(product, (4, 3), a, b, np.zeros((200, 130), np.float32), 64, 32)
    # f32 accumulation of 96 products of size about 1, in another order.
    np.testing.assert_allclose(there[2], here[2], rtol=1e-5, atol=1e-4)
    x = rng.random(64).astype(np.float32)
    there, here = on_gpu(mixed, (1,), x, np.zeros(64, np.float32), 9)
    np.testing.assert_allclose(there[1], here[1], rtol=1e-6)
