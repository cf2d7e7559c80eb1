"""Drawing: a figure that Jupyter shows, and that saves itself as SVG, LaTeX or text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import LayoutError
from tilewright.viz.figure import Figure
from tilewright.viz.latex import figure_latex
from tilewright.viz.svg import figure_svg
from tilewright.viz.text import figure_text


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure in all its forms; `str()` is the text.

    >>> from tilewright.layout.layout import Layout
    >>> from tilewright.viz.pictures import draw
    >>> draw(Layout((2, 2))).svg.startswith("<svg ")
    True
    """

    figure: Figure

    @property
    def text(self) -> str:
        """Tables of text."""
        return figure_text(self.figure)

    @property
    def svg(self) -> str:
        """An SVG document."""
        return figure_svg(self.figure)

    @property
    def latex(self) -> str:
        """A standalone LaTeX document."""
        return figure_latex(self.figure)

    def save(self, path: str | Path) -> Path:
        """Write the form that the suffix names: .svg, .tex or .txt.

        Raises: LayoutError for another suffix.
        """
        target = Path(path)
        forms = {".svg": "svg", ".tex": "latex", ".txt": "text"}
        if target.suffix not in forms:
            raise LayoutError(
                f"Drawing.save: {target.name!r} ends in {target.suffix or 'no suffix'}, expected "
                f"{', '.join(forms)}"
            )
        target.write_text(str(getattr(self, forms[target.suffix])), encoding="utf-8")
        return target

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.svg}</div>'

    def __str__(self) -> str:
        return self.text
