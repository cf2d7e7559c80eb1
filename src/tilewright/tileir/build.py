"""Building Tile IR from Python: operations by their names, types as text.

>>> from tilewright.tileir.printer import print_text
>>> m = ModuleBuilder("m")
>>> with m.entry("scale", p="tile<ptr<f32>>", factor="tile<f32>") as b:
...     p, factor = b.args
...     x, loaded = b("load_ptr_tko", p, memory_ordering_semantics="weak", types="tile<f32>")
...     y = b("mulf", x, factor)
...     done = b("store_ptr_tko", p, y, token=loaded, memory_ordering_semantics="weak")
>>> print(print_text(m.verified()), end="")
cuda_tile.module @m {
  entry @scale(%p: tile<ptr<f32>>, %factor: tile<f32>) {
    %0, %1 = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
    %2 = mulf %0, %factor : tile<f32>
    %3 = store_ptr_tko weak %p, %2 token = %1 : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from tilewright.errors import VerifyError
from tilewright.ir.core import Block, Op, Value, optional, variadic
from tilewright.ir.ops.tile import control, module
from tilewright.ir.ops.tile.base import TileOp
from tilewright.ir.ops.tile.registry import BY_MNEMONIC, operation
from tilewright.ir.ops.tile.shape import Constant
from tilewright.ir.tile_attrs import DenseAttr, TypeAttr
from tilewright.ir.tile_types import FunctionType, NumberType, TileIrType, TileType
from tilewright.numeric.encode import encode
from tilewright.tileir.draft import Draft
from tilewright.tileir.read_types import TypeReader
from tilewright.tileir.source import Cursor, Source
from tilewright.tileir.verify import verify

Typed = str | TileIrType


def type_of(text: Typed) -> TileIrType:
    """A type from its text.

    Raises: VerifyError at what does not fit.

    >>> type_of("tile<4x8xptr<f16>>").shape
    (4, 8)
    """
    if isinstance(text, TileIrType):
        return text
    cursor = Cursor(Source(text, "<type>"))
    found = TypeReader(cursor, {}).type()
    if cursor.peek().kind != "end":
        raise cursor.error("expected the end of the type")
    return found


def _declared(mnemonic: str) -> type[TileOp]:
    kind = operation(mnemonic)
    if kind is None:
        near = difflib.get_close_matches(mnemonic, BY_MNEMONIC, n=1)
        hint = f"did you mean {near[0]}?" if near else ""
        raise VerifyError(f"Tile IR has no operation {mnemonic!r}", hint=hint)
    return kind


class TileBuilder:
    """Appends operations to a block.  Calling it gives an operation's results."""

    def __init__(self, block: Block) -> None:
        self.block = block

    @property
    def args(self) -> tuple[Value, ...]:
        """The block's arguments."""
        return tuple(self.block.args)

    def nested(self, *types: Typed) -> TileBuilder:
        """A builder of a new block with such arguments, for an operation's `regions`."""
        return TileBuilder(Block([type_of(t) for t in types]))

    def __call__(self, mnemonic: str, /, *operands: Value, **fields: Any) -> Any:
        """What `op` appends: its one result, or a tuple of them."""
        results = self.op(mnemonic, *operands, **fields).results
        return results[0] if len(results) == 1 else results

    def op(
        self,
        mnemonic: str,
        /,
        *operands: Value,
        types: Typed | Sequence[Typed] = (),
        regions: Sequence[TileBuilder | Block] = (),
        **fields: Any,
    ) -> TileOp:
        """Appends an operation.

        `operands` fill the operand groups in the declaration's order, the last that takes many
        takes the rest; groups and attributes may be named instead.  `types` are those of results
        whose type does not follow from the operands.
        Raises: VerifyError for an operation that Tile IR does not have, and for operands or types
        that are missing or too many.
        """
        kind = _declared(mnemonic)
        groups = _grouped(kind, operands, fields)
        given = [types] if isinstance(types, str | TileIrType) else list(types)
        made = kind(
            [v for values in groups.values() for v in values],
            fields,
            [r.block if isinstance(r, TileBuilder) else r for r in regions],
            None,
            _result_types(kind, groups, [type_of(t) for t in given]),
            [len(values) for values in groups.values()],
        )
        self.block.ops.append(made)
        return made

    def constant(self, numbers: float | Sequence[float], of: Typed) -> Value:
        """A tile of one number, or of all its numbers in row-major order.

        >>> b = TileBuilder(Block())
        >>> b.constant(1, "tile<4xi32>").owner.attrs["value"].bits
        (1,)
        """
        t = type_of(of)
        if not isinstance(t, TileType) or not isinstance(t.element, NumberType):
            raise VerifyError(f"constant: expected a tile of numbers as its type, got {t}")
        listed = list(numbers) if isinstance(numbers, Sequence) else [numbers]
        if len(listed) not in (1, t.size):
            raise VerifyError(f"constant: {len(listed)} numbers for {t}, expected 1 or {t.size}")
        row = t.element.row
        if row.is_float:
            bits = tuple(int(encode(float(n), row, "rn")) for n in listed)
        else:
            bits = tuple(int(n) & ((1 << row.bits) - 1) for n in listed)
        made = Constant((), {"value": DenseAttr(t, bits)}, result_types=[t])
        self.block.ops.append(made)
        return made.results[0]


class ModuleBuilder:
    """A module to fill with entries; `top` holds it as a parsed text would."""

    def __init__(self, name: str) -> None:
        self.body = Block()
        self.top = Block()
        self.top.ops.append(module.Module((), {"sym_name": name}, [self.body]))

    @contextmanager
    def entry(self, name: str, /, **parameters: Typed) -> Iterator[TileBuilder]:
        """Builds a kernel with these parameters; a missing `return` at its end is added."""
        types = [type_of(t) for t in parameters.values()]
        builder = TileBuilder(Block(types, list(parameters)))
        yield builder
        if not builder.block.ops or not builder.block.ops[-1].terminator:
            builder.block.ops.append(control.Return())
        signature = TypeAttr(FunctionType(tuple(types), ()))
        attrs: dict[str, Any] = {"sym_name": name, "function_type": signature}
        self.body.ops.append(module.Entry((), attrs, [builder.block]))

    def verified(self) -> Block:
        """The finished module.  Raises: VerifyError for the first broken rule."""
        verify(self.top)
        return self.top


def _grouped(
    kind: type[Op], operands: Sequence[Value], fields: dict[str, Any]
) -> dict[str, list[Value]]:
    """The values of each operand group; what is named is taken out of `fields`."""
    waiting = list(operands)
    found: dict[str, list[Value]] = {}
    for group in kind.GROUPS:
        label = group.label
        if label in fields:
            named = fields.pop(label)
            found[label] = list(named) if isinstance(named, Sequence) else [named]
        elif isinstance(group, variadic) and group is kind.GROUPS[-1]:
            found[label], waiting = waiting, []
        else:
            found[label] = [waiting.pop(0)] if waiting and not isinstance(group, variadic) else []
            if not found[label] and not isinstance(group, optional | variadic):
                raise VerifyError(f"{kind.name}: the operand {label!r} is missing")
    if waiting:
        raise VerifyError(f"{kind.name}: {len(waiting)} operands too many")
    return found


def _result_types(
    kind: type[TileOp], groups: dict[str, list[Value]], given: list[TileIrType]
) -> list[TileIrType]:
    """The types of the results: those that follow, the rest from `given` in order."""
    draft = Draft(kind, 0, 0)
    draft.types = {
        label: [cast(TileIrType, v.type) for v in vs] for label, vs in groups.items() if vs
    }
    found: list[TileIrType] = []
    for out in kind.RESULTS:
        assert out.constraint is not None, "the tile vocabulary's results have given types"
        types = draft.types_for(out.label, 1, out.constraint)
        if types is None and not given:
            raise VerifyError(f"{kind.name}: the type of {out.label!r} does not follow, give types")
        found += types or [given.pop(0)]
    if kind.MORE_RESULTS is not None:
        return found + given
    if given:
        raise VerifyError(f"{kind.name}: {len(given)} result types too many")
    return found
