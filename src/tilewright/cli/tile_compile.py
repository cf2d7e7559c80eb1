"""`tilewright tile compile`: Tile IR to a cubin, with NVIDIA's tileiras."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tilewright.cli.tile_files import (
    EXIT_ACCEPTED,
    EXIT_REJECTED,
    checked,
    tile_parser,
)
from tilewright.errors import Loc, TilewrightError, ToolchainError
from tilewright.ir.core import Block
from tilewright.ir.ops.tile.versions import needed_version
from tilewright.runtime.tileiras import compile_tile
from tilewright.tileir.bytecode.encoding import DEFAULT_VERSION
from tilewright.tileir.bytecode.writer import write_bytecode
from tilewright.tileir.interpret.findings import place_of
from tilewright.tileir.verify import VerifyOptions

_EXAMPLE = "tilewright tile compile examples/vector_add.mlir --arch=sm_90 -o vector_add.cubin"


def compile_file(words: Sequence[str]) -> int:
    """The action."""
    parser = tile_parser("compile", "Compiles with tileiras; no GPU is needed.", [_EXAMPLE])
    parser.add_argument("--arch", required=True, metavar="sm_NN", help="such as sm_90")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the cubin")
    parser.add_argument(
        "--opt-level", type=int, choices=range(4), default=3, help="0 to 3 (default: 3)"
    )
    args = parser.parse(words)
    report = checked(args, VerifyOptions(args.testing))
    if report.block is None:
        return EXIT_REJECTED
    data = write_bytecode(report.block, max(DEFAULT_VERSION, needed_version(report.block)))
    name = "stdin" if args.file == "-" else Path(args.file).stem
    try:
        compiled, hit = compile_tile(data, name, args.arch, opt_level=args.opt_level)
    except ToolchainError as error:
        error.loc = error.loc or blamed(report.block, error.message)
        raise
    try:
        Path(args.output).write_bytes(compiled.cubin)
    except OSError as error:
        raise TilewrightError(f"tile: cannot write {args.output}: {error.strerror}") from None
    how = "from the cache" if hit else f"{compiled.seconds:.1f} s"
    print(
        f"{args.output}: {len(compiled.cubin):,} bytes for {args.arch}, "
        f"{compiled.nvrtc_version}, {how}"
    )
    return EXIT_ACCEPTED


def blamed(block: Block, message: str) -> Loc | None:
    """The place of the first operation that has what a message quotes: its name, or a type."""
    quoted = [word.rpartition("!cuda_tile.")[2] for word in re.findall(r"'([^']+)'", message)]
    types = [re.compile(rf"(?:^|[<x ]){re.escape(word)}(?!\w)") for word in quoted]
    for op in block.walk():
        if op.name in quoted or any(t.search(str(v.type)) for t in types for v in op.results):
            return place_of(op)
    return None
