"""`tilewright tile`: check, show, translate, run and compile Tile IR.

`check` ends with 0 if the text is valid and with 3 if it is not, as NVIDIA's own tools do.
"""

from __future__ import annotations

import collections
import difflib
from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright.cli.arguments import value
from tilewright.cli.tile_cache import cache
from tilewright.cli.tile_compile import compile_file
from tilewright.cli.tile_files import (
    EXAMPLES,
    EXIT_ACCEPTED,
    EXIT_REJECTED,
    checked,
    tile_parser,
)
from tilewright.cli.tile_run import run_entry
from tilewright.errors import TilewrightError
from tilewright.ir.core import Block
from tilewright.ir.ops.tile import module
from tilewright.ir.ops.tile.versions import needed_version
from tilewright.ir.tile_attrs import DenseAttr, HintsAttr
from tilewright.tileir.bytecode.encoding import DEFAULT_VERSION, VERSIONS
from tilewright.tileir.bytecode.writer import write_bytecode
from tilewright.tileir.print_attrs import hints_text
from tilewright.tileir.printer import PrintOptions, print_text
from tilewright.tileir.verify import VerifyOptions

_OVERVIEW = """\
usage: tilewright tile <action> FILE [options]     (tilewright tile <action> --help says more)

  check      say whether a file is valid Tile IR: exit 0, or 3 with the fault's place
  show       what is in a file: globals, entries, their operations, the version that they need
  translate  to text in normal form, to MLIR's generic form, or to bytecode
  run        interpret an entry on .npy files and numbers: exit 1 if something is wrong with it
  compile    to a cubin, with NVIDIA's tileiras (the extra `tileiras`)
  cache log  list the cubins that tileiras has made, used last first

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


def _check(words: Sequence[str]) -> int:
    parser = tile_parser("check", "Says whether a file is valid Tile IR.")
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
    report = checked(args, options)
    return EXIT_ACCEPTED if report.accepted else EXIT_REJECTED


def _translate(words: Sequence[str]) -> int:
    parser = tile_parser("translate", "Text or bytecode to text in normal form, or to bytecode.")
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
    report = checked(args, VerifyOptions(args.testing))
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
    parser = tile_parser("show", "Says what is in a file.")
    args = parser.parse(words)
    report = checked(args, VerifyOptions(args.testing))
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
            major, minor = needed_version(block)
            lines.append(f"module @{top.sym_name}, Tile IR {major}.{minor} or later")
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


ACTIONS: dict[str, Callable[[Sequence[str]], int]] = {
    "check": _check,
    "show": _show,
    "translate": _translate,
    "run": run_entry,
    "compile": compile_file,
    "cache": cache,
}
