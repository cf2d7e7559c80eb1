"""Field reports A09, A10 and A14: what other front ends got wrong, silently."""

# ruff: noqa: PT015 (what is tested is the code as written)

import pytest
from evaluator import Captured, observe, run

from tilewright.ir.ops import control
from tilewright.lang.arguments import const_expr
from tilewright.lang.jit import jit
from tilewright.lang.ranges import range_
from tilewright.lang.values import Int32
from tilewright.layout.layout import make_layout


def evaluated(x):
    observe(x)
    return x


def test_a09_chained_comparisons():
    def f(x):
        known = 0
        if 1 < 5 < 3:
            known = 1
        inside = 0
        if 0 < x < 8:
            inside = 1
        return known, inside

    made = Captured(f, 1)
    assert [made(x) for x in (9, 5, 0)] == [(0, 0), (0, 1), (0, 0)]


def test_a09_the_middle_operand_is_evaluated_once():
    def f(x):
        return 0 < evaluated(x) < 8

    made = Captured(f, 1)
    assert [made(x) for x in (9, 5, 0)] == [False, True, False]
    made(5)
    assert made.log == [5]


def test_a09_the_last_operand_only_where_python_evaluates_it():
    def f(x):
        return 0 < x < evaluated(8)

    made = Captured(f, 1)
    assert made(0) is False
    assert made.log == []
    assert made(3) is True
    assert made.log == [8]


class State:
    def __init__(self, s):
        self.s = s
        self.count = 0

    def advance(self):
        self.count = self.count + 1
        self.s = self.s * 2


def test_a10_i_mutation_after_a_branch():
    state = State(5)

    def f(lane):
        state.s = 5
        if lane == 0:
            observe(state.s)
        state.s = 1
        observe(state.s)
        return state.s

    made = Captured(f, 1)
    assert made(0) == 1
    assert made.log == [5, 1]
    made(3)
    assert made.log == [1]


def test_a10_i_mutation_inside_a_branch():
    def f(lane):
        state = State(5)
        alias = state
        if lane == 0:
            state.s = 7
            state.advance()
        return state.s, state.count, alias is state

    made = Captured(f, 1)
    assert made(0) == (14, 1, True)
    assert made(1) == (5, 0, True)


@pytest.mark.parametrize("neighbour", [False, True])
def test_a10_ii_compile_time_branches_inside_run_time_ones(neighbour):
    def alone(lane):
        if lane == 0:
            observe(0)
        else:
            if const_expr(False):
                assert False, "never traced"  # noqa: B011

    def beside(lane):
        if lane == 0:
            observe(0)
        else:
            observe(1)
            if const_expr(False):
                assert False, "never traced"  # noqa: B011
            observe(2)

    made = Captured(beside if neighbour else alone, 1)
    assert not made.ops(control.Assert)
    made(1)
    assert made.log == ([1, 2] if neighbour else [])


@pytest.mark.parametrize("unused", [False, True])
def test_a10_iii_an_unused_layout_changes_nothing(unused):
    def f(n, with_layout):
        total = 0
        if const_expr(with_layout):
            layout = make_layout((n, 4))  # noqa: F841
        for i in range(n):
            if i > 1:
                total = total + i
        return total

    def g(with_layout, n):
        return f(n, with_layout)

    assert run(g, 5, static=(unused,)) == 9


class View:
    """Stands for a view of a field of shared memory: made anew at each use."""

    def __init__(self, base, offset):
        self.base = base
        self.offset = offset

    def at(self, i):
        return self.base + self.offset + i


class Storage:
    def __init__(self, base):
        self.base = base

    def field(self):
        return View(self.base, 16)


def test_a10_iv_views_made_inside_roles():
    def f(warp):
        storage = Storage(warp * 100)
        result = 0
        if warp == 0:
            view = storage.field()
            result = view.at(1)
        elif warp == 1:
            view = storage.field()
            result = view.at(2)
        return result

    made = Captured(f, 1)
    assert [made(w) for w in (0, 1, 2)] == [17, 118, 0]


@pytest.mark.parametrize("stages", [0, 2, 3])
def test_a14_read_then_overwrite(stages):
    def f(nk, i):
        acc = 0
        s = 7
        for k in range_(nk, prefetch_stages=stages):
            acc = acc + s
            s = 100 * k + i
        return acc, s

    made = Captured(f, 1, 2)
    assert [made(8, i)[0] for i in range(3)] == [2107, 2114, 2121]
    assert made(0, 4) == (0, 7)


def test_states_in_loops():
    class Pipeline:
        def __init__(self, stages):
            self.stages = stages
            self.index = 0
            self.phase = Int32(0)
            self.parts = [State(1)]

        @jit
        def advance(self):
            self.index += 1
            if self.index == self.stages:
                self.index = 0
                self.phase = self.phase ^ 1
            self.parts[0].advance()

    def body(n):
        pipe = Pipeline(3)
        for _ in range(n):
            observe(pipe.index)
            pipe.advance()
        for _ in range(n):
            for _ in range(2):
                pipe.advance()
        return pipe.index, pipe.phase, pipe.stages, pipe.parts[0].s, pipe.parts[0].count

    made = Captured(body, 1)
    for n in range(5):
        assert made(n) == (3 * n % 3, n % 2, 3, 2 ** (3 * n), 3 * n)
        assert made.log == [k % 3 for k in range(n)]
    first = made.ops(control.For)[0]
    assert len(first.inits) == 4, "stages is not carried"


class Tally:
    def __init__(self):
        self.n = 0


GLOBAL_TALLY = Tally()


def count_globally(by):
    GLOBAL_TALLY.n = GLOBAL_TALLY.n + by


@jit
def count_twice():
    count_globally(1)
    count_globally(1)


def test_objects_that_only_helpers_reach():
    def f(a):
        tally = Tally()
        GLOBAL_TALLY.n = 0

        def count():
            tally.n += 1

        def indirectly():
            count()

        for _ in range(a):
            indirectly()
            count_twice()
        if a > 2:
            count()
        x = count() if a > 3 else None
        return tally.n, GLOBAL_TALLY.n, x

    made = Captured(f, 1)
    assert [made(n) for n in range(5)] == [(n + (n > 2) + (n > 3), 2 * n, None) for n in range(5)]
