"""Where shared buffers go, and what happens when they do not fit; the target check."""

from __future__ import annotations

import pytest

from tilewright.arch.target import target
from tilewright.errors import ResourceError, TargetError
from tilewright.ir.core import Module
from tilewright.ir.parser import parse_func
from tilewright.passes.check_target import check_target
from tilewright.passes.shared_layout import shared_layout


def module(*buffers: str, attributes: str = "") -> Module:
    lines = "\n".join(buffers)
    return Module({"f": parse_func(f"kernel @f() {attributes} {{\n{lines}\nreturn()\n}}")})


def buffer(dtype: str, count: int, align: int, label: str) -> str:
    pointer = f"ptr<{dtype}, smem, {align}>"
    attrs = f"dtype='{dtype}', count={count}, align={align}, label='{label}', offset=-1"
    return f"%{label} = mem.alloc_shared() {{{attrs}}} : {pointer}"


def test_widest_alignment_first() -> None:
    m = module(
        buffer("u64", 3, 8, "bars"), buffer("bf16", 8192, 1024, "sA"), buffer("f32", 5, 16, "x")
    )
    shared_layout(m, target("sm_90a"))
    offsets = {op.attrs["label"]: op.attrs["offset"] for op in m.kernels["f"].body.ops[:-1]}
    assert offsets == {"sA": 0, "x": 16384, "bars": 16408}
    assert m.kernels["f"].smem_bytes == 16432


def test_too_much_names_the_largest_buffers() -> None:
    m = module(buffer("f32", 60000, 16, "big"), buffer("f32", 10, 16, "small"))
    with pytest.raises(ResourceError) as error:
        shared_layout(m, target("sm_90a"))
    assert str(error.value) == (
        "f: shared memory 240,040 B > 232,448 B on sm_90a: big 240,000 B, small 40 B\n"
        "  hint: fewer stages, or a smaller tile"
    )


def test_operations_of_a_later_architecture() -> None:
    with pytest.raises(TargetError) as error:
        check_target(module("grid.wait()"), target("sm_80"))
    assert str(error.value) == (
        "grid.wait: needs sm_90 or newer, the target is sm_80\n"
        "  hint: compile for sm_90a, or use an older instruction here"
    )


def test_wgmma_is_hoppers_alone() -> None:
    check_target(module("wgmma.fence()"), target("sm_90a"))
    with pytest.raises(TargetError, match="needs wgmma, which sm_100a does not have"):
        check_target(module("wgmma.fence()"), target("sm_100a"))


def test_too_many_threads() -> None:
    with pytest.raises(ResourceError) as error:
        check_target(module(attributes="{max_threads=2048}"), target("sm_90a"))
    assert str(error.value) == (
        "f: 2048 threads per block > 1024 on sm_90a; launch with a smaller block"
    )
