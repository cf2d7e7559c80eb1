"""What the verbs' parsers share: errors as our own, and a suggestion for a misspelt flag."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tilewright.errors import TilewrightError


class Parser(argparse.ArgumentParser):
    """An argument parser that raises TilewrightError instead of ending the process."""

    def __init__(self, verb: str, description: str, examples: Sequence[str]) -> None:
        super().__init__(
            prog=f"tilewright {verb}",
            description=description,
            epilog="examples:\n" + "\n".join(f"  {example}" for example in examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.verb = verb

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The arguments.

        Raises: TilewrightError for a flag that does not exist, with the nearest one, or a value
        that does not fit.  `--help` prints and raises SystemExit(0), as argparse does.
        """
        known, unknown = self.parse_known_args(list(words))
        if unknown:
            self._refuse(unknown[0])
        return known

    def error(self, message: str) -> NoReturn:
        raise TilewrightError(f"{self.verb}: {message}")

    def flags(self) -> list[str]:
        """Every flag, as it is typed."""
        return [flag for action in self._actions for flag in action.option_strings]

    def _refuse(self, word: str) -> NoReturn:
        flag = word.partition("=")[0]
        if not flag.startswith("-"):
            raise TilewrightError(
                f"{self.verb}: {word!r} belongs to no flag",
                hint=f"values follow a flag, as in --m={word}" if word.isdigit() else "",
            )
        wanted = flag.replace("_", "-").lower()
        spelled = {known.replace("_", "-").lower(): known for known in self.flags()}
        near = difflib.get_close_matches(wanted, spelled, n=1)
        raise TilewrightError(
            f"{self.verb}: unknown flag {flag}",
            hint=f"did you mean {spelled[near[0]]}?"
            if near
            else f"`tilewright {self.verb} --help` lists the flags",
        )


def value(read: Callable[[str, str], Any], flag: str) -> Callable[[str], Any]:
    """An argparse `type` out of a reader of the value grammar, which is told its flag."""
    return lambda text: read(text, flag)


def boolean(text: str, flag: str) -> bool:
    """`true`/`false`, `1`/`0`, `yes`/`no`, `on`/`off`.

    >>> boolean("false", "--append")
    False
    """
    word = text.lower()
    if word in ("true", "1", "yes", "on"):
        return True
    if word in ("false", "0", "no", "off"):
        return False
    raise TilewrightError(f"{flag}: {text!r}, expected true or false")


def add_boolean(
    where: argparse._ActionsContainer,
    flag: str,
    default: bool,
    text: str,
    also: tuple[str, ...] = (),
) -> None:
    """A switch that may be given bare (true) or with a value, as CUTLASS's are."""
    where.add_argument(
        flag,
        *also,
        nargs="?",
        const=True,
        default=default,
        type=value(boolean, flag),
        metavar="BOOL",
        help=f"{text} (default: {str(default).lower()})",
    )
