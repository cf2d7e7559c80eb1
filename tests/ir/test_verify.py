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
