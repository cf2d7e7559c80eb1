"""Dataclasses, closures and tuples in tile code: what they may be, and what is refused."""

import dataclasses
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import tilewright.tile as ct


def ints(n=4):
    return np.zeros(n, np.int32)


@dataclass(frozen=True)
class Point:
    x: Any
    y: int = 7

    def __call__(self, z):
        return self.x * 100 + self.y * 10 + z

    def __len__(self):
        return self.y

    def __getitem__(self, i):
        return self.x + i

    @contextmanager
    def entered(self, out, at):
        ct.scatter(out, at, self.y)
        yield self.x
        ct.scatter(out, at + 1, self.y + 1)


@dataclass(frozen=True)
class Writer:
    array: ct.Array
    factor: int = 10

    def __setitem__(self, i, value):
        ct.scatter(self.array, i, value * self.factor)


@dataclass(frozen=True)
class Noted:
    array: ct.Array
    at: int
    value: int

    def __post_init__(self):
        ct.scatter(self.array, self.at, self.value)


@ct.kernel
def special_methods(out, n):
    p = Point(n)
    ct.scatter(out, 0, p(3))
    ct.scatter(out, 1, len(p) + p[2])
    Writer(out)[2] = 5
    ct.scatter(out, 3, getattr(p, "y") + getattr(p, "z", 1))  # noqa: B009


def test_special_methods_of_dataclasses_are_called(run):
    out, _ = run(special_methods, (1,), ints(), 2)
    np.testing.assert_array_equal(out, [273, 11, 50, 8])


@ct.kernel
def after_init(out, n):
    noted = Noted(out, 0, n)
    again = replace(noted, at=1, value=30)
    ct.static_assert(again.at == 1)


def test_post_init_runs_and_replace_runs_it_again(run):
    out, _ = run(after_init, (1,), ints(), 20)
    np.testing.assert_array_equal(out, [20, 30, 0, 0])


@ct.kernel
def methods_as_managers(out, n):
    with Point(n).entered(out, 1) as x:
        ct.scatter(out, 0, x)


def test_a_method_may_be_a_context_manager(run):
    out, _ = run(methods_as_managers, (1,), ints(), 5)
    np.testing.assert_array_equal(out, [5, 7, 8, 0])


@ct.kernel
def through_python(out, n):
    p = ct.static_eval(Point(n, 3))
    q = ct.static_eval((p.y * 2, Point(p.x, [9][0])))
    for item in ct.static_iter([Point(n), p]):
        ct.scatter(out, item.y - 3, item.x)
    ct.scatter(out, 1, q[0] + q[1].y)


def test_objects_pass_through_static_eval(run):
    out, _ = run(through_python, (1,), np.zeros(5, np.int32), 5)
    np.testing.assert_array_equal(out, [5, 15, 0, 0, 5])


def keywords(**given):
    ct.static_assert(given == {"a": 1, "b": 2})
    return given["a"] + given["b"]


@ct.kernel
def python_in_assertions(out):
    ct.static_assert(isinstance(3, int) and type(2.0) is float)  # noqa: UP003
    ct.static_assert((1,) * 3 == (1, 1, 1))
    ct.static_assert([k + 1 for k in (1, 2)] == [2, 3], "never said")
    ct.static_assert(out.dtype == ct.int32 and out.ndim == 1)
    ct.scatter(out, 0, keywords(a=1, b=2))


def test_assertions_are_python_too(run):
    (out,) = run(python_in_assertions, (1,), ints())
    np.testing.assert_array_equal(out, [3, 0, 0, 0])


@dataclass(frozen=True)
class Made:
    x: int
    y: list = field(default_factory=list)


@dataclass(frozen=True)
class Left:
    x: int
    y: int = field(init=False, default=3)


@dataclass(frozen=True)
class Own:
    x: int

    def __init__(self):
        pass


@dataclass(frozen=True)
class Newed:
    x: int

    def __new__(cls, x):  # noqa: ARG004
        return object.__new__(cls)


class Plain(Point):
    pass


@ct.kernel
def factory(out):
    ct.scatter(out, 0, Made(1).x)


@ct.kernel
def left_out(out):
    ct.scatter(out, 0, Left(1).x)


@ct.kernel
def own_init(out):
    ct.scatter(out, 0, Own().x)


@ct.kernel
def own_new(out):
    ct.scatter(out, 0, Newed(1).x)


@ct.kernel
def not_a_dataclass(out):
    ct.scatter(out, 0, Plain(1).x)


@ct.kernel
def missing_field(out):
    ct.scatter(out, 0, Point().x)


@ct.kernel
def unknown_field(out):
    ct.scatter(out, 0, replace(Point(1), z=2).x)


@ct.kernel
def not_callable(out):
    ct.scatter(out, 0, Writer(out)(1))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (factory, "Made.y has a default_factory"),
        (left_out, "Left.y has init=False"),
        (own_init, "Own has an __init__ of its own"),
        (own_new, "Newed has a __new__"),
        (not_a_dataclass, "Plain is no dataclass, though Point is"),
        (missing_field, "Point(): missing a required argument: 'x'"),
        (unknown_field, "Point has no field z"),
        (not_callable, "Writer cannot be called in tile code"),
    ],
)
def test_dataclasses_that_are_refused(refused, kernel, message):
    found = refused(kernel, ct.TileTypeError, ints())
    assert message in found
    assert "^" in found


def adder(n):
    def add(x):
        return x + n

    return add


def with_default(n):
    def add(x, by=n):
        return x + by

    n = -1
    return add


@ct.kernel
def joined_closures(out):
    i = ct.bid(0)
    if i == 0:
        f, g = adder(30), with_default(3)
    else:
        f, g = adder(40), with_default(4)
    ct.scatter(out, i, f(1) + g(100))


def test_closures_of_two_branches_become_one(run):
    (out,) = run(joined_closures, (2,), ints(2))
    np.testing.assert_array_equal(out, [134, 145])


@ct.kernel
def unlike_closures(out):
    if ct.bid(0) == 0:  # noqa: SIM108
        f = adder(30)
    else:
        f = with_default(3)
    ct.scatter(out, 0, f(1))


def test_unlike_closures_do_not_become_one(refused):
    found = refused(unlike_closures, ct.TileTypeError, ints())
    assert "f has different types: function add in one branch" in found


@contextmanager
def closing(out):
    n = 10

    def put(at):
        ct.scatter(out, at, n)

    yield put
    n = n + 1


@ct.kernel
def closures_outlive_managers(out):
    with closing(out) as put:
        put(0)
    put(1)


def test_a_closure_sees_what_its_manager_left(run):
    (out,) = run(closures_outlive_managers, (1,), ints(2))
    np.testing.assert_array_equal(out, [10, 11])


@contextmanager
def with_dead_code(out):
    yield 1
    while True:
        ct.scatter(out, 1, 3)
        break
        yield 2


@ct.kernel
def dead_yield(out):
    with with_dead_code(out) as one:
        ct.scatter(out, 0, one)


def test_a_yield_that_is_never_reached_does_not_count(run):
    (out,) = run(dead_yield, (1,), ints(2))
    np.testing.assert_array_equal(out, [1, 3])


# --- Python at compile time ---------------------------------------------------------------------


@ct.kernel
def computed_in_python(out, n):
    t = ct.gather(out, 3) + n
    ct.scatter(out, 0, ct.static_eval(-t * 2 + (10 - t) // 3 + ct.maximum(t, 4)))
    ct.scatter(out, 1, ct.static_eval([t, n])[0])
    part = ct.static_eval(out.slice)(0, 2, 4)
    ct.scatter(part, 0, ct.static_eval(np.int32(6)) + ct.static_eval(part.ndim))
    ct.scatter(out, 3, ct.where(ct.static_eval((t == n) & (t < 9)), 1, 0))


def test_python_computes_with_run_time_values(run):
    out, _ = run(computed_in_python, (1,), ints(), 5)
    np.testing.assert_array_equal(out, [-10 + 1 + 5, 5, 7, 1])


@ct.kernel
def decided_in_python(out):
    ct.scatter(out, 0, ct.static_eval(1 if ct.bid(0) == 0 else 2))


@ct.kernel
def decided_by_a_value(out):
    t = ct.bid(0)
    ct.scatter(out, 0, ct.static_eval(1 if t == 0 else 2))


@ct.kernel
def stored_in_python(out):
    ct.static_eval(ct.scatter(out, 0, 1))


@ct.kernel
def sliced_in_python(out):
    ct.static_eval(out.slice(0, 1, 2))


@ct.kernel
def closed_in_python(out):
    def f(n):
        return n + 1

    ct.scatter(out, 0, ct.static_eval(f(3)))


@ct.kernel
def twice_in_python(out):
    ct.scatter(out, 0, ct.static_eval(ct.static_eval(3)))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (decided_in_python, "bid() cannot be called inside static_eval()"),
        (decided_by_a_value, "bool_ scalar is known at run time only"),
        (stored_in_python, "scatter() cannot be called inside static_eval()"),
        (sliced_in_python, "slice() cannot be called inside static_eval()"),
        (closed_in_python, "f() cannot be called inside static_eval()"),
        (twice_in_python, "static_eval() cannot be used inside static_eval()"),
    ],
)
def test_python_knows_no_values_and_stores_nothing(refused, kernel, message):
    found = refused(kernel, ct.TileStaticEvalError, ints())
    assert message in found
    assert "^" in found


# --- strings ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hidden:
    x: Any
    y: Any = field(repr=False)
    z: Any = "z"


@dataclass(frozen=True)
class Spoken:
    x: Any

    def __str__(self):
        return f"<{self.x}>"


@dataclass(frozen=True)
class Shown:
    x: Any

    def __repr__(self):
        return f"shown {self.x}"


@ct.kernel
def printing(out):
    i = ct.bid(0)
    print(Hidden(i, 1), (Hidden(i, 2, "it's"),))
    print(Spoken(i), f"{Spoken(i)}", (Spoken(i),))
    print(Shown(i), (Shown(i), "%d", f"{i}%", f"a'{i}", f"a'{i}\""))
    ct.scatter(out, 0, 1)


def test_what_is_printed_is_what_python_shows(capsys):
    ct.launch(None, (1,), printing, (ints(),))
    assert capsys.readouterr().out == (
        "Hidden(x=0, z='z') (Hidden(x=0, z=\"it's\"),)\n"
        "<0> <0> (Spoken(x=0),)\n"
        "shown 0 (shown 0, '%d', '0%', \"a'0\", 'a\\'0\"')\n"
    )


# --- tuples as arguments ------------------------------------------------------------------------


@ct.kernel
def of_two(out, pair: tuple[ct.Constant[int], int]):
    ct.store(out, 0, ct.arange(pair[0], dtype=ct.int32) + pair[1])


@ct.kernel
def of_many(out, items: tuple[ct.Constant[int], ...]):
    ct.static_assert(items[0] == 4)
    ct.store(out, 0, ct.full((items[0],), items[-1], ct.int32))


@ct.kernel
def of_tuples(out, items: tuple[tuple[ct.Constant[int], ct.ScalarInt64], ...]):
    total = ct.zeros((), ct.int64)
    for constant, scalar in ct.static_iter(items):
        ct.static_assert(scalar.dtype == ct.int64)
        total += scalar * constant
    ct.store(out, 0, ct.full((4,), total, ct.int64))


@ct.kernel
def all_constant(out, items: ct.Constant[tuple[int, tuple[int, int]]]):
    ct.store(out, 0, ct.full((items[0],), items[1][1], ct.int32))


def test_constants_inside_of_tuples(run):
    np.testing.assert_array_equal(run(of_two, (1,), ints(), (4, 5))[0], [5, 6, 7, 8])
    np.testing.assert_array_equal(run(of_many, (1,), ints(), (4, 1, 9))[0], [9] * 4)
    wide = run(of_tuples, (1,), np.zeros(4, np.int64), ((2, 1 << 40), (3, 1)))[0]
    np.testing.assert_array_equal(wide, [(2 << 40) + 3] * 4)
    np.testing.assert_array_equal(run(all_constant, (1,), ints(), (4, (1, 2)))[0], [2] * 4)


def test_only_constants_are_compiled_again():
    made = ct.kernel(of_two.function)
    for pair in ((4, 5), (4, 6), (2, 6), (4, 7)):
        ct.launch(None, (1,), made, (ints(), pair))
    assert len(made.programs) == 2


@pytest.mark.parametrize(
    ("kernel", "args", "message"),
    [
        (of_two, ((1, 2, 3),), "argument 1 (pair): a tuple of 3, annotated as one of 2"),
        (of_two, (4,), "argument 1 (pair): expected a tuple, as it is annotated, got int"),
        (of_tuples, (((1, 2), (3,)),), "argument 1 (items)[1]: a tuple of 1, annotated as one"),
        (of_two, ((ints(), 2),), "argument 1 (pair)[0]: ndarray is no constant of tile code"),
        (of_two, (), "of_two takes 2 arguments (out, pair), got 1"),
    ],
)
def test_arguments_that_are_no_such_tuples(kernel, args, message):
    with pytest.raises(TypeError) as error:
        ct.launch(None, (1,), kernel, (ints(), *args))
    assert isinstance(error.value, ct.TileTypeError)
    assert message in str(error.value)


def test_what_a_signature_says_fits_the_annotation():
    convention = ct.compilation.CallingConvention.cutile_python_v2()
    array = ct.compilation.KernelSignature.from_kernel_args(of_two, (ints(), (4, 5)), convention)
    items = [array.parameters[0], ct.compilation.TupleConstraint([scalar := _scalar(), scalar])]
    signature = ct.compilation.KernelSignature(items, convention)
    with pytest.raises(ct.TileTypeError, match=r"pair\[0\] is a Constant, got ScalarConstraint"):
        ct.compilation.export_kernel(
            of_two, [signature], "/dev/null", output_format="tileir_bytecode"
        )


def _scalar():
    return ct.compilation.ScalarConstraint(ct.int32)


def test_dataclasses_are_still_plain_python():
    assert dataclasses.replace(Point(1), y=2)(3) == 123
