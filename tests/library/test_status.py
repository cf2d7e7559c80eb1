"""Statuses, refusals and errors carry the same parts."""

from __future__ import annotations

from tilewright.errors import LaunchError
from tilewright.library.status import (
    ProblemError,
    Refusal,
    Status,
    StatusCode,
    misaligned,
    with_swapped_operands,
)


def test_a_status_is_true_where_it_is_a_success() -> None:
    assert Status()
    assert str(Status()) == "Success"
    failed = Status(StatusCode.INVALID_LAYOUT, "A is strided", "A", "a stride of 1", "none")
    assert not failed
    assert str(failed) == "InvalidLayout: A is strided"


def test_a_status_has_the_parts_of_its_error() -> None:
    error = ProblemError("C is missing", StatusCode.INVALID_PROBLEM, "C", "an array", None)
    assert Status.of(error) == Status(
        StatusCode.INVALID_PROBLEM, "C is missing", "C", "an array", "None"
    )
    assert Status.of(LaunchError("no")) == Status(StatusCode.INVALID_PROBLEM, "no")


def test_a_refusal_is_its_sentence() -> None:
    why = misaligned("B", "TMA", 128, 8, 72)
    assert why == "B needs every row at a multiple of 16 bytes (TMA), got 8 (pitch 72 B)"
    assert (why.code, why.operand) == (StatusCode.MISALIGNED_OPERAND, "B")
    assert (why.needed, why.actual) == ("16 bytes", "8 bytes")
    swapped = with_swapped_operands(why)
    assert (swapped.operand, swapped.needed, swapped.code) == ("A", "16 bytes", why.code)
    assert with_swapped_operands("too big") == "with swapped operands: too big"
    assert Refusal("D is odd").code is StatusCode.NOT_SUPPORTED
