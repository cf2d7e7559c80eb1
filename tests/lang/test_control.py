"""Every construct, captured and run on numbers, means what it means in Python."""

# ruff: noqa: ARG001, SIM108, RET504 (what is tested is the code as written)

import functools

import pytest
from evaluator import AssertionFailed, Captured, observe, run

from tilewright.errors import CaptureError
from tilewright.ir.ops import arith, control
from tilewright.lang.arguments import const_expr
from tilewright.lang.jit import jit
from tilewright.lang.ranges import range_, range_constexpr
from tilewright.lang.values import Boolean, Float32, Int32, Int64

PAIRS = [(a, b) for a in (-3, 0, 1, 5) for b in (-2, 0, 1, 4)]


def branch_and_defaults(a, b):
    x = 7
    if a < b:
        x = a
    elif a == b:
        x = -1
    else:
        y = a - b
        x = y * 2
    return x


def nested_loops(a, b):
    total = 0
    for i in range(a):
        for j in range(i, b):
            if i == j:
                total += 1
            elif i + j > 4:
                total += i * j
        total = total + i
    return total


def loop_bounds(a, b):
    total = []
    for bounds in ((a, b + 5, 2), (b, a, -1), (0, 3, 1)):
        s = 0
        for i in range(*bounds):
            s = s * 3 + i
        total.append(s)
    return total


def while_with_two_conditions(a, b):
    n = 0
    while n < 6 and a + n != b:
        n += 1
    return n


def while_known_at_first(a, b):
    going = True
    n = 0
    while going:
        n += 1
        going = n < a
    return n


def booleans(a, b):
    return [
        a < b and b < 3,
        a < b or b < 3,
        not (a < b),
        a and b,
        a or b,
        (a or 3) and (b or 4),
        0 < a < b,
        a < b <= 4 != a,
        a in (b, 5),
        a not in [0, b],
        bool(a),
        any([a > 0, b > 0]),
        all([a > 0, b > 0]),
    ]


def choices(a, b):
    x = a if a < b else b
    y = (a, 1) if a > 0 else (b, 2)
    z = 1 if b else 0
    return x, y, z, min(a, b, 2), max(a, b), abs(a - b)


def division(a, b):
    if b != 0:
        return_value = a // b + a % b
    else:
        return_value = 0
    safe = b != 0 and a // b > 1
    return return_value, safe


def containers(a, b):
    seen = [0, 0, 0]
    table = {"x": a, "y": (b, b)}
    for i in range(b):
        seen[1] += i
        table["x"] = table["x"] + seen[1]
    if a > b:
        seen[0] = 1
        table["y"] = (a, b)
    return seen, table["x"], table["y"]


def static_parts_stay_static(a, b):
    n = 2
    for _ in range(b):
        for j in range_constexpr(n):
            a = a + j
        n = 2
    return a, n


def loop_else(a, b):
    for i in range(b):
        a += i
    else:
        a += 100
    for k in [1, 2, 3]:
        if k == 2:
            break
    else:
        a += 1000
    while a < 5:
        a += 3
    else:
        a += 1
    return a


def shadowed_loop_variable(a, b):
    i = 50
    for i in range(b):
        a += i
    c = i
    for i in range(3):
        a += i
    return a, i, c


def walrus(a, b):
    if (c := a + b) > 2:
        a = c
    return a + c


def augmented_attributes(a, b):
    class Box:
        pass

    box = Box()
    box.n, box.m = 1, a
    for i in range(b):
        box.n += i
        if i > 1:
            box.m -= box.n
    return box.n, box.m


FUNCTIONS = [
    branch_and_defaults,
    nested_loops,
    loop_bounds,
    while_with_two_conditions,
    while_known_at_first,
    booleans,
    choices,
    division,
    containers,
    static_parts_stay_static,
    loop_else,
    shadowed_loop_variable,
    walrus,
    augmented_attributes,
]


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda f: f.__name__)
def test_means_what_python_means(fn):
    made = Captured(fn, 1, 2)
    for a, b in PAIRS:
        assert made(a, b) == fn(a, b), (a, b)


def test_a_zero_step_range_is_refused():
    def f(a):
        for _ in range(0, a, 0):
            a += 1

    with pytest.raises(Exception, match="range: the step must not be 0"):
        run(f, 1)


def test_only_one_arm_runs():
    def f(a):
        if a > 0:
            observe(1)
        else:
            observe(2)
        x = 3 if a > 0 and effect(7) else effect(8)
        return x

    def effect(n):
        observe(n)
        return n

    made = Captured(f, 1)
    made(1)
    assert made.log == [1, 7]
    made(0)
    assert made.log == [2, 8]


def test_pure_operands_need_no_branch():
    def f(a, b):
        return a < 3 and b < 4, a < 3 or b > 2, not a < 3, a if a < b else b

    made = Captured(f, 1, 2)
    assert not made.ops(control.If)
    assert len(made.ops(arith.Select)) == 1


def test_division_is_not_speculated():
    made = Captured(lambda_free_division, 1, 2)
    assert len(made.ops(control.If)) == 1


def lambda_free_division(a, b):
    return b != 0 and a // b == 1


def test_a_name_of_one_arm_only_is_an_error_where_it_is_used():
    def f(a):
        if a > 0:
            x = 1
        return x

    with pytest.raises(CaptureError, match="x is not defined on every path to this line") as e:
        run(f, 1)
    assert "give x a value before the run-time branch or loop that assigns it" in str(e.value)
    assert e.value.loc.snippet() == ["return x", "       ^"]


def test_a_name_of_one_arm_only_is_no_error_where_it_is_not_used():
    def f(a):
        if a > 0:
            x = 1
            a = x
        for i in range(a):
            y = i
            a = a + y
        return a

    assert run(f, 3) == 1


def test_a_loop_variable_is_known_after_a_loop_of_known_length():
    def f(a):
        for i in range(4):
            a += i
        return a, i

    assert run(f, 1) == (7, 3)


def test_numbers_are_promoted_where_paths_meet():
    def f(a, wide, real):
        x = 0
        if a > 0:
            x = wide
        y = 1
        for _ in range(a):
            y = y * real
        z = a > 1
        if a > 2:
            z = 5
        return x, y, z

    made = Captured(f, 1, Int64(2), 0.5)
    x, y, z = made.result
    assert (type(x), type(y), type(z)) == (Int64, Float32, Int32)
    assert made(3, 10, 0.5) == (10, 0.125, 5)
    assert made(0, 10, 0.5) == (0, 1.0, 0)


def test_constants_stay_constants():
    def f(a):
        x, flag, name = 4, True, "k"
        if a > 0:
            x, flag, name = 4, True, "k"
        for _ in range(a):
            x = 4
        return x, flag, name

    assert Captured(f, 1).result == (4, True, "k")


def test_unchanged_candidates_are_not_carried():
    def f(a, b):
        kept = b
        total = a
        for _ in range(a):
            kept = kept + 0
            total = total + kept
        return kept, total

    made = Captured(f, 1, 2)
    (loop,) = made.ops(control.For)
    assert len(loop.inits) == 1
    assert made(3, 5) == (5, 18)


def test_a_reused_static_loop_variable_is_not_carried():
    def f(a):
        for k in range_constexpr(2):
            a += k
        for _ in range(a):
            for k in range_constexpr(3):
                a += k
        return a

    (loop,) = Captured(f, 1).ops(control.For)
    assert len(loop.inits) == 1


def test_unroll_hints():
    def f(a):
        for _ in range(a):
            observe(a)
        for _ in range_(a, unroll=4):
            observe(a)
        for _ in range_(a, unroll_full=True):
            observe(a)
        for _ in range_(a, prefetch_stages=2, unroll=1):
            observe(a)

    assert [loop.unroll for loop in Captured(f, 1).ops(control.For)] == [-1, 4, 0, 1]


def test_the_index_has_the_widest_type_of_the_bounds():
    def f(n):
        total = 0
        for i in range(n):
            total = total + i
        return total

    assert type(Captured(f, Int64(1)).result) is Int64


def test_a_loop_over_an_empty_known_range_is_not_traced():
    def f(a):
        for _ in range(0):
            raise ValueError("never traced")
        return a

    assert run(f, 1) == 1


def test_const_expr_takes_one_arm_only():
    def f(a):
        if const_expr(isinstance(a, float)):
            return a.no_such_attribute
        return a + 1

    assert run(f, 1) == 2

    def g(a):
        return 1 if const_expr(a > 0) else 2

    with pytest.raises(
        CaptureError,
        match="const_expr: expected a value known at compile time, got a run-time Bool",
    ):
        run(g, 1)


def test_assert():
    def f(a):
        assert True, missing  # noqa: F821
        assert a > 0, f"a is {2 + 3}"
        assert a != 7
        return a

    made = Captured(f, 1)
    assert made(1) == 1
    with pytest.raises(AssertionFailed, match="a is 5"):
        made(0)
    with pytest.raises(AssertionFailed, match="a != 7"):
        made(7)

    def g(a):
        n = 3
        assert n == 4, "n must be 4"
        return a

    with pytest.raises(AssertionError, match="n must be 4"):
        run(g, 1)


def test_print_prints_once_for_each_statement(capsys):
    def f(a):
        x = 0
        for _ in range(a):
            x = x + 1
            print("x:", x, 3)
        print("after")
        return x

    run(f, 2)
    assert capsys.readouterr().out == "x: Int32(%x) 3\nafter\n"


# Functions that captured functions call.


def clamp(x, low, high=10):
    if x < low:
        x = low
    elif x > high:
        x = high
    return x


def test_helpers_are_captured_when_called():
    scale = 3

    def inner(x, *rest, **named):
        if x > 2:
            x = x * scale
        for r in rest:
            x += r
        return x + named["z"]

    def f(a):
        return clamp(a, 2), clamp(low=0, x=a), inner(a, 1, 2, z=3), functools.partial(clamp, a)(4)

    made = Captured(f, 1)
    for a in (-5, 1, 3, 50):
        assert made(a) == f(a)


def test_closures_see_their_variables():
    offset = 5

    def f(a):
        total = 0

        def add(x):
            if x > 1:
                return_value = total + x + offset
            else:
                return_value = total
            return return_value

        for i in range(a):
            total = total + add(i)
        return total

    made = Captured(f, 1)
    for a in range(5):
        assert made(a) == f(a)


class Shape:
    __secret = 4

    def __init__(self, n):
        self.n = n

    def area(self, a):
        if a > self.n:
            a = self.__private(a)
        return a

    def __private(self, a):
        return a * self.__secret

    def __call__(self, a):
        return a if a > 3 else 3


class Square(Shape):
    def area(self, a):
        result = super().area(a)
        if result > 10:
            result = 10
        return result


def test_methods():
    square = Square(2)

    def f(a):
        return square.area(a), square(a)

    made = Captured(f, 1)
    for a in range(6):
        assert made(a) == f(a)


@jit
def double_if_positive(x: Int32, times: int = 1):
    for _ in range(times):
        if x > 0:
            x = x * 2
    return x


def test_jit_functions_are_traced_in_place():
    def f(a):
        return double_if_positive(a, times=2) + double_if_positive(True)

    made = Captured(f, 1)
    assert made(3) == 14
    assert made(-1) == 1


def test_with_lambda_and_comprehension_run_while_tracing():
    class Scope:
        def __init__(self):
            self.events = []

        def __enter__(self):
            self.events.append("in")
            return self

        def __exit__(self, *exc):
            self.events.append("out")

    scope = Scope()

    def f(a):
        with scope as s:
            items = [a + i for i in range(3) if i != 1]
            best = max((lambda x: x * 2)(a), items[1])
            for i in range(a):
                best = best + i
        assert s is scope
        match len(items):
            case 2:
                best += 1
            case _:
                best = missing  # noqa: F821
        try:
            best += items[5]
        except IndexError:
            best += 7
        return items, best

    made = Captured(f, 1)
    assert made(4) == ([4, 6], 22)
    assert scope.events == ["in", "out"]


def test_deleted_names_are_undefined():
    def f(a):
        x = a
        if a > 0:
            del x
        return x

    with pytest.raises(CaptureError, match="x is not defined on every path"):
        run(f, 1)


def test_boolean_arguments_branch():
    def f(flag, a):
        if flag:
            a += 1
        if not flag:
            a += 10
        return a, flag and a > 3

    made = Captured(f, Boolean(True), 1)
    assert made(True, 5) == (6, True)
    assert made(False, 5) == (15, False)


def test_run_time_float_loops():
    def f(x):
        y = 1.0
        n = 0
        while x * y < 100.0:
            y = y * 2
            n = n + 1
        return n

    assert run(f, 3.0) == 6
