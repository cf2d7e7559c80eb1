"""Why a GEMM cannot run, in parts that a program can read: CUTLASS's status codes.

A kernel's `can_implement` returns a `Refusal` (a sentence with parts), what is called wrongly
raises a `ProblemError`, and the device handles return a `Status`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tilewright.errors import LaunchError


class StatusCode(StrEnum):
    """CUTLASS's `Status`, as far as a GEMM can meet it."""

    SUCCESS = "Success"
    MISALIGNED_OPERAND = "MisalignedOperand"
    INVALID_DATA_TYPE = "InvalidDataType"
    INVALID_LAYOUT = "InvalidLayout"
    INVALID_PROBLEM = "InvalidProblem"
    NOT_SUPPORTED = "NotSupported"
    WORKSPACE_NULL = "WorkspaceNull"
    ARCH_MISMATCH = "ArchMismatch"


class Refusal(str):
    """Why not, as a sentence; and which operand is at fault, what it needs and what it has.

    >>> why = Refusal("A has M contiguous, expected K", StatusCode.INVALID_LAYOUT, "A", "K", "M")
    >>> str(why), why.operand
    ('A has M contiguous, expected K', 'A')
    """

    code: StatusCode
    operand: str
    needed: str
    actual: str

    def __new__(
        cls,
        text: str,
        code: StatusCode = StatusCode.NOT_SUPPORTED,
        operand: str = "",
        needed: str = "",
        actual: str = "",
    ) -> Refusal:
        self = super().__new__(cls, text)
        self.code, self.operand, self.needed, self.actual = code, operand, needed, actual
        return self


def wrong_type(operand: str, has: str, needed: str) -> Refusal:
    """The refusal of an element type; "A" stands for B too, which has the same.

    >>> str(wrong_type("D", "i8", "f16 or bf16"))
    'D is i8, expected f16 or bf16'
    """
    who = "A and B are" if operand == "A" else f"{operand} is"
    text = f"{who} {has}, expected {needed}"
    return Refusal(text, StatusCode.INVALID_DATA_TYPE, operand, needed, has)


def wrong_target(needs: str, least: str, has: str) -> Refusal:
    """The refusal of a target without what a kernel `needs`, which `least` is the first to have.

    >>> str(wrong_target("wgmma (sm_90a)", "sm_90a", "sm_80"))
    'needs wgmma (sm_90a), the target is sm_80'
    """
    text = f"needs {needs}, the target is {has}"
    return Refusal(text, StatusCode.ARCH_MISMATCH, "", least, has)


def misaligned(operand: str, engine: str, bits: int, actual: int, pitch: int) -> Refusal:
    """The refusal of an operand whose rows do not start where `engine` needs them.

    Units: `bits` is what one access moves, `actual` and `pitch` are bytes.
    """
    needed = bits // 8
    return Refusal(
        f"{operand} needs every row at a multiple of {needed} bytes ({engine}), "
        f"got {actual} (pitch {pitch} B)",
        StatusCode.MISALIGNED_OPERAND,
        operand,
        f"{needed} bytes",
        f"{actual} bytes",
    )


def with_swapped_operands(reason: str) -> Refusal:
    """The refusal of D^T = B^T A^T, in the caller's terms: its A is the caller's B.

    >>> why = with_swapped_operands(Refusal("A is misaligned", operand="A"))
    >>> str(why), why.operand
    ('with swapped operands: A is misaligned', 'B')
    """
    text = f"with swapped operands: {reason}"
    if not isinstance(reason, Refusal):
        return Refusal(text)
    operand = {"A": "B", "B": "A"}.get(reason.operand, reason.operand)
    return Refusal(text, reason.code, operand, reason.needed, reason.actual)


class ProblemError(LaunchError):
    """A GEMM that no kernel can run as it was posed; nothing was launched.  The caller must act."""

    def __init__(
        self,
        message: str,
        code: StatusCode = StatusCode.INVALID_PROBLEM,
        operand: str = "",
        needed: object = "",
        actual: object = "",
        *,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.code, self.operand = code, operand
        self.needed, self.actual = str(needed), str(actual)


@dataclass(frozen=True, slots=True)
class Status:
    """Success, or which operand is at fault, what it needs and what it has.

    It is true where it is a success.

    >>> bool(Status()), str(Status(StatusCode.ARCH_MISMATCH, "needs wgmma, the target is sm_80"))
    (True, 'ArchMismatch: needs wgmma, the target is sm_80')
    """

    code: StatusCode = StatusCode.SUCCESS
    message: str = ""
    operand: str = ""
    needed: str = ""
    actual: str = ""

    @classmethod
    def of(cls, error: LaunchError) -> Status:
        """The status that an error stands for."""
        if isinstance(error, ProblemError):
            return cls(error.code, error.message, error.operand, error.needed, error.actual)
        return cls(StatusCode.INVALID_PROBLEM, error.message)

    @property
    def ok(self) -> bool:
        return self.code is StatusCode.SUCCESS

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else str(self.code)
