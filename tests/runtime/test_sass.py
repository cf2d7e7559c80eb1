"""Machine code as data: a cubin compiled here, disassembled here."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tilewright.errors import ToolchainError
from tilewright.runtime import cuda_api, sass
from tilewright.runtime.sass import Instruction, disassemble, opcode_counts, sass_text
from tilewright.runtime.toolchain import compile_cubin

SOURCE = """
#line 60 "/home/me/gemm.py"
extern "C" __global__ void one(float* a, int n) { int i = threadIdx.x; if (i < n) a[i] += 1.0f; }
extern "C" __global__ void two(float* a) {
  __shared__ float s[32]; s[threadIdx.x] = a[0]; __syncthreads(); a[threadIdx.x] = s[3]; }
"""


@pytest.fixture
def cubin(request: pytest.FixtureRequest) -> bytes:
    request.getfixturevalue("needs_nvrtc")
    try:
        cuda_api.find_nvdisasm()
    except ToolchainError as error:
        pytest.skip(f"the sass extra is not installed: {error.message}")
    return compile_cubin(SOURCE, "both", "sm_90a").cubin


def test_instructions_of_every_kernel(cubin: bytes) -> None:
    code = disassemble(cubin)
    assert {row.kernel for row in code} == {"one", "two"}
    one = [row for row in code if row.kernel == "one"]
    assert [row.address for row in one[:3]] == [0, 16, 32]
    assert any(row.opcode.startswith("FADD") and "R" in row.operands for row in one)
    assert any(row.opcode == "EXIT" and row.predicate.startswith("@") for row in one)


def test_counts_by_kernel(cubin: bytes) -> None:
    assert opcode_counts(cubin, "two")["STS"] == 1
    assert opcode_counts(cubin, "one")["STS"] == 0
    assert opcode_counts(cubin)["STL"] == 0


def test_listing_cites_the_python_line(cubin: bytes) -> None:
    assert 'File "/home/me/gemm.py", line 60' in sass_text(cubin)
    assert "File" not in sass_text(cubin, with_lines=False)


def test_an_instruction_prints_as_assembly() -> None:
    row = Instruction("k", 0, "STG.E", "desc[UR6][R2.64],R5", "@!P0")
    assert str(row) == "@!P0 STG.E desc[UR6][R2.64],R5"
    assert str(Instruction("k", 0, "EXIT")) == "EXIT"


@pytest.mark.usefixtures("cubin")
def test_a_damaged_cubin_is_refused() -> None:
    with pytest.raises(ToolchainError, match=r"nvdisasm cannot read this cubin of 4 bytes: .+"):
        disassemble(b"oops")


def test_a_missing_tool_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_api, "find_utility", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(ToolchainError) as caught:
        sass.disassemble(b"")
    assert str(caught.value) == (
        "disassembly needs nvdisasm, which is neither on PATH nor in the package "
        'nvidia-cuda-nvdisasm\n  hint: pip install "tilewright[sass]"'
    )


def test_path_is_searched_after_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_api, "find_utility", lambda: lambda _name: None)
    monkeypatch.setattr(shutil, "which", lambda name: f"/opt/{name}")
    assert cuda_api.find_nvdisasm() == Path("/opt/nvdisasm")
