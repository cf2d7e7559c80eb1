"""Launching tile kernels: arguments of every kind, what is compiled for, backends."""

import io
import shutil
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

import tilewright.tile as ct
from tilewright.compiler.tile import module_of
from tilewright.compiler.tile_arguments import read_arguments
from tilewright.compiler.tile_gpu import parameter_kinds
from tilewright.errors import LaunchError
from tilewright.ir.ops.tile.module import Entry
from tilewright.tile import compilation, tune
from tilewright.tileir.bytecode.reader import read_bytecode
from tilewright.tileir.printer import print_text

V1 = compilation.CallingConvention.cutile_python_v1()
V2 = compilation.CallingConvention.cutile_python_v2()


@ct.kernel
def double(x, y, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, i, ct.load(x, i, n) * 2)


class Exporter:
    """An array that only speaks DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_that_speak_dlpack():
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    ct.launch(None, (2,), double, (Exporter(x), Exporter(y), 4))
    np.testing.assert_array_equal(y, x * 2)


def test_arrays_that_overlap():
    base = np.arange(16, dtype=np.float32)
    ct.launch(None, (2,), double, (base[:8], base[8:], 4))
    np.testing.assert_array_equal(base, [*range(8), *range(0, 16, 2)])
    ct.launch(None, (1,), double, (base, base[4:8], 4))
    np.testing.assert_array_equal(base[4:8], base[:4] * 2)


def test_one_compilation_serves_what_has_one_key():
    kernel = double.replace_hints(occupancy=2)
    for n in (16, 32, 48):
        ct.launch(None, (1,), kernel, (np.zeros(n, np.float32), np.zeros(n, np.float32), 8))
    assert len(kernel.programs) == 1
    ct.launch(None, (1,), kernel, (np.zeros(9, np.float32), np.zeros(16, np.float32), 8))
    ct.launch(None, (1,), kernel, (np.zeros(16, np.float32), np.zeros(16, np.float32), 4))
    ct.launch(None, (1,), kernel, (np.zeros(16, np.float64), np.zeros(16, np.float64), 8))
    assert len(kernel.programs) == 4
    assert double.programs is not kernel.programs


def aligned(shape, dtype, lead=0):
    """An array whose base is `lead` elements behind a multiple of 64 bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 256, np.uint8)
    start = -raw.ctypes.data % 64 + lead * np.dtype(dtype).itemsize
    return raw[start : start + size].view(dtype).reshape(shape)


def test_assumptions_of_a_launch():
    args = (aligned((32, 48), np.float16), aligned((5, 7), np.float32, lead=1).T, 8)
    first, second, n = read_arguments(double, args).constraints
    assert first.stride_constant == (None, 1)
    assert first.stride_divisible_by == (16, 1)
    assert first.shape_divisible_by == (16, 16)
    assert first.base_addr_divisible_by == 16
    assert second.stride_constant == (1, None)
    assert second.shape_divisible_by == second.stride_divisible_by == (1, 1)
    assert second.base_addr_divisible_by == 1
    assert n.value == 8


@dataclass(frozen=True)
class Problem:
    x: object
    scale: float
    steps: int = 2


@ct.kernel
def mixed(problem, pair, out, flag, big: ct.ScalarInt64, kind: ct.Constant, name: ct.Constant[str]):
    t = ct.load(problem.x, 0, 4) * problem.scale
    if flag:
        t = t + pair[1]
    for _ in range(problem.steps):
        t = t + ct.load(pair[0], 0, 4)
    ct.static_assert(kind == ct.float32 and name == "sum" and big.dtype == ct.int64)
    ct.store(out, 0, t.astype(kind) + ct.astype(big // 2**33, kind))


def test_arguments_of_every_kind():
    x = np.arange(4, dtype=np.float32)
    out = np.zeros(4, np.float32)
    args = (Problem(x, 0.5), (x + 1, 7), out, True, 2**34, np.float32, "sum")
    ct.launch(None, (1,), mixed, args)
    np.testing.assert_array_equal(out, x * 0.5 + 7 + 2 * (x + 1) + 2)
    kinds = parameter_kinds(read_arguments(mixed, args).constraints)
    assert kinds == [
        *("ptr", "i32", "i32", "f32", "i32", "ptr", "i32", "i32", "i32"),
        *("ptr", "i32", "i32", "bool", "i64"),
    ]


BAD = [
    ((np.zeros(4), 3), "double takes 3 arguments (x, y, n), got 2"),
    (("x", np.zeros(4), 4), ""),
    ((object(), np.zeros(4), 4), "argument 0 (x): expected an array, a number, a list"),
    ((np.zeros(4), np.zeros(4), np.zeros(4)), "argument 2 (n): ndarray is no constant"),
    ((2**40, np.zeros(4), 4), "argument 0 (x): 1099511627776 does not fit int32"),
    (([], np.zeros(4), 4), "argument 0 (x): expected a list of arrays"),
    (([np.zeros(4), np.zeros((2, 2))], np.zeros(4), 4), "one element type and rank"),
    ((np.zeros(4, ml_dtypes.int4), np.zeros(4), 4), "no element type"),
]


@pytest.mark.parametrize(("args", "text"), BAD)
def test_arguments_that_are_refused(args, text):
    with pytest.raises(ct.TileError) as caught:
        ct.launch(None, (1,), double, args)
    assert text in str(caught.value)


def test_launches_that_are_refused():
    x = np.zeros(8, np.float32)
    with pytest.raises(ct.TileValueError, match="a grid is one to three integers"):
        ct.launch(None, (1, 2, 3, 4), double, (x, x, 8))
    with pytest.raises(ct.TileValueError, match="a grid is one to three integers"):
        ct.launch(None, (-1,), double, (x, x, 8))
    with pytest.raises(ct.TileTypeError, match=r"expected a @ct.kernel"):
        ct.launch(None, (1,), len, (x, x, 8))
    with pytest.raises(ct.TileValueError, match="no backend 'gpu', expected one of auto"):
        ct.launch(None, (1,), double, (x, x, 8), backend="gpu")
    with pytest.raises(ct.TileValueError, match="works on GPU memory"):
        ct.launch(None, (1,), double, (x, x, 8), backend="tileiras")
    x.flags.writeable = False
    with pytest.raises(Exception, match=r"read.only"):
        ct.launch(None, (1,), double, (x, x, 8))
    ct.launch(None, (0,), double, (x, x, 8))


def test_hints_are_checked_and_written():
    with pytest.raises(ValueError, match=r"num_ctas: expected a power of two from 1 to 16, got 3"):
        ct.kernel(num_ctas=3)(double.function)
    with pytest.raises(ValueError, match="occupancy: expected an integer from 1 to 32, got 33"):
        double.replace_hints(occupancy=ct.ByTarget(default=1, sm_90=33))
    with pytest.raises(TypeError, match="expected targets such as sm_90, got 'ampere'"):
        ct.ByTarget(default=1, ampere=2)
    hinted = double.replace_hints(num_ctas=2, occupancy=ct.ByTarget(default=1, sm_90=4))
    x = np.zeros(8, np.float32)
    signature = compilation.KernelSignature.from_kernel_args(hinted, (x, x, 4), V1)
    for target, occupancy in ((None, 1), ("sm_90", 4)):
        text = print_text(module_of(hinted, [signature], target=target))
        assert f"default = {{num_cta_in_cga = 2, occupancy = {occupancy}}}" in text


# --- ahead of time ------------------------------------------------------------------------------


def array(dtype=ct.float32, rank=1, **facts):
    given = {
        "index_dtype": ct.int32,
        "stride_lower_bound_incl": 0,
        "alias_groups": (),
        "may_alias_internally": False,
        **facts,
    }
    return compilation.ArrayConstraint(dtype, rank, **given)


SIGNATURES = [
    [array(stride_constant=[1], shape_divisible_by=16, base_addr_divisible_by=16)] * 2 + [16],
    [array(ct.bfloat16, 3, stride_constant=[None, None, 1], stride_divisible_by=[8, 16, 1]), -3],
    [array(index_dtype=ct.int64, alias_groups=["a"]), array(alias_groups=["a"]), True, 0.1],
    [compilation.ScalarConstraint(ct.uint8), (1, (array(ct.float8_e5m2), 2.5)), -0.0],
    [compilation.ListConstraint(array(), alias_groups=(), elements_may_alias=True)],
    [array(stride_lower_bound_incl=-4, may_alias_internally=True, shape_divisible_by=4)],
]


@pytest.mark.parametrize("parameters", SIGNATURES)
def test_names_are_mangled_and_back(parameters):
    signature = compilation.KernelSignature(parameters, V1)
    name = compilation.mangle_kernel_name("my_Kernel", signature)
    function, again = compilation.demangle_kernel_name(name)
    assert function == "my_Kernel"
    assert compilation.mangle_kernel_name("my_Kernel", again) == name
    assert again.symbol == name
    groups = [p.alias_groups for p in again.parameters if hasattr(p, "alias_groups")]
    if not any(groups):
        assert again.parameters == signature.parameters


def test_the_signature_of_a_launch():
    x = aligned(32, np.float32)
    signature = compilation.KernelSignature.from_kernel_args(double, (x, x, 4), V2)
    assert signature.symbol == "double_Kt2_A1f32_1i16t1_p16_A1f32_1i16t1_p16_I4"
    named = compilation.KernelSignature.from_kernel_args(double, (x, x, 4), V2, symbol="k")
    assert named.symbol == "k"
    assert named.parameters == signature.parameters


def test_a_known_name():
    parameters = [
        *[array(stride_constant=[1], shape_divisible_by=16, base_addr_divisible_by=16)] * 3,
        16,
    ]
    name = compilation.mangle_kernel_name("vadd", compilation.KernelSignature(parameters, V1))
    assert name == ("vadd_Kt1_A1f32_1i16t1_p16_A1f32_1i16t1_p16_A1f32_1i16t1_p16_I16")


@pytest.mark.parametrize(
    "name", ["plain", "f_Kx9_I1", "f_Kt1_Q1", "f_Kt1_I", "f_Kt1_A1f99", "f_Kt1_A1f32_4i2"]
)
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match=r"calling convention|mangled|mask"):
        compilation.demangle_kernel_name(name)


BAD_CONSTRAINTS = [
    (lambda: array(rank=-1), ValueError, "ndim is -1"),
    (lambda: array(index_dtype=ct.int8), ValueError, "index_dtype is int32 or int64"),
    (lambda: array(stride_constant=[1, 2]), ValueError, "expected 1 values"),
    (lambda: array(shape_divisible_by=0), ValueError, "expected at least 1, got 0"),
    (lambda: array(stride_constant=[3], stride_divisible_by=2), ValueError, "does not divide"),
    (lambda: array(stride_constant=[-1]), ValueError, "below the lower bound 0"),
    (lambda: array(alias_groups="ab"), TypeError, "sequence of strings"),
    (lambda: array("f32"), TypeError, "expected a dtype"),
    (lambda: compilation.ScalarConstraint(3), TypeError, "expected a number's dtype"),
    (lambda: compilation.ConstantConstraint([]), TypeError, "no constant of tile code"),
    (
        lambda: compilation.KernelSignature([array(alias_groups=["a"])], V1),
        ValueError,
        "alias group 'a' has one member only",
    ),
    (
        lambda: compilation.KernelSignature([array(shape_constant=[4])], V1),
        ValueError,
        "needs the calling convention cutile_python_v2",
    ),
]


@pytest.mark.parametrize(("make", "kind", "text"), BAD_CONSTRAINTS)
def test_constraints_that_are_refused(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


@ct.kernel
def aliased(x, y):
    ct.store(y, 0, ct.load(x, 0, 4))
    ct.store(x, 1, ct.load(y, 1, 4))


def tokens_used(groups):
    parameters = [array(stride_constant=[1], alias_groups=groups)] * 2
    signature = compilation.KernelSignature(parameters, V1, "aliased")
    return print_text(module_of(aliased, [signature])).count("token = ")


def test_arrays_of_one_alias_group_are_ordered():
    assert tokens_used(()) < tokens_used(("g",)) == 3


def test_export_of_bytecode():
    parameters = SIGNATURES[0]
    signatures = [
        compilation.KernelSignature(parameters, V1),
        compilation.KernelSignature([*parameters[:2], 32], V1, "other"),
    ]
    file = io.BytesIO()
    compilation.export_kernel(double, signatures, file, output_format="tileir_bytecode")
    (module,) = read_bytecode(file.getvalue()).ops
    names = [op.sym_name for op in module.body.ops if isinstance(op, Entry)]
    assert names == [compilation.mangle_kernel_name("double", signatures[0]), "other"]


@pytest.mark.parametrize("version", ["13.1", "13.2", "13.3", "13.4"])
def test_export_in_every_version(tmp_path, version):
    file = tmp_path / "double.tileirbc"
    compilation.export_kernel(
        double,
        [compilation.KernelSignature(SIGNATURES[0], V1)],
        file,
        gpu_code="sm_90",
        output_format="tileir_bytecode",
        bytecode_version=version,
    )
    assert file.read_bytes()[8:10] == bytes(map(int, version.split(".")))


def test_exports_that_are_refused():
    def export(**options):
        signature = compilation.KernelSignature(SIGNATURES[0], V1)
        given = {"output_format": "tileir_bytecode", **options}
        compilation.export_kernel(double, [signature], io.BytesIO(), **given)

    with pytest.raises(ValueError, match="expected 'cubin' or 'tileir_bytecode', got 'ptx'"):
        export(output_format="ptx")
    with pytest.raises(ValueError, match="gpu_code: a cubin is for one GPU"):
        export(output_format="cubin")
    with pytest.raises(ValueError, match=r"bytecode_version: expected one of 13\.1, 13\.2"):
        export(bytecode_version="14.0")
    with pytest.raises(ValueError, match=r"gpu_code: bytecode 13\.1 is for one GPU"):
        export(bytecode_version="13.1")


@ct.kernel
def newer(x, y):
    t = ct.load(x, 0, 8, check_bounds=False)
    ct.store(y, 0, ct.insert(t, 1, ct.zeros((4,), ct.float32)))
    ct.grid_dependency_control_wait()
    ct.store(y, 1, t)
    ct.grid_dependency_control_launch_dependents()


def test_what_only_newer_versions_have():
    signature = compilation.KernelSignature([array(stride_constant=[1])] * 2, V1, "newer")
    text = print_text(module_of(newer, [signature], version=(13, 4)))
    for word in ("insert", "inbounds = [true]", "gdc_wait_tko", "gdc_launch_dependents_tko"):
        assert word in text
    with pytest.raises(ct.TileUnsupportedFeatureError, match=r"needs Tile IR 13\.4"):
        module_of(newer, [signature])


def test_the_interpreter_runs_the_newest_version():
    x, y = np.arange(8, dtype=np.float32), np.zeros(16, np.float32)
    ct.launch(None, (1,), newer, (x, y))
    np.testing.assert_array_equal(y, [0, 1, 2, 3, 0, 0, 0, 0, *x])


@ct.kernel
def directed(x, y):
    t = ct.load(x, 0, 8)
    ct.store(y, 0, t.astype(ct.float16, rounding_mode=ct.RoundingMode.RZ).astype(ct.float32))
    away = t.astype(ct.tfloat32, rounding_mode=ct.RoundingMode.RA)
    ct.store(y, 1, away.astype(ct.float32, rounding_mode=ct.RoundingMode.RP))


def test_conversions_of_floats_round_as_they_say():
    step = 2.0**-10
    x = np.array([1, -1, 1, -1, 3, -3, 0, 1], np.float32) * np.float32(1 + step / 2)
    y = np.zeros(16, np.float32)
    ct.launch(None, (1,), directed, (x, y))
    toward_zero = np.array([1, -1, 1, -1, 3, -3, 0, 1], np.float32)
    np.testing.assert_array_equal(y[:8], toward_zero)
    up = [1 + step, -1 - step, 1 + step, -1 - step, 3 + 2 * step, -3 - 2 * step, 0, 1 + step]
    away = np.array(up, np.float32)
    np.testing.assert_array_equal(y[8:], away)
    signature = compilation.KernelSignature([array(stride_constant=[1])] * 2, V1, "directed")
    file = io.BytesIO()
    compilation.export_kernel(directed, [signature], file, output_format="tileir_bytecode")
    assert tuple(file.getvalue()[8:10]) == (13, 4)
    with pytest.raises(ct.TileUnsupportedFeatureError, match=r"float16 needs Tile IR 13\.4"):
        module_of(directed, [signature])


@ct.kernel
def undirected(x, y):
    ct.store(y, 0, ct.load(x, 0, 8).astype(ct.float16, rounding_mode=ct.RoundingMode.RA))


def test_a_rounding_that_no_version_has_is_refused():
    with pytest.raises(ct.TileTypeError, match="RA does not round float32 to float16, expected"):
        ct.launch(None, (1,), undirected, (np.zeros(8, np.float32), np.zeros(8, np.float16)))


@pytest.mark.skipif(not shutil.which("tileiras"), reason="tileiras is not installed")
def test_a_cubin(tmp_path):
    file = tmp_path / "double.cubin"
    signature = compilation.KernelSignature(SIGNATURES[0], V1)
    compilation.export_kernel(double, [signature], file, gpu_code="sm_90", output_format="cubin")
    assert file.read_bytes()[:4] == b"\x7fELF"


# --- tuning -------------------------------------------------------------------------------------


def test_search(capsys):
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    result = tune.exhaustive_search(
        [8, 6, 64],
        None,
        lambda n: (ct.cdiv(64, n),),
        double,
        lambda n: (x, y, n),
        lambda n: {"occupancy": 1 + n % 2},
    )
    assert {m.config for m in result.successes} == {8, 64}
    assert result.best is result.successes[0]
    assert result.best.mean_us <= result.successes[1].mean_us
    ((config, kind, message),) = result.failures
    assert (config, kind) == (6, ct.TileTypeError)
    assert "powers of two" in message
    assert "64: " in capsys.readouterr().err
    np.testing.assert_array_equal(y, 2)


def test_searches_that_fail():
    with pytest.raises(ValueError, match="the search space is empty"):
        tune.exhaustive_search([], None, None, double, None)
    with pytest.raises(
        ValueError, match=r"all 1 configurations fail, the first with TileTypeError"
    ):
        tune.exhaustive_search(
            [3], None, lambda _: (1,), double, lambda n: (np.zeros(4), np.zeros(4), n), quiet=True
        )


def test_pinned_faults_name_the_argument():
    with pytest.raises(LaunchError, match=r"argument 0 \(x\)"):
        ct.launch(None, (1,), double, (np.zeros(4, "complex64"), np.zeros(4), 4))
