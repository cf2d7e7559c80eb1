"""The rules of TMA, one by one and in bytes, and what the driver is asked to encode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tilewright.errors import LaunchError
from tilewright.runtime.tensormap import TensorMapSpec

GOOD = TensorMapSpec("bf16", 2, (512, 64), (1024,), (64, 32), swizzle="128B")
CUBE = TensorMapSpec("f16", 3, (8, 8, 8), (32, 256), (8, 8, 8))


@pytest.mark.parametrize(
    "spec",
    [
        GOOD,
        CUBE,
        TensorMapSpec("u8", 1, (1 << 32,), (), (256,)),
        TensorMapSpec("f32", 5, (4, 4, 4, 4, 4), (16, 64, 256, 1024), (4, 1, 1, 1, 1)),
        TensorMapSpec("e4m3", 2, (128, 4), ((1 << 40) - 16,), (128, 4), swizzle="128B"),
        TensorMapSpec("f32", 2, (64, 1), (0,), (8, 1), swizzle="32B", oob_fill="nan"),
        replace(CUBE, interleave="32B", swizzle="32B"),
        replace(CUBE, interleave="16B"),
    ],
)
def test_good_maps_pass(spec: TensorMapSpec) -> None:
    spec.validate(4096, "A")


@pytest.mark.parametrize(
    ("spec", "changes", "base", "message"),
    [
        (GOOD, {}, 4104, "a base address that is a multiple of 16 bytes, 0x1008 is 8 past one"),
        (CUBE, {"interleave": "32B", "swizzle": "32B"}, 4112,
         "a base address that is a multiple of 32 bytes, 0x1010 is 16 past one"),
        (GOOD, {"strides_bytes": (1022,)}, 0,
         "strides that are multiples of 16 bytes, stride of dimension 1 is 1022 bytes "
         r"\(1022 % 16 = 14\)\n  hint: pad the rows to 1024 bytes, or use a kernel without TMA"),
        (CUBE, {"interleave": "32B", "swizzle": "32B", "strides_bytes": (48, 256)}, 0,
         r"multiples of 32 bytes, stride of dimension 1 is 48 bytes \(48 % 32 = 16\)"),
        (CUBE, {"strides_bytes": (32, 1 << 40)}, 0,
         r"strides from 0 to 2\^40 - 1 bytes, stride of dimension 2 is 1099511627776 bytes"),
        (GOOD, {"strides_bytes": (-1024,)}, 0, "stride of dimension 1 is -1024 bytes"),
        (GOOD, {"box": (64, 257)}, 0, "box from 1 to 256, box dimension 1 is 257"),
        (GOOD, {"box": (64, 0)}, 0, "box from 1 to 256, box dimension 1 is 0"),
        (GOOD, {"dims": (512, 0)}, 0,
         r"dims from 1 to 4294967296, dimension 1 is 0\n  hint: an empty tensor needs no launch"),
        (GOOD, {"dims": ((1 << 32) + 1, 4)}, 0, "dimension 0 is 4294967297"),
        (GOOD, {"element_strides": (1, 9)}, 0,
         "element_strides from 1 to 8, element stride 1 is 9"),
        (GOOD, {"box": (68, 32)}, 0,
         r"an inner box that is a multiple of 16 bytes, it is 136 bytes \(68 x bf16\)"),
        (GOOD, {"box": (72, 32)}, 0,
         r"an inner box of at most 128 bytes for swizzle 128B, it is 144 bytes \(72 x bf16\)"),
        (GOOD, {"swizzle": "64B"}, 0, "at most 64 bytes for swizzle 64B, it is 128 bytes"),
        (GOOD, {"box": (24, 32), "swizzle": "32B"}, 0, "at most 32 bytes for swizzle 32B"),
        (CUBE, {"interleave": "32B"}, 0, "swizzle 32B with interleave 32B, the swizzle is none"),
        (GOOD, {"interleave": "16B"}, 0, "a rank from 3 to 5, the rank is 2"),
        (GOOD, {"rank": 0}, 0, "a rank from 1 to 5, the rank is 0"),
        (GOOD, {"rank": 6}, 0, "a rank from 1 to 5, the rank is 6"),
        (GOOD, {"dims": (512,)}, 0, "2 dims at rank 2, there are 1"),
        (GOOD, {"strides_bytes": (2, 1024)}, 0, "1 strides_bytes at rank 2, there are 2"),
        (GOOD, {"box": (64, 32, 1)}, 0, "2 box at rank 2, there are 3"),
        (GOOD, {"element_strides": (1,)}, 0, "2 element_strides at rank 2, there are 1"),
        (GOOD, {"dtype_name": "e2m1"}, 0, r"a known element type \(f16, bf16, .*, got 'e2m1'"),
        (GOOD, {"swizzle": "256B"}, 0, r"a known swizzle \(none, 32B, 64B, 128B\), got '256B'"),
        (GOOD, {"interleave": "8B"}, 0, r"a known interleave \(none, 16B, 32B\), got '8B'"),
        (GOOD, {"l2_promotion": "1B"}, 0, r"a known L2 promotion \(none, 64B, 128B, 256B\)"),
        (GOOD, {"oob_fill": "one"}, 0, r"a known out-of-bounds fill \(zero, nan\), got 'one'"),
        (GOOD, {"dtype_name": "u16", "oob_fill": "nan"}, 0,
         "a floating-point type to fill with NaN, the element type is u16"),
    ],
)  # fmt: skip
def test_a_broken_rule_names_operand_need_and_actual(
    spec: TensorMapSpec, changes: dict[str, Any], base: int, message: str
) -> None:
    with pytest.raises(LaunchError, match=f"operand B: TMA needs .*{message}"):
        replace(spec, **changes).validate(base, "B")


def test_box_bytes_are_what_a_load_writes() -> None:
    assert GOOD.box_bytes == 64 * 32 * 2
    assert replace(GOOD, element_strides=(1, 4)).box_bytes == 64 * 8 * 2
    assert GOOD.element_strides == (1, 1)


SETUP = """
from tilewright.errors import TilewrightError
from tilewright.runtime.tensormap import TensorMapSpec, encode
spec = TensorMapSpec("bf16", 3, (512, 64, 2), (1024, 65536), (64, 32, 1), swizzle="128B",
                     l2_promotion="256B")
"""


def test_the_driver_receives_every_field(run_fake: Callable) -> None:
    run = run_fake(
        SETUP + "m = encode(spec, 4096, 'A')\nprint(m.pointer, m.address != 0)\n"
        "encode(TensorMapSpec('e4m3', 1, (64,), (), (16,), l2_promotion='none'), 16)\n"
        "encode(TensorMapSpec('f32', 3, (8, 8, 8), (32, 256), (4, 2, 4), (1, 2, 4), '32B', '32B',"
        " '64B', 'nan'), 32)"
    )
    assert run.output == ["4096 True"]
    assert run.calls == [
        {"call": "encode", "type": 9, "rank": 3, "address": 4096, "dims": [512, 64, 2],
         "strides": [1024, 65536], "box": [64, 32, 1], "steps": [1, 1, 1], "interleave": 0,
         "swizzle": 3, "promotion": 3, "fill": 0},
        {"call": "encode", "type": 0, "rank": 1, "address": 16, "dims": [64], "strides": [],
         "box": [16], "steps": [1], "interleave": 0, "swizzle": 0, "promotion": 0, "fill": 0},
        {"call": "encode", "type": 7, "rank": 3, "address": 32, "dims": [8, 8, 8],
         "strides": [32, 256], "box": [4, 2, 4], "steps": [1, 2, 4], "interleave": 2,
         "swizzle": 1, "promotion": 1, "fill": 1},
    ]  # fmt: skip


def test_maps_are_encoded_once_and_the_cache_is_bounded(run_fake: Callable) -> None:
    run = run_fake(
        SETUP + "a = encode(spec, 4096); b = encode(spec, 4096); c = encode(spec, 8192)\n"
        "print(a is b, a is c, a.address == c.address)\n"
        "for i in range(1000, 2100): encode(spec, 16 * i)\n"
        "print(encode.cache_info().currsize, encode(spec, 4096) is a)"
    )
    assert run.output == ["True False False", "1024 False"]


def test_the_driver_may_still_refuse(run_fake: Callable) -> None:
    script = (
        SETUP + "try:\n    encode(spec, 4096, 'A')\n"
        "except TilewrightError as error:\n    print(error.message)"
    )
    assert run_fake(script, fail="cuTensorMapEncodeTiled=1").output == [
        "cuTensorMapEncodeTiled for operand A failed: CUDA_ERROR_INVALID_VALUE (invalid argument)"
    ]
