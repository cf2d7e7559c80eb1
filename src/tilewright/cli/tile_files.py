"""What the actions of `tilewright tile` share: their parser, and a file read and verified."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.cli.arguments import Parser
from tilewright.errors import TilewrightError
from tilewright.tileir.bytecode.encoding import MAGIC
from tilewright.tileir.check import Report, check_bytecode, check_text
from tilewright.tileir.verify import VerifyOptions

EXIT_ACCEPTED, EXIT_REJECTED = 0, 3

EXAMPLES = (
    "tilewright tile check examples/vector_add.mlir",
    "tilewright tile show examples/vector_add.mlir",
    "tilewright tile translate examples/vector_add.mlir --generic",
    "tilewright tile run examples/vector_add.mlir --grid=3 --arg=f32[20]=iota --arg=f32[20]=0.5 "
    "--arg=f32[20] --arg=20",
)


def tile_parser(action: str, description: str, more_examples: Sequence[str] = ()) -> Parser:
    """The parser of an action, with its file."""
    examples = [example for example in EXAMPLES if f" {action} " in example]
    parser = Parser(f"tile {action}", description, [*examples, *more_examples])
    parser.add_argument(
        "file", metavar="FILE", help="Tile IR text or bytecode, - for standard input"
    )
    parser.add_argument(
        "--testing", action="store_true", help="admit testing$func, which only NVIDIA's tests use"
    )
    return parser


def _read(path: str) -> tuple[bytes, str]:
    """The bytes of a file and its name in diagnostics."""
    if path == "-":
        return sys.stdin.buffer.read(), "<stdin>"
    try:
        return Path(path).read_bytes(), path
    except OSError as error:
        raise TilewrightError(f"tile: cannot read {path}: {error.strerror}") from None


def checked(args: argparse.Namespace, options: VerifyOptions) -> Report:
    """What is in the file, text or bytecode; its diagnostics are printed."""
    data, name = _read(args.file)
    if data.startswith(MAGIC):
        report = check_bytecode(data, name, options)
    else:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise TilewrightError(
                f"tile: {name} is neither bytecode nor UTF-8 text: byte {data[error.start]:#04x} "
                f"at {error.start}"
            ) from None
        report = check_text(text, name, options)
    for line in report.diagnostics:
        print(line, file=sys.stderr)
    return report
