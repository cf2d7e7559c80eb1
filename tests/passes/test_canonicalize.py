"""Each rule as text in, text out."""

from __future__ import annotations

from tilewright.ir.core import Module
from tilewright.ir.parser import parse_func
from tilewright.ir.printer import print_func
from tilewright.ir.verify import verify_func
from tilewright.passes.canonicalize import canonicalize


def rewrite(body: str) -> str:
    func = parse_func(f"kernel @f(%p: ptr<i32, gmem, 4>, %n: i32) {{\n{body}\n  return()\n}}")
    verify_func(func)
    canonicalize(Module({"f": func}))
    verify_func(func)
    return "\n".join(line.strip() for line in print_func(func).splitlines()[1:-2])


def test_cse_merges_equal_pure_operations_also_into_regions() -> None:
    assert rewrite("""
  %a = arith.add(%n, %n) : i32
  %b = arith.add(%n, %n) : i32
  %c = arith.cmp(%a, %b) {predicate='eq'} : bool
  if(%c) ({
    %d = arith.add(%n, %n) : i32
    mem.store(%p, %d)
    yield()
  }, { yield() })""") == (
        "%a = arith.add(%n, %n) : i32\n"
        "%c = arith.cmp(%a, %a) {predicate='eq'} : bool\n"
        "if(%c) ({\nmem.store(%p, %a)\nyield()\n}, {\nyield()\n})"
    )


def test_cse_keeps_values_of_sibling_regions_apart() -> None:
    text = rewrite("""
  %c = arith.cmp(%n, %n) {predicate='eq'} : bool
  if(%c) ({
    %d = arith.add(%n, %n) : i32
    mem.store(%p, %d)
    yield()
  }, {
    %e = arith.add(%n, %n) : i32
    mem.store(%p, %e)
    yield()
  })""")
    assert text.count("arith.add") == 2


def test_fixed_carried_value_is_its_initial_value() -> None:
    assert rewrite("""
  %zero = arith.constant() {value=0, dtype='i32'} : i32
  %one = arith.constant() {value=1, dtype='i32'} : i32
  %x, %y = for(%zero, %n, %one, %n, %zero) {unroll=-1} ({
  ^(%i: i32, %u: i32, %v: i32):
    %w = arith.add(%v, %u) : i32
    yield(%u, %w)
  }) : i32, i32
  mem.store(%p, %x)
  mem.store(%p, %y)""").splitlines()[2:] == [
        "%y = for(%zero, %n, %one, %zero) {unroll=-1} ({",
        "^(%i: i32, %v: i32):",
        "%w = arith.add(%v, %n) : i32",
        "yield(%w)",
        "}) : i32",
        "mem.store(%p, %n)",
        "mem.store(%p, %y)",
    ]


def test_dead_carried_value_that_feeds_only_itself() -> None:
    text = rewrite("""
  %zero = arith.constant() {value=0, dtype='i32'} : i32
  %one = arith.constant() {value=1, dtype='i32'} : i32
  %x, %y = for(%zero, %n, %one, %zero, %zero) {unroll=-1} ({
  ^(%i: i32, %u: i32, %v: i32):
    %u2 = arith.add(%u, %one) : i32
    %v2 = arith.add(%v, %one) : i32
    mem.store(%p, %v)
    yield(%u2, %v2)
  }) : i32, i32""")
    assert "%u" not in text
    assert "mem.store(%p, %v)" in text


def test_dead_branches_loops_and_loads() -> None:
    assert (
        rewrite("""
  %zero = arith.constant() {value=0, dtype='i32'} : i32
  %one = arith.constant() {value=1, dtype='i32'} : i32
  %c = arith.cmp(%n, %zero) {predicate='eq'} : bool
  %l = mem.load(%p) {count=0} : i32
  %r = if(%c) ({ yield(%l) }, { yield(%one) }) : i32
  %x = for(%zero, %n, %one, %zero) {unroll=-1} ({
  ^(%i: i32, %u: i32):
    %u2 = arith.add(%u, %r) : i32
    yield(%u2)
  }) : i32""")
        == ""
    )


def test_effects_in_nested_regions_keep_what_decides_them() -> None:
    text = rewrite("""
  %zero = arith.constant() {value=0, dtype='i32'} : i32
  %one = arith.constant() {value=1, dtype='i32'} : i32
  %x = for(%zero, %n, %one, %zero) {unroll=-1} ({
  ^(%i: i32, %u: i32):
    %u2 = arith.add(%u, %one) : i32
    %c = arith.cmp(%u, %one) {predicate='eq'} : bool
    if(%c) ({
      mem.store(%p, %i)
      yield()
    }, { yield() })
    yield(%u2)
  }) : i32""")
    assert "mem.store(%p, %i)" in text
    assert "yield(%u2)" in text


def test_while_keeps_its_condition() -> None:
    text = rewrite("""
  %one = arith.constant() {value=1, dtype='i32'} : i32
  %x = while(%n) ({
  ^(%a: i32):
    %c = arith.cmp(%a, %one) {predicate='gt'} : bool
    condition(%c, %a)
  }, {
  ^(%b: i32):
    %d = arith.sub(%b, %one) : i32
    yield(%d)
  }) : i32
  mem.store(%p, %x)""")
    assert "condition(%c, %a)" in text
    assert "yield(%d)" in text
