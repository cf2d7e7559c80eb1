"""The memory that blocks need to share tiles: the caller's, checked, and cleared before use."""

from __future__ import annotations

from typing import Any

from tilewright.library.operands import GemmViews
from tilewright.library.overlap import overlaps
from tilewright.library.status import ProblemError, StatusCode
from tilewright.runtime.arrays import ArrayView, as_array, host_bytes
from tilewright.runtime.driver import clear

ALIGN = 16
"""Bytes: sums are read four at a time."""


def workspace_view(nbytes: int, workspace: Any, views: GemmViews) -> ArrayView | None:
    """The caller's workspace as f32; None where none is needed.

    Raises: ProblemError for one that is missing, too small, not contiguous, misaligned, on another
            device, or part of an operand.
    """
    if nbytes == 0:
        return None
    needed = f"{nbytes:,} bytes"
    if workspace is None:
        raise _refused(needed, "none", StatusCode.WORKSPACE_NULL)
    if isinstance(workspace, int):
        whole = ArrayView(workspace, (nbytes // 4,), (1,), "f32", 32, views.device)
    else:
        whole = _whole(as_array(workspace, "workspace"), nbytes)
    if whole.device != views.device:
        raise _refused(f"memory on {views.device}", f"memory on {whole.device}")
    if whole.pointer % ALIGN:
        actual = f"{whole.pointer % ALIGN} past one"
        raise _refused(
            f"an address at a multiple of {ALIGN}", actual, StatusCode.MISALIGNED_OPERAND
        )
    named = {"A": views.a, "B": views.b, "C": views.c, "D": views.d, "the bias": views.bias}
    for name, view in named.items():
        if view is not None and overlaps(whole, view):
            raise _refused("memory of its own", f"memory of {name}")
    return whole


def _whole(view: ArrayView, nbytes: int) -> ArrayView:
    has = view.size * view.element_bits // 8
    if has < nbytes:
        raise _refused(f"{nbytes:,} bytes", f"{has:,} bytes")
    reached = 1
    for extent, stride in zip(view.shape[::-1], view.strides[::-1], strict=True):
        if extent != 1 and stride != reached:
            raise _refused("a contiguous array", f"strides {view.strides}")
        reached *= extent
    if view.readonly:
        raise _refused("writable memory", "a read-only array")
    return ArrayView(view.pointer, (nbytes // 4,), (1,), "f32", 32, view.device, owner=view)


def _refused(
    needed: str, actual: str, code: StatusCode = StatusCode.INVALID_PROBLEM
) -> ProblemError:
    return ProblemError(
        f"workspace: needs {needed}, got {actual}",
        code,
        "workspace",
        needed,
        actual,
        hint="get_workspace_size(arguments) says how many bytes are needed",
    )


def clear_workspace(whole: ArrayView, stream: int) -> None:
    """Sets it to zero: sums that are added up in place, and counters, start there."""
    if whole.device == "cpu":
        host_bytes(whole)[0][:] = 0
    else:
        clear(whole.pointer, whole.size * 4, stream)
