"""Builds IR one operation at a time, simplifying as it goes.

The builder keeps a stack of blocks; `emit` appends to the innermost one.  A pure operation whose
operands are constants, or that does nothing (`x + 0`), is not appended: `emit` hands back the
value it equals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tilewright.errors import Loc
from tilewright.ir.core import AttrValue, Block, Effect, Op, Value
from tilewright.ir.evaluate import Number, evaluate, foldable, wrap
from tilewright.ir.ops import arith, memory
from tilewright.ir.types import BOOLEAN, ScalarType
from tilewright.numeric.dtypes import DType


def constant_value(value: Value) -> Number | None:
    """The number that a value is known to be, or None."""
    owner = value.owner
    return owner.value if isinstance(owner, arith.Constant) else None


def simplify(op: Op) -> Value | Number | None:
    """What a pure operation equals without running it: a value, a number, or None (unknown).

    >>> from tilewright.numeric.dtypes import I32
    >>> x = Value(ScalarType(I32)); b = Builder(); zero = b.constant(0, I32)
    >>> simplify(arith.Add((x, zero))) is x
    True
    """
    known = [constant_value(v) for v in op.operands]
    if not isinstance(op, arith.Constant) and op.results and None not in known and foldable(op):
        return evaluate(op, known)  # type: ignore[arg-type]
    return _identity(op, known)


def _identity(op: Op, known: Sequence[Number | None]) -> Value | Number | None:
    kind, args = type(op), op.operands
    out = op.results[0].type
    integer = isinstance(out, ScalarType) and not out.dtype.is_float
    if kind is arith.Select and known[0] is not None:
        return args[1] if known[0] else args[2]
    if kind is arith.Cast and args[0].type == op.results[0].type:
        return args[0]
    if kind is memory.Offset and known[1] == 0:
        return args[0]
    if not integer:
        return None
    if kind in (arith.Add, arith.Or, arith.Xor):
        return args[0] if known[1] == 0 else args[1] if known[0] == 0 else None
    if kind in (arith.Sub, arith.Shl, arith.Shr) and known[1] == 0:
        return args[0]
    if kind is arith.Mul:
        if 0 in known:
            return 0
        return args[0] if known[1] == 1 else args[1] if known[0] == 1 else None
    if kind is arith.FloorDiv and known[1] == 1:
        return args[0]
    if kind is arith.Mod and known[1] == 1:
        return 0
    if kind is arith.And and 0 in known:
        return 0
    if kind is arith.And and op.results[0].type == BOOLEAN:
        return args[0] if known[1] else args[1] if known[0] else None
    return None


class Builder:
    """Appends operations to the innermost open block."""

    def __init__(self, block: Block | None = None) -> None:
        self.blocks: list[Block] = [block if block is not None else Block()]

    @property
    def block(self) -> Block:
        return self.blocks[-1]

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Appends to `block` until the end of the `with` statement."""
        self.blocks.append(block)
        try:
            yield block
        finally:
            self.blocks.pop()

    def append(self, op: Op) -> Op:
        """Appends without simplifying."""
        self.block.ops.append(op)
        return op

    def constant(self, value: Number, dtype: DType, loc: Loc | None = None) -> Value:
        number = wrap(value, dtype)
        return self.append(
            arith.Constant((), {"value": number, "dtype": dtype.name}, loc=loc)
        ).results[0]

    def emit(
        self,
        kind: type[Op],
        /,
        *operands: Value,
        loc: Loc | None = None,
        regions: Sequence[Block] = (),
        name: str = "",
        **attrs: AttrValue,
    ) -> Op:
        """Appends an operation that is not pure, or whose results are of interest as a whole."""
        op = kind(operands, attrs, regions, loc)
        if name:
            for v in op.results:
                v.name = name
        return self.append(op)

    def value(
        self,
        kind: type[Op],
        /,
        *operands: Value,
        loc: Loc | None = None,
        name: str = "",
        **attrs: AttrValue,
    ) -> Value:
        """The single result of an operation, which is appended only if it does not simplify."""
        op = kind(operands, attrs, (), loc)
        if op.effect is Effect.PURE:
            known = simplify(op)
            if isinstance(known, Value):
                return known
            if known is not None:
                t = op.results[0].type
                assert isinstance(t, ScalarType), "only scalars fold"
                return self.constant(known, t.dtype, loc)
        if name:
            op.results[0].name = name
        self.append(op)
        return op.results[0]
