"""Arrays of every origin become one kind of view, or are refused by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import LaunchError
from tilewright.numeric.dtypes import ALL_DTYPES
from tilewright.runtime.arrays import ArrayView, as_array, host_bytes


@pytest.mark.parametrize("row", [r for r in ALL_DTYPES if r.name != "tf32"], ids=str)
def test_every_element_type_has_a_numpy_array(row: Any) -> None:
    kind = np.dtype(getattr(ml_dtypes, row.numpy_name, None) or row.numpy_name)
    view = as_array(np.zeros((3, 5), kind))
    assert (view.dtype, view.shape, view.strides) == (row.name, (3, 5), (5, 1))
    assert view.element_bits == 8 * kind.itemsize  # ml_dtypes: a byte for each 4-bit element
    assert (view.rank, view.size, view.device, view.readonly) == (2, 15, "cpu", False)
    assert view.strides_bytes == (5 * kind.itemsize, kind.itemsize)


def test_read_only_arrays_say_so() -> None:
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    view = as_array(array)
    assert view.readonly
    assert not host_bytes(view)[0].flags.writeable


def test_a_view_is_its_own_view() -> None:
    view = as_array(np.zeros(3))
    assert as_array(view) is view


@pytest.mark.parametrize(
    "obj", [[1, 2], 3, "x", None, np.float32(1), range(3), np.float32, memoryview(b"ab")]
)
def test_what_is_no_array_is_refused_by_type(obj: Any) -> None:
    with pytest.raises(LaunchError) as caught:
        as_array(obj, "argument 2 (b)")
    assert caught.value.message == (
        "argument 2 (b): expected an array (NumPy, torch, CuPy, DLPack), got " + type(obj).__name__
    )


@pytest.mark.parametrize("kind", [">f4", "c8", "O", "U3", "M8[s]", [("x", "f4"), ("y", "f4")]])
def test_foreign_dtypes_are_refused(kind: Any) -> None:
    with pytest.raises(LaunchError, match=r"a: NumPy dtype .+ is not an element type of a kernel"):
        as_array(np.zeros(2, kind), "a")


def test_a_stride_between_elements_is_refused() -> None:
    records = np.zeros(4, [("a", "i1"), ("b", "<f4")])
    with pytest.raises(
        LaunchError, match="b: stride 0 is 5 bytes, not a multiple of the 4-byte element"
    ):
        as_array(records["b"], "b")


@given(
    shape=st.lists(st.integers(0, 4), min_size=0, max_size=3),
    steps=st.lists(st.sampled_from([1, 2, -1, -2]), min_size=3, max_size=3),
    kind=st.sampled_from(["i1", "<i2", "<f4", "<f8"]),
)
def test_host_bytes_address_every_element(shape: list[int], steps: list[int], kind: str) -> None:
    """Law: element i of the view is at pointer - base + sum(i * stride) of the buffer."""
    base_array = np.arange(np.prod(shape, dtype=int), dtype=kind).reshape(shape)
    array = base_array[(*(slice(None, None, step) for step in steps[: len(shape)]), ...)]
    view = as_array(array)
    data, base = host_bytes(view)
    assert len(data) <= base_array.nbytes
    for index in np.ndindex(*array.shape):
        offset = sum(i * s for i, s in zip(index, view.strides, strict=True))
        at = view.pointer - base + offset * view.element_bits // 8
        assert data[at : at + array.itemsize].tobytes() == array[index].tobytes()


def test_host_bytes_keep_the_array_alive_and_write_to_it() -> None:
    array = np.zeros((2, 2), ml_dtypes.bfloat16)
    data, _ = host_bytes(as_array(array[:, :1]))
    assert len(data) == 6  # from the first element to the end of the last, gaps included
    data[:] = np.frombuffer(np.array([1, 2, 3], ml_dtypes.bfloat16).tobytes(), np.uint8)
    assert array.astype(int).tolist() == [[1, 2], [3, 0]]
    owned = host_bytes(as_array(np.full(4, 7, np.uint8)))[0]
    assert owned.tolist() == [7, 7, 7, 7]


def test_host_bytes_of_packed_elements_round_up() -> None:
    memory = np.array([0x21, 0x43], np.uint8)
    view = ArrayView(memory.ctypes.data, (3,), (1,), "e2m1", 4, owner=memory)
    assert host_bytes(view)[0].tolist() == [0x21, 0x43]


def test_gpu_memory_has_no_host_bytes() -> None:
    view = ArrayView(4096, (3,), (1,), "f32", 32, device="cuda:1")
    with pytest.raises(LaunchError, match="the array lies on cuda:1, expected CPU memory"):
        host_bytes(view)


class FakeTorch:
    """What a torch tensor shows; the memory may be a NumPy array's."""

    def __init__(self, array: np.ndarray, dtype: str, device: str = "cpu") -> None:
        self.array, self.dtype, self.device = array, f"torch.{dtype}", device
        self.shape, self.is_cuda = array.shape, device.startswith("cuda")

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def get_device(self) -> int:
        return int(self.device.split(":")[1])


@pytest.mark.parametrize(
    ("torch_name", "name"),
    [
        ("bfloat16", "bf16"), ("float16", "f16"), ("float32", "f32"), ("int64", "i64"),
        ("uint8", "u8"), ("bool", "bool"), ("float8_e4m3fn", "e4m3"), ("float8_e5m2", "e5m2"),
        ("float8_e8m0fnu", "e8m0"),
    ],
)  # fmt: skip
def test_torch_dtypes(torch_name: str, name: str) -> None:
    view = as_array(FakeTorch(np.zeros((2, 3), np.uint8), torch_name, "cuda:1"))
    assert (view.dtype, view.device, view.shape, view.strides) == (name, "cuda:1", (2, 3), (3, 1))


def test_torch_packed_fp4_counts_single_elements() -> None:
    view = as_array(FakeTorch(np.zeros((2, 3), np.uint8), "float4_e2m1fn_x2"))
    assert (view.dtype, view.element_bits) == ("e2m1", 4)
    assert (view.shape, view.strides) == ((2, 6), (6, 1))
    column_major = as_array(FakeTorch(np.zeros((2, 3), np.uint8).T, "float4_e2m1fn_x2"))
    assert (column_major.shape, column_major.strides) == ((6, 2), (1, 6))


def test_torch_cpu_memory_is_shared_in_place() -> None:
    array = np.zeros((2, 3), np.int32)
    data, base = host_bytes(as_array(FakeTorch(array.T, "int32")))
    assert base == array.ctypes.data
    data[:4] = 1, 0, 0, 0
    assert array[0, 0] == 1


def test_torch_refusals() -> None:
    array = np.zeros(2, np.uint8)
    with pytest.raises(LaunchError, match=r"a: torch\.complex64 is not an element type"):
        as_array(FakeTorch(array, "complex64"), "a")
    with pytest.raises(LaunchError, match="a: the tensor lies on mps:0, expected cpu or cuda"):
        as_array(FakeTorch(array, "uint8", "mps:0"), "a")


class FakeCupy:
    """What CuPy and Numba show."""

    def __init__(self, **facts: Any) -> None:
        self.facts = {"typestr": "<f4", "shape": (2, 3), "data": (4096, False), "version": 3}
        self.facts |= facts
        self.device = SimpleNamespace(id=2)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.facts


def test_cuda_array_interface() -> None:
    view = as_array(FakeCupy())
    assert (view.pointer, view.shape, view.strides, view.dtype) == (4096, (2, 3), (3, 1), "f32")
    assert (view.device, view.readonly) == ("cuda:2", False)
    strided = as_array(FakeCupy(typestr="|b1", strides=(8, 2), data=(4096, True)))
    assert (strided.strides, strided.dtype, strided.readonly) == ((8, 2), "bool", True)
    assert as_array(FakeCupy(shape=(0,), data=(None, False))).pointer == 0


def test_cuda_array_interface_refusals() -> None:
    with pytest.raises(LaunchError, match="a: CUDA array interface type '<c8' is not an element"):
        as_array(FakeCupy(typestr="<c8"), "a")
    with pytest.raises(LaunchError, match="a: a masked array has no plain memory, pass its data"):
        as_array(FakeCupy(mask=object()), "a")
    with pytest.raises(LaunchError, match="a: stride 0 is 6 bytes, not a multiple of the 4-byte"):
        as_array(FakeCupy(strides=(6, 4)), "a")


def test_types_that_the_interface_cannot_name_go_through_dlpack() -> None:
    class Jax:
        """Raises where JAX does: for bf16, and for arrays on the CPU."""

        array = np.zeros((2, 2), np.float16)

        @property
        def __cuda_array_interface__(self) -> Any:
            raise AttributeError("not a type that the interface has")

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

    assert as_array(Jax()).dtype == "f16"
