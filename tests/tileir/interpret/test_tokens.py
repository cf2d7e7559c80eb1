"""Token order: what is unordered is found, and may happen in another order."""

from __future__ import annotations

import numpy as np
import pytest
from tile_harness import load

from tilewright.errors import SimulationError
from tilewright.tileir.interpret.findings import FindingLog
from tilewright.tileir.interpret.machine import Options, Report, interpret
from tilewright.tileir.interpret.tokens import Access, Tracker, join, segments

P = "tile<ptr<i32>>"
STORE = f": {P}, tile<i32> -> token"
LOAD = f": {P} -> tile<i32>, token"


def kernel(body: str) -> str:
    return f"""cuda_tile.module @m {{ entry @k(%p: {P}, %q: {P}) {{
        %one = constant <i32: 1> : tile<i32>
        %two = constant <i32: 2> : tile<i32>
        {body}
        return
    }} }}"""


def outcomes(body: str, seeds: int = 24) -> tuple[set[tuple[int, ...]], Report]:
    """Every result of adversarial runs, and the report of the last."""
    seen = set()
    for seed in range(seeds):
        x, y = np.zeros(2, np.int32), np.zeros(2, np.int32)
        options = Options(adversarial=True, seed=seed, raise_on_findings=False)
        report = interpret(load(kernel(body)), "k", (1, 1, 1), [x, y], options=options)
        seen.add((int(x[0]), int(y[0])))
    return seen, report


def test_a_load_without_the_token_of_a_store() -> None:
    body = f"""
        %t = store_ptr_tko weak %p, %one {STORE}
        %x, %u = load_ptr_tko weak %p {{}} {LOAD}
        %v = store_ptr_tko weak %q, %x {STORE}
    """
    seen, report = outcomes(body.format(""))
    assert seen == {(1, 0), (1, 1)}
    (finding,) = report.findings
    assert finding.kind == "unordered"
    assert {finding.op, finding.other} == {"store_ptr_tko", "load_ptr_tko"}
    assert finding.loc is not None
    assert finding.other_loc is not None
    assert {finding.loc.line, finding.other_loc.line} == {5, 6}
    assert finding.message.endswith("accesses too, and no token orders them")
    seen, report = outcomes(body.format("token=%t"))
    assert (seen, report.findings) == ({(1, 1)}, ())


def test_two_stores_without_a_token() -> None:
    body = f"""
        %t = store_ptr_tko weak %p, %one {STORE}
        %u = store_ptr_tko weak %p, %two {{}} {STORE}
    """
    assert outcomes(body.format(""))[0] == {(1, 0), (2, 0)}
    assert outcomes(body.format("token=%t"))[0] == {(2, 0)}


def test_data_flow_is_no_order() -> None:
    body = f"""
        %x, %t = load_ptr_tko weak %p {LOAD}
        %y = addi %x, %one : tile<i32>
        %u = store_ptr_tko weak %p, %y {{}} {STORE}
    """
    seen, report = outcomes(body.format(""))
    assert seen == {(1, 0)}
    assert [f.kind for f in report.findings] == ["unordered"]
    assert not outcomes(body.format("token=%t"))[1].findings


def test_joined_tokens_order_after_both() -> None:
    body = f"""
        %t = store_ptr_tko weak %p, %one {STORE}
        %u = store_ptr_tko weak %q, %two {STORE}
        %v = join_tokens %t, %u : token
        %x, %w = load_ptr_tko weak %p token=%v {LOAD}
        %y, %s = load_ptr_tko weak %q token=%v {LOAD}
        %e = join_tokens %w, %s : token
        %z = addi %x, %y : tile<i32>
        %f = store_ptr_tko weak %q, %z token=%e {STORE}
    """
    seen, report = outcomes(body)
    assert (seen, report.findings) == ({(1, 3)}, ())
    seen, report = outcomes(body.replace("%v = join_tokens %t, %u", "%v = join_tokens %t, %t"))
    assert seen > {(1, 3)}
    assert {f.kind for f in report.findings} == {"unordered"}


LOOP = f"""
    %lo = constant <i32: 0> : tile<i32>
    %hi = constant <i32: 4> : tile<i32>
    %start = make_token : token
    %end = for %i in (%lo to %hi, step %one) : tile<i32> iter_values(%k = %start) -> (token) {{
        %x, %t = load_ptr_tko weak %p token=%k {LOAD}
        %y = addi %x, %one : tile<i32>
        %u = store_ptr_tko weak %p, %y token=%t {STORE}
        continue %u : token
    }}
"""


def test_tokens_carried_by_loops() -> None:
    seen, report = outcomes(LOOP)
    assert (seen, report.findings) == ({(4, 0)}, ())
    seen, report = outcomes(LOOP.replace("continue %u", "continue %k"))
    assert len(seen) > 1
    assert {f.kind for f in report.findings} == {"unordered"}


def test_an_operation_may_clash_with_itself() -> None:
    body = LOOP.replace("token=%k", "").replace("token=%t", "")
    options = Options(check_tokens=True, raise_on_findings=False)
    x, y = np.zeros(2, np.int32), np.zeros(2, np.int32)
    report = interpret(load(kernel(body)), "k", (1, 1, 1), [x, y], options=options)
    assert x[0] == 4  # checked, but in program order
    messages = {f.message for f in report.findings}
    assert (
        "store_ptr_tko writes bytes that an earlier execution of the same accesses too, and no "
        "token orders them"
    ) in messages


def test_tokens_carried_by_branches() -> None:
    body = f"""
        %t = store_ptr_tko weak %p, %one {STORE}
        %c = cmpi equal %one, %two, signed : tile<i32> -> tile<i1>
        %k = if %c -> (token) {{
            yield %t : token
        }} else {{
            %s = store_ptr_tko weak %q, %two token=%t {STORE}
            yield %s : token
        }}
        %x, %u = load_ptr_tko weak %q token=%k {LOAD}
        %v = store_ptr_tko weak %p, %x token=%u {STORE}
    """
    seen, report = outcomes(body)
    assert (seen, report.findings) == ({(2, 2)}, ())


def test_atomics_are_no_clash_of_each_other_but_of_weak_accesses() -> None:
    rmw = f"atomic_rmw_tko relaxed device %p, add, %one : {P}, tile<i32> -> tile<i32>, token"
    body = f"%a, %t = {rmw}\n%b, %u = {rmw}"
    seen, report = outcomes(body)
    assert (seen, report.findings) == ({(2, 0)}, ())
    body += f"\n%x, %v = load_ptr_tko weak %p {LOAD}"
    assert {f.kind for f in outcomes(body)[1].findings} == {"unordered"}


def test_accesses_to_other_bytes_need_no_token() -> None:
    body = f"""
        %r = offset %p, %one : {P}, tile<i32> -> {P}
        %t = store_ptr_tko weak %p, %one {STORE}
        %u = store_ptr_tko weak %r, %two {STORE}
    """
    assert not outcomes(body)[1].findings


def test_blocks_run_in_another_order() -> None:
    text = f"""cuda_tile.module @m {{ entry @k(%p: {P}) {{
        %b, %y, %z = get_tile_block_id : tile<i32>
        %t = store_ptr_tko weak %p, %b {STORE}
        return
    }} }}"""
    seen = set()
    for seed in range(20):
        x = np.zeros(1, np.int32)
        interpret(load(text), "k", (2, 2, 1), [x], options=Options(adversarial=True, seed=seed))
        seen.add(int(x[0]))
    assert seen == {0, 1}
    x = np.zeros(1, np.int32)
    interpret(load(text), "k", (2, 2, 1), [x])
    assert x[0] == 1


def test_the_error_says_how_to_see_it_again() -> None:
    body = f"""
        %t = store_ptr_tko weak %p, %one {STORE}
        %u = store_ptr_tko weak %p, %two {STORE}
    """
    x = np.zeros(2, np.int32)
    options = Options(adversarial=True, seed=5)
    with pytest.raises(SimulationError) as caught:
        interpret(load(kernel(body)), "k", (1, 1, 1), [x, x.copy()], options=options)
    text = str(caught.value)
    assert text.startswith(
        "interpret k: unordered: store_ptr_tko writes bytes that an earlier store_ptr_tko"
    )
    assert "test.mlir:5" in text
    assert "test.mlir:6" in text
    assert text.endswith("reproduce with Options(adversarial=True, seed=5)")
    assert [f.kind for f in caught.value.findings] == ["unordered"]  # type: ignore[attr-defined]


def test_segments_of_bytes() -> None:
    starts, ends = segments(np.array([[0, 4], [16, 20], [4, 32]]), 4)
    assert (starts.tolist(), ends.tolist()) == ([0, 16, 32], [8, 24, 36])
    op = load(kernel("")).ops[0]

    def access(addresses: list[int], size: int) -> Access:
        return Access(op, False, *segments(np.array(addresses), size))

    columns = access([0, 16, 32], 4)
    assert not columns.overlaps(access([4, 20, 36], 4))
    assert columns.overlaps(access([4, 20, 35], 1))
    assert columns.overlaps(access([30], 4))
    assert not columns.overlaps(access([28], 4))
    assert not columns.overlaps(access([], 4))


def test_a_waiting_store_happens_before_what_its_token_orders() -> None:
    done: list[int] = []
    op = load(kernel("")).ops[0]

    class Always:
        def random(self) -> float:
            return 0.0  # every store waits, and one is let go at every access

        def choice(self, ready: list[int]) -> int:
            return ready[-1]

    tracker = Tracker(FindingLog(9), Always())  # type: ignore[arg-type]
    tracker.begin((0, 0, 0))
    history = 0
    for i in range(3):
        number = tracker.note(op, history, np.array([8 * i]), 8, writes=True, strong=False)
        tracker.submit(number, history, lambda i=i: done.append(i))
        history |= 1 << number
    assert done == []
    tracker.settle(1 << 1 | 1 << 0)
    assert done == [0, 1, 2]
    assert join([]).history == 0
