"""The machine code inside a cubin, as a list of instructions: what tests and `explain` look at."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.errors import ToolchainError
from tilewright.runtime import cuda_api


@dataclass(frozen=True, slots=True)
class Instruction:
    """One SASS instruction: `@!P0 STG.E desc[UR6][R2.64],R5` of some kernel.

    `predicate` is empty for an unconditional instruction; `address` is its byte offset.
    """

    kernel: str
    address: int
    opcode: str
    operands: str = ""
    predicate: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.predicate, self.opcode, self.operands) if part)


# Every architecture since Volta encodes an instruction in 128 bits.
_INSTRUCTION_BYTES = 16


def disassemble(cubin: bytes) -> list[Instruction]:
    """Every instruction of every kernel, in the order of the code.

    Raises: ToolchainError if nvdisasm is missing or cannot read the cubin.
    """
    text = _nvdisasm(cubin, "-json")
    # The document is [facts about the ELF, [one object per function, ...]].
    functions: list[dict[str, Any]] = json.loads(text)[1]
    return [
        Instruction(
            kernel=function["function-name"],
            address=function["start"] + index * _INSTRUCTION_BYTES,
            opcode=row["opcode"],
            operands=row.get("operands", ""),
            predicate=row.get("predicate", ""),
        )
        for function in functions
        for index, row in enumerate(function["sass-instructions"])
    ]


def opcode_counts(cubin: bytes, kernel: str | None = None) -> Counter[str]:
    """Opcode with its modifiers -> how often it occurs, in one kernel or in all.

    Absent opcodes count 0, so `opcode_counts(cubin)["STL"]` asks for spills.
    """
    return Counter(
        row.opcode for row in disassemble(cubin) if kernel is None or row.kernel == kernel
    )


def sass_text(cubin: bytes, with_lines: bool = True) -> str:
    """nvdisasm's own listing; `with_lines` puts the Python file and line above each group."""
    return _nvdisasm(cubin, *(["-g"] if with_lines else []), "-c")


def _nvdisasm(cubin: bytes, *flags: str) -> str:
    tool = cuda_api.find_nvdisasm()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        done = subprocess.run([tool, *flags, path], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise ToolchainError(
            f"nvdisasm cannot read this cubin of {len(cubin)} bytes: "
            f"{said[0].strip() if said else f'exit status {done.returncode}'}",
            details={"command": " ".join([str(tool), *flags])},
        )
    return done.stdout
