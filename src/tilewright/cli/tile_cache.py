"""`tilewright tile cache log`: what the cache on disk holds of tileiras's."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from datetime import datetime

from tilewright.cli.arguments import Parser
from tilewright.runtime.cache import Entry, entries
from tilewright.settings import settings

EXIT_LISTED, EXIT_DISABLED = 0, 1
_LABEL = 12


def cache(words: Sequence[str]) -> int:
    """The action."""
    parser = Parser(
        "tile cache",
        "Lists the cubins that tileiras has made, used last first.",
        ["tilewright tile cache log"],
    )
    parser.add_argument("what", choices=("log",), help="every entry: kernel, compiler, times, size")
    parser.parse(words)
    if not settings().cache_enabled:
        print("tile cache: the compilation cache is disabled", file=sys.stderr)
        return EXIT_DISABLED
    made = [entry for entry in entries() if entry.compiler.startswith("tileiras ")]
    print("\n".join(map(_shown, made)), end="")
    return EXIT_LISTED


def _shown(entry: Entry) -> str:
    fields = {
        "Kernel": entry.name,
        "Compiler": f"{entry.compiler} for {entry.target}",
        "Date": _date(entry.made),
        "Last used": _date(entry.used),
        "Duration": f"{entry.seconds:.3f} s",
        "Cubin": f"{entry.size:,} bytes",
    }
    if entry.log:
        fields["Said"] = textwrap.indent(entry.log, " " * _LABEL).lstrip()
    lines = [f"{label + ':':{_LABEL}}{text}\n" for label, text in fields.items()]
    return "".join([f"entry {entry.key}\n", *lines])


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
