"""Reads and verifies a text, and reports what it found in lines for a person."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.errors import Loc, VerifyError
from tilewright.ir.core import Block
from tilewright.tileir.bytecode.reader import read_bytecode
from tilewright.tileir.reader import parse
from tilewright.tileir.source import Source
from tilewright.tileir.verify import DEFAULT, VerifyOptions, bytecode_fault, verify


@dataclass(frozen=True, slots=True)
class Report:
    """`block` is None where the text was refused; `diagnostics` are ready to print."""

    block: Block | None
    diagnostics: tuple[str, ...]

    @property
    def accepted(self) -> bool:
        return self.block is not None


def check_text(text: str, name: str = "<text>", options: VerifyOptions = DEFAULT) -> Report:
    """Whether a text is valid Tile IR.

    >>> report = check_text("cuda_tile.module @m { entry @k(%a: tile<2xf32>) { } }", "m.mlir")
    >>> print(*report.diagnostics, sep=chr(10))
    m.mlir:1:23: error: 'cuda_tile.entry' op entry op must have scalar types (rank 0 tile)
      1 | cuda_tile.module @m { entry @k(%a: tile<2xf32>) { } }
        |                       ^
    """
    source = Source(text, name)
    try:
        block = parse(text, name)
    except VerifyError as error:
        return Report(None, (error.message,))
    try:
        warnings = verify(block, options)
    except VerifyError as error:
        return Report(None, (located(source, error.message, error.loc),))
    if (fault := bytecode_fault(block)) is not None:
        warnings.append(fault)
    lines = [located(source, w.message, w.loc, "warning") for w in warnings]
    return Report(block, tuple(lines))


def check_bytecode(
    data: bytes, name: str = "<bytecode>", options: VerifyOptions = DEFAULT
) -> Report:
    """Whether bytecode is valid Tile IR.

    >>> check_bytecode(b"\\x7fELF", "a.out").diagnostics
    ('a.out: byte 0: error: not Tile IR bytecode: the magic number is missing',)
    """
    try:
        block = read_bytecode(data, name)
        version = max(options.version, (data[8], data[9]))
        warnings = verify(block, replace(options, version=version))
    except VerifyError as error:
        at_byte = error.message.startswith(f"{name}: byte ")
        return Report(None, (error.message if at_byte else f"{name}: error: {error.message}",))
    return Report(block, tuple(f"{name}: warning: {w.message}" for w in warnings))


def located(source: Source, message: str, loc: Loc | None, severity: str = "error") -> str:
    """A message at an operation's place in the text."""
    if loc is None:
        return f"{source.name}: {severity}: {message}"
    return source.report(loc.line, loc.col + 1, message, severity)


def load_text(text: str, name: str = "<text>", options: VerifyOptions = DEFAULT) -> Block:
    """The verified operations of a text.

    Raises: VerifyError with the first fault, its place, line and caret.
    """
    report = check_text(text, name, options)
    if report.block is None:
        raise VerifyError(report.diagnostics[0])
    return report.block
