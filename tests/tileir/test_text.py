"""The text form: what is read, what is printed, and faults with their places."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.errors import VerifyError
from tilewright.ir.ops.tile import arith, memory
from tilewright.ir.ops.tile.base import TileOp
from tilewright.tileir.check import check_text, load_text
from tilewright.tileir.printer import PrintOptions, print_text
from tilewright.tileir.reader import MAX_DEPTH, parse
from tilewright.tileir.verify import VerifyOptions

KERNEL = """\
cuda_tile.module @kernels attributes {producer = "tests"} {
  global constant @table alignment = 128 <f32: [1.000000e+00, 0x7FC00000]> : tile<2xf32>
  entry @k(%p: tile<ptr<f32>>, %n: tile<i32>, %c: tile<i1>) \
optimization_hints=<sm_90 = {occupancy = 2}> {
    %x = constant <f32: 1.500000e+00> : tile<8xf32>
    %r = addf %x, %x rounding<zero> flush_to_zero : tile<8xf32>
    %o = iota : tile<8xi32>
    %q = fpowi %x, %o : tile<8xf32>, tile<8xi32>
    %v = make_tensor_view %p, shape = [64, %n], strides = [%n, 1] : tile<i32> -> \
tensor_view<64x?xf32, strides=[?,1]>
    %w = make_partition_view %v : partition_view<tile=(4x2), padding_value = zero, \
tensor_view<64x?xf32, strides=[?,1]>, dim_map=[1, 0]>
    %t, %k = load_view_tko weak %w[%n, %n] optimization_hints = <default = {latency = 5}> \
inbounds = [true, false] : partition_view<tile=(4x2), padding_value = zero, \
tensor_view<64x?xf32, strides=[?,1]>, dim_map=[1, 0]>, tile<i32> -> tile<4x2xf32>, token
    %k_1 = gdc_wait_tko token = %k -> token
    %k_2 = memory_fence_alias_tko %k_1
    %s = insert %t, %t[%n, %n] : tile<4x2xf32>, tile<4x2xf32>
    %f = for unsigned %i in (%n to %n, step %n) : tile<i32> iter_values(%a = %x) -> (tile<8xf32>) {
      if %c {
        continue %a : tile<8xf32>
      }
      continue %r : tile<8xf32>
    }
    %m = reduce %f dim=0 identities=[0.000000e+00 : f32] : tile<8xf32> -> tile<f32> \
(%e: tile<f32>, %acc: tile<f32>) {
      %0 = maxf %e, %acc propagate_nan : tile<f32>
      yield %0 : tile<f32>
    }
    %k_3 = print_tko "x = %f\\0A", %m token = %k_2 : tile<f32> -> token
    return
  }
}
"""


def test_the_normal_form_prints_as_it_was_read() -> None:
    assert print_text(load_text(KERNEL)) == KERNEL


def test_what_tileirdisasm_prints_reads_without_its_module() -> None:
    """As tileirdisasm 13.5 prints it: two spaces where a default is left out, `fpowf`, `%0:2`."""
    block = load_text(
        "global private  constant @g1 alignment = 128 <f32: 1.0> : tile<2xf32>\n"
        "entry @k(%arg0: tile<ptr<f32>>, %arg1: tile<f32>) {\n"
        "  %0 = addf %arg1, %arg1  : tile<f32>\n"
        "  %1 = fpowf %0, %0 : tile<f32>\n"
        "  %2 = ftoi %1 signed  saturating : tile<f32> -> tile<i32>\n"
        '  %3 = print_tko "%d", %2 : tile<i32> -> token\n'
        '  %4 = print_tko "%d", %2 token=%3 : tile<i32> -> token\n'
        "  return\n"
        "}\n"
    )
    body = [op for op in block.walk() if isinstance(op, arith.FPowF | memory.PrintTko)]
    assert [op.mnemonic for op in body] == ["pow", "print_tko", "print_tko"]


def test_debug_information_survives_as_aliases() -> None:
    text = (
        '#file0 = #cuda_tile.di_file<"k.py" in "/src/">\n'
        "#unit0 = #cuda_tile.di_compile_unit<file = #file0>\n"
        '#subprogram0 = #cuda_tile.di_subprogram<file = #file0, line = 1, name = "k", '
        'linkageName = "k", compileUnit = #unit0, scopeLine = 2>\n'
        '#loc0 = #cuda_tile.di_loc<loc("/src/k.py":7:8) in #subprogram0>\n'
        "cuda_tile.module @m {\n"
        "  entry @k() {\n"
        '    return loc(callsite("inner"("/src/k.py":1:2) at #loc0))\n'
        "  } loc(#loc0)\n"
        "} loc(unknown)\n"
    )
    assert print_text(load_text(text), PrintOptions(locations=True)) == text


def test_operations_of_other_dialects_are_kept() -> None:
    text = '"some.op"() <{a = [1, "x"], b}> ({\n}) : () -> ()\n'
    with_region = print_text(parse('"some.op"() ({ }) {a = [1, "x"], b} : () -> ()'))
    assert with_region == '"some.op"() ({\n}) {a = [1, "x"], b} : () -> ()\n'
    assert print_text(parse(text)) == with_region


def _entry(body: str) -> str:
    return f"cuda_tile.module @m {{\nentry @k(%a: tile<f32>, %i: tile<i32>) {{\n{body}\n}}\n}}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "  %b = addf %a, %c : tile<f32>",
            "f.mlir:3:17: error: use of undeclared SSA value name %c\n"
            "  3 |   %b = addf %a, %c : tile<f32>\n"
            "    |                 ^",
        ),
        (
            "%b = addf %c, %a : tile<f32>\n%c = absf %a : tile<f32>",
            "f.mlir:3:11: error: operand %c does not dominate this use, it is defined at 4:1\n"
            "  3 | %b = addf %c, %a : tile<f32>\n"
            "    |           ^",
        ),
        (
            "%b = addf %a, %a",
            "f.mlir:3:17: error: custom op 'cuda_tile.addf' expected ':'\n"
            "  3 | %b = addf %a, %a\n"
            "    |                 ^",
        ),
        (
            "%b = adf %a, %a : tile<f32>",
            "f.mlir:3:6: error: custom op 'adf' is unknown\n"
            "  3 | %b = adf %a, %a : tile<f32>\n"
            "    |      ^",
        ),
        (
            "%a = absf %a : tile<f32>",
            "f.mlir:3:1: error: redefinition of SSA value '%a'\n"
            "  3 | %a = absf %a : tile<f32>\n"
            "    | ^",
        ),
        (
            "%b = bitcast %i : tile<i32> -> tile<i8>",
            "f.mlir:3:1: error: 'cuda_tile.bitcast' op types must be equal width, cannot convert "
            "'!cuda_tile.tile<i32>' of width 32 to type '!cuda_tile.tile<i8>' of width 8\n"
            "  3 | %b = bitcast %i : tile<i32> -> tile<i8>\n"
            "    | ^",
        ),
        (
            "%b = get_global @nope : tile<ptr<f32>>",
            "f.mlir:3:1: error: 'cuda_tile.get_global' op 'nope' does not reference a valid "
            "global\n"
            "  3 | %b = get_global @nope : tile<ptr<f32>>\n"
            "    | ^",
        ),
    ],
)
def test_faults_show_their_place(body: str, message: str) -> None:
    report = check_text(_entry(body), "f.mlir")
    assert not report.accepted
    assert report.diagnostics == (message,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("testing$func @f() { }", "is for NVIDIA's own tests only; --testing admits it"),
        ("#a = #b\n#b = #a\ncuda_tile.module @m { } loc(#a)", "alias #b is defined by itself"),
        ("cuda_tile.module @m { } loc(#a)", "undefined symbol alias id 'a'"),
        ('"cuda_tile.nope"() : () -> ()', "'cuda_tile.nope' is not an operation of cuda_tile"),
        ('"cuda_tile.addf"() : () -> ()', "op expected 2 operands, but found 0"),
        ("cuda_tile.module @m {", "expected '}'"),
        ("cuda_tile.module @m { $ }", "unexpected character '$'"),
        ("cuda_tile.iota : tile<" + "9" * 5000 + "xi32>", "expected valid keyword"),
        ("cuda_tile.iota : " + "!cuda_tile.ptr<" * 5000, "nested too deeply"),
        (
            "cuda_tile.loop " + "{ cuda_tile.loop " * MAX_DEPTH + "{ }" + "}" * MAX_DEPTH,
            f"regions nest deeper than {MAX_DEPTH}",
        ),
        ("cuda_tile.module @m { entry @k() { } entry @k() { } }", "redefinition of symbol"),
    ],
)
def test_bad_texts_are_refused(text: str, message: str) -> None:
    report = check_text(text)
    assert not report.accepted
    assert message in report.diagnostics[0]


def test_what_bytecode_cannot_hold_is_a_warning() -> None:
    text = 'cuda_tile.module @m { entry @k() { "other.op"() : () -> () } }'
    report = check_text(text)
    assert report.accepted
    assert "only ops from the 'cuda_tile' dialect are allowed" in report.diagnostics[0]
    assert ": warning: " in report.diagnostics[0]


def test_hints_are_judged_only_on_request() -> None:
    text = "cuda_tile.module @m { entry @k() optimization_hints=<sm_90 = {occupancy = 99}> { } }"
    assert check_text(text).diagnostics == ()
    warned = check_text(text, "m", VerifyOptions(warn_hints=True))
    assert warned.accepted
    assert "integer value in the range [1, 32] is expected" in warned.diagnostics[0]
    assert not check_text(text, "m", VerifyOptions(error_hints=True)).accepted


def test_load_text_raises_what_check_reports() -> None:
    with pytest.raises(VerifyError, match=r"1:1: error: 'cuda_tile.break' op expects parent op"):
        load_text("cuda_tile.break")


def test_locations_are_kept_as_they_are() -> None:
    places = (
        'loc("f.py":1:2)',
        'loc("x"("f.py":1:2))',
        'loc("x")',
        'loc(fused["f":1:2, "g":3:4])',
        'loc(fused<"why">["f":1:2])',
        'loc(fused<{a = 1 : i32, b}>["f":1:2, unknown])',
        'loc(callsite("f":1:2 at "g":3:4))',
    )
    lines = "".join(f"    return {place}\n" for place in places)
    functions = "".join(
        f"  entry @k{i}() {{\n{line}\n  }}\n" for i, line in enumerate(lines.splitlines())
    )
    text = f"cuda_tile.module @m {{\n{functions}}}\n"
    assert print_text(parse(text), PrintOptions(locations=True)) == text


def test_call_sites_within_call_sites_are_printed_once() -> None:
    text = (
        '#call0 = loc(callsite("f":1:2 at "g":3:4))\n'
        "cuda_tile.module @m {\n  entry @k() {\n"
        "    return loc(callsite(#call0 at #call0))\n  }\n}\n"
    )
    assert print_text(parse(text), PrintOptions(locations=True)) == text


def test_pointer_attributes_are_kept_and_must_agree() -> None:
    head = "entry @k(%p: tile<ptr<f32, <none>>>, %q: tile<ptr<f32>>, %n: tile<i32>) {\n    "
    view = "tensor_view<?xf32, strides=[1], #cuda_tile.ptr_attr<none>>"
    made = "%v = make_tensor_view %p, shape = [%n], strides = [1] : "
    given = f"cuda_tile.module @m {{\n  {head}{made}tile<ptr<f32, <none>>>, tile<i32> -> {view}\n"
    text = f"{given}    return\n  }}\n}}\n"
    assert print_text(load_text(text)) == text
    for line, message in (
        (
            f"{made}tile<ptr<f32, <none>>>, tile<i32> -> tensor_view<?xf32, strides=[1]>",
            "tensor_view must preserve ptr_attr from base pointer (#cuda_tile.ptr_attr<none>)",
        ),
        (
            f"{made.replace('%p', '%q')}tile<i32> -> {view}",
            "pointer base without ptr_attr cannot produce tensor_view with ptr_attr",
        ),
        (f"{made}tile<ptr<f32, <all>>>, tile<i32> -> {view}", "ptr_attr to be one of: none"),
    ):
        report = check_text(f"{head}{line} }}")
        assert not report.accepted
        assert message in report.diagnostics[0]


def test_attributes_and_locations_of_arguments_are_kept() -> None:
    text = (
        "cuda_tile.module @m {\n"
        '  entry @k(%p: tile<ptr<f32>> {a.b = 16 : i64, a.flag} loc("f":1:2), '
        '%n: tile<i32> loc("n"), %c: tile<i1>) optimization_hints=<sm_90 = {occupancy = 2}> {\n'
        "    %x = constant <f32: 1.500000e+00> : tile<8xf32>\n"
        "    %m = reduce %x dim=0 identities=[0.000000e+00 : f32] : tile<8xf32> -> tile<f32> "
        '(%e: tile<f32> loc("f":3:4), %acc: tile<f32> loc(unknown)) {\n'
        "      %0 = addf %e, %acc : tile<f32>\n"
        "      yield %0 : tile<f32>\n"
        "    }\n"
        '    %f = for %i loc("f":5:6) in (%n to %n, step %n) : tile<i32> '
        'iter_values(%a loc("f":7:8) = %m) -> (tile<f32>) {\n'
        "      continue %a : tile<f32>\n"
        "    }\n"
        '    %g = loop iter_values(%b loc("f":9:1) = %f) : tile<f32> -> tile<f32> {\n'
        "      break %b : tile<f32>\n"
        "    }\n"
        "    return\n"
        '  } {x.y = "of the entry"} loc("f":1:1)\n'
        "}\n"
    )
    options = PrintOptions(locations=True)
    block = load_text(text)
    assert print_text(block, options) == text
    generic = print_text(block, PrintOptions(generic=True, locations=True))
    assert "arg_attrs = [{a.b = 16 : i64, a.flag}, {}, {}]" in generic
    assert '^bb0(%p: !cuda_tile.tile<ptr<f32>> loc("f":1:2), ' in generic
    assert print_text(load_text(generic), options) == text
    plain = print_text(block)
    assert "loc(" not in plain
    assert "%p: tile<ptr<f32>> {a.b = 16 : i64, a.flag}, %n: tile<i32>" in plain


def test_attributes_of_results_are_kept() -> None:
    text = (
        "cuda_tile.module @m {\n"
        "  testing$func @f(%a: tile<f32>) -> (tile<f32> {a.b}, tile<f32>) {\n"
        "    return %a, %a : tile<f32>, tile<f32>\n"
        "  }\n"
        "}\n"
    )
    block = load_text(text, options=VerifyOptions(testing=True))
    assert print_text(block) == text
    assert "res_attrs = [{a.b}, {}]" in print_text(block, PrintOptions(generic=True))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("entry @k(%a: tile<f32> {b = 1 : i32}) { }", "arguments may only have dialect attributes"),
        (
            '"cuda_tile.entry"() <{sym_name = "k", arg_attrs = [{}], function_type = () -> ()}> '
            '({ "cuda_tile.return"() : () -> () }) : () -> ()',
            "expects argument attribute array `arg_attrs` to have the same number of elements as "
            "the number of function arguments, got 1, but expected 0",
        ),
        (
            '"cuda_tile.entry"() <{sym_name = "k", arg_attrs = 7 : i32, function_type = () -> ()}>'
            ' ({ "cuda_tile.return"() : () -> () }) : () -> ()',
            "'arg_attrs' failed to satisfy constraint: Array of dictionary attributes",
        ),
        (
            '"cuda_tile.entry"() <{sym_name = "k", arg_attrs = [7 : i32], function_type = '
            "(!cuda_tile.tile<f32>) -> ()}> ({ ^bb0(%a: !cuda_tile.tile<f32>): "
            '"cuda_tile.return"() : () -> () }) : () -> ()',
            "'arg_attrs' failed to satisfy constraint: Array of dictionary attributes",
        ),
        (
            '"cuda_tile.entry"() <{sym_name = "k", function_type = () -> ()}> ({ '
            '^bb0(%a: !cuda_tile.tile<f32>): "cuda_tile.return"() : () -> () }) : () -> ()',
            "entry block must have 0 arguments to match function signature",
        ),
        (
            '"cuda_tile.entry"() <{sym_name = "k", function_type = (!cuda_tile.tile<i32>) -> ()}> '
            '({ ^bb0(%a: !cuda_tile.tile<f32>): "cuda_tile.return"() : () -> () }) : () -> ()',
            "type of entry block argument #0('!cuda_tile.tile<f32>') must match the type of the "
            "corresponding argument in function signature('!cuda_tile.tile<i32>')",
        ),
        ("entry @k() attributes {a.b} { }", "expected '{'"),
    ],
)
def test_arguments_and_signature_must_agree(head: str, message: str) -> None:
    report = check_text(head)
    assert not report.accepted
    assert message in report.diagnostics[0]


def test_attributes_that_no_operation_declares_are_kept_everywhere() -> None:
    text = Path(__file__).with_name("every_operation.mlir").read_text()
    block = parse(text)
    for number, op in enumerate(block.walk()):
        assert isinstance(op, TileOp)
        op.extra[f"x.{number}"] = number % 2 == 0 or f"attribute {number}"
        op.extra["x.flag"] = True
    for options in (PrintOptions(), PrintOptions(generic=True), PrintOptions(prefix=True)):
        printed = print_text(block, options)
        again = parse(printed)
        for old, new in zip(block.walk(), again.walk(), strict=True):
            assert isinstance(new, TileOp)
            assert new.extra == old.extra, old.name
        assert print_text(again, options) == printed
