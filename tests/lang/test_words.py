"""Builtins of run-time values."""

import pytest
from evaluator import Captured, run

from tilewright.lang import words
from tilewright.lang.values import Boolean, Float32, Int32, Int64


def test_minimum_and_maximum():
    def f(a, b):
        return min(a, b), max(a, b, 3), min([a, b]), max((2, 1)), min("b", "a"), max([], default=a)

    made = Captured(f, 1, 2)
    for a, b in ((1, 2), (5, -1)):
        assert made(a, b) == f(a, b)


def test_conversions():
    def f(a, x):
        return int(x), int(a), int("7"), float(a), float(x), float(2), bool(a), bool([])

    made = Captured(f, 1, 2.5)
    assert made(3, 2.5) == (2, 3, 7, 3.0, 2.5, 2.0, True, False)
    assert isinstance(made.result[0], Int32)
    assert isinstance(made.result[3], Float32)


def test_any_and_all():
    def f(a):
        return any([a > 1, a < 0]), all([a > 1, True]), any([a > 1, True]), all([]), all([a, False])

    made = Captured(f, 1)
    assert made.result[2:] == (True, True, False)
    assert made(2) == (True, True, True, True, False)
    assert made(0) == (False, False, True, True, False)


def test_contains():
    def f(a):
        return a in (1, 5), a not in [2], 3 in (a, 4), "x" in {"x": a}, 2 in range(3)

    made = Captured(f, 1)
    for a in (1, 2, 3):
        assert made(a) == f(a)


def test_choose_and_boolean():
    assert words.choose(True, Int32(1), Int64(2)).dtype is Int64
    assert run(lambda_free_choose, 4) == 4
    assert words.boolean(3).raw is True
    assert words.boolean(Int32(0)).dtype is Boolean


def lambda_free_choose(a):
    return words.choose(a > 3, a, 0)


def test_print_outside_of_captured_code(capsys):
    words.print_("a", 1, sep="-")
    assert capsys.readouterr().out == "a-1\n"


@pytest.mark.parametrize("fn", [words.min, words.max])
def test_names(fn):
    assert fn.__name__ in ("min", "max")
    assert fn(3, 4) in (3, 4)
