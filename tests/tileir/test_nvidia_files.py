"""Files that NVIDIA's package writes now, from cuTile kernels: read, verified, written the same."""

from __future__ import annotations

import io
from typing import Any

import pytest

ct = pytest.importorskip(
    "cuda.tile", reason="needs the package cuda-tile (the extra `tileiras`)", exc_type=ImportError
)

import tileir_cutile_kernels as cutile  # noqa: E402

from tilewright.tileir.bytecode.encoding import VERSIONS  # noqa: E402
from tilewright.tileir.bytecode.reader import read_bytecode_file  # noqa: E402
from tilewright.tileir.bytecode.writer import write_bytecode  # noqa: E402
from tilewright.tileir.printer import PrintOptions, print_text  # noqa: E402
from tilewright.tileir.reader import parse  # noqa: E402
from tilewright.tileir.verify import verify  # noqa: E402


def _exported(kernel: Any, version: tuple[int, int]) -> bytes:
    array = ct.compilation.ArrayConstraint(
        ct.float32,
        1 if kernel is cutile.add else 2,
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_divisible_by=4,
        base_addr_divisible_by=16,
    )
    signature = ct.compilation.KernelSignature(
        [array] * 3, ct.compilation.CallingConvention.cutile_python_v1()
    )
    out = io.BytesIO()
    ct.compilation.export_kernel(
        kernel,
        [signature],
        out,
        gpu_code="sm_90",
        output_format="tileir_bytecode",
        bytecode_version=f"{version[0]}.{version[1]}",
    )
    return out.getvalue()


@pytest.mark.parametrize("version", VERSIONS, ids=str)
@pytest.mark.parametrize("kernel", cutile.KERNELS, ids=lambda k: k._pyfunc.__name__)
def test_files_of_nvidias_package_come_back_byte_for_byte(
    kernel: Any, version: tuple[int, int]
) -> None:
    data = _exported(kernel, version)
    block, found, layout = read_bytecode_file(data)
    assert found == version
    verify(block)
    assert write_bytecode(block, version, layout) == data
    # Through text: the layout of tables is lost, what they hold is not.
    text = print_text(block, PrintOptions(locations=True))
    again = parse(text)
    verify(again)
    assert print_text(again, PrintOptions(locations=True)) == text
    assert write_bytecode(again, version, layout) == data
