"""`tilewright layout`: print, explain, compose and draw layouts, swizzles and atoms."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.cli.arguments import Parser
from tilewright.viz import layout_command

EXAMPLES = layout_command.EXAMPLES


def run(words: Sequence[str]) -> int:
    """The verb; 0 when it could answer."""
    parser = Parser("layout", layout_command.DESCRIPTION, EXAMPLES)
    layout_command.add_arguments(parser)
    return layout_command.run(parser.parse(words))
