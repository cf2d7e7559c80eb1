"""Pictures: layouts, swizzles, accesses and atoms as text, SVG, LaTeX, and an explorer page."""

from tilewright.viz.atom_pictures import draw_atom
from tilewright.viz.derive import (
    derive_complement,
    derive_composition,
    derive_divide,
    derive_inverse,
    derive_product,
    derive_swizzle,
)
from tilewright.viz.drawing import Drawing
from tilewright.viz.explain import explain, layout_facts
from tilewright.viz.explorer_page import explorer_html, write_explorer
from tilewright.viz.pictures import draw, draw_banks, draw_tv

__all__ = [
    "Drawing",
    "derive_complement",
    "derive_composition",
    "derive_divide",
    "derive_inverse",
    "derive_product",
    "derive_swizzle",
    "draw",
    "draw_atom",
    "draw_banks",
    "draw_tv",
    "explain",
    "explorer_html",
    "layout_facts",
    "write_explorer",
]
