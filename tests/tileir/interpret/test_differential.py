"""Random programs: arithmetic against NumPy, memory against a model of token order."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_harness import KEEP, load, run

from tilewright.tileir.interpret.machine import Options, interpret

Array = Any
SHAPE = (4, 8)

INTS: dict[str, Callable[[Array, Array], Array]] = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "maxi": np.maximum,
    "mini": np.minimum,
}
FLOATS: dict[str, Callable[[Array, Array], Array]] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
}


@st.composite
def programs(draw: st.DrawFn, kind: str) -> tuple[str, Array, list[Array]]:
    """Lines of Tile IR, an input, and what NumPy makes of it: the values in order."""
    table = INTS if kind == "i32" else FLOATS
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    if kind == "i32":
        first = rng.integers(-(2**31), 2**31, SHAPE).astype(np.int32)
    else:
        first = rng.standard_normal(SHAPE).astype(np.float32)
    tile = f"tile<4x8x{kind}>"
    values, lines = [first], []
    with np.errstate(all="ignore"):
        for i in range(draw(st.integers(1, 8))):
            a, b = (draw(st.integers(0, len(values) - 1)) for _ in range(2))
            move = draw(st.sampled_from(["op", "op", "turn", "sum", "half", "scan"]))
            name, x, y = f"%v{i + 1}", values[a], values[b]
            left, right = f"%v{a}", f"%v{b}"
            if move == "op":
                op = draw(st.sampled_from(sorted(table)))
                sign = " signed" if op in ("maxi", "mini") else ""
                lines.append(f"{name} = {op} {left}, {right}{sign} : {tile}")
                values.append(table[op](x, y))
            elif move == "turn":
                lines += [
                    f"%t{i} = permute {left} [1, 0] : {tile} -> tile<8x4x{kind}>",
                    f"{name} = reshape %t{i} : tile<8x4x{kind}> -> {tile}",
                ]
                values.append(x.T.reshape(SHAPE))
            elif move == "half":
                lines += [
                    f"%z{i} = constant <i32: 0> : tile<i32>",
                    f"%o{i} = constant <i32: 1> : tile<i32>",
                    f"%l{i} = extract {left}[%z{i}, %o{i}] : {tile} -> tile<4x4x{kind}>",
                    f"%h{i} = extract {right}[%z{i}, %z{i}] : {tile} -> tile<4x4x{kind}>",
                    f"{name} = cat %l{i}, %h{i} dim = 1 : tile<4x4x{kind}>, tile<4x4x{kind}> "
                    f"-> {tile}",
                ]
                values.append(np.concatenate((x[:, 4:], y[:, :4]), 1))
            else:
                # Extrema: the same in any order, for floats too.
                dim = draw(st.integers(0, 1))
                op = "maxi %e, %a signed" if kind == "i32" else "maxf %e, %a propagate_nan"
                zero = "0" if kind == "i32" else "0.0"
                shape = "8" if dim == 0 else "4"
                wide = "1x8" if dim == 0 else "4x1"
                body = (
                    f"(%e: tile<{kind}>, %a: tile<{kind}>) {{\n%s = {op} : tile<{kind}>\n"
                    f"yield %s : tile<{kind}>\n}}"
                )
                head = f"{left} dim={dim}"
                ident = f"identities=[{zero} : {kind}]"
                if move == "scan":
                    lines.append(
                        f"{name} = scan {head} reverse=true {ident} : {tile} -> {tile} {body}"
                    )
                    flipped = np.flip(x, dim)
                    values.append(np.flip(np.maximum.accumulate(flipped, dim), dim))
                else:
                    lines += [
                        f"%m{i} = reduce {head} {ident} : {tile} -> tile<{shape}x{kind}> {body}",
                        f"%w{i} = reshape %m{i} : tile<{shape}x{kind}> -> tile<{wide}x{kind}>",
                        f"{name} = broadcast %w{i} : tile<{wide}x{kind}> -> {tile}",
                    ]
                    values.append(np.broadcast_to(np.max(x, dim, keepdims=True), SHAPE))
    return "\n".join(lines), first, values


def check(program: tuple[str, Array, list[Array]], kind: str) -> None:
    lines, first, values = program
    text = re.sub(r"%v0\b", "%a0", lines)
    text = re.sub(rf"%v{len(values) - 1}\b", "%r0", text)
    for options in (Options(), Options(adversarial=True, seed=len(values))):
        (out,), _ = run(text, [(f"4x8x{kind}", first)], [f"4x8x{kind}"], options)
        assert np.array_equal(out, values[-1], equal_nan=kind != "i32"), lines


@settings(max_examples=40, deadline=None)
@given(programs("i32"))
def test_integer_programs(program: tuple[str, Array, list[Array]]) -> None:
    check(program, "i32")


@settings(max_examples=40, deadline=None)
@given(programs("f32"))
def test_float_programs(program: tuple[str, Array, list[Array]]) -> None:
    check(program, "f32")


# --- memory -------------------------------------------------------------------------------------

VIEW = "partition_view<tile=(2), tensor_view<8xi32, strides=[1]>>"


@st.composite
def memory_programs(draw: st.DrawFn) -> tuple[list[tuple[str, int]], list[list[int]]]:
    """Accesses (kind, tile) of a tensor of four tiles, and which earlier ones each waits for."""
    n = draw(st.integers(2, 7))
    kinds = st.sampled_from(["load", "store", "load"])
    accesses = [(draw(kinds), draw(st.integers(0, 3))) for _ in range(n)]
    waits = [
        draw(st.lists(st.integers(0, i - 1), max_size=2, unique=True)) if i else []
        for i in range(n)
    ]
    return accesses, waits


def text_of(accesses: list[tuple[str, int]], waits: list[list[int]]) -> str:
    """A kernel with these accesses; access i stores i + 1, and the last tile loaded is printed."""
    lines = []
    for i, ((kind, tile), before) in enumerate(zip(accesses, waits, strict=True)):
        token = ""
        if len(before) == 2:
            lines.append(f"%j{i} = join_tokens %t{before[0]}, %t{before[1]} : token")
            token = f"token = %j{i}"
        elif before:
            token = f"token = %t{before[0]}"
        lines.append(f"%i{i} = constant <i32: {tile}> : tile<i32>")
        if kind == "load":
            lines.append(
                f"%x{i}, %t{i} = load_view_tko weak %v[%i{i}] {token} : {VIEW}, tile<i32> -> "
                "tile<2xi32>, token"
            )
            lines.append(f'%p{i} = print_tko "{i}:%d", %x{i} : tile<2xi32> -> token')
        else:
            lines.append(f"%c{i} = constant <i32: {i + 1}> : tile<2xi32>")
            lines.append(
                f"%t{i} = store_view_tko weak %c{i}, %v[%i{i}] {token} : tile<2xi32>, {VIEW}, "
                "tile<i32> -> token"
            )
    body = "\n".join(lines)
    return f"""cuda_tile.module @m {{ entry @k(%p: tile<ptr<i32>>) {{
        %tv = make_tensor_view %p, shape = [8], strides = [1] : tensor_view<8xi32, strides=[1]>
        %v = make_partition_view %tv : {VIEW}
        {body}
        return
    }} }}"""


def in_program_order(accesses: list[tuple[str, int]]) -> tuple[list[int], list[str]]:
    memory, printed = [0, 0, 0, 0], []
    for i, (kind, tile) in enumerate(accesses):
        if kind == "load":
            printed.append(f"{i}:[{memory[tile]}, {memory[tile]}]")
        else:
            memory[tile] = i + 1
    return [m for m in memory for _ in range(2)], printed


@settings(max_examples=60, deadline=None)
@given(memory_programs(), st.integers(0, 1000))
def test_token_order_against_its_definition(
    program: tuple[list[tuple[str, int]], list[list[int]]], seed: int
) -> None:
    accesses, waits = program
    before: list[set[int]] = []
    for direct in waits:
        before.append(set(direct).union(*(before[d] for d in direct)))
    clashes = {
        (i, j)
        for j, (kind, tile) in enumerate(accesses)
        for i, (other, there) in enumerate(accesses[:j])
        if tile == there and "store" in (kind, other) and i not in before[j]
    }
    block = load(text_of(accesses, waits))
    plain = np.zeros(8, np.int32)
    report = interpret(block, "k", (1, 1, 1), [plain], options=KEEP)
    memory, printed = in_program_order(accesses)
    assert plain.tolist() == memory
    assert list(report.printed) == printed
    options = Options(adversarial=True, seed=seed, raise_on_findings=False)
    other = np.zeros(8, np.int32)
    report = interpret(block, "k", (1, 1, 1), [other], options=options)
    assert len(report.findings) == len(clashes)
    assert {f.kind for f in report.findings} <= {"unordered"}
    if not clashes:
        assert other.tolist() == memory
        assert sorted(report.printed) == sorted(printed)
