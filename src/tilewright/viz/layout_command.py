"""The verb `layout`: print, explain, compose, draw layouts from a command line.

For `cli`: make an ``argparse.ArgumentParser``, call ``add_arguments(parser)``, parse, then call
``run(arguments)``, whose result is the exit status.  Bad input raises `LayoutError`, which `cli`
prints.  ``EXAMPLES`` and ``DESCRIPTION`` are for the parser's help.

    tilewright layout "((2,2),2):((1,4),2)"          what it is, and its table
    tilewright layout compose A B                    A o B, step by step
    tilewright layout divide A T --form zipped       also product, with six forms
    tilewright layout complement A N                 also inverse A --form left
    tilewright layout swizzle 3,4,3 A
    tilewright layout banks A --threads T --bytes N  conflicts, and the smallest swizzle without
    tilewright layout draw A [--tile 16x8]           with a tile, A is a thread-value layout
    tilewright layout atom NAME                      who holds what
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilewright.arch.copy.atom import CopyAtom
from tilewright.arch.copy.registry import every_copy_atom
from tilewright.arch.mma.atom import MmaAtom
from tilewright.arch.mma.registry import every_mma_atom, mma_atom
from tilewright.errors import LayoutError
from tilewright.layout.analysis import (
    Access,
    bank_conflicts,
    coalescing,
    lane_addresses,
)
from tilewright.layout.coverage import coverage
from tilewright.layout.layout import Layout
from tilewright.layout.modes import size
from tilewright.layout.swizzle import AnyLayout
from tilewright.layout.swizzle_search import smallest_swizzle
from tilewright.layout.text import read_layout, read_swizzle, read_tiler
from tilewright.viz.atom_pictures import draw_atom, operand_place
from tilewright.viz.derive import (
    DIVIDES,
    INVERSES,
    PRODUCTS,
    Derivation,
    derive_complement,
    derive_composition,
    derive_divide,
    derive_inverse,
    derive_product,
    derive_swizzle,
)
from tilewright.viz.drawing import Drawing
from tilewright.viz.explain import explain, layout_facts, outermost
from tilewright.viz.explorer_page import write_explorer
from tilewright.viz.pictures import draw, draw_banks, draw_tv

DESCRIPTION = "Print, explain, compose and draw layouts, swizzles and atoms."
EXAMPLES: tuple[str, ...] = (
    'tilewright layout "((2,2),2):((1,4),2)"',
    'tilewright layout compose "(6,2):(8,2)" "(4,3):(3,1)"',
    'tilewright layout divide "(12,32)" "(4,8)" --form zipped',
    'tilewright layout banks "(8,64):(64,1)" --threads 8 --bytes 16 --element-bits 16',
    "tilewright layout atom SM80_16x8x16_F32BF16BF16F32_TN --svg atom.svg",
    "tilewright layout --explore explorer.html",
)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a verb has to say: in words, as JSON, and as a picture."""

    words: str
    values: dict[str, Any]
    drawing: Drawing | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="LAYOUT | VERB ...",
        help="a layout, or one of " + ", ".join(f"{v.name} {v.operands}" for v in _VERBS.values()),
    )
    forms = sorted({*DIVIDES, *PRODUCTS, *INVERSES})
    parser.add_argument("--form", metavar="FORM", help=f"of a {', '.join(forms)} operation")
    parser.add_argument(
        "--threads", metavar="T", help="lane -> coordinate, a layout or a number (default: 32)"
    )
    parser.add_argument(
        "--bytes", metavar="N", type=int, default=4, help="bytes that a lane accesses (default: 4)"
    )
    parser.add_argument(
        "--element-bits", metavar="N", type=int, help="bits of an element (default: 32, or fewer)"
    )
    parser.add_argument("--tile", metavar="MxN", help="draw a thread-value layout over a tile")
    parser.add_argument("--svg", metavar="FILE", help="write the picture as SVG (-: print it)")
    parser.add_argument(
        "--latex",
        metavar="FILE",
        nargs="?",
        const="-",
        help="write the picture as LaTeX (without FILE: print it)",
    )
    parser.add_argument("--json", action="store_true", help="print values instead of words")
    parser.add_argument("--explore", metavar="FILE", help="write the explorer page")


def run(arguments: argparse.Namespace) -> int:
    """Carry out one parsed command line; 0, or an error is raised.

    Raises: LayoutError for text that does not parse, and whatever the operation refuses.
    """
    if arguments.explore:
        page = write_explorer(arguments.explore)
        print(f"wrote {page} ({page.stat().st_size:,} bytes); open it in any browser")
        if not arguments.words:
            return 0
    answer = _answer(list(arguments.words), arguments)
    printed = False
    for target, form in ((arguments.svg, "svg"), (arguments.latex, "latex")):
        if target:
            printed |= _write(answer, target, form)
    if arguments.json:
        print(json.dumps(answer.values, indent=2))
    elif not printed:
        print(answer.words)
    return 0


def _write(answer: _Answer, target: str, form: str) -> bool:
    """Write one form of the picture; True if it went to the screen."""
    if answer.drawing is None:
        raise LayoutError(f"--{form}: this verb has no picture")
    text = str(getattr(answer.drawing, form))
    if target == "-":
        sys.stdout.write(text)
        return True
    Path(target).write_text(text, encoding="utf-8")
    print(f"wrote {target}", file=sys.stderr)
    return False


def _answer(words: list[str], arguments: argparse.Namespace) -> _Answer:
    if not words:
        raise LayoutError(
            "layout: nothing to do, expected a layout or a verb",
            hint='tilewright layout "((2,2),2):((1,4),2)"',
        )
    verb = _VERBS.get(words[0])
    if verb is None:
        if words[0][:1].isalpha() and not words[0].startswith("Sw"):
            near = difflib.get_close_matches(words[0], _VERBS, n=1)
            raise LayoutError(
                f"layout: {words[0]!r} is not a verb, expected one of {', '.join(_VERBS)}, or a "
                "layout",
                hint=f"did you mean {near[0]}?" if near else "",
            )
        verb, words = _EXPLAIN, ["explain", *words]
    operands = words[1:]
    if not verb.least <= len(operands) <= verb.most:
        raise LayoutError(
            f"layout {verb.name}: {len(operands)} operands, expected {verb.operands}",
            hint="quote a layout: the shell reads parentheses and < > itself",
        )
    return verb.answer(operands, arguments)


def _explain(operands: Sequence[str], arguments: argparse.Namespace) -> _Answer:
    del arguments
    layout = read_layout(operands[0])
    drawing = draw(layout)
    words = f"{explain(layout)}\n\n{drawing}"
    return _Answer(words, layout_facts(layout).as_dict(), drawing)


def _compose(operands: Sequence[str], arguments: argparse.Namespace) -> _Answer:
    del arguments
    return _derived(derive_composition(read_layout(operands[0], "A"), read_tiler(operands[1])))


def _divide(operands: Sequence[str], arguments: argparse.Namespace) -> _Answer:
    a, tiler = read_layout(operands[0], "A"), read_tiler(operands[1])
    return _derived(derive_divide(a, tiler, arguments.form or "logical"))


def _product(operands: Sequence[str], arguments: argparse.Namespace) -> _Answer:
    form = arguments.form or "logical"
    # Blocks are copied in the pattern of a layout; a bare shape is one there.
    tiler = (read_layout if form in ("blocked", "raked") else read_tiler)(operands[1])
    return _derived(derive_product(read_layout(operands[0], "A"), tiler, form))


def _complement(operands: Sequence[str], arguments: argparse.Namespace) -> _Answer:
    del arguments
    extent = read_tiler(operands[1]) if len(operands) > 1 else None
    return _derived(derive_complement(read_layout(operands[0], "A"), extent))


def _inverse(operands: Sequence[str], arguments: argparse.Namespace) -> _Answer:
    return _derived(derive_inverse(read_layout(operands[0], "A"), arguments.form or "right"))


def _swizzle(operands: Sequence[str], arguments: argparse.Namespace) -> _Answer:
    del arguments
    swizzle = read_swizzle(operands[0])
    if len(operands) > 1:
        return _derived(derive_swizzle(swizzle, read_layout(operands[1], "A")))
    drawing = draw(swizzle)
    return _Answer(str(drawing), {"swizzle": str(swizzle)}, drawing)


def _derived(derivation: Derivation) -> _Answer:
    result: AnyLayout = derivation.result
    drawing = draw(result)
    values = {
        "result": str(result),
        "steps": [{"says": s.says, "value": s.value} for s in derivation.steps],
        "facts": layout_facts(result).as_dict(),
    }
    return _Answer(f"{derivation}\n\n{drawing}", values, drawing)


def _banks(operands: Sequence[str], arguments: argparse.Namespace) -> _Answer:
    layout = read_layout(operands[0], "A")
    threads = read_layout(arguments.threads, "--threads") if arguments.threads else _warp(layout)
    access = Access(threads, arguments.bytes, arguments.element_bits)
    given = (layout, access.threads, access.access_bytes, access.element_bits)
    report = bank_conflicts(*given)
    values: dict[str, Any] = {
        "layout": str(layout),
        "threads": str(threads),
        "ways": report.ways,
        "cycles": report.cycles,
        "phases": [asdict(phase) for phase in report.phases],
        "addresses": list(lane_addresses(*given)),
        "global_sectors": coalescing(*given).sectors,
    }
    lines = [
        f"banks       {report}",
        f"if global   {coalescing(*given)}",
    ]
    if not report.is_conflict_free:
        choice = smallest_swizzle(outermost(layout), access)
        found = f"{choice.swizzle} on {outermost(layout)}" if choice.swizzle else choice.reason
        lines.append(f"swizzle     {found}")
        values["smallest_swizzle"] = str(choice.swizzle) if choice.swizzle else None
        values["smallest_swizzle_reason"] = choice.reason
    drawing = draw_banks(*given)
    return _Answer("\n".join([*lines, "", str(drawing)]), values, drawing)


def _warp(layout: AnyLayout) -> Layout:
    return Layout(min(32, int(size(layout))), 1)


def _draw(operands: Sequence[str], arguments: argparse.Namespace) -> _Answer:
    if operands[0].startswith("Sw") and " o " not in operands[0]:
        return _swizzle(operands, arguments)
    layout = read_layout(operands[0], "A")
    if not arguments.tile:
        drawing = draw(layout)
        return _Answer(str(drawing), {"layout": str(layout)}, drawing)
    tile = _tile(arguments.tile)
    if not isinstance(layout, Layout):
        raise LayoutError(f"--tile: a thread-value layout has no swizzle, got {layout}")
    drawing = draw_tv(layout, tile)
    covered = coverage(layout, tile[0] * tile[1])
    values = {"layout": str(layout), "tile": list(tile), "covers": str(covered)}
    return _Answer(f"{drawing}\n\ncovers      {covered}", values, drawing)


def _tile(text: str) -> tuple[int, int]:
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(p.isdigit() and int(p) > 0 for p in parts):
        raise LayoutError(f"--tile: {text!r}, expected MxN as in 16x8")
    return int(parts[0]), int(parts[1])


def _atom(operands: Sequence[str], arguments: argparse.Namespace) -> _Answer:
    del arguments
    atom = find_atom(operands[0])
    drawing = draw_atom(atom)
    values = atom_values(atom)
    words = "\n".join(f"{name:<12}{value}" for name, value in values.items())
    return _Answer(f"{words}\n\n{drawing}", values, drawing)


def find_atom(name: str) -> MmaAtom | CopyAtom:
    """The MMA or copy atom of a name.

    Raises: LayoutError with the nearest names.

    >>> find_atom("SM75_U32x4_LDSM_N").num_threads
    32
    """
    atoms: dict[str, MmaAtom | CopyAtom] = {a.name: a for a in every_mma_atom()}
    atoms |= {a.name: a for a in every_copy_atom()}
    if name in atoms:
        return atoms[name]
    with contextlib.suppress(LayoutError):
        return mma_atom(name)  # tcgen05.mma has more shapes than the list
    within = [known for known in atoms if name.lower() in known.lower()]
    near = within[:6] or difflib.get_close_matches(name, atoms, n=3, cutoff=0.5)
    raise LayoutError(
        f"atom: {name!r} is none of the {len(every_mma_atom())} MMA and {len(every_copy_atom())} "
        "copy atoms",
        hint=f"near names: {', '.join(near)}" if near else "",
    )


def atom_values(atom: MmaAtom | CopyAtom) -> dict[str, str]:
    """The row of an atom, as texts."""
    values = {"atom": atom.name, "threads": str(atom.thr_id)}
    if isinstance(atom, CopyAtom):
        values |= {"source": str(atom.src_layout), "destination": str(atom.dst_layout)}
    else:
        m, n, k = atom.shape_mnk
        d, a, b, c = (str(t) for t in (atom.d_type, atom.a_type, atom.b_type, atom.c_type))
        values["computes"] = f"{m}x{n}x{k}: {d} = {a} * {b} + {c}"
        for which in ("A", "B", "C"):
            place = operand_place(atom, which)
            values[which] = str(atom.layout(which)) + (f", {place}" if place else "")
    since = f"sm_{atom.min_arch}" if atom.min_arch else "AMD"
    return values | {"from": since, "ptx": atom.ptx or "not written by the code generator"}


@dataclass(frozen=True, slots=True)
class _Verb:
    name: str
    operands: str
    least: int
    most: int
    answer: Callable[[Sequence[str], argparse.Namespace], _Answer]


_EXPLAIN = _Verb("explain", "A", 1, 1, _explain)
_VERBS = {
    verb.name: verb
    for verb in (
        _EXPLAIN,
        _Verb("compose", "A B", 2, 2, _compose),
        _Verb("divide", "A T", 2, 2, _divide),
        _Verb("product", "A T", 2, 2, _product),
        _Verb("complement", "A [N]", 1, 2, _complement),
        _Verb("inverse", "A", 1, 1, _inverse),
        _Verb("swizzle", "B,M,S [A]", 1, 2, _swizzle),
        _Verb("banks", "A", 1, 1, _banks),
        _Verb("draw", "A", 1, 1, _draw),
        _Verb("atom", "NAME", 1, 1, _atom),
    )
}
