"""Element types that only rows know."""

import pytest

from tilewright.arch.element import C64, E2M3, E3M2, U1, RawElement
from tilewright.numeric.dtypes import ALL_DTYPES


def test_they_are_no_types_of_the_language() -> None:
    names = {dtype.name for dtype in ALL_DTYPES}
    for element in (U1, E3M2, E2M3, C64):
        assert element.name not in names
        assert str(element) == element.name


def test_equal_by_name_and_width() -> None:
    assert RawElement("u1", 1) == U1
    with pytest.raises(AttributeError):
        U1.bits = 2  # type: ignore[misc]
