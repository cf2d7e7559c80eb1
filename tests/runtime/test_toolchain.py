"""Real compilations without a GPU, and the text of every refusal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import ToolchainError
from tilewright.runtime import cuda_api, toolchain
from tilewright.runtime.toolchain import compile_cubin, nvrtc_version

pytestmark = pytest.mark.usefixtures("needs_nvrtc")

ADD = """
extern "C" __global__ void add(float* a, int n) {
  __shared__ float s[32];
  int i = threadIdx.x;
  if (i < n) s[i] = a[i] + 1.0f;
  __syncthreads();
  a[i] = s[31 - i];
}
"""
MMA = {
    "sm_80": 'asm volatile("cp.async.commit_group;");',
    "sm_90a": 'asm volatile("wgmma.fence.sync.aligned;");',
    "sm_100a": 'asm volatile("tcgen05.fence::before_thread_sync;");',
}
SETMAXNREG = """
extern "C" __global__ void k(float* a) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); a[0] = 1.0f; }
"""
SPILL = """
extern "C" __global__ void __launch_bounds__(1024, 2) heavy(float* a, int n) {
  float v[100];
  for (int i = 0; i < 100; i++) v[i] = a[i * n];
  for (int k = 0; k < n; k++) {
    #pragma unroll
    for (int i = 0; i < 100; i++) v[i] = v[i] * v[(i + 1) % 100] + a[i + k];
  }
  for (int i = 0; i < 100; i++) a[i * n] = v[i];
}
"""


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    """A Python file for `#line` to point at; its line 3 is `x = a + b`."""
    path = tmp_path / "user_kernel.py"
    path.write_text("import tilewright\n\n    x = a + b\n")
    return path


@pytest.mark.parametrize("target", MMA)
def test_each_architecture_compiles_its_own_instructions(target: str) -> None:
    source = f'extern "C" __global__ void k(float* a) {{ {MMA[target]} a[0] = 1.0f; }}'
    compiled = compile_cubin(source, "k", target)
    assert compiled.cubin[:4] == b"\x7fELF"
    assert compiled.target == target
    assert compiled.warnings == ()
    assert 0 < compiled.registers["k"] <= 32
    assert re.fullmatch(r"\d+\.\d+\.\d+", compiled.nvrtc_version)
    assert compiled.seconds > 0


def test_resources_come_from_the_log() -> None:
    compiled = compile_cubin(ADD, "add", "sm_90a")
    assert compiled.smem_bytes == 128
    assert (compiled.spill_stores, compiled.spill_loads, compiled.stack_bytes) == (0, 0, 0)
    assert "Used" in compiled.log
    assert "ELF" not in repr(compiled)  # kilobytes of machine code help nobody in a traceback


def test_options_reach_the_compiler() -> None:
    source = 'extern "C" __global__ void k(int* a) { a[0] = N; }'
    assert compile_cubin(source, "k", "sm_80", ["-DN=4"]).cubin


def test_a_source_without_kernels_leaves_python_whole() -> None:
    # Its log may be one byte long; NVRTC must not write it into a bytes object that Python shares.
    compile_cubin("", "empty", "sm_80")
    assert bytes([32]) == b" "
    assert ord(b" ") == 32


def test_a_front_end_error_shows_the_python_line(user_file: Path) -> None:
    source = f'#line 3 "{user_file}"\nextern "C" __global__ void k(float* a) {{ a[0] = missing; }}'
    with pytest.raises(ToolchainError) as caught:
        compile_cubin(source, "gemm", "sm_90a")
    text = str(caught.value)
    first = f"NVRTC refused kernel 'gemm' for sm_90a: {user_file}(3): error: identifier \"missing\""
    assert text.startswith(first)
    assert "options = --gpu-architecture=sm_90a --std=c++17" in text
    assert "user_kernel.py:3:1\n    x = a + b\n    ^^^^^^^^^" in text
    kept = Path(re.search(r"source = (\S+\.cu)", text)[1])  # type: ignore[index]
    assert kept.read_text() == source
    assert "missing" in kept.with_suffix(".log").read_text()


def test_a_ptx_error_is_led_back_to_the_python_line(user_file: Path) -> None:
    body = '{ a[0] = 1.0f;\n asm volatile("fooo.bar %0;" :: "f"(a[0])); }'
    source = f'#line 2 "{user_file}"\nextern "C" __global__ void k(float* a) {body}'
    with pytest.raises(ToolchainError) as caught:
        compile_cubin(source, "k", "sm_90a")
    assert f"{user_file}(3): ptxas: Unknown modifier '.bar'" in caught.value.message
    assert "more = 2 more in " in str(caught.value)
    assert "    x = a + b" in str(caught.value)


def test_an_error_in_generated_text_cites_no_python_line() -> None:
    with pytest.raises(ToolchainError, match=r"k\.cu\(1\): error: .*undefined") as caught:
        compile_cubin('extern "C" __global__ void k(int* a) { a[0] = x; }', "k", "sm_80")
    assert caught.value.loc is None


def test_too_much_static_shared_memory_is_ptxas_error() -> None:
    source = 'extern "C" __global__ void k(float* a) { __shared__ float s[20000];'
    source += " s[threadIdx.x] = a[0]; __syncthreads(); a[0] = s[0]; }"
    with pytest.raises(ToolchainError, match="'k' uses too much shared data"):
        compile_cubin(source, "k", "sm_80")


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(ToolchainError, match="unrecognized option --no-such-flag"):
        compile_cubin(ADD, "add", "sm_80", ["--no-such-flag"])


@pytest.mark.parametrize("target", ["sm_33", "hopper", "sm_90x"])
def test_an_unknown_target_lists_the_known_ones(target: str) -> None:
    with pytest.raises(
        ToolchainError, match=rf"NVRTC [\d.]+ cannot compile for '{target}'; it knows .*sm_90, "
    ):
        compile_cubin(ADD, "add", target)


def test_a_c75xx_warning_is_an_error(user_file: Path) -> None:
    with pytest.raises(ToolchainError) as caught:
        compile_cubin(f'#line 2 "{user_file}"{SETMAXNREG}', "k", "sm_90a")
    text = str(caught.value)
    assert text.startswith("kernel 'k' for sm_90a: ptxas warning C7508: Potential Performance Loss")
    assert "codes = C7508" in text
    assert "give the kernel its launch bounds; to accept it, pass allow_warnings={'C7508'}" in text
    assert Path(re.search(r"source = (\S+)", text)[1]).exists()  # type: ignore[index]


def test_a_c75xx_warning_can_be_allowed_by_name() -> None:
    compiled = compile_cubin(SETMAXNREG, "k", "sm_90a", allow_warnings=frozenset({"C7508"}))
    assert compiled.warnings == ("C7508",)
    with pytest.raises(ToolchainError, match="C7508"):
        compile_cubin(SETMAXNREG, "k", "sm_90a", allow_warnings=frozenset({"C7510"}))


def test_spills_are_an_error_with_the_numbers() -> None:
    with pytest.raises(ToolchainError) as caught:
        compile_cubin(SPILL, "heavy", "sm_90a")
    assert re.match(
        r"kernel 'heavy' for sm_90a: 'heavy' spills registers: \d+ bytes stored and \d+ bytes "
        r"loaded per thread at 32 registers\n  stack = \d+ bytes per thread\n  source = .*\.cu\n"
        r"  hint: use a smaller tile or more warps per tile, or pass allow_spills=True",
        str(caught.value),
    )


def test_spills_can_be_allowed() -> None:
    compiled = compile_cubin(SPILL, "heavy", "sm_90a", allow_spills=True)
    assert compiled.spill_stores > 0
    assert compiled.spill_loads > 0
    assert compiled.stack_bytes > 0


def test_the_keep_directory_gets_source_cubin_and_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_KEEP_DIR", str(tmp_path / "kept"))
    compiled = compile_cubin(ADD, "my add/1", "sm_80")
    files = sorted((tmp_path / "kept").iterdir())
    assert [file.suffix for file in files] == [".cu", ".cubin", ".log"]
    assert files[0].name.startswith("my_add_1-")
    assert files[0].read_text() == ADD
    assert files[1].read_bytes() == compiled.cubin


def test_without_the_bindings_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    nvrtc_version.cache_clear()
    monkeypatch.setattr(cuda_api, "nvrtc", None)
    monkeypatch.setattr(cuda_api, "BINDINGS_MISSING", "No module named 'cuda'")
    with pytest.raises(ToolchainError) as caught:
        compile_cubin(ADD, "add", "sm_80")
    assert str(caught.value) == (
        "compiling a kernel needs the package cuda-bindings, which is not installed "
        "(No module named 'cuda')\n"
        '  hint: pip install "tilewright[cuda]"'
    )


def test_without_libnvrtc_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoLibrary:
        def nvrtcVersion(self) -> Any:
            raise RuntimeError("Failure finding libnvrtc.so\nsearched everywhere")

    nvrtc_version.cache_clear()
    monkeypatch.setattr(cuda_api, "nvrtc", NoLibrary())
    with pytest.raises(ToolchainError) as caught:
        nvrtc_version()
    assert str(caught.value) == (
        "compiling a kernel needs the package nvidia-cuda-nvrtc, whose library was not found "
        '(Failure finding libnvrtc.so)\n  hint: pip install "tilewright[cuda]"'
    )


def test_a_failing_nvrtc_call_is_named() -> None:
    with pytest.raises(ToolchainError, match="nvrtcCreateProgram failed: 7"):
        toolchain._checked((7,), "nvrtcCreateProgram")


def test_runtime_imports_without_the_cuda_packages() -> None:
    """Every module imports, arrays work, and the first use says what is missing."""
    script = """
import sys
sys.modules["cuda"] = None
import numpy as np
from tilewright.runtime import arrays, cache, driver, launch, sass, tensormap, toolchain
print(arrays.as_array(np.zeros(3, np.float32)).dtype)
print(driver.is_available())
for use in (toolchain.nvrtc_version, driver.ensure_context):
    try:
        use()
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
"""
    env = os.environ | {"PYTHONPATH": str(Path(toolchain.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    dtype, available, compiling, gpu = done.stdout.splitlines()
    assert dtype == "f32"
    assert "ok=False" in available
    assert compiling.startswith("ToolchainError compiling a kernel needs the package cuda-bindings")
    assert gpu.startswith("LaunchError no usable GPU: the package cuda-bindings is not installed")


def test_reading_an_array_does_not_import_cuda() -> None:
    script = (
        "import sys, tilewright.runtime as r; r.as_array; print('cuda.bindings' in sys.modules)"
    )
    env = os.environ | {"PYTHONPATH": str(Path(toolchain.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
