"""Blocks that wait for each other."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tile_harness import load

from tilewright.tileir.interpret.machine import Options, interpret
from tilewright.tileir.interpret.turns import Pause, take_turns

P = "tile<ptr<i32>>"
RMW = f": {P}, tile<i32> -> tile<i32>, token"

# Block b waits until the flag is the number of the blocks behind it, and adds one.
CHAIN = f"""cuda_tile.module @m {{ entry @k(%flag: {P}, %out: {P}) {{
    %b, %y, %z = get_tile_block_id : tile<i32>
    %n, %ny, %nz = get_num_tile_blocks : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %last = subi %n, %one : tile<i32>
    %mine = subi %last, %b : tile<i32>
    %k = loop : token {{
        %seen, %t = load_ptr_tko acquire device %flag : {P} -> tile<i32>, token
        %ready = cmpi equal %seen, %mine, signed : tile<i32> -> tile<i1>
        if %ready {{
            break %t : token
        }}
        continue
    }}
    %q = offset %out, %mine : {P}, tile<i32> -> {P}
    %s = store_ptr_tko weak %q, %b token=%k : {P}, tile<i32> -> token
    %old, %u = atomic_rmw_tko release device %flag, add, %one token=%s {RMW}
    return
}} }}"""


@pytest.mark.parametrize("options", [Options(), Options(adversarial=True, seed=4)])
def test_earlier_blocks_may_wait_for_later_ones(options: Options) -> None:
    before = threading.active_count()
    flag, out = np.zeros(1, np.int32), np.zeros(6, np.int32)
    interpret(load(CHAIN), "k", (6, 1, 1), [flag, out], options=options)
    assert flag[0] == 6
    assert out.tolist() == [5, 4, 3, 2, 1, 0]
    assert threading.active_count() == before


LOCK = f"""cuda_tile.module @m {{ entry @k(%lock: {P}, %sum: {P}) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %k = loop : token {{
        %was, %t = atomic_cas_tko acquire device %lock, %zero, %one : {P}, tile<i32> -> tile<i32>, token
        %free = cmpi equal %was, %zero, signed : tile<i32> -> tile<i1>
        if %free {{
            break %t : token
        }}
        continue
    }}
    %x, %u = load_ptr_tko weak %sum token=%k : {P} -> tile<i32>, token
    %y = addi %x, %one : tile<i32>
    %v = store_ptr_tko weak %sum, %y token=%u : {P}, tile<i32> -> token
    %old, %w = atomic_rmw_tko release device %lock, xchg, %zero token=%v {RMW}
    return
}} }}"""  # noqa: E501


@pytest.mark.parametrize("seed", range(4))
def test_locks(seed: int) -> None:
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    options = Options(adversarial=True, seed=seed)
    interpret(load(LOCK), "k", (8, 1, 1), [lock, total], options=options)
    assert (lock[0], total[0]) == (0, 8)


def test_blocks_that_wait_for_ever_are_found() -> None:
    before = threading.active_count()
    lock, total = np.ones(1, np.int32), np.zeros(1, np.int32)
    options = Options(max_iterations=200, raise_on_findings=False)
    report = interpret(load(LOCK), "k", (4, 1, 1), [lock, total], options=options)
    assert [(f.kind, f.count) for f in report.findings] == [("livelock", 1)]
    assert total[0] == 0
    assert threading.active_count() == before


def test_turns_go_to_those_that_have_not_begun() -> None:
    order: list[str] = []

    def job(name: str, pauses: int):  # type: ignore[no-untyped-def]
        def run(pause: Pause) -> bool:
            for i in range(pauses):
                order.append(f"{name}{i}")
                pause()
            order.append(f"{name}!")
            return True

        return run

    take_turns([job("a", 2), job("b", 1), job("c", 0)])
    assert order == ["a0", "b0", "c!", "a1", "b!", "a!"]


def test_an_error_unwinds_the_others() -> None:
    before = threading.active_count()
    unwound: list[str] = []

    def waits(pause: Pause) -> bool:
        try:
            while True:
                pause()
        finally:
            unwound.append("waits")

    def fails(pause: Pause) -> bool:
        del pause
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        take_turns([waits, fails, waits])
    assert unwound == ["waits"]
    assert threading.active_count() == before
