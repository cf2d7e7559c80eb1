"""Loops, branches, early exits, assertions."""

from __future__ import annotations

import numpy as np
import pytest
from tile_harness import KEEP, found, load, one, run

from tilewright.tileir.interpret.machine import Options, interpret


def constants(**values: int) -> str:
    return "\n".join(f"%{k} = constant <i32: {v}> : tile<i32>" for k, v in values.items())


def test_for_carries_values() -> None:
    line = (
        constants(lo=2, hi=9, by=3)
        + """
        %r0, %r1 = for %i in (%lo to %hi, step %by) : tile<i32> iter_values(%s = %a0, %p = %a0) -> (tile<i32>, tile<i32>) {
            %n = addi %s, %i : tile<i32>
            continue %n, %s : tile<i32>, tile<i32>
        }
    """  # noqa: E501
    )
    (total, before), _ = run(line, [("i32", 100)], ["i32", "i32"])
    assert (total, before) == (115, 107)  # 100 + 2 + 5 + 8


def test_carried_values_swap() -> None:
    line = (
        constants(lo=0, hi=3, by=1)
        + """
        %r0, %r1 = for %i in (%lo to %hi, step %by) : tile<i32> iter_values(%x = %a0, %y = %a1) -> (tile<2xf32>, tile<2xf32>) {
            continue %y, %x : tile<2xf32>, tile<2xf32>
        }
    """  # noqa: E501
    )
    (x, y), _ = run(line, [("2xf32", 1), ("2xf32", 2)], ["2xf32", "2xf32"])
    assert (x.tolist(), y.tolist()) == ([2, 2], [1, 1])


def test_for_without_iterations_gives_its_inits() -> None:
    line = (
        constants(lo=5, hi=5, by=1)
        + """
        %r0 = for %i in (%lo to %hi, step %by) : tile<i32> iter_values(%s = %a0) -> (tile<i32>) {
            continue %i : tile<i32>
        }
    """
    )
    assert one(line, [("i32", 7)], "i32") == 7


def test_bounds_are_signed_unless_unsigned() -> None:
    counting = """
        %z = constant <i32: 0> : tile<i32>
        %r0 = for {} %i in (%lo to %hi, step %by) : tile<i32> iter_values(%s = %z) -> (tile<i32>) {{
            %n = addi %s, %by : tile<i32>
            continue %n : tile<i32>
        }}
    """
    for word, want in (("", 3), ("unsigned", 0)):
        line = constants(lo=-2, hi=1, by=1) + counting.format(word)
        assert one(line, [], "i32") == want
    line = """
        %lo = constant <i8: 126> : tile<i8>
        %hi = constant <i8: -126> : tile<i8>
        %by = constant <i8: 1> : tile<i8>
        %r0 = for unsigned %i in (%lo to %hi, step %by) : tile<i8> iter_values(%s = %lo) -> (tile<i8>) {
            continue %i : tile<i8>
        }
    """  # noqa: E501
    assert one(line, [], "i8") == -127


@pytest.mark.parametrize("step", [0, -1])
def test_steps_must_be_positive(step: int) -> None:
    line = (
        constants(lo=0, hi=4, by=step)
        + """
        %r0 = for %i in (%lo to %hi, step %by) : tile<i32> iter_values(%s = %a0) -> (tile<i32>) {
            continue %i : tile<i32>
        }
    """
    )
    out, kind, message = found(line, [("i32", 9)], "i32")
    assert (kind, message) == ("loop_step", f"for: step is {step}, expected at least 1")
    assert out == 9


COLLATZ = """
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %three = constant <i32: 3> : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %r0 = loop iter_values(%n = %a0, %k = %zero) : tile<i32>, tile<i32> -> tile<i32> {
        %done = cmpi equal %n, %one, signed : tile<i32> -> tile<i1>
        if %done {
            break %k : tile<i32>
        }
        %k1 = addi %k, %one : tile<i32>
        %rest = remi %n, %two signed : tile<i32>
        %odd = cmpi equal %rest, %one, signed : tile<i32> -> tile<i1>
        if %odd {
            %m = muli %n, %three : tile<i32>
            %up = addi %m, %one : tile<i32>
            continue %up, %k1 : tile<i32>, tile<i32>
        }
        %half = divi %n, %two signed : tile<i32>
        continue %half, %k1 : tile<i32>, tile<i32>
    }
"""


@pytest.mark.parametrize("options", [Options(), Options(adversarial=True)])
def test_loops_break_and_continue_from_branches(options: Options) -> None:
    (steps,), _ = run(COLLATZ, [("i32", 27)], ["i32"], options)
    assert steps == 111


def test_branches_yield() -> None:
    line = """
        %zero = constant <i32: 0> : tile<i32>
        %neg = cmpi less_than %a0, %zero, signed : tile<i32> -> tile<i1>
        %r0, %r1 = if %neg -> (tile<i32>, tile<i1>) {
            %m = negi %a0 : tile<i32>
            yield %m, %neg : tile<i32>, tile<i1>
        } else {
            yield %a0, %neg : tile<i32>, tile<i1>
        }
    """
    for value in (-5, 5):
        (size, negative), _ = run(line, [("i32", value)], ["i32", "i1"])
        assert (size, negative) == (5, value < 0)


EARLY = """cuda_tile.module @m { entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
    %b, %y, %z = get_tile_block_id : tile<i32>
    %gx, %gy, %gz = get_num_tile_blocks : tile<i32>
    %q = offset %p, %b : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %out = cmpi greater_than_or_equal %b, %n, signed : tile<i32> -> tile<i1>
    if %out {
        return
    }
    %t = store_ptr_tko weak %q, %gx : tile<ptr<i32>>, tile<i32> -> token
    return
} }"""


def test_blocks_may_return_early() -> None:
    for options in (Options(), *(Options(adversarial=True, seed=s) for s in range(8))):
        x = np.zeros(4, np.int32)
        interpret(load(EARLY), "k", (4, 1, 1), [x, 2], options=options)
        assert x.tolist() == [4, 4, 0, 0]


def test_nothing_runs_behind_a_return() -> None:
    text = """cuda_tile.module @m { entry @k(%n: tile<i32>, %stop: tile<i1>) {
        if %stop {
            return
        }
        %q = divi %n, %n signed : tile<i32>
        return
    } }"""
    assert not interpret(load(text), "k", (1, 1, 1), [0, True], options=KEEP).findings
    assert interpret(load(text), "k", (1, 1, 1), [0, False], options=KEEP).findings


def test_return_from_a_loop() -> None:
    text = """cuda_tile.module @m { entry @k(%p: tile<ptr<i32>>) {
        %one = constant <i32: 1> : tile<i32>
        loop {
            %t = store_ptr_tko weak %p, %one : tile<ptr<i32>>, tile<i32> -> token
            return
        }
        %u = store_ptr_tko weak %p, %one : tile<ptr<i32>>, tile<i32> -> token
        return
    } }"""
    x = np.zeros(1, np.int32)
    interpret(load(text), "k", (1, 1, 1), [x])
    assert x[0] == 1


def test_loops_without_end_are_found() -> None:
    text = """cuda_tile.module @m { entry @k() {
        loop {
            continue
        }
        return
    } }"""
    options = Options(max_iterations=1000, raise_on_findings=False)
    (finding,) = interpret(load(text), "k", (1, 1, 1), [], options=options).findings
    assert (finding.kind, finding.message) == ("livelock", "loop: 1000 iterations and no break")


def test_assertions_are_findings_and_the_kernel_goes_on() -> None:
    line = 'assert %a0, "all of x" : tile<2x2xi1>\n%r0 = negi %a1 : tile<i32>'
    assert one(line, [("2x2xi1", True), ("i32", 4)], "i32") == -4
    out, kind, message = found(line, [("2x2xi1", [[1, 1], [0, 0]]), ("i32", 4)], "i32")
    assert kind == "assertion"
    assert message == "'all of x' does not hold at element (1, 0), 2 of 4 false"
    assert out == -4
    report = run('assert %a0, "x" : tile<i1>', [("i1", False)], [], KEEP)[1]
    assert report.findings[0].message == "'x' does not hold"
