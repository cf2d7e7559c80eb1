"""Loops, branches and what ends a block.  Carried values are mutable C++ variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.codegen.cuda.analysis import synchronises
from tilewright.codegen.cuda.convert import convert
from tilewright.codegen.cuda.emit_arith import choose, logical_not
from tilewright.codegen.cuda.emitter import EMITTERS, Emitter, emits
from tilewright.codegen.cuda.expr import Expr, Level, binary, call, conditional
from tilewright.codegen.cuda.operands import Operand, Place, Variable, Vec
from tilewright.codegen.cuda.spelling import PATTERNS, alignment, ctype, declarator
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.ops import control
from tilewright.ir.types import PtrType, Type, VecType, element_type
from tilewright.numeric.dtypes import BOOL, F32


def _declare(em: Emitter, t: Type, hint: str) -> str:
    """A variable without a value."""
    text = em.names.fresh(hint)
    if isinstance(t, VecType):
        em.out.line(f"{alignment(t.dtype, t.count)}{ctype(t.dtype)} {text}[{t.count}];")
    else:
        em.out.line(f"{declarator(t)} {text};")
    return text


def _hint(*values: Value) -> str:
    return next((v.name for v in values if v.name), "")


class Carried:
    """The carried values of a loop: which variables they get, and what those start with.

    A result that ends up in a variable of the enclosing block shares it; so does an initial value
    that lives in a variable and has no other use.
    """

    def __init__(self, em: Emitter, op: Op, inits: Sequence[Value]) -> None:
        self.op = op
        self.given = [em.operand(v) for v in inits]
        self.hints = [_hint(r, v) for r, v in zip(op.results, inits, strict=True)]
        self.shared: list[Variable | None] = []
        self.names: set[str] = set()
        """The variables of the enclosing block that the loop changes."""
        for result, init, operand in zip(op.results, inits, self.given, strict=True):
            variable = _shared(em, op, result, init, operand)
            if variable is not None and variable.name in self.names:
                variable = None
            if variable is not None:
                self.names.add(variable.name)
            self.shared.append(variable)

    def declare(self, em: Emitter, args: Sequence[Value]) -> list[Variable]:
        """Writes the initialisation; the variables hold `args`, the loop's block arguments."""
        em.flush(em.facts.writes(self.op), self.names)
        variables: list[Variable] = []
        for arg, variable, value, hint in zip(
            args, self.shared, self.given, self.hints, strict=True
        ):
            text = (
                variable.name if variable else _initialised(em, arg.type, arg.name or hint, value)
            )
            variables.append(Variable(text, arg.type, arg))
        kept = [n for n, variable in enumerate(self.shared) if variable is not None]
        em.assign([variables[n] for n in kept], [self.given[n] for n in kept])
        return variables


def _shared(em: Emitter, op: Op, result: Value, init: Value, operand: Operand) -> Variable | None:
    target = em.destinations.get(result)
    if target is not None:
        return target
    if init in em.induction:
        return None
    held = next(iter(operand.reads), "")
    text = operand.base.text if isinstance(operand, Place) else getattr(operand, "text", "")
    if not isinstance(operand, Expr | Place) or text != held or not em.facts.dies_at(init, op):
        return None
    if isinstance(operand, Place) and operand.index is not None:
        return None
    return Variable(held, init.type)


def _initialised(em: Emitter, t: Type, hint: str, value: Operand) -> str:
    if isinstance(value, Vec):
        text = _declare(em, t, hint)
        em.store(Variable(text, t), value)
        return text
    e = value.pointer() if isinstance(value, Place) else value
    const = isinstance(value, Place) and value.const
    text = em.names.fresh(hint)
    em.out.line(f"{declarator(t, const)} {text} = {e.short};")
    return text


def _bind(em: Emitter, values: Sequence[Value], variables: Sequence[Variable]) -> None:
    for value, variable in zip(values, variables, strict=True):
        em.define_variable(value, variable)


@emits(control.For)
def for_loop(em: Emitter, op: control.For) -> None:
    t = op.start.type
    start, stop, step = (em.expr(v) for v in (op.start, op.stop, op.step))
    carried = Carried(em, op, op.inits)
    if start.reads & carried.names:
        start = em.simple(_copy(start), element_type(t), "start")
    stop = _invariant(em, stop, t, carried.names, "stop")
    step = _invariant(em, step, t, carried.names, "step")
    variables = carried.declare(em, op.body.args[1:])
    em.out.at(op.loc)
    with em.scope():
        i = em.names.fresh(op.body.args[0].name or "i")
        em.define_variable(op.body.args[0], Variable(i, t))
        em.induction.add(op.body.args[0])
        _bind(em, op.body.args[1:], variables)
        down = step.literal and step.text.startswith("-")
        amount = step.short.lstrip("-")
        rise = (
            f"{i}{'--' if down else '++'}"
            if amount == "1"
            else (f"{i} {'-' if down else '+'}= {amount}")
        )
        if op.unroll >= 0:
            em.out.directive("#pragma unroll" + (f" {op.unroll}" if op.unroll else ""))
        compare = ">" if down else "<"
        em.out.line(
            f"for ({declarator(t)} {i} = {start.short}; {i} {compare} {stop.at(12)}; {rise}) {{"
        )
        with em.out.indented():
            em.block(op.body, variables)
        em.out.line("}")
    _bind(em, op.results, variables)


def _invariant(em: Emitter, e: Expr, t: Type, changed: set[str], hint: str) -> Expr:
    """`e`, which the loop's header evaluates every time, as something that does not change."""
    if e.memory or e.reads & changed or (not e.trivial and "/" in e.text):
        return em.simple(_copy(e), element_type(t), hint)
    return e


def _copy(e: Expr) -> Expr:
    """The same expression, but not so trivial that a variable could stand for itself."""
    return replace(e, level=Level.UNARY) if e.reads else e


@emits(control.While)
def while_loop(em: Emitter, op: control.While) -> None:
    variables = Carried(em, op, op.inits).declare(em, op.before.args)
    last = op.before.ops[-1]
    assert isinstance(last, control.Condition), "checked by the verifier"
    # What `condition` hands on: mostly the carried values themselves, else other variables.
    handed = [
        variable if value is arg else Variable(_declare(em, arg.type, _hint(value, arg)), arg.type)
        for variable, value, arg in zip(variables, last.values, op.before.args, strict=True)
    ]
    with em.scope():
        _bind(em, op.before.args, variables)
        with em.out.indented(), em.out.aside() as before:
            em.block(op.before)
            go_on = em.expr(last.go_on)
            others = [n for n, v in enumerate(handed) if v is not variables[n]]
            if go_on.reads & {handed[n].name for n in others}:
                go_on = em.simple(go_on, BOOL)
            for n, value in enumerate(last.values):
                if n not in others:
                    em.operand(value)
            em.assign([handed[n] for n in others], [em.operand(last.values[n]) for n in others])
        if before:
            em.out.line("while (true) {")
            em.out.splice(before)
            with em.out.indented():
                em.out.line(f"if ({logical_not(go_on).text}) break;")
        else:
            em.out.line(f"while ({go_on.text}) {{")
        with em.out.indented():
            _bind(em, op.body.args, handed)
            body = [
                Variable(v.name, v.type, arg if v is h else None)
                for v, h, arg in zip(variables, handed, op.body.args, strict=True)
            ]
            em.block(op.body, body)
        em.out.line("}")
    _bind(em, op.results, handed)


@emits(control.If)
def branch(em: Emitter, op: control.If) -> None:
    if op in em.facts.guards:
        _guard(em, op)
        return
    if op in em.facts.choices:
        _choice(em, op)
        return
    condition = em.expr(op.condition)
    shared = [em.destinations.get(r) for r in op.results]
    kept = [v for v in shared if v is not None]
    for v in kept:
        em.pin(v)
    em.flush(em.facts.writes(op), {v.name for v in kept})
    targets = [
        variable or Variable(_declare(em, r.type, _hint(r)), r.type)
        for variable, r in zip(shared, op.results, strict=True)
    ]
    em.out.at(op.loc)
    then = _arm(em, op.then, targets)
    orelse = _arm(em, op.orelse, targets)
    if not then and orelse:
        condition, then, orelse = logical_not(condition), orelse, []
    em.out.line(f"if ({condition.text}) {{")
    em.out.splice(then)
    if _single_if(orelse):
        em.out.splice(_chained(orelse))
    else:
        if orelse:
            em.out.line("} else {")
            em.out.splice(orelse)
        em.out.line("}")
    _bind(em, op.results, targets)


def _arm(em: Emitter, block: Block, targets: Sequence[Variable]) -> list[str]:
    with em.scope(), em.out.indented(), em.out.aside() as lines:
        em.block(block, targets)
    return lines


def _choice(em: Emitter, op: control.If) -> None:
    """A branch as `condition ? a : b`."""
    condition = em.expr(op.condition)
    if len(op.results) > 1:
        condition = em.simple(condition, BOOL)
    arms = [_expressions(em, block) for block in (op.then, op.orelse)]
    for r, a, b in zip(op.results, *arms, strict=True):
        if isinstance(r.type, PtrType):
            em.define(r, Place(conditional(condition, a, b), None, r.type))
        else:
            em.define(r, choose(condition, a, b, element_type(r.type)))


def _guard(em: Emitter, op: control.If) -> None:
    """A branch as `condition && x` or `condition || x`, where C++ evaluates `x` only if needed."""
    condition = em.expr(op.condition)
    symbol = em.facts.guards[op]
    used, settled = (op.then, op.orelse) if symbol == "&&" else (op.orelse, op.then)
    assert len(settled.ops[-1].operands) == 1, "one result"
    e = binary(symbol, condition, _expressions(em, used)[0])
    if synchronises(op):
        em.effect_value(op, e)
    else:
        em.define(op.results[0], e)


def _expressions(em: Emitter, block: Block) -> list[Expr]:
    """The values of a block that is nothing but expressions."""
    before, em.inline_only = em.inline_only, True
    for o in block.ops[:-1]:
        EMITTERS[type(o)](em, o)
    em.inline_only = before
    return [em.expr(v) for v in block.ops[-1].operands]


def _single_if(lines: list[str]) -> bool:
    """Whether the lines are one `if` statement and nothing else."""
    if not lines or lines[0].startswith("#"):
        return False
    margin = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    tops = [row for row in lines if row.startswith(margin) and not row[len(margin)].isspace()]
    return (
        tops[0].lstrip().startswith("if (")
        and all(row.lstrip().startswith("}") for row in tops[1:])
        and len(tops) > 1
    )


def _chained(lines: list[str]) -> list[str]:
    """An `if` statement of an else branch, one level further out: `} else if (...) {`."""
    first, *rest = (row if row.startswith("#") else row[2:] for row in lines)
    margin = len(first) - len(first.lstrip())
    return [f"{first[:margin]}}} else {first[margin:]}", *rest]


@emits(control.Yield, control.Condition)
def nothing(em: Emitter, op: Op) -> None:
    """Terminators are written by the operation whose region they end."""


@emits(control.Return)
def ret(em: Emitter, op: control.Return) -> None:
    """The end of the kernel's body is its return."""


@emits(control.Assert)
def assertion(em: Emitter, op: control.Assert) -> None:
    em.prelude.use("require")
    condition = em.expr(op.condition)
    em.statement(op, f"require({condition.text}, {quoted(op.message or 'assertion failed')});")


@emits(control.Printf)
def printf(em: Emitter, op: control.Printf) -> None:
    args = []
    for v in op.values:
        e, t = em.expr(v), element_type(v.type)
        args.append(convert(em, e, t, F32) if t.name in PATTERNS else e)
    em.statement(op, call("printf", Expr(quoted(op.format)), *args).text + ";")


def quoted(text: str) -> str:
    """A C string literal.

    >>> quoted('a"b' + chr(10))
    '"a\\\\"b\\\\n"'
    """
    out = []
    for character in text:
        if character in '"\\':
            out.append("\\" + character)
        elif character == "\n":
            out.append("\\n")
        elif 32 <= ord(character) < 127:
            out.append(character)
        else:
            out += [f"\\{byte:03o}" for byte in character.encode()]
    return '"' + "".join(out) + '"'
