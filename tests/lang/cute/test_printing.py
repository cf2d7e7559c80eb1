"""printf and print_tensor: formats, and what they refuse."""

import pytest
from traced import kernel

from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.ir.ops.control import Printf
from tilewright.lang.cute.printing import print_tensor, printf
from tilewright.lang.cute.smem import SmemAllocator
from tilewright.lang.cute.tensor import make_identity_tensor, make_rmem_tensor
from tilewright.lang.cute.views import make_composed_layout, make_layout, make_swizzle
from tilewright.lang.values import BFloat16, Float32
from tilewright.layout.layout import Layout


def formats(k) -> list[tuple[str, int]]:
    return [(op.format, len(op.values)) for op in k.all(Printf)]


def test_formats() -> None:
    with kernel() as k:
        i, x, h = k.number("i"), k.number("x", "f32"), k.number("h", "bf16")
        big, u = k.number("b", "i64"), k.number("u", "u32")
        printf("i = %d, x = %f%%\n", i, x)
        printf("{} of {} at {}: {}", i, 3, (x, i), h)
        printf("{} {}", big, u)
        printf(i, 2)
        assert formats(k) == [
            ("i = %d, x = %f%%\n", 2),
            ("%d of 3 at (%f,%d): %f", 4),
            ("%lld %u", 2),
            ("%d 2\n", 1),
        ]
        k.verify()


def test_tensors_print_row_by_row() -> None:
    with kernel() as k:
        r = make_rmem_tensor((3, 2), Float32)
        r.fill(0)
        print_tensor(r)
        assert formats(k) == [("tensor (3,2)\n", 0), ("%f %f %f\n", 3), ("%f %f %f\n", 3)]
        print_tensor(r.load())
        print_tensor(make_identity_tensor((2, 2)))
        assert formats(k)[-1] == ("(0,1) (1,1)\n", 0)
        k.verify()


def test_a_swizzled_tensor_prints() -> None:
    """CASES A11."""
    with kernel() as k:
        layout = make_composed_layout(make_swizzle(3, 3, 3), 0, make_layout((4, 64)))
        print_tensor(SmemAllocator().allocate_tensor(BFloat16, layout), verbose=True)
        assert formats(k)[0][0].startswith("tensor<ptr<bf16, smem")
        assert len(formats(k)) == 65
        k.verify()


def test_wrong_use_is_refused() -> None:
    with kernel() as k:
        i = k.number("i")
        with pytest.raises(TypeMismatchError, match=r"printf: '%d' has 1 conversions for 2 values"):
            printf("%d", i, i)
        with pytest.raises(TypeMismatchError, match=r"printf: '\{\}' has 1 places for 2 values"):
            printf("{}", i, i)
        with pytest.raises(TypeMismatchError, match=r"printf: expected a number, got str"):
            printf("%s", "text")
        with pytest.raises(TypeMismatchError, match=r"33 values, the device prints at most 32"):
            printf("%d" * 33, *([i] * 33))
        with pytest.raises(LayoutError, match=r"print_tensor: 8192 elements, at most 4096"):
            print_tensor(k.gmem("f32", Layout((128, 64))))
        with pytest.raises(LayoutError, match=r"print_tensor: the shape must be known at compile"):
            print_tensor(k.gmem("f32", Layout((k.number("M"), 2), (2, 1))))
