"""The eight fills of every picture.

Found by a search over sRGB that maximised the smallest CIELAB distance between any two of them (and
white) as seen with normal vision, protanopia, deuteranopia and tritanopia (matrices of Machado,
Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency",
2009), under black text at a contrast of 7:1 or more and with bounded chroma.  The smallest distance
is 21; tests/viz/test_palette.py computes it again.

No picture relies on colour: every cell carries the number that its colour stands for.
"""

from __future__ import annotations

FILLS: tuple[str, ...] = (
    "#F9D174",  # yellow
    "#3AE5FF",  # cyan
    "#EB7066",  # red
    "#C4FFB9",  # pale green
    "#A29DFF",  # lavender
    "#C08D2D",  # ochre
    "#7DC9A3",  # green
    "#B390B2",  # mauve
)
BLANK = "#FFFFFF"
SHARED = "#EEEEEE"  # data in shared memory, which no thread owns
INK = "#000000"
MUTED = "#555555"
RULE = "#404040"
ALARM = "#B00020"  # frames of bank conflicts, always with a text beside them


def fill(number: int | None) -> str:
    """The fill of thread, bank or offset `number`; None has none.

    >>> fill(0) == fill(8), fill(None)
    (True, '#FFFFFF')
    """
    return BLANK if number is None else FILLS[number % len(FILLS)]
