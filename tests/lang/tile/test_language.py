"""Python's constructs in kernels, against Python itself."""

import contextlib
import enum
from dataclasses import dataclass, replace

import numpy as np
import pytest

import tilewright.tile as ct

LIMIT = 5
PAIR = (2, 3)


def python(body, *args):
    """What the same function does on Python integers: it stores into a list."""
    out = {}
    body(out.__setitem__, *args)
    return out


def both(run, kernel, body, *args):
    """The kernel's stores are those of Python."""
    wanted = python(body, *args)
    out, *_ = run(kernel, (1,), np.full(16, -99, np.int32), *args)
    for i in range(16):
        assert out[i] == wanted.get(i, -99), (i, list(out), wanted)


def loops(put, n, m):
    total = 0
    for i in range(n):
        for j in range(i, m, 2):
            if j == 3:
                continue
            if i * j > 20:
                break
            total += i * j
        if total > 40:
            break
    put(0, total)
    steps = 0
    while n != 1:
        if n % 2 == 0:  # noqa: SIM108
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
        if steps > 30:
            break
    put(1, steps)
    put(2, n)
    while True:
        m -= 1
        if m < 0:
            last = m
            break
        if m % 3 == 0:
            continue
        steps += m
    put(3, steps)
    put(4, last)


@ct.kernel
def loops_kernel(out, n, m):
    loops(lambda i, x: ct.store(out, i, x), n, m)


@pytest.mark.parametrize("args", [(7, 9), (0, 5), (1, 1), (27, 12), (12, 30)])
def test_loops(run, args):
    both(run, loops_kernel, loops, *args)


def classify(x):
    if x < 0:
        return -1
    if x == 0:
        return 0
    if x > 100:
        if x > 1000:
            return 3
        x = x - 100
    elif x > 50:
        return 2
    else:
        x = x * 2
    return x + 1000


def find(n, wanted):
    for i in range(n):
        if i * i == wanted:
            return i
        for j in range(3):
            if i * i + j == wanted:
                return -i * 10 - j
    return -1


def digits(x):
    count = 0
    while True:
        x = x // 10
        count += 1
        if x == 0:
            return count


def returns(put, a, b):
    put(0, classify(a))
    put(1, classify(b))
    put(2, find(a, b))
    put(3, digits(b))
    if a > b:
        put(4, 1)
        return
    put(5, 2)
    for i in range(b):
        if i == 4:
            put(6, i)
            return
    put(7, 3)


@ct.kernel
def returns_kernel(out, a, b):
    returns(lambda i, x: ct.store(out, i, x), a, b)


@ct.kernel
def direct_returns(out, a, b):
    ct.store(out, 0, classify(a))
    ct.store(out, 1, classify(b))
    ct.store(out, 2, find(a, b))
    ct.store(out, 3, digits(b))
    if a > b:
        ct.store(out, 4, 1)
        return
    ct.store(out, 5, 2)
    for i in range(b):
        if i == 4:
            ct.store(out, 6, i)
            return
    ct.store(out, 7, 3)


@pytest.mark.parametrize("args", [(3, 60), (0, 2), (5, 4), (120, 2000), (9, 27), (4, 3)])
@pytest.mark.parametrize("kernel", [returns_kernel, direct_returns], ids=["helper", "kernel"])
def test_early_returns(run, kernel, args):
    both(run, kernel, returns, *args)


def conditions(put, a, b):
    put(0, 1 if a < b and b < 10 else 0)
    put(1, 1 if a < b < 10 else 0)
    put(2, 1 if a == 1 or b == 2 or a == b else 0)
    put(3, 1 if not (a > b) else 0)
    x = a if a > b else b if b > 3 else 7
    put(4, x)
    if a > 3 and (b > 3 or a == b):
        put(5, 1)
    elif a > 2:
        put(5, 2)
    else:
        put(5, 3)
    y, z = (a, b) if a > b else (b, a)
    put(6, y * 10 + z)
    put(7, 1 if a else 0)
    put(8, (a > 1) + (b > 1) * 2)


@ct.kernel
def conditions_kernel(out, a, b):
    conditions(lambda i, x: ct.store(out, i, x + 0), a, b)


@pytest.mark.parametrize("args", [(1, 2), (5, 4), (4, 4), (0, 0), (3, 12), (9, 5)])
def test_conditions(run, args):
    both(run, conditions_kernel, conditions, *args)


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 3

    def shifted(self, by):
        return replace(self, x=self.x + by)

    @property
    def both(self):
        return self.x + self.y

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)

    def __getitem__(self, i):
        return self.x if i == 0 else self.y


def power(x, n):
    return 1 if n == 0 else x * power(x, n - 1)


def defaults(a, b=10, *rest, scale=2):
    total = a + b * scale
    for r in ct.static_iter(rest):
        total = total + r
    return total


def named(a, **options):
    extra = options["extra"] if "extra" in options else 100  # noqa: SIM401
    return a * options.get("times", 2) + extra


def passed(a, **options):
    return named(a, **options)


def objects(put, a, b):
    p = Point(a)
    q = p.shifted(b)
    for i in range(3):
        q = q + Point(i, 1)
        if q.x > 12:
            p = q
    put(0, p.x)
    put(1, q.both)
    put(2, q[0] * 100 + q[1])
    mode = Mode.FAST
    put(3, 1 if mode == Mode.FAST else 2)
    put(4, mode.value + len(mode.name))
    pair = (a, b) + PAIR  # noqa: RUF005
    first, (second, third) = pair[0], (pair[1], pair[-1])
    put(5, first + second * 10 + third * 100 + len(pair[1:3]))
    put(6, power(a, 3))

    def scaled(x, by=LIMIT):
        return x * by + b

    put(7, scaled(a) + scaled(a, by=2))
    fs = (lambda x: x + a, lambda x: x * b)
    put(8, fs[0](1) + fs[1](2))
    put(9, 1 if 3 in PAIR and 7 not in PAIR else 0)
    nothing = None
    put(10, 1 if nothing is None else 2)
    put(11, 1 if PAIR == (2, 3) and PAIR != (3, 2) and "a" < "b" else 2)
    put(12, defaults(a, scale=b) + defaults(*PAIR))
    put(13, named(a) + named(a, times=b) * 2 + passed(a, extra=b, times=3))
    text = "".join(("a", "b"))
    put(14, 1 if text == "ab" else 2)


@ct.kernel
def objects_kernel(out, a, b):
    objects(lambda i, x: ct.store(out, i, x), a, b)


@pytest.mark.parametrize("args", [(1, 2), (9, 4), (11, 3)])
def test_objects_and_functions(run, args):
    both(run, objects_kernel, objects, *args)


def many(first, *rest):
    total = first
    for r in ct.static_iter(rest):
        total = total + r
    return total


@ct.kernel
def static(out, shape: ct.Constant, flags: ct.Constant):
    total = 0
    for i, extent in ct.static_iter(enumerate(shape)):
        total = total + extent * (i + 1)
    ct.store(out, 0, total)
    ct.store(out, 1, ct.static_eval(sum(s**2 for s in shape) + int(np.log2(shape[0]))))
    ct.static_assert(len(shape) == 2, f"shape is {shape}")
    doubled = tuple(2 * s for s in ct.static_iter(shape) if s > 4)
    ct.store(out, 2, many(*doubled) + len(doubled))
    if ct.static_eval("fast" in flags):
        ct.store(out, 3, 1)
    t = ct.zeros(shape, ct.float32)
    ct.store(out, 4, ct.static_eval(t.shape[0] * t.ndim))
    ct.store(out, 5, ct.ensure_constant(shape[1]))
    names = tuple(f"{a}{b}" for a in ct.static_iter(range(2)) for b in ct.static_iter("xy"))
    ct.static_assert(names == ("0x", "0y", "1x", "1y"))


def test_compile_time_evaluation(run):
    out, *_ = run(static, (1,), np.zeros(6, np.int32), (4, 8), ("fast",))
    np.testing.assert_array_equal(out, [20, 82, 17, 1, 8, 8])


@ct.kernel
def arrays_in_branches(x, y, out, pick):
    chosen = x if pick > 0 else y
    ct.store(out, 0, ct.load(chosen, 0, 4))
    a, b = x, y
    for _ in range(pick):
        a, b = b, a
    ct.store(a, 0, ct.load(b, 0, 4) + 1)
    ct.store(out, 1, ct.load(x, 0, 4) + ct.load(y, 0, 4))


@pytest.mark.parametrize("pick", [0, 1, 2])
def test_arrays_pass_through_branches_and_loops(run, pick):
    x, y = np.arange(4, dtype=np.float32), np.arange(4, dtype=np.float32) * 10
    before = x.copy(), y.copy()
    *_, out, _ = run(arrays_in_branches, (1,), x, y, np.zeros(8, np.float32), pick, orders=4)
    np.testing.assert_array_equal(out[:4], before[0] if pick else before[1])
    target, source = (x, before[1]) if pick % 2 == 0 else (y, before[0])
    np.testing.assert_array_equal(target, source + 1)
    np.testing.assert_array_equal(out[4:], x + y)


@ct.kernel
def unused_clash(x, out, n):
    t = ct.load(x, 0, 4)
    for i in range(n):
        t = ct.load(x, 0, 8)  # another shape: fine, since nothing reads the first after it
        ct.store(out, 0, t + i)
    if n > 1:  # noqa: SIM108
        u = ct.zeros((4,), ct.float32)
    else:
        u = 3
    del_me = u if False else 1
    ct.store(out, 1, ct.zeros((8,), ct.float32) + del_me)


def test_a_type_clash_matters_only_where_it_is_read(run):
    x = np.arange(8, dtype=np.float32)
    _, out, _ = run(unused_clash, (1,), x, np.zeros(16, np.float32), 3)
    np.testing.assert_array_equal(out[:8], x + 2)


@ct.function
def tile_only(x):
    return x + 1


@ct.function(host=True)
def anywhere(x):
    return x * 2


@ct.kernel
def decorated(out, n):
    ct.store(out, 0, tile_only(n) + anywhere(n))


def test_tile_functions(run):
    out, _ = run(decorated, (1,), np.zeros(1, np.int32), 5)
    assert out[0] == 16
    assert anywhere(4) == 8
    with pytest.raises(RuntimeError, match="tile_only can only be called from tile code"):
        tile_only(1)


@contextlib.contextmanager
def doubled(out, at, value):
    twice = value * 2
    ct.store(out, at, twice)
    yield twice
    ct.store(out, at + 1, twice + 1)


@ct.kernel
def contexts(out, n):
    with doubled(out, 0, n) as a, doubled(out, 2, a) as b:
        ct.store(out, 4, a + b)
        n = n + 1
    ct.store(out, 5, n)


def test_context_managers(run):
    out, _ = run(contexts, (1,), np.zeros(6, np.int32), 5)
    np.testing.assert_array_equal(out, [10, 11, 20, 21, 30, 6])


@contextlib.contextmanager
def counted(out, at):
    """Adds 10 on the way in and 1 on the way out."""
    ct.atomic_add(out, at, 10)
    yield at * 100
    ct.atomic_add(out, at, 1)


@contextlib.contextmanager
def counted_twice(out, at):
    with counted(out, at) as x:
        with counted(out, at + 1) as y:
            none = yield x + y
            ct.static_assert(none is None)
        ct.atomic_add(out, at, 5000)


@ct.kernel
def returning_from_with(out, n):
    with counted(out, 0) as x:
        if n == 1:
            return
        with counted(out, 1):
            if n == 2:
                return
            ct.store(out, 2, x + 7)
        if n == 3:
            return
        ct.store(out, 3, x + 8)
    ct.store(out, 4, 9)


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (0, [11, 11, 7, 8, 9]),
        (1, [11, 0, 0, 0, 0]),
        (2, [11, 11, 0, 0, 0]),
        (3, [11, 11, 7, 0, 0]),
    ],
)
def test_return_leaves_with(run, n, expected):
    out, _ = run(returning_from_with, (1,), np.zeros(5, np.int32), n)
    np.testing.assert_array_equal(out, expected)


def chosen(out, n):
    with counted(out, 0), counted(out, 1) as y:
        if n == 1:
            return 3
        for i in range(4):
            with counted(out, 2):
                if i == n:
                    return y + i
    return 5


def last_of_with(out, n):
    with counted(out, 0) as x:
        return x + n


@ct.kernel
def returned_from_with(out, n):
    ct.store(out, 3, chosen(out, n))
    ct.store(out, 4, last_of_with(out, n))


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (1, [22, 11, 0, 3, 1]),
        (2, [22, 11, 33, 102, 2]),
        (7, [22, 11, 44, 5, 7]),
    ],
)
def test_functions_return_from_with(run, n, expected):
    out, _ = run(returned_from_with, (1,), np.zeros(5, np.int32), n)
    np.testing.assert_array_equal(out, expected)


@ct.kernel
def loops_leave_with(out, n):
    total = 0
    for i in range(5):
        with counted(out, 0) as x, counted(out, 1):
            if i == n:
                continue
            if i > n + 1:
                break
            total = total + i + x
    ct.store(out, 4, total)
    j = 0
    with counted(out, 2):
        while True:
            with counted(out, 3):
                j = j + 1
                if j == n:
                    continue
                if j > 3:
                    break
                ct.atomic_add(out, 5, j)


def test_break_and_continue_leave_with(run):
    out, _ = run(loops_leave_with, (1,), np.zeros(6, np.int32), 1)
    np.testing.assert_array_equal(out, [44, 44, 11, 44, 2, 5])


@ct.kernel
def nested_managers(out, n):
    with counted_twice(out, 0) as x:
        if n == 1:
            return
        ct.store(out, 2, x)


@pytest.mark.parametrize(("n", "last"), [(0, 100), (1, 0)])
def test_a_manager_opens_others(run, n, last):
    out, _ = run(nested_managers, (1,), np.zeros(3, np.int32), n)
    np.testing.assert_array_equal(out, [5011, 11, last])


@contextlib.contextmanager
def toggled(out):
    state = 1
    yield
    state = state + 1
    ct.atomic_add(out, 0, state)


@ct.kernel
def left_in_both_arms(out, n):
    with toggled(out):
        if n == 0:
            return
        return


def test_both_arms_leave_from_the_same_state(run):
    out, _ = run(left_in_both_arms, (1,), np.zeros(1, np.int32), 0)
    np.testing.assert_array_equal(out, [2])


@ct.kernel
def printing_constants():
    ct.print(ct.full((2, 2), 3, ct.int32), ct.zeros((2,), ct.float32), ct.int32(7), 8)
    print(f"{ct.ones((2,), ct.int16)} {ct.float32(0.5)} {ct.float32(0.5):.3f}")
    print((ct.full((), 4, ct.int32), 5))


def test_constant_tiles_print_all_their_elements(capsys):
    ct.launch(None, (1,), printing_constants, ())
    assert capsys.readouterr().out == (
        "[[3, 3], [3, 3]] [0.000000, 0.000000] 7 8\n[1, 1] 0.5 0.500\n(4, 5)\n"
    )


def shown_twice(t):
    once = ct.exp(t)
    return ct.sin(once) + once


@ct.kernel
def many_calls(x):
    t = ct.load(x, 0, 16)
    t = shown_twice(t)
    t = shown_twice(t)
    t = shown_twice(t)
    t = shown_twice(t)
    t = shown_twice(t)
    t = shown_twice(t)
    ct.store(x, 0, t)


def test_every_operation_has_the_line_of_its_own_call():
    ct.launch(None, (1,), many_calls, (np.zeros(16, np.float32),))
    (program,) = many_calls.programs.values()
    ops = [op for op in program.module.walk() if op.name == "cuda_tile.exp"]
    places = [list(op.loc.chain())[-1].line for op in ops]
    first = many_calls.function.__code__.co_firstlineno + 3
    assert places == list(range(first, first + 6))
