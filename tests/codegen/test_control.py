"""Loops and branches: variables are shared and assigned in an order that loses nothing."""

from __future__ import annotations

import pytest
from kernels import Kernel, gmem, scalar

from tilewright.codegen.cuda.emit_control import quoted
from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.ir.core import Func
from tilewright.ir.ops import arith, control, memory, sync
from tilewright.runtime.toolchain import compile_cubin


def body_of(func: Func) -> str:
    text = emit_cuda(func, line_info=False)
    compile_cubin(text, func.name, "sm_80")
    return text[text.index("{\n", text.index("__global__")) + 2 : text.rindex("}")]


def test_swapped_carried_values_need_one_temporary() -> None:
    k = Kernel("fib", out=gmem("i32"), n=scalar("i32"))
    with k.loop(k.i32(0), k.n, inits=[k.i32(0), k.i32(1)], names=["a", "b"]) as loop:
        a, b = loop.args
        loop.end(b, a)
    k.store(k.out, loop.results[0])
    assert body_of(k.done()) == (
        "  int a = 0;\n"
        "  int b = 1;\n"
        "  for (int i = 0; i < n; i++) {\n"
        "    const int next_a = b;\n"
        "    b = a;\n"
        "    a = next_a;\n"
        "  }\n"
        "  out[0] = a;\n"
    )


def test_a_chain_of_carried_values_needs_none() -> None:
    k = Kernel("fib", out=gmem("i32"), n=scalar("i32"))
    with k.loop(k.i32(0), k.n, inits=[k.i32(0), k.i32(1)], names=["a", "b"]) as loop:
        _a, b = loop.args
        loop.end(b, k.add(b, k.i32(1)))
    k.store(k.out, loop.results[0])
    assert "    a = b;\n    b++;\n" in body_of(k.done())


def test_a_sum_that_both_need_is_kept() -> None:
    k = Kernel("fib", out=gmem("i32"), n=scalar("i32"))
    with k.loop(k.i32(0), k.n, inits=[k.i32(0), k.i32(1)], names=["a", "b"]) as loop:
        a, b = loop.args
        loop.end(b, k.add(a, b))
    k.store(k.out, loop.results[0])
    text = body_of(k.done())
    assert "    const int next_a = b;\n    b = a + b;\n    a = next_a;\n" in text


@pytest.mark.parametrize(
    ("unroll", "pragma"),
    [(-1, ""), (0, "#pragma unroll\n  "), (1, "#pragma unroll 1\n  "), (4, "#pragma unroll 4\n  ")],
)
def test_unrolling_and_steps(unroll: int, pragma: str) -> None:
    k = Kernel("steps", out=gmem("i32"), n=scalar("i32"))
    with k.loop(k.n, k.i32(0), k.i32(-2), unroll=unroll) as down:
        k.store(k.at(k.out, down.iv), k.i32(1))
    with k.loop(k.i32(0), k.n, k.special("grid_dim")) as up:
        k.store(k.at(k.out, up.iv), k.i32(1))
    text = body_of(k.done())
    assert f"  {pragma}for (int i = n; i > 0; i -= 2) {{\n    out[i] = 1;\n  }}\n" in text
    assert "for (int i = 0; i < n; i += gridDim.x) {" in text


def test_nested_loops_share_the_variable_of_a_pipeline_state() -> None:
    k = Kernel("ring", out=gmem("i32"), n=scalar("i32"))
    start = [k.i32(0), k.i32(0)]
    with k.loop(k.i32(0), k.n, inits=start, names=["stage", "phase"], iv="t") as outer:
        with k.loop(
            k.i32(0), outer.iv, inits=outer.args, names=["stage", "phase"], iv="k"
        ) as inner:
            stage, phase = inner.args
            following = k.add(stage, k.i32(1))

            def wrap(phase=phase):  # type: ignore[no-untyped-def]
                k.do(sync.SyncThreads)
                return [k.i32(0), k.v(arith.Xor, phase, k.i32(1))]

            inner.end(
                *k.branch(
                    k.cmp(following, "eq", k.i32(4)),
                    wrap,
                    lambda following=following, phase=phase: [following, phase],
                )
            )
        outer.end(*inner.results)
    k.store(k.out, outer.results[0])
    assert body_of(k.done()) == (
        "  int stage = 0;\n"
        "  int phase = 0;\n"
        "  for (int t = 0; t < n; t++) {\n"
        "    for (int k = 0; k < t; k++) {\n"
        "      const int v0 = stage + 1;\n"
        "      if (v0 == 4) {\n"
        "        __syncthreads();\n"
        "        stage = 0;\n"
        "        phase ^= 1;\n"
        "      } else {\n"
        "        stage = v0;\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "  out[0] = stage;\n"
    )


def test_a_carried_value_that_is_read_after_the_inner_loop_is_not_overwritten() -> None:
    k = Kernel("keep", out=gmem("i32"), n=scalar("i32"))
    with k.loop(k.i32(0), k.n, inits=[k.i32(0)], names=["s"], iv="t") as outer:
        (s,) = outer.args
        with k.loop(k.i32(0), k.n, inits=[s], names=["s"], iv="k") as inner:
            inner.end(k.add(inner.args[0], k.i32(1)))
        k.store(k.at(k.out, outer.iv), s)
        outer.end(inner.results[0])
    text = body_of(k.done())
    assert "    int s_1 = s;\n" in text
    assert "    out[t] = s;\n    s = s_1;\n" in text


def test_an_expression_of_a_variable_is_saved_before_the_variable_changes() -> None:
    k = Kernel("saved", out=gmem("i32"), n=scalar("i32"))
    with k.loop(k.i32(0), k.n, inits=[k.i32(0)], names=["s"], iv="t") as outer:
        before = k.mul(outer.args[0], k.i32(3))
        with k.loop(k.i32(0), k.n, inits=[outer.args[0]], names=["s"], iv="k") as inner:
            inner.end(k.add(inner.args[0], k.i32(1)))
        k.store(k.at(k.out, outer.iv), before)
        outer.end(inner.results[0])
    text = body_of(k.done())
    assert "    const int v0 = s * 3;\n    for (int k = 0; k < n; k++) {\n      s++;\n" in text
    assert "    out[t] = v0;\n" in text


def test_a_loop_variable_is_never_shared() -> None:
    k = Kernel("nested", out=gmem("i32"), n=scalar("i32"))
    with k.loop(k.i32(0), k.n, iv="i") as outer:
        with k.loop(k.i32(0), k.n, inits=[outer.iv], iv="j") as inner:
            inner.end(k.add(inner.args[0], k.i32(2)))
        k.store(k.out, inner.results[0])
    text = body_of(k.done())
    assert "    int i_1 = i;\n    for (int j = 0; j < n; j++) {\n      i_1 += 2;\n" in text


def test_a_stop_that_reads_a_changing_variable_is_saved() -> None:
    k = Kernel("stop", out=gmem("i32"), n=scalar("i32"))
    with k.loop(k.i32(0), k.n, inits=[k.i32(8)], names=["s"], iv="t") as outer:
        (s,) = outer.args
        with k.loop(k.i32(0), s, inits=[s], names=["s"], iv="k") as inner:
            inner.end(k.sub(inner.args[0], k.i32(1)))
        outer.end(inner.results[0])
    k.store(k.out, outer.results[0])
    text = body_of(k.done())
    assert "    const int stop = s;\n    for (int k = 0; k < stop; k++) {\n      s--;\n" in text


def test_while_with_a_pure_condition_is_a_plain_while() -> None:
    k = Kernel("halve", out=gmem("i32"), n=scalar("i32"))
    result = k.whilst(
        [k.n, k.i32(0)],
        ["x", "steps"],
        lambda x, steps: (k.cmp(x, "gt", k.i32(1)), [x, steps]),
        lambda x, steps: [k.div(x, k.i32(2)), k.add(steps, k.i32(1))],
    )
    k.store(k.out, result[1])
    assert body_of(k.done()) == (
        "  int x = n;\n"
        "  int steps = 0;\n"
        "  while (x > 1) {\n"
        "    x >>= 1;\n"
        "    steps++;\n"
        "  }\n"
        "  out[0] = steps;\n"
    )


def test_while_with_work_before_the_condition_breaks() -> None:
    k = Kernel("spin", flags=gmem("i32"), out=gmem("i32"))

    def before(x):  # type: ignore[no-untyped-def]
        k.do(sync.SyncThreads)
        seen = k.load(k.at(k.flags, x), name="seen")
        return k.cmp(seen, "eq", k.i32(0)), [k.add(x, seen)]

    result = k.whilst([k.i32(0)], ["x"], before, lambda y: [k.add(y, k.i32(1))])
    k.store(k.out, result[0])
    assert body_of(k.done()) == (
        "  int x = 0;\n"
        "  int x_1;\n"
        "  while (true) {\n"
        "    __syncthreads();\n"
        "    const int seen = flags[x];\n"
        "    x_1 = x + seen;\n"
        "    if (seen != 0) break;\n"
        "    x = x_1 + 1;\n"
        "  }\n"
        "  out[0] = x_1;\n"
    )


def test_small_pure_branches_are_conditional_expressions() -> None:
    k = Kernel("choose", out=gmem("i32"), a=scalar("i32"), b=scalar("i32"))
    (chosen,) = k.branch(
        k.cmp(k.a, "lt", k.b), lambda: [k.add(k.a, k.i32(1))], lambda: [k.div(k.b, k.a)]
    )
    k.store(k.out, chosen)
    assert "out[0] = a < b ? a + 1 : floor_div<int>(b, a);" in body_of(k.done())


def test_else_if_chains_and_lone_else() -> None:
    k = Kernel("roles", out=gmem("i32"), a=scalar("i32"))

    def write(value: int):  # type: ignore[no-untyped-def]
        return lambda: k.store(k.at(k.out, value), k.i32(value))

    k.branch(
        k.cmp(k.a, "eq", k.i32(0)),
        write(0),
        lambda: k.branch(k.cmp(k.a, "eq", k.i32(1)), write(1), write(2)) and None,
    )
    k.branch(k.cmp(k.a, "lt", k.i32(9)), lambda: None, write(3))
    assert body_of(k.done()) == (
        "  if (a == 0) {\n"
        "    out[0] = 0;\n"
        "  } else if (a == 1) {\n"
        "    out[1] = 1;\n"
        "  } else {\n"
        "    out[2] = 2;\n"
        "  }\n"
        "  if (!(a < 9)) {\n"
        "    out[3] = 3;\n"
        "  }\n"
    )


def test_branch_results_are_declared_before() -> None:
    k = Kernel("declare", out=gmem("i32"), a=scalar("i32"))

    def slow():  # type: ignore[no-untyped-def]
        k.do(sync.SyncThreads)
        return [k.load(k.at(k.out, k.a))]

    (r,) = k.branch(k.cmp(k.a, "eq", k.i32(0)), lambda: [k.load(k.out)], slow)
    r.name = "r"
    k.store(k.out, k.add(r, r))
    assert body_of(k.done()) == (
        "  int r;\n"
        "  if (a == 0) {\n"
        "    r = out[0];\n"
        "  } else {\n"
        "    __syncthreads();\n"
        "    r = out[a];\n"
        "  }\n"
        "  out[0] = r + r;\n"
    )


def test_branches_that_load_are_conditional_expressions() -> None:
    k = Kernel("guarded", x=gmem("i32"), n=scalar("i32"))
    i = k.special("thread_idx", name="i")
    (value,) = k.branch(k.cmp(i, "lt", k.n), lambda: [k.load(k.at(k.x, i))], lambda: [k.i32(0)])
    k.store(k.at(k.x, i), value)
    assert "  x[i] = i < n ? x[i] : 0;\n" in body_of(k.done())


def test_python_and_or_are_those_of_c() -> None:
    k = Kernel("logic", x=gmem("i32"), n=scalar("i32"))
    inside = k.cmp(k.n, "lt", k.i32(8))

    def test(predicate: str):  # type: ignore[no-untyped-def]
        return lambda: [k.cmp(k.load(k.at(k.x, k.n)), predicate, k.i32(0))]

    (both,) = k.branch(inside, test("gt"), lambda: [inside])
    k.branch(both, lambda: k.store(k.x, k.i32(1)))
    outside = k.cmp(k.n, "gt", k.i32(9))
    (either,) = k.branch(outside, lambda: [k.bool(True)], test("eq"))
    k.branch(either, lambda: k.store(k.x, k.i32(2)))
    assert body_of(k.done()) == (
        "  if (n < 8 && x[n] > 0) {\n    x[0] = 1;\n  }\n"
        "  if (n > 9 || x[n] == 0) {\n    x[0] = 2;\n  }\n"
    )


def test_an_election_is_held_only_where_python_held_it() -> None:
    k = Kernel("elect", x=gmem("i32"), n=scalar("i32"))
    first = k.cmp(k.n, "eq", k.i32(0))
    (leader,) = k.branch(first, lambda: [k.v(sync.ElectOne)], lambda: [first])
    k.branch(leader, lambda: k.store(k.x, k.i32(1)))
    (again,) = k.branch(
        k.cmp(k.n, "eq", k.i32(1)), lambda: [k.v(sync.ElectOne)], lambda: [k.bool(False)]
    )
    k.do(sync.SyncWarp)
    k.branch(again, lambda: k.store(k.x, k.i32(2)))
    text = emit_cuda(k.done(), line_info=False)
    compile_cubin(text, "elect", "sm_90a")
    assert "  if (n == 0 && elect_one()) {\n" in text
    assert "  const bool v0 = n == 1 && elect_one();\n  __syncwarp();\n  if (v0) {\n" in text


def test_vectors_and_pointers_are_carried() -> None:
    k = Kernel("carry", x=gmem("f32"), n=scalar("i32"))
    zero = k.v(arith.Splat, k.const(0.0, "f32"), count=4)
    with k.loop(k.i32(0), k.n, inits=[zero, k.x], names=["total", "p"]) as loop:
        total, p = loop.args
        more = k.add(total, k.load(p, 4, name="more"))
        loop.end(more, k.at(p, k.i32(4)))
    k.store(k.x, loop.results[0])
    assert body_of(k.done()) == (
        "  float total[4];\n"
        "  #pragma unroll\n"
        "  for (int i = 0; i < 4; i++) {\n"
        "    total[i] = 0.0f;\n"
        "  }\n"
        "  float* p = x;\n"
        "  for (int i = 0; i < n; i++) {\n"
        "    float more[4];\n"
        "    copy16(more, p);\n"
        "    #pragma unroll\n"
        "    for (int i_1 = 0; i_1 < 4; i_1++) {\n"
        "      total[i_1] = total[i_1] + more[i_1];\n"
        "    }\n"
        "    p += 4;\n"
        "  }\n"
        "  copy16(x, total);\n"
    )


def test_swapped_vectors_do_not_mix() -> None:
    k = Kernel("swap", x=gmem("f32"), n=scalar("i32"))
    a = k.v(arith.Splat, k.const(0.0, "f32"), count=4)
    b = k.v(arith.Splat, k.const(1.0, "f32"), count=4)
    with k.loop(k.i32(0), k.n, inits=[a, b], names=["a", "b"]) as loop:
        loop.end(loop.args[1], loop.args[0])
    k.store(k.x, loop.results[0])
    text = body_of(k.done())
    assert text.count("[4];") == 4  # both variables, and a copy of each old value


def test_asserts_and_prints_escape_their_text() -> None:
    k = Kernel("say", a=scalar("i32"), x=gmem("bf16"))
    k.do(control.Assert, k.cmp(k.a, "gt", k.i32(0)), message='a must be "positive"')
    k.do(control.Printf, k.a, k.load(k.x), format="a=%d x=%f\n")
    text = body_of(k.done())
    assert 'require(a > 0, "a must be \\"positive\\"");' in text
    assert 'printf("a=%d x=%f\\n", a, f32_from_bf16(x[0]));' in text
    assert quoted("é") == '"\\303\\251"'


def test_reads_move_into_branches_but_not_past_writes() -> None:
    k = Kernel("order", x=gmem("i32"), a=scalar("i32"))
    first = k.load(k.at(k.x, 5))
    second = k.load(k.at(k.x, 6))
    k.branch(k.cmp(k.a, "gt", k.i32(0)), lambda: k.store(k.x, first))
    k.store(k.at(k.x, 1), second)
    assert body_of(k.done()) == (
        "  const int v0 = x[5];\n"
        "  const int v1 = x[6];\n"
        "  if (a > 0) {\n"
        "    x[0] = v0;\n"
        "  }\n"
        "  x[1] = v1;\n"
    )


def test_registers_are_not_disturbed_by_other_memory() -> None:
    k = Kernel("spaces", x=gmem("f32"))
    r = k.registers("f32", 4, "r")
    q = k.registers("f32", 4, "q")
    value = k.load(k.at(r, 1))
    k.store(k.x, k.const(1.0, "f32"))
    k.store(q, k.const(2.0, "f32"))
    k.do(sync.SyncThreads)
    k.store(k.at(k.x, 1), value)
    assert "  x[1] = r[1];\n" in body_of(k.done())
    assert memory.Load.name == "mem.load"
