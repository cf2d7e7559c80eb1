"""print and parse are inverse to each other; bad text is refused where it is bad."""

from __future__ import annotations

import pytest

from tilewright.errors import VerifyError
from tilewright.ir.parser import parse_func
from tilewright.ir.printer import print_func
from tilewright.ir.verify import verify_func

TEXT = """\
kernel @reduce(%x: ptr<f32, gmem, 16>, %n: i32, %tm: tensormap) {cluster=(2, 1, 1)} {
  %tid = special() {register='thread_idx', axis=0} : i32
  %zero = arith.constant() {value=0, dtype='i32'} : i32
  %one = arith.constant() {value=1, dtype='i32'} : i32
  %low = arith.constant() {value=-inf, dtype='f32'} : f32
  %best = for(%zero, %n, %one, %low) {unroll=1} ({
  ^(%i: i32, %seen: f32):
    %at = mem.offset(%x, %i) {divisor=1} : ptr<f32, gmem, 4>
    %v = mem.load(%at) {count=0} : f32
    %more = arith.max(%seen, %v) : f32
    yield(%more)
  }) : f32
  %first = arith.cmp(%tid, %zero) {predicate='eq'} : bool
  if(%first) ({
    mem.store(%x, %best)
    yield()
  }, {
    yield()
  })
  return()
}
"""


def test_print_parse_print_is_the_identity() -> None:
    func = parse_func(TEXT)
    verify_func(func)
    assert print_func(func) == TEXT
    assert print_func(parse_func(print_func(func))) == TEXT


BULK = """\
kernel @send(%x: ptr<f32, gmem, 16>, %n: u32, %tm: tensormap) {cluster=(2, 1, 1)} {
  %s = mem.alloc_shared() {dtype='f32', count=64, align=16, label='s', offset=0} : \
ptr<f32, smem, 16>
  %bar = mem.alloc_shared() {dtype='u64', count=1, align=8, label='bar', offset=256} : \
ptr<u64, smem, 8>
  %one = arith.constant() {value=1, dtype='u32'} : u32
  %zero = arith.constant() {value=0, dtype='i32'} : i32
  %far = mem.map_shared(%s, %one) : ptr<f32, dsmem, 16>
  %counter = mem.map_shared(%bar, %one) : ptr<u64, dsmem, 8>
  bulk.load(%x, %s, %bar, %n)
  bulk.send(%s, %far, %counter, %n)
  %v = mem.load(%far) {count=4} : vec<f32, 4>
  bulk.store_async(%far, %v, %counter)
  bulk.store(%s, %x, %n)
  bulk.reduce(%s, %x, %n) {kind='add'}
  tma.reduce(%tm, %s, %zero, %zero) {kind='max'}
  copy.cp_async_arrive(%bar)
  return()
}
"""


def test_bulk_operations_survive() -> None:
    func = parse_func(BULK)
    verify_func(func)
    assert print_func(func) == BULK


def test_locations_survive() -> None:
    text = (
        "kernel @f() loc('k.py':3:0:5:'f') {\n"
        "  %0 = special() {register='lane', axis=0} : i32 "
        "loc('k.py':7:4:20:'helper' < 'k.py':9:2:12:'f')\n"
        "  return()\n"
        "}\n"
    )
    func = parse_func(text)
    assert func.body.ops[0].loc is not None
    assert [p.line for p in func.body.ops[0].loc.chain()] == [7, 9]
    assert print_func(func, locations=True) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel @f() { retur() }", "<text>:1:15: unknown operation 'retur'"),
        ("kernel @f() {\n  mem.store(%a, %b)\n}", "<text>:2:13: %a is not defined here"),
        ("func @f() { }", "<text>:1:1: expected kernel or host, got 'func'"),
        ("kernel @f() { return() ", "<text>:1:23: unknown operation 'end of text'"),
        ("kernel @f() { return() $ }", "<text>:1:24: unexpected character '$'"),
        (
            "kernel @f() { %a = special() {register='lane'} return() }",
            "<text>:1:48: special: 1 results but 0 types",
        ),
    ],
)
def test_bad_text_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(VerifyError) as error:
        parse_func(text)
    assert str(error.value) == message
