"""The samples of `examples/tile`: right in any legal order, valid, compiled by NVIDIA's tools.

Each sample's `case` says what is exact and how far a result may be from it.  The tools are those of
the extra `tileiras`; where they are missing, their tests are skipped.
"""

from __future__ import annotations

import copy
import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright.tile as ct
from tilewright.compiler.tile import interpreting, module_of, signature_for
from tilewright.compiler.tile_arguments import read_arguments
from tilewright.compiler.tile_gpu import cubin_for
from tilewright.errors import ToolchainError
from tilewright.ir.core import Block
from tilewright.runtime.tileiras import compile_tile, find_tool
from tilewright.tile import compilation
from tilewright.tileir.bytecode.reader import read_bytecode
from tilewright.tileir.bytecode.writer import write_bytecode
from tilewright.tileir.interpret.machine import Options
from tilewright.tileir.printer import print_text
from tilewright.tileir.reader import parse
from tilewright.tileir.verify import verify

PATHS = sorted((Path(__file__).parents[1] / "examples" / "tile").glob("*.py"))
SEEDS = (1, 2, 3)
NEEDS_SM_100 = {"scaled_kernel"}
"""Kernels with types that tileiras has from sm_100 on."""

Launch = tuple[Any, tuple[Any, ...]]
Record = Callable[[Path], tuple[SimpleNamespace, list[Launch]]]


def has_tools() -> bool:
    try:
        find_tool("tileiras")
        find_tool("tileirdisasm")
    except ToolchainError:
        return False
    return True


needs_tools = pytest.mark.skipif(not has_tools(), reason="the extra tileiras is not installed")
every_sample = pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Record:
    """Runs a sample's `main` and gives its names and its launches: (kernel, arguments)."""

    def run(path: Path) -> tuple[SimpleNamespace, list[Launch]]:
        launches: list[Launch] = []
        launch = ct.launch

        def recording(stream: Any, grid: Any, kernel: Any, args: Any, /, **options: Any) -> None:
            launches.append((kernel, args))
            launch(stream, grid, kernel, args, **options)

        sample = SimpleNamespace(**runpy.run_path(str(path)))
        with monkeypatch.context() as patch:
            patch.setattr(ct, "launch", recording)
            sample.main()
        return sample, launches

    return run


def modules(launches: list[Launch]) -> dict[str, Block]:
    """The Tile IR module of every kernel that was launched."""
    return {
        k.__name__: module_of(k, [signature_for(read_arguments(k, args).constraints, k.__name__)])
        for k, args in launches
    }


def test_every_sample_of_the_issue_is_there() -> None:
    assert {p.stem for p in PATHS} >= {
        *("vector_add", "transpose", "matmul", "persistent_matmul", "batched_matmul", "softmax"),
        *("layer_norm", "attention", "mixture_of_experts", "grouped_matmul", "fft"),
        "block_scaled_matmul",
    }


def bits(x: Any) -> Any:
    return [bits(item) for item in x] if isinstance(x, list) else x.tobytes()


@every_sample
def test_no_order_of_accesses_changes_a_sample(path: Path) -> None:
    sample = SimpleNamespace(**runpy.run_path(str(path)))
    run, arguments, expected = sample.case(np.random.default_rng(7))
    assert expected, "a sample says what is exact"
    others = [copy.deepcopy(arguments) for _ in SEEDS]
    run(*arguments)
    for seed, other in zip(SEEDS, others, strict=True):
        with interpreting(Options(adversarial=True, seed=seed)):  # raises on a finding
            run(*other)
        for at in expected:
            assert bits(other[at]) == bits(arguments[at])


@every_sample
def test_modules_are_valid_and_come_back_from_text_and_bytecode(path: Path, record: Record) -> None:
    sample, launches = record(path)
    kernels = {k.__name__ for k in vars(sample).values() if isinstance(k, ct.kernel)}
    found = modules(launches)
    assert set(found) == kernels, "main launches every kernel"
    for module in found.values():
        text = print_text(module)
        for again in (parse(text), read_bytecode(write_bytecode(module))):
            verify(again)
            assert print_text(again) == text


@needs_tools
@every_sample
def test_nvidias_tools_take_every_kernel(path: Path, record: Record, tmp_path: Path) -> None:
    _, launches = record(path)
    file = tmp_path / "kernel.tileirbc"
    for name, module in modules(launches).items():
        file.write_bytes(write_bytecode(module))
        command = [find_tool("tileirdisasm"), file]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert f"entry @{name}(" in done.stdout
    done_for = set()
    for k, args in launches:
        constraints = read_arguments(k, args).constraints
        if k.__name__ not in done_for:
            target = "sm_100" if k.__name__ in NEEDS_SM_100 else "sm_90"
            assert cubin_for(k, constraints, target)[:4] == b"\x7fELF"
            done_for.add(k.__name__)


@every_sample
def test_every_kernel_is_one_of_cutile(path: Path, record: Record, tmp_path: Path) -> None:
    theirs = pytest.importorskip("cuda.tile.compilation")
    _, launches = record(path)
    twin = tmp_path / path.name
    twin.write_text(path.read_text().replace("import tilewright.tile as", "import cuda.tile as"))
    kernels = runpy.run_path(str(twin))
    convention = compilation.CallingConvention.cutile_python_v2()
    for k, args in launches:
        ours = compilation.KernelSignature.from_kernel_args(k, args, convention)
        name = compilation.mangle_kernel_name(k.__name__, ours)
        _, signature = theirs.demangle_kernel_name(name)
        file = tmp_path / "kernel.tileirbc"
        theirs.export_kernel(
            kernels[k.__name__],
            [signature],
            str(file),
            gpu_code="sm_100" if k.__name__ in NEEDS_SM_100 else "sm_90",
            output_format="tileir_bytecode",
            bytecode_version="13.3",
        )
        verify(read_bytecode(file.read_bytes()))


@needs_tools
def test_what_hopper_does_not_have_is_told_by_both(record: Record) -> None:
    (path,) = (p for p in PATHS if p.stem == "block_scaled_matmul")
    _, launches = record(path)
    bytecode = write_bytecode(modules(launches)["scaled_kernel"])
    with pytest.raises(ToolchainError, match=r"for sm_90: .*unsupported type 'f8E8M0FNU'"):
        compile_tile(bytecode, "scaled_kernel", "sm_90")
    k, args = next(x for x in launches if x[0].__name__ == "scaled_kernel")
    text = r"float8_e8m0fnu needs sm_100 or later, this is sm_90"
    with pytest.raises(ct.TileUnsupportedFeatureError, match=text):
        cubin_for(k, read_arguments(k, args).constraints, "sm_90")
