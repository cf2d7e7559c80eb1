"""Launch records and parameter bytes as a (fake) driver receives them, and every refusal."""

from __future__ import annotations

import struct
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from tilewright.errors import LaunchError
from tilewright.runtime.launch import KernelParams, LaunchConfig, current_stream, stream_handle

SETUP = """
from tilewright.errors import TilewrightError
from tilewright.runtime import driver, launch
from tilewright.runtime.launch import KernelParams, LaunchConfig, PreparedLaunch
from tilewright.runtime.tensormap import TensorMapSpec, encode
f = driver.load_function(b"ELF", "gemm", 0)
def refused(use):
    try:
        use()
    except TilewrightError as error:
        print(type(error).__name__, str(error).replace(chr(10), "|"))
"""


def unpack(record: dict[str, Any], formats: str) -> list[Any]:
    pairs = zip(formats, record["params"], strict=True)
    return [struct.unpack("<" + code, bytes.fromhex(text))[0] for code, text in pairs]


def test_every_scalar_kind_arrives(run_fake: Callable) -> None:
    run = run_fake(
        SETUP + "p = KernelParams(('ptr', 'bool', 'i1', 'i8', 'u8', 'i16', 'u16', 'i32', 'u32',"
        " 'i64', 'u64', 'f16', 'f32', 'f64'))\n"
        "p.fill((2**63 + 8, True, 0, -3, 250, -300, 65535, -70000, 2**32 - 1, -2**40, 2**64 - 1,"
        " 0.5, 1.25, 1e300))\n"
        "launch.launch(f, LaunchConfig((1,), (32,)), p)",
        params="8 1 1 1 1 2 2 4 4 8 8 2 4 8",
    )
    (record,) = run.named("launch")
    assert unpack(record, "Q??bBhHiIqQefd") == [
        2**63 + 8, True, False, -3, 250, -300, 65535, -70000, 2**32 - 1, -(2**40), 2**64 - 1,
        0.5, 1.25, 1e300,
    ]  # fmt: skip


def test_the_configuration_arrives(run_fake: Callable) -> None:
    run = run_fake(
        SETUP + "c = LaunchConfig((8, 4, 3), (128, 2), (2, 4), 200 * 1024, 77, True, True)\n"
        "launch.launch(f, c, KernelParams(()))"
    )
    (record,) = run.named("launch")
    assert (record["grid"], record["block"]) == ([8, 4, 3], [128, 2, 1])
    assert (record["smem"], record["stream"], record["function"]) == (204800, 77, 0x5000)
    assert not record["extra"]
    cluster_dimension, overlap, cooperative = 4, 6, 2
    attributes = {code: rest for code, *rest in record["attributes"]}
    assert attributes[cluster_dimension] == [2, 4, 1]
    assert attributes[overlap][0] == 1
    assert attributes[cooperative][0] == 1
    assert [c["value"] for c in run.named("set")] == [204800]


def test_a_plain_launch_has_no_attributes(run_fake: Callable) -> None:
    run = run_fake(SETUP + "launch.launch(f, LaunchConfig(4, 32), KernelParams(()))")
    (record,) = run.named("launch")
    assert (record["grid"], record["block"], record["attributes"]) == ([4, 1, 1], [32, 1, 1], [])
    assert (record["smem"], record["stream"]) == (0, 0)


def test_a_large_cluster_is_asked_for(run_fake: Callable) -> None:
    run = run_fake(SETUP + "launch.launch(f, LaunchConfig(32, 32, 16), KernelParams(()))")
    non_portable_allowed = 14
    assert [(c["attribute"], c["value"]) for c in run.named("set")] == [(non_portable_allowed, 1)]
    assert run.named("launch")[0]["attributes"] == [[4, 16, 1, 1]]


def test_a_prepared_launch_reads_the_refilled_parameters(run_fake: Callable) -> None:
    run = run_fake(
        SETUP + "p = KernelParams(('ptr', 'i32'))\n"
        "go = PreparedLaunch(f, LaunchConfig(1, 32), p)\n"
        "for n in (5, -6):\n"
        "    p.fill((0x1000, n)); go()\n"
        "go.on_stream(9)()",
        params="8 4",
    )
    records = run.named("launch")
    assert [unpack(record, "Qi") for record in records] == [[4096, 5], [4096, -6], [4096, -6]]
    assert [record["stream"] for record in records] == [0, 0, 9]


def test_tensor_maps_are_passed_by_value(run_fake: Callable) -> None:
    run = run_fake(
        SETUP + "s = TensorMapSpec('bf16', 2, (512, 64), (1024,), (64, 32), swizzle='128B')\n"
        "p = KernelParams(('i32', 'tensormap', 'tensormap', 'f32'))\n"
        "p.fill((3, encode(s, 4096, 'A'), encode(s, 8192, 'B'), 2.0))\n"
        "launch.launch(f, LaunchConfig(1, 32), p)",
        params="4 128 128 4",
    )
    (record,) = run.named("launch")
    first, second = (bytes.fromhex(text) for text in record["params"][1:3])
    assert first == struct.pack("<Q", 4096) + b"\xab" * 120
    assert second == struct.pack("<Q", 8192) + b"\xab" * 120
    assert bytes.fromhex(record["params"][3]) == struct.pack("<f", 2.0)


def test_parameters_keep_their_tensor_maps_alive(run_fake: Callable) -> None:
    run = run_fake(
        SETUP + "import gc, sys\n"
        "s = TensorMapSpec('bf16', 2, (512, 64), (1024,), (64, 32))\n"
        "p = KernelParams(('tensormap',)); p.fill((encode(s, 4096),))\n"
        "m = encode(s, 4096); encode.cache_clear(); gc.collect()\n"
        "print(sys.getrefcount(m)); p.fill((encode(s, 8192),)); print(sys.getrefcount(m))"
    )
    held_by_params, alone = map(int, run.output)
    assert held_by_params == alone + 1


def test_an_empty_grid_succeeds_without_a_launch(run_fake: Callable) -> None:
    run = run_fake(
        SETUP + "for grid in ((0,), (4, 0), (0, 0, 0)):\n"
        "    launch.launch(f, LaunchConfig(grid, 32), KernelParams(()))\n"
        "print('fine')"
    )
    assert run.output == ["fine"]
    assert run.named("launch") == []


def test_a_new_thread_gets_the_context_of_the_function(run_fake: Callable) -> None:
    run = run_fake(
        SETUP + "import threading\n"
        "go = PreparedLaunch(driver.load_function(b'ELF', 'gemm', device=1),"
        " LaunchConfig(1, 32), KernelParams(()))\n"
        "t = threading.Thread(target=go); t.start(); t.join()"
    )
    (record,) = run.named("launch")
    assert record["context"] == 0x1001


def test_a_failed_launch_tells_its_shape(run_fake: Callable) -> None:
    script = SETUP + "refused(lambda: launch.launch(f, LaunchConfig((4, 2), 64), KernelParams(())))"
    assert run_fake(script, fail="cuLaunchKernelEx=1").output == [
        "LaunchError cuLaunchKernelEx of 'gemm' with grid (4, 2, 1), block (64, 1, 1), cluster "
        "(1, 1, 1), 0 bytes of shared memory failed: CUDA_ERROR_INVALID_VALUE (invalid argument)|"
        "  hint: check grid, block, cluster and shared memory against the device"
    ]


def test_launch_bounds_of_the_kernel_are_respected(run_fake: Callable) -> None:
    run = run_fake(
        SETUP + "refused(lambda: launch.launch(f, LaunchConfig(1, 512), KernelParams(())))"
    )
    assert run.output == [
        "LaunchError kernel 'gemm': block (512, 1, 1) has 512 threads, its launch bounds allow 384"
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": (1, 65536)}, "grid y is 65,536, the limit is 65,535"),
        ({"grid": (1, 1, 65536)}, "grid z is 65,536, the limit is 65,535"),
        ({"grid": 2**31}, "grid x is 2,147,483,648, the limit is 2,147,483,647"),
        ({"grid": -1}, "grid x is -1, the limit is 2,147,483,647"),
        ({"block": 1025}, "block x is 1,025, expected 1 to 1,024"),
        ({"block": (1, 1, 65)}, "block z is 65, expected 1 to 64"),
        ({"block": 0}, "block x is 0, expected 1 to 1,024"),
        ({"block": (64, 32)}, r"block \(64, 32, 1\) has 2,048 threads, the limit is 1,024"),
        ({"smem_bytes": -4}, "smem_bytes is -4, expected 0 or more"),
        ({"cluster": 0}, "cluster x is 0, expected 1 or more"),
        ({"grid": 7, "cluster": 2}, "grid x is 7, not a multiple of cluster x, 2"),
        (
            {"cluster": (4, 5), "grid": (4, 5)},
            r"cluster \(4, 5, 1\) has 20 blocks, the limit is 16",
        ),
    ],
)
def test_limits_are_refused_before_the_driver(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        LaunchConfig(**({"grid": 4, "block": 64} | changes)).validate()


def test_a_grid_over_the_limit_has_a_hint() -> None:
    with pytest.raises(LaunchError, match="hint: fold blocks into x, or loop over tiles"):
        LaunchConfig((1, 100_000), 64).validate()
    with pytest.raises(LaunchError, match="hint: round the grid up to 8"):
        LaunchConfig(7, 64, 2).validate()
    LaunchConfig((2**31 - 1, 65535, 65535), 1024).validate()


@pytest.mark.parametrize("grid", [(), (1, 2, 3, 4), (1.5,), "ab"])
def test_a_shape_that_is_none_is_refused(grid: Any) -> None:
    with pytest.raises(LaunchError, match="grid: expected one to three integers, got "):
        LaunchConfig(grid, 32)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("i32", 2**31, r"argument 1 \(n\): 2147483648 does not fit i32"),
        ("u32", -1, r"argument 1 \(n\): -1 does not fit u32"),
        ("i32", 1.5, r"argument 1 \(n\): 1.5 does not fit i32"),
        ("f16", 1e9, r"argument 1 \(n\): 1000000000.0 does not fit f16"),
        ("f32", 1e300, r"argument 1 \(n\): 1e\+300 does not fit f32"),
        ("f32", "x", r"argument 1 \(n\): expected a number for f32, got str"),
        ("ptr", None, r"argument 1 \(n\): expected a number for ptr, got NoneType"),
        ("tensormap", 5, r"argument 1 \(n\): expected a TensorMap, got int"),
    ],
)
def test_a_bad_value_is_named(kind: str, value: Any, message: str) -> None:
    params = KernelParams(("ptr", kind), ("a", "n"))
    with pytest.raises(LaunchError, match=message):
        params.fill((0, value))


def test_a_signature_is_checked() -> None:
    with pytest.raises(LaunchError, match="parameter 1: unknown kind 'f8', expected ptr, bool, "):
        KernelParams(("ptr", "f8"))
    with pytest.raises(LaunchError, match="the kernel takes 2 parameters, 3 were given"):
        KernelParams(("ptr", "i32")).fill((1, 2, 3))


class _Torch:
    cuda_stream = 0xABC


class _Protocol:
    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, 0xDEF)


class _OldProtocol:
    __cuda_stream__ = (0, 0x123)


def test_streams_of_every_kind() -> None:
    assert stream_handle(None) == 0
    assert stream_handle(5) == 5
    assert stream_handle(_Torch()) == 0xABC
    assert stream_handle(_Protocol()) == 0xDEF
    assert stream_handle(_OldProtocol()) == 0x123
    for wrong in ("0", True, 2.0):
        with pytest.raises(LaunchError, match="stream: expected a handle, a torch or CUDA stream"):
            stream_handle(wrong)


def test_a_stream_of_the_bindings() -> None:
    bindings = pytest.importorskip("cuda.bindings.driver", reason="the cuda extra is missing")
    assert stream_handle(bindings.CUstream(0x77)) == 0x77


def test_the_current_stream_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert current_stream() == 0
    cuda = types.SimpleNamespace(
        is_initialized=lambda: True, current_stream=lambda _device: _Torch()
    )
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    assert current_stream(0) == 0xABC
    cuda.is_initialized = lambda: False
    assert current_stream() == 0
