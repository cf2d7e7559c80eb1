"""Repeated launches in C, with a driver and tensors of the test's own."""

import ctypes
import itertools

import pytest

from tilewright.runtime import native
from tilewright.runtime.launch import KernelParams

LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
GPU, FLOAT = 2, 2


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


VIEW = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))


class Exchange(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        *((name, ctypes.c_void_p) for name in ("older", "allocate", "from_python", "to_python")),
        ("view", VIEW),
        ("stream", ctypes.c_void_p),
    )


@VIEW
def view(tensor, out):
    found = out.contents
    found.data, found.device_type, found.device_id = tensor.address, GPU, tensor.device
    found.rank, found.code, found.bits, found.lanes = len(tensor.shape), FLOAT, tensor.bits, 1
    found.shape = (ctypes.c_int64 * 9)(*tensor.shape)
    found.strides = (ctypes.c_int64 * 9)(*tensor.strides)
    tensor.kept = found.shape, found.strides
    found.offset = 0
    return 0


TABLE = Exchange(1, 3, None, None, None, None, view, None)
NAME = b"dlpack_exchange_api"  # the capsule keeps its address
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Tensor:
    __dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(TABLE), NAME, None)

    def __init__(self, address, shape, strides=None, bits=32, device=0):
        self.address, self.shape, self.bits, self.device = address, shape, bits, device
        self.strides = strides or tuple(range(len(shape), 0, -1))


class Function:
    handle = 77


class Record:
    def getPtr(self):
        return 55


class Launch:
    """What `repeat_of` needs of a PreparedLaunch."""

    driver_config = Record()
    function = Function()

    def __init__(self, params):
        self.params = params


@pytest.fixture
def driver(monkeypatch):
    """[(config, function, words of the parameters), ...] of each launch; its status is `status`."""
    module, reason = native.load()
    if module is None:
        pytest.skip(f"there is no C helper here: {reason}")

    class Driver:
        status = 0
        seen: list = []  # noqa: RUF012 (made anew for each test)
        params = None

    found = Driver()
    found.seen = []

    @LAUNCH
    def entry(config, function, params, extra):
        assert not extra
        slots = (ctypes.c_void_p * len(found.params.kinds)).from_address(params)
        words = [ctypes.c_uint64.from_address(slot).value for slot in slots]
        found.seen.append((config, function, words))
        return found.status

    monkeypatch.setattr(native, "_launch_ex", lambda: ctypes.cast(entry, ctypes.c_void_p).value)
    found.entry = entry
    return found


def make(driver, kinds, values, positions, args, stream=7, grid=(4,), pdl=False, backend="auto"):
    driver.params = KernelParams(kinds)
    driver.params.fill(values)
    return native.repeat_of(
        Launch(driver.params), positions, native.Call(stream, grid, args, pdl, backend)
    )


def test_new_addresses_and_numbers_are_passed(driver):
    kinds = ("ptr", "i32", "i32", "i32", "f32")
    first = (Tensor(0x1000, (64,)), 5, 0.5, 16)
    repeat = make(driver, kinds, (0x1000, 64, 1, 5, 0.5), (0, 3, 4, None), first)
    assert repeat(7, (4,), (Tensor(0x2000, (64,)), -1, 2.0, 16), False, "auto")
    assert driver.seen == [(55, 77, [0x2000, 64, 1, 0xFFFFFFFF, 0x40000000])]


class Stream:
    def __init__(self, handle):
        self.cuda_stream = handle


A = Tensor(0x1000, (64, 32), (32, 1))
DIFFERENT = {
    "shape": {"args": (Tensor(0x1000, (64, 16), (32, 1)), 3)},
    "stride": {"args": (Tensor(0x1000, (64, 32), (64, 1)), 3)},
    "rank": {"args": (Tensor(0x1000, (64,), (32,)), 3)},
    "element": {"args": (Tensor(0x1000, (64, 32), (32, 1), bits=16), 3)},
    "device": {"args": (Tensor(0x1000, (64, 32), (32, 1), device=1), 3)},
    "alignment": {"args": (Tensor(0x1004, (64, 32), (32, 1)), 3)},
    "type": {"args": (0x1000, 3)},
    "constant": {"args": (A, 4)},
    "constant's type": {"args": (A, 3.0)},
    "number of arguments": {"args": (A,)},
    "no tuple": {"args": [A, 3]},
    "stream": {"stream": Stream(8)},
    "grid": {"grid": (5,)},
    "dependent launch": {"pdl": True},
    "backend": {"backend": "tileiras"},
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_differs_is_not_launched(driver, what):
    how = {"stream": Stream(7), "grid": (4,), "args": (A, 3), "pdl": False, "backend": "auto"}
    repeat = make(driver, ("ptr",), (A.address,), (0, None), how["args"], **{
        k: v for k, v in how.items() if k != "args"
    })  # fmt: skip
    assert repeat(*how.values())
    assert repeat(Stream(7), *itertools.islice(how.values(), 1, None))
    assert not repeat(*(how | DIFFERENT[what]).values())
    assert len(driver.seen) == 2


def test_a_refusal_of_the_driver_is_left_to_the_long_way(driver):
    repeat = make(driver, ("ptr",), (A.address,), (0, None), (A, 3))
    driver.status = 1
    assert repeat(7, (4,), (A, 3), False, "auto") is False


def test_numbers_that_do_not_fit_are_left_to_the_long_way(driver):
    repeat = make(driver, ("i32",), (1,), (0,), (1,))
    for value in (1 << 31, -(1 << 31) - 1, 1 << 80):
        assert not repeat(7, (4,), (value,), False, "auto")
    assert repeat(7, (4,), ((1 << 31) - 1,), False, "auto")


def test_what_has_no_short_way(driver):
    assert make(driver, ("ptr",), (1,), (0,), (object(),)) is None  # not DLPack's
    assert make(driver, ("i64",), (1,), (0,), (1,)) is None
    assert make(driver, ("i32",), (1,), (0,), (True,)) is None
    deep = Tensor(0x1000, (2,) * 9)
    assert make(driver, ("ptr",), (1,), (0,), (deep,)) is None


def test_a_wrong_call_is_an_error(driver):
    repeat = make(driver, ("i32",), (1,), (0,), (1,))
    with pytest.raises(TypeError, match="repeat: expected 5 arguments, got 1"):
        repeat(7)
    with pytest.raises(ValueError, match="kinds, slots and args differ in length"):
        native.load()[0].prepare(None, 1, 1, 1, 1, ("i",), (), 0, (1,), (), False, "auto")


def test_it_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_NATIVE_ENABLED", "0")
    assert native.load.__wrapped__() == (None, "TILEWRIGHT_NATIVE_ENABLED is 0")


def test_without_a_compiler_the_reason_is_told(monkeypatch):
    monkeypatch.setattr(native.shutil, "which", lambda _: None)
    assert native.load.__wrapped__() == (None, "there is no C compiler (cc)")


def test_a_build_that_fails_is_told(monkeypatch, tmp_path):
    module, reason = native.load()
    if module is None:
        pytest.skip(reason)
    broken = tmp_path / "repeat.c"
    broken.write_text("this is no C")
    monkeypatch.setattr(native, "SOURCE", broken)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    module, reason = native.load.__wrapped__()
    assert module is None
    assert "CalledProcessError" in reason
    assert not list((tmp_path / "cache" / "native").iterdir())
