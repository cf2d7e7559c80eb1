"""Places in the user's source."""

import pathlib
import textwrap

from evaluator import Captured

from tilewright.lang import source_loc
from tilewright.lang.source_loc import current_loc, is_core_file, is_library_file


def test_the_innermost_user_frame_outside_of_captured_code():
    loc = current_loc()
    assert loc.file == __file__
    assert loc.function == "test_the_innermost_user_frame_outside_of_captured_code"
    assert loc.caller is None
    assert loc.snippet() == ["loc = current_loc()", "      ^^^^^^^^^^^^^"]


def test_rooms():
    assert is_core_file(source_loc.__file__)
    assert not is_core_file(__file__)
    assert is_library_file(textwrap.__file__)
    assert is_library_file("<frozen importlib>")
    assert not is_library_file(str(pathlib.Path(source_loc.__file__).parents[1] / "compiler.py"))
    assert not is_library_file(__file__)


def test_locations_are_shared_and_columns_survive_rewriting():
    # fmt: off
    def f(a, b):
        if a > 0 and b > 0:
            a = min(a + 1, (b
                            * 2))
        return a
    # fmt: on

    made = Captured(f, 1, 2)
    places = {op.name: op.loc for op in made.block.walk()}
    assert places["arith.min"].snippet() == ["a = min(a + 1, (b", "    " + "^" * 13]
    assert places["arith.mul"].snippet() == ["a = min(a + 1, (b", " " * 16 + "^"]
    assert places["arith.and"].snippet()[1] == "   ^^^^^^^^^^^^^^^"
    adds = [op.loc for op in made.block.walk() if op.name == "arith.add"]
    assert adds[0].line == f.__code__.co_firstlineno + 2


def test_callers_are_those_of_this_very_call():
    """Frames are remembered while they run; a generator's caller is looked up each time."""

    def double(x):
        return x + x

    def each(xs):
        for x in xs:
            yield x * 3

    def f(a):
        first = double(a)
        second = double(first)
        more = each([second, first])
        third = next(more)
        return third - next(more)

    def line(loc):
        return loc.line - f.__code__.co_firstlineno

    made = Captured(f, 1)
    ops = [op for op in made.block.walk() if op.name in ("arith.add", "arith.mul")]
    chains = [(op.name, line(op.loc.caller)) for op in ops]
    assert chains == [("arith.add", 1), ("arith.add", 2), ("arith.mul", 4), ("arith.mul", 5)]
    assert not source_loc._callers, "no frame is kept alive"
