"""One negative test for each rule of the verifier."""

from __future__ import annotations

import pytest

from tilewright.errors import VerifyError
from tilewright.ir.parser import parse_func
from tilewright.ir.verify import verify_func

HEAD = """\
  %i = special() {register='thread_idx', axis=0} : i32
  %f = arith.constant() {value=1.0, dtype='f32'} : f32
  %b = arith.cmp(%i, %i) {predicate='eq'} : bool
"""

CASES = {
    "TERMINATOR missing": ("", "special: ends a block (rule TERMINATOR)"),
    "TERMINATOR early": (
        "return() return()",
        "return: is a terminator in mid-block (rule TERMINATOR)",
    ),
    "ARITY": (
        "%x = arith.add(%i) : i32 return()",
        "arith.add: takes 2 operands, got 1 (rule ARITY)",
    ),
    "TYPE operand": (
        "%x = arith.and(%f, %f) : f32 return()",
        "arith.and: a is f32, expected an integer or bool scalar or vector (rule TYPE)",
    ),
    "TYPE result": (
        "%x = arith.add(%i, %i) : f32 return()",
        "arith.add: results have types (f32), expected (i32) (rule TYPE)",
    ),
    "ATTRIBUTE choice": (
        "%x = arith.cmp(%i, %i) {predicate='less'} : bool return()",
        "arith.cmp: attribute predicate = 'less', expected 'eq', 'ne', 'lt', 'le', 'gt', 'ge' "
        "(rule ATTRIBUTE)",
    ),
    "ATTRIBUTE kind": (
        "copy.cp_async_wait() {pending='all'} return()",
        "copy.cp_async_wait: attribute pending = 'all', expected int (rule ATTRIBUTE)",
    ),
    "OWN": (
        "%x = arith.add(%i, %f) : i32 return()",
        "arith.add: operands must have one type, got i32 and f32 (rule OWN)",
    ),
    "OWN if": (
        "%x = if(%b) ({ yield(%i) }, { yield() }) : i32 return()",
        "if: region yields [], expected ['i32'] (rule OWN)",
    ),
    "OWN setmaxnreg": (
        "sync.setmaxnreg() {count=41, increase=True} return()",
        "sync.setmaxnreg: count must be a multiple of 8 in 24..256, got 41 (rule OWN)",
    ),
}

BULK_HEAD = """\
  %s = mem.alloc_shared() {dtype='f32', count=64, align=16, label='s', offset=0} : \
ptr<f32, smem, 16>
  %bar = mem.alloc_shared() {dtype='u64', count=1, align=8, label='bar', offset=256} : \
ptr<u64, smem, 8>
  %one = arith.constant() {value=1, dtype='u32'} : u32
  %far = mem.map_shared(%s, %one) : ptr<f32, dsmem, 16>
  %counter = mem.map_shared(%bar, %one) : ptr<u64, dsmem, 8>
"""
BULK_CASES = {
    "bulk.load(%x, %s, %bar, %one)": "bulk.load: a bulk copy moves a positive multiple of 16 "
    "bytes, not 1 (rule OWN)",
    "bulk.store(%s, %odd, %n)": "bulk.store: ptr<f32, gmem, 4> is aligned to 4 bytes, a bulk copy "
    "needs 16 (rule OWN)",
    "bulk.reduce(%s, %x, %n) {kind='max'}": "bulk.reduce: max reduces i32 u32 i64 u64 f16 bf16, "
    "not f32 (rule OWN)",
    "bulk.reduce(%bar, %x, %n) {kind='add'}": "bulk.reduce: elements of ptr<u64, smem, 8> and "
    "ptr<f32, gmem, 16> differ (rule OWN)",
    "bulk.send(%s, %s, %counter, %n)": "bulk.send: dst is ptr<f32, smem, 16>, expected a pointer "
    "to any type in dsmem (rule TYPE)",
    "bulk.send(%s, %far, %bar, %n)": "bulk.send: barrier is ptr<u64, smem, 8>, expected a pointer "
    "to u64 in dsmem (rule TYPE)",
    "%r = mem.alloc_registers() {dtype='f32', count=8, label='r'} : ptr<f32, rmem, 16> "
    "%w = mem.load(%r) {count=8} : vec<f32, 8> "
    "bulk.store_async(%far, %w, %counter)": "bulk.store_async: an asynchronous store writes 4, 8 "
    "or 16 bytes, not 32 (rule OWN)",
    "%w = mem.load(%x) {count=4} : vec<f32, 4> "
    "%near = mem.offset(%far, %one) {divisor=1} : ptr<f32, dsmem, 4> "
    "bulk.store_async(%near, %w, %counter)": "bulk.store_async: ptr<f32, dsmem, 4> is aligned to "
    "4 bytes, the store needs 16 (rule OWN)",
    "%p = mem.map_shared(%x, %one) : ptr<f32, dsmem, 16>": "mem.map_shared: base is ptr<f32, gmem, "
    "16>, expected a pointer to any type in smem (rule TYPE)",
}


@pytest.mark.parametrize("body", BULK_CASES)
def test_rules_of_bulk_copies(body: str) -> None:
    head = "kernel @f(%x: ptr<f32, gmem, 16>, %odd: ptr<f32, gmem, 4>, %n: u32)"
    func = parse_func(f"{head} {{\n{BULK_HEAD} {body} return()\n}}")
    with pytest.raises(VerifyError) as error:
        verify_func(func)
    assert str(error.value) == BULK_CASES[body]


@pytest.mark.parametrize("case", CASES)
def test_rule(case: str) -> None:
    body, message = CASES[case]
    text = HEAD if not body else HEAD + body
    if not body:
        text = "%i = special() {register='thread_idx', axis=0} : i32"
    func = parse_func(f"kernel @f() {{\n{text}\n}}")
    with pytest.raises(VerifyError) as error:
        verify_func(func)
    assert str(error.value) == message


def test_dominance() -> None:
    func = parse_func(f"kernel @f() {{\n{HEAD} %x = arith.add(%i, %i) : i32 return() }}")
    func.body.ops[0], func.body.ops[3] = func.body.ops[3], func.body.ops[0]
    with pytest.raises(VerifyError, match=r"is used before it is defined \(rule DOMINANCE\)"):
        verify_func(func)
