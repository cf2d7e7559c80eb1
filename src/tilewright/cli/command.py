"""`tilewright <verb> ...`: finds the verb, runs it, and turns errors into messages.

Exit status: 0 done and right, 1 a wrong result, 2 bad input or a machine that cannot, 3 a fault of
our own (with its traceback).  A verb's module is loaded only when it is called.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import TilewrightError

EXIT_OK, EXIT_WRONG, EXIT_BAD_INPUT, EXIT_INTERNAL = 0, 1, 2, 3
_EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Verb:
    """A module with `run(arguments) -> exit status`, and its line in the overview."""

    module: str
    summary: str


VERBS = {
    "gemm": Verb("tilewright.cli.gemm", "compute and verify one matrix product, on any backend"),
    "profile": Verb("tilewright.cli.profile", "sweep problems and kernels: verify, time, compare"),
    "check": Verb("tilewright.cli.check", "run a kernel file in the simulator: find races, hangs"),
    "layout": Verb("tilewright.cli.layout", "print, explain, compose and draw layouts and atoms"),
    "tile": Verb("tilewright.cli.tile", "check, show, translate, run and compile Tile IR"),
    "doctor": Verb("tilewright.cli.doctor", "say what this machine can do, and what is missing"),
}

EXAMPLES = (
    "tilewright gemm --m=64 --n=64 --k=32",
    "tilewright profile --mode=dry_run --m=64:256:64 --n=256 --k=64 --A=f16:row --B=f16:col",
    "tilewright check examples/02_shared_memory.py",
    'tilewright layout "((2,2),2):((1,4),2)"',
    "tilewright doctor",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(words)
    except TilewrightError as error:
        print(f"tilewright: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print("tilewright: interrupted", file=sys.stderr)
        return _EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output (head, less) has gone; Python must not try to flush to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except Exception:
        traceback.print_exc()
        print(
            "tilewright: internal error: this is a fault of ours, please report it", file=sys.stderr
        )
        return EXIT_INTERNAL


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return EXIT_OK
    name, rest = words[0], words[1:]
    if name in ("-V", "--version"):
        print(f"tilewright {version()}")
        return EXIT_OK
    if name not in VERBS:
        near = difflib.get_close_matches(name.lstrip("-"), VERBS, n=1)
        raise TilewrightError(
            f"{name!r} is not a verb, expected one of {', '.join(VERBS)}",
            hint=f"did you mean `tilewright {near[0]}`?" if near else "",
        )
    status: int = importlib.import_module(VERBS[name].module).run(rest)
    return status


def overview() -> str:
    """What `tilewright` prints by itself."""
    width = max(map(len, VERBS)) + 3
    lines = ["usage: tilewright <verb> [options]     (tilewright <verb> --help says more)", ""]
    lines += [f"  {name:<{width}}{verb.summary}" for name, verb in VERBS.items()]
    lines += [f"  {'--version':<{width}}".rstrip() + "  print the version", "", "examples:"]
    lines += [f"  {example}" for example in EXAMPLES]
    return "\n".join(lines)


def version() -> str:
    """The installed version; where only the source tree is on the path, that is said."""
    try:
        return importlib.metadata.version("tilewright")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed: running from the source tree)"
