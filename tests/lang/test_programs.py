"""Random programs: what is captured computes what Python computes, effects in the same order."""

# ruff: noqa: ARG005 (what is tested is the code as written)

import linecache
from itertools import count

from evaluator import Captured, observe
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.lang.ranges import range_, range_constexpr

NAMES = ("a", "b", "c", "d")
_serial = count()


class Counter:
    def __init__(self, n):
        self.n = n
        self.last = (0, 1)

    def advance(self, by):
        self.n = (self.n + by) % 11
        self.last = (self.n, self.last[0])
        return self.n


atoms = st.sampled_from([*NAMES, "0", "1", "2", "5", "s.n", "s.last[1]", "t[0]", "t[1]"])


def _combine(children):
    two = st.tuples(children, children)
    return st.one_of(
        st.tuples(st.sampled_from(["+", "-", "*"]), two).map(
            lambda x: f"(({x[1][0]} {x[0]} {x[1][1]}) % 17)"
        ),
        two.map(lambda x: f"({x[0]} // ({x[1]} % 3 + 1))"),
        st.tuples(children, conditions, children).map(lambda x: f"({x[0]} if {x[1]} else {x[2]})"),
        two.map(lambda x: f"min({x[0]}, {x[1]})"),
        children.map(lambda x: f"s.advance({x} % 3)"),
        children.map(lambda x: f"helper({x})"),
        two.map(lambda x: f"({x[0]} or {x[1]})"),
    )


def _conditions(children):
    two = st.tuples(children, children)
    return st.one_of(
        st.tuples(two, st.sampled_from(["and", "or"])).map(
            lambda x: f"({x[0][0]} {x[1]} {x[0][1]})"
        ),
        children.map(lambda x: f"(not {x})"),
    )


conditions = st.recursive(
    st.one_of(
        st.tuples(atoms, st.sampled_from(["<", "<=", "==", "!=", ">"]), atoms).map(" ".join),
        st.tuples(atoms, atoms, atoms).map(lambda x: f"{x[0]} < {x[1]} <= {x[2]}"),
        st.tuples(atoms, atoms).map(lambda x: f"{x[0]} in ({x[1]}, 3)"),
        st.sampled_from(["True", "False", "s.advance(1) > 4", "t[0] % 2"]),
    ),
    _conditions,
    max_leaves=3,
)
expressions = st.recursive(atoms, _combine, max_leaves=4)


def _indent(lines):
    return ["    " + line for line in lines]


simple = st.one_of(
    st.tuples(st.sampled_from(NAMES), expressions).map(lambda x: [f"{x[0]} = {x[1]}"]),
    st.tuples(st.sampled_from(NAMES), expressions).map(lambda x: [f"{x[0]} += {x[1]} % 5"]),
    st.tuples(expressions, expressions).map(lambda x: [f"t = ({x[0]}, {x[1]})"]),
    expressions.map(lambda x: [f"s.n = {x} % 7"]),
    expressions.map(lambda x: [f"t[0] if False else observe({x})"]),
    expressions.map(lambda x: [f"bag[1] = {x}"]),
    st.just(["a, b = b, a"]),
)


def _statements(children):
    body = st.lists(children, min_size=1, max_size=3).map(lambda xs: [y for x in xs for y in x])
    number = st.sampled_from(["0", "1", "3", "a % 4", "d % 3", "s.n % 3"])
    return st.one_of(
        st.tuples(conditions, body).map(lambda x: [f"if {x[0]}:", *_indent(x[1])]),
        st.tuples(conditions, body, body).map(
            lambda x: [f"if {x[0]}:", *_indent(x[1]), "else:", *_indent(x[2])]
        ),
        st.tuples(st.sampled_from(["i", "j", "c"]), number, body).map(
            lambda x: [f"for {x[0]} in range({x[1]}):", *_indent(x[2])]
        ),
        st.tuples(number, number, body).map(
            lambda x: [f"for i in range_({x[0]}, {x[1]}, 2, unroll=2):", *_indent(x[2])]
        ),
        st.tuples(st.sampled_from(["1", "2"]), body).map(
            lambda x: [
                f"for j in range_constexpr({x[0]} + 1):",
                f"    if j == {x[0]}:",
                "        continue",
                *_indent(x[1]),
            ]
        ),
        st.tuples(number, conditions, body).map(
            lambda x: [
                "w_ = 0",
                f"while w_ < {x[0]} and {x[1]}:",
                "    w_ += 1",
                *_indent(x[2]),
            ]
        ),
    )


blocks = st.lists(st.recursive(simple, _statements, max_leaves=6), min_size=1, max_size=5).map(
    lambda xs: [y for x in xs for y in x]
)


def numbered(lines):
    """Gives every `while` a counter of its own, so that it ends."""
    number = 0
    made = []
    for line in lines:
        number += line.strip() == "w_ = 0"
        made.append(line.replace("w_", f"w{number}"))
    return made


def make(lines):
    text = "\n".join(
        [
            "def helper(x):",
            "    y = x",
            "    if x % 2 == 1:",
            "        y = x * 3 % 7",
            "    return y",
            "",
            "def program(a, b):",
            "    c = 0",
            "    d = b",
            "    s = Counter(1)",
            "    t = (a, 2)",
            "    bag = [a, 1]",
            *_indent(numbered(lines)),
            "    return a, b, c, d, s.n, s.last, t, bag",
            "",
        ]
    )
    name = f"generated_{next(_serial)}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope = {
        "Counter": Counter,
        "observe": observe,
        "range_": range_,
        "range_constexpr": range_constexpr,
    }
    exec(compile(text, name, "exec"), scope)
    return text, scope


@settings(max_examples=150, deadline=None)
@given(blocks, st.lists(st.tuples(st.integers(-4, 9), st.integers(-4, 9)), min_size=3, max_size=3))
def test_captured_programs_compute_what_python_computes(lines, inputs):
    text, scope = make(lines)
    made = Captured(scope["program"], 1, 2)
    for a, b in inputs:
        log = []
        expected = make_reference(text, log)(a, b)
        assert made(a, b) == expected
        assert made.log == log


def make_reference(text, log):
    scope = {
        "Counter": Counter,
        "observe": lambda *xs: log.extend(int(x) for x in xs),
        "range_": lambda *bounds, unroll: range(*bounds),
        "range_constexpr": range,
    }
    exec(text, scope)
    return scope["program"]
