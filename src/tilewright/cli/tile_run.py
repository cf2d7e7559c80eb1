"""`tilewright tile run`: an entry on arrays and numbers, in this process, without a GPU.

Exit status: 0 done, 1 something is wrong with the kernel (its findings are printed), 3 the file is
not valid Tile IR.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.cli.arguments import Parser, value
from tilewright.cli.tile_files import EXIT_ACCEPTED, EXIT_REJECTED, checked, tile_parser
from tilewright.errors import DTypeError, TilewrightError
from tilewright.ir.core import Value
from tilewright.ir.ops.tile.base import tile_type
from tilewright.ir.tile_types import NUMBERS, PointerType
from tilewright.numeric.convert import bits_to_storage, storage_dtype
from tilewright.numeric.dtypes import DType, dtype
from tilewright.numeric.encode import encode
from tilewright.numeric.packing import to_bytes
from tilewright.tileir.interpret.machine import Options, compile_entry
from tilewright.tileir.interpret.values import pointee_row
from tilewright.tileir.verify import VerifyOptions

EXIT_WRONG = 1
_ARRAY = re.compile(r"(?P<element>\w+)\[(?P<shape>[\d,x ]*)\](?:=(?P<fill>.+))?")


def _parser() -> Parser:
    parser = tile_parser("run", "Interprets one entry on every block of a grid.")
    parser.add_argument("--entry", default="", metavar="NAME", help="not needed if there is one")
    parser.add_argument(
        "--grid",
        type=value(_grid, "--grid"),
        default=(1, 1, 1),
        metavar="X,Y,Z",
        help="tile blocks (default: 1,1,1)",
    )
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="VALUE",
        help="one per parameter, in order: a number; FILE.npy; or an array f32[4,8], of zeros, "
        "f32[8]=1.5 or f32[8]=iota",
    )
    parser.add_argument(
        "--out",
        action="append",
        default=[],
        metavar="ARG=FILE.npy",
        help="write an array afterwards; ARG is a parameter's name or number, from 0",
    )
    parser.add_argument(
        "--adversarial",
        action="store_true",
        help="run what no token orders in another legal order, and blocks too; implies "
        "--check-tokens",
    )
    parser.add_argument("--seed", type=int, default=0, help="which order (default: 0)")
    parser.add_argument(
        "--check-tokens",
        action="store_true",
        help="report accesses to the same bytes, one a write, that no token orders",
    )
    return parser


def run_entry(words: Sequence[str]) -> int:
    """The action."""
    args = _parser().parse(words)
    report = checked(args, VerifyOptions(args.testing))
    if report.block is None:
        return EXIT_REJECTED
    options = Options(
        adversarial=args.adversarial,
        seed=args.seed,
        check_tokens=args.check_tokens,
        raise_on_findings=False,
        echo=lambda text: print(text, end=""),
    )
    program = compile_entry(report.block, args.entry, options)
    parameters = program.parameters
    if len(args.arg) != len(parameters):
        listed = ", ".join(f"%{p.name or i}: {p.type}" for i, p in enumerate(parameters))
        raise TilewrightError(
            f"tile run: {len(args.arg)} --arg, expected {len(parameters)}, in order: {listed}"
        )
    given = [_argument(text, p) for text, p in zip(args.arg, parameters, strict=True)]
    outputs = [_output(text, parameters, given) for text in args.out]
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
    result = program.run(args.grid, given)
    for finding in result.findings:
        print(finding, file=sys.stderr)
    for array, path in outputs:
        _save(array, path)
    if not outputs:
        _show_changes(parameters, before, given)
    found = f"{len(result.findings)} findings" if result.findings else "no findings"
    print(f"{program.name}: {result.blocks} blocks, {found}")
    return EXIT_WRONG if result.findings else EXIT_ACCEPTED


def _grid(text: str, flag: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) > 3 or not all(p.strip().isdigit() and int(p) > 0 for p in parts):
        raise TilewrightError(f"{flag}: {text!r}, expected one to three sizes from 1, as in 8,4,1")
    sizes = [int(p) for p in parts]
    return tuple(sizes + [1] * (3 - len(sizes)))


def _argument(text: str, parameter: Value) -> Any:
    """A number or an array, for a parameter."""
    if match := _ARRAY.fullmatch(text.strip()):
        return _made(text, match)
    if text.endswith(".npy"):
        return _loaded(text, parameter)
    if isinstance(tile_type(parameter.type).element, PointerType):
        raise TilewrightError(
            f"--arg: {text!r}, expected an array for %{parameter.name}: {parameter.type}",
            hint="name a .npy file, or write f32[4,8] for an array of zeros",
        )
    words = {"true": True, "false": False}
    for read in (lambda t: words[t.lower()], lambda t: int(t, 0), float):
        try:
            return read(text)
        except (KeyError, ValueError):
            continue
    raise TilewrightError(
        f"--arg: {text!r}, expected a number, true, false, FILE.npy or f32[4,8] for "
        f"%{parameter.name}: {parameter.type}"
    )


def _made(text: str, match: re.Match[str]) -> Any:
    """The array that `f32[4,8]=1.5` stands for; bytes, of 4-bit elements."""
    name = match["element"]
    try:
        row = NUMBERS[name].row if name in NUMBERS else dtype(name)
    except DTypeError as error:
        raise TilewrightError(f"--arg: {text!r}: {error.message}") from None
    shape = tuple(int(n) for n in re.split(r"[,x ]+", match["shape"].strip()) if n)
    count = int(np.prod(shape, dtype=np.int64))
    fill = (match["fill"] or "0").strip()
    try:
        values = np.arange(count) if fill == "iota" else np.full(count, float(fill))
    except ValueError:
        raise TilewrightError(f"--arg: {text!r}: {fill!r} is neither a number nor iota") from None
    if not row.is_float:
        values = values.astype(np.int64)
    elements = _elements(values, row)
    return to_bytes(elements, row) if row.bits == 4 else elements.reshape(shape)


def _elements(values: Any, row: DType) -> Any:
    # A scale without a mantissa rounds in one of two directions only.
    rounding = "rz" if row.is_float and not row.mantissa_bits else "rn"
    return bits_to_storage(encode(values, row, rounding), row)  # type: ignore[arg-type]


def _loaded(path: str, parameter: Value) -> Any:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TilewrightError(f"--arg: cannot read {path}: {reason}") from None
    element = tile_type(parameter.type).element
    if array.dtype.kind == "V" and isinstance(element, PointerType):
        # NumPy's file format forgets the names of types that are not its own.
        wanted = storage_dtype(pointee_row(parameter.type))
        if wanted.itemsize == array.dtype.itemsize:
            array = array.view(wanted)
    return array


def _output(text: str, parameters: Sequence[Value], given: Sequence[Any]) -> tuple[Any, Path]:
    name, equals, path = text.partition("=")
    names = [p.name for p in parameters]
    if name in names:
        number = names.index(name)
    elif name.isdigit() and int(name) < len(given):
        number = int(name)
    else:
        shown = ", ".join(n or str(i) for i, n in enumerate(names))
        raise TilewrightError(f"--out: {text!r}, expected ARG=FILE.npy with ARG one of {shown}")
    if not equals or not path.endswith(".npy"):
        raise TilewrightError(f"--out: {text!r}, expected a file name that ends in .npy")
    if not isinstance(given[number], np.ndarray):
        raise TilewrightError(f"--out: {text!r}: argument {name} is a number, expected an array")
    return given[number], Path(path)


def _save(array: Any, path: Path) -> None:
    try:
        np.save(path, array)
    except OSError as error:
        raise TilewrightError(f"--out: cannot write {path}: {error.strerror}") from None


def _show_changes(parameters: Sequence[Value], before: Sequence[Any], after: Sequence[Any]) -> None:
    """The arrays that the run has changed, in short."""
    for i, (p, old, new) in enumerate(zip(parameters, before, after, strict=True)):
        if isinstance(new, np.ndarray) and new.tobytes() != old.tobytes():
            text = np.array2string(new, threshold=64, edgeitems=3, prefix="  ")
            print(f"%{p.name or i}: {new.dtype} {new.shape}\n  {text}")
