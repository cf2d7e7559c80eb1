"""`tilewright tile`: check, show and translate Tile IR.

`check` ends with 0 if the text is valid and with 3 if it is not, as NVIDIA's own tools do.
"""

from __future__ import annotations

import argparse
import collections
import difflib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright.cli.arguments import Parser, value
from tilewright.errors import TilewrightError
from tilewright.ir.core import Block
from tilewright.ir.ops.tile import module
from tilewright.ir.ops.tile.base import TileOp
from tilewright.ir.tile_attrs import DenseAttr, HintsAttr
from tilewright.tileir.bytecode.encoding import DEFAULT_VERSION, MAGIC, VERSIONS
from tilewright.tileir.bytecode.writer import write_bytecode
from tilewright.tileir.check import Report, check_bytecode, check_text
from tilewright.tileir.print_attrs import hints_text
from tilewright.tileir.printer import PrintOptions, print_text
from tilewright.tileir.verify import VerifyOptions

EXIT_ACCEPTED, EXIT_REJECTED = 0, 3

EXAMPLES = (
    "tilewright tile check examples/vector_add.mlir",
    "tilewright tile show examples/vector_add.mlir",
    "tilewright tile translate examples/vector_add.mlir --generic",
)
_OVERVIEW = """\
usage: tilewright tile <action> FILE [options]     (tilewright tile <action> --help says more)

  check      say whether a file is valid Tile IR: exit 0, or 3 with the fault's place
  show       what is in a file: globals, entries, their operations, the version that they need
  translate  to text in normal form, to MLIR's generic form, or to bytecode

FILE is text or bytecode; - is standard input.

examples:
"""


def run(words: Sequence[str]) -> int:
    """The verb.  `--help` prints and raises SystemExit(0), as argparse does."""
    if not words or words[0] in ("-h", "--help"):
        print(_OVERVIEW + "\n".join(f"  {example}" for example in EXAMPLES))
        if words:
            raise SystemExit(EXIT_ACCEPTED)
        return EXIT_ACCEPTED
    action = words[0]
    if action not in ACTIONS:
        near = difflib.get_close_matches(action, ACTIONS, n=1)
        raise TilewrightError(
            f"tile: {action!r} is not an action, expected one of {', '.join(ACTIONS)}",
            hint=f"did you mean `tilewright tile {near[0]}`?" if near else "",
        )
    return ACTIONS[action](words[1:])


def _parser(action: str, description: str) -> Parser:
    examples = [example for example in EXAMPLES if f" {action} " in example]
    parser = Parser(f"tile {action}", description, examples)
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


def _checked(args: argparse.Namespace, options: VerifyOptions) -> Report:
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


def _check(words: Sequence[str]) -> int:
    parser = _parser("check", "Says whether a file is valid Tile IR.")
    parser.add_argument(
        "-Wunsupported-hints",
        dest="warn_hints",
        action="store_true",
        help="warn of optimization hints that no target knows",
    )
    parser.add_argument(
        "-Werr-hints", dest="error_hints", action="store_true", help="and refuse them"
    )
    args = parser.parse(words)
    options = VerifyOptions(args.testing, args.warn_hints, args.error_hints)
    report = _checked(args, options)
    return EXIT_ACCEPTED if report.accepted else EXIT_REJECTED


def _translate(words: Sequence[str]) -> int:
    parser = _parser("translate", "Text or bytecode to text in normal form, or to bytecode.")
    parser.add_argument("--bytecode", action="store_true", help="to bytecode; needs -o")
    parser.add_argument(
        "--version",
        metavar="13.x",
        type=value(_version_of, "--version"),
        default=DEFAULT_VERSION,
        help="the bytecode's version (default: 13.3)",
    )
    parser.add_argument("--generic", action="store_true", help="in MLIR's generic form")
    parser.add_argument("--prefix", action="store_true", help="with cuda_tile. before every name")
    parser.add_argument("--locations", action="store_true", help="with locations and debug info")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there, not to the screen")
    args = parser.parse(words)
    if args.bytecode and args.output is None:
        raise TilewrightError("tile translate: --bytecode needs -o, the file to write")
    report = _checked(args, VerifyOptions(args.testing))
    if report.block is None:
        return EXIT_REJECTED
    if args.bytecode:
        data = write_bytecode(report.block, args.version)
    else:
        options = PrintOptions(args.generic, args.locations, args.prefix)
        data = print_text(report.block, options).encode()
    if args.output is None:
        print(data.decode(), end="")
        return EXIT_ACCEPTED
    try:
        Path(args.output).write_bytes(data)
    except OSError as error:
        raise TilewrightError(f"tile: cannot write {args.output}: {error.strerror}") from None
    return EXIT_ACCEPTED


def _version_of(text: str, flag: str) -> tuple[int, int]:
    known = {f"{major}.{minor}": (major, minor) for major, minor in VERSIONS}
    if text not in known:
        raise TilewrightError(f"{flag}: {text!r}, expected one of {', '.join(known)}")
    return known[text]


def _show(words: Sequence[str]) -> int:
    parser = _parser("show", "Says what is in a file.")
    args = parser.parse(words)
    report = _checked(args, VerifyOptions(args.testing))
    if report.block is None:
        return EXIT_REJECTED
    for line in summary(report.block):
        print(line)
    return EXIT_ACCEPTED


def summary(block: Block) -> list[str]:
    """What `show` prints: per module its globals and entries, per entry its operations."""
    lines: list[str] = []
    for top in block.ops:
        if isinstance(top, module.Module):
            lines.append(f"module @{top.sym_name}, Tile IR {_version(top.body)} or later")
            inner = top.body.ops
        else:
            inner = [top]
        for op in inner:
            if isinstance(op, module.Global):
                value = op.value
                assert isinstance(value, DenseAttr), "the attribute is declared dense"
                lines.append(f"  global @{op.sym_name}: {value.type}")
            elif isinstance(op, module.Entry | module.TestingFunc):
                lines += _entry(op)
    return lines


def _entry(op: module.Entry | module.TestingFunc) -> list[str]:
    arguments = ", ".join(f"%{v.name or i}: {v.type}" for i, v in enumerate(op.body.args))
    lines = [f"  {op.mnemonic} @{op.sym_name}({arguments})"]
    hints = op.attrs.get("optimization_hints")
    if isinstance(hints, HintsAttr) and hints.by_arch:
        lines.append(f"    hints: {hints_text(hints)}")
    counts = collections.Counter(inner.name.partition(".")[2] for inner in op.body.walk())
    shown = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    lines.append(f"    {counts.total()} operations: {shown}")
    return lines


def _version(block: Block) -> str:
    since = [op.since for op in block.walk() if isinstance(op, TileOp)]
    major, minor = max(since, default=(13, 1))
    return f"{major}.{minor}"


ACTIONS: dict[str, Callable[[Sequence[str]], int]] = {
    "check": _check,
    "show": _show,
    "translate": _translate,
}
