"""What NVRTC and ptxas say in a compilation log, as values.

The front end cites the file and line of the `#line` directives, that is the user's Python.
ptxas cites lines of the PTX it was given; `ptx_place` leads from there to the Python line through
the `.loc` marks that `-lineinfo` leaves in the PTX.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright.errors import Loc


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What ptxas spent on one kernel entry.

    Units:  registers per thread; spills and stack in bytes per thread; static shared memory in
            bytes per block.  Spills of functions that ptxas did not inline are added in.
    """

    registers: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    smem_bytes: int = 0
    stack_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message of the compiler, with the source place it points at, if it names one."""

    text: str
    code: str = ""
    file: str = ""
    line: int = 0

    def loc(self) -> Loc | None:
        """The place as an error location; None where the compiler named none."""
        return Loc(self.file, self.line) if self.file else None


_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SMEM = re.compile(r"(\d+) bytes smem")
_CODED = re.compile(r"\((C7\d{3})\)\s*(.*)")
_AROUND = re.compile(r"\bline (\d+)")
_FRONT_END = re.compile(r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<text>(?:catastrophic )?error.*)$")
_PTX_ERROR = re.compile(r"^ptxas .*\bline (?P<line>\d+);\s*(?:error|fatal)\s*:\s*(?P<text>.*)$")
_OTHER_ERROR = re.compile(r"^(?:nvrtc|ptxas)\b.*?\b(?:error|fatal)\s*:\s*(?P<text>.*)$")
_PTX_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_PTX_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")


def parse_resources(log: str) -> dict[str, KernelResources]:
    """Kernel entry -> what it uses, read from the lines of `--ptxas-options=-v`.

    >>> parse_resources('''ptxas info    : Compiling entry function 'add' for 'sm_90a'
    ... ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
    ... ptxas info    : Used 10 registers, used 1 barriers, 128 bytes smem''')["add"].smem_bytes
    128
    """
    table: dict[str, KernelResources] = {}
    entry = ""
    for line in log.splitlines():
        if found := _ENTRY.search(line):
            entry = found[1]
            table[entry] = KernelResources()
        elif not entry:
            continue
        elif found := _STACK.search(line):
            had = table[entry]
            table[entry] = replace(
                had,
                stack_bytes=max(had.stack_bytes, int(found[1])),
                spill_stores=had.spill_stores + int(found[2]),
                spill_loads=had.spill_loads + int(found[3]),
            )
        elif found := _USED.search(line):
            smem = _SMEM.search(line)
            table[entry] = replace(
                table[entry], registers=int(found[1]), smem_bytes=int(smem[1]) if smem else 0
            )
    return table


def parse_warnings(log: str, ptx: str = "") -> tuple[Diagnostic, ...]:
    """The coded remarks of ptxas (`C7508`, `C7510`, ...), each once, in the log's order.

    >>> parse_warnings("ptxas info : (C7508) 'setmaxnreg' ignored.")
    (Diagnostic(text="'setmaxnreg' ignored.", code='C7508', file='', line=0),)
    """
    found: dict[Diagnostic, None] = {}
    for code, text in _CODED.findall(log):
        around = _AROUND.search(text)
        file, line = ptx_place(ptx, int(around[1])) if around else ("", 0)
        found.setdefault(Diagnostic(text.strip(), code, file, line))
    return tuple(found)


def parse_errors(log: str, ptx: str = "") -> tuple[Diagnostic, ...]:
    """The errors of a failed compilation; the first is the one to show.

    >>> parse_errors('gemm.py(41): error: identifier "x" is undefined')[0]
    Diagnostic(text='error: identifier "x" is undefined', code='', file='gemm.py', line=41)
    """
    found: list[Diagnostic] = []
    for row in map(str.strip, log.splitlines()):
        if match := _FRONT_END.match(row):
            found.append(Diagnostic(match["text"], "", match["file"], int(match["line"])))
        elif match := _PTX_ERROR.match(row):
            file, line = ptx_place(ptx, int(match["line"]))
            found.append(Diagnostic(f"ptxas: {match['text']}", "", file, line))
        elif match := _OTHER_ERROR.match(row):
            found.append(Diagnostic(match["text"]))
    return tuple(found)


def ptx_place(ptx: str, line: int) -> tuple[str, int]:
    """(file, line) of the source that PTX line `line` (from 1) came from; ("", 0) if unmarked.

    >>> ptx_place('.loc 1 7 0\\nadd.f32 a, b, c;\\n.file 1 "gemm.py"', 2)
    ('gemm.py', 7)
    """
    files: Mapping[str, str] = dict(_PTX_FILE.findall(ptx))
    for row in reversed(ptx.splitlines()[:line]):
        if mark := _PTX_LOC.match(row):
            return files.get(mark[1], ""), int(mark[2])
    return "", 0
