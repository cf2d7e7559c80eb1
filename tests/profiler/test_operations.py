from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.arch.target import target
from tilewright.errors import TilewrightError
from tilewright.profiler.operations import (
    Operation,
    config_facts,
    matches,
    nearest,
    nominal_name,
    operations,
    require_match,
)

H200, A100 = target("sm_90a"), target("sm_80")


@dataclass(frozen=True)
class Config:
    tile_shape_mnk: tuple[int, int, int] = (128, 256, 64)
    cluster_shape_mnk: tuple[int, int, int] = (2, 1, 1)
    num_stages: int = 4


def test_name_follows_cutlass() -> None:
    op = Operation("sm90_gemm", "bf16", "f32", "row", "column", "row")
    assert op.name(Config()) == "tilewright_sm90_gemm_bf16_bf16_f32_f32_128x256x64_2x1x1_4_tnt"
    assert op.name(None) == "tilewright_sm90_gemm_bf16_bf16_f32_f32_tnt"


def test_config_facts() -> None:
    assert config_facts(Config())["cta_n"] == "256"
    assert set(config_facts(object()).values()) == {""}
    assert list(config_facts(None)) == list(config_facts(Config()))


def test_the_list_is_what_the_kernels_say() -> None:
    names = [nominal_name(op, H200) for op in operations(H200)]
    assert len(set(names)) == len(names)
    assert any(name.startswith("tilewright_sm90_gemm_bf16") for name in names)
    assert not any("sm90_gemm_f32" in name for name in names)
    assert any(name.startswith("tilewright_simt_gemm_f32") for name in names)


def test_a_target_has_only_its_own() -> None:
    kernels = {op.kernel for op in operations(A100)}
    assert "simt_gemm" in kernels
    assert "sm90_gemm" not in kernels


@pytest.mark.parametrize(
    ("kernels", "wanted"),
    [
        ("", True),
        ("sm90", True),
        ("sm80", False),
        ("sm80,bf16", True),
        ("sm90*f16*tnt", True),
        ("tnt*sm90", False),
        ("gemm.bf16", False),
        (" sm90 , ", True),
    ],
)
def test_matches(kernels: str, wanted: bool) -> None:
    assert matches("tilewright_sm90_gemm_bf16_bf16_f32_bf16_tnt", kernels) is wanted


@given(st.lists(st.text(alphabet="abc_", min_size=1, max_size=4), min_size=1, max_size=4))
def test_parts_in_order_always_match(parts: list[str]) -> None:
    assert matches("x".join(parts), "*".join(parts))


def test_no_match_says_what_there_is() -> None:
    names = ["tilewright_sm90_gemm_bf16_tnt", "tilewright_simt_gemm_f32_tnt"]
    require_match(1, "--kernels=x", "x", names)
    with pytest.raises(TilewrightError) as caught:
        require_match(0, "--kernels=sm09*bf16", "sm09*bf16", names)
    assert str(caught.value) == (
        "no operation matches --kernels=sm09*bf16; 2 operations exist on this target\n"
        "  nearest = tilewright_sm90_gemm_bf16_tnt\n"
        "            tilewright_simt_gemm_f32_tnt\n"
        "  hint: `tilewright profile --mode=enumerate` lists them all"
    )


def test_nearest_puts_the_likeliest_first() -> None:
    names = ["tilewright_simt_gemm_f32_tnt", "tilewright_sm90_gemm_bf16_tnt"]
    assert nearest("sm9_bf61", names, 1) == ("tilewright_sm90_gemm_bf16_tnt",)
