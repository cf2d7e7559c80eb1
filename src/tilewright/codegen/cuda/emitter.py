"""The state of writing one kernel: which text each value has, and what must be written first.

A value is *bound* to text that may be repeated (a variable, a number), or *pending*: its
expression waits to be put into its use.  Before anything is written that could change what a
pending expression reads, memory or a mutable variable, the expression is given a variable of its
own (`flush`).  A pure value with several uses gets one at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from tilewright.codegen.cuda.analysis import Analysis
from tilewright.codegen.cuda.expr import Access, Expr, Level, name, number
from tilewright.codegen.cuda.flight import retired_by_wait
from tilewright.codegen.cuda.index_formula import Picked
from tilewright.codegen.cuda.names import Names
from tilewright.codegen.cuda.operands import Operand, Place, Variable, Vec, array_vec
from tilewright.codegen.cuda.prelude import Prelude
from tilewright.codegen.cuda.ranges import NonNegative
from tilewright.codegen.cuda.spelling import alignment, ctype, declarator
from tilewright.codegen.cuda.writer import Writer
from tilewright.ir.core import Block, Func, Op, Value
from tilewright.ir.ops import control
from tilewright.ir.types import PtrType, ScalarType, Space, Type, VecType
from tilewright.numeric.dtypes import DType

_LONG = 88
"""An expression of more characters gets a variable of its own."""
_NAMED = 24
"""The same, if the author gave it a name."""

AnyOp = TypeVar("AnyOp", bound=Op)
Handler = Callable[["Emitter", AnyOp], None]
EMITTERS: dict[type[Op], Callable[[Emitter, Op], None]] = {}
"""How each operation is written; filled by the `emit_*` modules."""


def emits(*kinds: type[Op]) -> Callable[[Handler[AnyOp]], Handler[AnyOp]]:
    """Registers a function as the emitter of some operations."""

    def register(handler: Handler[AnyOp]) -> Handler[AnyOp]:
        for kind in kinds:
            assert kind not in EMITTERS, f"{kind.name} has two emitters"
            EMITTERS[kind] = handler  # type: ignore[assignment]
        return handler

    return register


@dataclass(slots=True)
class _Pending:
    operand: Operand
    remaining: int


class Emitter:
    """Writes one kernel."""

    def __init__(self, func: Func, line_info: bool, reserved: Iterable[str] = ()) -> None:
        self.func = func
        self.facts = Analysis(func)
        self.non_negative = NonNegative(func)
        self.names = Names()
        for word in reserved:
            self.names.reserve(word)
        self.out = Writer(line_info)
        self.prelude = Prelude()
        self.destinations: dict[Value, Variable] = {}
        """Results of loops and branches that live in a variable of the enclosing block."""
        self.retired = retired_by_wait(func)
        self.induction: set[Value] = set()
        """The loop variables: only their loop's header may assign to them."""
        self.inline_only = False
        """Inside an arm of a conditional expression no statement can be written."""
        self._bound: dict[Value, Operand] = {}
        self._pending: dict[Value, _Pending] = {}

    # ---- values

    def operand(self, value: Value) -> Operand:
        """The text of a use of `value`; counts as that use."""
        pending = self._pending.get(value)
        if pending is None:
            return self._bound[value]
        pending.remaining -= 1
        if pending.remaining == 0:
            del self._pending[value]
        return pending.operand

    def expr(self, value: Value) -> Expr:
        e = self.operand(value)
        if isinstance(e, Place):
            return e.pointer()
        assert isinstance(e, Expr), f"{value} is not a scalar"
        return e

    def vec(self, value: Value) -> Vec:
        v = self.operand(value)
        assert isinstance(v, Vec), f"{value} is not a vector"
        return v

    def place(self, value: Value) -> Place:
        p = self.operand(value)
        if isinstance(p, Expr):
            assert isinstance(value.type, PtrType), f"{value} is not a pointer"
            return Place(p, None, value.type)
        assert isinstance(p, Place), f"{value} is not a pointer"
        return p

    def set(self, value: Value, operand: Operand) -> None:
        """Binds `value` to text that may be repeated and never changes its meaning."""
        self._bound[value] = operand

    def define_variable(self, value: Value, variable: Variable) -> None:
        """Gives `value` a mutable variable; its uses count, so that `flush` can save it."""
        uses = self.facts.uses.get(value, 0)
        if uses:
            self._pending[value] = _Pending(variable.operand(), uses)

    def pin(self, variable: Variable) -> None:
        """The value in `variable` has no use after the branch that is written now: no `flush`."""
        held = variable.holds
        if isinstance(held, Value) and held in self._pending:
            del self._pending[held]
            self._bound[held] = variable.operand()

    def define(self, value: Value, operand: Operand, hint: str = "") -> None:
        """Gives `value` its text: as a variable now, or inside the expression that uses it."""
        uses = self.facts.uses.get(value, 0)
        if operand.trivial and not operand.reads and not operand.memory:
            self._bound[value] = operand
        elif uses == 0:
            return
        elif operand.trivial or (uses == 1 and self._inlines(value, operand)):
            self._pending[value] = _Pending(operand, uses)
        else:
            self.materialise(value, operand, hint)

    def _inlines(self, value: Value, operand: Operand) -> bool:
        if self.inline_only:
            return True
        if self.facts.used_in_deeper_loop(value):
            return False
        if isinstance(operand, Expr):
            return len(operand.text) <= (_NAMED if value.name else _LONG)
        return True

    def materialise(self, value: Value, operand: Operand, hint: str = "") -> None:
        """Declares a constant that holds `value`."""
        self._bound[value] = self.constant(operand, value.type, value.name or hint)

    def constant(self, operand: Operand, t: Type, hint: str = "") -> Operand:
        """A new constant with the value of `operand`."""
        if isinstance(operand, Vec):
            assert isinstance(t, VecType), "a vector has a vector type"
            array = self.array(t.dtype, t.count, hint)
            self.fill(Place(name(array), None, PtrType(t.dtype, Space.RMEM, 16)), operand)
            return array_vec(array, t.dtype, t.count)
        text = self.names.fresh(hint)
        if isinstance(operand, Place):
            pointer = declarator(operand.type, operand.const)
            self.out.line(f"{pointer} {text} = {operand.pointer().short};")
            return Place(name(text), None, operand.type, operand.const)
        self.out.line(f"const {declarator(t)} {text} = {operand.short};")
        return name(text)

    def simple(self, e: Expr, dtype: DType, hint: str = "") -> Expr:
        """`e`, in a variable unless it is as good as one."""
        if e.trivial:
            return e
        held = self.constant(e, ScalarType(dtype), hint)
        assert isinstance(held, Expr), "the constant of a scalar"
        return held

    def array(self, dtype: DType, count: int, hint: str = "") -> str:
        """Declares an array without values; returns its name."""
        text = self.names.fresh(hint)
        self.out.line(f"{alignment(dtype, count)}{ctype(dtype)} {text}[{count}];")
        return text

    # ---- statements

    def statement(self, op: Op, text: str) -> None:
        """Writes a statement with the effect of `op`."""
        self.flush(self.facts.writes(op))
        self.out.line(text)

    def effect_value(self, op: Op, e: Expr) -> None:
        """Evaluates `e`, which has an effect, here and now, as the result of `op`."""
        self.flush(self.facts.writes(op))
        result = op.results[0]
        if self.facts.uses.get(result, 0) == 0:
            self.out.line(f"{e.text};")
        elif self.facts.consumed_at_once(op):
            self._pending[result] = _Pending(e, 1)
        else:
            self.materialise(result, e)

    def flush(self, writes: Iterable[Access] = (), variables: Iterable[str] = ()) -> None:
        """Gives variables to the pending expressions that read what is about to change."""
        if not self._pending:
            return
        names = frozenset(variables)
        writes = tuple(writes)
        for value, pending in list(self._pending.items()):
            operand = pending.operand
            if not operand.reads.isdisjoint(names) or any(
                access.conflicts(write) for access in operand.memory for write in writes
            ):
                del self._pending[value]
                self.materialise(value, operand)

    def fill(self, into: Place, vec: Vec, indices: Sequence[int] | None = None) -> None:
        """Stores the elements of `vec` at `into`, in packed pairs where both sides allow it.

        Element `i` goes to `indices[i]`, or to `i` if there are none.
        """
        picked = Picked(indices)
        bits = vec.dtype.storage_bits
        packs = vec.count % 2 == 0 and bits < 32 and into.type.align % (bits // 4) == 0
        packs = packs and picked.pairs
        pair = vec.pair if packs else None
        step = 2 if pair else 1

        def store(index: Expr) -> str:
            if pair is None:
                return f"{into.at(picked(index)).text} = {vec.element(index).short};"
            word = "u32" if bits == 16 else "u16"
            target = into.plus(picked(index)).at(Level.UNARY)
            return f"*({word}*){target} = {pair(index).short};"

        if not (vec.symbolic and picked.symbolic) or vec.count <= 2 * step:
            for i in range(0, vec.count, step):
                self.out.line(store(number(i)))
            return
        with self.element_loop(0, vec.count, step) as index:
            self.out.line(store(index))

    @contextmanager
    def element_loop(self, start: int, stop: int, step: int = 1) -> Iterator[Expr]:
        """An unrolled loop over the elements of a vector; gives the index."""
        with self.scope():
            i = self.names.fresh("i")
            rise = f"{i}++" if step == 1 else f"{i} += {step}"
            self.out.directive("#pragma unroll")
            self.out.line(f"for (int {i} = {start}; {i} < {stop}; {rise}) {{")
            with self.out.indented():
                yield name(i)
            self.out.line("}")

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.names.open()
        try:
            yield
        finally:
            self.names.close()

    # ---- blocks

    def block(self, block: Block, targets: Sequence[Variable] = ()) -> None:
        """Writes the operations of a block and, unless it ends otherwise, hands its values on."""
        last = block.ops[-1]
        if isinstance(last, control.Yield):
            self._coalesce(block, last.operands, targets)
        for op in block.ops[:-1]:
            self.emit(op)
        self.out.at(last.loc)
        if isinstance(last, control.Yield):
            self.assign(targets, [self.operand(v) for v in last.operands])

    def emit(self, op: Op) -> None:
        self.out.at(op.loc)
        EMITTERS[type(op)](self, op)

    def _coalesce(self, block: Block, values: Sequence[Value], targets: Sequence[Variable]) -> None:
        """Lets results of inner loops and branches live in the variables they end up in.

        Allowed where the variable's old value has no use after that operation (for loops: none
        inside either).
        """
        inside = {id(op) for op in block.ops}
        for value, target in zip(values, targets, strict=True):
            op = value.owner
            if not isinstance(op, control.For | control.While | control.If):
                continue
            if id(op) not in inside or self.facts.uses[value] != 1:
                continue
            held = target.holds
            last = self.facts.last_use.get(held, -1) if isinstance(held, Value) else -1
            limit = self.facts.end[op] if isinstance(op, control.If) else self.facts.index[op]
            if last <= limit:
                self.destinations[value] = target

    def assign(self, targets: Sequence[Variable], values: Sequence[Operand]) -> None:
        """All targets get their values at once: order and temporaries are chosen for that."""
        todo = [(t, v) for t, v in zip(targets, values, strict=True) if _text(v) != t.name]
        changed = {t.name for t, _ in todo}
        for n, (target, value) in enumerate(todo):
            if isinstance(value, Vec) and not (
                value.reads.isdisjoint(changed)
                or (value.pointwise and value.reads & changed == {target.name})
            ):
                todo[n] = (target, self.constant(value, target.type))
        self.flush((), changed)
        while todo:
            ready = next((n for n, (t, _) in enumerate(todo) if not _read(t, n, todo)), None)
            if ready is None:
                # Every target is still read by another assignment: hold one value in a constant.
                target, value = todo[0]
                todo[0] = (target, self.constant(value, target.type, f"next_{target.name}"))
                continue
            target, value = todo.pop(ready)
            self.store(target, value)

    def store(self, target: Variable, value: Operand) -> None:
        """`target = value;`"""
        if isinstance(value, Vec):
            assert isinstance(target.type, VecType), "a vector is kept in an array"
            place = PtrType(target.type.dtype, Space.RMEM, 16)
            self.fill(Place(name(target.name), None, place), value)
            return
        e = value.pointer() if isinstance(value, Place) else value
        self.out.line(assignment(target.name, e))


_COMPOUND = frozenset(("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"))


def assignment(target: str, e: Expr) -> str:
    """`target = e;` in its shortest form.

    >>> from tilewright.codegen.cuda.expr import binary
    >>> assignment("i", binary("+", name("i"), number(1))), assignment("i", name("j"))
    ('i++;', 'i = j;')
    """
    if e.binary is not None and e.binary[1].text == target and e.binary[0] in _COMPOUND:
        op, _, right = e.binary
        if op in "+-" and right.short == "1":
            return f"{target}{op}{op};"
        # NOTE: only a literal may lose its cast: f32 *= f64 would multiply in double.
        return f"{target} {op}= {right.short if right.literal else right.text};"
    return f"{target} = {e.short};"


def _text(value: Operand) -> str:
    if isinstance(value, Vec):
        return value.array
    return value.pointer().text if isinstance(value, Place) else value.text


def _read(target: Variable, n: int, todo: Sequence[tuple[Variable, Operand]]) -> bool:
    """Whether an assignment other than number `n` still reads `target`."""
    return any(target.name in v.reads for m, (_, v) in enumerate(todo) if m != n)
