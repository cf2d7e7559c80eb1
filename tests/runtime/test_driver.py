"""The checked driver, against a fake libcuda in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tilewright.errors import LaunchError
from tilewright.runtime import cuda_api, driver

CATCH = """
from tilewright.errors import TilewrightError
from tilewright.runtime import driver
def refused(use):
    try:
        use()
    except TilewrightError as error:
        print(type(error).__name__, str(error).replace(chr(10), "|"))
"""


def test_device_facts(run_fake: Callable) -> None:
    run = run_fake(
        CATCH + "i = driver.device_info(1)\n"
        "print(i.name, i.cc, i.target, i.sm_count, i.smem_per_block_optin, i.driver_version)\n"
        "print(driver.device_count(), bool(driver.is_available()))\n"
        "refused(lambda: driver.device_info(2))"
    )
    assert run.output == [
        "Paper GPU 1 (9, 0) sm_90a 132 232448 (13, 1)",
        "2 True",
        "LaunchError no GPU 2: this process sees 2, numbered from 0",
    ]


def test_contexts(run_fake: Callable) -> None:
    run = run_fake(
        CATCH + "print(driver.ensure_context().device)\n"
        "with driver.use_device(1) as inner:\n"
        "    print(inner.device, driver.ensure_context().device)\n"
        "print(driver.ensure_context().device, driver.ensure_context(1).device)\n"
        "print(driver.ensure_context().device)"  # what is current stays
    )
    assert run.output == ["0", "1 1", "0 1", "1"]
    assert [call["device"] for call in run.named("retain")] == [0, 1]  # each once


def test_a_cubin_is_loaded_once_per_context(run_fake: Callable) -> None:
    run = run_fake(
        CATCH + "a = driver.load_function(b'ELF1', 'gemm')\n"
        "b = driver.load_function(b'ELF1', 'gemm')\n"
        "driver.load_function(b'ELF1', 'other')\n"
        "driver.load_function(b'ELF2', 'gemm')\n"
        "driver.load_function(b'ELF1', 'gemm', device=1)\n"
        "print(a is b, a.registers, a.static_smem, a.max_threads)"
    )
    assert run.output == ["True 168 1024 384"]
    assert [call["context"] for call in run.named("load")] == [0x1000, 0x1000, 0x1001]
    assert [call["name"] for call in run.named("function")] == ["gemm", "other", "gemm", "gemm"]


def test_dynamic_shared_memory_is_asked_for_beyond_48_kib(run_fake: Callable) -> None:
    run = run_fake(
        CATCH + "kib = 1024\n"
        "load = lambda smem: driver.load_function(b'ELF', 'gemm', smem)\n"
        "load(0), load(47 * kib), load(48 * kib), load(200 * kib), load(100 * kib)\n"
        "refused(lambda: load(227 * kib))"  # with 1 KiB of static memory it is one too many
    )
    # Static memory counts too: 48 KiB dynamic and 1 KiB static are beyond the default.
    assert [(c["attribute"], c["value"]) for c in run.named("set")] == [
        (8, 48 * 1024),
        (8, 200 * 1024),
    ]
    assert run.output == [
        "ResourceError kernel 'gemm' needs 233,472 bytes of shared memory per block, Paper GPU 0 "
        "has 232,448|  dynamic = 232,448|  static = 1,024|  hint: use fewer stages or a smaller "
        "tile"
    ]


def test_a_refused_cubin_says_what_to_do(run_fake: Callable) -> None:
    script = CATCH + "refused(lambda: driver.load_function(b'ELF', 'gemm'))"
    assert run_fake(script, fail="cuModuleLoadData=209").output == [
        "LaunchError cuModuleLoadData failed: CUDA_ERROR_NO_BINARY_FOR_GPU (no kernel image is "
        "available for execution on the device)|  hint: the cubin is for another architecture: "
        "compile for this GPU"
    ]


def test_a_missing_kernel_is_named(run_fake: Callable) -> None:
    run = run_fake(CATCH + "refused(lambda: driver.load_function(b'ELF', 'absent'))")
    assert run.output == [
        "LaunchError cuModuleGetFunction('absent') failed: CUDA_ERROR_NOT_FOUND (named symbol not "
        "found)|  hint: no kernel of that name is in the cubin"
    ]


def test_a_fault_of_an_earlier_kernel_surfaces_in_synchronize(run_fake: Callable) -> None:
    run = run_fake(CATCH + "refused(driver.synchronize)", fail="cuCtxSynchronize=700")
    assert run.output == [
        "LaunchError cuCtxSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access "
        "was encountered)|  hint: an earlier kernel faulted and the context is lost: start a new "
        "process, and run that kernel under the simulator (`tilewright check`)"
    ]


def test_no_device_is_unavailable_with_the_reason(run_fake: Callable) -> None:
    script = CATCH + "print(driver.is_available().reason)\nrefused(driver.ensure_context)"
    assert run_fake(script, devices=0).output == [
        "the driver sees no GPU",
        "LaunchError no usable GPU: the driver sees no GPU|  hint: the simulator runs the same "
        "kernel on the CPU; `tilewright doctor` says more",
    ]
    failed = "cuInit failed: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"
    assert run_fake(script, fail="cuInit=100").output[0] == failed


class _NoLibrary:
    def cuInit(self, _flags: int) -> None:
        raise RuntimeError("Failure finding libcuda.so\nsearched everywhere")


@pytest.mark.parametrize(
    ("api", "missing", "reason"),
    [
        (None, "No module named 'cuda'", "the package cuda-bindings is not installed (No module"),
        (
            _NoLibrary(),
            "",
            "the NVIDIA driver library is not installed (Failure finding libcuda.so",
        ),
    ],
)
def test_a_machine_without_a_driver(
    api: object, missing: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_api, "driver", api)
    monkeypatch.setattr(cuda_api, "BINDINGS_MISSING", missing)
    driver.is_available.cache_clear()
    found = driver.is_available()
    assert not found
    assert found.reason.startswith(reason)
    assert "\n" not in found.reason
    assert driver.device_count() == 0
    with pytest.raises(LaunchError, match="no usable GPU: the "):
        driver.device_info(0)
    driver.is_available.cache_clear()


def test_an_unknown_status_is_still_an_error(run_fake: Callable) -> None:
    run = run_fake(CATCH + "refused(driver.synchronize)", fail="cuCtxSynchronize=999")
    assert run.output == [json.loads('"LaunchError cuCtxSynchronize failed: 999 (999)"')]
