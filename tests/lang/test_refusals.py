"""What cannot be captured is refused at its own line, with the reason and the remedy."""

# ruff: noqa: ARG001, SIM108, F841 (what is tested is the code as written)

import os
import subprocess
import sys

import pytest
from evaluator import Captured, observe, run

from tilewright.errors import CaptureError, TypeMismatchError
from tilewright.lang.jit import jit, kernel
from tilewright.lang.ranges import range_, range_constexpr
from tilewright.lang.values import Float32, Int32


def refused(fn, *numbers, error=CaptureError):
    with pytest.raises(error) as e:
        run(fn, *numbers)
    problem = e.value
    return problem.message, problem.loc.snippet() if problem.loc else None, problem.hint


def test_break_in_a_run_time_loop():
    def f(a):
        for i in range(a):
            if i is None:
                break
            break

    message, snippet, hint = refused(f, 1)
    assert message == "`break` inside a run-time loop: the kernel cannot jump out of it"
    assert snippet == ["break", "^^^^^"]
    assert hint == "put the rest of the body under `if not ...`, or loop with `while`"


def test_break_in_a_run_time_branch_of_an_unrolled_loop():
    def f(a):
        for i in range_constexpr(4):
            if i > a:
                break

    assert refused(f, 1)[0].startswith("`break` inside a run-time branch")


def test_continue_and_return():
    def f(a):
        while a > 0:
            a -= 1
            continue

    def g(a):
        if a > 0:
            return 1
        return 2

    assert refused(f, 1)[:2] == (
        "`continue` inside a run-time loop: the kernel cannot jump out of it",
        ["continue", "^^^^^^^^"],
    )
    assert refused(g, 1) == (
        "`return` inside a run-time branch: the kernel cannot jump out of it",
        ["return 1", "^^^^^^^^"],
        "put the rest of the function under `if not ...`, and return at its end",
    )


def test_raise_in_a_run_time_branch():
    def f(a):
        if a > 0:
            raise ValueError("no")

    message, snippet, hint = refused(f, 1)
    assert message == "`raise` inside a run-time branch: the kernel cannot jump out of it"
    assert snippet == ['raise ValueError("no")', "^" * 22]
    assert "use `assert` at run time" in hint


def test_jumps_are_free_at_compile_time():
    def f(a):
        for i in range_constexpr(5):
            if i == 1:
                continue
            if i == 3:
                break
            a += i
        if range_constexpr:
            return a
        return None

    assert run(f, 1) == 3


def test_values_that_cannot_be_one():
    def f(a):
        x = None
        if a > 0:
            x = (a, 1)
        return x

    with pytest.raises(TypeMismatchError) as e:
        run(f, 1)
    first = f.__code__.co_firstlineno
    assert e.value.message == (
        f"x is (a run-time Int32, int 1) of 2 items after the first branch (line {first + 3}), but"
        " None after the other: it cannot be one run-time value"
    )
    assert e.value.loc.line == first + 2

    def g(a):
        x = "left"
        if a > 0:
            x = "right"
        else:
            x = 5
        return x

    message, _, hint = refused(g, 1, error=TypeMismatchError)
    assert message.startswith("x is str 'right' after the first branch (line ")
    assert "but int 5 after the other (line " in message
    assert hint.startswith("give it the same type on every path")


def test_loops_that_change_more_than_numbers():
    def f(a):
        x = []
        for i in range(a):
            x.append(i)
        return x

    message, snippet, hint = refused(f, 1, error=TypeMismatchError)
    assert message == (
        "item 0 of a list exists only after its body: a list or dict cannot change its length at"
        " run time"
    )
    assert snippet[0] == "for i in range(a):"
    assert hint.startswith("make it with all of its items before")

    def g(a):
        x = {"n": 1}
        if a > 0:
            del x["n"]
        return x

    message, _, _ = refused(g, 1, error=TypeMismatchError)
    assert message.startswith("item 'n' of a dict exists only after the other:")


def test_a_run_time_index_into_python():
    def f(a):
        items = [1, 2, 3]
        total = 0
        for i in range(3):
            total += items[i]
        return total + a

    message, snippet, hint = refused(f, 1)
    assert message == (
        "a run-time Int32 is known only at run time, but Python needs it as an int here"
    )
    assert snippet == ["total += items[i]", "         ^^^^^^^^"]
    assert hint.startswith("loop with range_constexpr")


def test_truth_outside_of_statements():
    def f(a):
        return [x for x in (1, 2) if a > x]

    message, snippet, hint = refused(f, 1)
    assert message.startswith("a run-time Boolean is known only at run time, but its truth")
    assert snippet == ["return [x for x in (1, 2) if a > x]", " " * 29 + "^^^^^"]
    assert "const_expr(...)" in hint


def test_scopes():
    def f(a):
        global counter
        counter = a

    def g(a):
        n = 0

        def inner():
            nonlocal n
            n = 1

        inner()
        return n

    assert refused(f, 1) == (
        "`global counter` cannot be captured",
        ["global counter", "^" * 14],
        "return the new value, or keep it in an attribute of an object",
    )
    assert refused(g, 1)[0] == "`nonlocal n` cannot be captured"


def test_generators_and_async():
    def f(a):
        yield a

    async def g(a):
        return a

    assert refused(f, 1)[0] == "a generator (`yield`) cannot be captured"
    with pytest.raises(CaptureError, match="g is an async function: a kernel cannot await"):
        run(g, 1)


def test_walrus_in_a_conditional_operand():
    def f(a):
        return a > 0 and (b := a) > 1

    message, snippet, hint = refused(f, 1)
    assert message == "`:=` in an operand that may not be evaluated cannot be captured"
    assert snippet[1].strip() == "^" * 6
    assert hint == "assign before the expression"


def test_exceptions_do_not_cross_run_time_branches():
    def f(a):
        try:
            if a > 0:
                a = [][0]
        except IndexError:
            a = 1
        return a

    assert refused(f, 1)[0] == "an exception was caught that left a run-time branch or loop"


def test_endless_compile_time_while():
    def f(a):
        n = 0
        while n < 100_000:
            n += 1
        return n + a

    message, _, hint = refused(f, 1)
    assert message.startswith("while: the condition is known at compile time and still true after")
    assert "Int32(0)" in hint


def test_range_bounds():
    def f(a):
        for _ in range_(1.5):
            pass

    def g(a):
        for _ in range_constexpr(a):
            pass

    def h(a):
        return list(range_(a))

    assert refused(f, 1, error=TypeMismatchError)[0] == "range: expected integers, got float 1.5"
    assert refused(g, 1) == (
        "range_constexpr: expected bounds known at compile time, got a run-time Int32",
        ["for _ in range_constexpr(a):", "         ^^^^^^^^^^^^^^^^^^"],
        "loop with range(...), or pass the bound as a Constexpr argument",
    )
    assert refused(h, 1)[0] == (
        "a range with run-time bounds can only be looped over by a `for` statement"
    )


def test_functions_without_source():
    scope = {"kernel": kernel, "jit": jit}
    exec("@jit\ndef made(a):\n    return a\n", scope)
    with pytest.raises(CaptureError) as e:
        run(scope["made"].fn, 1)
    assert e.value.message == (
        "the source of made cannot be read (<string>): a kernel is captured from its source"
    )
    assert e.value.hint == "save it to a file and import it from there"

    anonymous = lambda a: a  # noqa: E731
    with pytest.raises(CaptureError, match="a lambda cannot be captured"):
        run(anonymous, 1)


def test_a_kernel_typed_into_a_repl(tmp_path):
    script = (
        "from tilewright.lang.jit import HostTrace, jit\n"
        "@jit\n"
        "def typed(): pass\n"
        "\n"
        "HostTrace('typed').run(typed, {})\n"
        "print('the interpreter survives')\n"
    )
    done = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=script,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )
    assert "save it to a file and import it from there" in done.stderr
    assert "the interpreter survives" in done.stdout


def test_operations_outside_of_kernels():
    with pytest.raises(CaptureError) as e:
        observe(1)
    assert e.value.message == (
        "a run-time constant is only possible inside a @kernel or @jit function"
    )


def test_call_chains_are_shown():
    def inner(x):
        return x.to(Float32) & 1

    def outer(a):
        return inner(a)

    with pytest.raises(Exception, match="and: expected integers or Booleans, got Float32") as e:
        run(outer, 1)
    chain = list(e.value.loc.chain())
    assert [place.function for place in chain] == ["inner", "outer"]
    assert [place.snippet()[1].strip() for place in chain] == ["^" * 17, "^" * 8]
    assert [place.snippet()[0] for place in chain] == [
        "return x.to(Float32) & 1",
        "return inner(a)",
    ]


def test_operations_carry_their_place():
    def f(a, b):
        x = a + b * 2
        return x if a > b else -x

    made = Captured(f, 1, 2)
    marked = {op.name: op.loc.snippet()[1] for op in made.block.walk() if op.loc}
    assert marked["arith.mul"] == "        ^^^^^"
    assert marked["arith.add"] == "    ^^^^^^^^^"
    assert marked["arith.cmp"] == "            ^^^^^"
    assert all(op.loc.caller is None for op in made.block.walk() if op.loc)


def test_names_become_hints():
    def f(a, b):
        total = a + b
        for step in range(a):
            total = total * 2 + step
        return total

    made = Captured(f, 1, 2)
    (loop,) = [op for op in made.block.walk() if op.name == "for"]
    assert [v.name for v in loop.body.args] == ["step", "total"]
    assert loop.inits[0].name == "total"


def test_int32_literals_out_of_range():
    with pytest.raises(TypeMismatchError, match="Int32: 4294967296 does not fit into 32 bits"):
        Int32(1 << 32)
